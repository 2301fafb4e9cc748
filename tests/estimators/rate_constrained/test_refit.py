"""refit: new rows, the goal met on them, and no more decisions changed than allowed, or the model as it was."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.classifier import PREVIOUS, STABILITY, stable_goal
from widemargin.exceptions import DataError, GoalError, GoalWarning, InfeasibleGoalError, MarginConvergenceWarning
from widemargin.goals import External, Goal, Population, error_rate, positive_rate, recall
from widemargin.persistence import load_model, save_model

FLOOR = Goal(error_rate(), (recall() >= 0.6).named("recall"))


def drifting(step, n=900, seed=0):
    """Rows whose best direction turns as `step` grows, and whose base rate falls."""
    rng = np.random.default_rng([seed, step])
    X = rng.normal(size=(n, 5))
    angle = 0.35 * step
    y = (np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] + 0.5 * rng.normal(size=n) > 0.3 + 0.1 * step).astype(int)
    return X, y


@pytest.fixture
def deployed():
    return RateConstrainedClassifier(FLOOR).fit(*drifting(0))


@pytest.mark.parametrize("ceiling", [0.02, 0.05, 0.15])
def test_the_churn_is_within_the_ceiling_and_the_goal_is_met(deployed, ceiling):
    X, y = drifting(1)
    before = deployed.predict(X)
    old = deployed.coef_.copy(), deployed.intercept_.copy()
    assert deployed.refit(X, y, churn_at_most=ceiling) is deployed
    after = deployed.predict(X)
    assert np.mean(after != before) <= ceiling
    assert after[y == 1].mean() >= 0.6
    assert np.mean(after != y) < np.mean(before != y)  # it follows the drift
    report = deployed.goal_report_[STABILITY]
    assert report.rate == pytest.approx(np.mean(after != before))
    assert report.bound == ceiling
    np.testing.assert_array_equal(deployed.previous_coef_, old[0])
    np.testing.assert_array_equal(deployed.previous_intercept_, old[1])
    assert deployed.n_refits_ == 1
    assert deployed.goal is FLOOR


def test_a_wider_ceiling_follows_the_drift_more_closely():
    X, y = drifting(2)
    errors = []
    for ceiling in (0.01, 0.05, 0.5):
        clf = RateConstrainedClassifier(FLOOR).fit(*drifting(0)).refit(X, y, churn_at_most=ceiling)
        errors.append(np.mean(clf.predict(X) != y))
    assert errors[0] > errors[1] > errors[2]
    afresh = RateConstrainedClassifier(FLOOR).fit(X, y)
    assert errors[2] <= np.mean(afresh.predict(X) != y) + 0.01


def test_churn_on_other_rows_without_labels(deployed):
    X, y = drifting(1)
    traffic = drifting(1, n=700, seed=5)[0]
    before, here = deployed.predict(traffic), deployed.predict(X)
    deployed.refit(X, y, churn_at_most=0.03, stability_rows=traffic)
    assert np.mean(deployed.predict(traffic) != before) <= 0.03
    assert np.any(deployed.predict(X) != here)
    assert dict(deployed.goal_report_.external_rows) == {STABILITY: 700}


def test_refits_follow_each_other(deployed):
    for step in (1, 2, 3):
        X, y = drifting(step)
        before, coef = deployed.predict(X), deployed.coef_
        deployed.refit(X, y, churn_at_most=0.06)
        assert np.mean(deployed.predict(X) != before) <= 0.06
        assert deployed.previous_coef_ is coef
        assert deployed.n_refits_ == step
    deployed.fit(*drifting(0))
    assert not hasattr(deployed, "previous_coef_")
    assert not hasattr(deployed, "n_refits_")


def test_a_saved_model_refits_like_the_one_in_memory(deployed, tmp_path):
    X, y = drifting(1)
    save_model(deployed, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops").refit(X, y)
    deployed.refit(X, y)
    np.testing.assert_array_equal(loaded.coef_, deployed.coef_)
    np.testing.assert_array_equal(loaded.intercept_, deployed.intercept_)
    save_model(loaded, tmp_path / "again.skops")
    again = load_model(tmp_path / "again.skops")
    np.testing.assert_array_equal(again.previous_coef_, deployed.previous_coef_)
    assert again.goal_ == deployed.goal_
    assert pickle.loads(pickle.dumps(deployed)).n_refits_ == 1


def test_sparse_rows_labels_weights_and_the_other_class(deployed):
    X, y = drifting(1)
    names = np.where(y == 1, "bad", "ok")
    Xo, yo = drifting(0)
    clf = RateConstrainedClassifier(FLOOR, pos_label="bad").fit(sp.csr_matrix(Xo), np.where(yo == 1, "bad", "ok"))
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    before = clf.predict(sp.csr_matrix(X))
    clf.refit(sp.csr_matrix(X), names, sample_weight=weight, churn_at_most=0.04)
    changed = clf.predict(sp.csr_matrix(X)) != before
    assert weight @ changed / weight.sum() <= 0.04 + 1e-12
    assert weight @ ((clf.predict(sp.csr_matrix(X)) == "bad") & (y == 1)) >= 0.6 * (weight @ (y == 1)) - 1e-9


def test_populations_external_data_and_calibration_take_part():
    X, y = drifting(0)
    goal = Goal(error_rate(), positive_rate(Population.external("area")) <= 0.35)
    area = {"area": External(drifting(0, 300, seed=3)[0])}
    clf = RateConstrainedClassifier(goal, calibration="sigmoid", random_state=0).fit(X, y, external=area)
    fresh = {"area": External(drifting(1, 300, seed=4)[0])}
    Xn, yn = drifting(1)
    clf.refit(Xn, yn, external=fresh, churn_at_most=0.08)
    assert clf.predict(fresh["area"].X).mean() <= 0.35
    assert clf.predict_proba(Xn).shape == (900, 2)
    frame = pd.DataFrame(Xn, columns=list("abcde"))
    named = RateConstrainedClassifier("s = population(a > 0)\nsubject to positive_rate(s) <= 0.6")
    named.fit(pd.DataFrame(X, columns=list("abcde")), y).refit(frame, yn)
    assert named.predict(frame)[Xn[:, 0] > 0].mean() <= 0.6


def test_randomized_enforcement_limits_the_expected_churn():
    clf = RateConstrainedClassifier(FLOOR, enforce="randomized", C=2.0).fit(*drifting(0))
    X, y = drifting(1)
    before = clf.predict(X)
    clf.refit(X, y, churn_at_most=0.2)
    share = clf.randomized_proba(X)[:, 1]
    assert np.where(before == 1, 1 - share, share).mean() <= 0.2 + 1e-6


def test_in_a_pipeline_the_last_step_is_refitted():
    X, y = drifting(0)
    Xn, yn = drifting(1)
    pipe = make_pipeline(StandardScaler(), RateConstrainedClassifier(FLOOR)).fit(X, y)
    before = pipe.predict(Xn)
    pipe[-1].refit(pipe[:-1].transform(Xn), yn)
    assert 0 < np.mean(pipe.predict(Xn) != before) <= 0.05


@pytest.mark.parametrize("feature_map", ["nystroem", "fourier"])
def test_a_feature_map_stays_as_it_was_fitted(feature_map):
    clf = RateConstrainedClassifier(
        FLOOR, kernel="rbf", feature_map=feature_map, solver_options={"n_components": 40}, random_state=0
    )
    clf.fit(*drifting(0))
    fitted, coef = clf.feature_map_, clf.coef_
    X, y = drifting(1)
    before = clf.predict(X)
    clf.refit(X, y, churn_at_most=0.04)
    assert clf.feature_map_ is fitted
    assert clf.previous_coef_ is coef
    assert 0 < np.mean(clf.predict(X) != before) <= 0.04


def test_a_kernel_model_is_trained_afresh_under_the_ceiling():
    clf = RateConstrainedClassifier(FLOOR, kernel="rbf", gamma=0.2).fit(*drifting(0, 250))
    X, y = drifting(1, 250)
    before = clf.predict(X)
    clf.refit(X, y, churn_at_most=0.1)
    assert np.mean(clf.predict(X) != before) <= 0.1
    assert clf.n_refits_ == 1
    assert not hasattr(clf, "previous_coef_")


# the model as it was


def unchanged(clf, state):
    assert vars(clf).keys() == state.keys()
    return all(vars(clf)[name] is value for name, value in state.items())


def test_what_cannot_be_met_is_refused_and_the_model_stays(deployed):
    X, y = drifting(4)
    deployed.set_params(goal=Goal(error_rate(), (recall() >= 0.95).named("recall")))
    state = dict(vars(deployed))
    with pytest.raises(InfeasibleGoalError, match=f"with '{STABILITY}' met the largest 'recall' found") as caught:
        deployed.refit(X, y, churn_at_most=0.01)
    assert set(caught.value.conflict) == {"recall", STABILITY}
    assert caught.value.best_values[STABILITY] > 0.01
    assert unchanged(deployed, state)


def test_with_a_warning_the_nearest_is_taken(deployed):
    X, y = drifting(4)
    deployed.set_params(goal=Goal(error_rate(), recall() >= 0.95), on_infeasible="warn")
    with pytest.warns(GoalWarning, match="no model that meets the goal"):
        deployed.refit(X, y, churn_at_most=0.01)
    assert deployed.n_refits_ == 1
    assert STABILITY in deployed.infeasibility_.conflict


def test_a_refit_out_of_time_is_refused_unless_it_has_what_was_asked(deployed):
    X, y = drifting(4)
    deployed.set_params(time_budget=1e-9, goal=Goal(error_rate(), recall() >= 0.95))
    state = dict(vars(deployed))
    with (
        pytest.warns(MarginConvergenceWarning, match="time budget"),
        pytest.raises(InfeasibleGoalError, match=r"changes at most 0\.01 of the decisions; the model before"),
    ):
        deployed.refit(X, y, churn_at_most=0.01)
    assert unchanged(deployed, state)


def _stop(progress):
    raise KeyboardInterrupt


def test_ctrl_c_leaves_a_model_that_meets_everything(deployed):
    X, y = drifting(1)
    before = deployed.predict(X)
    deployed.set_params(callbacks=[_stop])
    with pytest.warns(MarginConvergenceWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        deployed.refit(X, y, churn_at_most=0.05)
    assert np.mean(deployed.predict(X) != before) <= 0.05


def test_nothing_changes_nothing():
    """On its own rows with no change allowed, the deployed model is what comes back."""
    X, y = drifting(0)
    clf = RateConstrainedClassifier(FLOOR).fit(X, y)
    before = clf.predict(X)
    clf.refit(X, y, churn_at_most=0.0)
    np.testing.assert_array_equal(clf.predict(X), before)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"churn_at_most": 1.5}, GoalError, "always true"),
        ({"churn_at_most": -0.1}, GoalError, "never true"),
        ({"populations": pd.DataFrame({PREVIOUS: np.zeros(900)})}, DataError, PREVIOUS),
        (
            {"stability_rows": np.zeros((3, 5)), "external": {STABILITY: External(np.zeros((3, 5)))}},
            DataError,
            "rename",
        ),
        ({"stability_rows": np.zeros((3, 4))}, ValueError, "4 features"),
    ],
)
def test_bad_arguments_are_named_and_the_model_stays(deployed, arguments, error, message):
    state = dict(vars(deployed))
    with pytest.raises(error, match=message):
        deployed.refit(*drifting(1), **arguments)
    assert unchanged(deployed, state)


def test_rows_and_labels_are_checked_against_the_fit(deployed):
    X, y = drifting(1)
    with pytest.raises(ValueError, match="4 features"):
        deployed.refit(X[:, :4], y)
    with pytest.raises(DataError, match="knows"):
        deployed.refit(X, np.where(y == 1, "b", "a"))
    with pytest.raises(NotFittedError):
        clone(deployed).refit(X, y)
    deployed.set_params(goal=stable_goal(FLOOR, 0.1, None, None, None))
    with pytest.raises(DataError, match="'stability'"):
        deployed.refit(X, y)


def test_inputs_are_left_alone(deployed):
    X, y = drifting(1)
    copies, params = (X.copy(), y.copy()), deployed.get_params()
    deployed.refit(X, y)
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(y, copies[1])
    assert deployed.get_params() == params
