"""The classifier that a command is about, behind one face: a model of any kind, or a file of predictions.

`widemargin.cli.onnx_model` has one more kind, and `widemargin.cli.models_and_rows` opens the files.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widemargin._text import close_match
from widemargin._typing import Classifier, Features, Label
from widemargin.cli.tables.csv_reading import CSV_ENDINGS, likely_separator
from widemargin.cli.tables.table_files import Block, TableBlocks, plain
from widemargin.cli.tables.table_writing import plain_text
from widemargin.diagnostics.audit import own_setting
from widemargin.diagnostics.robustness import caution_of_bounds, score_facts
from widemargin.exceptions import CapabilityError, DataError, MissingLibraryError, TableWarning, WidemarginError
from widemargin.goals import Goal
from widemargin.rows import ask_model

PREDICTION = "prediction"
"""What `widemargin predict` calls its column of labels."""


class Answer(NamedTuple):
    """The answers of a classifier for the rows of a block.

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


class Candidate(ABC):
    """A classifier of a command.

    Parameters
    ----------
    classes : array-like, default=None
        In its own order; None: not known.
    features : sequence of str, default=None
        Columns that it reads; None: not known, the goals file says.
    words : sequence of str, default=()
        Columns of a CSV file that it reads as text.
    last : estimator, default=None
        Its last step, where it has steps.
    whole : estimator, default=None
        What is asked about scores.
    """

    def __init__(
        self, title: str, classes: Any = None, features: Sequence[str] | None = None, words: Sequence[str] = (),
        last: Any = None, whole: Any = None,
    ) -> None:  # fmt: skip
        self.title, self.words, self.last, self.whole = title, list(words), last, whole
        self.classes: list[Any] | None = None if classes is None else np.asarray(classes).tolist()
        self.features: list[str] | None = None if features is None else list(features)
        self.labels: list[Any] = self.classes or []  # that it may give, as far as is known
        self.abstain: Any = own_setting(last, "abstain")  # what it says where it does not decide
        self._caution: str | None = None  # of what the goal asks about scores

    @abstractmethod
    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """Labels (and the ramp) of the rows; scores and probabilities too, if everything is asked for."""

    def facts(self, goal: Goal, block: Block, y: Any, positive: Any) -> dict[str, Any]:
        """What the goal asks about scores, as `score_facts` gives it; empty where nobody knows."""
        if not goal.facts or self.whole is None:
            return {}
        self._caution = caution_of_bounds(goal.facts, self.whole)
        return score_facts(goal.facts, self.whole, self.rows_in(block), y, positive)

    def rows_in(self, block: Block) -> Any:
        """The rows of a block as the model takes them."""
        return block.table

    def finish(self) -> list[str]:
        """The notes to print when all blocks are done."""
        return [] if self._caution is None else [f"{self.title}: {self._caution}"]

    def columns_in(self, block: Block) -> list[str]:
        """The columns that it reads, which have to be there."""
        if self.features is None:
            raise DataError(f"{self.title} does not know its columns. Give the goals file, which names them")
        absent = [name for name in self.features if name not in block.table.column_names]
        if absent:
            named = ", ".join(map(repr, absent[:5]))
            raise DataError(f"{block.title or 'the table'}: {len(absent)} column(s) are missing: {named}. Add them")
        return self.features

    def failed(self, error: Exception, cure: str) -> WidemarginError:
        """The error that it cannot answer; one of ours stays as it is."""
        if isinstance(error, WidemarginError):
            return error
        what = f"{type(error).__name__}: {str(error)[:200]}"
        return DataError(f"{self.title} cannot classify these rows ({what}). {cure}")


class TableModel(Candidate):
    """A pipeline that starts with `make_preprocessor`: it takes tables, and checks them."""

    def __init__(self, model: Any, title: str) -> None:
        has_steps = hasattr(model, "steps")
        self._before = model[:-1] if has_steps else None
        schema, last = (model[0] if has_steps else model).schema_, model[-1] if has_steps else model
        words = [column.name for column in schema.of_kind("word")]
        super().__init__(title, model.classes_, schema.names, words, last, model)
        self._blocks = 0
        self._fallbacks: list[str] = []

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                X = block.table if self._before is None else self._before.transform(block.table)
            except DataError as error:
                place = "" if error.row is None else str(block.rows[error.row])
                at = f". That is row {place} of the file, counted from 0" if place else ""
                raise DataError(f"{block.title}: {error}{at}" if block.title else str(error)) from error
        self._blocks += 1
        for item in caught:
            if issubclass(item.category, TableWarning):
                self._fallbacks.append(str(item.message))
            else:
                warnings.warn(str(item.message), item.category, stacklevel=2)
        return _answer(self.last, X, block.table, everything)

    def finish(self) -> list[str]:
        """See `Candidate`."""
        where = f" (in {len(self._fallbacks)} of {self._blocks} blocks of rows; this is the first)"
        return [*(text + where * (self._blocks > 1) for text in self._fallbacks[:1]), *super().finish()]


class FrameModel(Candidate):
    """Any other model with `predict`: it gets its feature columns, or those of the goals file, as a pandas frame."""

    def __init__(self, model: Classifier, title: str, features: Sequence[str] | None) -> None:
        named = getattr(model, "feature_names_in_", None)
        chosen = features if named is None else [str(name) for name in named]
        super().__init__(title, getattr(model, "classes_", None), chosen, last=model, whole=model)
        self._named = named is not None or not hasattr(model, "n_features_in_")

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        try:
            import pandas  # noqa: F401  # pyarrow makes the frame
        except ImportError:
            fact = f"{self.title} takes a pandas data frame, and pandas is not installed"
            raise MissingLibraryError.of(fact, "frame") from None
        columns, X = self.columns_in(block), self.rows_in(block)
        try:
            answer = _answer(self.last, X, block.table, everything)
        except Exception as error:  # another's model may do anything
            cure = f"It got the columns {', '.join(map(repr, columns[:10]))}; name others by data.features"
            raise self.failed(error, cure) from error
        labels = np.asarray(answer.labels)
        if labels.shape[:1] != (block.table.num_rows,) or labels.size != block.table.num_rows:
            raise DataError(f"{self.title} gives an answer of shape {labels.shape} for {block.table.num_rows} rows.")
        return answer._replace(labels=labels.reshape(-1))

    def rows_in(self, block: Block) -> Any:
        """See `Candidate`."""
        frame = block.table.select(self.columns_in(block)).to_pandas()
        return frame if self._named else frame.to_numpy()


class PredictionsFile(Candidate):
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
        path, column = Path(given), ""
        if not path.exists() and ":" in given:  # a file that has a colon in its own name is taken whole
            name, _, column = given.rpartition(":")
            path = Path(name)
        keys = [] if key is None else [key]
        is_csv = path.name.lower().endswith(CSV_ENDINGS)
        separator = likely_separator(path)[1] if is_csv and path.is_file() else None
        blocks = TableBlocks(path, words=keys, separator=separator)
        others = [name for name in blocks.names if name != key]
        if not column and PREDICTION not in others and len(others) != 1:
            raise DataError(
                f"{path}: which of the {len(others)} columns holds the predictions "
                f"({', '.join(map(repr, others[:10]))})? Write {path}:COLUMN"
            )
        column = column or (PREDICTION if PREDICTION in others else others[0])
        for name in (column, *keys):
            if name not in blocks.names:
                raise DataError(f"{path}: there is no column {name!r}.{close_match(name, blocks.names)}")
        parts = list(blocks.read([column, *keys]))

        def whole(name: str) -> pa.ChunkedArray:
            pieces = [plain(part.table[name]) for part in parts]
            joined = pa.chunked_array([chunk for piece in pieces for chunk in piece.chunks], pieces[0].type)
            return plain_text(joined) if is_csv else joined

        super().__init__(f"predictions {path}, column {column!r}", features=keys, words=keys)
        self._labels: pa.ChunkedArray = whole(column)
        self._key, self._path = key, path
        if self._labels.null_count:
            raise DataError(f"{path}: column {column!r} has {self._labels.null_count} missing values. Fill them in")
        self.labels = pc.unique(self._labels).to_pylist()
        self._keys: pa.ChunkedArray = whole(key or column)
        if key is None and len(self._labels) != n_rows:
            raise DataError(
                f"{path}: {len(self._labels)} predictions for the {n_rows} rows of the audited file. Give one for "
                "each, in the same order, or name a column that both files have by --key"
            )
        if key is not None and pc.count_distinct(self._keys, mode="all").as_py() < len(self._keys):
            raise DataError(f"{path}: a value of the key {key!r} stands in more than one row. Give each row its own")

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        if self._key is None:
            return Answer(self._labels.take(pa.array(block.rows)))
        if self._key not in block.table.column_names:
            near = close_match(self._key, block.table.column_names)
            raise DataError(f"the audited table has no column {self._key!r}.{near}")
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
        return Answer(self._labels.take(place))


class Renamed(Candidate):
    """A candidate with labels of its own (0 and 1, say), told which of them is the positive one."""

    def __init__(self, inner: Candidate, wanted: str, positive: Label, negative: Label) -> None:
        super().__init__(inner.title, None, inner.features, inner.words)
        self.abstain = inner.abstain
        self.inner, self._wanted, self._pair = inner, wanted, (negative, positive)
        self._seen: set[str] = set()
        if inner.classes is not None:
            if len(inner.classes) != 2 or wanted not in map(str, inner.classes):
                raise DataError(
                    f"--model-positive {wanted} is none of the classes of {inner.title}: {inner.classes}. Correct it"
                )
            self.classes = [self._pair[int(str(label) == wanted)] for label in inner.classes]

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        # Labels are collected over all blocks, because a third one may first appear in a later block.
        answer = self.inner.answer(block, everything=everything)
        texts = np.asarray(answer.labels).astype(str)
        decided = np.ones(len(texts), np.bool_) if self.abstain is None else texts != str(self.abstain)
        self._seen |= set(np.unique(texts[decided]).tolist())
        if len(self._seen | {self._wanted}) > 2:
            raise DataError(
                f"{self.title} gives the labels {', '.join(sorted(self._seen))}, and --model-positive is "
                f"{self._wanted}. Two classes are needed: correct --model-positive"
            )
        labels = np.array([*self._pair, self.abstain], dtype=object)[
            np.where(decided, (texts == self._wanted).astype(np.intp), 2)
        ]
        return answer._replace(labels=labels)

    def finish(self) -> list[str]:
        """See `Candidate`."""
        return self.inner.finish()


def score_rule(last: Any, positive: Label) -> list[str]:
    """What the scores of two classes decide, in lines, as `widemargin predict` writes them: those of the positive one.

    Parameters
    ----------
    last : estimator
        The last step of the model.
    """
    undecided = own_setting(last, "abstain")
    if undecided is None:
        return [f"A score above 0 speaks for {positive!r}"]
    names = [""]
    if last.groups_ is not None:
        column = f"{last.per_population} " if isinstance(last.per_population, str) else ""
        names = [f"of {column}{group.name} " for group in last.groups_]
    ends = np.reshape(last.threshold_, (-1, 2))
    if positive == last.classes_[0]:  # the model's own scores speak for the other class
        ends = -ends[:, ::-1]
    return [
        f"Undecided, {undecided!r}: rows {name}with a score for {positive!r} between {low:.4g} and {high:.4g}"
        for name, (low, high) in zip(names, ends, strict=True)
    ]


def _answer(model: Classifier, X: Features, table: pa.Table, everything: bool) -> Answer:
    """Ask an estimator; the table of populations goes to those whose `predict` takes it."""

    def ask(name: str) -> Any:
        method = getattr(model, name, None)
        return None if method is None else ask_model(method, X, table)

    # Of two columns the second is that of `classes[1]`, whichever class is the positive one.
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
