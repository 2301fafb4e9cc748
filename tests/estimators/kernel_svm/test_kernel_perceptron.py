"""KernelPerceptron: the contract of scikit-learn, the solver's models, and what a fit leaves behind."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from testing.contract import parametrize_with_fitting_checks
from testing.kernel_svms import RBF

import widemargin as wm
from widemargin.exceptions import DataError, KernelWarning, MarginConvergenceWarning
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm import perceptron
from widemargin.solvers.kernel_svm.problem import KernelProblem

REPEATED = "a row of weight 2 is added twice at once; a row that is there twice comes up at two times"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": REPEATED,
    "check_sample_weight_equivalence_on_sparse_data": REPEATED,
}


@parametrize_with_fitting_checks(
    [wm.KernelPerceptron()],
    [wm.KernelPerceptron(iterate="last", kernel="poly", coef0=1.0)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_sklearn_contract(estimator, check):
    check(estimator)


def moons(n=300, seed=0):
    return make_moons(n, noise=0.2, random_state=seed)


@pytest.mark.parametrize("iterate", perceptron.ITERATES)
def test_scores_are_those_of_the_solver(iterate):
    X, y = moons()
    clf = wm.KernelPerceptron(gamma=RBF.gamma, iterate=iterate, max_iter=3, random_state=4).fit(X, y)
    seed = np.random.RandomState(4).randint(np.iinfo(np.int32).max)
    problem = KernelProblem(KernelRows(RBF, X), np.where(y == 1, 1.0, -1.0), np.ones(300), False)
    result = perceptron.solve(problem, max_iter=3, iterate=iterate, seed=seed)
    X_new = moons(50, 1)[0]
    np.testing.assert_allclose(clf.decision_function(X_new), rbf_kernel(X_new, X, RBF.gamma) @ result.coef, atol=1e-9)
    np.testing.assert_array_equal(clf.support_, np.flatnonzero(result.coef))
    assert clf.evaluations_ == result.evaluations
    assert (clf.predict(X_new) == (clf.decision_function(X_new) > 0)).all()


def test_it_learns_the_moons_and_many_classes_with_words_as_labels():
    X, y = moons(600)
    assert wm.KernelPerceptron(gamma=2.0, random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.93
    X, y = make_classification(600, 6, n_informative=4, n_classes=4, n_clusters_per_class=1, random_state=0)
    words = np.array(["north", "east", "south", "west"])[y]
    clf = wm.KernelPerceptron(random_state=0, max_iter=3).fit(X[:400], words[:400])
    assert clf.score(X[400:], words[400:]) > 0.8
    assert clf.decision_function(X).shape == (600, 4)
    assert clf.dual_coef_.shape == (4, clf.support_.shape[0])
    assert clf.n_iter_ <= 3
    assert clf.evaluations_ <= 400 * 400  # the problems share the rows


def test_sparse_precomputed_callable_and_single_precision_agree():
    X, y = moons()
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    fitted = wm.KernelPerceptron(gamma=1.0, random_state=0).fit(X, y)
    expected = fitted.decision_function(X)
    K = rbf_kernel(X, gamma=1.0)
    for other, data in (
        (clone(fitted), sp.csr_matrix(X)),
        (clone(fitted).set_params(kernel="precomputed"), K),
        (clone(fitted).set_params(kernel=lambda A, B: rbf_kernel(A, B, gamma=1.0)), X),
    ):
        np.testing.assert_allclose(other.fit(data, y).decision_function(data), expected, atol=1e-9)
    assert sp.issparse(clone(fitted).fit(sp.csr_matrix(X), y).support_vectors_)
    single = clone(fitted).fit(X.astype(np.float32), y)
    assert single.support_vectors_.dtype == np.float32
    np.testing.assert_allclose(single.decision_function(X.astype(np.float32)), expected, atol=1e-2)


def test_rows_of_weight_zero_are_not_there_and_heavy_ones_count_more():
    X, y = moons()
    weight = np.where(np.arange(300) < 100, 0.0, 1.0)
    clf = wm.KernelPerceptron(random_state=0).fit(X, y, sample_weight=weight)
    assert clf.support_.min() >= 100
    alone = wm.KernelPerceptron(gamma=clf.gamma_, random_state=0).fit(X[100:], y[100:])
    np.testing.assert_allclose(clf.decision_function(X), alone.decision_function(X), atol=1e-9)
    heavy = wm.KernelPerceptron(random_state=0, max_iter=1).fit(X, y, sample_weight=np.where(y == 1, 30.0, 1.0))
    assert (heavy.predict(X) == 1).mean() > (alone.predict(X) == 1).mean()
    with pytest.raises(DataError, match="all rows of the class 1 have weight 0"):
        clone(clf).fit(X, y, sample_weight=(y == 0).astype(float))


def test_the_end_of_a_fit_is_told():
    X, y = moons()
    assert wm.KernelPerceptron(max_iter=1).fit(X, y).status_ == "max_iter"
    easy = wm.KernelPerceptron(kernel="linear", max_iter=100).fit(X[:, :1] + np.where(y == 1, 9.0, -9.0)[:, None], y)
    assert (easy.status_, easy.score(X[:, :1] + np.where(y == 1, 9.0, -9.0)[:, None], y)) == ("converged", 1.0)
    with pytest.warns(MarginConvergenceWarning, match="raise time_budget"):
        assert wm.KernelPerceptron(time_budget=1e-9).fit(X, y).status_ == "time_limit"
    with pytest.warns(MarginConvergenceWarning, match="by a callback"):
        assert wm.KernelPerceptron(callbacks=[lambda told: True]).fit(X, y).status_ == "stopped"


def test_an_interrupt_keeps_the_model_so_far():
    X, y = moons()

    def interrupt(told):
        if told.iteration > 50:
            raise KeyboardInterrupt

    clf = wm.KernelPerceptron(callbacks=[interrupt], on_interrupt="return")
    with pytest.warns(MarginConvergenceWarning, match="interrupted"):
        clf.fit(X, y)
    assert clf.status_ == "interrupted"
    assert clf.score(X, y) > 0.7
    with pytest.warns(MarginConvergenceWarning), pytest.raises(KeyboardInterrupt):
        clf.set_params(on_interrupt="raise").fit(X, y)


@pytest.mark.parametrize("kind", ["dense", "csr", "precomputed"])
def test_stored_models_predict_the_same(kind, tmp_path):
    X, y = moons()
    data = {"dense": X, "csr": sp.csr_matrix(X), "precomputed": rbf_kernel(X)}[kind]
    kernel = "precomputed" if kind == "precomputed" else "rbf"
    clf = wm.KernelPerceptron(kernel=kernel, random_state=0).fit(data, y)
    wm.save_model(clf, tmp_path / "model.skops")
    for loaded in (wm.load_model(tmp_path / "model.skops"), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(loaded.decision_function(data), clf.decision_function(data))
        assert loaded.get_params() == clf.get_params()


def test_features_that_overflow_are_refused():
    X = 1e160 * np.random.default_rng(0).standard_normal((30, 2))
    with pytest.raises(DataError, match=r"features as large as .* overflow inner products in float64"):
        wm.KernelPerceptron(kernel="linear").fit(X, np.arange(30) % 2)


def test_features_of_other_scales_are_named():
    X, y = make_moons(60, random_state=0)
    with pytest.warns(KernelWarning, match=r"feature 2 makes \d+\.\d% of the squared distances"):
        wm.KernelPerceptron().fit(np.column_stack((X, 1000.0 * X[:, 0])), y)
