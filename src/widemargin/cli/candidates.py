"""The classifier that a command is about, behind one face: a model of any kind, or a file of predictions.

`widemargin.cli.onnx_model` has one more kind, and `widemargin.cli.subjects` opens the files.
"""

import inspect
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widemargin._typing import Classifier, Features, Label
from widemargin.cli.tables.column_roles import is_it
from widemargin.cli.tables.csv_reading import CSV_ENDINGS, likely_separator
from widemargin.cli.tables.table_files import Block, TableBlocks
from widemargin.cli.tables.table_writing import plain, plain_text
from widemargin.exceptions import (
    CapabilityError,
    DataError,
    MissingLibraryError,
    TableWarning,
    WidemarginError,
)
from widemargin.preprocessing import TableSchema

__all__ = ["PREDICTION", "Answer", "Candidate", "FrameModel", "PredictionsFile", "Renamed", "TableModel", "lacking"]


class Answer(NamedTuple):
    """What a classifier says of the rows of a block.

    Attributes
    ----------
    labels : array of shape (n,)
    ramp : ndarray of shape (n,) or None
        Of the randomised classifier: probability of `classes[1]`.
    scores, probabilities : ndarray of shape (n,) or (n, n_classes), or None
        `decision_function` and `predict_proba`; of two classes for the second one.
    """

    labels: npt.NDArray[Any]
    ramp: Any = None
    scores: Any = None
    probabilities: Any = None


class Candidate(Protocol):
    """A classifier of a command.

    Attributes
    ----------
    title : str
    classes : list or None
        In its own order; None: not known.
    features : list of str or None
        Columns that it reads; None: not known, the goals file says.
    words : list of str
        Columns of a CSV file that it reads as text.
    """

    title: str
    classes: list[Any] | None
    features: list[str] | None
    words: list[str]

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """Labels (and the ramp) of the rows; scores and probabilities too, if everything is asked for."""
        ...

    def finish(self) -> list[str]:
        """What is to be said when all blocks have been answered."""
        ...


class TableModel:
    """A pipeline that starts with `make_preprocessor`: it takes tables, and checks them."""

    def __init__(self, model: Any, title: str) -> None:
        self.title = title
        self.classes: list[Any] | None = np.asarray(model.classes_).tolist()
        schema: TableSchema = (model[0] if hasattr(model, "steps") else model).schema_
        self.features: list[str] | None = list(schema.names)
        self.words = [column.name for column in schema.of_kind("word")]
        self.schema = schema
        self.last = model[-1] if hasattr(model, "steps") else model
        self._before = model[:-1] if hasattr(model, "steps") else None
        self._blocks = 0
        self._fallbacks: list[str] = []

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                X = block.table if self._before is None else self._before.transform(block.table)
            except DataError as error:
                raise _of_file(error, block) from error
        self._blocks += 1
        for item in caught:
            if issubclass(item.category, TableWarning):
                self._fallbacks.append(str(item.message))
            else:
                warnings.warn(str(item.message), item.category, stacklevel=2)
        return _answer(self.last, X, block.table, everything)

    def finish(self) -> list[str]:
        """See `Candidate`."""
        if not self._fallbacks:
            return []
        where = f" (in {len(self._fallbacks)} of {self._blocks} blocks of rows; this is the first)"
        return [self._fallbacks[0] + where * (self._blocks > 1)]


class FrameModel:
    """Any other model with `predict`: it gets its feature columns, or those of the goals file, as a pandas frame."""

    def __init__(self, model: Classifier, title: str, features: Sequence[str] | None) -> None:
        self.title, self.last = title, model
        self.words: list[str] = []
        own = getattr(model, "classes_", None)
        self.classes: list[Any] | None = None if own is None else np.asarray(own).tolist()
        named = getattr(model, "feature_names_in_", None)
        chosen = features if named is None else [str(name) for name in named]
        self.features: list[str] | None = None if chosen is None else list(chosen)
        self._named = named is not None or not hasattr(model, "n_features_in_")

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        try:
            import pandas  # noqa: F401  # pyarrow makes the frame
        except ImportError:
            raise MissingLibraryError(
                f"{self.title} takes a pandas data frame, and pandas is not installed: pip install 'widemargin[frame]'"
            ) from None
        if self.features is None:
            raise DataError(f"{self.title} does not know its columns. Give the goals file, which names them")
        absent = [name for name in self.features if name not in block.table.column_names]
        if absent:
            raise lacking(block, absent)
        frame = block.table.select(self.features).to_pandas()
        try:
            found = _answer(self.last, frame if self._named else frame.to_numpy(), block.table, everything)
        except WidemarginError:
            raise
        except Exception as error:  # another's model may do anything
            raise DataError(
                f"{self.title} cannot classify these rows ({type(error).__name__}: {str(error)[:200]}). It got the "
                f"columns {', '.join(map(repr, self.features[:10]))}; name others by data.features"
            ) from error
        labels = np.asarray(found.labels)
        if labels.shape[:1] != (block.table.num_rows,) or labels.size != block.table.num_rows:
            raise DataError(f"{self.title} gives an answer of shape {labels.shape} for {block.table.num_rows} rows.")
        return found._replace(labels=labels.reshape(-1))

    def finish(self) -> list[str]:
        """See `Candidate`."""
        return []


PREDICTION = "prediction"
"""What `widemargin predict` calls its column of labels."""


class PredictionsFile:
    """A file of predictions in the place of a model.

    Parameters
    ----------
    given : str
        `FILE` or `FILE:COLUMN`. Without a column: `prediction`, or the only one beside the key.
    key : str or None
        Column by which rows are matched, in this file and in the audited one; None: by their order.
    n_rows : int
        Rows of the audited file, which must be as many where there is no key.

    Raises
    ------
    DataError
        The file or column is not there, the numbers of rows differ, a key stands twice.
    """

    def __init__(self, given: str, key: str | None, n_rows: int) -> None:
        path, column = _parted(given)
        is_csv = path.name.lower().endswith(CSV_ENDINGS)
        separator = likely_separator(path) if is_csv and path.is_file() else None
        blocks = TableBlocks(path, words=[] if key is None else [key], separator=separator)
        column = column or _only(blocks.names, key, path)
        for name in (column, *([] if key is None else [key])):
            if name not in blocks.names:
                raise DataError(f"{path}: there is no column {name!r}.{is_it(name, blocks.names)}")
        parts = list(blocks.read([column, *([] if key is None else [key])]))
        self.title = f"predictions {path}, column {column!r}"
        self.classes: list[Any] | None = None
        self.features: list[str] | None = [] if key is None else [key]
        self.words: list[str] = [] if key is None else [key]
        as_words = plain_text if is_csv else plain
        said = self._said = as_words(_one([part.table[column] for part in parts]))
        if said.null_count:
            raise DataError(f"{path}: column {column!r} has {said.null_count} missing values. Fill them in")
        self.labels: list[Any] = pc.unique(said).to_pylist()
        self._key, self._path = key, path
        self._keys: Any = None
        if key is not None:
            self._keys = as_words(_one([part.table[key] for part in parts]))
            if pc.count_distinct(self._keys, mode="all").as_py() < len(self._keys):
                raise DataError(
                    f"{path}: a value of the key {key!r} stands in more than one row. Give each row its own"
                )
        elif len(said) != n_rows:
            raise DataError(
                f"{path}: {len(said)} predictions for the {n_rows} rows of the audited file. Give one for each, in the "
                "same order, or name a column that both files have by --key"
            )

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        if self._key is None:
            return Answer(self._said.take(pa.array(block.rows)))
        if self._key not in block.table.column_names:
            raise DataError(
                f"the audited table has no column {self._key!r}.{is_it(self._key, block.table.column_names)}"
            )
        wanted = plain(block.table[self._key])
        try:
            place = pc.index_in(wanted, value_set=self._keys.cast(wanted.type))
        except pa.ArrowException as error:
            raise DataError(
                f"the key {self._key!r} holds {wanted.type} in the audited table and {self._keys.type} in "
                f"{self._path}. Give both one type"
            ) from error
        if place.null_count:
            first = wanted[int(np.flatnonzero(np.asarray(pc.is_null(place)))[0])].as_py()
            raise DataError(
                f"{self._path}: {place.null_count} row(s) of the audited table have no prediction, the first has "
                f"{self._key} {first!r}. Add them"
            )
        return Answer(self._said.take(place))

    def finish(self) -> list[str]:
        """See `Candidate`."""
        return []


class Renamed:
    """A candidate with labels of its own (0 and 1, say), told which of them is the positive one."""

    def __init__(self, inner: Candidate, wanted: str, positive: Label, negative: Label) -> None:
        self.inner, self._wanted, self._pair = inner, wanted, (negative, positive)
        self._seen: set[str] = set()
        self.title, self.features, self.words = inner.title, inner.features, inner.words
        own = inner.classes
        self.classes: list[Any] | None = None
        if own is not None:
            if len(own) != 2 or wanted not in map(str, own):
                raise DataError(f"--model-positive {wanted} is none of the classes of {inner.title}: {own}. Correct it")
            self.classes = [self._pair[int(str(label) == wanted)] for label in own]

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        found = self.inner.answer(block, everything=everything)
        texts = np.asarray(found.labels).astype(str)
        self._seen |= set(np.unique(texts).tolist())
        if len(self._seen | {self._wanted}) > 2:
            raise DataError(
                f"{self.title} gives the labels {', '.join(sorted(self._seen))}, and --model-positive is "
                f"{self._wanted}. Two classes are needed: correct --model-positive"
            )
        labels = np.array(self._pair, dtype=object)[(texts == self._wanted).astype(np.intp)]
        return found._replace(labels=labels)

    def finish(self) -> list[str]:
        """See `Candidate`."""
        return self.inner.finish()


def lacking(block: Block, absent: Sequence[str]) -> DataError:
    """The error that the table has no such columns."""
    named = ", ".join(map(repr, absent[:5]))
    return DataError(f"{block.title or 'the table'}: {len(absent)} column(s) are missing: {named}. Add them")


def _of_file(error: DataError, block: Block) -> DataError:
    """An error about some rows, with the name of their file, and the row as the file counts it."""
    place = "" if error.row is None else f". That is row {int(block.rows[error.row])} of the file, counted from 0"
    return DataError(f"{block.title}: {error}{place}" if block.title else str(error))


def _answer(model: Classifier, X: Features, table: pa.Table, everything: bool) -> Answer:
    """Ask an estimator; the table of populations goes to those whose `predict` takes it."""

    def ask(name: str) -> Any:
        method = getattr(model, name, None)
        if method is None:
            return None
        takes = "populations" in inspect.signature(method).parameters
        return method(X, populations=table) if takes else method(X)

    labels, ramp = ask("predict"), ask("randomized_proba")
    if ramp is not None and np.ndim(ramp) == 2:
        ramp = np.asarray(ramp)[:, 1]
    if not everything:
        return Answer(labels, ramp)
    try:
        probabilities = ask("predict_proba")
    except CapabilityError:
        probabilities = None
    if probabilities is not None and np.ndim(probabilities) == 2 and np.shape(probabilities)[1] == 2:
        probabilities = np.asarray(probabilities)[:, 1]
    return Answer(labels, ramp, ask("decision_function"), probabilities)


def _parted(given: str) -> tuple[Path, str | None]:
    """File and column; a file that has a colon in its own name is taken whole."""
    path = Path(given)
    if path.exists() or ":" not in given:
        return path, None
    name, _, column = given.rpartition(":")
    return Path(name), column


def _only(names: list[str], key: str | None, path: Path) -> str:
    others = [name for name in names if name != key]
    if PREDICTION in others:
        return PREDICTION
    if len(others) != 1:
        raise DataError(
            f"{path}: which of the {len(others)} columns holds the predictions ({', '.join(map(repr, others[:10]))})? "
            f"Write {path}:COLUMN"
        )
    return others[0]


def _one(chunks: list[Any]) -> Any:
    words = [plain(chunk) for chunk in chunks]
    return pa.chunked_array([piece for chunk in words for piece in chunk.chunks], words[0].type)
