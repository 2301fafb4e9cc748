"""Sums for a margin report: moments, and the margins themselves or, of rows in blocks, a sketch of them.

The sketch is a histogram on a logarithmic scale: the weight and mean of all margins that agree in sign, exponent and
the first twelve binary digits. Quantiles, median and the Catoni estimate from it are off by at most 1/4096 of their
size, the IQR by that of the quartiles. Numbers of rows, mean, standard deviation, skewness, minimum and the share below
the level are exact.
"""

import dataclasses
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from widemargin._typing import Column, Floats, Ints
from widemargin.diagnostics.margins import Margins, group_rows
from widemargin.exceptions import DataError

LARGEST = 1e90
"""Of margins: the sum of the third powers of any number of them, times their weights, is finite up to here."""
_DIGITS = 12
"""Binary digits after the first in which margins of a bucket agree: one more halves errors and doubles the sketch."""


class _Moments(NamedTuple):
    """Weight, mean, and sums of weighted powers of the deviations from the mean."""

    weight: float
    mean: float
    second: float
    third: float

    def joined(self, other: "_Moments") -> "_Moments":
        """Of both sets of rows (Chan, Golub, LeVeque 1979; Terriberry 2007 for the third)."""
        if not self.weight or not other.weight:
            return self if other.weight == 0.0 else other
        weight, step = self.weight + other.weight, other.mean - self.mean
        a, b = self.weight / weight, other.weight / weight
        second = self.second + other.second + step**2 * a * other.weight
        third = self.third + other.third + step**3 * a * other.weight * (a - b)
        third += 3.0 * step * (a * other.second - b * self.second)
        return _Moments(weight, self.mean + b * step, second, third)


@dataclasses.dataclass
class MarginSketch:
    """The margins of some rows.

    Attributes
    ----------
    n_rows : int
        Rows with weight.
    squares : float
        Sum of the squared weights.
    minimum, largest : float
        Least margin and largest absolute one, of rows with weight.
    below : float
        Weight of the margins below the level.
    keys : ndarray of int64, shape (k,)
        Buckets, sorted.
    sums : ndarray of shape (k, 2)
        Weight, and weighted sum of the margins of each bucket.
    rows : tuple of two ndarrays of shape (n,), or None
        Margins and weights of rows in memory, which need no buckets and cannot be joined with others.
    certainty : ndarray of shape (n,) or None
        Of rows in memory, see `Margins`.
    of_two_classes : bool
        Whether the size of a margin is the certainty.
    """

    n_rows: int
    moments: _Moments
    squares: float
    minimum: float
    largest: float
    below: float
    keys: Ints
    sums: Floats
    rows: tuple[Floats, Floats] | None = None
    certainty: Floats | None = None
    of_two_classes: bool = False

    @classmethod
    def of(
        cls, margins: Floats, weight: Floats, level: float, certainty: Floats | None = None, *, in_buckets: bool = True
    ) -> Self:
        """Of margins, shape (n,), with weights and certainties."""
        largest = float(np.abs(margins).max(initial=0.0))
        if largest > LARGEST:
            raise DataError(
                f"margins as large as {largest:.3g} overflow their third powers; scale the features or the scores."
            )
        # Powers of the deviations: differences of sums of plain powers would cancel where the spread is small.
        total = float(weight.sum())
        mean = float(weight @ margins / total) if total else 0.0
        rest = margins - mean
        moments = _Moments(total, mean, float(weight @ rest**2), float(weight @ rest**3))
        has_weight = weight > 0.0
        used = margins if has_weight.all() else margins[has_weight]
        unique, sums, rows = np.zeros(0, np.int64), np.zeros((0, 2)), None
        if in_buckets:
            # The sign, the exponent and the first binary digits of a double are its leading bits. Doubles that agree in
            # these differ by a fixed share of their size: a bucket on a logarithmic scale. 52 bits are digits.
            keys = np.ascontiguousarray(margins).view(np.int64) >> (52 - _DIGITS)
            unique, place = np.unique(keys, return_inverse=True)
            sums = _sums(place, np.column_stack([weight, weight * margins]), unique.shape[0])
        else:
            rows = used, weight if has_weight.all() else weight[has_weight]
        return cls(
            n_rows=int(used.shape[0]),
            moments=moments,
            squares=float(weight @ weight),
            minimum=float(used.min(initial=np.inf)),
            largest=float(np.abs(used).max(initial=0.0)),
            below=float(weight @ (margins < level)),
            keys=unique,
            sums=sums,
            rows=rows,
            certainty=None if certainty is None or in_buckets else certainty[has_weight],
            of_two_classes=certainty is not None and bool(np.array_equal(certainty, np.abs(margins))),
        )

    def joined(self, other: Self) -> Self:
        """Of both sets of rows."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        both = np.concatenate([self.sums, other.sums])
        sums = _sums(place, both, keys.shape[0])
        return dataclasses.replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            moments=self.moments.joined(other.moments),
            squares=self.squares + other.squares,
            minimum=min(self.minimum, other.minimum),
            largest=max(self.largest, other.largest),
            below=self.below + other.below,
            keys=keys,
            sums=sums,
            of_two_classes=self.of_two_classes and other.of_two_classes,
        )

    @property
    def buckets(self) -> tuple[Floats, Floats]:
        """Mean margin and weight of every bucket with weight; of rows in memory, the margins and weights themselves."""
        if self.rows is not None:
            return self.rows
        held = self.sums[self.sums[:, 0] > 0.0]
        return held[:, 1] / held[:, 0], held[:, 0]

    @property
    def certainties(self) -> Floats | None:
        """Certainty of each of the `buckets`; None where it is not known."""
        return np.abs(self.buckets[0]) if self.of_two_classes else self.certainty


def _sums(place: npt.NDArray[np.intp], values: Floats, k: int) -> Floats:
    """Sums of rows of values by place, shape (k, columns)."""
    sums = np.zeros((k, values.shape[1]))
    np.add.at(sums, place, values)
    return sums


class MarginCounts:
    """All that a margin report needs of the rows seen so far; counts of other rows merge in any order.

    Parameters
    ----------
    level : float, default=0.0
        Of the share of margins below it.

    Attributes
    ----------
    overall : MarginSketch or None
        None before the first row.
    groups : dict of str to MarginSketch
    n_missing : int
        Rows without a group.
    source, unit : str
        See `Margins`.
    """

    def __init__(self, level: float = 0.0) -> None:
        self.level = level
        self.overall: MarginSketch | None = None
        self.groups: dict[str, MarginSketch] = {}
        self.n_missing = 0
        self.source = self.unit = ""

    @classmethod
    def of(
        cls, margins: Margins, weight: Floats | None, groups: Column | None, level: float, *, in_buckets: bool = True
    ) -> Self:
        """Of margins, shape (n,), with weights and groups; with `in_buckets` so that other counts can be joined."""
        counts, n = cls(level), margins.values.shape[0]
        parts, counts.n_missing = group_rows(groups, n)
        counts.source, counts.unit = margins.source, margins.unit
        weight = np.ones(n) if weight is None else weight
        counts.overall = MarginSketch.of(margins.values, weight, level, margins.certainty, in_buckets=in_buckets)
        for name, rows in parts:
            some = margins.of(rows)
            counts.groups[name] = MarginSketch.of(
                some.values, weight[rows], level, some.certainty, in_buckets=in_buckets
            )
        return counts

    def merge(self, other: "MarginCounts") -> Self:
        """Take in the counts of other rows; returns self.

        Raises
        ------
        DataError
            If they are of another level or another kind of margins.
        """
        if other.overall is None:
            return self
        if self.overall is not None and (self.level, self.source, self.unit) != (other.level, other.source, other.unit):
            raise DataError("counts of margins of two kinds or two levels cannot be merged. Count both alike.")
        self.source, self.unit, self.level = other.source, other.unit, other.level
        self.overall = other.overall if self.overall is None else self.overall.joined(other.overall)
        for name, sketch in other.groups.items():
            self.groups[name] = self.groups[name].joined(sketch) if name in self.groups else sketch
        self.n_missing += other.n_missing
        return self
