"""Guarantees on new rows: margins against their formulas, and simulated draws from known distributions."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from widemargin.estimators.thresholds.goal_threshold import GoalThresholdClassifier
from widemargin.estimators.thresholds.guarantee import margins
from widemargin.exceptions import CapabilityError, GoalWarning, InfeasibleGoalError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import External, make_sources
from widemargin.rows import Rows


class FirstColumn(ClassifierMixin, BaseEstimator):
    """A fitted scorer whose score is the first column."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X[:, 0]


SCORER = FirstColumn()
DELTA = 0.1

# --- margins --------------------------------------------------------------------------------------------------------


def tied_goal(text, n=200, weight=None, external=None):
    """A goal on n rows, 80 of them positive, the first half women; the baseline `old` says + on every third row."""
    y = (np.arange(n) % 5 < 2).astype(int)
    table = pd.DataFrame({"woman": np.arange(n) < n // 2, "old": (np.arange(n) % 3 == 0).astype(int)})
    goal = Goal.parse("w = population(woman)\nm = population(not woman)\n" + text)
    sources = make_sources(
        baselines_used(goal),
        Rows(y=y, sample_weight=weight, populations=table, external=external or {}),
        classes=(0, 1),
    )
    return bind(goal, sources, warn_trivial=False)


def band(parts, m, alpha):
    return math.sqrt(math.log(parts / alpha) / (2 * m))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error_rate() <= 0.3", 2 * band(2, 200, 0.05)),
        ("accuracy() >= 0.7", 2 * band(2, 200, 0.05)),
        ("2 * error_rate(w) <= 0.6", 4 * band(2, 100, 0.05)),
        ("positive_rate(w) >= 0.8 * positive_rate(m)", 1.8 * band(2, 100, 0.05)),
        ("recall(w) - recall(m) <= 0.1", 2 * band(2, 40, 0.05)),
        ("recall() - false_positive_rate() >= 0.1", band(2, 80, 0.05) + band(2, 120, 0.05)),
        # in its cleared form, with counts: 0.25 TP - 0.75 FP >= 0
        ("precision() >= 0.75", 200 * (0.25 + 0.75) * band(2, 200, 0.05)),
        ("churn('old') <= 0.3", 2 * band(2, 200, 0.05)),
        ("wins('old') >= losses('old')", 200 * 4 * band(4, 200, 0.05)),
        # two rates of the same rows are counted together: -0.5 on positives called so, +1 on negatives called so
        ("accuracy() + positive_rate() >= 0.6", 3 * band(3, 200, 0.05)),
    ],
)
def test_uniform_bands_by_hand(text, expected):
    (found,) = margins(tied_goal("subject to " + text), 0.95)
    assert found.method == "uniform band"
    assert found.size == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "m", "factor", "share"),
    [
        ("recall() >= 0.8", 80, 1.0, 0.2),
        ("3 * recall(w) >= 2.4", 40, 3.0, 0.2),
        ("false_positive_rate() <= 0.3", 120, 1.0, 0.3),
        ("true_negative_rate(m) >= 0.6", 60, 1.0, 0.4),
        ("0.5 >= positive_rate(w)", 100, 1.0, 0.5),
        ("negative_rate() <= 0.05", 200, 1.0, 0.05),
    ],
)
def test_binomial_margin_is_exact(text, m, factor, share):
    (found,) = margins(tied_goal("subject to " + text), 0.95)
    assert (found.method, found.n_rows) == ("exact binomial", m)
    allowed = math.floor(m * (share - found.size / factor))
    assert binom.cdf(allowed, m, share) <= 0.05 < binom.cdf(allowed + 1, m, share)


def test_constraints_share_the_risk():
    one = margins(tied_goal("subject to error_rate() <= 0.3"), 0.95)[0].size
    both = margins(tied_goal("subject to error_rate() <= 0.3\nsubject to recall() >= 0.5"), 0.9)[0].size
    assert both == pytest.approx(one)


def test_dropped_constraints_keep_their_share():
    text = 'on_small = "drop"\nmin_rows = 50\nsubject to error_rate() <= 0.3\nsubject to recall(w) >= 0.5'
    with pytest.warns(GoalWarning, match="1 of 2 constraints are dropped"):
        tied = tied_goal(text)
    assert margins(tied, 0.9)[0].size == pytest.approx(2 * band(2, 200, 0.05))


@pytest.mark.parametrize(
    "text",
    ["errors() <= 30", "true_positives(w) >= true_positives(m)", "true_positives() >= 10 * recall()"],
)
def test_numbers_of_rows_cannot_be_guaranteed(text):
    with pytest.raises(CapabilityError, match="numbers of rows"):
        margins(tied_goal("subject to " + text), 0.95)


def test_weights_cannot_be_guaranteed():
    weight = np.ones(200)
    weight[3] = 2.0
    with pytest.raises(CapabilityError, match="unweighted rows only"):
        margins(tied_goal("subject to recall() >= 0.5", weight=weight), 0.95)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("m", [1, 20, 333])
def test_no_weaker_margin_would_do(m, share):
    """The largest number of failures whose probability is at most alpha, found by trying all."""
    from widemargin.estimators.thresholds.guarantee import _most_failures

    for alpha in (0.5, 0.05, 1e-4):
        possible = [k for k in range(m + 1) if binom.cdf(k, m, share) <= alpha]
        assert _most_failures(m, share, alpha) == max(possible, default=-1)


# --- simulated draws ------------------------------------------------------------------------------------------------


def draw_shifted(rng):
    y = (rng.random(300) < 0.4).astype(int)
    return (rng.normal(size=300) + y)[:, None], y, None


def draw_flat(rng):
    """Scores that say nothing: precision is 0.5 at every threshold."""
    return rng.normal(size=(500, 1)), (rng.random(500) < 0.5).astype(int), None


def draw_groups(rng):
    """Two groups, scores on a grid, so that many are equal."""
    y, w = (rng.random(600) < 0.4).astype(int), rng.random(600) < 0.5
    z = np.round(rng.normal(size=600) + 1.5 * y - 0.5 * w, 1)
    return z[:, None], y, pd.DataFrame({"woman": w})


def groups_hold(threshold):
    t = np.floor(threshold * 10 + 1e-9) / 10 + 0.05  # the next point where rounding changes
    recall_w, recall_m, fpr_w, fpr_m = (norm.sf(t - mean) for mean in (1.0, 1.5, -0.5, 0.0))
    return recall_w >= 0.7 and recall_m >= 0.7 and fpr_m - fpr_w <= 0.25


GROUPS = (
    "w = population(woman)\nm = population(not woman)\nminimize error_rate()\nsubject to recall(w) >= 0.7\n"
    "subject to recall(m) >= 0.7\nsubject to false_positive_rate(m) - false_positive_rate(w) <= 0.25"
)
RECALL = "minimize false_positive_rate()\nsubject to recall() >= 0.8"
FLAT = "minimize -1 * recall()\nsubject to precision() >= 0.51"
SCENARIOS = {
    "recall": (RECALL, draw_shifted, lambda t: norm.sf(t - 1.0) >= 0.8),
    "flat precision": (FLAT, draw_flat, lambda t: False),
    "groups": (GROUPS, draw_groups, groups_hold),
}


def simulate(name, draws, confidence, seed=0):
    """Shares of the draws in which a threshold was given, and in which it was a wrong one."""
    goal, draw, holds = SCENARIOS[name]
    rng = np.random.default_rng(seed)
    given = wrong = 0
    clf = GoalThresholdClassifier(SCORER, goal, cv="prefit", confidence=confidence, on_infeasible="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GoalWarning)
        for _ in range(draws):
            X, y, table = draw(rng)
            clf.fit(X, y, populations=table)
            if clf.status_ == "converged":
                given += 1
                wrong += not holds(clf.threshold_)
    return given / draws, wrong / draws


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_false_guarantees_are_rare(name):
    given, wrong = simulate(name, 250, 1.0 - DELTA)
    assert wrong <= binom.ppf(0.999, 250, DELTA) / 250
    if name == "recall":
        assert given == 1.0
        assert wrong >= 0.02  # the exact bound spends what it is allowed
    if name == "groups":
        assert given >= 0.95


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_estimates_alone_would_fail(name):
    """The scenarios can tell: thresholds chosen by estimate are wrong far more often than DELTA."""
    assert simulate(name, 60, None)[1] > 0.15


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_false_guarantees_in_2000_draws(name):
    assert simulate(name, 2000, 1.0 - DELTA, seed=1)[1] <= binom.ppf(0.999, 2000, DELTA) / 2000


# --- the estimator's side -------------------------------------------------------------------------------------------


def test_guarantee_states_what_is_proved():
    X, y, _ = draw_shifted(np.random.default_rng(0))
    clf = GoalThresholdClassifier(SCORER, RECALL, cv="prefit", confidence=0.95).fit(X, y)
    assert clf.guarantee_.startswith("With probability >= 0.95 over the draw of the validation rows")
    assert f"'recall() >= 0.8' by exact binomial on {y.sum()} rows" in clf.guarantee_
    assert clf.goal_report_.certificate == clf.guarantee_
    by_estimate = GoalThresholdClassifier(SCORER, RECALL, cv="prefit").fit(X, y)
    assert by_estimate.guarantee_ is None
    assert clf.goal_report_.objective > by_estimate.goal_report_.objective
    free = GoalThresholdClassifier(SCORER, cv="prefit", confidence=0.95).fit(X, y)
    assert free.guarantee_ is None  # nothing to guarantee


def test_certified_recall_is_the_largest_threshold_that_the_binomial_allows():
    X, y, _ = draw_shifted(np.random.default_rng(1))
    clf = GoalThresholdClassifier(SCORER, RECALL, cv="prefit", confidence=0.95).fit(X, y)
    missed, m = int((X[y == 1, 0] <= clf.threshold_).sum()), int(y.sum())
    assert binom.cdf(missed, m, 0.2) <= 0.05 < binom.cdf(missed + 1, m, 0.2)


def test_too_few_rows_are_refused_with_the_number_needed():
    X, y, _ = draw_shifted(np.random.default_rng(0))
    rows = np.flatnonzero(y == 1)[:8].tolist() + np.flatnonzero(y == 0)[:20].tolist()
    clf = GoalThresholdClassifier(SCORER, RECALL, cv="prefit", confidence=0.95)
    message = (
        r"can be shown.*recall\(\) >= 0.8.*exact binomial, 8 rows; at least 14 are needed.*By estimate it can be met"
    )
    with pytest.raises(InfeasibleGoalError, match=message):
        clf.fit(X[rows], y[rows])


def test_unproved_threshold_may_be_kept_but_carries_no_guarantee():
    X, y, _ = draw_flat(np.random.default_rng(0))
    clf = GoalThresholdClassifier(SCORER, FLAT, cv="prefit", confidence=0.95, on_infeasible="warn")
    with pytest.warns(GoalWarning, match=r"no threshold of these scores can be shown.*uniform band, 500 rows"):
        clf.fit(X, y)
    assert clf.status_ == "infeasible"
    assert clf.guarantee_ is None


def test_what_no_confidence_can_be_claimed_for_is_refused():
    X, y, _ = draw_shifted(np.random.default_rng(0))
    with pytest.raises(CapabilityError, match="cross-validated"):
        GoalThresholdClassifier(LogisticRegression(), RECALL, cv=3, confidence=0.9).fit(X, y)
    weight = np.linspace(1, 2, len(y))
    with pytest.raises(CapabilityError, match="unweighted"):
        GoalThresholdClassifier(LogisticRegression(), RECALL, confidence=0.9).fit(X, y, sample_weight=weight)


def test_external_rows_are_covered_too():
    X, y, _ = draw_shifted(np.random.default_rng(0))
    goal = "t = external()\nminimize -1 * recall()\nsubject to positive_rate(t) <= 0.3"
    traffic = np.random.default_rng(1).normal(size=(400, 1))
    clf = GoalThresholdClassifier(SCORER, goal, cv="prefit", confidence=0.95)
    clf.fit(X, y, external={"t": External(traffic)})
    called = int((traffic[:, 0] > clf.threshold_).sum())
    assert binom.cdf(called, 400, 0.3) <= 0.05
    assert binom.cdf(called + 4, 400, 0.3) > 0.05
    assert "on 400 rows" in clf.guarantee_


def test_split_for_a_proof_does_not_look_at_labels():
    X, y, _ = draw_shifted(np.random.default_rng(0))
    shares = set()
    for seed in range(6):
        clf = GoalThresholdClassifier(LogisticRegression(), "subject to recall() >= 0.5", random_state=seed)
        clf.fit(X, y)
        stratified = clf.goal_report_.constraints[0].n_rows
        assert abs(stratified - 0.2 * y.sum()) <= 1
        clf.set_params(confidence=0.9).fit(X, y)
        shares.add(clf.goal_report_.constraints[0].n_rows)
    assert len(shares) > 2
