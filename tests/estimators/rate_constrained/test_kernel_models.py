"""Kernel models, exact and through feature maps: contract, agreement, what is refused, and what is kept."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.svm import SVC
from testing.contract import parametrize_with_fitting_checks

from widemargin import External, RateConstrainedClassifier, audit
from widemargin.estimators.rate_constrained.ramp_model import gathered
from widemargin.exceptions import CapabilityError, GoalWarning, KernelError
from widemargin.goals import Goal, Population, churn, col, error_rate, positive_rate, recall
from widemargin.persistence import load_model, save_model

RECALL = "minimize error_rate()\nsubject to recall() >= 0.9"


@parametrize_with_fitting_checks(
    [RateConstrainedClassifier(kernel="rbf")],
    [
        RateConstrainedClassifier(kernel="rbf", feature_map="fourier", solver_options={"n_components": 6}),
        RateConstrainedClassifier(kernel="rbf", feature_map="nystroem", solver_options={"n_components": 100}),
    ],
)
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    """Positives outside a circle: no linear model is of use."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = ((X**2).sum(axis=1) + 0.6 * rng.normal(size=300) > 2.3).astype(int)
    return X, y


def fit(data, goal=RECALL, **parameters):
    return RateConstrainedClassifier(
        goal, **(gathered({"C": 5.0, "kernel": "rbf", "random_state": 0} | parameters))
    ).fit(*data)


@pytest.mark.parametrize("enforce", ["deterministic", "randomized"])
@pytest.mark.parametrize("feature_map", [None, "fourier", "nystroem"])
def test_goal_is_met_and_beats_the_linear_model(data, enforce, feature_map):
    X, y = data
    model = fit(data, enforce=enforce, feature_map=feature_map, n_components=100)
    assert model.subproblem_gap_ <= 1e-4
    assert model.status_ == "converged"
    if enforce == "deterministic":
        assert model.predict(X)[y == 1].mean() >= 0.9
        assert model.goal_report_.all_met("estimate")
        assert model.goal_report_.objective == pytest.approx((model.predict(X) != y).mean())
    else:
        assert model.randomized_proba(X)[y == 1, 1].mean() >= 0.9 - 2e-3
    assert (model.predict(X) != y).mean() < 0.15
    assert (fit(data, kernel=None).predict(X) != y).mean() > 0.3


def test_scores_are_the_expansion(data):
    X, y = data
    model = fit(data)
    K = rbf_kernel(X, X[model.support_], gamma=model.gamma_)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.dual_coef_.shape == (1, model.support_.shape[0])
    assert 0 < model.support_.shape[0] < 300
    np.testing.assert_allclose(model.decision_function(X), K @ model.dual_coef_[0] + model.intercept_[0], atol=1e-10)
    assert model.gamma_ == pytest.approx(SVC().fit(X, y)._gamma)
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match="a kernel model has no coef_: it is a combination of support_vectors_"):
        _ = model.coef_
    with pytest.raises(AttributeError, match="coef_ is set by fit"):
        _ = RateConstrainedClassifier().coef_


@pytest.mark.parametrize("solver", ["newton", "cutting-plane"])
def test_linear_kernel_equals_the_linear_model(data, solver):
    # One step is a convex problem with one solution; of several, rounding may choose between two minima.
    options = {"C": 1.0, "tol": 1e-6, "step_tol": 1e-5, "enforce": "randomized", "max_steps": 1}
    goal = "minimize error_rate()\nsubject to recall() >= 0.6"
    dual = fit(data, goal, kernel="linear", solver=solver, **options)
    primal = fit(data, goal, kernel=None, **options)
    np.testing.assert_allclose(dual.decision_function(data[0]), primal.decision_function(data[0]), atol=2e-2)
    np.testing.assert_allclose(dual.dual_coef_ @ dual.support_vectors_, primal.coef_, atol=1e-2)


def test_unconstrained_model_is_an_svm_with_margin_one_half():
    """One convex step from w = 0 is SVC at the same C with scores doubled: `max(0, 1/2 - z) = max(0, 1 - 2z) / 2`."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2))
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=150) > 0).astype(int)
    model = RateConstrainedClassifier(
        kernel="rbf", gamma=0.7, C=4.0, max_steps=1, solver_options={"tol": 1e-07}, enforce="randomized"
    ).fit(X, y)  # fmt: skip
    svm = SVC(C=4.0, gamma=0.7, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(2.0 * model.decision_function(X), svm.decision_function(X), atol=2e-3)


def test_precomputed_equals_the_named_kernel(data):
    X, y = data
    named = fit(data, gamma=0.3)
    K = rbf_kernel(X, gamma=0.3)
    given = fit((K, y), kernel="precomputed")
    np.testing.assert_array_equal(given.support_, named.support_)
    np.testing.assert_allclose(given.decision_function(K), named.decision_function(X), atol=1e-6)
    sparse = fit((sp.csr_matrix(K), y), kernel="precomputed")
    np.testing.assert_allclose(sparse.decision_function(sp.csr_matrix(K)), given.decision_function(K), atol=1e-9)
    assert given.support_vectors_.shape == (0, 0)
    assert cross_val_predict(clone(given).set_params(goal=None), K, y, cv=3).shape == y.shape  # sliced on both sides


def test_a_function_equals_the_named_kernel(data):
    named, function = fit(data, gamma=0.3), fit(data, kernel=lambda A, B: rbf_kernel(A, B, 0.3))
    np.testing.assert_allclose(function.decision_function(data[0]), named.decision_function(data[0]), atol=1e-6)


@pytest.mark.parametrize("feature_map", [None, "fourier", "nystroem"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_equals_dense(data, feature_map, index):
    X = sp.csr_matrix(data[0])
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    sparse, dense = (fit((part, data[1]), feature_map=feature_map, n_components=50) for part in (X, data[0]))
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(data[0]), atol=1e-5)


@pytest.mark.parametrize("feature_map", [None, "fourier", "nystroem"])
def test_float32_data(data, feature_map):
    single, double = (
        # Ramp rates follow the scores smoothly; moves by 0/1 rates end elsewhere where a single row turns.
        fit((data[0].astype(kind), data[1]), feature_map=feature_map, n_components=50, enforce="randomized")
        for kind in (np.float32, float)
    )
    assert abs(single.goal_report_.objective - double.goal_report_.objective) <= 0.02
    np.testing.assert_allclose(
        single.decision_function(data[0].astype(np.float32)), double.decision_function(data[0]), atol=0.1
    )


def test_feature_map_is_the_linear_model_on_mapped_rows(data):
    X, y = data
    model = fit(data, feature_map="nystroem", n_components=60)
    assert isinstance(model.feature_map_, Nystroem)
    mapped = model.feature_map_.transform(X)
    linear = fit((mapped, y), kernel=None)
    np.testing.assert_allclose(model.coef_, linear.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), linear.decision_function(mapped), atol=1e-10)
    assert not hasattr(model, "dual_coef_")


def test_maps_come_near_the_exact_kernel(data):
    exact = fit(data, enforce="randomized").decision_function(data[0])
    near = [
        fit(data, enforce="randomized", feature_map=name, n_components=n).decision_function(data[0])
        for name, n in (("nystroem", 300), ("fourier", 2000))
    ]
    for scores in near:
        assert np.corrcoef(scores, exact)[0, 1] > 0.99


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_a_second_fit_forgets_the_first(data, kernel):
    model = fit(data, kernel="rbf" if kernel is None else None)
    model.set_params(kernel=kernel).fit(*data)
    assert hasattr(model, "coef_") == (kernel is None)
    assert hasattr(model, "dual_coef_") == hasattr(model, "gamma_") == (kernel is not None)


def test_weights_equal_repetition_and_equal_rows_are_merged(data):
    X, y = data[0][:80], data[1][:80]
    weight = np.arange(80) % 3
    weighted = RateConstrainedClassifier(RECALL, kernel="rbf").fit(X, y, sample_weight=weight)
    times = np.repeat(np.arange(80), weight)
    repeated = RateConstrainedClassifier(RECALL, kernel="rbf").fit(X[times], y[times])
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-8)
    assert np.unique(X[times][repeated.support_], axis=0).shape[0] == repeated.support_.shape[0]


def test_pos_label_turns_the_rates_not_the_scores(data):
    X, y = data
    model = fit((X, np.where(y == 1, "in", "out")), pos_label="in")
    assert (model.predict(X)[y == 1] == "in").mean() >= 0.9
    assert (model.decision_function(X)[model.predict(X) == "out"] > 0).all()  # classes_[1]


def test_external_rows_are_expansion_points(data):
    X, y = data
    rng = np.random.default_rng(5)
    traffic = rng.normal(size=(60, 3)) + 2.5
    deployed = (traffic[:, 0] > 2.5).astype(int)
    goal = Goal(error_rate(), [churn("deployed", on=Population.external("traffic")) <= 0.1])
    model = RateConstrainedClassifier(goal, kernel="rbf", C=50.0)
    model.fit(X, y, external={"traffic": External(traffic, deployed=deployed)})
    assert (model.predict(traffic) != deployed).mean() <= 0.1
    assert (model.support_ >= 300).any()
    outside = model.support_ >= 300
    np.testing.assert_array_equal(model.support_vectors_[outside], traffic[model.support_[outside] - 300])


def test_populations_and_tables(data):
    X, y = data
    table = pd.DataFrame({"group": np.where(X[:, 0] > 0, "a", "b")})
    first, second = (Population(name, where=col("group") == name) for name in "ab")
    goal = Goal(error_rate(), [positive_rate(first) >= 0.9 * positive_rate(second), recall(first) >= 0.9])
    model = RateConstrainedClassifier(goal, kernel="rbf", C=5.0).fit(X, y, populations=table)
    assert model.goal_report_.all_met("estimate")
    assert model.multipliers_.shape == (2,)


def test_audit_of_a_kernel_model(data):
    model = fit(data)
    report = audit(model, RECALL, *data)
    assert report.constraints[0].rate == pytest.approx(model.predict(data[0])[data[1] == 1].mean())


def test_search_over_kernel_parameters(data):
    search = GridSearchCV(RateConstrainedClassifier(kernel="rbf", C=5.0), {"gamma": [1e-6, 0.5]}, cv=3).fit(*data)
    assert search.best_params_ == {"gamma": 0.5}


def test_calibration(data):
    model = fit(data, calibration="sigmoid")
    proba = model.predict_proba(data[0])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert proba[data[1] == 1, 1].mean() > proba[data[1] == 0, 1].mean() + 0.3


def test_same_input_same_bits(data):
    for parameters in ({}, {"feature_map": "fourier"}, {"feature_map": "nystroem", "n_components": 40}):
        one, two = fit(data, **parameters), fit(data, **parameters)
        np.testing.assert_array_equal(one.decision_function(data[0]), two.decision_function(data[0]))


def test_a_model_without_support_vectors():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.repeat([0, 1], 20)
    goal = "minimize false_positive_rate()"  # answered by saying no, with w = 0
    model = RateConstrainedClassifier(goal, kernel="laplacian").fit(X, y)
    assert (model.predict(X) == 0).all()
    assert model.dual_coef_.shape[1] == model.support_.shape[0]
    model.support_, model.support_vectors_, model.dual_coef_ = np.empty(0, int), X[:0], np.zeros((1, 0))
    np.testing.assert_array_equal(model.decision_function(X), np.full(40, model.intercept_[0]))


@pytest.mark.parametrize("parameters", [{}, {"feature_map": "fourier"}, {"feature_map": "nystroem"}])
def test_models_are_kept(data, tmp_path, parameters):
    X = sp.csr_matrix(data[0])
    model = fit((X, data[1]), n_components=50, **parameters)
    save_model(model, tmp_path / "m.skops")
    for kept in (load_model(tmp_path / "m.skops"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(kept.decision_function(X), model.decision_function(X))
        assert str(kept.goal_report_) == str(model.goal_report_)


def test_memory_is_bounded_before_it_is_taken(data):
    with pytest.raises(CapabilityError, match=r"of 300 rows takes 1 MB and cache_size is 0\.5 MB\. Use a feature_map"):
        fit(data, cache_size=0.5)
    rows_again = fit(data, cache_size=0.5, solver="cutting-plane")
    assert rows_again.solver_ == "cutting-plane"
    # The local optimum that either ends at is decided by the last bits of the kernel values.
    for model in (rows_again, fit(data)):
        said = model.predict(data[0])
        assert np.mean(said != data[1]) < 0.13
        assert said[data[1] == 1].mean() >= 0.9


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"kernel": "sigmoid", "coef0": -1.0}, KernelError, "not positive semi-definite"),
        ({"kernel": None, "feature_map": "fourier"}, CapabilityError, "needs a kernel to approximate"),
        ({"kernel": "poly", "feature_map": "fourier"}, CapabilityError, "is for kernel='rbf'"),
        ({"solver": "interior-point"}, CapabilityError, "'interior-point' cannot train kernels"),
        ({"kernel": "precomputed"}, KernelError, r"must be square for training; its shape is \(300, 3\)"),
        ({"kernel": "precomputed", "calibration": "sigmoid"}, CapabilityError, "cannot be used with calibration"),
        ({"kernel": lambda A, B: A}, KernelError, "returned shape"),
        ({"gamma": -1.0}, ValueError, "'gamma' parameter"),
    ],
)
def test_what_cannot_be_done_is_refused(data, parameters, error, message):
    with pytest.raises(error, match=message):
        fit(data, **parameters)


def test_infeasible_goals_are_worded_as_for_linear_models(data):
    goal = "minimize error_rate()\nsubject to recall() >= 0.99\nsubject to positive_rate() <= 0.05"
    with pytest.warns(GoalWarning, match="no model that meets the goal"):
        model = fit(data, goal, on_infeasible="warn")
    assert model.status_ == "infeasible"


def test_time_budget_keeps_the_best_model(data):
    with pytest.warns(UserWarning, match="stopped after"):
        model = fit(data, time_budget=1e-3)
    assert model.predict(data[0]).shape == (300,)
