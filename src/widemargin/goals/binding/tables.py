"""The table whose columns say which population a row belongs to.

pandas, polars and pyarrow tables come in through narwhals, and so does a plain 2-D array, whose columns are
positions. A column is read when a predicate asks for it.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

import narwhals as nw
import numpy as np
import numpy.typing as npt

from widemargin._typing import Features, Table
from widemargin.exceptions import DataError, GoalError
from widemargin.goals.binding.columns import TableColumn, close_match, column_from_arrow, column_from_values, listing
from widemargin.rows import ONE_TABLE

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame
    from typing_extensions import TypeIs  # in Python itself from 3.13 on

__all__ = ["PopulationTable", "is_frame"]

KEPT_COLUMNS = 8
"""Columns kept at a time: hundreds of them, read into arrays, can take more memory than the rows."""


class _Layer(Protocol):
    """A table of one kind."""

    n_rows: int
    columns: tuple[str | int, ...]

    def read(self, name: str | int) -> TableColumn: ...


class _FrameLayer:
    """A data frame behind narwhals."""

    def __init__(self, data: Features | Table, what: str) -> None:
        try:
            self._frame: Any = nw.from_native(data, eager_only=True)
            self.columns: tuple[str | int, ...] = tuple(self._frame.columns)
        except (TypeError, ValueError) as error:
            _refuse_twice(data, what)
            lazy = " Collect a lazy frame first." if "azy" in type(data).__name__ else ""
            raise DataError(
                f"{what} cannot be used as a table: {str(error).splitlines()[0]}.{lazy} {ONE_TABLE}"
            ) from None
        self.n_rows = len(self._frame)

    def read(self, name: str | int) -> TableColumn:
        series = self._frame.get_column(name)
        # polars' categories may be shared with other frames, so only those that occur are this column's own
        declared = not (series.dtype == nw.Categorical and series.implementation.is_polars())
        try:
            arrow = series.to_arrow()
        except (TypeError, ValueError, OverflowError, ArithmeticError):
            return column_from_values(name, np.asarray(series.to_list(), dtype=object))
        return column_from_arrow(name, arrow, str(series.dtype), declared=declared)


class _ArrayLayer:
    """A 2-D array; columns are positions."""

    def __init__(self, data: npt.NDArray[Any]) -> None:
        self._data = data
        self.n_rows = data.shape[0]
        self.columns: tuple[str | int, ...] = tuple(range(data.shape[1]))

    def read(self, name: str | int) -> TableColumn:
        return column_from_values(name, self._data[:, int(name)])


class _ReadLayer:
    """Columns that have been read."""

    def __init__(self, n_rows: int, columns: Mapping[str | int, TableColumn]) -> None:
        self.n_rows = n_rows
        self.columns: tuple[str | int, ...] = tuple(columns)
        self._read = columns

    def read(self, name: str | int) -> TableColumn:
        return self._read[name]


class PopulationTable:
    """Columns for the predicates of a goal, looked up in one or more tables in turn.

    Built by `PopulationTable.build`; a column is read when it is asked for, and the last few are kept.
    """

    def __init__(self, layers: tuple[_Layer, ...], n_rows: int, own: tuple[str | int, ...]) -> None:
        self._layers = layers
        self._own = own
        self._cache: OrderedDict[str | int, TableColumn] = OrderedDict()
        self.n_rows = n_rows

    @classmethod
    def build(
        cls, populations: Table | None = None, X: Features | None = None, *, n_rows: int | None = None
    ) -> Self | None:
        """Table of `populations` first, then of X if X is a data frame; None where there is neither.

        Parameters
        ----------
        populations : pandas, polars or pyarrow table, ndarray of shape (n, q), or None
        X : any
            The features; used only when it is a data frame.
        n_rows : int or None
            Number of examples that every table must have.

        Raises
        ------
        DataError
            If `populations` is a dict, a vector or of another length than the data.
        """
        layers: list[_Layer] = []
        own: tuple[str | int, ...] = ()
        if populations is not None:
            layers.append(_layer(populations))
            own = layers[0].columns
            found = layers[0].n_rows
            if n_rows is not None and found != n_rows:
                raise DataError(f"populations has {found} rows and the data {n_rows}. {ONE_TABLE}")
        if X is not None and is_frame(X):
            layers.append(_FrameLayer(X, "X"))
        if not layers:
            return None
        return cls(tuple(layers), layers[0].n_rows, own)

    @classmethod
    def of_columns(cls, columns: Mapping[str | int, TableColumn], n_rows: int) -> Self:
        """Table of columns that have been read already."""
        return cls((_ReadLayer(n_rows, columns),), n_rows, tuple(columns))

    @property
    def columns(self) -> tuple[str | int, ...]:
        """Every column that can be named, those of `populations` first."""
        return tuple(dict.fromkeys(name for layer in self._layers for name in layer.columns))

    def __contains__(self, name: object) -> bool:
        return any(name in layer.columns for layer in self._layers)

    def __iter__(self) -> Iterator[str | int]:
        return iter(self.columns)

    def column(self, name: str | int) -> TableColumn:
        """The column of that name (or position in a 2-D array).

        Raises
        ------
        GoalError
            If there is none; the message lists those there are.
        """
        if name in self._cache:
            self._cache.move_to_end(name)
            return self._cache[name]
        for layer in self._layers:
            if name in layer.columns:
                self._cache[name] = layer.read(name)
                if len(self._cache) > KEPT_COLUMNS:
                    self._cache.popitem(last=False)
                return self._cache[name]
        raise GoalError(self._unknown(name))

    def own_column(self, name: str | int) -> TableColumn | None:
        """The column of that name in `populations` alone (a baseline may stand there, never in X); None without one."""
        return self.column(name) if name in self._own else None

    def _unknown(self, name: str | int) -> str:
        known = self.columns
        hint = close_match(name, known)
        if isinstance(name, int) and not any(isinstance(column, int) for column in known):
            hint = " A number names a position in a 2-D array; name the columns of a data frame."
        elif isinstance(name, str) and all(isinstance(column, int) for column in known):
            hint = f" The table is an array of {len(known)} columns: write col(0), or give a data frame."
        return f"column {name!r} is in no table given; there are {listing(known)}.{hint}"


def is_frame(data: object) -> "TypeIs[IntoDataFrame]":
    """Whether it is a data frame that narwhals knows (nothing is imported for the question)."""
    return bool(nw.dependencies.is_into_dataframe(data))


def _refuse_twice(data: object, what: str) -> None:
    """Refuse two columns of one name."""
    if not hasattr(data, "__len__"):  # a lazy frame, which would have to be read for its names
        return
    names = getattr(data, "column_names", None)  # of pyarrow, whose `columns` are the arrays
    counts = Counter(getattr(data, "columns", ()) if names is None else names)
    twice = [name for name, number in counts.items() if number > 1]
    if twice:
        raise DataError(
            f"{what} has more than one column {listing(twice, 3)}; rename them or drop all but one of each."
        )


def _layer(data: Table) -> _Layer:
    if isinstance(data, dict):
        raise DataError(f"populations is a dict of {len(data)} entries. {ONE_TABLE}")
    if isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise DataError(f"populations is an array of shape {data.shape}; it must have 2 dimensions. {ONE_TABLE}")
        return _ArrayLayer(data)
    if not is_frame(data) and (isinstance(data, list | tuple) or nw.dependencies.is_into_series(data)):
        raise DataError(f"populations is a {type(data).__name__} of length {len(data)}, not a table. {ONE_TABLE}")
    return _FrameLayer(data, "populations")
