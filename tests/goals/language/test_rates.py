"""The functions that users call for rates."""

import inspect

import pytest
from testing.goal_reference import FORMULAS

from widemargin import goals
from widemargin.exceptions import GoalError
from widemargin.goals import Population, col, coverage, f_beta, positive_rate, precision, recall, true_positive_rate
from widemargin.goals.language.linear import METRICS, Rate
from widemargin.goals.language.populations import EVERYONE
from widemargin.goals.language.rates import RATES

WOMEN = Population("women", where=col("sex") == "Female")
RATIOS = {"precision", "f_beta", "win_loss_ratio", "win_change_ratio"}


def test_every_metric_has_a_function_of_its_name():
    assert set(RATES) == set(METRICS) | RATIOS | {"coverage", "true_positive_rate"}
    for name, function in RATES.items():
        assert getattr(goals, name) is function
        assert name in goals.__all__


@pytest.mark.parametrize("name", METRICS)
def test_linear_rates(name):
    arguments = ("old",) if METRICS[name].needs_baseline else ()
    for on in (None, EVERYONE, WOMEN):
        expression = RATES[name](*arguments, on=on)
        assert expression.form.terms == ((1.0, Rate(name, on or EVERYONE if on is None else on, *arguments)),)
        assert expression.form == RATES[name](*arguments, on).form
        assert expression.range == ((0, float("inf")) if METRICS[name].is_count else (0, 1))


@pytest.mark.parametrize("name", RATES)
def test_documented(name):
    function = RATES[name]
    doc = inspect.getdoc(function)
    assert doc
    assert "In [0, 1]" in doc or "In [0, inf)" in doc
    assert set(inspect.signature(function).parameters) <= {"on", "baseline", "beta"}


def test_aliases():
    assert coverage is positive_rate
    assert true_positive_rate is recall


@pytest.mark.parametrize("name", ["churn", "win_rate", "losses", "win_loss_ratio", "win_change_ratio"])
@pytest.mark.parametrize("wrong", ["", None, 3, WOMEN, [1, 0, 1]])
def test_a_baseline_is_a_name(name, wrong):
    with pytest.raises(GoalError, match="a baseline's name must"):
        RATES[name](wrong)


@pytest.mark.parametrize("name", RATES)
def test_a_population_is_a_population(name):
    arguments = ("old",) if "baseline" in inspect.signature(RATES[name]).parameters else ()
    with pytest.raises(GoalError, match="on must be a Population, got 'women'"):
        RATES[name](*arguments, on="women")


def test_precision_and_f_beta_by_their_formulas():
    tp, fp, fn = 30.0, 10.0, 20.0
    values = {"true_positives": tp, "false_positives": fp, "false_negatives": fn}

    def value(expression):
        ratio = expression.form.ratios[0]
        above, below = (
            sum(c * values[a.metric] for c, a in side.terms) for side in (ratio.numerator, ratio.denominator)
        )
        return above / below

    assert value(precision()) == pytest.approx(tp / (tp + fp))
    p, r = tp / (tp + fp), tp / (tp + fn)
    for beta in (0.5, 1.0, 2.0):
        assert value(f_beta(beta)) == pytest.approx((1 + beta**2) * p * r / (beta**2 * p + r))
    assert value(f_beta()) == value(f_beta(1))


@pytest.mark.parametrize("beta", [0, -1, 1e9, float("nan"), "2", True])
def test_wrong_beta(beta):
    with pytest.raises(GoalError, match="beta must"):
        f_beta(beta)


def test_named_ratios_remember_their_arguments():
    for name in RATIOS:
        needs = "baseline" in inspect.signature(RATES[name]).parameters
        ratio = (RATES[name]("old", on=WOMEN) if needs else RATES[name](on=WOMEN)).form.ratios[0]
        assert (ratio.name, ratio.population, ratio.baseline) == (name, WOMEN, "old" if needs else None)
        assert {r.metric for r in ratio.numerator.rates + ratio.denominator.rates} <= set(FORMULAS)
