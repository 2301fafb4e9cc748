"""Replicates of a data set, drawn with replacement, in which a constraint is measured again.

Rows that a constraint cannot tell apart are counted once, and a replicate is a draw of multinomial counts of these few
kinds of rows: never an array of rows times replicates, so its cost does not grow with the number of rows. A row of
several classes stands in several views (`goals/binding/sources.py`) and is drawn once for all of them.
"""

import functools
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._typing import ArrayLike, Bools, Floats, Ints, Matrix
from widemargin.goals.binding.cells import Packer
from widemargin.goals.binding.tied_goal import Predictions, TiedConstraint, TiedGoal
from widemargin.goals.measuring.rates_of_predictions import RateTable, constraint_standing, rate_values


@dataclass(frozen=True)
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
    dense : int
        Kinds times groups up to which sums by group are products with a dense matrix.
    """

    weights: int = 256
    weight_step: float = 0.05
    draws: int = 4_000_000
    dense: int = 20_000


BOOTSTRAP = BootstrapOptions()


@dataclass(frozen=True, eq=False)
class Tally:
    """Rows counted by cell, prediction and weight; one entry per kind that occurs.

    A row of several classes stands in a cell of each of V views (V = 1 for two classes), and one decision is made for
    it: it is positive in all views that look for the class that it is predicted as.

    Attributes
    ----------
    cell : ndarray of int64, shape (n_kinds, V)
        -1 where its source has fewer views.
    alike : ndarray of int64, shape (n_kinds, V)
        Number of the first view that looks for the same class in these rows.
    said : ndarray of int64, shape (n_kinds,)
        One more than the number of the first view in which the row is positive; 0 where it is in none.
    bin : ndarray of int64
        Number of the bin of weights.
    weight, count : ndarray of float64
        Mean weight of the rows of the kind, and their number.
    """

    cell: Ints
    alike: Ints
    said: Ints
    bin: Ints
    weight: Floats
    count: Floats


def tallies(tied: TiedGoal, positive: Predictions) -> Callable[[TiedConstraint], Tally]:
    """The rows of all sources counted, for one constraint after the other; of several classes in the views it looks at.

    Parameters
    ----------
    positive : sequence of ndarray
        0/1 predictions for each source, or the numbers of the predicted classes.
    """
    counted = functools.cache(functools.partial(tally, tied, positive))

    def of(item: TiedConstraint) -> Tally:
        return counted(frozenset(map(tied.space.key_of, item.constraint.rates)) if tied.several else None)

    return of


def tally(tied: TiedGoal, predicted: Predictions, keys: Collection[Hashable] | None = None) -> Tally:
    """Count the rows of some sources or views (None: of all), given predictions for each source."""
    parts, n_bins = list[tuple[Any, ...]](), 0
    positive = tied.seen(predicted)
    together: dict[int, list[int]] = {}
    for place, source in enumerate(tied.sources):
        if keys is None or source.key in keys:
            together.setdefault(source.given, []).append(place)
    widest = max(map(len, together.values()))
    for places in together.values():
        views = [tied.sources[place] for place in places]
        weight, repeats, width = views[0].weight, views[0].repeats, len(views)
        bins, number = np.zeros(len(views[0].cell), np.int64), 1
        if weight is not None:
            # One bin for each weight while there are few and they are not means; beyond, one for each level.
            values, bins = np.unique(weight, return_inverse=True)
            if (repeats is not None and repeats.binned) or len(values) > BOOTSTRAP.weights:
                bins = np.unique(weight_level(values), return_inverse=True)[1][bins]
            number = int(bins.max(initial=0)) + 1
        # Written from the last view to the first, so that the first view in which a row is positive stays.
        said = np.zeros(len(bins), np.int64)
        for v in reversed(range(width)):
            said[positive[places[v]] != 0] = v + 1
        if width == 1:
            joint, cells = views[0].cell.astype(np.int64), np.arange(len(tied.cell_weight))[:, None]
            alike = np.zeros_like(cells)
        else:
            targets = np.stack([view.target for view in views if view.target is not None], axis=1)
            same = np.argmax(targets[:, :, None] == targets[:, None, :], axis=2)
            columns = np.column_stack([*(view.cell for view in views), same]).astype(np.int64)
            joint, first = _numbered(columns)
            cells, alike = columns[first, :width], columns[first, width:]
        # Cells, prediction and bin of weights as one number: rows with the same number are one kind.
        key = ((width + 1) * joint + said) * number + bins
        rows = None if repeats is None else repeats.count
        n_keys = (width + 1) * len(cells) * number
        if n_keys > 4 * len(key):  # sort, where counting would need more memory than the rows
            distinct, place_of = np.unique(key, return_inverse=True)
        else:
            distinct, place_of = np.flatnonzero(np.bincount(key, minlength=n_keys)), key
        count = np.bincount(place_of, rows).astype(np.float64)
        total = count if weight is None else np.bincount(place_of, weight if rows is None else weight * rows)
        if place_of is key:
            count, total = count[distinct], total[distinct]
        joint, said = np.divmod(distinct // number, width + 1)
        wide = ((0, 0), (0, widest - width))
        parts.append((
            np.pad(cells[joint], wide, constant_values=-1), np.pad(alike[joint], wide), said,
            distinct % number + n_bins, total / count, count,
        ))  # fmt: skip
        n_bins += number
    return Tally(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _numbered(columns: Ints) -> tuple[Ints, Ints]:
    """The number of each row of small integers >= 0 among the different ones, and the first row of each number."""
    packer = Packer(len(columns))
    for column in columns.T:
        packer.add(column, max(1, int(column.max(initial=0)).bit_length()))
    number, _, n_numbers = packer.finish()
    first = np.empty(n_numbers, np.int64)
    first[number[::-1]] = np.arange(len(columns) - 1, -1, -1)
    return number.astype(np.int64), first


def weight_level(weight: ArrayLike) -> Floats:
    """Where a weight lies on the coarse scale, which knows no other weight; weight 0 is at -inf, all for itself."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.floor(np.log(np.asarray(weight, np.float64)) / BOOTSTRAP.weight_step), np.float64)


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
    table = tied.table.select([tied.table.place[rate] for rate in constraint.rates])
    # The 0/1 matrices of the few rates of a constraint, each of shape (r, k).
    matrices = np.zeros((3, len(table.rates), table.space.n_cells), bool)
    for block in table.blocks():
        matrices[:, :, block.place] = block.alpha, block.beta, block.over
    group_of, first, stratum_of = _groups(table, matrices)
    alpha, beta, over = matrices[:, :, first].astype(np.float64)
    # A row of a population of several views is drawn once, and counts in a group of each of them.
    n_classes = max(2, len(tied.classes))
    group, positive, stratum, weight_of_row, count = _kinds(rows, group_of, stratum_of[first], n_classes)
    slack, m, n_views = np.empty(number), len(first), group.shape[1]
    # Replicates have as many rows in every population as the data, so each membership pattern is drawn by itself.
    strata = []
    _, starts = np.unique(stratum, return_index=True)
    for start, stop in zip(starts, [*starts[1:], len(group)], strict=True):
        own, n_kinds = slice(start, stop), stop - start
        # Half a row stands for a prediction that was never seen; it may be drawn, but the sample does not grow by it.
        n_rows = round(float(count[own][count[own] >= 1].sum()))
        inside = group[own].ravel() >= 0
        kind, weight = np.repeat(np.arange(n_kinds), n_views)[inside], np.repeat(weight_of_row[own], n_views)[inside]
        place = group[own].ravel()[inside], kind
        whole = _sums_by_group(weight, place, (m, n_kinds))
        chosen = _sums_by_group(weight * positive[own].ravel()[inside], place, (m, n_kinds))
        strata.append((n_rows, count[own] / count[own].sum(), whole, chosen))
    step = max(1, BOOTSTRAP.draws // max(1, len(count)))
    for start in range(0, number, step):
        # Some replicates at a time, so that the drawn counts stay small whatever the number of kinds.
        stop = min(start + step, number)
        weight, mass = np.zeros((2, m, stop - start))
        for n_rows, shares, whole, chosen in strata:
            drawn = rng.multinomial(n_rows, shares, size=stop - start).T.astype(np.float64)
            weight += whole @ drawn
            mass += chosen @ drawn
        values = rate_values(alpha @ mass + beta @ (weight - mass), over @ weight, table.is_count)
        slack[start:stop] = constraint_standing(constraint, table, values).slack
    # Kish's effective number of rows of each rate's denominator, for Student's t in `intervals._percentile`.
    inside, in_views = group >= 0, np.broadcast_to(count[:, None], group.shape)
    first_moment = np.bincount(group[inside], (in_views * weight_of_row[:, None])[inside], m)
    second_moment = np.bincount(group[inside], (in_views * weight_of_row[:, None] ** 2)[inside], m)
    sizes = (over @ first_moment) ** 2 / (over @ second_moment)
    return slack, float(sizes.min())


def _sums_by_group(weight: Floats, place: tuple[Ints, Ints], shape: tuple[int, int]) -> Matrix:
    """The matrix of some entries; dense where it is small, as a sparse one takes longer to make than to multiply."""
    if shape[0] * shape[1] > BOOTSTRAP.dense:
        return sp.csr_matrix((weight, place), shape=shape)
    return np.bincount(place[0] * shape[1] + place[1], weight, shape[0] * shape[1]).reshape(shape)


def _groups(table: RateTable, matrices: Bools) -> tuple[Ints, Ints, Ints]:
    """Group of each cell (-1: in no population here), one cell of each group, stratum of each cell."""
    space = table.space
    patterns, packer = Packer(space.n_cells), Packer(space.n_cells)
    inside = np.zeros(space.n_cells, bool)
    for name, rows in dict.fromkeys((space.key_of(rate), rate.population.rows) for rate in table.rates):
        member = np.zeros(space.n_cells, bool)
        start, part = space.start[name], space.parts[name]
        member[start : start + part.n_cells] = part.member(rows)
        patterns.add(member, 1)
        packer.add(member, 1)
        inside |= member
    for counts in matrices.reshape(-1, space.n_cells):
        packer.add(counts, 1)
    codes = np.where(inside, packer.finish()[0], -1)
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    if not inside.all():
        first, groups = first[1:], groups - 1
    return groups.astype(np.int64), first.astype(np.int64), patterns.finish()[0].astype(np.int64)


def _kinds(rows: Tally, groups: Ints, stratum_of: Ints, n_classes: int) -> tuple[Ints, Bools, Ints, Floats, Floats]:
    """Merge the kinds of rows of cells that the constraint cannot tell apart.

    Of each kind, stratum after stratum: group of cells and prediction in each view, stratum, weight of a row, number of
    rows. The group is -1 in a view that does not look at the row.

    A prediction that rows of such a kind never show has half a row, with their mean weight: else a rate of 0 or 1 would
    have an interval of no width.
    """
    group = np.where(rows.cell >= 0, groups[rows.cell], -1)
    used = (group >= 0).any(axis=1)
    group, alike, said = group[used], rows.alike[used], rows.said[used]
    width = group.shape[1]
    positive = (said[:, None] > 0) & (alike == said[:, None] - 1) & (group >= 0)
    # Numbered anew among the views that look at the row: the first of those that look for the same class.
    relevant = (alike[:, :, None] == alike[:, None, :]) & (group >= 0)[:, None, :]
    alike = np.where(group >= 0, np.argmax(relevant, axis=2), 0)
    said = np.where(positive.any(axis=1), np.argmax(positive, axis=1) + 1, 0)
    joint, first = _numbered(np.column_stack([group + 1, alike]))
    group, alike = group[first], alike[first]
    n_bins = int(rows.bin.max(initial=0)) + 1
    keys, place = np.unique(((width + 1) * joint + said) * n_bins + rows.bin[used], return_inverse=True)
    count = np.bincount(place, rows.count[used], len(keys)).astype(np.float64)
    weight = np.bincount(place, rows.count[used] * rows.weight[used], len(keys)) / count
    key = keys // n_bins
    size = len(first) * (width + 1)
    seen = np.bincount(key, count, size).reshape(-1, width + 1)
    total = np.bincount(key, count * weight, size).reshape(-1, width + 1).sum(axis=1)
    leads = (group >= 0) & (alike == np.arange(width))
    possible = np.column_stack([leads.sum(axis=1) < n_classes, leads])
    lonely, unseen = np.nonzero(possible & (seen == 0))
    key = np.concatenate([key, (width + 1) * lonely + unseen])
    weight = np.concatenate([weight, total[lonely] / seen[lonely].sum(axis=1)])
    count = np.concatenate([count, np.full(len(lonely), 0.5)])
    joint, said = np.divmod(key, width + 1)
    group, alike = group[joint], alike[joint]
    stratum = stratum_of[group[:, 0]]
    if width > 1:
        stratum, _ = _numbered(np.where(group >= 0, stratum_of[group] + 1, 0))
    order = np.argsort(stratum, kind="stable")
    positive = (group >= 0) & (said[:, None] > 0) & (alike == said[:, None] - 1)
    return group[order], positive[order], stratum[order], weight[order], count[order]
