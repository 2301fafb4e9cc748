"""Sentences that people read, against what the constraints say."""

import pytest
from testing.goal_reference import text_of

from widemargin.goals import Goal
from widemargin.goals.language.linear import METRICS
from widemargin.report.words import Words

W = "\u00a0"

CASES = [
    (
        "selective_error() <= 0.2",
        f"The share that is wrong of the decisions of the model on all rows must be at most 20{W}%.",
    ),
    ("recall() >= 0.6", f"The share that the model finds of all rows that are truly “yes” must be at least 60{W}%."),
    ("0.6 <= recall()", f"The share that the model finds of all rows that are truly “yes” must be at least 60{W}%."),
    (
        "positive_rate(w) / positive_rate(m) >= 0.8",
        (
            f"The share of “w” that the model calls “yes” must be at least 80{W}% of the share of “m” that "
            "the model calls “yes”."
        ),
    ),
    (
        "positive_rate(w) >= 0.8 * positive_rate(m)",
        (
            f"The share of “w” that the model calls “yes” must be at least 80{W}% of the share of “m” that "
            "the model calls “yes”."
        ),
    ),
    (
        "recall(w) - recall(m) <= 0.05",
        (
            "The share that the model finds of “w” that are truly “yes” may exceed the share that the model finds of "
            "“m” that are truly “yes” by at most 5 points."
        ),
    ),
    (
        'churn("old", on=population(not (age < 30) and region in ["N", "S"])) <= 0.1',
        (
            "The share of the rows where “age” is at least 30 and “region” is one of “N”, “S” that the model decides "
            f"differently from “old” must be at most 10{W}%."
        ),
    ),
    (
        'changes("old") <= 1500',
        "The number of rows that the model decides differently from “old” must be at most 1\u202f500.",
    ),
    ("f_beta(2) >= 0.5", f"The F-score (beta = 2) of the model on all rows must be at least 50{W}%."),
    (
        "demographic_parity(sex, ratio=0.8)",
        (
            "For every two values of “sex”: the share that the model calls “yes” in the one must be at least "
            f"80{W}% of that in the other."
        ),
    ),
    (
        'equal_opportunity(race, difference=0.05, reference="White")',
        (
            "For every value of “race”, compared with “White” both ways: the share that the model finds of those truly "
            "“yes” may differ by at most 5 points."
        ),
    ),
    (
        'recall(population((age.is_null() or member) and predicted_positive("old"))) >= 0.5',
        (
            "The share that the model finds of the rows where (“age” is missing or “member” is true) and “old” says "
            f"“yes” that are truly “yes” must be at least 50{W}%."
        ),
    ),
]


@pytest.mark.parametrize(("text", "sentence"), CASES)
def test_constraints_in_words(text, sentence):
    goal = Goal.parse(f'w = population(sex == "F")\nm = population(sex == "M")\nsubject to {text}')
    assert Words(goal, "yes").sentence(goal.constraints[0]) == sentence


def test_objective_and_populations():
    goal = Goal.parse(
        'w = population(sex == "F")\nminimize 0.5 * false_positive_rate(w) + false_negative_rate()\n'
        "subject to recall(w) >= 0.5"
    )
    words = Words(goal, True)
    assert words.populations() == [("w", "the rows where “sex” is “F”")]
    said = words.objective()
    assert said.startswith(
        "Of all models that keep these rules, the best has the smallest value of: 0.5 times the share"
    )
    assert "plus the share that the model misses of all rows that are truly “True”." in said
    assert Words(Goal.parse("minimize error_rate()"), 1).objective().startswith("The best model has the smallest value")


def test_a_share_that_is_taken_off_1_is_said_in_that_order():
    goal = Goal.parse("minimize 1 - decision_rate()\nsubject to selective_error() <= 0.2")
    said = "1 minus the share of all rows that the model decides, one way or the other."
    assert Words(goal, 1).objective().endswith(said)


@pytest.mark.parametrize("name", METRICS)
def test_every_rate_has_words_of_its_own(name):
    goal = Goal.parse(f"subject to {text_of(name, 'old')} <= 0.5")
    said = Words(goal, "yes").form(goal.constraints[0].lhs)
    assert said.startswith("the number of" if METRICS[name].is_count else "the share ")
    assert "{" not in said and name not in said
    others = {
        Words(goal, "yes").form(Goal.parse(f"subject to {text} <= 0.5").constraints[0].lhs) for text in _others(name)
    }
    assert said not in others


def _others(name):
    return [text_of(m, "old") for m in METRICS if m != name]
