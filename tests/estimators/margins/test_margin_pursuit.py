"""MarginPursuitClassifier: the contract of scikit-learn, the solution, scales, kernels, warm starts, how a fit ends."""

import pickle
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from testing.contract import parametrize_with_fitting_checks
from testing.hidden_papers import hide_papers
from testing.margin_problems import exact, problem, task

import widemargin as wm
from widemargin.exceptions import (
    CapabilityError,
    DataError,
    DoubtfulModelWarning,
    KernelError,
    MarginConvergenceWarning,
)
from widemargin.losses.margin import CatoniLoss, LogCoshLoss
from widemargin.solvers.smooth import lbfgs

DRAWN = "rows are drawn at random: a row of weight 2 is drawn as often as one that is there twice, at other steps"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


@parametrize_with_fitting_checks(
    [wm.MarginPursuitClassifier()],
    [
        wm.MarginPursuitClassifier(scale="catoni", kernel="rbf"),
        wm.MarginPursuitClassifier(scale="rescale-once", solver="sgd", C=0.01, max_iter=60, random_state=0),
    ],
    expected_failed_checks=lambda estimator: EXPECTED if estimator.solver == "sgd" else {},
)
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", [CatoniLoss(2.0, 0.7), LogCoshLoss(2.0, 0.7)])
@pytest.mark.parametrize("sparse", [False, True])
def test_it_solves_the_problem_of_scikit_learns_c(loss, sparse):
    X, y = task(sparse=sparse)
    name = "catoni" if isinstance(loss, CatoniLoss) else "log-cosh"
    clf = wm.MarginPursuitClassifier(2.0, 0.7, loss=name, C=0.5, tol=1e-9).fit(X, np.where(y > 0, "yes", "no"))
    point, least = exact(problem(X, y, lam=1.0 / (120 * 0.5), loss=loss))
    np.testing.assert_allclose(np.append(clf.coef_, clf.intercept_), point, atol=1e-3)
    assert clf.objective_[0] - least <= 1e-8 * least and clf.gap_[0] <= 1e-9
    assert clf.scale_.tolist() == [0.7] and clf.status_ == "converged"
    w = clf.coef_[0]
    margins = y * clf.decision_function(X)
    assert clf.objective_[0] == pytest.approx((0.5 * w @ w + 0.5 * loss.value(margins).sum()) / (120 * 0.5), rel=1e-10)
    assert (clf.predict(X) == np.where(clf.decision_function(X) > 0, "yes", "no")).all()


def test_solvers_agree():
    X, y = task()
    best = wm.MarginPursuitClassifier(scale=1.0, C=0.1, tol=1e-8).fit(X, y)
    slow = wm.MarginPursuitClassifier(scale=1.0, C=0.1, tol=1e-8, solver="gd").fit(X, y)
    np.testing.assert_allclose(slow.coef_, best.coef_, atol=1e-3)
    drawn = wm.MarginPursuitClassifier(scale=1.0, C=0.1, solver="sgd", max_iter=300, random_state=0,
                                        solver_options={"average": True})  # fmt: skip
    assert drawn.fit(X, y).objective_[0] <= 1.003 * best.objective_[0]
    assert drawn.t_ == 300 * 120 and drawn.n_gradients_ > drawn.t_ > 0
    assert slow.n_gradients_ > 10 * best.n_gradients_


def test_scales_found_from_a_first_fit():
    X, y = task()
    first = wm.MarginPursuitClassifier(scale=1.0, tol=1e-9).fit(X, y)
    margins = np.sort((y * first.decision_function(X)) ** 2)
    auto = wm.MarginPursuitClassifier(scale="auto", solver_options={"scale_factor": 2.0}, tol=1e-9).fit(X, y)
    assert auto.scale_[0] == pytest.approx(np.sqrt(2.0 * margins[89]), rel=1e-4)  # the 90th of 120
    again = wm.MarginPursuitClassifier(scale=float(auto.scale_[0]), tol=1e-9).fit(X, y)
    np.testing.assert_allclose(auto.coef_, again.coef_, atol=1e-4)
    catoni = wm.MarginPursuitClassifier(scale="catoni", solver_options=wm.PursuitOptions(delta=0.1), tol=1e-9).fit(X, y)
    variance = (y * first.decision_function(X)).var()
    assert catoni.scale_[0] == pytest.approx(np.sqrt(120 * variance / (2 * np.log(20.0))), rel=1e-4)
    assert {entry["scale"] for entry in auto.history_} == {1.0, auto.scale_[0]}
    costs = [entry["gradients"] for entry in auto.history_]
    assert costs == sorted(costs) and costs[-1] <= auto.n_gradients_


@pytest.mark.parametrize("solver", ["lbfgs", "gd", "sgd"])
def test_rescaling_once_goes_on_from_the_step_it_was_at(solver):
    X, y = task()
    options = {"solver": solver, "C": 0.1, "random_state": 0, "tol": 1e-12}
    with pytest.warns(MarginConvergenceWarning) if solver == "gd" else nullcontext():
        clf = wm.MarginPursuitClassifier(
            scale="rescale-once", solver_options={"rescale_after": 2}, max_iter=60, **options
        ).fit(X, y)
    with pytest.warns(MarginConvergenceWarning) if solver != "sgd" else nullcontext():
        begun = wm.MarginPursuitClassifier(scale=1.0, max_iter=2, **options).fit(X, y)
    margins = np.sort((y * begun.decision_function(X)) ** 2)
    assert clf.scale_[0] == pytest.approx(np.sqrt(margins[89]))
    assert clf.n_iter_ <= 60
    if solver == "sgd":
        assert clf.t_ == 60 * 120
    scale = clf.scale_[0]
    clf.set_params(warm_start=True, tol=1e-3, max_iter=1000).fit(X, y)
    assert clf.scale_[0] == scale  # once


@pytest.mark.parametrize("solver", ["lbfgs", "sgd"])
def test_rescaling_once_leaves_out_the_factor_of_the_loss(solver):
    """From then on it minimises 1/2 |w|^2 + C sum rho((1 - m)/s), the reading that the paper's Figure 5 needs."""
    X, y = task()
    options = {"C": 0.5 if solver == "lbfgs" else 0.05, "random_state": 0}
    rare = {"rescale_after": 2, "scale_factor": 16.0, "average": solver == "sgd"}
    most = 1000 if solver == "lbfgs" else 400
    clf = wm.MarginPursuitClassifier(scale="rescale-once", solver=solver, max_iter=most, solver_options=rare, **options)
    clf.fit(X, y)
    s = float(clf.scale_[0])
    assert s > 2.0
    same = wm.MarginPursuitClassifier(scale=s, C=options["C"] / s**2, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(clf.coef_, same.coef_, atol=1e-3 if solver == "lbfgs" else 0.02)
    assert clf.objective_[0] == pytest.approx(same.objective_[0], rel=1e-5 if solver == "lbfgs" else 1e-2)


def test_one_rescaling_helps_where_the_regulariser_is_far_too_weak():
    """Figure 5: the fixed scale wanders, the rescaled run settles."""
    X, y = make_classification(600, 20, n_informative=8, random_state=0)
    errors = {}
    for scale in (1.0, "rescale-once"):
        rare = {"rescale_after": 1}
        runs = [wm.MarginPursuitClassifier(scale=scale, solver="sgd", C=30.0, max_iter=10, solver_options=rare,
                                           random_state=seed) for seed in range(4)]  # fmt: skip
        with pytest.warns(MarginConvergenceWarning) if scale == 1.0 else nullcontext():
            errors[scale] = np.mean([1.0 - run.fit(X, y).score(X, y) for run in runs])
    assert errors["rescale-once"] < errors[1.0] - 0.05


def test_checkpoints_are_rescaled_once_too():
    X, y = task()
    clf = wm.MarginPursuitClassifier(
        scale="rescale-once",
        solver="sgd",
        C=0.1,
        max_iter=1,
        warm_start=True,
        random_state=0,
        solver_options={"rescale_after": 3},
    )
    scales = [float(clf.fit(X, y).scale_[0]) for _ in range(6)]
    assert scales[:3] == [1.0] * 3 and scales[3] != 1.0 and scales[3:] == [scales[3]] * 3
    assert clf.t_ == 6 * 120
    full = wm.MarginPursuitClassifier(scale="rescale-once", max_iter=1, warm_start=True)
    with pytest.warns(MarginConvergenceWarning):
        assert full.fit(X, y).scale_[0] == 1.0
        assert full.fit(X, y).scale_[0] != 1.0


def test_stochastic_steps_that_end_worse_than_nothing_are_told():
    X, y = make_classification(150, 4, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1,
                               random_state=0)  # fmt: skip
    with pytest.warns(MarginConvergenceWarning, match=r"objective is .*; weights of 0 have .*lower C"):
        wm.MarginPursuitClassifier(scale=1.0, solver="sgd", C=100.0, max_iter=1, random_state=0).fit(X, y)


def test_steps_that_diverge_are_refused():
    X, y = task()
    with pytest.raises(CapabilityError, match=r"diverges: after \d+ steps of size 1e\+05.*Steps below .* converge"):
        wm.MarginPursuitClassifier(scale=1.0, solver="gd", C=0.01, solver_options={"step_size": 1e5}).fit(X, y)


def test_margins_gather_around_the_level():
    X, y = make_classification(2000, 10, n_informative=5, class_sep=2.0, random_state=0)
    side = np.where(y == 1, 1.0, -1.0)
    ours = side * wm.MarginPursuitClassifier().fit(X, y).decision_function(X)
    peer = side * LogisticRegression().fit(X, y).decision_function(X)
    assert ours.std() / np.median(np.abs(ours)) < 0.9 * peer.std() / np.median(np.abs(peer))
    assert abs(np.median(ours) - 1.0) < 0.3


def test_more_classes_are_learned_against_the_rest():
    X, y = make_classification(600, 6, n_informative=4, n_classes=4, n_clusters_per_class=1, random_state=0)
    words = np.array(["north", "east", "south", "west"])[y]
    clf = wm.MarginPursuitClassifier().fit(X[:400], words[:400])
    assert clf.decision_function(X).shape == (600, 4) and clf.scale_.shape == clf.gap_.shape == (4,)
    assert clf.score(X[400:], words[400:]) > 0.75
    for number, name in enumerate(clf.classes_):
        alone = wm.MarginPursuitClassifier().fit(X[:400], words[:400] == name)
        np.testing.assert_allclose(clf.decision_function(X)[:, number], alone.decision_function(X), atol=1e-8)
    assert {entry["class"] for entry in clf.history_} == {0.0, 1.0, 2.0, 3.0}


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed", "callable"])
def test_exact_kernels_are_linear_models_on_the_factor_of_the_matrix(kernel):
    X, y = make_moons(200, noise=0.25, random_state=0)
    X_new, _ = make_moons(50, noise=0.25, random_state=1)
    K, K_new = rbf_kernel(X, gamma=1.5), rbf_kernel(X_new, X, gamma=1.5)
    named = {"precomputed": "precomputed", "callable": lambda A, B: rbf_kernel(A, B, gamma=1.5)}.get(kernel, kernel)
    clf = wm.MarginPursuitClassifier(scale=1.0, kernel=named, gamma=1.5, solver_options={"coef0": 1.0}, tol=1e-8)
    train, new = (K, K_new) if kernel == "precomputed" else (X, X_new)
    clf.fit(train, y)
    assert clf.score(new, make_moons(50, noise=0.25, random_state=1)[1]) > 0.8
    if kernel == "poly":
        K, K_new = (1.5 * X @ X.T + 1.0) ** 3, (1.5 * X_new @ X.T + 1.0) ** 3
    full = np.zeros(200)
    full[clf.support_] = clf.dual_coef_[0]
    np.testing.assert_allclose(clf.decision_function(new), K_new @ full + clf.intercept_, atol=1e-6)
    # at the optimum the function is  C sum_i phi'(...) K(x_i, .), by the stationarity of w
    side = np.where(y == 1, 1.0, -1.0)
    forces = -side * CatoniLoss(1.0, 1.0).slope(side * clf.decision_function(train))
    np.testing.assert_allclose(K @ full, K @ forces, atol=1e-2)
    assert not hasattr(clf, "coef_")


def test_feature_maps_come_close_to_the_kernel():
    X, y = make_moons(300, noise=0.2, random_state=0)
    whole = wm.MarginPursuitClassifier(kernel="rbf", gamma=1.0).fit(X, y).decision_function(X)
    for name, off in (("nystroem", 0.02), ("fourier", 0.6)):
        clf = wm.MarginPursuitClassifier(kernel="rbf", gamma=1.0, feature_map=name, n_components=200, random_state=0)
        clf.fit(X, y)
        assert np.abs(clf.decision_function(X) - whole).max() < off
        assert clf.coef_.shape == (1, 200) and not hasattr(clf, "dual_coef_")


def test_rows_of_weight_0_are_no_landmarks():
    X, y = make_moons(200, noise=0.25, random_state=0)
    weight = np.where(np.arange(200) % 2 == 0, 1.0, 0.0)
    clf = wm.MarginPursuitClassifier(kernel="rbf", gamma=1.0, feature_map="nystroem", n_components=20, random_state=0)
    half = clone(clf).fit(X[::2], y[::2]).decision_function(X)
    np.testing.assert_allclose(clf.fit(X, y, sample_weight=weight).decision_function(X), half, atol=1e-6)


def test_warm_starts_go_on():
    X, y = task()
    clf = wm.MarginPursuitClassifier(scale=1.0, solver="sgd", max_iter=5, warm_start=True, random_state=0).fit(X, y)
    first = clf.coef_.copy()
    clf.fit(X, y)
    assert clf.t_ == 2 * 5 * 120 and not np.array_equal(clf.coef_, first)
    cold = wm.MarginPursuitClassifier(scale=1.0, tol=1e-8).fit(X, y)
    warm = clone(cold).set_params(warm_start=True).fit(X, y)
    assert warm.fit(X, y).n_iter_ <= 1 < cold.n_iter_
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-4)
    other = warm.fit(X[:, :3], y)  # another shape starts afresh
    assert other.coef_.shape == (1, 3)
    mapped = wm.MarginPursuitClassifier(kernel="rbf", feature_map="fourier", warm_start=True).fit(X, y)
    kept = mapped.feature_map_
    assert mapped.fit(X, y).feature_map_ is kept
    for name in ("fourier", "nystroem"):
        mapped = wm.MarginPursuitClassifier(
            kernel="rbf", feature_map=name, n_components=30, warm_start=True, random_state=0
        ).fit(X, y)
        for change in ({"gamma": 5.0}, {"n_components": 40}, {"kernel": "poly"}, {"solver_options": {"degree": 2}}):
            if name == "nystroem" or set(change) <= {"gamma", "n_components"}:
                found = mapped.set_params(**change).fit(X, y)
                fresh = clone(found).set_params(warm_start=False).fit(X, y)
                np.testing.assert_allclose(found.decision_function(X), fresh.decision_function(X), atol=1e-8)
        assert mapped.fit(X[:, :3], y).n_features_in_ == 3
        assert mapped.set_params(kernel=None, feature_map=None).fit(X, y).coef_.shape == (1, 6)
    kernel = wm.MarginPursuitClassifier(kernel="rbf", warm_start=True).fit(X, y)
    assert kernel.fit(X, y).status_ == "converged"


def test_single_precision_and_no_intercept():
    X, y = task()
    clf = wm.MarginPursuitClassifier(fit_intercept=False).fit(X, y)
    assert clf.intercept_.tolist() == [0.0]
    single = wm.MarginPursuitClassifier(fit_intercept=False).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.coef_, clf.coef_, atol=1e-3)
    np.testing.assert_allclose(single.decision_function(X.astype(np.float32)), X @ single.coef_[0], atol=1e-4)
    free = wm.MarginPursuitClassifier(scale=1.0, C=np.inf).fit(X, y)
    assert np.isnan(free.gap_[0]) and free.status_ == "converged"
    large = wm.MarginPursuitClassifier(scale=1.0, C=1e7, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(free.coef_, large.coef_, atol=1e-3)


def test_the_end_of_a_fit_is_told():
    X, y = task()
    with pytest.warns(MarginConvergenceWarning, match="raise max_iter"):
        assert wm.MarginPursuitClassifier(solver="gd", scale=1.0, max_iter=3).fit(X, y).status_ == "max_iter"
    with pytest.warns(MarginConvergenceWarning, match=r"> tol 1e-300 after \d+ iterations; "):
        assert wm.MarginPursuitClassifier(tol=1e-300).fit(X, y).status_ == "max_iter"
    with pytest.warns(MarginConvergenceWarning, match="raise time_budget"):
        assert wm.MarginPursuitClassifier(time_budget=1e-9).fit(X, y).status_ == "time_limit"
    with pytest.warns(MarginConvergenceWarning, match="by a callback"):
        assert wm.MarginPursuitClassifier(callbacks=[lambda told: True]).fit(X, y).status_ == "stopped"
    told = []
    wm.MarginPursuitClassifier(callbacks=[told.append]).fit(X, y)
    assert told[-1].gap <= 1e-6


def test_an_interrupt_keeps_the_model_so_far():
    X, y = task()

    def interrupt(told):
        if told.iteration > 3:
            raise KeyboardInterrupt

    clf = wm.MarginPursuitClassifier(tol=1e-12, callbacks=[interrupt], solver_options={"on_interrupt": "return"})
    with pytest.warns(MarginConvergenceWarning, match="interrupted"):
        clf.fit(X, y)
    assert clf.status_ == "interrupted" and clf.score(X, y) > 0.7
    with pytest.warns(MarginConvergenceWarning), pytest.raises(KeyboardInterrupt):
        clf.set_params(solver_options=None).fit(X, y)


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}, {"kernel": "rbf", "feature_map": "nystroem"}])
@pytest.mark.parametrize("sparse", [False, True])
def test_stored_models_predict_the_same(options, sparse, tmp_path):
    X, y = task(sparse=sparse)
    clf = wm.MarginPursuitClassifier(random_state=0, **options).fit(X, y)
    wm.save_model(clf, tmp_path / "model.skops")
    for loaded in (wm.load_model(tmp_path / "model.skops"), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(loaded.decision_function(X), clf.decision_function(X))
        assert loaded.get_params() == clf.get_params()
        assert loaded.history_ == clf.history_


def test_what_cannot_be_done_is_refused():
    X, y = task()
    with pytest.raises(CapabilityError, match="finite C"):
        wm.MarginPursuitClassifier(solver="sgd", C=np.inf).fit(X, y)
    with pytest.raises(CapabilityError, match="needs a kernel"):
        wm.MarginPursuitClassifier(feature_map="fourier").fit(X, y)
    with pytest.raises(CapabilityError, match=r"takes 0 MB and cache_size is 0\.01 MB"):
        wm.MarginPursuitClassifier(kernel="rbf", solver_options={"cache_size": 0.01}).fit(X, y)
    with pytest.raises(KernelError, match="not positive semi-definite"):
        wm.MarginPursuitClassifier(kernel="precomputed").fit(np.diag(np.where(y > 0, 1.0, -1.0)), y)
    with pytest.raises(DataError, match="have weight 0"):
        wm.MarginPursuitClassifier().fit(X, y, sample_weight=(y > 0).astype(float))
    with pytest.raises(DataError, match=r"features as large as 1e\+200 overflow inner products"):
        wm.MarginPursuitClassifier().fit(np.where(X > 1.0, 1e200, X), y)
    with pytest.raises(DataError, match=r"scale is 1e\+200; it must be a positive number from 1e-100"):
        wm.MarginPursuitClassifier(scale=1e200).fit(X, y)
    with pytest.raises(DataError, match="75% of the margins are 0"):
        wm.MarginPursuitClassifier(fit_intercept=False).fit(sp.csr_matrix(X.shape), y)


def test_a_class_between_others_that_is_never_predicted_is_named():
    """One plane for each class against the rest finds the ends of an order, not what lies between."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    value = X[:, 0] + 0.3 * rng.normal(size=300)
    y = np.array(["low", "middle", "high"])[np.digitize(value, [-0.5, 0.5])]
    with pytest.warns(DoubtfulModelWarning, match=r"class middle has 3\d% .* lies between others.*feature_map"):
        plain = wm.MarginPursuitClassifier().fit(X, y)
    assert (plain.predict(X) == "middle").mean() < 0.05
    mapped = wm.MarginPursuitClassifier(kernel="rbf", feature_map="nystroem", random_state=0).fit(X, y)
    assert (mapped.predict(X) == "middle").mean() > 0.2


def test_a_split_of_the_time_between_classes():
    X, y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    seen = []
    wm.MarginPursuitClassifier(time_budget=60.0, callbacks=[seen.append]).fit(sp.csr_matrix(X), y)
    assert len(seen) > 6 and sp.issparse(sp.csr_matrix(X))


def test_rare_parameters_are_options():
    X, y = task()
    clf = wm.MarginPursuitClassifier(solver="sgd", random_state=0, solver_options={"average": True})
    same = wm.MarginPursuitClassifier(solver="sgd", random_state=0, solver_options=wm.PursuitOptions(average=True))
    np.testing.assert_array_equal(clf.fit(X, y).coef_, same.fit(X, y).coef_)
    assert clone(same).solver_options == same.solver_options
    assert clone(clf).solver_options == {"average": True}
    found = GridSearchCV(wm.MarginPursuitClassifier(), {"solver_options": [{"delta": 0.1}, None]}, cv=2).fit(X, y)
    assert found.best_params_["solver_options"] in ({"delta": 0.1}, None)
    with pytest.raises(DataError, match="no option 'speed'; there are scale_factor"):
        wm.MarginPursuitClassifier(solver_options={"speed": 2}).fit(X, y)
    with pytest.raises(ValueError, match="'delta' parameter of PursuitOptions must be"):
        wm.PursuitOptions(delta=1.5)


def test_a_solver_may_be_a_function():
    X, y = task()
    asked = []

    def slow(problem, *, tol, start, budget, max_iter):
        asked.append((tol, max_iter))
        return lbfgs.solve(problem, tol=tol, start=start, budget=budget, max_iter=max_iter)

    ours = wm.MarginPursuitClassifier(solver=slow, max_iter=77).fit(X, y)
    np.testing.assert_array_equal(ours.coef_, wm.MarginPursuitClassifier(max_iter=77).fit(X, y).coef_)
    assert asked == [(1e-6, 77)] * 2


def test_gradient_descent_without_the_papers_is_told(monkeypatch):
    X, y = task()
    hide_papers(monkeypatch)
    with pytest.raises(
        CapabilityError, match=r"solver='gd' lives in widemargin-papers, which is not installed: run .pip"
    ):
        wm.MarginPursuitClassifier(solver="gd").fit(X, y)


def test_a_constant_column_is_not_taken_for_one_that_is_scaled_down():
    """The mean of equal numbers is off by rounding."""
    rng = np.random.default_rng(0)
    constants = np.repeat([[-0.7, 0.1, 3.3, 1 / 3]], 60, axis=0)
    X = np.c_[rng.normal(size=(60, 3)), constants]
    wm.MarginPursuitClassifier().fit(X, X[:, 0] > 0)  # without a warning, which would raise


def test_columns_that_are_too_small_to_count_are_named():
    X, y = make_classification(200, 4, n_informative=4, n_redundant=0, random_state=0)
    X[:, 0] *= 1e-4
    with pytest.warns(DoubtfulModelWarning, match="feature 0 is at most .* it can hardly count. Scale the features"):
        wm.MarginPursuitClassifier().fit(X, y)
    # Without a regulariser the weight of a small column is as large as it needs to be: no warning, which would raise.
    wm.MarginPursuitClassifier(C=np.inf).fit(X, y)
