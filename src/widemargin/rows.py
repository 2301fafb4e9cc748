"""One record of rows: what belongs together by position, sliced together.

`fit`, `audit`, `margin_report`, cross-validation, proofs on held-out rows, and blocks of rows that do not fit in memory
all carry their data in this record. Rows in memory are one block.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from widemargin._text import listing
from widemargin._typing import Classifier, Column, Features, Floats, Index, Table
from widemargin.exceptions import DataError

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame
    from typing_extensions import TypeIs  # in Python itself from 3.13 on

__all__ = [
    "ONE_TABLE", "External", "Rows", "as_csr", "ask_model", "check_sparse", "external_data", "is_asked",
    "is_collection", "is_frame", "length_of", "refuse_no_classifier", "rows_of_source", "stacked", "take",
    "with_populations",
]  # fmt: skip

P = TypeVar("P")

ONE_TABLE = (
    "Give one table (pandas, polars, pyarrow or a 2-D array) with one row per example, in the order of X, "
    "because cross-validation must be able to slice it."
)
"""What to give in place of something that is no table."""

_SLICED = ("X", "y", "sample_weight", "populations")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one origin, and everything that is known of each of them.

    Attributes
    ----------
    X : array, CSR matrix or data frame of shape (n, d), or None
        None where predictions are measured and no model is asked.
    y : array-like of shape (n,), or None
    sample_weight : array-like of shape (n,), or None
    populations : table with n rows, or None
        Columns for predicates and baselines.
    external : mapping of str to Rows
        Data sets beside these rows. Slices keep them whole: cross-validation must not cut them.
    baselines : mapping of str to array-like of shape (n,) or fitted classifier
        Predictions are sliced with the rows; classifiers are asked about whatever rows are there.
    source : str or None
        Name of the external data set that the rows are; None: the training or audited rows.
    feature_names : sequence of str, or None
        Columns of X, where it is an array of a table's numbers.

    Raises
    ------
    DataError
        If two parts differ in their number of rows, or X is a sparse matrix whose indices lead out of it.
    """

    X: Features | None = None
    y: Column | None = None
    sample_weight: Column | None = None
    populations: Table | None = None
    external: "Mapping[str, Rows]" = field(default_factory=dict)
    baselines: Mapping[str, Column | Classifier] = field(default_factory=dict)
    source: str | None = None
    feature_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_sparse(self.X, "X" if self.source is None else f"X of {self.title}")
        n_rows = None
        for name, part in self._parts():
            length = length_of(part)
            n_rows = length if n_rows is None else n_rows
            if length == n_rows:
                continue
            if name in ("X", "populations"):
                raise DataError(f"{name} has {length} rows and {self.title} {n_rows}. {ONE_TABLE}")
            shape, where = np.asarray(part).shape, "" if self.source is None else f" of {self.title}"
            if len(shape) > 1:
                raise DataError(f"{name}{where} has shape {shape}; give a vector with one value per row.")
            raise DataError(f"{name} has length {length} and {self.title} {n_rows} rows; give one value per row.")

    def _parts(self) -> Iterator[tuple[str, Features | Column | Table]]:
        """What has one entry per row, by name, where the number of entries is known (a Dask collection's is not)."""
        parts = {name: getattr(self, name) for name in _SLICED}
        parts |= {f"baseline {name!r}": value for name, value in self.baselines.items() if not is_asked(value)}
        for name, part in parts.items():
            if part is not None and not hasattr(part, "__dask_graph__"):
                yield name, part

    @property
    def title(self) -> str:
        """How messages call these rows."""
        return "the data" if self.source is None else f"external {self.source!r}"

    @property
    def n_rows(self) -> int:
        """Number of rows, from the first part that is given.

        Raises
        ------
        DataError
            If nothing is given.
        """
        for _, part in self._parts():
            return length_of(part)
        where = "" if self.source is None else f" in {self.title}"
        raise DataError(f"there are no rows{where}: give X, y, populations or predictions.")

    def take(self, index: Index) -> Self:
        """Some of the rows; external data sets and classifiers stay as they are."""
        baselines = {name: value if is_asked(value) else take(value, index) for name, value in self.baselines.items()}
        return self.replaced(**{name: take(getattr(self, name), index) for name in _SLICED}, baselines=baselines)

    def replaced(self, **changes: object) -> Self:
        """The same rows with other values of some attributes, which are not checked again."""
        changed = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(changed, name, value)  # the record is frozen for everybody else
        return changed

    def blocks(self, block_rows: int) -> "Iterator[Self]":
        """Runs of at most `block_rows` rows, in order, without external data sets."""
        alone = self.replaced(external={})
        for first in range(0, self.n_rows, block_rows):
            yield alone.take(slice(first, first + block_rows))


class External(Rows):
    """A data set beside the training rows: unlabelled traffic, hand-made examples, last year's rows.

    The goal names it by `Population.external(name)`; `fit` and `audit` take it as `external={name: External(...)}`.
    Cross-validation never slices it.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d), or None
        Features; None where predictions are audited, not a model.
    y : array-like of shape (n,), default=None
        Labels; None (or missing values) where they are unknown.
    sample_weight : array-like of shape (n,), default=None
    populations : table with n rows, default=None
        Columns for predicates and baselines, looked up before those of a data frame X.
    **baselines : array-like of shape (n,)
        Predictions of baseline models by name, in y's label space.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.goals import External
    >>> External(np.zeros((3, 2)), deployed=[0, 1, 1])
    External(3 rows, baselines: 'deployed')
    """

    def __init__(
        self,
        X: Features | None,
        y: Column | None = None,
        *,
        sample_weight: Column | None = None,
        populations: Table | None = None,
        **baselines: Column | Classifier,
    ) -> None:
        super().__init__(X, y, sample_weight, populations, baselines=baselines)

    def __repr__(self) -> str:
        parts = [f"{self.n_rows} rows"]
        if self.y is not None:
            parts.append("labelled")
        if self.baselines:
            parts.append(f"baselines: {listing(list(self.baselines))}")
        return f"External({', '.join(parts)})"


def rows_of_source(rows: Rows, name: str | None) -> Rows:
    """The main rows for None, else one of their external data sets, about which the main rows' classifiers are asked.

    Raises
    ------
    DataError
        If it was not given, or is no `External`.
    """
    if name is None:
        return rows
    data = external_data(name, rows.external)
    classifiers = {key: value for key, value in rows.baselines.items() if is_asked(value)}
    return data.replaced(source=name, baselines={**classifiers, **data.baselines})


def external_data(name: str, external: Mapping[str, Rows]) -> External:
    """An external data set by name.

    Raises
    ------
    DataError
        If it was not given, or is no `External`.
    """
    if name not in external:
        raise DataError(
            f"the goal measures rates on the external data set {name!r}, which was not given; "
            f"given are {listing(sorted(external))}. Pass external={{{name!r}: External(X)}}."
        )
    data = external[name]
    if not isinstance(data, External):
        raise DataError(f"external[{name!r}] is a {type(data).__name__}; wrap it: External(X, y=None, ...).")
    return data


def check_sparse(X: Features | Column | None, name: str = "X") -> None:
    """Refuse a sparse matrix whose indices lead out of it; anything else passes.

    Compiled code, SciPy's own too, follows these indices without looking: a wrong one reads foreign memory. The check
    takes two passes over the indices and none over the values, and does not change the matrix.

    Raises
    ------
    DataError
    """
    if not sp.issparse(X):
        return
    matrix: Any = X
    try:
        if matrix.format == "coo":
            type(matrix)((matrix.data, matrix.coords), shape=matrix.shape)  # which looks at all of them
        elif matrix.format in ("bsr", "csc", "csr"):
            # SciPy's check tidies the matrix that it looks at, so it is given another one around the same arrays.
            around = (matrix.data, matrix.indices, matrix.indptr)
            type(matrix)(around, shape=matrix.shape).check_format(full_check=True)
    except (IndexError, TypeError, ValueError) as error:
        raise DataError(
            f"{name} is a {matrix.format.upper()} matrix of shape {matrix.shape} whose arrays do not fit it: {error}. "
            "Make it again from its rows, columns and values."
        ) from error


def as_csr(X: Any, name: str = "X") -> sp.csr_matrix:
    """A sparse matrix in the form of compressed rows, its indices checked.

    Raises
    ------
    DataError
    """
    check_sparse(X, name)
    rows: sp.csr_matrix = X.tocsr()
    if X.format in ("dia", "dok", "lil"):  # forms of Python objects, which are looked at when they are made into arrays
        check_sparse(rows, name)
    return rows


def as_dense(X: Any) -> Floats:
    """Rows or weights, also sparse ones, as an array in double precision."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def is_asked(candidate: object) -> "TypeIs[Classifier]":
    """Whether something is a classifier to ask, and not an array of its predictions."""
    return hasattr(candidate, "predict")


def refuse_no_classifier(candidate: object, answers: str) -> None:
    """Refuse a class or a function in the place of a fitted classifier, or of its `answers`, such as "predictions".

    Raises
    ------
    DataError
    """
    called = getattr(candidate, "__name__", type(candidate).__name__)
    if isinstance(candidate, type):
        raise DataError(
            f"{called} is a class; give a fitted classifier, such as {called}().fit(X, y), or its {answers}."
        )
    if callable(candidate) and not is_asked(candidate) and not hasattr(candidate, "__len__"):
        raise DataError(
            f"{called} is a {type(candidate).__name__}, no fitted classifier; give an object with predict(X), or the "
            f"{answers} themselves."
        )


def ask_model(method: Callable[..., Column], X: Features, populations: Table | None) -> Column:
    """Call `predict` (or another method) on rows; a model that decides by populations gets their table, too."""
    check_sparse(X)
    return method(X) if populations is None or not _takes_populations(method) else method(X, populations=populations)


def _takes_populations(method: Callable[..., object]) -> bool:
    return "populations" in inspect.signature(method).parameters


class _WithPopulations:
    """A model whose methods are given the populations of the rows that they are asked about."""

    def __init__(self, model: Any, populations: Table) -> None:
        self._model, self._populations = model, populations

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._model, name)
        takes = inspect.ismethod(value) and _takes_populations(value)
        return functools.partial(value, populations=self._populations) if takes else value


def with_populations(model: P, populations: Table | None) -> P:
    """The model itself; or, for a model that decides by populations, one that can be asked about X alone."""
    predict = getattr(model, "predict", None)
    if populations is None or predict is None or not _takes_populations(predict):
        return model
    return cast("P", _WithPopulations(model, populations))


def is_collection(value: object) -> bool:
    """Whether a value is a Dask data frame, series or array; Dask is not imported to find out."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "to_delayed")


def is_frame(data: object) -> "TypeIs[IntoDataFrame]":
    """Whether it is a data frame that narwhals knows (nothing is imported for the question)."""
    return bool(nw.dependencies.is_into_dataframe(data))


def length_of(part: Features | Column | Table) -> int:
    """Number of rows of an array, matrix, list, series or table.

    Raises
    ------
    DataError
        If it is a dict, which cannot be sliced, or has no length, as a generator or a LazyFrame.
    """
    if isinstance(part, dict) and not sp.issparse(part):  # scipy keeps one kind of sparse matrix in dicts
        raise DataError(f"a dict of {len(part)} entries was given in place of a table. {ONE_TABLE}")
    shape = getattr(part, "shape", None)
    if shape:
        return int(shape[0])
    # The length of a DataLoader of PyTorch is its number of batches.
    part = getattr(part, "dataset", part) if hasattr(part, "batch_sampler") else part
    try:
        return len(part) if isinstance(part, Sized) else len(np.asarray(part))
    except TypeError:
        raise DataError(
            f"rows are needed, and a {type(part).__name__} has no number of rows; give an array, a list or a table "
            "(.collect() makes one of a LazyFrame)."
        ) from None


def take(part: P, index: Index) -> P:
    """Some rows of an array, matrix, list, series or table, in the kind it came in (lists become arrays); None stays.

    A run of rows of an array is a view.
    """
    if part is None:
        return part
    if isinstance(part, np.ndarray) or sp.issparse(part):
        return part[index]  # type: ignore[index, no-any-return]
    eager = nw.from_native(part, eager_only=True, allow_series=True, pass_through=True)
    if eager is not part:
        return eager[index].to_native()  # type: ignore[index, no-any-return]
    return np.asarray(part)[index]  # type: ignore[return-value]


def stacked(parts: Sequence[Any]) -> Any:
    """Rows of several tables or matrices of the same columns, one below the other."""
    if len(parts) == 1:
        return parts[0]
    if any(sp.issparse(part) for part in parts):
        return sp.vstack(parts, format="csr")
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.vstack(parts)
    return nw.concat([nw.from_native(part) for part in parts], how="vertical").to_native()
