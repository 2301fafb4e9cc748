from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.optimize import linprog
from testing.exact_models import CountedGoal, RowCounter, best_of, dichotomies, milp_best
from testing.fresh import fresh_seed
from testing.naive_rates import naive_constraint, naive_form
from testing.tied_goals import POOL, make_data

from widemargin.goals import Expression, Goal, error_rate, precision, recall, win_change_ratio
from widemargin.goals.binding.bind import bind
from widemargin.goals.language.linear import METRICS, Linear, Rate


@pytest.mark.parametrize(("n", "d"), [(40, 2), (14, 3), (9, 4), (7, 1)])
def test_points_in_general_position_have_as_many_dichotomies_as_cover_counted(n, d):
    points = np.random.default_rng(fresh_seed()).normal(size=(n, d))
    assert dichotomies(points).shape == (n, 2 * sum(comb(n - 1, i) for i in range(d + 1)))


def test_points_in_rows_and_columns_are_divided_in_every_way_that_a_linear_program_finds():
    points = np.array(list(product([0.0, 1.0, 2.0], [0.0, 1.0, 3.0])))

    def can_be_divided(sign):
        margins = -sign[:, None] * np.column_stack([points, np.ones(len(points))])
        return linprog(np.zeros(3), margins, -np.ones(len(points)), bounds=(None, None)).status == 0

    expected = {sides for sides in product([False, True], repeat=9) if can_be_divided(np.where(sides, 1.0, -1.0))}
    found = [tuple(column) for column in dichotomies(points).T.tolist()]
    assert set(found) == expected and len(found) == len(expected)


N = 200
"""Rows of each source: with so many no population is ever without positive and negative labels."""


def _counted(seed, goal, **options):
    sources, naive = make_data(seed, N, N, **options)
    return RowCounter(naive).count(bind(goal, sources, warn_trivial=False)), naive


@pytest.mark.parametrize("metric", sorted(set(METRICS) - {"confusion"}))  # which takes several classes
def test_sums_over_rows_agree_with_plain_loops(metric):
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    form = Linear(tuple((float(rng.normal()), Rate(metric, where, "h" if METRICS[metric].needs_baseline else None))
                        for where in (POOL[0], POOL[4], POOL[8], POOL[9])), 0.3)  # fmt: skip
    counted, naive = _counted(seed, Goal(Expression(form)), weighted=True)
    positive = rng.integers(0, 2, (2 * N, 5))
    expected = [naive_form(form, naive, {None: p[:N], "ext": p[N:]}) for p in positive.T]
    np.testing.assert_allclose(counted.measure(positive)[0], expected, atol=1e-12)


def test_slacks_agree_with_plain_loops_and_are_never_met_where_undefined():
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    asked = [
        precision(POOL[1]) >= 0.4, -2.0 * precision() + 1.0 >= -0.5, win_change_ratio("h", POOL[8]) >= 0.3,
        recall() >= 0.5, recall(POOL[1]) >= 0.8 * recall(POOL[2]), 0.9 * recall() <= recall(POOL[1]),
    ]  # fmt: skip
    counted, naive = _counted(seed, Goal(error_rate(), asked))
    positive = rng.integers(0, 2, (2 * N, 10))
    slack = counted.measure(positive)[1]
    for constraint, row in zip(asked, slack, strict=True):
        expected = np.array([naive_constraint(constraint, naive, {None: p[:N], "ext": p[N:]}) for p in positive.T])
        clear = np.isfinite(row) & (np.abs(expected) > 1e-9)
        np.testing.assert_array_equal(np.sign(row[clear]), np.sign(expected[clear]))
    undefined = counted.measure(np.zeros((2 * N, 1)))[1][:, 0]
    np.testing.assert_array_equal(np.isneginf(undefined), [True, True, False, False, True, True])


def _random_goal(rng, n):
    """Error rate subject to a recall and a bound on a random population."""
    y, inside = rng.random(n) < 0.4, rng.random(n) < 0.3
    gain = np.array([np.where(y, -1.0, 1.0) / n, y / y.sum(), -1.0 * inside / max(inside.sum(), 1)])
    return CountedGoal(gain, np.array([y.mean(), -0.6, 0.5]), np.zeros((2, n)), np.ones(2), np.zeros(2, bool))


def test_the_best_threshold_is_the_best_of_all():
    rng = np.random.default_rng(fresh_seed())
    goal, scores = _random_goal(rng, 60), np.round(rng.normal(size=60), 1)
    cuts = np.append(scores, -np.inf)
    objective, slack = goal.measure(scores[:, None] > cuts)
    met = (slack >= -1e-9).all(axis=0)
    best = goal.best_threshold(scores)
    assert (best[1] >= -1e-9) == met.any()
    if met.any():
        assert best[0] == pytest.approx(objective[met].min())
    at = goal.measure((scores > best[2])[:, None])
    assert at[0][0] == pytest.approx(best[0]) and at[1].min() == pytest.approx(best[1])


def test_the_program_finds_what_trying_all_finds():
    rng = np.random.default_rng(fresh_seed())
    points = rng.normal(size=(22, 2))
    goal = _random_goal(rng, 22)
    tried, answer = best_of(goal, dichotomies(points)), milp_best(goal, points, 20.0)
    # Classifiers that need scores very near zero are no candidates of the program, so it may be worse, never better.
    assert (answer.objective is None) or tried <= answer.objective + 1e-9
    assert tried is None or (answer.objective is not None and answer.objective <= tried + 2.0 / 22)
    assert tried is None or answer.lower_bound <= answer.objective + 1e-6
