"""p-values of constraints: against enumeration of all outcomes, and by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, norm

from widemargin.exceptions import CapabilityError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.goals.measuring.exact_tests import best_evidence, evidence, standard_errors, two_proportions
from widemargin.rows import Rows

# --- two proportions ------------------------------------------------------------------------------------------------


def p_values(m1, m2, factor, bound):
    """Of all outcomes, shape (m1 + 1, m2 + 1)."""
    p = np.array([[two_proportions(i, m1, j, m2, factor, bound) for j in range(m2 + 1)] for i in range(m1 + 1)])
    assert (np.diff(p, axis=0) >= -1e-9).all()  # more successes are never better evidence
    return p


def rejected_at_most(p, factor, bound, delta, points=301):
    """Largest chance of a p-value of at most delta where the bound is just broken, over a grid of second chances."""
    m1, m2 = p.shape[0] - 1, p.shape[1] - 1
    largest = 0.0
    for p2 in np.linspace(0.0, 1.0, points):
        p1 = (bound - factor[1] * p2) / factor[0]
        if 0.0 <= p1 <= 1.0:
            chance = binom.pmf(np.arange(m1 + 1), m1, p1) @ (p <= delta) @ binom.pmf(np.arange(m2 + 1), m2, p2)
            largest = max(largest, float(chance))
    return largest


@pytest.mark.parametrize(
    ("m1", "m2", "factor", "bound"),
    [(30, 40, (1.0, 1.0), 1.1), (25, 10, (1.0, 0.8), 0.9), (20, 20, (0.5, 1.0), 1.2), (15, 60, (1.0, 1.0), 0.4)],
)
def test_size_is_below_the_level_and_near_it(m1, m2, factor, bound):
    p = p_values(m1, m2, factor, bound)
    for delta in (0.01, 0.05, 0.1):
        largest = rejected_at_most(p, factor, bound, delta)
        assert largest <= delta
        assert largest >= 0.4 * delta


@settings(max_examples=15)
@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.2, 3.0), st.floats(0.05, 0.95), st.floats(0.02, 0.4))
def test_size_is_below_the_level_everywhere(m1, m2, second, share, delta):
    factor, bound = (1.0, second), share * (1.0 + second)
    assert rejected_at_most(p_values(m1, m2, factor, bound), factor, bound, delta, points=41) <= delta + 1e-12


def test_large_samples_agree_with_the_normal_distribution():
    p = two_proportions(6000, 20_000, 14_840, 20_000, (1.0, 1.0), 1.05)
    error = np.sqrt((0.3 * 0.7 + 0.742 * 0.258) / 20_000)
    normal = norm.sf(0.008 / error)
    # Above it by the risk of the interval, .001, and by the width of a cell.
    assert normal + 0.0009 <= p <= normal + 0.003
    assert two_proportions(6000, 20_000, 14_840, 20_000, (1.0, 1.0), 1.05, cells=3000) <= normal + 0.0013


# --- constraints ----------------------------------------------------------------------------------------------------


def tied_goal(text, n=200, weight=None):
    """A goal on n rows, 80 of 200 positive, the first half women; the baseline `old` says + on every third row."""
    y = (np.arange(n) % 5 < 2).astype(int)
    table = pd.DataFrame({"sex": np.where(np.arange(n) < n // 2, "F", "M"), "old": (np.arange(n) % 3 == 0).astype(int)})
    goal = Goal.parse(f'w = population(sex == "F")\nm = population(sex == "M")\nsubject to {text}')
    rows = Rows(y=y, sample_weight=weight, populations=table)
    return bind(goal, make_sources(baselines_used(goal), rows, classes=(0, 1)), warn_trivial=False)


def said(n=200):
    """Some decisions, and what they are compared with."""
    z = np.arange(n)
    return (z * 7 % 11 < 5), (z % 5 < 2), z < n // 2, z % 3 == 0


def p_value(text):
    tied = tied_goal(text)
    (found,) = evidence(tied, tied.positive_mass([said()[0]]))
    return found


def test_one_rate_is_binomial():
    positive, y, woman, old = said()
    cases = {
        "recall() >= 0.3": (np.sum(y & ~positive), y.sum(), 0.7),
        "2 * recall(w) >= 0.6": (np.sum(y & ~positive & woman), np.sum(y & woman), 0.7),
        "false_positive_rate(m) <= 0.6": (np.sum(~y & positive & ~woman), np.sum(~y & ~woman), 0.6),
        "error_rate() <= 0.55": (np.sum(y != positive), 200, 0.55),
        "churn('old') <= 0.6": (np.sum(old != positive), 200, 0.6),
        # of the rows called positive, the share that is wrong
        "precision() >= 0.3": (np.sum(~y & positive), positive.sum(), 0.7),
        # of the rows that change between right and wrong, the share that is lost
        "wins('old') >= losses('old')": (
            np.sum((positive != y) & (old == y)), np.sum((positive == y) != (old == y)), 0.5,
        ),
    }  # fmt: skip
    for text, (bad, m, share) in cases.items():
        found = p_value(text)
        assert found.method == "exact binomial test", text
        assert found.p_value == pytest.approx(binom.cdf(bad, m, share)), text


def test_differences_and_ratios_of_groups():
    positive, _, woman, _ = said()
    w, m = np.sum(positive & woman), np.sum(positive & ~woman)
    found = p_value("positive_rate(m) - positive_rate(w) <= 0.2")
    # p_m + (1 - p_w) <= 1.2, in successes of each
    assert (found.method, found.n_rows) == ("exact unconditional test", 100)
    assert found.p_value == pytest.approx(two_proportions(m, 100, 100 - w, 100, (1.0, 1.0), 1.2), rel=0.1)
    found = p_value("positive_rate(w) >= 0.6 * positive_rate(m)")
    expected = two_proportions(100 - w, 100, m, 100, (1.0, 0.6), 1.0)
    assert found.p_value == pytest.approx(expected, rel=0.1)
    # of one population, but never of the same rows
    assert p_value("recall() - false_positive_rate() >= -0.3").method == "exact unconditional test"


def test_sets_that_overlap_take_limits_that_share_the_risk():
    positive, _, woman, _ = said()
    w, everyone = np.sum(positive & woman), positive.sum()
    found = p_value("positive_rate(w) - positive_rate() <= 0.2")
    assert found.method == "Clopper-Pearson limits"
    risk = found.p_value / 2
    upper = beta.isf(risk, w + 1, 100 - w) + beta.isf(risk, 200 - everyone + 1, everyone)
    assert upper == pytest.approx(1.2, abs=1e-6)


def test_what_definitions_settle_needs_no_rows():
    tied = tied_goal("positive_rate(m) - positive_rate(w) <= 0.05")
    nobody = np.zeros_like(tied.cell_weight)
    (found,) = evidence(tied, nobody, lambda population: slice(1, 2))
    assert (found.p_value, found.method) == (0.0, "definition")
    assert evidence(tied, nobody)[0].p_value > 0.0  # as far as the rows say
    (found,) = evidence(tied_goal("recall() >= 0.5"), nobody, lambda population: slice(1, 2))
    assert (found.p_value, found.method) == (1.0, "definition")
    # the errors of a constant still hang on the labels
    (found,) = evidence(tied_goal("error_rate() <= 0.5"), nobody, lambda population: slice(1, 2))
    assert found.p_value == pytest.approx(binom.cdf(80, 200, 0.5))


def test_best_that_rows_could_say():
    assert best_evidence(tied_goal("recall() >= 0.9"))[0].p_value == pytest.approx(0.9**80)
    assert best_evidence(tied_goal("churn('old') <= 0.02"))[0].p_value == pytest.approx(0.98**200)
    text = "positive_rate(m) - positive_rate(w) <= 0.02"
    assert best_evidence(tied_goal(text))[0].p_value < p_value(text).p_value


@pytest.mark.parametrize(
    "text", ["errors() <= 30", "true_positives(w) >= true_positives(m)", "true_positives() >= 10 * recall()"]
)
def test_numbers_of_rows_cannot_be_guaranteed(text):
    with pytest.raises(CapabilityError, match="numbers of rows"):
        best_evidence(tied_goal(text))


def test_weights_cannot_be_guaranteed():
    weight = np.ones(200)
    weight[3] = 2.0
    with pytest.raises(CapabilityError, match="unweighted rows only"):
        best_evidence(tied_goal("recall() >= 0.5", weight=weight))


def test_order_of_the_rows_is_nothing_to_it():
    """A p-value sees numbers of rows alone, however the cells are numbered."""
    order = np.random.default_rng(0).permutation(200)
    for text in ("precision() >= 0.3", "positive_rate(m) - positive_rate(w) <= 0.2", "error_rate(w) <= 0.6"):
        tied = tied_goal(text)
        y, table = (
            (np.arange(200) % 5 < 2).astype(int),
            pd.DataFrame(
                {"sex": np.where(np.arange(200) < 100, "F", "M"), "old": (np.arange(200) % 3 == 0).astype(int)}
            ),
        )
        rows = Rows(y=y[order], populations=table.iloc[order])
        other = bind(tied.goal, make_sources({}, rows, classes=(0, 1)), warn_trivial=False)
        both = [
            evidence(each, each.positive_mass([decisions]))[0].p_value
            for each, decisions in ((tied, said()[0]), (other, said()[0][order]))
        ]
        assert both[0] == pytest.approx(both[1])


def test_standard_errors_by_hand():
    positive, y, woman, _ = said()
    tied = tied_goal("positive_rate(m) - positive_rate(w) <= 0.2\nsubject to precision() >= 0.3")
    proving = tied_goal("positive_rate(m) - positive_rate(w) <= 0.2\nsubject to precision() >= 0.3", n=1000)
    errors = standard_errors(tied, tied.positive_mass([positive]), proving)

    def variance(successes, m):
        share = (successes + 1) / (m + 2)
        return share * (1 - share)

    both = variance(np.sum(positive & woman), 100) + variance(np.sum(positive & ~woman), 100)
    assert errors[0] == pytest.approx(np.sqrt(both / 500))
    # 0.3 FP - 0.7 TP and so on: each of three values as if seen once more, on 1000 rows, in numbers of these 200 rows,
    # divided by the number of positive ones
    counts = np.array([np.sum(positive & y), np.sum(~positive), np.sum(positive & ~y)]) + 1.0
    share, values = counts / counts.sum(), np.array([-0.7, 0.0, 0.3])
    spread = 200 * np.sqrt((share @ values**2 - (share @ values) ** 2) / 1000)
    assert errors[1] == pytest.approx(spread / np.sum(positive))
