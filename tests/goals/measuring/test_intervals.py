"""Intervals: Clopper-Pearson against published values, the bootstrap against its promise."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from widemargin.exceptions import DataError
from widemargin.goals import (
    External,
    Goal,
    Population,
    churn,
    col,
    error_rate,
    f_beta,
    false_positives,
    positive_rate,
    precision,
    recall,
    true_positives,
    win_change_ratio,
)
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.goals.measuring.intervals import (
    _percentile,
    clopper_pearson,
    on_new_rows,
    simultaneous_confidence,
    slack_intervals,
)
from widemargin.rows import Rows

A = Population("a", where=col("g") == "a")
B = Population("b", where=col("g") == "b")


def tied_goal_of(constraints, groups, y, *, weight=None, old=None, external=None):
    table = pd.DataFrame({"g": groups} | ({} if old is None else {"old": old}))
    goal = Goal(error_rate(), constraints)
    sources = make_sources(
        baselines_used(goal),
        Rows(y=y, sample_weight=weight, populations=table, external=external or {}),
        classes=(0, 1),
    )
    return bind(goal, sources, warn_trivial=False)


@pytest.mark.parametrize(
    ("successes", "trials", "confidence", "expected"),
    [
        (0, 10, 0.95, (0.0, 0.3085)),  # 1 - 0.025 ** (1 / 10)
        (10, 10, 0.95, (0.6915, 1.0)),
        (8, 10, 0.95, (0.4439, 0.9748)),
        (5, 50, 0.95, (0.0333, 0.2181)),
        (1, 100, 0.99, (0.0001, 0.0720)),
        (50, 100, 0.95, (0.3983, 0.6017)),
    ],
)
def test_clopper_pearson_values(successes, trials, confidence, expected):
    found = clopper_pearson(successes, trials, confidence)
    assert found == pytest.approx(expected, abs=1e-4)
    exact = scipy.stats.binomtest(successes, trials).proportion_ci(confidence, "exact")
    assert found == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_single_proportions_are_exact():
    rng = np.random.default_rng(0)
    n = 120
    groups, y, old, said = (
        rng.choice(["a", "b"], n),
        rng.integers(0, 2, n),
        rng.integers(0, 2, n),
        rng.integers(0, 2, n),
    )
    tp, changed = int((said & y).sum()), int((said != old).sum())
    wins = int(((said != old) & (said == y)).sum())
    cases = [
        (recall() >= 0.4, tp, int(y.sum()), 1.0, -0.4),
        (error_rate() <= 0.6, int((said != y).sum()), n, -1.0, 0.6),
        (2 * positive_rate(A) - 0.1 >= 0.2, int(said[groups == "a"].sum()), int((groups == "a").sum()), 2.0, -0.3),
        (
            positive_rate(A) - 0.25 * positive_rate(A) >= 0.2,
            int(said[groups == "a"].sum()),
            int((groups == "a").sum()),
            0.75,
            -0.2,
        ),
        (churn("old") <= 0.7, changed, n, -1.0, 0.7),
        (precision() >= 0.3, tp, int(said.sum()), 1.0, -0.3),
        (1 - precision() <= 0.7, tp, int(said.sum()), 1.0, -0.3),
        (win_change_ratio("old") >= 0.2, wins, changed, 1.0, -0.2),
        (true_positives() / (true_positives() + false_positives()) >= 0.3, tp, int(said.sum()), 1.0, -0.3),
        (true_positives() >= 10, tp, n, float(n), -10.0),
        (
            2 * true_positives() / (3 * true_positives() + 3 * false_positives()) >= 0.3,
            tp,
            int(said.sum()),
            2 / 3,
            -0.3,
        ),
        (3 * true_positives(A) <= 600, int((said & y)[groups == "a"].sum()), int((groups == "a").sum()), None, 600.0),
    ]
    tied = tied_goal_of([case[0] for case in cases], groups, y, old=old)
    intervals = slack_intervals(tied, [said])
    for interval, (_, k, trials, factor, shift) in zip(intervals, cases, strict=True):
        factor = -3.0 * trials if factor is None else factor
        assert interval.method == "clopper-pearson"
        ends = sorted(factor * end + shift for end in clopper_pearson(k, trials))
        assert (interval.lower, interval.upper) == pytest.approx(tuple(ends), abs=1e-12)


def test_everything_else_is_bootstrapped():
    rng = np.random.default_rng(1)
    n = 200
    groups, y, said = rng.choice(["a", "b"], n), rng.integers(0, 2, n), rng.integers(0, 2, n)
    constraints = [
        positive_rate(A) >= 0.5 * positive_rate(B),
        positive_rate(A) + recall() >= 0.5,
        f_beta(1) >= 0.2,
        recall(A) / (1 + recall(B)) >= 0.1,
    ]
    tied = tied_goal_of(constraints, groups, y)
    assert {interval.method for interval in slack_intervals(tied, [said])} == {"bootstrap"}
    weighted = tied_goal_of([recall() >= 0.2], groups, y, weight=rng.random(n))
    assert slack_intervals(weighted, [said])[0].method == "bootstrap"
    measured = tied.measure(tied.positive_mass([said]))
    for interval, slack in zip(slack_intervals(tied, [said]), measured.slack, strict=True):
        assert interval.lower < slack < interval.upper


def test_same_seed_same_interval_whatever_stands_beside_it():
    rng = np.random.default_rng(2)
    groups, y, said = rng.choice(["a", "b"], 100), rng.integers(0, 2, 100), rng.integers(0, 2, 100)
    fair = positive_rate(A) >= 0.5 * positive_rate(B)
    alone = slack_intervals(tied_goal_of([fair], groups, y), [said], random_state=7)
    beside = slack_intervals(tied_goal_of([fair, f_beta(2) >= 0.1], groups, y), [said], random_state=7)
    assert alone[0] == beside[0]
    assert alone != slack_intervals(tied_goal_of([fair], groups, y), [said], random_state=8)
    for state in (np.random.RandomState(0), np.random.default_rng(0), None):
        assert slack_intervals(tied_goal_of([fair], groups, y), [said], random_state=state)[0] is not None


def test_more_confidence_is_wider():
    rng = np.random.default_rng(3)
    groups, y, said = rng.choice(["a", "b"], 100), rng.integers(0, 2, 100), rng.integers(0, 2, 100)
    tied = tied_goal_of([positive_rate(A) >= 0.5 * positive_rate(B), recall() >= 0.1], groups, y)
    narrow, wide = (slack_intervals(tied, [said], confidence=level) for level in (0.8, 0.99))
    for small, large in zip(narrow, wide, strict=True):
        assert large.lower < small.lower < small.upper < large.upper


def test_a_rate_of_zero_has_an_interval_of_some_width():
    # nobody in either group is predicted positive: the plain bootstrap would be certain of a slack of exactly 0
    groups, y = np.repeat(["a", "b"], 10), np.tile([0, 1], 10)
    near = positive_rate(A) - 0.8 * positive_rate(B) >= 0.0
    interval = slack_intervals(tied_goal_of([near], groups, y), [np.zeros(20)])[0]
    assert interval.lower < -0.05
    assert interval.upper > 0.05


def test_undefined_ratios_have_no_interval_and_rare_denominators_an_open_one():
    groups, y = np.repeat(["a", "b"], 20), np.tile([0, 1], 20)
    weight = np.linspace(0.5, 2, 40)
    tied = tied_goal_of([precision() >= 0.1], groups, y, weight=weight)
    assert slack_intervals(tied, [np.zeros(40)]) == (None,)
    said = np.zeros(40)
    said[1] = 1.0
    interval = slack_intervals(tied, [said])[0]
    assert interval.lower is None  # in more than 2.5% of the replicates nothing is predicted positive
    assert interval.upper is None


def test_weighted_rows_with_equal_weights_agree_with_counting():
    rng = np.random.default_rng(4)
    groups, y, said = rng.choice(["a", "b"], 400), rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    fair = [positive_rate(A) >= 0.5 * positive_rate(B)]
    plain = slack_intervals(tied_goal_of(fair, groups, y), [said])[0]
    twice = slack_intervals(tied_goal_of(fair, groups, y, weight=np.full(400, 2.0)), [said])[0]
    assert (twice.lower, twice.upper) == pytest.approx((plain.lower, plain.upper), abs=1e-12)


def test_many_different_weights_are_binned_without_harm():
    rng = np.random.default_rng(5)
    n = 3000
    groups, y, said = rng.choice(["a", "b"], n), rng.integers(0, 2, n), rng.integers(0, 2, n)
    weight = rng.lognormal(0, 1, n)
    weight[:5] = 0.0
    tied = tied_goal_of([recall() >= 0.2], groups, y, weight=weight)
    interval = slack_intervals(tied, [said], n_replicates=4000)[0]
    w, hit = weight[y == 1], said[y == 1]
    share = (w * hit).sum() / w.sum()
    spread = np.sqrt((w**2 * (hit - share) ** 2).sum()) / w.sum()
    assert (interval.upper - interval.lower) / 2 == pytest.approx(1.96 * spread, rel=0.06)
    assert (interval.upper + interval.lower) / 2 == pytest.approx(share - 0.2, abs=0.2 * spread)


def test_external_rows_are_strata_of_their_own():
    rng = np.random.default_rng(6)
    groups, y, old = rng.choice(["a", "b"], 100), rng.integers(0, 2, 100), rng.integers(0, 2, 50)
    traffic = Population.external("traffic")
    tied = tied_goal_of(
        [positive_rate(A) >= 0.5 * positive_rate(traffic), churn("old", on=traffic) <= 0.9],
        groups, y, external={"traffic": External(None, old=old)},
    )  # fmt: skip
    first, second = slack_intervals(tied, [rng.integers(0, 2, 100), rng.integers(0, 2, 50)])
    assert first.method == "bootstrap"
    assert second.method == "clopper-pearson"


def test_probabilities_and_strange_confidences_are_refused():
    tied = tied_goal_of([recall() >= 0.1], ["a", "b"] * 5, [0, 1] * 5)
    with pytest.raises(DataError, match="0/1 predictions, not probabilities"):
        slack_intervals(tied, [np.full(10, 0.5)])
    with pytest.raises(DataError, match="confidence must lie between 0 and 1, got 95"):
        slack_intervals(tied, [np.ones(10)], confidence=95)


def test_simultaneous_confidence():
    assert simultaneous_confidence(0.95, 4) == pytest.approx(0.8)
    assert simultaneous_confidence(0.95, 30) == 0.0
    assert simultaneous_confidence(0.95, 0) == 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_the_bootstrap_covers_the_truth_as_often_as_it_says(weighted):
    """250 samples of 300 rows; a binomial share of 0.95 has a standard error of 1.4 points, so 0.91 is 2.9 below."""
    rng = np.random.default_rng(7)
    rates = {"a": 0.4, "b": 0.6}
    covered = np.zeros(3)
    n, samples = 300, 250
    for _ in range(samples):
        groups = rng.choice(["a", "b"], n)
        y = (rng.random(n) < 0.5).astype(int)
        said = (rng.random(n) < np.where(groups == "a", rates["a"], rates["b"])).astype(int)  # independent of y
        weight = rng.integers(1, 4, n).astype(float) if weighted else None
        tied = tied_goal_of(
            [positive_rate(A) >= 0.5 * positive_rate(B), positive_rate(A) - positive_rate(B) >= -0.5, f_beta(1) >= 0.2],
            groups, y, weight=weight,
        )  # fmt: skip
        share = 0.5  # of positives predicted positive, and of everybody
        truth = [0.4 - 0.5 * 0.6, 0.4 - 0.6 + 0.5, 2 * 0.25 / (share + 0.5) - 0.2]
        intervals = slack_intervals(tied, [said], n_replicates=200, random_state=int(rng.integers(10**6)))
        covered += [i.lower <= value <= i.upper for i, value in zip(intervals, truth, strict=True)]
    assert (covered / samples >= 0.91).all(), covered / samples
    assert (covered / samples <= 0.99).all(), covered / samples


@pytest.mark.parametrize(
    ("size", "low", "high"),
    [
        (1e9, 24, 972),  # 2.5% and 97.5% of 996
        (10.0, 8, 988),  # Student's 2.2622 with 9 degrees of freedom, times (10 / 9)^(1/2): a tail of 0.00855
        (2.0, 0, 996),
        (1.0, 0, 996),
    ],
)
def test_percentiles_lie_further_out_for_few_rows(size, low, high):
    slack = np.random.default_rng(0).permutation(997).astype(float)
    interval = _percentile(slack, 500.0, 0.95, size)
    assert (interval.lower, interval.upper) == (low, high)
    assert (interval.confidence, interval.method) == (0.95, "bootstrap")


def test_percentiles_hold_the_estimate_and_undefined_replicates_are_the_worst_case():
    slack = np.arange(997.0)
    assert _percentile(slack, -5.0, 0.95, 1e9).lower == -5.0
    assert _percentile(slack, 2000.0, 0.95, 1e9).upper == 2000.0
    slack[500:524] = np.nan  # 24 of them: the 25th is the first that is defined
    interval = _percentile(slack, 400.0, 0.95, 1e9)
    assert (interval.lower, interval.upper) == (0.0, 996.0)
    slack[524] = np.nan
    interval = _percentile(slack, 400.0, 0.95, 1e9)
    assert (interval.lower, interval.upper) == (None, None)


def test_seeds():
    rng = np.random.default_rng(2)
    groups, y, said = rng.choice(["a", "b"], 60), rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    tied = tied_goal_of([positive_rate(A) >= 0.5 * positive_rate(B)], groups, y)
    assert slack_intervals(tied, [said]) == slack_intervals(tied, [said], random_state=0)
    drawn = int(np.random.RandomState(3).randint(2**31 - 1))
    state = np.random.RandomState(3)
    assert slack_intervals(tied, [said], random_state=drawn) == slack_intervals(tied, [said], random_state=state)
    drawn = int(np.random.default_rng(3).integers(2**31 - 1))
    state = np.random.default_rng(3)
    assert slack_intervals(tied, [said], random_state=drawn) == slack_intervals(tied, [said], random_state=state)


def test_one_in_ten_new_draws_misses_a_bound_by_more_than_is_said():
    """A threshold that meets a recall on these rows exactly, and as many new rows: both are drawn."""
    rng, n, below = np.random.default_rng(0), 1000, []
    tied = tied_goal_of([recall() >= 0.8], ["a"] * (n + 1), [1] * n + [0])
    for scores, new in rng.normal(size=(400, 2, n)):
        threshold = np.sort(scores)[n // 5 - 1]
        above = [np.append(scores > threshold, False)]
        (said,) = on_new_rows(tied, above, tied.measure(tied.positive_mass(above)))
        below.append((new > threshold).mean() < 0.8 - said.one_in_ten)
    assert 0.06 <= np.mean(below) <= 0.13
