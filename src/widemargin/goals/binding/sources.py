"""Where the rows come from: the training or audited data, and the external data sets."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from widemargin._typing import Classifier, Column, Features, Floats, Label, Signs, Table
from widemargin.exceptions import DataError, GoalWarning
from widemargin.goals._warn import warn
from widemargin.goals.binding.columns import listing
from widemargin.goals.binding.labels import encode_labels, find_classes, positive_class
from widemargin.goals.binding.tables import PopulationTable, is_frame
from widemargin.rows import Rows, is_asked

__all__ = [
    "External", "Repeats", "Source", "encode_labels", "external_data", "find_classes",
    "make_source", "make_sources", "positive_class", "rows_of_source",
]  # fmt: skip


class External(Rows):
    """A data set beside the training data: unlabelled traffic, a hand-made example set, last year's rows.

    It is named in the goal by `Population.external(name)` and handed over as `external={name: External(...)}`. It is
    never sliced by cross-validation.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d), or None
        Features. None is enough where predictions are audited and not a model.
    y : array-like of shape (n,), default=None
        Labels; None (or missing values) where they are unknown.
    sample_weight : array-like of shape (n,), default=None
    populations : table with n rows, default=None
        Columns for predicates and baselines; a data frame X is looked up after it.
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


@dataclasses.dataclass(frozen=True, eq=False)
class Repeats:
    """What an entry of a source stands for, where alike rows were counted and not kept (`goals/measuring/counting.py`).

    Attributes
    ----------
    count : ndarray of int64, shape (n_rows,)
        Rows that the entry stands for; its weight is their mean weight.
    binned : bool
        Whether these means are over rows of different weights, at most 5% apart (`goals/measuring/bootstrap.py`).
    """

    count: npt.NDArray[np.int64]
    binned: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """Rows of one origin, ready to be tied to a goal.

    Attributes
    ----------
    name : str or None
        None for the training (or audited) rows, else the name of the external data set.
    labels : ndarray of int8, shape (n_rows,), or None
        +1, -1, or 0 where the label is missing.
    weight : ndarray of float64, shape (n_rows,), or None
        Weights >= 0; None means all ones.
    table : PopulationTable or None
    baselines : mapping of str to ndarray of int8, shape (n_rows,)
        Predictions +1 and -1 of the baseline models.
    n_rows : int
        Entries: rows, or with `repeats` groups of alike ones.
    repeats : Repeats or None
        None: an entry is a row.

    Raises
    ------
    DataError
        If a vector has another length, or a weight is negative or not finite.
    """

    name: str | None
    labels: Signs | None
    weight: Floats | None
    table: PopulationTable | None
    baselines: Mapping[str, Signs]
    n_rows: int
    repeats: Repeats | None = None

    def __post_init__(self) -> None:
        if self.n_rows < 1:
            raise DataError(f"{self.title} has no rows.")
        vectors = {f"baseline {name!r}": value for name, value in self.baselines.items()}
        for what, vector in {"y": self.labels, "sample_weight": self.weight, **vectors}.items():
            if vector is not None and vector.shape != (self.n_rows,):
                raise DataError(
                    f"{what} has length {vector.shape[0]} and {self.title} {self.n_rows} rows; give one value per row."
                )
        if self.table is not None and self.table.n_rows != self.n_rows:
            raise DataError(f"the table has {self.table.n_rows} rows and {self.title} {self.n_rows}.")
        if self.weight is not None and not (np.isfinite(self.weight).all() and (self.weight >= 0).all()):
            bad = int(np.count_nonzero(~(np.isfinite(self.weight) & (self.weight >= 0))))
            raise DataError(f"{bad} sample weights of {self.title} are negative or not finite; a weight is >= 0.")

    @property
    def title(self) -> str:
        """How messages call it."""
        return "the data" if self.name is None else f"external {self.name!r}"

    @property
    def whole_weight(self) -> Floats | None:
        """Weight of all rows that each entry stands for; None: all ones."""
        if self.repeats is None:
            return self.weight
        count = self.repeats.count.astype(np.float64)
        return count if self.weight is None else count * self.weight


def make_source(
    rows: Rows, baseline_names: Collection[str] = (), *, classes: tuple[Label, Label], n_rows: int | None = None
) -> Source:
    """Check and encode the rows of one origin.

    Parameters
    ----------
    rows : Rows
        A baseline is looked up among the columns of its `populations` first, then in its `baselines`; predictions are
        in y's label space, classifiers are asked about its X. Labels may be missing in external data sets only.
    baseline_names : collection of str
        Baselines the goal uses here; only these are read.
    classes : (negative, positive)
        As `positive_class` gives them.
    n_rows : int or None
        Number of rows where `rows` need not hold any, because they are known by their predictions alone.

    Raises
    ------
    DataError
        On strange labels or weights, an unknown baseline.
    """
    n_rows = rows.n_rows if n_rows is None else n_rows
    title = "" if rows.source is None else f" of external {rows.source!r}"
    labels = None
    if rows.y is not None:
        labels = encode_labels(rows.y, classes, classes[1], what=f"y{title}", allow_missing=rows.source is not None)
    _warn_of_indices(rows, title)
    table = PopulationTable.build(rows.populations, rows.X, n_rows=n_rows)
    signs: dict[str, Signs] = {}
    for name in sorted(baseline_names):
        said = _predictions_of_baseline(name, rows, table, title)
        signs[name] = encode_labels(said, classes, classes[1], what=f"baseline {name!r}{title}")
    return Source(rows.source, labels, _weights(rows.sample_weight, title, n_rows), table, signs, n_rows)


def make_sources(
    uses: Mapping[str | None, Collection[str]],
    rows: Rows,
    *,
    classes: tuple[Label, Label],
) -> tuple[Source, ...]:
    """The main rows and every external data set that a goal uses, the main rows first.

    Parameters
    ----------
    uses : mapping of source name to baseline names
        What `baselines_used(goal)` returns: the external data sets of the goal and the baselines needed on each.
    rows : Rows
        The main rows. Classifiers among their baselines are asked on every source that needs them.
    classes : (negative, positive)

    Raises
    ------
    DataError
        If the goal uses an external data set that was not given, or any part is malformed.
    """
    main = make_source(rows, uses.get(None, ()), classes=classes)
    others = sorted(name for name in uses if name is not None)
    return main, *(make_source(rows_of_source(rows, name), uses[name], classes=classes) for name in others)


def rows_of_source(rows: Rows, name: str | None) -> Rows:
    """The main rows for None, else an external data set of theirs, which the main rows' classifiers are asked about.

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


def _warn_of_indices(rows: Rows, title: str) -> None:
    """Warn where pandas objects have indices that differ from that of X: rows are matched by position."""
    X: Any = rows.X
    if not _is_pandas(X):
        return
    parts: dict[str, Any] = {"y": rows.y, "sample_weight": rows.sample_weight, "populations": rows.populations}
    strange = [
        what
        for what, part in parts.items()
        if _is_pandas(part) and len(part) == len(X) and part.index is not X.index and not part.index.equals(X.index)
    ]
    if strange:
        several = len(strange) > 1
        warn(
            f"{' and '.join(strange)}{title} {'have' if several else 'has'} another index than X, and rows are matched "
            f"by position. If the order is the same, give {strange[0]}.reset_index(drop=True) and "
            f"X.reset_index(drop=True); if not, {strange[0]}.reindex(X.index).",
            GoalWarning,
        )


def _is_pandas(data: object) -> bool:
    return bool(nw.dependencies.is_pandas_dataframe(data) or nw.dependencies.is_pandas_series(data))


def _predictions_of_baseline(name: str, rows: Rows, table: PopulationTable | None, title: str) -> Column:
    """A column of the table of populations, else an array that was given, else what a classifier says."""
    column = table.own_column(name) if table is not None else None
    if column is not None:
        return column.to_values()
    if name not in rows.baselines:
        raise DataError(
            f"baseline {name!r} is unknown{title}; known are {listing(sorted(rows.baselines))}, and the columns of "
            f"populations. Add a column {name!r} to populations, or give "
            + (f"External(X, {name}=predictions)." if rows.source else f"baselines={{{name!r}: ...}}.")
        )
    baseline = rows.baselines[name]
    if not is_asked(baseline):
        return baseline
    if rows.X is None:
        raise DataError(f"baseline {name!r} is a model, and there is no X to ask it about; give X or its predictions.")
    said: Column = baseline.predict(rows.X if is_frame(rows.X) or hasattr(rows.X, "shape") else np.asarray(rows.X))
    return said


def _weights(sample_weight: Column | None, title: str, n_rows: int) -> Floats | None:
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"sample_weight{title} is not numeric.") from None
    if weight.ndim != 1:
        raise DataError(f"sample_weight{title} has shape {weight.shape}; give a vector with one weight per row.")
    return None if len(weight) == n_rows and bool((weight == 1.0).all()) else weight
