"""Populations: which rows, their names, intersections."""

import copy
import pickle

import pytest
from hypothesis import given
from testing.goal_strategies import populations

from widemargin.exceptions import GoalError
from widemargin.goals import Population, col, negative_label, positive_label, predicted_negative, predicted_positive
from widemargin.goals.language.populations import EVERYONE, as_population
from widemargin.goals.language.predicates import IsTrue

IS_WOMAN, IS_YOUNG = col("sex") == "Female", col("age") < 30
WOMEN, YOUNG = Population("women", where=IS_WOMAN), Population("young", where=IS_YOUNG)
TRAFFIC = Population.external("traffic")


@pytest.mark.parametrize(
    ("population", "definition", "reference"),
    [
        (WOMEN, 'population(sex == "Female")', "women"),
        (Population("white women", where=IS_WOMAN), 'population(sex == "Female")', '"white women"'),
        (Population(None, where=IS_WOMAN), 'population(sex == "Female")', 'population(sex == "Female")'),
        (EVERYONE, "population()", "population()"),
        (TRAFFIC, "external()", "traffic"),
        (Population("t", "traffic"), 'external("traffic")', "t"),
        (Population(None, "traffic"), 'external("traffic")', 'external("traffic")'),
        (Population.external("traffic", IS_YOUNG), 'external("traffic", age < 30)', 'external("traffic", age < 30)'),
        (Population.external("traffic", IS_YOUNG, name="t"), 'external("traffic", age < 30)', "t"),
    ],
)
def test_text(population, definition, reference):
    assert population.definition == definition
    assert str(population) == population.reference == reference
    assert repr(population) == (definition if population.name is None else f"{reference} = {definition}")


def test_a_boolean_column_is_a_condition():
    assert Population("members", where=col("member")).where == IsTrue("member")
    assert Population.external("t", col("member")).where == IsTrue("member")


def test_intersections():
    both = WOMEN & YOUNG
    assert both == Population(None, None, IS_WOMAN & IS_YOUNG)
    assert both == WOMEN & IS_YOUNG
    assert WOMEN & col("member") == Population(None, None, IS_WOMAN & col("member"))
    assert both.named("young women").name == "young women"
    assert Population(None, "traffic", IS_WOMAN) == TRAFFIC & WOMEN
    assert Population(None, "traffic", IS_WOMAN) == WOMEN & TRAFFIC
    assert Population(None, "traffic", IS_WOMAN & IS_YOUNG) == (WOMEN & YOUNG) & TRAFFIC


@pytest.mark.parametrize("population", [WOMEN, TRAFFIC, EVERYONE, Population("everyone")])
def test_intersection_with_everyone_and_itself_changes_nothing(population):
    assert population & population == population
    assert population & EVERYONE == population
    assert (EVERYONE & population).rows == population.rows


def test_label_and_baseline_parts():
    assert WOMEN.positives() == WOMEN & positive_label()
    assert WOMEN.negatives() == WOMEN & negative_label()
    assert WOMEN.predicted_positive("h") == WOMEN & predicted_positive("h")
    assert WOMEN.predicted_negative("h") == WOMEN & predicted_negative("h")
    part = WOMEN.positives().predicted_positive("h")
    assert part.uses_label
    assert part.baselines == ("h",)
    assert part.columns == ("sex",)
    assert (EVERYONE.columns, EVERYONE.baselines, EVERYONE.uses_label) == ((), (), False)
    assert not TRAFFIC.uses_label


@given(populations())
def test_values_survive_pickle_copy_and_hash(population):
    again = pickle.loads(pickle.dumps(population))
    assert again == population
    assert hash(again) == hash(population)
    assert copy.deepcopy(population) is copy.copy(population) is population


def test_equality_is_by_structure():
    assert Population("women", where=col("sex") == "Female") == WOMEN
    assert Population("w", where=IS_WOMAN) != WOMEN
    assert Population("w", where=IS_WOMAN).rows == WOMEN.rows


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: Population(""), "a population's name"),
        (lambda: Population("a\nb"), "a population's name"),
        (lambda: Population(3), "a population's name must be a string"),
        (lambda: Population("a", source=""), "external data set"),
        (lambda: Population("a", where="sex == 'Female'"), "is no predicate"),
        (lambda: Population("a", where=True), "is no predicate"),
        (lambda: TRAFFIC & Population.external("other"), "have no rows in common"),
        (lambda: WOMEN & "young", "is intersected with"),
        (lambda: bool(WOMEN), "no truth value"),
        (lambda: ~WOMEN, r'Population\(name, where=~\(sex == "Female"\)\)'),
        (lambda: ~TRAFFIC, "Negate the condition"),
        (lambda: WOMEN | YOUNG, r"where=\(a\) \| \(b\)"),
        (lambda: 3 | WOMEN, "combined by & only"),
        (lambda: as_population("women"), "Population.external.'women'."),
        (lambda: as_population(IS_WOMAN), "Write Population.None, where=sex"),
        (lambda: as_population([1]), "on must be a Population"),
    ],
)
def test_refusals(misuse, message):
    with pytest.raises(GoalError, match=message):
        misuse()


def test_immutable():
    with pytest.raises(AttributeError):
        WOMEN.name = "men"
