"""Rates by group, in the manner of fairlearn's MetricFrame, and rates of the goal language as metrics for it."""

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from widemargin._text import aligned, html_table, listing, pandas_for_frames, printable, printable_name
from widemargin._typing import Bools, Column, Ints, Label, Table
from widemargin.exceptions import DataError
from widemargin.goals.binding.cells import CellSpace, build_cells
from widemargin.goals.binding.labels import encode_labels, find_classes, positive_class
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable, column_of
from widemargin.goals.language.constraints import Constraint, Expression
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.linear import Linear, Rate, Ratio
from widemargin.goals.language.populations import EVERYONE
from widemargin.goals.measuring.rates_of_predictions import RateTable, form_value
from widemargin.rows import is_frame

Method = Literal["between_groups", "to_overall"]
Group: TypeAlias = Hashable
Value = float | None


@dataclasses.dataclass(frozen=True)
class GroupRates:
    """Rates over all rows and by group; the names are those of fairlearn's MetricFrame.

    Attributes
    ----------
    rates : tuple of str
    overall : dict of str to float or None
        By rate; None where the denominator is 0.
    by_group : dict of group to dict of str to float or None
        A group is a value, or a tuple of values where several columns were given.
    n_rows : dict of group to int
    n_missing : int
        Rows without a group; they count in `overall` only.
    """

    rates: tuple[str, ...]
    overall: dict[str, Value]
    by_group: dict[Group, dict[str, Value]]
    n_rows: dict[Group, int]
    n_missing: int = 0

    def group_min(self) -> dict[str, Value]:
        """Smallest value over the groups, by rate (groups without a value are left out)."""
        return {rate: min(self._values(rate), default=None) for rate in self.rates}

    def group_max(self) -> dict[str, Value]:
        """Largest value over the groups, by rate."""
        return {rate: max(self._values(rate), default=None) for rate in self.rates}

    def difference(self, method: Method = "between_groups") -> dict[str, Value]:
        """Largest difference between two groups, or between a group and all rows."""
        return {rate: max((high - low for low, high in self._pairs(rate, method)), default=None) for rate in self.rates}

    def ratio(self, method: Method = "between_groups") -> dict[str, Value]:
        """Smallest ratio, at most 1, of two groups' values, or of a group's value and that of all rows."""
        return {
            rate: min((low / high for low, high in self._pairs(rate, method) if high > 0.0), default=None)
            for rate in self.rates
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, strings and numbers, fit for JSON."""
        groups = [
            {"group": list(key) if isinstance(key, tuple) else key, "n_rows": self.n_rows[key], "rates": values}
            for key, values in self.by_group.items()
        ]
        return {"overall": self.overall, "groups": groups, "n_missing": self.n_missing}

    def to_frame(self) -> Any:
        """A row per group and a column per rate as a pandas DataFrame, as `MetricFrame.by_group`.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = pandas_for_frames()
        return pd.DataFrame.from_dict(self.by_group, orient="index", columns=list(self.rates)).astype(float)

    def __str__(self) -> str:
        return "\n".join(aligned(self._table()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        return html_table(head, rows)

    def _table(self) -> list[list[str]]:
        lines = [["", "rows", *map(printable, self.rates)]]
        number = sum(self.n_rows.values()) + self.n_missing
        for name, rows, values in (
            ("all rows", number, self.overall),
            *((printable_name(str(key)), self.n_rows[key], values) for key, values in self.by_group.items()),
        ):
            shown = ["-" if value is None else f"{value:.4f}" for value in values.values()]
            lines.append([name, str(rows), *shown])
        return lines

    def _values(self, rate: str) -> list[float]:
        return [value for values in self.by_group.values() if (value := values[rate]) is not None]

    def _pairs(self, rate: str, method: str) -> list[tuple[float, float]]:
        """Lower and higher value of what is compared."""
        if method not in ("between_groups", "to_overall"):
            raise DataError(f'method is {method!r}; it must be "between_groups" or "to_overall".')
        values, whole = self._values(rate), self.overall[rate]
        if method == "between_groups":
            return [(min(values), max(values))] if values else []
        return [] if whole is None else [(min(value, whole), max(value, whole)) for value in values]


def metric_frame(
    rates: Goal | str | Expression | Sequence[str | Expression],
    y_true: Column | None,
    y_pred: Column,
    groups: Column | Table,
    *,
    sample_weight: Column | None = None,
    baselines: Mapping[str, Column] | None = None,
    pos_label: Label = None,
) -> GroupRates:
    """Rates of predictions over all rows and by group, with the numbers of fairlearn's MetricFrame.

    Parameters
    ----------
    rates : Goal, str, Expression, or sequence of str or Expression
        Expressions of the goal language such as `"recall()"` or `precision()`, on all rows. Of a goal: the rates and
        ratios of its constraints, whatever populations they are on.
    y_true : array-like of shape (n,) or None
        Not needed by rates without labels.
    y_pred : array-like of shape (n,)
        Predicted labels.
    groups : array-like of shape (n,), or data frame with n rows
        A value per row; of several columns their combinations.
    sample_weight : array-like of shape (n,), default=None
    baselines : mapping of str to array-like of shape (n,), default=None
    pos_label : label, default=None
        None: the second of the two classes.

    Returns
    -------
    GroupRates

    Raises
    ------
    GoalError, DataError
        An expression cannot be read, or the data do not fit.

    Examples
    --------
    >>> from widemargin.diagnostics import metric_frame
    >>> frame = metric_frame(["recall()", "precision()"], [1, 1, 0, 0], [1, 0, 1, 0], ["a", "b", "a", "b"])
    >>> frame.by_group["a"], frame.difference()["recall()"]
    ({'recall()': 1.0, 'precision()': 0.5}, 1.0)
    """
    forms = _forms(rates)
    vectors = {"y_pred": y_pred, **({} if y_true is None else {"y_true": y_true}), **(baselines or {})}
    pair = positive_class(find_classes(vectors, pos_label), pos_label)
    coded = {name: encode_labels(values, pair, what=name) for name, values in vectors.items()}
    n = len(coded["y_pred"])
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    source = Source(None, coded.get("y_true"), weight, None, {name: coded[name] for name in baselines or {}}, n)
    keys, numbers = _groups(groups, n)
    positive = coded["y_pred"] > 0
    by_group, counts = {}, {}
    for j, key in enumerate(keys):
        inside = numbers == j
        counts[key] = int(np.count_nonzero(inside))
        part = Source(
            None, None if source.labels is None else source.labels[inside], None if weight is None else weight[inside],
            None, {name: values[inside] for name, values in source.baselines.items()}, counts[key],
        )  # fmt: skip
        by_group[key] = _measured(forms, part, positive[inside])
    whole = _measured(forms, source, positive)
    return GroupRates(tuple(forms), whole, by_group, counts, int(np.count_nonzero(numbers < 0)))


def as_metric(rate: str | Expression, *, pos_label: Label = None) -> Callable[..., float]:
    """A rate of the goal language as a function `metric(y_true, y_pred, sample_weight=None)`.

    Such functions can be given to fairlearn's MetricFrame and to `sklearn.metrics.make_scorer`. The value is NaN where
    the rate's denominator is 0.

    Examples
    --------
    >>> from widemargin.diagnostics import as_metric
    >>> as_metric("recall()")([1, 1, 0], [1, 0, 0])
    0.5
    """
    forms = _forms(rate)
    if len(forms) != 1:
        raise DataError(f"one rate is needed; got {listing(list(forms))}.")
    name = next(iter(forms))

    def metric(y_true: Column, y_pred: Column, sample_weight: Column | None = None) -> float:
        y_pred = np.asarray(y_pred)
        classes = pos_label
        if pos_label is None:  # a group may hold one class only; then 1 stands for the positive one
            seen = {value for values in (y_true, y_pred) for value in column_of("labels", values).distinct()}
            classes = 1 if seen <= {0, 1} else None
        frame = metric_frame(
            name, y_true, y_pred, np.zeros(len(y_pred)), sample_weight=sample_weight, pos_label=classes
        )
        value = frame.overall[name]
        return math.nan if value is None else value

    metric.__name__ = metric.__qualname__ = name
    return metric


def _forms(rates: Goal | str | Expression | Sequence[str | Expression]) -> dict[str, Linear]:
    """The expressions by their text."""
    if isinstance(rates, Goal):
        entries = [entry for entry in rates.constraints if isinstance(entry, Constraint)]
        terms = [term for entry in entries for term in (*entry.lhs.terms, *entry.rhs.terms)]
        plain = dict.fromkeys(_everywhere(atom) for _, atom in terms)
        if not plain:
            raise DataError("the goal has no constraint with a rate of its own; name the rates.")
        return {str(atom): Linear(((1.0, atom),)) for atom in plain}
    listed = [rates] if isinstance(rates, str | Expression) else list(rates)
    if not listed:
        raise DataError("no rate is named; give one, such as 'recall()'.")
    forms = {}
    for rate in listed:
        if isinstance(rate, Expression):
            form = rate.form
        elif "/" in rate or rate.strip().startswith(("precision", "f_beta", "win_loss_ratio", "win_change_ratio")):
            # An objective may not be a ratio, so a ratio is read as the left-hand side of a constraint.
            (entry,) = Goal.parse(f"subject to {rate} >= 0.5").constraints
            form = entry.lhs if isinstance(entry, Constraint) else Linear(())
        else:
            form = Goal.parse(f"minimize {rate}").objective
        if any(atom.population != EVERYONE for atom in form.rates):
            raise DataError(f"{form}: rates by group are on all rows of the group; leave its population out.")
        forms[str(form)] = form
    return forms


def _everywhere(atom: Rate | Ratio) -> Rate | Ratio:
    """The same rate or ratio on everyone."""
    if isinstance(atom, Rate):
        return Rate(atom.metric, EVERYONE, atom.baseline)
    numerator, denominator = (
        Linear(tuple((c, _everywhere(inner)) for c, inner in form.terms), form.constant)
        for form in (atom.numerator, atom.denominator)
    )
    population = None if atom.population is None else EVERYONE
    return Ratio(numerator, denominator, atom.name, population, atom.baseline, atom.beta)


def _groups(groups: Column | Table, n: int) -> tuple[list[Group], Ints]:
    """The groups in order, and the number of each row's one (-1: none)."""
    if is_frame(groups):
        table = PopulationTable.build(groups)
        columns = [] if table is None else [table.column(name) for name in table.columns]
    else:
        columns = [column_of("groups", groups)]
    if not columns or any(len(column.values) != n for column in columns):
        raise DataError(f"groups must have a value for each of the {n} rows.")
    rows: list[Any] = list(zip(*(column.to_values().tolist() for column in columns), strict=True))
    absent = np.zeros(n, bool)
    for column in columns:
        absent |= np.zeros(n, bool) if column.missing is None else column.missing
    keys = sorted(
        {row for row, gone in zip(rows, absent, strict=True) if not gone}, key=lambda row: tuple(map(str, row))
    )
    place = {key: j for j, key in enumerate(keys)}
    numbers = np.array([-1 if gone else place[row] for row, gone in zip(rows, absent, strict=True)], dtype=np.int64)
    return [key[0] if len(columns) == 1 else key for key in keys], numbers


def _measured(forms: Mapping[str, Linear], source: Source, positive: Bools) -> dict[str, Value]:
    rates = list(dict.fromkeys(rate for form in forms.values() for rate in form.rates))
    needy = [rate for rate in rates if rate.needs_label]
    if needy and source.labels is None:
        raise DataError(f"{needy[0]} needs labels; give y_true.")
    unknown = [rate.baseline for rate in rates if rate.baseline is not None and rate.baseline not in source.baselines]
    if unknown:
        raise DataError(f"baseline {unknown[0]!r} is unknown; give baselines={{{unknown[0]!r}: predictions}}.")
    space = CellSpace([source], [build_cells(source, [EVERYONE], list(source.baselines), use_label=bool(needy))])
    table = RateTable.build(rates, space)
    cell = space.parts[None].cell
    said = positive.astype(np.float64) if source.weight is None else source.weight * positive
    values = table.values(np.bincount(cell, said, space.n_cells).astype(np.float64))
    measured = {name: float(form_value(form, table, values)) for name, form in forms.items()}
    return {name: None if math.isnan(value) else value for name, value in measured.items()}
