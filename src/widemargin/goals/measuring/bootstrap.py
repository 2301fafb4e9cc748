"""Bootstrap replicates of the slack of a constraint.

Rows that a constraint cannot tell apart are counted once, and a replicate is a draw of multinomial counts: never an
array of rows times replicates.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin._typing import Floats, Ints
from widemargin.goals.binding.cells import Packer
from widemargin.goals.binding.tied_goal import TiedConstraint, TiedGoal
from widemargin.goals.measuring.rates_of_predictions import RateTable, constraint_standing, rate_values

__all__ = ["BOOTSTRAP", "BootstrapOptions", "Tally", "slack_replicates", "tally", "weight_level"]

Flags = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class BootstrapOptions:
    """What the bootstrap and the counts of rows trade.

    Attributes
    ----------
    weights : int
        Most distinct weights of a source that are kept apart; beyond, those of one bin are averaged. More make more
        kinds of rows, each of which is drawn in every replicate.
    weight_step : float
        Width of a bin of weights on the logarithmic scale. 0.05 averages weights within 5% of each other, which hides
        2e-4 of their second moment and nothing of the first.
    draws : int
        Kinds times replicates drawn at once: 32 MB of counts.
    """

    weights: int = 256
    weight_step: float = 0.05
    draws: int = 4_000_000


BOOTSTRAP = BootstrapOptions()


@dataclasses.dataclass(frozen=True, eq=False)
class Tally:
    """Rows counted by cell, prediction and weight; one entry per kind that occurs.

    Attributes
    ----------
    cell, bin : ndarray of int64
        Cell, and number of the bin of weights.
    positive : ndarray of bool
    weight, count : ndarray of float64
        Mean weight of the rows of the kind, and their number.
    """

    cell: Ints
    bin: Ints
    positive: Flags
    weight: Floats
    count: Floats


def tally(tied: TiedGoal, positive: Sequence[npt.NDArray[Any]]) -> Tally:
    """Count the rows of all sources, given 0/1 predictions for each source."""
    parts, n_bins = [], 0
    for cell, weight, repeats, sign in zip(tied.cell, tied.row_weight, tied.entry_repeats, positive, strict=True):
        bins, number = np.zeros(len(cell), np.int64), 1
        if weight is not None:
            bins, number = _weight_bins(weight, binned=repeats is not None and repeats.binned)
        key = (2 * cell.astype(np.int64) + (sign != 0)) * number + bins
        rows = None if repeats is None else repeats.count
        keys, count, mean = _counted(key, weight, rows, 2 * len(tied.cell_weight) * number)
        said = keys // number
        parts.append((said // 2, keys % number + n_bins, said % 2 == 1, mean, count))
        n_bins += number
    return Tally(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _counted(key: Ints, weight: Floats | None, rows: Ints | None, n_keys: int) -> tuple[Ints, Floats, Floats]:
    """Keys that occur, in order, the number of their rows (one an entry, or `rows`), and their mean weight."""
    if n_keys > 4 * len(key):  # sort, where counting would need more memory than the rows
        keys, place = np.unique(key, return_inverse=True)
    else:
        keys, place = np.flatnonzero(np.bincount(key, minlength=n_keys)), key
    count = np.bincount(place, rows).astype(np.float64)
    total = count if weight is None else np.bincount(place, weight if rows is None else weight * rows)
    if place is key:
        count, total = count[keys], total[keys]
    return keys.astype(np.int64), count, total / count


def weight_level(weight: npt.ArrayLike) -> Floats:
    """Where a weight lies on the coarse scale, which knows no other weight; weight 0 is at -inf, all for itself."""
    with np.errstate(divide="ignore"):
        return np.asarray(
            np.floor(np.log(np.asarray(weight, dtype=np.float64)) / BOOTSTRAP.weight_step), dtype=np.float64
        )


def _weight_bins(weight: Floats, *, binned: bool) -> tuple[Ints, int]:
    """Bin of each weight, and the number of bins; one bin per value while there are few and they are not means."""
    levels, code = np.unique(weight, return_inverse=True)
    if binned or len(levels) > BOOTSTRAP.weights:
        _, coarse = np.unique(weight_level(levels), return_inverse=True)
        code = coarse[code]
    return code.astype(np.int64), int(code.max(initial=0)) + 1


@dataclasses.dataclass(frozen=True, eq=False)
class _Kinds:
    """Kinds of rows that a constraint can tell apart: stratum, group of cells, prediction, weight, number of rows."""

    stratum: Ints
    group: Ints
    positive: Flags
    weight: Floats
    count: Floats


def slack_replicates(
    item: TiedConstraint, tied: TiedGoal, rows: Tally, number: int, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Slack of a constraint in replicates of the data, drawn with replacement within each stratum.

    Parameters
    ----------
    rows : Tally
        What `tally` counted.
    number : int
        Of replicates.

    Returns
    -------
    slack : ndarray of shape (number,)
        NaN where the constraint is undefined.
    size : float
        Effective number of rows, `(sum of weights)^2 / sum of squares`, of the smallest denominator.
    """
    constraint = item.constraint
    wanted = dict.fromkeys((*constraint.lhs.rates, *constraint.rhs.rates))
    table = tied.table.select([tied.table.place[rate] for rate in wanted])
    groups, first, strata = _groups(table, tied)
    alpha, beta, over = (matrix[:, first].astype(np.float64) for matrix in _matrices(table))
    kinds = _kinds(rows, groups, strata[first])
    slack = np.empty(number)
    step = max(1, BOOTSTRAP.draws // max(1, len(kinds.count)))
    for start in range(0, number, step):
        # Some replicates at a time, so that the drawn counts stay small whatever the number of kinds.
        stop = min(start + step, number)
        mass, weight = _draw(kinds, len(first), stop - start, rng)
        values = rate_values(alpha @ mass + beta @ (weight - mass), over @ weight, table.is_count)
        slack[start:stop] = constraint_standing(constraint.lhs, constraint.rhs, item.cleared, table, values).slack
    first_moment = np.bincount(kinds.group, kinds.count * kinds.weight, len(first))
    second_moment = np.bincount(kinds.group, kinds.count * kinds.weight**2, len(first))
    sizes = (over @ first_moment) ** 2 / (over @ second_moment)
    return slack, float(sizes.min())


def _groups(table: RateTable, tied: TiedGoal) -> tuple[Ints, Ints, Ints]:
    """Group of each cell (-1: in no population here), one cell of each group, stratum of each cell."""
    space = tied.space
    patterns, packer = Packer(space.n_cells), Packer(space.n_cells)
    inside = np.zeros(space.n_cells, bool)
    for rows in dict.fromkeys(rate.population.rows for rate in table.rates):
        member = np.zeros(space.n_cells, bool)
        start, part = space.start[rows[0]], space.parts[rows[0]]
        member[start : start + part.n_cells] = part.member(rows)
        patterns.add(member, 1)
        packer.add(member, 1)
        inside |= member
    strata = patterns.finish()[0].astype(np.int64)
    for matrix in _matrices(table):
        for counts in matrix:
            packer.add(counts, 1)
    codes = packer.finish()[0]
    _, first, groups = np.unique(np.where(inside, codes, -1), return_index=True, return_inverse=True)
    if not inside.all():
        first, groups = first[1:], groups - 1
    return groups.astype(np.int64), first.astype(np.int64), strata


def _matrices(table: RateTable) -> npt.NDArray[np.bool_]:
    """The 0/1 matrices alpha, beta and over of the few rates of a constraint, shape (3, r, k)."""
    matrices = np.zeros((3, len(table.rates), table.space.n_cells), bool)
    for block in table.blocks():
        matrices[:, :, block.place] = block.alpha, block.beta, block.over
    return matrices


def _kinds(rows: Tally, groups: Ints, stratum_of: Ints) -> _Kinds:
    """Merge the kinds of rows of cells that the constraint cannot tell apart.

    A prediction that a group of cells never shows has half a row, with the group's mean weight: else a rate of 0 or 1
    would have an interval of no width.
    """
    n_groups, n_bins = len(stratum_of), int(rows.bin.max(initial=0)) + 1
    used = groups[rows.cell] >= 0
    whole_key = (2 * groups[rows.cell[used]] + rows.positive[used]) * n_bins + rows.bin[used]
    keys, place = np.unique(whole_key, return_inverse=True)
    count = np.bincount(place, rows.count[used], len(keys)).astype(np.float64)
    weight = np.bincount(place, rows.count[used] * rows.weight[used], len(keys)) / count
    key = keys // n_bins
    seen = np.bincount(key, count, 2 * n_groups).reshape(n_groups, 2)
    total = np.bincount(key, count * weight, 2 * n_groups).reshape(n_groups, 2).sum(axis=1)
    lonely = np.flatnonzero((seen == 0).any(axis=1) & (seen > 0).any(axis=1))
    key = np.concatenate([key, 2 * lonely + (seen[lonely, 1] == 0)])
    weight = np.concatenate([weight, total[lonely] / seen[lonely].sum(axis=1)])
    count = np.concatenate([count, np.full(len(lonely), 0.5)])
    group = key // 2
    order = np.argsort(stratum_of[group], kind="stable")
    group = group[order]
    return _Kinds(stratum_of[group], group, key[order] % 2 == 1, weight[order], count[order])


def _draw(kinds: _Kinds, n_groups: int, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Weight predicted positive and whole weight of each group in each replicate, shapes (n_groups, number)."""
    mass, whole = np.zeros((n_groups, number)), np.zeros((n_groups, number))
    _, starts = np.unique(kinds.stratum, return_index=True)
    for start, stop in zip(starts, [*starts[1:], len(kinds.stratum)], strict=True):
        count = kinds.count[start:stop]
        # Half a row stands for a prediction that was never seen; it may be drawn, but the sample does not grow by it.
        rows = round(float(count[count >= 1].sum()))
        drawn = rng.multinomial(rows, count / count.sum(), size=number).T.astype(np.float64)
        place = (kinds.group[start:stop], np.arange(stop - start))
        weight, said = kinds.weight[start:stop], kinds.positive[start:stop]
        whole += sp.csr_array((weight, place), shape=(n_groups, stop - start)) @ drawn
        mass += sp.csr_array((weight * said, place), shape=(n_groups, stop - start)) @ drawn
    return mass, whole
