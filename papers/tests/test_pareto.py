"""The path over nu of an SBPClassifier, and the conversions, against SVC."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

import widemargin
import widemargin.plotting
from svm_rows import noisy_products
from widemargin import KernelSVC, SBPClassifier
from widemargin.exceptions import CapabilityError, DataError, MarginConvergenceWarning
from widemargin_papers import pareto
from widemargin_papers.pareto import C_from_nu, nu_from_C, pareto_path


@pytest.fixture(scope="module")
def data():
    X, y = noisy_products(0, 150)
    return X, np.where(y > 0, "b", "a")


def norm_and_hinge(model, X, y, gamma=0.3):
    K = rbf_kernel(model.support_vectors_, gamma=gamma)
    norm = np.sqrt(model.dual_coef_[0] @ K @ model.dual_coef_[0])
    sign = np.where(y == "b", 1.0, -1.0)
    return norm, np.maximum(0.0, 1.0 - sign * model.decision_function(X))


def test_nu_of_a_C_is_that_of_svc(data):
    X, y = data
    peer = SVC(C=3.0, gamma=0.3, tol=1e-6).fit(X, y)
    norm, hinge = norm_and_hinge(peer, X, y)
    nu = nu_from_C(SBPClassifier(gamma=0.3), X, y, C=3.0)
    assert nu == pytest.approx(hinge.mean() / norm, rel=1e-3)
    assert C_from_nu(SBPClassifier(nu, gamma=0.3), X, y) == pytest.approx(3.0, rel=1e-3)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    peer = SVC(C=3.0, gamma=0.3, tol=1e-6).fit(X, y, weight)
    norm, hinge = norm_and_hinge(peer, X, y)
    nu = nu_from_C(SBPClassifier(gamma=0.3), X, y, C=3.0, sample_weight=weight)
    assert nu == pytest.approx(weight @ hinge / weight.sum() / norm, rel=1e-3)
    assert C_from_nu(SBPClassifier(nu, gamma=0.3), X, y, sample_weight=weight) == pytest.approx(3.0, rel=1e-3)
    with pytest.raises(DataError, match="must be a finite number > 0"):
        nu_from_C(SBPClassifier(), X, y, C=0.0)


def test_the_path_holds_fitted_models_and_true_numbers(data, tmp_path):
    X, y = data
    model = SBPClassifier(gamma=0.3, tol=0.03, random_state=0)
    path = pareto_path(model, X, y, nus=[0.02, 0.2, 0.05])
    np.testing.assert_array_equal(path.nu, [0.2, 0.05, 0.02])
    assert (np.diff(path.norm) > 0).all() and (np.diff(path.mean_hinge) < 0).all()
    assert ((path.gap >= 0.0) & (path.gap <= 0.04)).all()
    for one, norm, hinge, nu in zip(path.models, path.norm, path.mean_hinge, path.nu, strict=True):
        expected = norm_and_hinge(one, X, y)
        assert (norm, hinge) == pytest.approx((expected[0], expected[1].mean()))
        assert one.nu == nu and one.classes_.tolist() == ["a", "b"]
        assert set(vars(one)) >= set(vars(SBPClassifier(nu, gamma=0.3, tol=0.5).fit(X, y)))
    # the certificate: no other classifier is below the front
    for C in (0.1, 1.0, 10.0):
        norm, hinge = norm_and_hinge(SVC(C=C, gamma=0.3, tol=1e-6).fit(X, y), X, y)
        inside = hinge.mean() <= path.nu * norm
        assert (norm >= path.least_norm[inside] * (1 - 1e-6)).all()
    frame = path.to_frame()
    assert frame.columns.tolist() == ["nu", "norm", "mean_hinge", "least_norm", "gap", "evaluations", "seconds"]
    assert frame["nu"].tolist() == path.to_dict()["nu"]
    assert model.nu == "auto" and not hasattr(model, "classes_")
    widemargin.save_model(path.models[0], tmp_path / "m.skops")
    again = widemargin.load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(X), path.models[0].predict(X))


def test_points_lie_at_their_nu_even_where_a_run_ends_early():
    """At small nu directions of norm < 1 have larger margins for a long time; they belong to a larger nu."""
    X, y = make_moons(300, noise=0.3, random_state=0)
    model = SBPClassifier(gamma=1.0, tol=0.05, max_iter=200, random_state=0)
    with pytest.warns(
        MarginConvergenceWarning, match=r"at nu=0\.01, 0\.003 the gap is up to \d+\.\d% after at most 200"
    ):
        path = pareto_path(model, X, y, nus=[0.3, 0.01, 0.003])
    assert [one.status_ for one in path.models] == ["converged", "max_iter", "max_iter"]
    np.testing.assert_allclose(path.mean_hinge, path.nu * path.norm, rtol=1e-6)
    assert (path.norm >= path.least_norm).all() and (path.gap >= 0.0).all()
    for one, norm, hinge in zip(path.models, path.norm, path.mean_hinge, strict=True):
        found = norm_and_hinge(one, X, np.where(y > 0, "b", "a"), gamma=1.0)
        assert (norm, hinge) == pytest.approx((found[0], found[1].mean()))
    dual = KernelSVC(gamma=1.0, C=100.0, tol=1e-6).fit(X, y)
    norm, hinge = norm_and_hinge(dual, X, np.where(y > 0, "b", "a"), gamma=1.0)
    assert (norm >= path.least_norm[hinge.mean() <= path.nu * norm]).all()


def test_a_nu_that_no_classifier_has_is_named():
    torn = np.repeat(np.arange(4.0)[:, None], 2, axis=0)
    with pytest.warns(
        MarginConvergenceWarning, match=r"at nu=1e-06 no classifier with mean_hinge <= nu norm was found"
    ):
        path = pareto_path(SBPClassifier(tol=0.05, max_iter=50), torn, [0, 1] * 4, nus=[1e-6])
    assert path.norm[0] == path.gap[0] == np.inf


def test_time_and_the_keyboard_end_the_path(data):
    X, y = data

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.warns(MarginConvergenceWarning, match="ended at 1 of 2 models"):
        assert len(pareto_path(SBPClassifier(time_budget=1e-9), X, y, nus=[0.1, 0.05]).models) == 1
    with pytest.raises(KeyboardInterrupt):
        pareto_path(SBPClassifier(callbacks=[interrupt]), X, y, nus=[0.1])
    for nus in ([], [0.0], [np.nan], "a", ["a"], 0.1, [None]):
        with pytest.raises(DataError, match=r"nus=.* must be a sequence of at least one finite number > 0"):
            pareto_path(SBPClassifier(), X, y, nus=nus)


@pytest.mark.parametrize("name", ["pareto_path", "nu_from_C", "C_from_nu"])
def test_names_that_were_in_the_library_are_found_there_still(name):
    assert getattr(widemargin, name) is getattr(pareto, name)
    assert widemargin.plotting.ParetoDisplay is pareto.ParetoDisplay


@pytest.mark.parametrize("C", [0.0, -1.0, np.inf, np.nan, "a", None])
def test_a_C_that_is_no_positive_number_is_refused(data, C):
    with pytest.raises(DataError, match="must be a finite number > 0"):
        nu_from_C(SBPClassifier(), *data, C=C)


@pytest.mark.parametrize(
    "function", [partial(nu_from_C, C=1.0), C_from_nu, partial(pareto_path, nus=[0.1])], ids=["nu", "C", "path"]
)
def test_other_models_are_refused(data, function):
    with pytest.raises(CapabilityError, match="needs an SBPClassifier, not KernelSVC: give SBPClassifier"):
        function(KernelSVC(), *data)
