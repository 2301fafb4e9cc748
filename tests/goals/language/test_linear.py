"""The normal form: merging, text, and the atoms' own checks."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing.goal_strategies import population_pools, ratios

from widemargin.exceptions import GoalError
from widemargin.goals import (
    Population,
    changes,
    churn,
    col,
    errors,
    f_beta,
    false_positives,
    negative_rate,
    positive_rate,
    precision,
    recall,
    true_positives,
    wins,
)
from widemargin.goals.language.linear import Linear, Rate, Ratio
from widemargin.goals.language.populations import EVERYONE

WOMEN = Population("women", where=col("sex") == "Female")
RECALL, FPR = Rate("recall", EVERYONE), Rate("false_positive_rate", EVERYONE)


def test_equal_atoms_are_merged_in_order():
    form = Linear(((1.0, RECALL), (2.0, FPR), (3.0, Rate("recall", Population.everyone()))), 1)
    assert form.terms == ((4.0, RECALL), (2.0, FPR))
    assert form == Linear(((4, RECALL), (2, FPR)), 1.0)
    assert hash(form) == hash(Linear(((4, RECALL), (2, FPR)), 1.0))
    assert form != Linear(((2.0, FPR), (4.0, RECALL)), 1.0)


def test_what_cancels_disappears():
    assert Linear(((1.0, RECALL), (-1.0, RECALL))) == Linear()
    assert Linear(((0.0, RECALL),)) == Linear()
    assert str(Linear()) == "0"


def test_arithmetic():
    form = Linear(((2.0, RECALL),), 1.0)
    assert form.plus(form) == form.times(2.0)
    assert form.plus(form, -1.0) == Linear()


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Linear(((1, RECALL),)), "recall()"),
        (Linear(((-1, RECALL),)), "-recall()"),
        (Linear(((-0.5, RECALL),), -1), "-0.5 * recall() - 1"),
        (Linear(((-1, RECALL),), 1), "1 - recall()"),
        (Linear(((1, RECALL), (-0.8, FPR)), 0.25), "recall() - 0.8 * false_positive_rate() + 0.25"),
        (Linear((), -3), "-3"),
        (Linear((), 0.5), "0.5"),
        (Linear(((1, Rate("recall", WOMEN)),)), "recall(women)"),
        (Linear(((1, Rate("churn", EVERYONE, 'h"')),)), r'churn("h\"")'),
        (Linear(((1, Rate("churn", WOMEN, "h")),)), 'churn("h", on=women)'),
        (Linear(((1, Rate("recall", Population(None, where=WOMEN.where))),)), 'recall(population(sex == "Female"))'),
        (precision().form, "precision()"),
        (f_beta(2, WOMEN).form, "f_beta(2, on=women)"),
        ((wins("h") / changes("h")).form, 'wins("h") / changes("h")'),
        ((2 * (wins("h") / changes("h"))).form, '2 * (wins("h") / changes("h"))'),
        ((-(wins("h") / changes("h"))).form, '-(wins("h") / changes("h"))'),
        ((wins("h") * 2 / (changes("h") + 1)).form, '(2 * wins("h")) / (changes("h") + 1)'),
        ((1 / (1 + recall())).form, "1 / (recall() + 1)"),
        ((-1 / (1 + recall())).form, "(-1) / (recall() + 1)"),
    ],
)
def test_text(form, text):
    assert str(form) == repr(form) == text


def test_what_is_in_a_form():
    form = (precision(WOMEN) + churn("h") - recall(WOMEN)).form
    assert [rate.metric for rate in form.rates] == ["true_positives", "false_positives", "churn", "recall"]
    assert form.populations == (WOMEN, EVERYONE)
    assert [ratio.name for ratio in form.ratios] == ["precision"]
    assert (wins("h", WOMEN) / changes("h")).form.populations == (WOMEN, EVERYONE)
    assert str(form.terms[0][1]) == repr(form.terms[0][1]) == "precision(women)"


@given(st.data())
def test_ratios_survive_pickle_and_copy(data):
    form = data.draw(ratios(data.draw(population_pools()))).form
    assert pickle.loads(pickle.dumps(form)) == copy.deepcopy(form) == form
    assert hash(pickle.loads(pickle.dumps(form))) == hash(form)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: Rate("recal", EVERYONE), "unknown rate 'recal'"),
        (lambda: Rate("recall", "women"), "needs a Population"),
        (lambda: Rate("churn", EVERYONE), "the baseline of churn must be a string"),
        (lambda: Rate("churn", EVERYONE, ""), "the baseline of churn"),
        (lambda: Rate("recall", EVERYONE, "h"), "compares with no baseline"),
        (lambda: Linear(((1.0, "recall"),)), "made of rates and ratios"),
        (lambda: Linear((), float("nan")), "the constant of an expression must be finite"),
        (lambda: Linear(((1e308, RECALL), (1e308, RECALL))), "the coefficient of recall.. must be finite, got inf"),
        (lambda: Linear(((1.0, RECALL),)).times(1e308).times(10), "must be finite"),
        (lambda: Ratio(precision().form, errors().form), "a ratio of ratios"),
        (lambda: Ratio(errors().form, precision().form), "a ratio of ratios"),
        (lambda: Ratio(errors().form, (recall() - 0.5).form), r"denominator recall.. - 0.5 lies in \[-0.5, 0.5\]"),
        (lambda: Ratio(errors().form, (wins("h") - changes("h")).form), r"lies in \(-inf, 0\]"),
        (lambda: Ratio(errors().form, Linear()), "not always 0"),
    ],
)
def test_refusals(misuse, message):
    with pytest.raises(GoalError, match=message):
        misuse()


def test_provably_positive_denominators_are_accepted():
    assert (wins("h") / (changes("h") - wins("h"))).range == (0, float("inf"))


def test_ranges_of_the_atoms():
    assert Linear(((1.0, RECALL),)).range == RECALL.definition.range == (0.0, 1.0)
    assert Linear(((1.0, Rate("errors", EVERYONE)),)).range == (0.0, float("inf"))
    assert Ratio(Linear((), 1.0), Linear(((1.0, RECALL),), 1.0)).range == (0.5, 1.0)


def test_immutable():
    form = recall().form
    for thing, name in ((form, "constant"), (RECALL, "metric"), (precision().form.ratios[0], "name")):
        with pytest.raises(AttributeError):
            setattr(thing, name, 1.0)


@pytest.mark.parametrize(
    ("form", "low", "high"),
    [
        (precision(), 0.0, 1.0),  # counts of one population: each row adds to both sides
        (positive_rate() / (positive_rate() + negative_rate()), 0.0, 1.0),  # shares of the same rows
        (recall() / (recall() + positive_rate()), 0.0, float("inf")),  # shares of different rows
        (true_positives() / positive_rate(), 0.0, float("inf")),  # a count and a share
        (true_positives() / (true_positives(WOMEN) + false_positives()), 0.0, float("inf")),  # different populations
        ((true_positives() + 1) / (true_positives() + false_positives()), 0.0, float("inf")),
        (true_positives() / (true_positives() + false_positives() + 1), 0.0, float("inf")),
    ],
    ids=str,
)
def test_ranges_of_ratios(form, low, high):
    assert form.form.ratios[0].range == (low, high)
