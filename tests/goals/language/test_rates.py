"""The functions that users call for rates."""

import inspect

import pytest
from testing.goal_reference import CLASSES, FACTS, FORMULAS

from widemargin import goals
from widemargin.exceptions import GoalError
from widemargin.goals import (
    Goal,
    Population,
    abstention_rate,
    certified_rate,
    col,
    confusion,
    coverage,
    decision_rate,
    f_beta,
    margin_below,
    margin_quantile,
    positive_rate,
    precision,
    prediction_rate,
    recall,
    selective_error,
    true_positive_rate,
)
from widemargin.goals.language.linear import METRICS, Rate
from widemargin.goals.language.populations import EVERYONE
from widemargin.goals.language.rates import RATES

WOMEN = Population("women", where=col("sex") == "Female")
RATIOS = {"precision", "selective_error", "f_beta", "win_loss_ratio", "win_change_ratio"}


def test_every_metric_has_a_function_of_its_name():
    others = {"coverage", "prediction_rate", "true_positive_rate", "abstention_rate", "margin_quantile"}
    assert set(RATES) == set(METRICS) | RATIOS | others
    for name, function in RATES.items():
        assert getattr(goals, name) is function
        assert name in goals.__all__


@pytest.mark.parametrize("name", sorted({*METRICS} - {*FACTS, *CLASSES}))
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
    assert "In [0, 1]" in doc or "In [0, inf)" in doc or name == "margin_quantile"
    known = {"on", "baseline", "beta", "abstain", "level", "q", "radius", "norm", "of", "actual", "predicted"}
    assert set(inspect.signature(function).parameters) <= known


def test_aliases():
    for on in (None, WOMEN):
        assert coverage(on).form == positive_rate(on).form
        assert coverage(on, abstain=True).form == decision_rate(on).form
        assert abstention_rate(on).form == (1 - decision_rate(on)).form
    assert true_positive_rate is recall


@pytest.mark.parametrize("name", ["churn", "win_rate", "losses", "win_loss_ratio", "win_change_ratio"])
@pytest.mark.parametrize("wrong", ["", None, 3, WOMEN, [1, 0, 1]])
def test_a_baseline_is_a_name(name, wrong):
    with pytest.raises(GoalError, match="a baseline's name must"):
        RATES[name](wrong)


@pytest.mark.parametrize("name", RATES)
def test_a_population_is_a_population(name):
    parameters = inspect.signature(RATES[name]).parameters
    arguments = ("old",) if "baseline" in parameters else (0.5,) if {*parameters} & {"level", "q", "radius"} else ()
    named = dict.fromkeys({*parameters} & {"of", "actual", "predicted"}, "cat")
    with pytest.raises(GoalError, match="on must be a Population, got 'women'"):
        RATES[name](*arguments, on="women", **named)


def test_rates_name_the_class_that_they_speak_of():
    assert str(recall(WOMEN, of="cat") - precision(of=3)) == 'recall(women, of="cat") - precision(of=3)'
    assert str(confusion("cat", "dog", on=WOMEN)) == 'confusion("cat", "dog", on=women)'
    assert str(prediction_rate(of=True) >= 0.1) == "prediction_rate(of=True) >= 0.1"
    goal = Goal(subject_to=[recall(of="cat") >= 0.5, confusion("cat", 2, WOMEN) <= 0.1, f_beta(2, of="dog") >= 0.3])
    assert Goal.parse(str(goal)) == goal
    assert not goal.needs_positive_class
    for other in (recall(), positive_rate(WOMEN), recall(WOMEN.positives(), of="cat")):
        assert Goal(subject_to=other >= 0.5).needs_positive_class
    assert (recall(of="cat") - recall(of="dog")).range == (-1, 1)
    with pytest.raises(GoalError, match="churn is about all classes"):
        Rate("churn", EVERYONE, "old", of="cat")
    with pytest.raises(GoalError, match="prediction_rate needs the class"):
        prediction_rate(of=None)
    for classes in ({"of": "cat"}, {"actual": "cat"}, {}):
        with pytest.raises(GoalError, match="two classes make a confusion"):
            Rate("confusion", EVERYONE, **classes)
    with pytest.raises(GoalError, match="two classes make a confusion"):
        Rate("recall", EVERYONE, of="cat", actual="dog")
    assert positive_rate(WOMEN, of="cat").form == prediction_rate(WOMEN, of="cat").form


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


def test_what_counts_decisions_can_be_anything_between_none_and_all():
    assert decision_rate().range == selective_error().range == (0, 1)
    assert (decision_rate(WOMEN) - decision_rate()).range == (-1, 1)
    assert (recall() + decision_rate()).range == (0, 2)
    with pytest.raises(GoalError, match="always true"):
        Goal(subject_to=decision_rate() >= -0.1)


@pytest.mark.parametrize("on", [None, WOMEN])
def test_facts_about_scores_read_back_as_they_print(on):
    bounds = [
        margin_below(-0.25, on) <= 0.1,
        certified_rate(1e-3, on) >= 0.9,
        certified_rate(2, on, norm="linf") >= 0.9,
        selective_error(on) <= 0.02,
        decision_rate(on) >= 0.8,
    ]
    goal = Goal(subject_to=bounds)
    assert Goal.parse(str(goal)) == goal
    assert goal.baselines == ()
    assert [(fact.metric, fact.number, fact.norm) for fact in goal.facts] == [
        ("margin_below", -0.25, None), ("certified_rate", 0.001, None), ("certified_rate", 2.0, "linf"),
    ]  # fmt: skip


def test_a_quantile_of_margins_is_a_share_below():
    assert (margin_quantile(0.05, WOMEN) >= 0.1) == (margin_below(0.1, WOMEN) <= 0.05)
    assert (margin_quantile(0.05) >= 0.1) == (margin_below(0.1) <= 0.05)
    assert Goal.parse("subject to margin_quantile(0.05) >= 0.1") == Goal(subject_to=margin_below(0.1) <= 0.05)
    with pytest.raises(GoalError, match="has a floor only"):
        Goal(subject_to=margin_quantile(0.05) <= 0.1)
    for text in ("margin_quantile(0.05) + 1 >= 0", "-margin_quantile(0.05) >= 0", "margin_quantile(0.05)"):
        with pytest.raises(GoalError, match="margin_quantile"):
            Goal.parse(f"subject to {text}")


@pytest.mark.parametrize("wrong", [lambda: margin_quantile(0), lambda: margin_quantile(1.0), lambda: certified_rate(0),
                                   lambda: certified_rate(0.1, norm="l1"), lambda: margin_below("0")])  # fmt: skip
def test_wrong_numbers_of_margins(wrong):
    with pytest.raises(GoalError, match=r"margin|certified_rate"):
        wrong()
