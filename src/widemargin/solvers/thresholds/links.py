"""How the constraints of group thresholds fall apart: rules of one group, links between rates of two, and the rest.

A constraint that looks at one group only decides which of its candidates are allowed. One of the form

    rate of u <= factor * rate of v + slack

between rates of two groups, as in every comparison of groups, is a link: both rates rise from 0 to 1 as the groups'
thresholds fall. Where every u of a list is linked in the same way with every v of another, all these links together say
that there is a number t, the level of the family, with `rate of u <= factor * t + slack` and `t <= rate of v`. That is
two bounds a group in place of a constraint a pair, and once t is known the groups are on their own. What is left looks
at several groups at once and has a price (`per_group.py`).
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from widemargin._typing import Bools, Floats, Ints
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

DIGITS = 11
"""Of coefficients that are compared with each other: they are sums in other orders, which differ in their last ones."""

Edge = tuple[int, int]


class Links(NamedTuple):
    """Rates of groups, and families of links between them.

    Attributes
    ----------
    group : ndarray of int64, shape (r,)
        Of each rate.
    rate : ndarray of shape (sum of the candidates of these groups,)
        Of the candidates of one group after those of another; they rise from 0 to 1.
    shift : ndarray of int64, shape (r,)
        The rate u of candidate c is `rate[shift[u] + c]`.
    factor, slack : ndarray of shape (f,)
        Of each family; the slack includes what counts as rounding.
    capped, floored : ndarray of int64
        Rates u and v of the families, one family after the other.
    capped_start, floored_start : ndarray of int64, shape (f + 1,)
        Where those of each family begin.
    """

    group: Ints
    rate: Floats
    shift: Ints
    factor: Floats
    slack: Floats
    capped: Ints
    capped_start: Ints
    floored: Ints
    floored_start: Ints


class Parts(NamedTuple):
    """The constraints, taken apart.

    Attributes
    ----------
    possible : bool
        False where a constraint that no group can change is not met.
    allowed : ndarray of bool, shape (K,)
        Candidates that meet the constraints on their group alone.
    links : Links
    rest : ndarray of int64
        Numbers of the other constraints.
    rise, fall : ndarray of shape (number of the rest, K)
        What each candidate adds to them is the difference of these two, which grow as more rows are called positive.
    """

    possible: bool
    allowed: Bools
    links: Links
    rest: Ints
    rise: Floats
    fall: Floats


def take_apart(candidates: Candidates) -> Parts:
    """Sort the constraints into rules of one group, links and the rest."""
    masses = candidates.masses()
    allowed, possible, rest = np.ones(len(candidates.group), bool), True, []
    rates, edges = _Rates(candidates), defaultdict[tuple[float, float], set[Edge]](set)
    for j, excess in enumerate(candidates.excess.tolist()):
        cells, values = candidates.column(j)
        inside = masses[:, cells]
        seen = [int(g) for g in np.flatnonzero(inside[:, values != 0.0].any(axis=1))]
        total = dict(zip(seen, inside[seen] @ values, strict=True))
        if not seen:
            possible &= excess <= FEASIBLE
        elif len(seen) == 1:
            part = slice(candidates.first[seen[0]], candidates.first[seen[0] + 1])
            allowed[part] &= excess + candidates.running(seen[0], cells, values) <= FEASIBLE
        elif len(seen) == 2 and min(total.values()) < 0.0 < max(total.values()):
            v, u = sorted(seen, key=total.__getitem__)
            end_u, end_v = (rates.find(g, cells, np.where(inside[g] > 0.0, values, 0.0)) for g in (u, v))
            if end_u is None or end_v is None:
                rest.append(j)
            else:
                law = round(-total[v] / total[u], DIGITS), round((FEASIBLE - excess) / total[u], DIGITS)
                edges[law].add((end_u, end_v))
        else:
            rest.append(j)
    rise, fall = np.zeros((2, len(rest), len(candidates.group)))
    for row, j in enumerate(rest):
        cells, values = candidates.column(j)
        for g in range(candidates.n_groups):
            part = slice(candidates.first[g], candidates.first[g + 1])
            rise[row, part] = candidates.running(g, cells, np.maximum(values, 0.0))
            fall[row, part] = candidates.running(g, cells, np.maximum(-values, 0.0))
    return Parts(possible, allowed, _linked(candidates, rates, edges), np.array(rest, np.int64), rise, fall)


class _Rates:
    """The rates that links are between, each stored once."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._number: dict[tuple[int, bytes, bytes], int | None] = {}
        self.group: list[int] = []
        self.values: list[Floats] = []

    def find(self, g: int, cells: Ints, values: Floats) -> int | None:
        """Number of the rate of group g in which rows of the cells count in these proportions; None: it is no rate."""
        used = np.flatnonzero(values)
        key = g, cells[used].tobytes(), np.round(values[used] / np.abs(values).max(), DIGITS).tobytes()
        if key not in self._number:
            self._number[key] = None
            if not values.min() < 0.0 < values.max():  # what rises and falls with the threshold is no rate
                counted = self._candidates.running(g, cells[used], values[used])
                self._number[key] = len(self.group)
                self.group.append(g)
                self.values.append(counted / counted[-1])
        return self._number[key]


def _linked(candidates: Candidates, rates: _Rates, edges: dict[tuple[float, float], set[Edge]]) -> Links:
    """Few families that hold all links."""
    families = [(law, *family) for law, pairs in edges.items() for family in families_of(pairs, law)]
    group = np.array(rates.group, np.int64)
    ends = np.cumsum([0] + [len(values) for values in rates.values])
    laws = np.array([law for law, _, _ in families]).reshape(len(families), 2)
    capped, floored = ([np.array(family[side], np.int64) for family in families] for side in (1, 2))
    return Links(
        group, np.concatenate([*rates.values, np.zeros(0)]), ends[:-1].astype(np.int64) - candidates.first[group],
        laws[:, 0].copy(), laws[:, 1].copy(), *_joined(capped), *_joined(floored),
    )  # fmt: skip


def _joined(parts: list[Ints]) -> tuple[Ints, Ints]:
    return np.concatenate([*parts, np.zeros(0, np.int64)]), np.cumsum([0] + [len(part) for part in parts])


def families_of(edges: set[Edge], law: tuple[float, float]) -> list[tuple[list[int], list[int]]]:
    """Lists of u and of v such that the edges (u, v) are all pairs of a u and a v of the same family.

    A rate may be added as linked with itself where that says nothing (factor >= 1, slack >= 0): only so all pairs of
    several groups are one family.
    """
    above = defaultdict[int, set[int]](set)
    for u, v in edges:
        above[v].add(u)
    families = defaultdict[frozenset[int], list[int]](list)
    alone = dict(above)
    if law[0] >= 1.0 and law[1] >= 0.0:
        for v, linked in above.items():
            families[frozenset(linked | {v})].append(v)
        families = defaultdict(list, {key: members for key, members in families.items() if len(members) > 1})
        alone = {v: linked for v, linked in above.items() if v not in {w for part in families.values() for w in part}}
    for v, linked in alone.items():
        families[frozenset(linked)].append(v)
    return [(sorted(capped), sorted(floored)) for capped, floored in families.items()]
