"""Where the rows come from: the training or audited data, and the external data sets."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Signs
from widemargin.exceptions import DataError, GoalWarning
from widemargin.goals._warn import warn
from widemargin.goals.binding.columns import listing
from widemargin.goals.binding.labels import encode_labels, find_classes, positive_class
from widemargin.goals.binding.tables import CURE, PopulationTable, is_frame

__all__ = [
    "External", "Repeats", "Source", "count_rows", "encode_labels", "external_data", "find_classes",
    "make_source", "make_sources", "positive_class",
]  # fmt: skip


class External:
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
        self, X: Any, y: Any = None, *, sample_weight: Any = None, populations: Any = None, **baselines: Any
    ) -> None:
        self.X = X
        self.y = y
        self.sample_weight = sample_weight
        self.populations = populations
        self.baselines = baselines

    @property
    def n_rows(self) -> int:
        """Number of rows, from the first thing given."""
        return count_rows(self.X, self.y, self.populations, *self.baselines.values())

    def __repr__(self) -> str:
        parts = [f"{self.n_rows} rows"]
        if self.y is not None:
            parts.append("labelled")
        if self.baselines:
            parts.append(f"baselines: {listing(list(self.baselines))}")
        return f"External({', '.join(parts)})"


@dataclasses.dataclass(frozen=True, eq=False)
class Repeats:
    """What an entry of a source stands for, where alike rows were counted and not kept (`diagnostics/streaming.py`).

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
    name: str | None,
    X: Any = None,
    y: Any = None,
    *,
    classes: tuple[Any, Any],
    sample_weight: Any = None,
    populations: Any = None,
    baselines: Mapping[str, Any] | None = None,
    models: Mapping[str, Any] | None = None,
    baseline_names: Collection[str] = (),
    n_rows: int | None = None,
) -> Source:
    """Check and encode the rows of one origin.

    Parameters
    ----------
    name : str or None
        None for the main data.
    classes : (negative, positive)
        As `positive_class` gives them.
    baselines : mapping of str to array-like of shape (n,)
        Predictions in y's label space, looked up after the columns of `populations`.
    models : mapping of str to fitted model
        Asked for predictions of X where neither holds the baseline.
    baseline_names : collection of str
        Baselines the goal uses here; only these are read.
    n_rows : int or None
        Known number of rows; otherwise that of the first of X, y, populations, baselines.

    Raises
    ------
    DataError
        On wrong lengths, strange labels or weights, an unknown baseline.
    """
    rows = count_rows(X, y, populations, *(baselines or {}).values()) if n_rows is None else n_rows
    title = "" if name is None else f" of external {name!r}"
    labels = None
    if y is not None:
        labels = encode_labels(y, classes, classes[1], what=f"y{title}", allow_missing=name is not None)
    _warn_of_indices(X, {"y": y, "sample_weight": sample_weight, "populations": populations}, title)
    table = PopulationTable.build(populations, X, n_rows=rows)
    signs: dict[str, Signs] = {}
    for baseline in sorted(baseline_names):
        values = _baseline(baseline, X, table, baselines or {}, models or {})
        if values is None:
            known = sorted({*(baselines or {}), *(models or {})})
            raise DataError(
                f"baseline {baseline!r} is unknown{title}; known are {listing(known)}, and the columns of populations. "
                f"Add a column {baseline!r} to populations, or give "
                + (f"External(X, {baseline}=predictions)." if name else f"baselines={{{baseline!r}: ...}}.")
            )
        signs[baseline] = encode_labels(values, classes, classes[1], what=f"baseline {baseline!r}{title}")
    return Source(name, labels, _weights(sample_weight, title, rows), table, signs, rows)


def make_sources(
    uses: Mapping[str | None, Collection[str]],
    X: Any = None,
    y: Any = None,
    *,
    classes: tuple[Any, Any],
    sample_weight: Any = None,
    populations: Any = None,
    external: Mapping[str, External] | None = None,
    baselines: Mapping[str, Any] | None = None,
    n_rows: int | None = None,
) -> tuple[Source, ...]:
    """The main rows and every external data set that a goal uses, the main rows first.

    Parameters
    ----------
    uses : mapping of source name to baseline names
        What `baselines_used(goal)` returns: the external data sets of the goal and the baselines needed on each.
    external : mapping of str to External
    baselines : mapping of str to fitted model or predictions
        Predictions (arrays) are for the main rows; a model is asked on every source that needs it.

    Raises
    ------
    DataError
        If the goal uses an external data set that was not given, or any part is malformed.
    """
    models = {name: value for name, value in (baselines or {}).items() if hasattr(value, "predict")}
    arrays = {name: value for name, value in (baselines or {}).items() if name not in models}
    main = make_source(
        None, X, y, classes=classes, sample_weight=sample_weight, populations=populations,
        baselines=arrays, models=models, baseline_names=uses.get(None, ()), n_rows=n_rows,
    )  # fmt: skip
    sources = [main]
    for name in sorted(used for used in uses if used is not None):
        data = external_data(name, external or {})
        sources.append(
            make_source(
                name,
                data.X,
                data.y,
                classes=classes,
                sample_weight=data.sample_weight,
                populations=data.populations,
                baselines=data.baselines,
                models=models,
                baseline_names=uses[name],
            )
        )
    return tuple(sources)


def external_data(name: str, external: Mapping[str, Any]) -> External:
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


def count_rows(*parts: Any) -> int:
    """Number of rows of the first part that is given."""
    for part in parts:
        if part is None:
            continue
        if isinstance(part, dict):
            raise DataError(f"a dict of {len(part)} entries was given in place of a table. {CURE}")
        shape = getattr(part, "shape", None)
        return int(shape[0]) if shape else len(part)
    raise DataError("there are no rows: give X, y, populations or predictions.")


def _warn_of_indices(X: Any, parts: Mapping[str, Any], title: str) -> None:
    """Warn where pandas objects have indices that differ from that of X: rows are matched by position."""
    if not _is_pandas(X):
        return
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


def _is_pandas(data: Any) -> bool:
    return bool(nw.dependencies.is_pandas_dataframe(data) or nw.dependencies.is_pandas_series(data))


def _baseline(
    name: str, X: Any, table: PopulationTable | None, arrays: Mapping[str, Any], models: Mapping[str, Any]
) -> Any:
    """Predictions of a baseline: a column of the table, an array, a model; None where it is unknown."""
    column = table.own_column(name) if table is not None else None
    if column is not None:
        return column.to_values()
    if name in arrays:
        return arrays[name]
    if name not in models:
        return None
    if X is None:
        raise DataError(f"baseline {name!r} is a model, and there is no X to ask it about; give X or its predictions.")
    return models[name].predict(X if is_frame(X) or hasattr(X, "shape") else np.asarray(X))


def _weights(sample_weight: Any, title: str, n_rows: int) -> Floats | None:
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"sample_weight{title} is not numeric.") from None
    if weight.ndim != 1:
        raise DataError(f"sample_weight{title} has shape {weight.shape}; give a vector with one weight per row.")
    return None if len(weight) == n_rows and bool((weight == 1.0).all()) else weight
