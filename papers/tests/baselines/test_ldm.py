"""The large margin distribution machine: exact on small problems, an SVM without its two terms, and what these do."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC
from testing.linear_baselines import classes, signs

from widemargin import load_model, save_model
from widemargin.exceptions import CapabilityError, DataError, KernelError, MarginConvergenceWarning
from widemargin_papers.baselines import LDMClassifier
from widemargin_papers.baselines.ldm import target_ascent


def objective(w, X, y, C, variance, mean, weight):
    """As the docstring has it, from the margins themselves."""
    m = signs(y) * (X @ w[:-1] + w[-1])
    average = np.average(m, weights=weight)
    spread = np.average((m - average) ** 2, weights=weight)
    return 0.5 * w @ w + variance * spread - mean * average + C * weight @ np.maximum(0.0, 1.0 - m)


def exact(X, y, C, variance, mean, weight):
    """Least objective, by an interior-point solver over (w, b) and the slacks."""
    rows = signs(y)[:, None] * np.column_stack((X, np.ones(len(y))))
    n, d = rows.shape
    share = weight / weight.sum()
    centred = rows - share @ rows
    P = np.zeros((d + n, d + n))
    P[:d, :d] = np.eye(d) + 2.0 * variance * (centred * share[:, None]).T @ centred
    q = np.concatenate((-mean * (share @ rows), C * weight))
    A = np.block([[-rows, -np.eye(n)], [np.zeros((n, d)), -np.eye(n)]])
    b = np.concatenate((-np.ones(n), np.zeros(n)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(2 * n)]
    found = clarabel.DefaultSolver(sp.csc_matrix(np.triu(P)), q, sp.csc_matrix(A), b, cones, settings).solve()
    return found.obj_val, np.array(found.x[:d])


@pytest.mark.parametrize(("variance", "mean"), [(0.0, 0.0), (3.0, 0.0), (0.0, 5.0), (50.0, 2.0)])
def test_the_dual_solver_is_exact(variance, mean):
    X, y = classes(80)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 80)
    clf = LDMClassifier(0.5, variance_weight=variance, mean_weight=mean, tol=1e-8, random_state=0)
    clf.fit(X, y, sample_weight=weight)
    value, w = exact(X, y, 0.5, variance, mean, weight)
    found = np.append(clf.coef_[0], clf.intercept_)
    assert clf.objective_ == pytest.approx(objective(found, X, y, 0.5, variance, mean, weight), rel=1e-12)
    assert clf.objective_ == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found, w, atol=1e-3)
    assert clf.gap_ <= 1e-8


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed", "callable"])
def test_a_kernel_machine_is_exact(kernel):
    """Against an interior-point solver on the eigenvectors of the kernel matrix."""
    X, y = classes(60)
    X_new, _ = classes(25, seed=1)
    weight = np.random.default_rng(0).integers(1, 4, 60).astype(float)
    named = {"precomputed": "precomputed", "callable": lambda A, B: rbf_kernel(A, B, gamma=0.2)}.get(kernel, kernel)
    K, K_new = rbf_kernel(X, gamma=0.2), rbf_kernel(X_new, X, gamma=0.2)
    if kernel == "poly":
        K, K_new = (0.2 * X @ X.T + 1.0) ** 2, (0.2 * X_new @ X.T + 1.0) ** 2
    train, new = (K, K_new) if kernel == "precomputed" else (X, X_new)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10 * values[-1]
    mapped = vectors[:, kept] * np.sqrt(values[kept])
    mapped_new = K_new @ vectors[:, kept] / np.sqrt(values[kept])
    clf = LDMClassifier(
        2.0, variance_weight=20.0, mean_weight=3.0, kernel=named, gamma=0.2, degree=2, coef0=1.0, tol=1e-9,
        max_iter=100_000, random_state=0,
    )  # fmt: skip
    clf.fit(train, y, sample_weight=weight)
    value, w = exact(mapped, y, 2.0, 20.0, 3.0, weight)
    assert clf.objective_ == pytest.approx(value, rel=1e-6) and clf.gap_ <= 1e-9
    np.testing.assert_allclose(clf.decision_function(new), mapped_new @ w[:-1] + w[-1], atol=2e-3)
    full = np.zeros(60)
    full[clf.support_] = clf.dual_coef_[0]
    np.testing.assert_allclose(clf.decision_function(new), K_new @ full + clf.intercept_, atol=1e-6)
    assert not hasattr(clf, "coef_")


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_a_kernel_machine_leaves_rows_of_weight_0_out(kernel):
    X, y = classes(90)
    weight = (np.arange(90) % 3 > 0).astype(float)
    used = np.flatnonzero(weight)
    K = rbf_kernel(X, gamma=0.2)
    rows, some, new = (K, K[np.ix_(used, used)], K[:, used]) if kernel == "precomputed" else (X, X[used], X)
    clf = LDMClassifier(kernel=kernel, gamma=0.2, random_state=0)
    without = clone(clf).fit(some, y[used])
    clf.fit(rows, y, sample_weight=weight)
    np.testing.assert_allclose(clf.decision_function(rows), without.decision_function(new), atol=1e-10)
    np.testing.assert_array_equal(clf.support_, used[without.support_])


def test_a_kernel_machine_of_many_kinds(tmp_path):
    X, y = make_moons(300, noise=0.2, random_state=0)
    clf = LDMClassifier(10.0, kernel="rbf", gamma=2.0, random_state=0).fit(X, y)
    assert clf.score(*make_moons(300, noise=0.2, random_state=1)) > 0.94
    linear = LDMClassifier(10.0, random_state=0).fit(X, y)
    named = LDMClassifier(10.0, kernel="linear", random_state=0).fit(X, y)
    np.testing.assert_allclose(named.decision_function(X), linear.decision_function(X), atol=0.02)
    drawn = LDMClassifier(0.05, kernel="rbf", gamma=2.0, solver="sgd", max_iter=200, random_state=0).fit(X, y)
    whole = LDMClassifier(0.05, kernel="rbf", gamma=2.0, tol=1e-8, random_state=0).fit(X, y)
    assert whole.objective_ - 1e-6 <= drawn.objective_ <= 1.01 * whole.objective_
    sparse = LDMClassifier(10.0, kernel="rbf", gamma=2.0, random_state=0).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_matrix(X)), clf.decision_function(X), atol=1e-6)
    words = np.array(["a", "b", "c"])[(X[:, 0] > 0.5).astype(int) + y * (X[:, 0] > 0.5)]
    several = LDMClassifier(10.0, kernel="rbf", gamma=2.0, random_state=0).fit(X, words)
    assert several.decision_function(X).shape == (300, 3) and several.score(X, words) > 0.9
    save_model(several, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), several.decision_function(X))
    again = clf.set_params(kernel=None).fit(X, y)
    assert again.coef_.shape == (1, 2) and not hasattr(again, "dual_coef_")
    with pytest.raises(CapabilityError, match=r"cache_size is 0\.1 MB"):
        LDMClassifier(kernel="rbf", cache_size=0.1).fit(X, y)
    with pytest.raises(KernelError, match="must be square"):
        LDMClassifier(kernel="precomputed").fit(X, y)
    with pytest.raises(DataError, match="overflow inner products"):
        LDMClassifier().fit(X * 1e200, y)


def test_without_its_terms_it_is_the_svm():
    X, y = classes()
    clf = LDMClassifier(1.0, variance_weight=0.0, mean_weight=0.0, tol=1e-7, random_state=0).fit(X, y)
    peer = LinearSVC(C=1.0, loss="hinge", tol=1e-9, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(clf.coef_, peer.coef_, atol=1e-3)


def test_the_stochastic_solver_comes_near():
    X, y = classes()
    for solver_options in ({}, {"sample_weight": np.random.default_rng(1).uniform(0.5, 2.0, 300)}):
        exact_one = LDMClassifier(0.01, variance_weight=2.0, tol=1e-7, random_state=0).fit(X, y, **solver_options)
        clf = LDMClassifier(0.01, variance_weight=2.0, solver="sgd", max_iter=300, random_state=0)
        clf.fit(X, y, **solver_options)
        assert exact_one.objective_ <= clf.objective_ + 1e-9
        assert clf.objective_ <= 1.02 * exact_one.objective_
        assert clf.gap_ == np.inf


def test_the_terms_do_what_they_are_called():
    X, y = classes()

    def margins(**weights):
        return signs(y) * LDMClassifier(0.1, **weights).fit(X, y).decision_function(X)

    plain = margins(variance_weight=0.0, mean_weight=0.0)
    assert margins(variance_weight=100.0, mean_weight=0.0).std() < 0.8 * plain.std()
    assert margins(variance_weight=0.0, mean_weight=100.0).mean() > 1.2 * plain.mean()


def test_many_features_are_solved_by_stochastic_steps(monkeypatch):
    X, y = classes()
    monkeypatch.setattr("widemargin_papers.baselines.ldm._WIDEST", 5)
    assert LDMClassifier(max_iter=5).fit(X, y).gap_ == np.inf
    assert LDMClassifier(max_iter=2000, solver="dual").fit(X, y).gap_ <= 1e-4


def test_too_few_passes_are_told():
    X, y = classes()
    with pytest.warns(MarginConvergenceWarning, match="raise max_iter or tol"):
        assert LDMClassifier(1000.0, max_iter=1, tol=1e-9).fit(X, y).status_ == "max_iter"


def test_compiled_ascent_is_the_plain_one_and_climbs():
    X, y = classes(40)
    X[0] = 0.0
    rng = np.random.default_rng(0)
    target, upper, norms = rng.normal(size=40), rng.uniform(0.0, 1.0, 40), (X * X).sum(axis=1)
    ends = []
    for ascent in (target_ascent, target_ascent.py_func):
        before, alpha, v = 0.0, np.zeros(40), np.zeros(6)
        for seed in range(3):
            ascent(X, np.random.default_rng(seed).permutation(40), signs(y), target, upper, norms, alpha, v)
            value = alpha @ target - 0.5 * v @ v
            assert value >= before
            before = value
        np.testing.assert_allclose(v, X.T @ (alpha * signs(y)), atol=1e-12)
        assert (alpha >= 0.0).all()
        assert (alpha <= upper).all()
        assert alpha[0] == (upper[0] if target[0] > 0.0 else 0.0)
        ends.append(alpha)
    np.testing.assert_allclose(*ends, atol=1e-12)
