"""Paths over one bound of models that are fitted anew: against fits and counts by hand, early ends, what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from widemargin import GoalReduction, GoalThresholdClassifier, tradeoff_path
from widemargin.exceptions import CapabilityError, GoalError, GoalWarning, MarginConvergenceWarning
from widemargin.goals import Goal

GOAL = """women = population(sex == "F")
men = population(sex == "M")
minimize error_rate()
subject to parity: positive_rate(women) >= 0.8 * positive_rate(men)
subject to floor: recall() >= 0.3"""
LEVELS = [0.3, 0.6, 0.9]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    woman = rng.random(1500) < 0.4
    X = rng.normal(size=(1500, 3))
    X[:, 0] -= 0.8 * woman
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=1500) > 0.4).astype(int)
    return X, y, pd.DataFrame({"sex": np.where(woman, "F", "M")})


def tree(goal=GOAL, **options):
    return GoalReduction(DecisionTreeClassifier(max_depth=4, random_state=0), goal, random_state=0, **options)


def regression(goal=GOAL, **options):
    return GoalThresholdClassifier(LogisticRegression(), goal, random_state=0, **options)


def rates(said, table):
    """Positive rates of women and of men."""
    return [(said == 1)[table["sex"].to_numpy() == sex].mean() for sex in "FM"]


@pytest.mark.parametrize("options", [{}, {"per_population": "sex"}])
@pytest.mark.parametrize("make", [tree, regression])
def test_points_are_fits_and_are_measured_on_the_rows_held_out(data, make, options):
    X, y, table = data
    train, held = slice(0, 1100), slice(1100, None)
    asked = make(**options)
    path = tradeoff_path(
        asked, X[train], y[train], values=LEVELS, constraint="parity", populations=table[train],
        validation=(X[held], y[held], table[held]),
    )  # fmt: skip
    assert path.met.all() and (path.training.reached >= np.array(LEVELS) - 1e-9).all()
    assert path.training.n_rows == 1100 and path.held_out.n_rows == 400
    assert (np.diff(path.training.objective) >= 0.0).all()  # a looser bound is never worse
    for number, level in enumerate(LEVELS):
        model = path.model(number)
        goal = Goal.parse(GOAL).with_level(level, "parity")
        assert model.goal == model.goal_ == goal and model.goal_report_.passed
        own = clone(asked).set_params(goal=goal).fit(X[train], y[train], populations=table[train])
        assert path.training.objective[number] <= own.goal_report_.objective
        assert model.goal_report_.objective == pytest.approx(path.training.objective[number])
        said = model.predict(X[held], populations=table[held])
        assert path.held_out.objective[number] == pytest.approx((said != y[held]).mean())
        women, men = rates(said, table[held])
        assert path.held_out.reached[number] == pytest.approx(women / men)
    assert asked.goal == GOAL and not hasattr(asked, "estimator_")
    assert "gap" not in str(path) and len(path.prices()) == 2
    assert type(path).from_dict(path.to_dict()).to_dict() == path.to_dict()


def test_a_looser_bound_takes_a_model_that_met_a_stricter_one_at_less(data, monkeypatch):
    X, y, table = data
    real = GoalThresholdClassifier.fit

    def careless(model, X, *rows):  # scores at the loosest bound that say nothing
        return real(model, X[::-1] if model.goal.constraints[0].factor.value < 0.5 else X, *rows)

    monkeypatch.setattr(GoalThresholdClassifier, "fit", careless)
    path = tradeoff_path(regression(), X, y, values=LEVELS, constraint="parity", populations=table)
    assert path.training.objective[0] == path.training.objective[1] < path.training.objective[2]
    assert path.model(0).threshold_ == path.model(1).threshold_
    assert [path.model(i).goal.constraints[0].factor.value for i in (0, 1)] == LEVELS[:2]
    assert path.model(0).goal_report_.constraints[0].as_ratio().bound == 0.3


def test_several_classes(data):
    X, _, _ = data
    rng = np.random.default_rng(1)
    y = np.array(["a", "b", "c"])[(X[:, 0] + rng.normal(size=1500) > 0).astype(int) + (X[:, 1] > 0.5)]
    goal = 'minimize error_rate()\nsubject to found: recall(of="c") >= 0.5'
    held = X[1200:], y[1200:]
    path = tradeoff_path(regression(goal), X[:1200], y[:1200], values=[0.3, 0.9], validation=held)
    for number in range(2):
        said = path.model(number).predict(held[0])
        assert path.held_out.objective[number] == pytest.approx((said != held[1]).mean())
        assert path.held_out.reached[number] == pytest.approx((said == "c")[held[1] == "c"].mean())
    assert path.met.all() and path.training.objective[0] < path.training.objective[1]


def test_a_model_that_abstains(data):
    X, y, _ = data
    asked = regression("minimize error_rate()\nsubject to decided: decision_rate() >= 0.5", abstain=-1)
    path = tradeoff_path(asked, X[:1200], y[:1200], values=[0.4, 0.9], validation=(X[1200:], y[1200:]))
    for number in range(2):
        said = path.model(number).predict(X[1200:])
        assert path.held_out.reached[number] == pytest.approx((said != -1).mean())
    assert path.met.all() and path.training.objective[0] < path.training.objective[1]


def test_random_predictions_are_judged_by_what_they_enforce(data):
    X, y, table = data
    path = tradeoff_path(
        tree(randomize=True), X[:1200], y[:1200], values=LEVELS, constraint="parity", populations=table[:1200],
        validation=(X[1200:], y[1200:], table[1200:]),
    )  # fmt: skip
    assert path.met.all() and (path.training.ramp_slack >= -1e-9).all() and (path.violation == 0.0).all()
    drawn = path.model(2).randomized_proba(X[1200:])[np.arange(300), 1 - y[1200:]].mean()
    assert path.held_out.ramp_objective[2] == pytest.approx(drawn)


def test_a_proof_is_never_taken_from_another_point(data):
    X, y, table = data
    path = tradeoff_path(
        regression(confidence=0.9), X, y, values=[0.2, 0.4], constraint="parity", populations=table,
        validation_fraction=None,
    )  # fmt: skip
    assert path.met.all() and path.held_out is None
    assert all("probability >= 0.9" in model.guarantee_ for model in path.models)


def test_values_that_cannot_be_met_are_kept_and_warned_of(data):
    X, y, _ = data
    asked = regression("minimize error_rate()\nsubject to found: recall() >= 0.5\nsubject to positive_rate() <= 0.2")
    with pytest.warns(GoalWarning, match=r"at 1 of 2 values \(0.99\)"):
        path = tradeoff_path(asked, X, y, values=[0.2, 0.99], constraint="found")
    assert path.met.tolist() == [True, False] and path.violation[1] > 0.0


@pytest.mark.parametrize("how", ["callback", "ctrl-c", "time"])
def test_an_early_end_keeps_the_points_done(data, how, monkeypatch):
    X, y, table = data
    said = []

    def watch(progress):
        said.append(progress.stage)
        return how == "callback" and said.count("path") == 2

    if how == "ctrl-c":
        real = GoalReduction.fit

        def interrupted(model, *rows):
            if model.goal.constraints[0].factor.value > 0.8:
                raise KeyboardInterrupt
            return real(model, *rows)

        monkeypatch.setattr(GoalReduction, "fit", interrupted)
    asked = tree(callbacks=[watch], time_budget=1e-6 if how == "time" else None)
    with pytest.warns(MarginConvergenceWarning, match=f"{1 if how == 'time' else 2} of 3 points"):
        path = tradeoff_path(asked, X, y, values=LEVELS, constraint="parity", populations=table)
    assert len(path) == len(path.models) and said.count("path") == len(path)


def test_what_there_is_for_warm_starts_alone_is_refused(data):
    X, y, table = data
    with pytest.raises(CapabilityError, match="GoalReduction is fitted anew at every value"):
        tradeoff_path(tree(), X, y, values=LEVELS, constraint="parity", populations=table, pieces=2)
    with pytest.raises(GoalError, match="on the validation rows"):
        tradeoff_path(
            regression(), X, y, values=LEVELS, constraint="parity", populations=table,
            validation=(X, y, table.assign(sex="F")),
        )  # fmt: skip
