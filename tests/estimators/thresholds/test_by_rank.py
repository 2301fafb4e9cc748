"""Thresholds of populations by rank: the chance of a broken goal, by simulation and in closed form; and whole fits."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom
from sklearn.base import BaseEstimator, ClassifierMixin

from widemargin import GoalThresholdClassifier
from widemargin.estimators.thresholds.by_rank import _chance, _placed, _Window, _window
from widemargin.goals import Population, col

APART = [([(1.0, 0), (-1.0, 1)], 0.09), ([(-1.0, 0), (1.0, 1)], 0.09)]


def tail(threshold, steps):
    """Share of uniform numbers above a threshold; where there are steps, of those rounded down to one of so many."""
    return 1.0 - (threshold if steps is None else (np.floor(threshold * steps) + 1.0) / steps)


@pytest.mark.parametrize(("room", "steps"), [(0, None), (3, None), (3, 200)])
def test_shares_are_apart_no_more_often_than_is_said(room, steps):
    """Two groups of uniform scores, or of rounded ones with ties, drawn 3,000 times."""
    rng, draws = np.random.default_rng(room), 3000
    windows = [_Window(120 - room, 120, 120 + room, 300), _Window(80 - room, 80, 80 + room, 200)]
    risk, broken = sum(_chance(terms, bound, windows) for terms, bound in APART), 0
    for _ in range(draws):
        scores = [np.sort(rng.random(window.m))[::-1] for window in windows]
        if steps is not None:
            scores = [np.floor(z * steps) / steps for z in scores]
        placed = [_placed(z, window) for z, window in zip(scores, windows, strict=True)]
        if None not in placed:
            broken += abs(tail(placed[0], steps) - tail(placed[1], steps)) > 0.09 + 1e-12
    assert broken <= binom.ppf(0.999, draws, risk)
    if room == 0:
        assert broken >= 0.6 * risk * draws  # what is said is not far from what is


def test_the_chance_of_one_share_is_that_of_an_order_statistic():
    window = _Window(28, 30, 31, 100)
    assert _chance([(2.0, 0)], 0.8, [window]) == pytest.approx(beta.sf(0.4, 32, 69))
    assert _chance([(-1.0, 0)], -0.2, [window]) == pytest.approx(beta.cdf(0.2, 28, 73))


def test_a_threshold_that_decides_alike_for_all_has_a_share_for_certain():
    none, every = _Window(0, 0, 0, 50), _Window(50, 50, 50, 50)
    assert _chance([(1.0, 0), (-0.8, 1)], 0.0, [none, every]) == 0.0
    assert _chance([(1.0, 1), (-0.8, 0)], 0.5, [none, every]) == 1.0
    assert [_placed(np.zeros(50), window) for window in (none, every)] == [np.inf, -np.inf]


def test_no_threshold_parts_rows_of_one_score():
    assert _placed(np.array([3.0, 2.0, 2.0, 2.0, 1.0]), _Window(2, 2, 3, 5)) is None
    assert 2.0 <= _placed(np.array([3.0, 2.0, 2.0, 2.0, 1.0]), _Window(1, 2, 3, 5)) < 3.0


def test_a_window_is_as_wide_as_ties_ask_for_and_holds_a_place():
    """A hundredth of the rows share each score: about 10 of 1,000."""
    rng = np.random.default_rng(0)

    def scores(n):
        return np.sort(np.floor(rng.random(n) * 100.0))[::-1]

    chosen = scores(2000)
    window = _window(np.count_nonzero(chosen > 59.5) / len(chosen), chosen, 1000)
    assert 10 <= window.high - window.low <= 30
    assert sum(_placed(scores(1000), window) is not None for _ in range(200)) >= 190


class Score(ClassifierMixin, BaseEstimator):
    """A scorer whose score is the first column."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X[:, 0]


def fitted(goal, *, digits=8, n=3000):
    """Thresholds for each of two groups, whose scores differ by much."""
    rng = np.random.default_rng(0)
    group, y = rng.random(n) < 0.4, rng.random(n) < 0.4
    X = np.round(rng.normal(size=n) + 1.5 * y - 0.7 * group, digits)[:, None]
    text = "w = population(woman)\nm = population(not woman)\nminimize error_rate()\n" + goal
    groups = [Population("w", where=col("woman")), Population("m", where=~col("woman"))]
    model = GoalThresholdClassifier(Score(), text, per_population=groups, cv="prefit", confidence=0.9, random_state=0)
    return model.fit(X, y.astype(int), populations=pd.DataFrame({"woman": group}))


def apart(rate, most):
    """Two constraints: the rate of either group exceeds that of the other by no more."""
    return "".join(f"subject to {rate}({one}) - {rate}({two}) <= {most}\n" for one, two in ("wm", "mw"))


@pytest.mark.parametrize(
    ("goal", "by_rank"),
    [
        (apart("positive_rate", 0.06), True),
        (apart("false_positive_rate", 0.08), True),
        ("subject to recall(w) >= 0.8 * recall(m)\nsubject to recall(m) >= 0.6", True),
        ("subject to negative_rate(w) >= 0.5\nsubject to positive_rate(m) <= 0.4", True),
        ("subject to recall(w) - recall(m) <= 0.1\nsubject to positive_rate(m) - positive_rate(w) <= 0.3", False),
        ("subject to positive_rate(m) - positive_rate(w) <= 0.3\nsubject to recall() >= 0.6", False),
        ("subject to error_rate(w) <= 0.4", False),
    ],
)
def test_goals_about_shares_of_the_groups_are_proved_by_ranks(goal, by_rank):
    model = fitted(goal)
    assert ("ranks of scores" in model.guarantee_) == by_rank
    assert model.goal_report_.status == "converged"


def test_equalised_odds_are_proved_by_ranks_of_one_label_and_tests_of_the_other():
    """All tests at once would hardly succeed; a rank needs no luck, so that less is left to it."""
    model = fitted(apart("recall", 0.08) + apart("false_positive_rate", 0.08))
    assert "ranks of scores" in model.guarantee_
    assert "exact unconditional test" in model.guarantee_
    assert model.goal_report_.objective <= 0.3  # .39 where no row is called positive


def test_a_difference_narrower_than_chance_is_proved_by_fewer_positive_rows():
    """No tightened bound is sure enough in the middle; nearer to nobody, shares are less far apart by chance."""
    model = fitted(apart("positive_rate", 0.03))
    assert "ranks of scores" in model.guarantee_
    assert model.goal_report_.objective <= 0.3  # .39 where no row is called positive


def test_two_rows_that_happen_to_be_alike_leave_a_place_for_the_threshold():
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.random(500))[::-1]
    window = _window(0.4, chosen, 200)
    twins = np.repeat(np.sort(rng.random(100))[::-1], 2)
    assert _placed(twins, window) is not None
    assert 1 <= window.high - window.low <= 2


def test_scores_with_many_ties_are_proved_by_the_sequence():
    model = fitted("subject to positive_rate(m) - positive_rate(w) <= 0.15", digits=0)
    assert "exact unconditional test" in model.guarantee_
