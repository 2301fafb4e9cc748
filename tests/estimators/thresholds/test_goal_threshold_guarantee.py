"""Guarantees on new rows: sequences of candidates, and simulated draws from known distributions."""

import dataclasses
import math
import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from widemargin.estimators.thresholds import guarantee
from widemargin.estimators.thresholds.goal_threshold import GoalThresholdClassifier
from widemargin.estimators.thresholds.guarantee import (
    Found,
    Judged,
    _most_failures,
    fixed_sequence,
    one_sided_margins,
    safest_first,
    ways,
)
from widemargin.exceptions import CapabilityError, DoubtfulModelWarning, GoalWarning
from widemargin.goals import Goal
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.goals.measuring.exact_tests import Evidence
from widemargin.rows import External, Rows


class FirstColumn(ClassifierMixin, BaseEstimator):
    """A fitted scorer whose score is the first column."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X[:, 0]


SCORER = FirstColumn()
DELTA = 0.1

# --- one-sided rates ------------------------------------------------------------------------------------------------


def tied_goal(text, n=200):
    """A goal on n rows, 80 of 200 positive, the first half women."""
    y = (np.arange(n) % 5 < 2).astype(int)
    table = pd.DataFrame({"woman": np.arange(n) < n // 2})
    goal = Goal.parse("w = population(woman)\nm = population(not woman)\n" + text)
    sources = make_sources(baselines_used(goal), Rows(y=y, populations=table), classes=(0, 1))
    return bind(goal, sources, warn_trivial=False)


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
    tied = tied_goal("subject to " + text)
    assert len(ways(tied)) == 1
    (size,) = one_sided_margins(tied, 0.95)
    allowed = math.floor(m * (share - size / factor))
    assert binom.cdf(allowed, m, share) <= 0.05 < binom.cdf(allowed + 1, m, share)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["recall() >= 0.8", "positive_rate(w) >= 0.2", "0.6 >= negative_rate()"], {-1.0}),
        (["recall() >= 0.8", "false_positive_rate() <= 0.3"], {-1.0, 1.0}),
        (["error_rate() <= 0.3"], set()),
        (["recall() >= 0.8", "recall(w) - recall(m) <= 0.1"], set()),
        (["precision() >= 0.6"], set()),
        (["false_positive_rate() <= 0.3", "true_negative_rate(w) >= 0.6", "true_positives() >= 1"], set()),
        (["false_positive_rate() <= 0.3", "-1 * true_negative_rate(w) <= -0.6"], {1.0}),
    ],
)
def test_which_ways_are_safe(lines, expected):
    assert ways(tied_goal("".join(f"subject to {line}\n" for line in lines))) == expected


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("m", [1, 20, 333])
def test_no_weaker_margin_would_do(m, share):
    """The largest number of failures whose probability is at most delta, found by trying all."""
    for delta in (0.5, 0.05, 1e-4):
        possible = [k for k in range(m + 1) if binom.cdf(k, m, share) <= delta]
        assert _most_failures(m, share, delta) == max(possible, default=-1)


# --- the sequence ---------------------------------------------------------------------------------------------------


def judged(p_values, objectives=None, constants=()):
    """What a sequence of candidates with these p-values ends with."""
    objectives = objectives or [float(k) for k in range(len(p_values), 0, -1)]
    tied = tied_goal("subject to recall() >= 0.5")

    def test(candidate):
        measured = dataclasses.replace(tied.measure(tied.cell_weight), objective=objectives[candidate])
        return Judged(candidate, measured, [Evidence(p_values[candidate], "by hand", 80)])

    others = set(constants)
    return fixed_sequence([k for k in range(len(p_values)) if k not in others], constants, test, 0.95)


def test_sequence_ends_at_the_first_failure():
    proof = judged([0.001, 0.03, 0.2, 0.001])
    assert (proof.chosen.candidate, proof.met) == (1, True)
    proof = judged([0.06, 0.001])
    assert (proof.chosen.candidate, proof.met) == (0, False)


def test_best_of_the_proved_candidates_is_taken():
    assert judged([0.001, 0.03, 0.02], [2.0, 1.0, 3.0]).chosen.candidate == 1


def test_constants_count_only_where_definitions_settle_the_goal():
    assert judged([0.2, 0.0], [1.0, 2.0], constants=[1]).chosen.candidate == 1
    assert not judged([0.2, 0.04], [1.0, 2.0], constants=[1]).met


def test_safest_comes_first_and_nothing_twice(monkeypatch):
    """One number to choose, 0 to 10, which passes its bound by itself; the best is the smallest that will do."""
    asked = []

    def search(margins):
        asked.append(float(margins[0]))
        number = math.ceil(margins[0] - 1e-9)
        return Found(min(number, 10), number <= 10, np.array([float(min(number, 10))]))

    monkeypatch.setattr(guarantee, "standard_errors", lambda tied, mass, proving: np.array([4.0]))
    tied = SimpleNamespace(n_constraints=1, measure=lambda mass: SimpleNamespace(slack=mass))
    path = safest_first(search, tied, tied)
    assert path == sorted(set(path), reverse=True)
    assert path[-1] == 0
    assert path[0] == 10  # 2.5 standard errors: between two of the steps
    assert len(asked) < 20
    assert safest_first(lambda margins: Found("nearest", False, np.zeros(1)), tied, tied) == ["nearest"]


def test_surer_rows_prove_a_share_of_the_decided_ones():
    """The surest third of the rows is nearly always right; just below the bound nothing can be proved."""
    rng = np.random.default_rng(0)
    sure, side = rng.random(1500) ** 2, rng.choice([-1.0, 1.0], 1500)
    X, wrong = (side * sure)[:, None], rng.random(1500) < 0.3 * (1.0 - sure) ** 2
    y = ((side > 0.0) != wrong).astype(int)
    scorer = LogisticRegression(fit_intercept=False).fit(X, X[:, 0] > 0.0)
    goal = "minimize abstention_rate()\nsubject to selective_error() <= 0.1"
    clf = GoalThresholdClassifier(scorer, goal, cv="prefit", abstain=-1, confidence=0.95, random_state=0).fit(X, y)
    assert clf.guarantee_ and clf.goal_report_.constraints[0].rate < 0.1


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
WINDOW = RECALL.replace("0.8", "0.7") + "\nsubject to false_positive_rate() <= 0.4"
FLAT = "minimize -1 * recall()\nsubject to precision() >= 0.51"
SCENARIOS = {
    "recall": (RECALL, draw_shifted, lambda t: norm.sf(t - 1.0) >= 0.8),
    "window": (WINDOW, draw_shifted, lambda t: norm.sf(t - 1.0) >= 0.7 and norm.sf(t) <= 0.4),
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
    given, wrong = simulate(name, 40, 1.0 - DELTA)  # more of them below, in a slow test
    assert wrong <= binom.ppf(0.999, 40, DELTA) / 40
    if name == "recall":
        assert given == 1.0
        assert wrong >= 0.02  # the exact bound spends what it is allowed
    if name == "groups":
        assert given >= 0.95


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_estimates_alone_would_fail(name):
    """The scenarios can tell: thresholds chosen by estimate are wrong far more often than DELTA."""
    assert simulate(name, 20, None)[1] > 0.15


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_false_guarantees_in_2000_draws(name):
    assert simulate(name, 2000, 1.0 - DELTA, seed=1)[1] <= binom.ppf(0.999, 2000, DELTA) / 2000


# --- the estimator's side -------------------------------------------------------------------------------------------


def test_guarantee_states_what_is_proved():
    X, y, _ = draw_shifted(np.random.default_rng(0))
    clf = GoalThresholdClassifier(SCORER, RECALL, cv="prefit", confidence=0.95).fit(X, y)
    assert clf.guarantee_.startswith("With probability >= 0.95 over the draw of the validation rows")
    assert f"'recall() >= 0.8' by exact binomial test on {y.sum()} rows" in clf.guarantee_
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


def test_with_too_few_rows_a_constant_is_what_is_proved():
    X, y, _ = draw_shifted(np.random.default_rng(0))
    rows = np.flatnonzero(y == 1)[:8].tolist() + np.flatnonzero(y == 0)[:20].tolist()
    clf = GoalThresholdClassifier(SCORER, RECALL, cv="prefit", confidence=0.95)
    with pytest.warns(DoubtfulModelWarning, match="constant"):
        clf.fit(X[rows], y[rows])
    assert clf.threshold_ == -np.inf
    assert "'recall() >= 0.8' by definition" in clf.guarantee_
    assert (clf.predict(10 * X - 100) == 1).all()
    assert np.isneginf(pickle.loads(pickle.dumps(clf)).threshold_)


def test_unproved_threshold_may_be_kept_but_carries_no_guarantee():
    X, y, _ = draw_flat(np.random.default_rng(0))
    clf = GoalThresholdClassifier(SCORER, FLAT, cv="prefit", confidence=0.95, on_infeasible="warn")
    with pytest.warns(GoalWarning, match=r"no threshold of these scores can be shown.*350 validation rows"):
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
        clf = GoalThresholdClassifier(LogisticRegression(), "subject to recall() >= 0.5", cv=None, random_state=seed)
        clf.fit(X, y)
        stratified = clf.goal_report_.constraints[0].n_rows
        assert abs(stratified - 0.2 * y.sum()) <= 1
        clf.set_params(confidence=0.9).fit(X, y)
        shares.add(clf.goal_report_.constraints[0].n_rows)
    assert len(shares) > 2
