"""Paths over one bound: their points against fits from nothing, their measures against predictions, early ends."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from testing.goal_tables import drawn_table

from widemargin import External, RateConstrainedClassifier, tradeoff_path
from widemargin.estimators.rate_constrained import tradeoff_sweep as warm_path
from widemargin.estimators.rate_constrained.ramp_model import gathered
from widemargin.exceptions import CapabilityError, DataError, GoalError, GoalWarning, MarginConvergenceWarning
from widemargin.goals import Goal, Population, churn, col, demographic_parity, error_rate, positive_rate, recall

WOMEN = Population("women", where=col("sex") == "F")
MEN = Population("men", where=col("sex") == "M")
GOAL = Goal(error_rate(), [(positive_rate(WOMEN) >= 0.5 * positive_rate(MEN)).named("parity"), recall() >= 0.5])
LEVELS = np.linspace(0.3, 1.0, 6)


def make_data(n: int = 1600, seed: int = 0) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    woman = rng.random(n) < 0.4
    X = np.round(2 * rng.normal(size=(n, 5))) / 2
    X[:, 0] -= 0.8 * woman
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n) > 0.4).astype(int)
    return X, y, pd.DataFrame({"sex": np.where(woman, "F", "M")})


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def path(data):
    X, y, table = data
    clf = RateConstrainedClassifier(GOAL, random_state=0)
    return tradeoff_path(clf, X, y, values=LEVELS, constraint="parity", populations=table)


def merit(model: RateConstrainedClassifier, n: int) -> float:
    """What training minimises: ramp objective and regulariser."""
    return model.goal_report_.ramp_objective + float(model.coef_[0] @ model.coef_[0]) / (n * model.C)


@pytest.mark.parametrize(
    ("kind", "enforce"),
    [("dense", "deterministic"), ("dense", "randomized"), ("sparse", "randomized"), ("float32", "deterministic")],
)
def test_points_are_as_good_as_fits_from_nothing(data, enforce, kind):
    X, y, table = data
    X = {"dense": X, "sparse": sp.csr_matrix(X), "float32": X.astype(np.float32)}[kind]
    clf = RateConstrainedClassifier(GOAL, enforce=enforce, max_steps=12)
    levels = LEVELS[[0, 2, 5]]
    path = tradeoff_path(clf, X, y, values=levels, constraint="parity", populations=table, validation_fraction=None)
    assert path.met.all()
    assert path.gap.max() <= 1e-3
    assert set(path.status) == {"converged"}
    for i in (1, 2):
        cold = clone(clf).set_params(goal=GOAL.with_level(levels[i], "parity")).fit(X, y, populations=table)
        if enforce == "randomized":
            assert merit(path.model(i), len(y)) <= 1.02 * merit(cold, len(y))
        else:  # the bias was moved for the 0/1 objective, so that is what is comparable
            assert path.training.objective[i] <= cold.goal_report_.objective + 0.01
    assert path.held_out is None


@pytest.mark.parametrize(("name", "seed"), [("milp", 12), ("plane-grid", 12)])
def test_a_path_restarts_as_a_fit_does(name, seed):
    """A path of one point is a fit. Without restarts the second was called impossible, the first had .16 for .14."""
    table = drawn_table(name, seed, 50).train[None]
    clf = RateConstrainedClassifier(
        "minimize error_rate(); subject to floor: recall() >= 0.5; subject to swept: false_positive_rate() <= 0.1"
    )
    rows = {"sample_weight": table.weight, "populations": table.people}
    path = tradeoff_path(clf, table.X, table.y, values=[0.1], constraint="swept", validation_fraction=None, **rows)
    assert path.met.all()
    assert path.training.objective[0] == pytest.approx(clf.fit(table.X, table.y, **rows).goal_report_.objective)


def test_objective_rises_along_the_path_and_so_does_what_is_reached(path):
    assert np.diff(path.training.objective).min() >= -0.004  # every point is a local solution
    assert path.training.objective[-1] > path.training.objective[0] + 0.01
    assert (path.training.reached >= LEVELS - 1e-9).all()
    assert path.multipliers[-1, 0] > 0


def test_measures_are_those_of_predict(data, path):
    X, y, table = data
    train, held = _parts(y)
    for rows, part in ((train, path.training), (held, path.held_out)):
        woman = table["sex"].to_numpy()[rows] == "F"
        assert part.n_rows == len(rows)
        for i in (0, 3, 5):
            said = path.model(i).predict(X[rows])
            assert part.objective[i] == pytest.approx((said != y[rows]).mean(), abs=1e-12)
            assert part.rate[i, 0] == pytest.approx(said[woman].mean(), abs=1e-12)
            assert part.bound[i, 0] == pytest.approx(LEVELS[i] * said[~woman].mean(), abs=1e-12)
            assert part.reached[i] == pytest.approx(said[woman].mean() / said[~woman].mean(), abs=1e-12)
            assert part.slack[i, 1] == pytest.approx(said[y[rows] == 1].mean() - 0.5, abs=1e-12)
            soft = path.model(i).randomized_proba(X[rows])[:, 1]
            assert part.ramp_rate[i, 1] == pytest.approx(soft[y[rows] == 1].mean(), abs=1e-9)
    assert np.isnan(path.training.objective_error).all()
    wrong = path.held_out.objective
    np.testing.assert_allclose(path.held_out.objective_error, np.sqrt(wrong * (1 - wrong) / len(held)), rtol=1e-9)
    difference = (path.model(0).predict(X[held]) != y[held]) * 1.0 - (path.model(5).predict(X[held]) != y[held])
    assert path.held_out.difference_error(0, 5) == pytest.approx(difference.std() / np.sqrt(len(held)), rel=1e-9)
    assert (path.held_out.reached_error > path.held_out.slack_error[:, 0]).all()  # divided by a rate below 1


def _parts(y):
    rng = np.random.RandomState(0)
    parts = train_test_split(np.arange(len(y)), test_size=round(0.2 * len(y)), stratify=y, random_state=rng)
    return [np.sort(part) for part in parts]


def test_models_are_fitted_classifiers(data, path):
    X, y, table = data
    model = path.model(4)
    assert model.goal == GOAL.with_level(LEVELS[4], "parity")
    assert model.goal_report_.all_met()
    np.testing.assert_array_equal(model.coef_[0], path.coef[4])
    assert not hasattr(model, "predict_proba")
    again = clone(model).fit(X, y, populations=table)
    assert again.goal_report_.all_met()


def test_same_input_same_bits_and_input_is_left_alone(data, path):
    X, y, table = data
    before = X.copy(), y.copy(), table.copy()
    clf = RateConstrainedClassifier(GOAL, random_state=0)
    again = tradeoff_path(clf, X, y, values=LEVELS, constraint="parity", populations=table)
    np.testing.assert_array_equal(again.coef, path.coef)
    np.testing.assert_array_equal(again.held_out.objective, path.held_out.objective)
    assert not hasattr(clf, "coef_")
    for given, kept in zip((X, y), before, strict=False):
        np.testing.assert_array_equal(given, kept)
    pd.testing.assert_frame_equal(table, before[2])


def test_binding_and_merging_are_done_once(data, monkeypatch):
    X, y, table = data
    calls = []
    build = warm_path.build_problem
    monkeypatch.setattr(warm_path, "build_problem", lambda *args, **kw: calls.append(1) or build(*args, **kw))
    levels = np.linspace(0.45, 0.5, 8)
    clf = RateConstrainedClassifier(GOAL)
    warm = tradeoff_path(clf, X, y, values=levels, constraint="parity", populations=table, validation_fraction=None)
    assert len(calls) == 1
    cold = RateConstrainedClassifier(GOAL.with_level(levels[4], "parity")).fit(X, y, populations=table)
    assert np.median(warm.n_iter[1:]) < 0.6 * cold.n_iter_


def test_a_bundle_and_a_function_of_goals(data):
    X, y, table = data
    clf = RateConstrainedClassifier(Goal(error_rate(), demographic_parity("sex", ratio=0.8).named("parity")))
    path = tradeoff_path(clf, X, y, values=[0.5, 0.9], populations=table, validation=(X, y, table))
    assert path.name == "parity"
    assert path.training.rate.shape == (2, 2)
    assert (path.training.reached >= [0.5, 0.9]).all()
    np.testing.assert_array_equal(path.held_out.reached, path.training.reached)
    np.testing.assert_allclose(path.training.least_slack, path.training.reached - path.values)  # in units of the ratio
    weighted = tradeoff_path(
        RateConstrainedClassifier(), X, y, values=[0.0, 0.5], populations=table, validation_fraction=None,
        goal_at=lambda price: Goal(error_rate() + price * positive_rate(), recall() >= 0.6),
    )  # fmt: skip
    assert weighted.name == "value"
    assert np.isnan(weighted.training.reached).all()
    assert "least slack" in str(weighted)
    positive = [(weighted.model(i).predict(X) == 1).mean() for i in range(2)]
    assert positive[1] <= positive[0]  # each has the best model of both, so a price never buys more of what it is on


def test_a_rule_that_is_written_twice_is_measured_in_both_places(data):
    X, y, table = data
    twice = demographic_parity("sex", ratio=0.5)
    clf = RateConstrainedClassifier(Goal(error_rate(), [twice, recall() >= 0.5, twice]))
    of_path = {"constraint": "recall() >= 0.5", "values": [0.5], "validation_fraction": None}
    rate = tradeoff_path(clf, X, y, populations=table, **of_path).training.rate[0]
    np.testing.assert_array_equal(rate[:2], rate[3:])


def test_a_factor_between_rates_of_which_one_needs_labels_is_swept(data):
    X, y, table = data
    rule = "positive_rate() >= 0.5 * recall()"
    clf, told = RateConstrainedClassifier(f"subject to {rule}"), {"constraint": rule, "values": [0.3, 0.5]}
    measured = tradeoff_path(clf, X, y, populations=table, **told, validation=(X, y, table)).held_out
    said = clf.fit(X, y, populations=table).predict(X)
    assert measured.reached[1] == pytest.approx(said.mean() / said[y == 1].mean(), abs=0.05)
    assert (measured.reached_error > 0.0).all()


def test_external_rows_and_weights(data):
    X, y, _ = data
    traffic, _, _ = make_data(500, 1)
    goal = Goal(error_rate(), churn("deployed", on=Population.external("traffic")) <= 0.1)
    external = {"traffic": External(traffic, deployed=(traffic[:, 0] > 0.2).astype(int))}
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    path = tradeoff_path(
        RateConstrainedClassifier(goal, random_state=0), X, y, values=[0.05, 0.1, 0.2], external=external,
        sample_weight=weight,
    )  # fmt: skip
    said = path.model(0).predict(traffic)
    assert path.training.reached[0] == pytest.approx(np.mean(said != external["traffic"].baselines["deployed"]))
    assert path.held_out.reached[0] == path.training.reached[0]  # never sliced
    _, held = _parts(y)
    wrong = path.model(1).predict(X[held]) != y[held]
    assert path.held_out.objective[1] == pytest.approx(np.average(wrong, weights=weight[held]))


# --- goals that are not met, and early ends --------------------------------------------------------------------------

HARD = Goal(error_rate(), [(recall() >= 0.5).named("floor"), positive_rate() <= 0.3])


def test_points_out_of_reach_are_kept_and_marked(data):
    X, y, _ = data
    clf = RateConstrainedClassifier(HARD)
    values = [0.5, 0.6, 0.9, 0.95, 0.6]
    with pytest.warns(GoalWarning, match=r"at 2 of 5 values \(0.9, 0.95\)"):
        path = tradeoff_path(clf, X, y, values=values, constraint="floor", validation=(X, y))
    assert path.met.tolist() == [True, True, False, False, True]
    assert path.violation[2] == pytest.approx(-min(path.training.slack[2].min(), 0.0))
    assert path.violation[[0, 1, 4]].tolist() == [0.0, 0.0, 0.0]
    assert path.status[2] == "infeasible"
    assert str(path).count("NOT MET\n") == 2
    assert {price.stop for price in path.prices()} == {0.6}  # points that are not met have no price
    cold = RateConstrainedClassifier(HARD.with_level(0.9, "floor"), on_infeasible="warn")
    with pytest.warns(GoalWarning):
        cold.fit(X, y)
    missed = -sum(min(0.0, item.slack) for item in cold.goal_report_.constraints)
    assert -np.minimum(path.training.slack[2], 0.0).sum() <= 1.05 * missed


def stopping(after: int, how: type[BaseException] | None):
    def callback(progress):
        if progress.stage == "path" and progress.iteration == after:
            if how is not None:
                raise how
            return True
        return None

    return callback


@pytest.mark.parametrize(("how", "word"), [(KeyboardInterrupt, "interrupted"), (None, "stopped by a callback")])
def test_an_early_end_keeps_the_points_done(data, path, how, word):
    X, y, table = data
    clf = RateConstrainedClassifier(GOAL, random_state=0, callbacks=[stopping(3, how)])
    with pytest.warns(MarginConvergenceWarning, match=f"3 of 6 points .*{word}"):
        cut = tradeoff_path(clf, X, y, values=LEVELS, constraint="parity", populations=table)
    np.testing.assert_array_equal(cut.coef, path.coef[:3])
    assert (len(cut), cut.n_asked) == (3, 6)
    assert "3 of 6 points" in str(cut)
    assert cut.held_out.covariance.shape == (3, 3)


def test_a_spent_budget_leaves_one_point(data):
    X, y, table = data
    clf = RateConstrainedClassifier(GOAL, time_budget=1e-6)
    with pytest.warns(MarginConvergenceWarning, match="1 of 6 points .*raise time_budget"), warnings.catch_warnings():
        warnings.simplefilter("ignore", GoalWarning)  # cut short, its goal may be missed
        path = tradeoff_path(clf, X, y, values=LEVELS, constraint="parity", populations=table)
    assert path.status == ("time_limit",)


def test_an_interrupt_before_the_first_point_has_nothing_to_keep(data, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    X, y, table = data
    monkeypatch.setattr(warm_path, "bind", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tradeoff_path(RateConstrainedClassifier(GOAL), X, y, values=LEVELS, constraint="parity", populations=table)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"values": []}, DataError, "values holds 0 numbers"),
        ({"values": [0.5, np.nan]}, DataError, "values holds 2 numbers"),
        ({"constraint": None}, GoalError, "has to be named of the goal's 2 constraints"),
        ({"constraint": "fair"}, GoalError, "'fair' names 0"),
        ({"constraint": "recall() >= 0.5", "values": [-0.5]}, GoalError, "always true"),
        ({"goal_at": lambda level: GOAL}, GoalError, "both constraint and goal_at"),
        ({"constraint": None, "goal_at": lambda level: "minimize errors()"}, GoalError, "gave a str"),
        ({"validation_fraction": 1.0}, DataError, "between 0 and 1"),
        ({"validation": (1,)}, DataError, r"\(X, y, populations\)"),
        ({"populations": None}, (DataError, GoalError), "sex"),
        ({"populations": pd.DataFrame({"sex": ["F"]})}, ValueError, "inconsistent numbers of samples"),
    ],
)
def test_bad_arguments_are_named(data, arguments, error, message):
    X, y, table = data
    given = {"values": LEVELS, "constraint": "parity", "populations": table} | arguments
    with pytest.raises(error, match=message):
        tradeoff_path(RateConstrainedClassifier(GOAL), X, y, **given)


def test_too_few_rows_to_hold_some_out_are_named(data):
    X, _, _ = data
    one = np.arange(len(X)) == 7
    free = RateConstrainedClassifier("subject to positive_rate() <= 0.5")
    with pytest.raises(DataError, match=r"smaller class has 1; give more rows, .*validation_fraction=None"):
        tradeoff_path(free, X, one, values=[0.5])
    assert len(tradeoff_path(free, X, one, values=[0.5], validation_fraction=None)) == 1


def test_other_estimators_and_calibration_are_refused(data):
    X, y, _ = data
    with pytest.raises(CapabilityError, match="calibration=None"):
        tradeoff_path(RateConstrainedClassifier(GOAL, calibration="sigmoid"), X, y, values=[0.5], constraint="parity")
    with pytest.raises(CapabilityError, match="a str"):
        tradeoff_path("model", X, y, values=[0.5])


def test_validation_rows_without_a_group_are_named(data):
    X, y, table = data
    men = table["sex"].to_numpy() == "M"
    held = (X[men], y[men], table[men].reset_index(drop=True))
    with pytest.raises(GoalError, match=r"on the validation rows: population 'women': .* is empty on these rows"):
        tradeoff_path(
            RateConstrainedClassifier(GOAL), X, y, values=[0.5], constraint="parity", populations=table, validation=held
        )


def test_goals_of_a_path_have_the_same_constraints(data):
    X, y, _ = data

    def goal_at(level):
        return Goal(error_rate(), [recall() >= 0.3, positive_rate() <= 0.9][: 1 + (level > 1)])

    with pytest.raises(GoalError, match="a goal with 2 constraints follows one with 1"):
        tradeoff_path(RateConstrainedClassifier(), X, y, values=[1.0, 2.0], goal_at=goal_at)


@pytest.mark.parametrize("options", [{"feature_map": "fourier", "n_components": 40}, {"feature_map": None}])
def test_paths_of_kernel_models(options):
    X, y, table = make_data(300)
    clf = RateConstrainedClassifier(GOAL, kernel="rbf", random_state=0, **gathered(options))
    path = tradeoff_path(clf, X, y, values=[0.5, 0.6], constraint="parity", populations=table)
    assert path.met.all()
    assert (path.coef is None) == (options["feature_map"] is None)
    train, held = _parts(y)
    for i in range(2):
        model = path.model(i)
        assert path.training.objective[i] == pytest.approx((model.predict(X[train]) != y[train]).mean(), abs=1e-12)
        assert path.held_out.objective[i] == pytest.approx((model.predict(X[held]) != y[held]).mean(), abs=1e-12)
    with pytest.raises(CapabilityError, match="precomputed"):
        tradeoff_path(clf.set_params(kernel="precomputed"), X @ X.T, y, values=[0.5], constraint="parity")


def test_a_path_that_ended_early_goes_on(data, path):
    X, y, table = data
    asked = {"values": LEVELS, "constraint": "parity", "populations": table}
    stopped = RateConstrainedClassifier(GOAL, random_state=0, callbacks=[stopping(2, None)])
    with pytest.warns(MarginConvergenceWarning, match="2 of 6 points"):
        early = tradeoff_path(stopped, X, y, **asked)
    clf = RateConstrainedClassifier(GOAL, random_state=0)
    whole = tradeoff_path(clf, X, y, resume=early, **asked)
    assert len(whole) == 6 and whole.met.all() and whole.models[:2] == early.models
    np.testing.assert_array_equal(whole.held_out.objective[:2], path.held_out.objective[:2])
    assert np.isfinite(whole.held_out.covariance).all()  # also between old points and new ones
    # Both are local solutions, and where the rates must be equal these lie .03 apart, by the processor.
    assert whole.training.objective.mean() == pytest.approx(path.training.objective.mean(), abs=0.01)
    with pytest.raises(DataError, match="are not the first of these"):
        tradeoff_path(clf, X, y, resume=early, **asked | {"values": LEVELS[1:]})
    with pytest.raises(DataError, match="the rows are others"):
        tradeoff_path(clf, X, 1 - y, resume=early, **asked)


def test_a_split_of_weight_zero_is_named():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), np.arange(100) % 2
    clf = RateConstrainedClassifier(Goal(error_rate(), [positive_rate() <= 0.6]), random_state=0)
    refused = set()
    for row in range(20):
        weight = (np.arange(100) == row).astype(float)
        with pytest.raises(DataError, match=r"rows (trained on|held out) have weight zero") as error:
            tradeoff_path(clf, X, y, values=[0.5], sample_weight=weight)
        refused.add(str(error.value).split(" have")[0])
    assert refused == {"all 80 rows trained on", "all 20 rows held out"}
    with pytest.raises(DataError, match="all 20 rows held out have weight zero"):
        tradeoff_path(clf, X, y, values=[0.5], validation=(X[:20], y[:20], None, 0 * y[:20]))
