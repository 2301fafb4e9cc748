"""Who lost margin between two models: row by row, by group, with intervals: `margin_changes`."""

import dataclasses
from typing import Any

import numpy as np
import scipy.special

from widemargin._text import aligned, entry_named, html_report, pandas_for_frames, printable, with_lists
from widemargin._typing import Classifier, Column, Features, Floats
from widemargin.diagnostics.margins import Margins, group_rows, margins_of
from widemargin.exceptions import DataError
from widemargin.goals.measuring.intervals import clopper_pearson
from widemargin.rows import length_of


@dataclasses.dataclass(frozen=True)
class MarginChange:
    """What happened to the margins of some rows.

    Attributes
    ----------
    name : str
    n_rows : int
    lost : float
        Share of rows with a smaller margin than before.
    lost_interval : tuple of float
        Exact, by Clopper and Pearson.
    mean : float
        Of the changes; below 0: the rows lost margin.
    mean_interval : tuple of float
        By Student's t, over the rows; infinite for a single one.
    turned_wrong, turned_right : float
        Share of rows that were right and are wrong now, and the other way round.
    """

    name: str
    n_rows: int
    lost: float
    lost_interval: tuple[float, float]
    mean: float
    mean_interval: tuple[float, float]
    turned_wrong: float
    turned_right: float


@dataclasses.dataclass(frozen=True)
class RowChange:
    """A row that lost margin: its number, counted from 0, and both margins."""

    row: int
    before: float
    after: float


@dataclasses.dataclass(frozen=True)
class MarginChanges:
    """Margins of two models on the same rows. `print(changes)`, `.to_frame()`, `.to_dict()`; notebooks show a table.

    Attributes
    ----------
    names : tuple of two str
        Of the models, the one before first.
    unit : str
    confidence : float
        Of each interval.
    overall : MarginChange
    groups : tuple of MarginChange
        Those that lost most first, by the mean.
    losers : tuple of RowChange
        The rows that lost most.
    """

    names: tuple[str, str]
    unit: str
    confidence: float
    overall: MarginChange
    groups: tuple[MarginChange, ...]
    losers: tuple[RowChange, ...]

    def __getitem__(self, name: str) -> MarginChange:
        """The group of that name."""
        return entry_named(self.groups, [item.name for item in self.groups], name, "group")

    def __str__(self) -> str:
        return "\n".join([self._headline(), "", *aligned(self._table()), "", *self._losers()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_report(self._headline(), [self._table()], self._losers())

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON."""
        return dataclasses.asdict(self, dict_factory=with_lists)

    def to_frame(self) -> Any:
        """One row for all rows and one per group as a pandas DataFrame, indexed by name.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        rows = []
        for item in (self.overall, *self.groups):
            row = dict(vars(item))
            for name in ("lost_interval", "mean_interval"):
                row[f"{name}_low"], row[f"{name}_high"] = row.pop(name)
            rows.append(row)
        return pandas_for_frames().DataFrame(rows).set_index("name")

    def _headline(self) -> str:
        before, after = self.names
        return printable(f"Margins of {after} against {before}, as {self.unit}; {self.overall.n_rows} rows.")

    def _table(self) -> list[list[str]]:
        rows = [["", "rows", "lost margin", "mean change", "turned wrong", "turned right"]]
        for item in (self.overall, *self.groups):
            low, high = item.lost_interval
            least, most = item.mean_interval
            rows.append([
                printable(item.name), str(item.n_rows), f"{100 * item.lost:.1f}% [{100 * low:.1f}, {100 * high:.1f}]",
                f"{item.mean:+.3f} [{least:+.3f}, {most:+.3f}]", f"{100 * item.turned_wrong:.1f}%",
                f"{100 * item.turned_right:.1f}%",
            ])  # fmt: skip
        return rows

    def _losers(self) -> list[str]:
        shown = ", ".join(f"{item.row} ({item.before:+.2f} to {item.after:+.2f})" for item in self.losers)
        return [f"Intervals hold with {100 * self.confidence:g}% each. Rows that lost most: {shown or 'none'}."]


def margin_changes(
    before: Classifier | Column | Margins,
    after: Classifier | Column | Margins,
    X: Features | None = None,
    y: Column | None = None,
    groups: Column | None = None,
    *,
    normalize: str | float | None = "median",
    confidence: float = 0.95,
    most: int = 10,
) -> MarginChanges:
    """Whose margins shrink when one model replaces another: all rows, by group, and the rows that lose most.

    Error rates show only the rows that change sides; margins also show which rows moved towards the boundary.

    Parameters
    ----------
    before, after : fitted classifier, array-like of scores, or Margins
        As in `margin_report`.
    X : array-like of shape (n, d), default=None
    y : array-like of shape (n,)
    groups : array-like of shape (n,), default=None
        A value per row; each value gets a line of its own.
    normalize : {None, "norm", "median", "max"} or float, default="median"
        What the margins of each model are divided by, because scores of two models seldom have the same unit. None, and
        `Margins`: as they are.
    confidence : float in (0, 1), default=0.95
        Of each interval; the rows count as independent draws.
    most : int, default=10
        Rows that are named.

    Returns
    -------
    MarginChanges

    Raises
    ------
    DataError
        If a classifier gives no scores, or the data do not fit it.

    Examples
    --------
    >>> from widemargin import margin_changes
    >>> changes = margin_changes([2.0, 1.0, -1.0], [1.0, 2.0, 1.0], y=[1, 1, 0], groups=["a", "a", "b"], normalize=None)
    >>> changes.overall.lost, changes["b"].turned_wrong, changes.losers[0].row
    (0.6666666666666666, 1.0, 2)
    """
    if not 0.0 < confidence < 1.0:
        raise DataError(f"confidence must lie between 0 and 1, got {confidence}.")
    if y is None and not (isinstance(before, Margins) and isinstance(after, Margins)):
        raise DataError("margins need labels; give y.")
    names, each = [], []
    for role, model in (("the model before", before), ("the model after", after)):
        fitted, how = hasattr(model, "predict"), None if isinstance(model, Margins) else normalize
        names.append(type(model).__name__ if fitted else role)
        classes = None if fitted or y is None else np.unique(np.asarray(y)).tolist()
        each.append(margins_of(model, X, y, normalize=how, classes=classes))
    old, new = (item.values for item in each)
    if len(old) != len(new):
        raise DataError(f"there are margins of {len(old)} rows before and of {len(new)} after; give the same rows.")
    if y is not None and length_of(y) != len(old):
        raise DataError(f"y has {length_of(y)} values and there are margins of {len(old)} rows.")
    if names[0] == names[1]:
        names = [f"{names[0]} before", f"{names[1]} after"]
    parts, _ = group_rows(groups, len(old))
    # The rows are the same for both models, so changes are taken row by row, which removes what both have in common.
    summaries = [_change(name, old[rows], new[rows], confidence) for name, rows in parts]
    order = np.argsort(new - old, kind="stable")[:most]
    losers = [RowChange(int(row), float(old[row]), float(new[row])) for row in order if new[row] < old[row]]
    units = dict.fromkeys(item.unit for item in each)
    return MarginChanges(
        (names[0], names[1]), " and ".join(units), float(confidence), _change("all rows", old, new, confidence),
        tuple(sorted(summaries, key=lambda item: item.mean)), tuple(losers),
    )  # fmt: skip


def _change(name: str, old: Floats, new: Floats, confidence: float) -> MarginChange:
    change = new - old
    n, lost, mean = len(change), int((change < 0.0).sum()), float(change.mean())
    half = np.inf
    if n > 1:
        half = float(scipy.special.stdtrit(n - 1, 0.5 * (1.0 + confidence)) * change.std(ddof=1) / np.sqrt(n))
    was_wrong, is_wrong = old <= 0.0, new <= 0.0
    return MarginChange(
        name, n, lost / n, clopper_pearson(lost, n, confidence), mean, (mean - half, mean + half),
        float((is_wrong & ~was_wrong).mean()), float((was_wrong & ~is_wrong).mean()),
    )  # fmt: skip
