"""The level of a constraint: found, moved, refused."""

import pytest

from widemargin.exceptions import GoalError
from widemargin.goals import (
    Bundle,
    Constraint,
    Goal,
    Population,
    col,
    demographic_parity,
    error_rate,
    positive_rate,
    recall,
)
from widemargin.goals import precision as precision_

WOMEN = Population("women", where=col("sex") == "F")
MEN = Population("men", where=col("sex") == "M")
W, M = positive_rate(WOMEN), positive_rate(MEN)

CASES = [
    (recall() >= 0.6, 0.6, "recall() >= 0.7"),
    (recall() >= 0.6, 0.6, "recall() >= 0.7"),
    (precision_() >= 0.5, 0.5, "precision() >= 0.7"),
    (W >= 0.8 * M, 0.8, "positive_rate(women) >= 0.7 * positive_rate(men)"),
    (0.8 * M <= W, 0.8, "0.7 * positive_rate(men) <= positive_rate(women)"),
    (W >= M, 1.0, "positive_rate(women) >= 0.7 * positive_rate(men)"),
    (W / M >= 0.8, 0.8, "positive_rate(women) / positive_rate(men) >= 0.7"),
    (M - W <= 0.05, 0.05, "positive_rate(men) - positive_rate(women) <= 0.7"),
    (demographic_parity("sex", ratio=0.8), 0.8, "demographic_parity(sex, ratio=0.7)"),
    (demographic_parity("sex", difference=0.1), 0.1, "demographic_parity(sex, difference=0.7)"),
]


@pytest.mark.parametrize(("entry", "level", "moved"), CASES, ids=lambda value: str(value)[:40])
def test_level_is_found_and_moved(entry: Constraint | Bundle, level: float, moved: str) -> None:
    assert entry.level == level
    other = entry.at_level(0.7)
    assert other.text == moved
    assert other.at_level(level) == entry


@pytest.mark.parametrize("entry", [W + recall() >= M, 0.5 * W >= 0.8 * M, W >= M - 0.1])
def test_what_has_no_single_number_is_refused(entry: Constraint) -> None:
    with pytest.raises(GoalError, match="has no single level"):
        _ = entry.level
    with pytest.raises(GoalError, match="has no single level"):
        entry.at_level(0.5)


@pytest.mark.parametrize(
    ("entry", "level"),
    [(recall() >= 0.6, 1.2), (demographic_parity("sex", ratio=0.8), 0.0), (recall() >= 0.6, float("nan"))],
)
def test_a_level_out_of_range_is_refused(entry: Constraint | Bundle, level: float) -> None:
    with pytest.raises(GoalError):
        entry.at_level(level)


@pytest.mark.parametrize(
    ("entry", "above", "below", "is_floor"),
    [
        (recall() >= 0.6, "recall()", None, True),
        (0.8 * M <= W, "positive_rate(women)", "positive_rate(men)", True),
        (W <= 0.8 * M, "positive_rate(women)", "positive_rate(men)", False),
        (M - W <= 0.05, "positive_rate(men) - positive_rate(women)", None, False),
    ],
)
def test_what_a_level_is_compared_with(entry: Constraint, above: str, below: str | None, is_floor: bool) -> None:
    compared = entry.compared_with_level()
    assert (str(compared[0]), None if compared[1] is None else str(compared[1]), compared[2]) == (
        above,
        below,
        is_floor,
    )


def test_goal_at_another_level_keeps_everything_else() -> None:
    goal = Goal(
        error_rate(),
        [(recall() >= 0.6).named("floor"), demographic_parity("sex", ratio=0.8)],
        min_rows=5,
        on_small="drop",
    )
    moved = goal.with_level(0.7, "floor")
    assert moved.level("floor") == 0.7
    assert goal.level("floor") == 0.6
    assert str(moved) == str(goal).replace("recall() >= 0.6", "recall() >= 0.7")
    assert moved.with_level(0.6, "floor") == goal
    assert goal.with_level(0.5, "demographic_parity(sex, ratio=0.8)").constraints[1].ratio == 0.5  # type: ignore[union-attr]


def test_constraint_has_to_be_named_where_there_are_several() -> None:
    goal = Goal(error_rate(), [recall() >= 0.6, W >= 0.8 * M])
    with pytest.raises(GoalError, match=r"has to be named of the goal's 2 constraints; there are 'recall\(\) >= 0.6'"):
        goal.level()
    with pytest.raises(GoalError, match="'floor' names 0 of the goal's 2 constraints"):
        goal.with_level(0.5, "floor")
    assert Goal(error_rate(), recall() >= 0.6).level() == 0.6
