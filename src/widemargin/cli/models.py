"""The classifier that a command is about: a model file of any kind, or a file of predictions, behind one face.

Skops files run no code: ours by `load_model`, others by a list of scikit-learn types
(`persistence/model_file_check.py`). ONNX files run in onnxruntime. Joblib and pickle files run whatever is in them, so
they need `--trust-code`.
"""

import inspect
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from widemargin.cli.tables.column_roles import Block
from widemargin.exceptions import (
    CapabilityError,
    DataError,
    MissingLibraryError,
    ModelFileError,
    ModelFileWarning,
    TableWarning,
    WidemarginError,
)
from widemargin.persistence import load_plain_model
from widemargin.preprocessing import TableSchema

__all__ = ["Answer", "Candidate", "FrameModel", "TableModel", "lacking", "load_candidate"]

_PICKLES = (".joblib", ".pkl", ".pickle")


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

    labels: Any
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


def load_candidate(path: Path, *, features: Sequence[str] | None, trust_code: bool = False) -> Candidate:
    """The classifier in a model file.

    Parameters
    ----------
    path : Path
        `.onnx`; `.joblib`, `.pkl`, `.pickle`; anything else is taken for a skops file.
    features : sequence of str or None
        The goals file's feature columns, for models that do not know theirs.
    trust_code : bool, default=False
        Whether a pickle may be opened, which runs whatever is in it.

    Raises
    ------
    ModelFileError
        The file cannot be read, is refused, or holds no classifier.
    """
    name = path.name.lower()
    if name.endswith(".onnx"):
        from widemargin.cli.onnx_model import OnnxModel

        return OnnxModel(path, features)
    model = _unpickled(path, trust_code) if name.endswith(_PICKLES) else load_plain_model(path)
    first = model[0] if hasattr(model, "steps") else model
    if isinstance(getattr(first, "schema_", None), TableSchema):
        return TableModel(model, str(path))
    return FrameModel(model, str(path), features)


def _unpickled(path: Path, trust_code: bool) -> Any:
    if not trust_code:
        raise ModelFileError(
            f"{path}: opening such a file runs whatever code is in it, so it was not opened. Save the model as .skops "
            "or .onnx, audit a file of its predictions, or, if you trust whoever made it, give --trust-code"
        )
    import joblib

    warnings.warn(f"{path}: opened with --trust-code; code in the file may have run", ModelFileWarning, stacklevel=2)
    try:
        model = joblib.load(path)
    except OSError as error:
        raise ModelFileError(f"{path}: the file cannot be read ({error.strerror or error}). Check the path") from error
    except Exception as error:  # another's code may do anything
        raise ModelFileError(
            f"{path}: the model cannot be opened ({type(error).__name__}: {str(error)[:200]}). Save it again, with the "
            "libraries that are installed here"
        ) from error
    if not hasattr(model, "predict"):
        raise ModelFileError(f"{path}: the file holds a {type(model).__name__}, no classifier. Save one with predict")
    return model


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

    def __init__(self, model: Any, title: str, features: Sequence[str] | None) -> None:
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


def lacking(block: Block, absent: Sequence[str]) -> DataError:
    """The error that the table has no such columns."""
    named = ", ".join(map(repr, absent[:5]))
    return DataError(f"{block.title or 'the table'}: {len(absent)} column(s) are missing: {named}. Add them")


def _of_file(error: DataError, block: Block) -> DataError:
    """An error about some rows, with the name of their file, and the row as the file counts it."""
    place = "" if error.row is None else f". That is row {int(block.rows[error.row])} of the file, counted from 0"
    return DataError(f"{block.title}: {error}{place}" if block.title else str(error))


def _answer(model: Any, X: Any, table: Any, everything: bool) -> Answer:
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
