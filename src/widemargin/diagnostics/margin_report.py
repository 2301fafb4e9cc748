"""The margin distribution in numbers, for any classifier and by group: `margin_report`.

With it the rows whose features stand out so far that a model depends on them alone: leverage."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from widemargin._text import (
    aligned,
    entry_named,
    html_report,
    pandas_for_frames,
    printable,
    printable_name,
    stored_report,
    with_lists,
)
from widemargin._typing import Classifier, Column, Features, Floats, Label
from widemargin.diagnostics.margin_sketch import MarginCounts, MarginSketch
from widemargin.diagnostics.margins import (
    Margins,
    RiskCoverage,
    margins_of,
    risk_coverage,
    row_weights,
    weighted_quantiles,
)
from widemargin.diagnostics.streaming import named_parts, opened_blocks
from widemargin.distributed.blocks import Block
from widemargin.distributed.predict import fitted_columns
from widemargin.exceptions import DataError
from widemargin.goals.measuring.intervals import clopper_pearson
from widemargin.rows import as_dense, is_asked, is_collection, length_of


@dataclasses.dataclass(frozen=True)
class LeverageRow:
    """A row of high leverage.

    Attributes
    ----------
    row : int
        Counted from 0.
    leverage : float
        Between 0 and 1: how much of the row's own value is in its prediction by least squares (the diagonal of the hat
        matrix, with an intercept).
    times : float
        Leverage over the mean of all rows; above 3 it is commonly called high.
    margin : float
    """

    row: int
    leverage: float
    times: float
    margin: float


@dataclasses.dataclass(frozen=True)
class MarginSummary:
    """Margins of all rows, or of one group. Shares and moments are weighted where rows have weights.

    Attributes
    ----------
    name : str
    n_rows : int
        Those with weight.
    weight : float
        Sum of the weights.
    mean, median, catoni : float
        Location; `catoni` is the Catoni estimate of the mean, which outliers hardly move.
    catoni_radius : float or None
        With confidence `1 - delta` the true mean is within this distance (approximate: the variance is estimated). None
        where rows are too few, or tails too heavy, to prove anything.
    sd, iqr : float
        Spread: standard deviation, and distance of the quartiles.
    skewness : float or None
        Third standardised moment, 0 for a symmetric distribution, negative with a long tail of rows on the wrong side.
        None where all margins are equal.
    minimum : float
    quantiles : tuple of float
        At the levels of the report.
    below : float
        Share of margins below the level of the report.
    below_interval, median_interval : tuple of float, or None
        Exact ones at the confidence of the report: by Clopper and Pearson, and by the order of the margins. None for
        weighted rows.
    risk_coverage : RiskCoverage or None
        The error of the surest rows: what abstention would gain. None where only margins are known, or for several
        classes in blocks.
    """

    name: str
    n_rows: int
    weight: float
    mean: float
    median: float
    catoni: float
    catoni_radius: float | None
    sd: float
    iqr: float
    skewness: float | None
    minimum: float
    quantiles: tuple[float, ...]
    below: float
    below_interval: tuple[float, float] | None = None
    median_interval: tuple[float, float] | None = None
    risk_coverage: RiskCoverage | None = None


@dataclasses.dataclass(frozen=True)
class MarginReport:
    """The margin distribution of a classifier. `print(report)`, `.to_frame()`, `.to_dict()`; notebooks show a table.

    Attributes
    ----------
    classifier : str
    data_name : str
    source : str
        The source of the margins: "decision_function", "predict_proba", "margins" or "given scores".
    unit : str
        What the numbers are.
    level : float
        Of `below`.
    quantile_levels : tuple of float
    delta : float
        One minus the confidence of each Catoni radius and each interval.
    overall : MarginSummary
    groups : tuple of MarginSummary
    n_missing : int
        Rows whose group is missing; they are in no group.
    leverage : tuple of LeverageRow
        The rows asked for by `leverage`.
    """

    classifier: str
    data_name: str
    source: str
    unit: str
    level: float
    quantile_levels: tuple[float, ...]
    delta: float
    overall: MarginSummary
    groups: tuple[MarginSummary, ...] = ()
    n_missing: int = 0
    leverage: tuple[LeverageRow, ...] = ()

    def __getitem__(self, name: str) -> MarginSummary:
        """The group of that name."""
        return entry_named(self.groups, [item.name for item in self.groups], name, "group")

    def __str__(self) -> str:
        return "\n".join([_headline(self), "", *aligned(_table(self)), "", *_legend(self)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_report(_headline(self), [_table(self)], _legend(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON; `from_dict` reads them."""
        return dataclasses.asdict(self, dict_factory=with_lists) | {"format": 1}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "MarginReport":
        """A report from what `to_dict` returned (also after JSON).

        Raises
        ------
        DataError
            If the dict is no report, or of a newer format.
        """
        return stored_report(cls, plain, "report", 1)

    def to_frame(self) -> Any:
        """One row for all rows and one per group as a pandas DataFrame, indexed by name.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = pandas_for_frames()
        rows = []
        for item in (self.overall, *self.groups):
            row = {key: value for key, value in vars(item).items() if key not in ("quantiles", "risk_coverage")}
            for name in ("below_interval", "median_interval"):
                row[f"{name}_low"], row[f"{name}_high"] = row.pop(name) or (None, None)
            row["risk_area"] = None if item.risk_coverage is None else item.risk_coverage.area
            rows.append(row | {f"q{q:g}": value for q, value in zip(self.quantile_levels, item.quantiles, strict=True)})
        return pd.DataFrame(rows).set_index("name")


def margin_report(
    clf: Classifier | Column | Margins,
    X: Features | Path | None = None,
    y: Column | None = None,
    groups: Column | None = None,
    *,
    normalize: str | float | None = None,
    level: float = 0.0,
    quantiles: Sequence[float] = (0.05, 0.25, 0.75, 0.95),
    delta: float = 0.05,
    sample_weight: Column | None = None,
    classes: Sequence[Label] | None = None,
    leverage: int = 0,
    data_name: str = "the data",
    workers: object = None,
) -> MarginReport:
    """Location, spread, skewness, quantiles and minimum of the margins of any classifier, by group if asked.

    Two classes: the margin of a row is `y f(x)`, with y = +1 for `classes_[1]` and -1 else. More: the score of its
    label minus the largest other one. Positive margins are right answers.

    Parameters
    ----------
    clf : fitted classifier, array-like of scores, or Margins
        With `margins(X, y)` (the structural ones of this library), `decision_function` or `predict_proba`. An array of
        shape (n,) or (n, n_classes) holds scores. `Margins` are what `margins_of` returns, for all rows or
        (`Margins.of`) some of them; X and y are not needed then.
    X : array-like of shape (n, d), default=None
        Not needed for scores.
    y : array-like of shape (n,)
        Labels; of structured classifiers what their `predict` gives.
    groups : array-like of shape (n,), default=None
        A value per row, for example a column of a data frame; each value gets a line of its own.
    normalize : {None, "norm", "median", "max"} or float, default=None
        What margins are divided by, so that classifiers can be compared: the norm of `coef_`, the median or the largest
        absolute margin, a number.
    level : float, default=0.0
        The report gives the share of margins below it, in units after `normalize`.
    quantiles : sequence of float, default=(0.05, 0.25, 0.75, 0.95)
        For each of these shares the least margin that at least so many rows do not exceed; if exactly so many, the mean
        of this margin and the next.
    delta : float, default=0.05
        One minus the confidence of each Catoni radius and each interval.
    sample_weight : array-like of shape (n,), default=None
        A row of weight 2 counts as two rows.
    classes : array-like of shape (n_classes,), default=None
        With an array of scores: the labels, in the order of its columns. None: the sorted labels of y.
    leverage : int, default=0
        How many rows to name whose features stand out most (`LeverageRow`), because a model trained on such rows
        depends on them. For numbers in memory, at the cost of a least squares fit.
    data_name : str, default="the data"
        What the report calls the rows.
    workers : None, int or distributed.Client, default=None
        For rows in blocks, see Notes; as in `audit`.

    Returns
    -------
    MarginReport

    Notes
    -----
    Rows may come in blocks, as in `audit`: Dask collections, or X as the path of a Parquet file or folder and y, groups
    and sample_weight as names of columns. Quantiles, median, IQR and the Catoni estimate then come from a sketch, and
    are off by at most 1/4096 of their size (the IQR: of the quartiles), as is what `normalize="median"` divides by; all
    else is as of all rows at once.

    Raises
    ------
    DataError
        If the classifier gives no scores, or the data do not fit it.

    Examples
    --------
    >>> from widemargin import margin_report
    >>> report = margin_report([2.0, 0.5, -1.0, -3.0], y=[1, 1, 1, 0], groups=["a", "a", "b", "b"], level=1.0)
    >>> report.overall.mean, report.overall.below, report["b"].minimum
    (1.125, 0.5, -1.0)
    """
    if y is None and not isinstance(clf, Margins):
        raise DataError("margins need labels; give y.")
    levels = tuple(float(q) for q in np.ravel(quantiles))
    if not (isinstance(level, (int, float, np.number)) and np.isfinite(level)):
        raise DataError(f"level is {level!r}; give a finite number.")
    if not all(0.0 <= q <= 1.0 for q in levels):
        raise DataError(f"quantiles are {list(levels)}; each must lie between 0 and 1.")
    if not 0.0 < delta < 1.0:
        raise DataError(f"delta is {delta!r}; it must lie between 0 and 1, such as 0.05.")
    name = type(clf).__name__ if hasattr(clf, "predict") else "margins" if isinstance(clf, Margins) else "scores"
    size, margins = 1.0, None
    if isinstance(X, (str, Path)) or any(map(is_collection, (clf, X, y))):
        # The median and the largest of all margins are known only after the pass, and what was counted is divided by
        # them then; the share below a level other than 0 would have to be counted again.
        is_late = normalize in ("median", "max")
        if is_late and level != 0.0:
            raise DataError(
                f"level={level:g} with normalize={normalize!r} needs the size of all margins before they are counted. "
                "Give normalize a number: run the report once with level=0."
            )
        rows = {"X": X, "y": y, "groups": groups, "sample_weight": sample_weight}
        counts = _count_blocks(clf, rows, None if is_late else normalize, classes, float(level), workers)
        sketch, unit = counts.overall, counts.unit
        if sketch is not None and is_late:
            values, weights = sketch.buckets
            size = sketch.largest
            if normalize == "median":
                size = float(weighted_quantiles(np.abs(values), weights, [0.5])[0])
            if not size > 0.0:
                raise DataError(f"normalize={normalize!r} divides by 0: all margins are 0. Use normalize=None.")
            unit = f"multiples of the {'largest' if normalize == 'max' else 'median'} size"
    else:
        n = len(clf.values) if isinstance(clf, Margins) else length_of(y)
        weight = row_weights(sample_weight, n)
        margins = margins_of(clf, X, y, normalize=normalize, classes=classes, sample_weight=weight)
        counts = MarginCounts.of(margins, weight, groups, float(level), in_buckets=False)
        unit = counts.unit
    parts = [("all rows", counts.overall), *counts.groups.items()]
    overall, *summaries = (_summary(part, sketch, levels, delta, size) for part, sketch in parts)
    far = leverage_rows(clf, X, margins.values, leverage) if leverage > 0 and margins is not None else ()
    return MarginReport(
        name, data_name, counts.source, unit, counts.level, levels, float(delta), overall, tuple(summaries),
        counts.n_missing, far,
    )  # fmt: skip


def _count_blocks(
    clf: Classifier | Column | Margins,
    rows: Mapping[str, Any],
    normalize: str | float | None,
    classes: Sequence[Label] | None,
    level: float,
    workers: object,
) -> MarginCounts:
    """Margins of all blocks in one pass; texts among the parts of the rows name columns of X."""
    model = clf if is_asked(clf) else None
    if model is None and classes is None:
        raise DataError("scores in blocks do not say which classes there are; give classes=, in order of the columns.")
    blocks, columns = opened_blocks({**rows, "predictions": clf} if model is None else rows, workers, model=model)
    with closing(blocks):
        counts: MarginCounts = blocks.sum(_count, (model, columns, normalize, classes, level))
    if counts.overall is None:
        raise DataError("the data have no rows. Give some.")

    def in_order(group: tuple[str, object]) -> tuple[float, str]:
        # Groups that are numbers are sorted by number, as `numpy.unique` does for rows in memory, others by name.
        try:
            return float(group[0]), group[0]
        except ValueError:
            return 0.0, group[0]

    counts.groups = dict(sorted(counts.groups.items(), key=in_order))
    return counts


def _count(block: Block, message: tuple[Any, Mapping[str, str], Any, Sequence[Label] | None, float]) -> MarginCounts:
    model, columns, normalize, classes, level = message
    parts = named_parts(block.data, columns)
    y = np.asarray(parts["y"])
    if not y.shape[0]:
        return MarginCounts(level)
    X = None if parts.get("X") is None else fitted_columns(model, parts["X"])
    weight = row_weights(parts.get("sample_weight"), y.shape[0])
    clf = np.asarray(parts["predictions"]) if model is None else model
    margins = margins_of(clf, X, y, normalize=normalize, classes=classes, sample_weight=weight)
    return MarginCounts.of(margins, weight, parts.get("groups"), level)


def _summary(
    name: str, sketch: MarginSketch | None, levels: Sequence[float], delta: float, size: float
) -> MarginSummary:
    """The numbers of some rows, after division of their margins by `size`."""
    from widemargin.losses.location import catoni_location, catoni_radius, catoni_scale  # compiled: others do not wait

    if sketch is None or not sketch.moments.weight > 0.0:
        raise DataError(f"{name} has no row of positive weight; leave the group out, or give it rows.")
    moments = sketch.moments
    # Unequal weights make n rows tell as much as `(sum w)^2 / sum w^2` equal ones (Kish).
    n_effective = moments.weight**2 / sketch.squares
    variance = moments.second / moments.weight / size**2
    values, weight = sketch.buckets
    certainty = sketch.certainties
    curve = None if certainty is None else risk_coverage(certainty, values <= 0.0, weight)
    values = values / size
    from scipy.stats import binom  # slow to import, and not needed where there are only decisions

    below_interval = median_interval = None
    n = sketch.n_rows
    if sketch.squares == moments.weight == n:  # all weights are 1, so numbers of rows are binomial
        below_interval = clopper_pearson(round(sketch.below), n, 1.0 - delta)
        # Fewer than k of n independent rows lie below the median with the chance that a fair coin shows less than k.
        k = int(binom.ppf(0.5 * delta, n, 0.5))
        ends = weighted_quantiles(values, weight, [max(k - 0.5, 0.0) / n, 1.0 - max(k - 0.5, 0.0) / n])
        median_interval = float(ends[0]), float(ends[1])
    sd = float(np.sqrt(variance))
    *quantiles, low, median, high = weighted_quantiles(values, weight, [*levels, 0.25, 0.5, 0.75])
    location = catoni_location(values, "catoni", delta, sample_weight=weight)
    centre, radius = location.value, location.radius
    if sketch.rows is None:
        # Buckets hide a little of the variance, and rows of one bucket count as one, so both come from the exact sums.
        scale = float(catoni_scale(variance, n_effective, delta)) if variance > 0.0 else 1.0
        centre = catoni_location(values, scale, delta, sample_weight=weight).value
        radius = catoni_radius(variance, scale, n_effective, delta)
    # Of equal margins rounding alone would decide the skewness; third powers of tiny ones underflow.
    flat = sd * size <= max(1e-12 * sketch.largest, 1e-100)
    return MarginSummary(
        name=name,
        n_rows=sketch.n_rows,
        weight=moments.weight,
        mean=moments.mean / size,
        median=float(median),
        catoni=float(centre),
        catoni_radius=float(radius) if np.isfinite(radius) else None,
        sd=sd,
        iqr=float(high - low),
        skewness=None if flat else moments.third / moments.weight / (sd * size) ** 3,
        minimum=sketch.minimum / size,
        quantiles=tuple(float(value) for value in quantiles),
        below=sketch.below / moments.weight,
        below_interval=below_interval,
        median_interval=median_interval,
        risk_coverage=curve,
    )


def _headline(report: MarginReport) -> str:
    return printable(
        f"Margins of {report.classifier} as {report.unit} (from {report.source}); {report.data_name}, "
        f"{report.overall.n_rows} rows."
    )


def _table(report: MarginReport) -> list[list[str]]:
    """Head and rows."""
    quantiles = [f"{100 * q:g}%" for q in report.quantile_levels]
    head = ["", "rows", "mean", "median", "Catoni", "+-", "sd", "IQR", "skew", "min", *quantiles, f"< {report.level:g}"]
    has_curve = any(item.risk_coverage is not None for item in (report.overall, *report.groups))
    head += ["AURC"] if has_curve else []
    rows = [head]
    for item in (report.overall, *report.groups):
        numbers = [
            item.mean, item.median, item.catoni, item.catoni_radius, item.sd, item.iqr, item.skewness, item.minimum,
            *item.quantiles,
        ]  # fmt: skip
        below = f"{100 * item.below:.1f}%"
        if item.below_interval is not None:
            low, high = item.below_interval
            below += f" [{100 * low:.1f}, {100 * high:.1f}]"
        area = [_number(None if item.risk_coverage is None else item.risk_coverage.area)] if has_curve else []
        rows.append([printable_name(item.name), str(item.n_rows), *map(_number, numbers), below, *area])
    return rows


def _legend(report: MarginReport) -> list[str]:
    confidence = f"{100 * (1 - report.delta):g}% confidence"
    lines = [
        f"Catoni +-: robust estimate of the mean, {confidence} (approximate); - where nothing is proved.",
        f"< {report.level:g}: share of rows with a margin below {report.level:g}, and exact interval at {confidence}.",
    ]
    if (curve := report.overall.risk_coverage) is not None:
        shown, best = ", ".join(f"{100 * error:.1f}%" for error in curve.errors), f"{curve.best_area:.3f}"
        lines += [
            f"AURC: error of the surest rows, a mean over all shares of rows; lower is better (at best {best}).",
            f"Error of the surest 10%, 20%, ... 100% of all rows: {shown}.",
        ]
    if report.leverage:
        shown = ", ".join(f"{item.row} ({item.times:.0f}x, {item.margin:+.2f})" for item in report.leverage)
        lines.append(f"Rows of most leverage (times the mean, margin): {shown}.")
    if report.n_missing:
        lines.append(f"{report.n_missing} rows have no group.")
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


def leverage_rows(clf: Any, X: Any, margins: Floats, most: int) -> tuple[LeverageRow, ...]:
    """The `most` rows of largest leverage, in the features that the last step of a pipeline is given.

    Raises
    ------
    DataError
        If X does not hold numbers, a value is missing, or there are more features than 5,000.
    """
    features = clf[:-1].transform(X) if hasattr(clf, "steps") and len(clf.steps) > 1 else X
    try:
        matrix = as_dense(features)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise DataError("leverage needs numbers without missing values as features; leave leverage=0.")
    if matrix.shape[1] > 5000:
        raise DataError(f"leverage of {matrix.shape[1]} features takes too long; leave leverage=0.")
    centred = matrix - matrix.mean(axis=0)
    # What rounding leaves of a constant column is small beside the column itself; the units of columns do not matter.
    spread = np.linalg.norm(centred, axis=0)
    varies = spread > 1e-12 * np.linalg.norm(matrix, axis=0)
    centred = centred[:, varies] / spread[varies]
    # The diagonal of `X (X'X)^-1 X'` by the eigenvectors of X'X. Directions whose eigenvalue is rounding are left out,
    # because dependent columns would divide by it; the intercept adds 1 / n to every row.
    values, vectors = np.linalg.eigh(centred.T @ centred)
    kept = values > 1e-12 * max(float(values.max(initial=0.0)), 1e-300)
    own = ((centred @ (vectors[:, kept] / np.sqrt(values[kept]))) ** 2).sum(axis=1) + 1.0 / len(matrix)
    mean = float(own.mean())
    rows = np.argsort(-own, kind="stable")[:most]
    return tuple(LeverageRow(int(row), float(own[row]), float(own[row]) / mean, float(margins[row])) for row in rows)
