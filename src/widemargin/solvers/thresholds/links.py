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
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from widemargin._typing import Bools, Floats, Ints
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

DIGITS = 11
"""Decimal digits to which coefficients are compared: they are sums in different orders, whose last digits differ."""

Edge = tuple[int, int]


class Links(NamedTuple):
    """Rates of groups, and families of links between them.

    Attributes
    ----------
    group : ndarray of int64, shape (r,)
        Of each rate, rising.
    start : ndarray of int64, shape (n_groups + 1,)
        Where the rates of each group begin.
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
    start: Ints
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
    share : ndarray of shape (number of the rest, r)
        A candidate adds to them the rates of its group times these.
    """

    possible: bool
    allowed: Bools
    links: Links
    rest: Ints
    share: Floats


def take_apart(candidates: Candidates, *, pairwise: bool = False) -> Parts:
    """Sort the constraints into rules of one group, links and the rest.

    Parameters
    ----------
    candidates : Candidates
    pairwise : bool, default=False
        Compare a group with each other one in place of their mean ("with all rows"): links that are enough for such a
        constraint to hold, though it does not ask for them. A mean of rates lies between the least and the largest.
    """
    masses = candidates.masses()
    allowed, possible, rest = np.ones(len(candidates.group), bool), True, []
    rates, edges = _Rates(candidates, masses), defaultdict[tuple[float, float], set[Edge]](set)
    change, means = np.zeros(masses.shape[1]), defaultdict[float, list[tuple[float, float, set[Edge]]]](list)
    for j, excess in enumerate(candidates.excess.tolist()):
        cells, values = candidates.column(j)
        change[:] = 0.0
        change[cells] = values
        seen = [int(g) for g in np.flatnonzero(masses[:, cells[values != 0.0]].any(axis=1))]
        if not seen:
            # No row of any group counts in it: it holds whatever the thresholds, or it cannot.
            possible &= excess <= FEASIBLE
        elif len(seen) == 1:
            # A rule of one group strikes out candidates of that group.
            part = slice(candidates.first[seen[0]], candidates.first[seen[0] + 1])
            allowed[part] &= excess + candidates.running(seen[0], cells, values) <= FEASIBLE
        else:
            parts = [one for g in seen for one in rates.find(g, change)]
            (v, below), (u, above) = min(parts, key=itemgetter(1)), max(parts, key=itemgetter(1))
            if len(parts) == len(seen) == 2 and below < 0.0 < above:
                # `above rate_u + below rate_v + excess <= 0` solved for rate_u: a factor times rate_v, plus a slack.
                law = round(-below / above, DIGITS), round((FEASIBLE - excess) / above, DIGITS)
                edges[law].add((u, v))
            elif pairwise and (compared := _with_each(parts, excess)) is not None:
                means[round(np.log(compared[0]), 1)].append(compared)
            else:
                # Three groups, or two rates of one sign: nothing that a level between two groups could say.
                rest.append((j, parts))
    # The factors and slacks of comparisons with a mean differ a little by the sizes of the groups. With the least of
    # them they are one family.
    for alike in means.values():
        law = round(min(factor for factor, _, _ in alike), DIGITS), round(min(slack for _, slack, _ in alike), DIGITS)
        edges[law] |= {edge for _, _, pairs in alike for edge in pairs}
    share = np.zeros((len(rest), len(rates.group)))
    for row, (_, parts) in enumerate(rest):
        for number, total in parts:
            share[row, number] += total
    order = np.argsort(rates.group, kind="stable")
    # The edges name rates by their numbers in the order of discovery; the rates are stored group by group.
    place = np.argsort(order)
    families = [family for law, pairs in edges.items() for family in families_of(pairs, law)]
    laws = np.array([law for law, pairs in edges.items() for _ in families_of(pairs, law)]).reshape(len(families), 2)
    group, of_rates = np.array(rates.group, np.int64)[order], [rates.values[number] for number in order]
    ends = np.cumsum([0] + [len(of_rate) for of_rate in of_rates])
    capped, floored = ([place[np.array(family[side])] for family in families] for side in (0, 1))
    links = Links(
        group, np.searchsorted(group, np.arange(candidates.n_groups + 1)), np.concatenate([*of_rates, np.zeros(0)]),
        ends[:-1] - candidates.first[group], laws[:, 0].copy(), laws[:, 1].copy(), *_joined(capped), *_joined(floored),
    )  # fmt: skip
    # Row by row, whatever their number, so that one compiled loop reads them all.
    shares = np.ascontiguousarray(share[:, order])
    return Parts(possible, allowed, links, np.array([j for j, _ in rest], np.int64), shares)


def _with_each(parts: list[tuple[int, float]], excess: float) -> tuple[float, float, set[Edge]] | None:
    """Factor, slack and edges of links that are enough where one rate is compared with a mean of others, or None."""
    above, below = ([part for part in parts if sign * part[1] > 0.0] for sign in (1.0, -1.0))
    if min(len(above), len(below)) != 1:
        return None
    # `sum_h a_h rate_h + excess <= sum_v b_v rate_v`, where one side has one rate: it is enough that each rate_h is at
    # most `b / a rate_v - excess / a`, with the sums a and b.
    a, b = (abs(sum(factor for _, factor in side)) for side in (above, below))
    return b / a, (FEASIBLE - excess) / a, {(u, v) for u, _ in above for v, _ in below}


class _Rates:
    """The rates that constraints are made of, each stored once."""

    def __init__(self, candidates: Candidates, masses: Floats) -> None:
        self._candidates, self._masses = candidates, masses
        self._cells = [np.flatnonzero(mass) for mass in masses]
        self._number: dict[tuple[int, bytes, bytes], int] = {}
        self._found: dict[tuple[int, bytes], list[tuple[int, float]]] = {}
        self.group: list[int] = []
        self.values: list[Floats] = []

    def find(self, g: int, change: Floats) -> list[tuple[int, float]]:
        """What a constraint that changes so by cell adds in group g: numbers of one or two rates, and their factors."""
        cells = self._cells[g]
        values = change[cells]
        # Hundreds of groups that are each compared with all rows look at the same sum over all of them.
        if (known := self._found.get((g, values.tobytes()))) is not None:
            return known
        found = self._found[g, values.tobytes()] = []
        # What the constraint adds is a difference of two rates: one of the cells of positive values and one of the
        # others. As sums of weights called positive both rise from candidate to candidate.
        for sign in (1.0, -1.0):
            used = np.flatnonzero(sign * values > 0.0)
            if not len(used):
                continue
            # Two constraints look at the same rate where they count the same cells in the same proportions.
            mine, size = cells[used], np.abs(values[used])
            key = g, mine.tobytes(), np.round(size / size.max(), DIGITS).tobytes()
            if key not in self._number:
                counted = self._candidates.running(g, mine, size)
                self._number[key] = len(self.group)
                self.group.append(g)
                self.values.append(counted / counted[-1])
            found.append((self._number[key], sign * float(self._masses[g, mine] @ size)))
        return found


def _joined(parts: list[Ints]) -> tuple[Ints, Ints]:
    return np.concatenate([*parts, np.zeros(0, np.int64)]), np.cumsum([0] + [len(part) for part in parts])


def families_of(edges: set[Edge], law: tuple[float, float]) -> list[tuple[list[int], list[int]]]:
    """Lists of u and of v such that the edges (u, v) are all pairs of a u and a v of the same family.

    Where `rate <= factor rate + slack` holds for any rate (factor >= 1, slack >= 0), a rate may be added as linked with
    itself. Only with such links are the comparisons of every group with every other one family.
    """
    # Which rates are capped by each floored one.
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
    # The others are joined where they cap exactly the same rates.
    for v, linked in alone.items():
        families[frozenset(linked)].append(v)
    return [(sorted(capped), sorted(floored)) for capped, floored in families.items()]
