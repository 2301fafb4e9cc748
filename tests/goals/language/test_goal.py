"""Goals: misuse, what is in them, text, copies."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from sklearn.base import BaseEstimator, clone
from testing.goal_strategies import goals

from widemargin.exceptions import GoalError, GoalParseError
from widemargin.goals import (
    Constraint,
    Goal,
    Population,
    churn,
    col,
    demographic_parity,
    equalized_odds,
    error_rate,
    positive_rate,
    precision,
    predicted_positive,
    recall,
    selective_error,
    win_loss_ratio,
)
from widemargin.goals.language.goal import checked_goal

WOMEN = Population("women", where=col("sex") == "Female")
MEN = Population("men", where=col("sex") == "Male")
TRAFFIC = Population.external("traffic")


def example():
    return Goal(
        minimize=error_rate() + 0.5 * churn("deployed", on=TRAFFIC),
        subject_to=[
            (positive_rate(WOMEN) >= 0.8 * positive_rate(MEN)).named("fair"),
            (recall() >= 0.60).with_options(min_rows=5),
            precision(MEN & predicted_positive("old")) >= 0.5,
            demographic_parity("race", ratio=0.8, population=Population("adults", where=col(4) > 18)).named(
                "all races"
            ),
        ],
        min_rows=30,
        on_small="drop",
    )


def test_text():
    assert str(example()) == (
        "traffic = external()\n"
        'women = population(sex == "Female")\n'
        'men = population(sex == "Male")\n'
        "adults = population(col(4) > 18)\n"
        "min_rows = 30\n"
        'on_small = "drop"\n'
        'minimize error_rate() + 0.5 * churn("deployed", on=traffic)\n'
        "subject to fair: positive_rate(women) >= 0.8 * positive_rate(men)\n"
        "subject to recall() >= 0.6, min_rows=5\n"
        'subject to precision(population(sex == "Male" and predicted_positive("old"))) >= 0.5\n'
        'subject to "all races": demographic_parity(race, ratio=0.8, population=adults)'
    )
    assert Goal.parse(str(example())) == example()


def test_repr_is_one_line():
    assert repr(Goal(subject_to=recall() >= 0.5)) == "<Goal minimize error_rate(); subject to recall() >= 0.5>"


def test_what_is_in_a_goal():
    goal = example()
    assert list(goal.populations) == ["traffic", "women", "men", "adults"]
    assert goal.populations["women"] is WOMEN
    assert goal.sources == ("traffic",)
    assert goal.baselines == ("deployed", "old")
    assert goal.columns == ("sex", 4, "race")
    assert goal.objective == (error_rate() + 0.5 * churn("deployed", on=TRAFFIC)).form
    assert [entry.label for entry in goal.constraints] == ["fair", None, None, "all races"]


def test_defaults():
    goal = Goal()
    assert goal.objective == error_rate().form
    assert (goal.constraints, goal.min_rows, goal.on_small) == ((), None, "error")
    assert (goal.populations, goal.sources, goal.baselines, goal.columns) == ({}, (), (), ())
    assert str(goal) == "minimize error_rate()"


def test_subject_to_takes_one_or_many():
    floor = recall() >= 0.6
    parity = demographic_parity("sex", ratio=0.8)
    assert Goal(subject_to=floor) == Goal(subject_to=[floor]) == Goal(subject_to=(c for c in [floor]))
    assert Goal(subject_to=parity).constraints == (parity,)
    assert Goal(subject_to=[floor]).constraints == (floor,)


def test_the_rule_for_tiny_populations_is_filled_in():
    goal = example()
    assert [(entry.min_rows, entry.on_small) for entry in goal.constraints] == [
        (30, "drop"),
        (5, "drop"),
        (30, "drop"),
        (30, "drop"),
    ]
    assert Goal(subject_to=goal.constraints, min_rows=30, on_small="drop").constraints == goal.constraints


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (
            lambda: Goal(precision()),
            r"the objective holds the ratio precision\(\).*ask for the ratio in subject_to.*precision\(\) >= 0.8",
        ),
        (lambda: Goal(error_rate() + win_loss_ratio("h")), r"such as win_loss_ratio\(\"h\"\) >= 1\."),
        (lambda: Goal(selective_error()), r"such as selective_error\(\) <= 0.2\."),
        (lambda: Goal(error_rate() - error_rate() + 3), "the objective 3 is constant"),
        (lambda: Goal(3), "minimize must be an expression such as error_rate"),
        (lambda: Goal("error_rate()"), "minimize must be an expression"),
        (lambda: Goal(error_rate), "minimize must be an expression"),
        (lambda: Goal(recall() >= 0.5), "minimize got the constraint recall.. >= 0.5; put it into subject_to"),
        (lambda: Goal(demographic_parity("sex", ratio=1)), "minimize got the constraint"),
        (
            lambda: Goal(subject_to=[recall() == 0.6]),
            "entry 0 of subject_to is not a constraint.*write two inequalities",
        ),
        (lambda: Goal(subject_to=recall() == 0.6), "write two inequalities"),
        (lambda: Goal(subject_to=[recall() >= 0.5, recall() != 0.6]), "entry 1 of subject_to.*Got True"),
        (lambda: Goal(subject_to=[np.bool_(False)]), "write two inequalities"),
        (lambda: Goal(subject_to=[recall()]), r"entry 0.*the expression recall\(\) without a bound; compare it"),
        (lambda: Goal(subject_to=recall()), "without a bound"),
        (lambda: Goal(subject_to="recall() >= 0.5"), "Use Goal.parse"),
        (lambda: Goal(subject_to=["recall() >= 0.5"]), "use Goal.parse"),
        (lambda: Goal(subject_to=[None]), "entry 0 of subject_to.*Got None"),
        (lambda: Goal(subject_to=None), "subject_to must be a constraint or a list"),
        (lambda: Goal(subject_to=3), "subject_to must be a constraint or a list"),
        (lambda: Goal(subject_to=[WOMEN]), "entry 0 of subject_to is not a constraint"),
        (lambda: Goal(min_rows=0), "min_rows"),
        (lambda: Goal(min_rows=1.5), "min_rows"),
        (lambda: Goal(on_small="ignore"), "on_small"),
    ],
)
def test_misuse(misuse, message):
    with pytest.raises(GoalError, match=message):
        misuse()


def test_one_name_means_one_population():
    other = Population("women", where=col("sex") == "F")
    message = (
        r"two different populations are called 'women': population\(sex == \"Female\"\) and population\(sex == \"F\"\)"
    )
    with pytest.raises(GoalError, match=message):
        Goal(error_rate(WOMEN), [recall(other) >= 0.5])
    with pytest.raises(GoalError, match="two different populations"):
        Goal(subject_to=[recall(WOMEN) >= recall(other)])
    with pytest.raises(GoalError, match="two different populations"):
        Goal(error_rate(WOMEN), equalized_odds("race", ratio=0.8, population=other))
    with pytest.raises(GoalError, match="two different populations"):
        Goal(error_rate(WOMEN), [precision(other) >= 0.5])
    same = Population("women", where=col("sex") == "Female")
    assert Goal(error_rate(WOMEN), [recall(same) >= 0.5]).populations == {"women": WOMEN}


def test_labels_differ():
    floor = (recall() >= 0.5).named("floor")
    with pytest.raises(GoalError, match="2 constraints are called 'floor'"):
        Goal(subject_to=[floor, (recall() <= 0.9).named("floor")])


@given(goals())
def test_survive_pickle_copy_clone_and_hash(goal):
    again = pickle.loads(pickle.dumps(goal))
    assert again == goal
    assert hash(again) == hash(goal)
    assert str(again) == str(goal)
    assert copy.deepcopy(goal) is copy.copy(goal) is clone(goal, safe=False) is goal


def test_estimators_that_hold_a_goal_are_cloned_and_printed():
    class Holder(BaseEstimator):
        def __init__(self, goal=None):
            self.goal = goal

    goal = example()
    assert clone(Holder(goal)).goal is goal
    assert "minimize error_rate()" in repr(Holder(Goal()))


def test_equality_is_by_structure():
    assert example() == example()
    assert len({example(), example()}) == 1
    assert example() != Goal()
    assert Goal() != "minimize error_rate()"
    assert Goal(min_rows=3) != Goal()
    assert Goal(subject_to=recall() >= 0.5) != Goal(subject_to=recall() >= 0.6)
    assert Goal(subject_to=recall() >= 0.5) != Goal(subject_to=(recall() >= 0.5).named("floor"))


def test_immutable():
    goal = Goal()
    for name in ("objective", "constraints", "min_rows", "other"):
        with pytest.raises(AttributeError, match="a goal cannot be changed"):
            setattr(goal, name, None)
    with pytest.raises(AttributeError, match="a goal cannot be changed"):
        del goal.objective
    goal.populations["x"] = WOMEN  # a copy
    assert goal.populations == {}


def test_a_list_given_is_copied():
    entries: list[Constraint] = [recall() >= 0.5]
    goal = Goal(subject_to=entries)
    entries.clear()
    assert len(goal.constraints) == 1


def test_the_same_text_is_read_once():
    text = "minimize error_rate()\nsubject to recall() >= 0.625"
    assert checked_goal(text) is checked_goal(text) == Goal.parse(text)
    for _ in range(2):
        with pytest.raises(GoalParseError):
            checked_goal("subject to nonsense")
