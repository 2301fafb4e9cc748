"""How far people of unknown group can move impact ratios: the least and the largest over all ways to place them.

The impact ratio of a group is its rate of selected people over the highest rate of all groups. Each person whose group
is not known belongs to one of some groups, and every way to place them all is a table that may be the true one.

The *least* ratio of a group is the least over single rivals: it takes all unknown people who were passed over, and the
rival all who were selected. For the *largest* the group takes those who were selected, and the others are placed so
that the highest rate of all rivals becomes as low as it can.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from widemargin._typing import Bools, Ints

WHOLE_PEOPLE = 50
"""Up to so many unknown people, of several kinds, are placed as whole people, which takes up to 2 s in 24 groups.
Beyond that it can take minutes, and parts of people may be placed, too."""


class Unknown(NamedTuple):
    """People of whom only some possible groups are known.

    Attributes
    ----------
    groups : tuple of int
        Each belongs to one of these.
    selected, passed_over : int
        How many of them.
    """

    groups: tuple[int, ...]
    selected: int
    passed_over: int


class ImpactRange(NamedTuple):
    """What an impact ratio can be; None where it is undefined whatever the unknown people are."""

    least: float | None
    largest: float | None


def impact_ranges(
    selected: Ints, passed_over: Ints, unknown: Sequence[Unknown], counted: Bools
) -> list[ImpactRange | None]:
    """The range of the impact ratio of every group.

    Parameters
    ----------
    selected, passed_over : ndarray of int, shape (n_groups,)
        People whose group is known.
    counted : ndarray of bool, shape (n_groups,)
        Groups that have a ratio and count for the highest rate; unknown people may belong to the others, too.

    Returns
    -------
    list of ImpactRange
        None for groups that are not counted. Ratios are exact where all unknown people may belong to the same groups,
        or are at most `WHOLE_PEOPLE`. Else the least is exact, and the largest is never too small, and too large by no
        more than a few people in a group make.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.diagnostics.standards.unknown_groups import Unknown, impact_ranges
    >>> first, second = impact_ranges(
    ...     np.array([40, 50]), np.array([60, 50]), [Unknown((0, 1), 0, 25)], np.array([True, True])
    ... )
    >>> [round(end, 3) for end in first]
    [0.64, 1.0]
    """
    people = _People(selected.tolist(), passed_over.tolist(), [], counted)
    for kind in unknown:
        if len(kind.groups) == 1:  # nothing is left open about them
            people.selected[kind.groups[0]] += kind.selected
            people.passed[kind.groups[0]] += kind.passed_over
        elif kind.selected or kind.passed_over:
            people.unknown.append(kind)
    return [_range(group, people) if counted[group] else None for group in range(len(selected))]


class _People(NamedTuple):
    """Those of known group, selected and passed over, by group, and those of unknown group; who may be the highest."""

    selected: list[int]
    passed: list[int]
    unknown: list[Unknown]
    counted: Bools


def _range(group: int, people: _People) -> ImpactRange:
    selected, passed, unknown, counted = people
    own = [kind for kind in unknown if group in kind.groups]
    above, below = selected[group], selected[group] + passed[group] + sum(kind.passed_over for kind in own)
    # The group itself may have the highest rate, and then its ratio is 1, if anybody of it was selected or may have
    # been.
    ratios = [1.0] if above or any(kind.selected for kind in own) else []
    for rival in np.flatnonzero(counted).tolist():
        of_rival = selected[rival] + sum(kind.selected for kind in unknown if rival in kind.groups)
        if rival != group and below and of_rival:
            ratios.append(above * (of_rival + passed[rival]) / (below * of_rival))
    least = min(ratios, default=None)
    above += sum(kind.selected for kind in own)
    if not above:  # nobody of the group can have been selected: 0, if anything
        return ImpactRange(least, least)
    # The group takes everybody who was selected and may belong to it. What is left are people whom it does not take:
    # those passed over, and those selected who cannot belong to it.
    rate = Fraction(above, above + passed[group])
    others = [
        Unknown(
            tuple(other for other in kind.groups if other != group),
            0 if group in kind.groups else kind.selected,
            kind.passed_over,
        )
        for kind in unknown
    ]
    rivals = counted.copy()
    rivals[group] = False
    search = _water_level if len(others) == 1 and not others[0].selected else _lowest_by_programs
    lowest = search(_People(selected, passed, others, rivals), rate)
    return ImpactRange(least, float(min(rate / max(lowest, rate), Fraction(1))))


def _water_level(people: _People, enough: Fraction) -> Fraction:
    """The lowest highest rate where one kind of people, all passed over, is left to place; exact."""
    selected, passed, (kind,), rivals = people
    fixed = [
        Fraction(selected[g], selected[g] + passed[g])
        for g in np.flatnonzero(rivals).tolist() if selected[g] and g not in kind.groups
    ]  # fmt: skip
    open_groups = [(selected[g], passed[g]) for g in kind.groups if rivals[g] and selected[g]]

    def needed(level: Fraction) -> list[int]:
        """How many people bring each group to the level or below it."""
        return [max(0, math.ceil(above / level) - above - below) for above, below in open_groups]

    low, high = Fraction(0), Fraction(1)
    # Different fractions with denominators up to n differ by at least 1 / n^2, so a bisection down to that leaves one
    # possible rate, and exact fractions make it exact.
    number = 1 + sum(selected) + sum(passed) + kind.passed_over
    while high - low > Fraction(1, number * number):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(needed(middle)) <= kind.passed_over else (middle, high)
    levels = [
        Fraction(above, above + below + more) for (above, below), more in zip(open_groups, needed(high), strict=True)
    ]
    return max([*fixed, *levels], default=Fraction(0))


def _lowest_by_programs(people: _People, enough: Fraction) -> Fraction:
    """The lowest highest rate, at least `enough`, where people of several kinds are to be placed.

    Dinkelbach's method: at a level, the program makes the largest of `selected - level * people` as small as it can. If
    that is below 0 every rival comes below the level, and the highest rate found is the next level.

    References
    ----------
    W. Dinkelbach, "On nonlinear fractional programming", Management Science 13, 1967.
    """
    import scipy.optimize  # slow to import, and not needed where people of one kind are unknown, or nobody

    selected, passed, unknown, rivals = people
    groups = np.flatnonzero(rivals).tolist()
    n_unknown = sum(kind.selected + kind.passed_over for kind in unknown)
    if not groups or not n_unknown:
        known = [Fraction(selected[g], selected[g] + passed[g]) for g in groups if selected[g]]
        return max(known, default=Fraction(0))
    is_whole = n_unknown <= WHOLE_PEOPLE
    places = [
        (number, group, is_selected)
        for number, kind in enumerate(unknown)
        for is_selected, count in ((True, kind.selected), (False, kind.passed_over)) if count
        for group in kind.groups
    ]  # fmt: skip
    kinds = sorted({(number, is_selected) for number, _, is_selected in places})
    all_placed = np.array([[float((n, s) == kind) for n, _, s in places] + [0.0] for kind in kinds])
    number_of = [unknown[n].selected if s else unknown[n].passed_over for n, s in kinds]
    in_group = np.array([[float(g == group) for _, g, _ in places] for group in groups])
    are_selected = np.array([float(is_selected) for *_, is_selected in places])
    above = np.array([float(selected[group]) for group in groups])
    below = above + [passed[group] for group in groups]
    has_people = (below > 0.0).astype(float)
    level = Fraction(1)
    while level > enough:
        # A group without known people has no rate until somebody is placed there: it cannot come below 0, so it is kept
        # a little below the level instead. Rates of few people differ by more than this.
        step = (1.0 - has_people) * max(1.0 / (2 * level.denominator * n_unknown), 1e-8)
        levels = float(level) - step
        rows = in_group * are_selected - levels[:, None] * in_group
        found = scipy.optimize.milp(
            np.append(np.zeros(len(places)), 1.0),
            integrality=np.append(np.full(len(places), int(is_whole)), 0),
            bounds=scipy.optimize.Bounds(np.append(np.zeros(len(places)), -float(n_unknown + below.sum())), np.inf),
            constraints=[
                scipy.optimize.LinearConstraint(all_placed, number_of, number_of),
                # Solvers allow rows to be broken by a fixed small number, which thus becomes a smaller one.
                scipy.optimize.LinearConstraint(
                    1e3 * np.column_stack([rows, -has_people]), -np.inf, 1e3 * (levels * below - above)
                ),
            ],
        )
        if found.x is None:
            break
        placed = np.rint(found.x[:-1]) if is_whole else found.x[:-1]
        tops, people_of = above + in_group @ (placed * are_selected), below + in_group @ placed
        # The highest rate of all groups that have people, from whole numbers where people are whole.
        rates = [
            Fraction(int(top), int(of)) if is_whole else Fraction(top / of)
            for top, of in zip(tops.tolist(), people_of.tolist(), strict=True) if of > 1e-6
        ]  # fmt: skip
        next_level = max(rates, default=Fraction(0))
        if next_level >= level - (0 if is_whole else Fraction(1, 10**9)):
            break
        level = next_level
    return level
