"""The range of impact ratios against every way to place a few people, one by one."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.diagnostics.standards import unknown_groups
from widemargin.diagnostics.standards.unknown_groups import Unknown, impact_ranges


def by_brute_force(selected, passed, unknown, counted):
    """Least and largest ratio of every group that is counted, over all tables that may be the true one."""
    people = [
        (kind.groups, is_selected)
        for kind in unknown
        for is_selected in [True] * kind.selected + [False] * kind.passed_over
    ]
    ratios = [[] for _ in selected]
    for placed in itertools.product(*(groups for groups, _ in people)):
        above, below = list(selected), list(passed)
        for (_, is_selected), group in zip(people, placed, strict=True):
            (above if is_selected else below)[group] += 1
        rates = [
            Fraction(a, a + b) if a + b and here else None for a, b, here in zip(above, below, counted, strict=True)
        ]
        highest = max((rate for rate in rates if rate is not None), default=0)
        for group, rate in enumerate(rates):
            if rate is not None and highest > 0:
                ratios[group].append(float(rate / highest))
    return [
        None if not here else (min(values, default=None), max(values, default=None))
        for values, here in zip(ratios, counted, strict=True)
    ]


@st.composite
def tables(draw):
    n_sexes, n_races = draw(st.sampled_from([(1, 2), (1, 3), (2, 2), (2, 3), (2, 1)]))
    n_groups, left = n_sexes * n_races, 4
    cells = np.arange(n_groups).reshape(n_sexes, n_races)
    kinds = [cells.ravel(), *cells, *cells.T] if n_sexes > 1 else [cells.ravel()]
    unknown = []
    for groups in kinds:
        selected = draw(st.integers(0, min(2, left)))
        passed_over = draw(st.integers(0, min(2, left - selected)))
        left -= selected + passed_over
        unknown.append(Unknown(tuple(groups.tolist()), selected, passed_over))
    counts = st.lists(st.integers(0, 4), min_size=n_groups, max_size=n_groups)
    counted = st.lists(st.sampled_from([True, True, True, False]), min_size=n_groups, max_size=n_groups)
    return draw(counts), draw(counts), unknown, draw(counted)


@settings(max_examples=120, deadline=None)
@given(tables())
def test_the_range_is_that_of_all_tables(table):
    selected, passed, unknown, counted = table
    ranges = impact_ranges(np.array(selected), np.array(passed), unknown, np.array(counted))
    for found, wanted in zip(ranges, by_brute_force(*table), strict=True):
        assert (found is None) == (wanted is None)
        if found is not None:
            assert [*found] == [None if end is None else pytest.approx(end, abs=1e-12) for end in wanted]


def test_one_kind_of_unknown_people_is_exact_however_many_they_are():
    """Of two groups the rival takes all who were passed over: a fraction that can be written down."""
    selected, passed = np.array([300_007, 499_999]), np.array([400_000, 100_003])
    first, second = impact_ranges(selected, passed, [Unknown((0, 1), 11, 70_001)], np.array([True, True]))
    assert first.largest == (300_018 / 700_018) / (499_999 / 670_003)
    assert first.least == (300_007 / 770_008) / (500_010 / 600_013)
    assert (second.least, second.largest) == ((499_999 / 670_003) / (500_010 / 670_013), 1.0) or second.largest == 1.0


def test_parts_of_people_are_off_by_less_than_people(monkeypatch):
    """Beyond the limit the largest ratio is never too small, and close to that of whole people."""
    rng = np.random.default_rng(0)
    selected, passed = rng.integers(200, 400, 6), rng.integers(200, 400, 6)
    cells = np.arange(6).reshape(2, 3)
    unknown = [Unknown(tuple(groups.tolist()), 3, 4) for groups in (cells.ravel(), *cells, *cells.T)]
    whole = impact_ranges(selected, passed, unknown, np.ones(6, bool))
    monkeypatch.setattr(unknown_groups, "WHOLE_PEOPLE", 0)
    parts = impact_ranges(selected, passed, unknown, np.ones(6, bool))
    for exact, bound in zip(whole, parts, strict=True):
        assert bound.least == exact.least
        assert exact.largest - 1e-9 <= bound.largest <= exact.largest + 6 / 400
