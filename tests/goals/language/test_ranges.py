"""Ranges: never too narrow, and exact on one population."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.goal_reference import FACTS, linear_value, random_world, rate_of

from widemargin.goals import (
    Population,
    accuracy,
    changes,
    churn,
    col,
    error_rate,
    errors,
    f_beta,
    false_negative_rate,
    false_negatives,
    false_positive_rate,
    false_positives,
    loss_rate,
    losses,
    negative_rate,
    positive_rate,
    precision,
    recall,
    true_negative_rate,
    true_positives,
    win_change_ratio,
    win_loss_ratio,
    win_rate,
    wins,
)
from widemargin.goals.language import linear
from widemargin.goals.language.linear import METRICS, Linear, Metric, Rate, Ratio, When, quotient_range
from widemargin.goals.language.populations import EVERYONE

A, B = Population("a", where=col("a")), Population("b", where=col("b"))
INF = math.inf


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (recall(), (0, 1)),
        (1 - recall(), (0, 1)),
        (errors(), (0, INF)),
        (-errors(), (-INF, 0)),
        (3 - 2 * errors(), (-INF, 3)),
        (recall(A) - recall(B), (-1, 1)),
        (recall(A) - 0.8 * recall(B), (-0.8, 1)),
        # one population: the terms hang together
        (positive_rate() + negative_rate(), (1, 1)),
        (recall() + false_negative_rate(), (1, 1)),
        (error_rate() + accuracy(), (1, 1)),
        (error_rate() - accuracy(), (-1, 1)),
        (positive_rate() - error_rate(), (-1, 1)),
        (recall() - false_positive_rate(), (-1, 1)),
        (recall() + true_negative_rate(), (0, 2)),
        (error_rate() + recall(), (0, 2)),
        (win_rate("h") + loss_rate("h") - churn("h"), (0, 0)),
        (win_rate("h") - loss_rate("h"), (-1, 1)),
        (churn("h") - win_rate("h"), (0, 1)),
        (churn("h") + churn("g"), (0, 2)),
        (changes("h") - wins("h"), (0, INF)),
        (wins("h") - losses("h"), (-INF, INF)),
        (wins("h") - changes("h") + recall(), (-INF, 1)),
        (1e-13 * errors(), (0, INF)),
        (0.3 * errors() - 0.1 * errors() - 0.2 * errors(A) - 0.2 * errors(B), (-INF, INF)),
        (errors() - false_positives() - false_negatives(), (0, 0)),
        # ratios
        (precision(), (0, 1)),
        (f_beta(2), (0, 1)),
        (f_beta(0.3), (0, 1)),
        (win_change_ratio("h"), (0, 1)),
        (win_loss_ratio("h"), (0, INF)),
        (1 - 0.5 * precision(), (0.5, 1)),
        (wins("h") / changes("h"), (0, 1)),
        ((wins("h") - losses("h")) / changes("h"), (-1, 1)),
        (positive_rate() / (positive_rate() + negative_rate()), (0, 1)),
        (wins("h", A) / changes("h", B), (0, INF)),
        ((wins("h", A) - 1) / changes("h", B), (-INF, INF)),
        (recall(A) / (recall(B) + 1), (0, 1)),
        ((recall(A) - 2) / (recall(B) + 1), (-2, -0.5)),
        (recall(A) / recall(B), (0, INF)),
        (1 / (1 + recall()), (0.5, 1)),
    ],
)
def test_ranges(expression, expected):
    assert expression.range == pytest.approx(expected)


BASELINES = ("g", "h")
_terms = st.lists(
    st.tuples(st.integers(-4, 4).map(float), st.sampled_from(sorted(METRICS)), st.sampled_from(BASELINES)),
    min_size=1,
    max_size=4,
)


def build(terms):
    return Linear(tuple((c, rate_of(name, EVERYONE, h)) for c, name, h in terms), 0.25)


@given(_terms, st.integers(0, 2**32 - 1))
def test_no_population_leaves_the_range(terms, seed):
    form, rng = build(terms), np.random.default_rng(seed)
    low, high = form.range
    for n in (3, 20):
        value = linear_value(form, random_world(rng, n, BASELINES))
        assert math.isnan(value) or low - 1e-9 <= value <= high + 1e-9


def tiny_worlds():
    """Every population of one positive and one negative row, one of them weighing almost everything."""
    for p0, p1, *said in itertools.product((0.0, 1.0), (0.0, 1.0), *[(-1, 1)] * 4):
        for heavy in (0, 1):
            weights = np.array([1e9 if k == heavy else 1.0 for k in (0, 1)])
            h = {"g": np.array(said[:2]), "h": np.array(said[2:])}
            yield {"y": np.array([1, -1]), "p": np.array([p0, p1]), "s": weights, "h": h}


@given(_terms)
@settings(max_examples=40)
def test_the_ends_are_reached(terms):
    """On one population the range is exact: some tiny population comes close to each of its ends."""
    # without abstention every decision is made; facts about scores are baselines
    form = build([term for term in terms if term[1] not in FACTS and "decision" not in term[1]])
    form = Linear(tuple((c, rate) for c, rate in form.terms if not rate.definition.is_count), 0.25)
    values = [linear_value(form, world) for world in tiny_worlds()]
    assert (min(values), max(values)) == pytest.approx(form.range, abs=1e-6)


_counts = st.lists(
    st.tuples(st.floats(0.1, 4.0), st.sampled_from(sorted(n for n, m in METRICS.items() if m.is_count)), st.just("h")),
    min_size=1,
    max_size=3,
)


@given(_terms, _counts, st.integers(0, 2**32 - 1))
def test_no_population_leaves_the_range_of_a_ratio(above, below, seed):
    counts = [(c, name, h) for c, name, h in above if METRICS[name].is_count]
    numerator, denominator = Linear(build(counts).terms), Linear(build(below).terms)
    ratio = Linear(((1.0, Ratio(numerator, denominator)),))
    low, high = ratio.range
    rng = np.random.default_rng(seed)
    for n in (1, 2, 10):
        value = linear_value(ratio, random_world(rng, n, BASELINES))
        assert math.isnan(value) or low - 1e-9 <= value <= high + 1e-9


def test_many_baselines_fall_back_to_interval_arithmetic():
    total = sum(churn(f"h{k}") for k in range(9))
    assert total.range == pytest.approx((0, 9))
    many = sum(changes(f"h{k}") for k in range(9))
    assert (wins("h0") / many).range == (0, INF)
    assert (sum(churn(f"h{k}") for k in range(6))).range == pytest.approx((0, 6))


def test_a_metric_over_a_baselines_rows_is_bounded_apart(monkeypatch):
    """No metric of the registry divides by the rows a baseline predicts positive, but one may be added."""
    kept = Metric("kept", (When(baseline=1),), (), When(baseline=1), "s_p(D[h+])")
    monkeypatch.setattr(linear, "METRICS", {**METRICS, "kept": kept})
    form = Linear(((2.0, Rate("kept", EVERYONE, "h")), (-1.0, Rate("recall", EVERYONE))))
    assert form.range == (-1.0, 2.0)


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        ((0, 1), (1, 2), (0, 1)),
        ((-1, 1), (1, 2), (-1, 1)),
        ((1, 2), (0, 4), (0.25, INF)),
        ((-2, -1), (0, 4), (-INF, -0.25)),
        ((0, INF), (0, INF), (0, INF)),
        ((1, 1), (0, INF), (0, INF)),
        ((0, 0), (0, 1), (0, 0)),
        ((-INF, 3), (1, INF), (-INF, 3)),
    ],
)
def test_interval_division(above, below, expected):
    assert quotient_range(above, below) == expected


def test_scaling():
    assert (-2.0 * errors()).range == (-2.0 * win_loss_ratio("h")).range == (-INF, 0.0)
    assert (0.0 * errors()).range == (0.0, 0.0)


def test_the_classic_identity():
    """F-beta lies between precision and recall; the range sees what intervals cannot."""
    tp, fp, fn = true_positives(), false_positives(), false_negatives()
    assert (2 * tp / (2 * tp + fp + fn)).range == pytest.approx((0, 1))
