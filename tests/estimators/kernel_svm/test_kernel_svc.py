"""KernelSVC with two classes: scikit-learn's contract, agreement with SVC, certificate, and what is refused."""

import contextlib
import gc
import inspect
import logging
import pickle
import re
import sys
import time
import warnings
from weakref import ref

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from testing.contract import parametrize_with_fitting_checks

from fresh import fresh_seed
from widemargin import KernelSVC, SBPClassifier
from widemargin.estimators.kernel_svm.binary_problems import kernel_rows
from widemargin.estimators.kernel_svm.kernel_svc import DEPRECATED
from widemargin.exceptions import (
    CapabilityError,
    DataError,
    KernelError,
    KernelWarning,
    MarginConvergenceWarning,
    ModelFileError,
)
from widemargin.kernels.backend import NumpyBackend
from widemargin.kernels.functions import resolve_kernel
from widemargin.persistence import load_model, save_model
from widemargin.solvers.kernel_svm.automatic import NAMES
from widemargin_papers.pareto import nu_from_C

UP_TO_TOL = "weights and repeated rows give the same optimum, of which tol=1e-3 finds points that differ by about 1e-3"


# With tol=1e-10 every check passes, those of the weights too.
@parametrize_with_fitting_checks(
    [KernelSVC()],
    [KernelSVC(tol=1e-10), KernelSVC(tol=1e-10, solver_options={"multi_class": "ovr"})],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": UP_TO_TOL
        for kind in ("dense", "sparse")
        if estimator.tol > 1e-10
    },
)
def test_sklearn_contract(estimator, check):
    check(estimator)


def moons(n=300, seed=0, noise=0.3):
    return make_moons(n, noise=noise, random_state=seed)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def both(data, **options):
    """Ours and SVC, fitted with the same parameters, tightly."""
    options = {"tol": 1e-7, **options}
    return KernelSVC(**options).fit(*data), SVC(**options).fit(*data)


def assert_same(ours, theirs, X, atol=1e-4):
    """Equal but for what LIBSVM loses by keeping kernel values in single precision."""
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=atol)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3 * np.abs(theirs.dual_coef_).max())
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=atol)


@pytest.mark.parametrize("data", [moons(), cancer()], ids=["moons", "cancer"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"C": 30.0, "gamma": 0.7},
        {"kernel": "linear", "C": 0.1},
        {"kernel": "poly", "coef0": 1.0, "degree": 2},
        {"gamma": "auto", "class_weight": "balanced"},
        {"class_weight": {1: 5.0}},
        {"solver": "nested-dual"},
    ],
    ids=str,
)
def test_agrees_with_svc(data, options):
    theirs = SVC(tol=1e-7, **{name: value for name, value in options.items() if name != "solver"}).fit(*data)
    ours = KernelSVC(tol=1e-7, **options).fit(*data)
    assert_same(ours, theirs, data[0])
    assert ours.gap_ < 1e-5 and ours.violation_ <= 1e-7 and ours.fit_status_ == 0


def test_attributes_have_the_shapes_and_types_of_svc():
    X, y = moons(60)
    ours, theirs = both((X, y), kernel="linear")
    for name in ("support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_", "classes_", "coef_",
                 "class_weight_", "n_iter_"):  # fmt: skip
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype), name
    assert ours.shape_fit_ == theirs.shape_fit_ == (60, 2)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    with pytest.raises(ValueError, match="read-only"):
        ours.coef_[0, 0] = 1.0
    with pytest.raises(AttributeError, match="only available when using a linear kernel"):
        _ = KernelSVC().fit(X, y).coef_


def test_sparse_rows_give_the_same_and_sparse_attributes():
    X, y = cancer()
    X = np.where(np.abs(X) < 0.2, 0.0, X)
    dense, sparse = KernelSVC(tol=1e-7).fit(X, y), KernelSVC(tol=1e-7).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_matrix(X)), dense.decision_function(X), atol=1e-5)
    theirs = SVC(tol=1e-7).fit(sp.csr_matrix(X), y)
    assert sp.issparse(sparse.dual_coef_) and sp.issparse(sparse.support_vectors_)
    np.testing.assert_allclose(sparse.dual_coef_.toarray(), theirs.dual_coef_.toarray(), atol=1e-4)
    np.testing.assert_array_equal((sparse.support_vectors_ != theirs.support_vectors_).nnz, 0)
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.testing.assert_array_equal(KernelSVC(tol=1e-7).fit(wide, y).predict(wide), sparse.predict(wide))
    linear, other = (maker(kernel="linear", tol=1e-6).fit(sp.csr_matrix(X), y) for maker in (KernelSVC, SVC))
    assert type(linear.coef_) is type(other.coef_)
    np.testing.assert_allclose(linear.coef_.toarray(), other.coef_.toarray(), atol=1e-4)
    product = KernelSVC(kernel=lambda A, B: A @ B.T, tol=1e-6).fit(sp.csr_matrix(X), y)  # a function of CSR rows
    np.testing.assert_allclose(product.dual_coef_.toarray(), linear.dual_coef_.toarray(), atol=1e-4)


def test_single_precision_is_used_where_it_is_enough():
    X, y = moons()
    single, double = KernelSVC().fit(X.astype(np.float32), y), KernelSVC().fit(X, y)
    np.testing.assert_allclose(single.decision_function(X), double.decision_function(X), atol=5e-3)
    assert single.support_vectors_.dtype == np.float32
    far = X + 3000.0  # single precision would lose the distances of these rows; not their coordinates
    tight = [KernelSVC(gamma=1.0, tol=1e-5).fit(part, y) for part in (far.astype(np.float32), X)]
    np.testing.assert_allclose(
        tight[0].decision_function(far.astype(np.float32)), tight[1].decision_function(X), atol=5e-3
    )


def test_precision_follows_the_task_and_the_parameter():
    X, _ = stripes(5000, 0)
    rbf = resolve_kernel("rbf", X, gamma=1.0)
    options = {"cache_size": 1.0, "backend": "numpy", "n_rows": 2000}

    def dtype(rows=X, kernel=rbf, **more):
        return kernel_rows(kernel, rows, **options | more).dtype

    assert dtype(tol=1e-3) == dtype(tol=None) == dtype(tol=1e-9, rows=X.astype(np.float32)) == np.float32
    assert dtype(tol=1e-4) == dtype(tol=1e-3, n_rows=1999) == dtype(tol=1e-3, rows=X + 100.0) == np.float64
    assert dtype(tol=1e-3, kernel=resolve_kernel("linear", X)) == np.float64
    assert dtype(tol=1e-9, precision="single") == np.float32
    assert dtype(rows=X.astype(np.float32), precision="double") == np.float64
    X, y = moons()
    single = KernelSVC(solver_options={"precision": "single"}).fit(X, y)
    np.testing.assert_allclose(single.decision_function(X), KernelSVC().fit(X, y).decision_function(X), atol=5e-3)
    assert single.support_vectors_.dtype == np.float64


@pytest.mark.parametrize("kind", ["function", "precomputed", "laplacian"])
def test_kernels_that_are_given(kind):
    X, y = moons()
    new = moons(50, seed=1)[0]
    if kind == "laplacian":
        ours = KernelSVC(kernel="laplacian", gamma=0.8, tol=1e-7).fit(X, y)
        theirs = SVC(kernel="precomputed", tol=1e-7).fit(laplacian_kernel(X, gamma=0.8), y)
        np.testing.assert_allclose(
            ours.decision_function(new), theirs.decision_function(laplacian_kernel(new, X, gamma=0.8)), atol=1e-5
        )
        return
    named = KernelSVC(gamma=0.8, tol=1e-7).fit(X, y)
    if kind == "function":
        ours = KernelSVC(kernel=lambda A, B: rbf_kernel(A, B, 0.8), tol=1e-7).fit(X, y)
        np.testing.assert_allclose(ours.decision_function(new), named.decision_function(new), atol=1e-5)
        return
    K, K_new = rbf_kernel(X, gamma=0.8), rbf_kernel(new, X, gamma=0.8)
    ours, theirs = both((K, y), kernel="precomputed")
    np.testing.assert_allclose(ours.decision_function(K_new), named.decision_function(new), atol=1e-5)
    assert_same(ours, theirs, K)
    assert ours.support_vectors_.shape == theirs.support_vectors_.shape == (0, 0)
    assert cross_val_score(ours, K, y, cv=3).mean() > 0.85  # sliced on both sides
    with pytest.raises(ValueError, match="is expecting 300 features"):
        ours.predict(K_new[:, :10])


def test_weights_are_those_of_svc_and_a_row_of_weight_two_is_two_rows():
    X, y = moons()
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    ours = KernelSVC(gamma=0.5, tol=1e-7).fit(X, y, sample_weight=weight)
    theirs = SVC(gamma=0.5, tol=1e-7).fit(X, y, sample_weight=weight)
    kept = np.flatnonzero(weight)
    np.testing.assert_array_equal(ours.support_, kept[theirs.support_])  # SVC numbers the rows that it keeps
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    repeated = np.repeat(np.arange(300), weight.astype(int))
    twice = KernelSVC(tol=1e-7).fit(X[repeated], y[repeated])
    scaled = KernelSVC(tol=1e-7).fit(X, y, sample_weight=weight)  # gamma="scale" sees the weights too
    assert scaled.gamma_ == pytest.approx(twice.gamma_, rel=1e-12)
    np.testing.assert_allclose(scaled.decision_function(X), twice.decision_function(X), atol=1e-5)


def test_string_labels_frames_clones_and_pickles():
    X, y = moons()
    frame, labels = pd.DataFrame(X, columns=["a", "b"]), np.where(y == 1, "yes", "no")
    model = KernelSVC().fit(frame, labels)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert set(model.predict(frame)) == {"no", "yes"}
    np.testing.assert_array_equal(model.predict(frame) == "yes", model.decision_function(frame) > 0)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(frame), model.decision_function(frame))
    np.testing.assert_array_equal(clone(model).fit(frame, labels).dual_coef_, model.dual_coef_)


def test_the_certificate_is_one():
    X, y = moons()
    model = KernelSVC(C=3.0, gamma=1.0).fit(X, y)
    w2 = float(model.dual_coef_[0] @ rbf_kernel(model.support_vectors_, gamma=1.0) @ model.dual_coef_[0])
    signed = np.where(y == 1, 1, -1)
    primal = 0.5 * w2 + 3.0 * np.maximum(0, 1 - signed * model.decision_function(X)).sum()
    dual = np.abs(model.dual_coef_).sum() - 0.5 * w2
    assert model.gap_ == pytest.approx((primal - dual) / primal, abs=1e-9)
    assert 0.0 <= model.gap_ < 1e-3
    assert model.history_[-1]["dual"] == pytest.approx(dual)
    assert {"problem", "seconds", "evaluations", "primal", "violation"} <= set(model.history_[0])
    assert (model.status_, model.solver_) == ("converged", "dual")


def test_evaluations_are_those_of_the_kernel():
    class Counting:
        count = 0

        def __call__(self, A, B):
            self.count += A.shape[0] * B.shape[0]
            return rbf_kernel(A, B, 0.8)

    function = Counting()
    model = KernelSVC(kernel=function).fit(*moons())
    assert model.evaluations_ == function.count > 0


def test_torch_computes_the_same(monkeypatch):
    pytorch = pytest.importorskip("torch")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X, y = moons()
    plain, torch = (KernelSVC(solver_options={"backend": name}, tol=1e-6).fit(X, y) for name in ("numpy", "torch"))
    np.testing.assert_allclose(torch.decision_function(X), plain.decision_function(X), atol=1e-5)
    with config_context(array_api_dispatch=True):  # rows of PyTorch come in, and its numbers come out
        rows, labels = (pytorch.asarray(values) for values in (X, y))
        model = KernelSVC(solver_options={"backend": "torch"}, tol=1e-6).fit(rows, labels, pytorch.ones(len(y)))
        np.testing.assert_array_equal(model.dual_coef_, torch.dual_coef_)
        for ask in (model.predict, model.decision_function):
            assert isinstance(ask(rows), pytorch.Tensor) and ask(rows).device == rows.device
        np.testing.assert_array_equal(model.predict(rows).numpy(), torch.predict(X))
        words = KernelSVC().fit(X, np.array(["no", "yes"])[y])
        assert words.predict(rows).dtype.kind == "U"
    with pytest.raises(CapabilityError, match="backend 'tpu' is unknown"):
        KernelSVC(solver_options={"backend": "tpu"}).fit(X, y)


def stripes(n, seed, columns=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, columns))
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize("solver", [name for name in NAMES if name != "interior-point"])  # which needs a tol
def test_every_solver_has_the_error_of_svc_when_it_stops_on_rows_held_out(solver):
    X, y = stripes(1500, 0)
    new, labels = stripes(3000, 1)
    bias = solver not in ("sdca", "pegasos")
    options = {"solver_options": {"fit_intercept": bias}, "max_iter": 100 if solver == "pegasos" else -1}
    ours = KernelSVC(solver=solver, tol=None, gamma=1.0, C=2.0, random_state=0, **options).fit(X, y)
    theirs = SVC(gamma=1.0, C=2.0).fit(X, y)
    assert ours.status_ == "converged" and ours.solver_ == solver
    allowed = 0.01 if solver in ("auto", "dual", "nested-dual", "spatial-dual", "sbp", "sbp-unbiased") else 0.04
    assert (ours.predict(new) != labels).mean() <= (theirs.predict(new) != labels).mean() + allowed


@pytest.mark.parametrize("solver", ["sbp", "sbp-unbiased", "pegasos"])
def test_the_default_tol_of_solvers_with_a_loose_gap_is_the_hold_out_rule(solver):
    X, y = stripes(1000, 0)
    model = KernelSVC(
        solver=solver, solver_options={"fit_intercept": solver != "pegasos"}, gamma=1.0, random_state=0
    ).fit(X, y)
    same = clone(model).set_params(tol=None).fit(X, y)
    assert model.tol == SVC().tol and model.status_ == "converged"
    np.testing.assert_array_equal(model.dual_coef_, same.dual_coef_)
    assert "held_out_error" in model.history_[-1]
    asked = clone(model).set_params(tol=0.2, max_iter=1000).fit(X, y)
    assert asked.gap_ <= 0.2 and "held_out_error" not in asked.history_[-1]


def test_a_small_cache_biases_the_batch_perceptron_which_says_so():
    X, y = stripes(1500, 0)
    options = {"gamma": 1.0, "random_state": 0, "solver_options": {"precision": "double"}}
    with pytest.warns(
        MarginConvergenceWarning, match=r"gap of \d+%; the cache holds 8\d of about \d+ covered .*'sbp-unbi"
    ):
        small = KernelSVC(solver="sbp", cache_size=1, **options).fit(X, y)
    unbiased = KernelSVC(solver="sbp-unbiased", cache_size=1, **options).fit(X, y)  # no warning
    enough = KernelSVC(solver="sbp", **options).fit(X, y)  # nor here
    assert small.gap_ > 0.5 > unbiased.gap_ and enough.gap_ < 0.05
    assert unbiased.evaluations_ > small.evaluations_


def test_nu_is_an_output_of_the_batch_perceptron():
    X, y = stripes(400, 0)
    sbp = KernelSVC(solver="sbp", tol=0.02, gamma=1.0, C=2.0, random_state=0).fit(X, y)
    norm = np.sqrt(sbp.dual_coef_[0] @ rbf_kernel(sbp.support_vectors_, gamma=1.0) @ sbp.dual_coef_[0])
    hinge = np.maximum(0.0, 1.0 - (2 * y - 1) * sbp.decision_function(X)).mean()
    assert sbp.nu_ == pytest.approx([hinge / norm], rel=1e-6)
    assert sbp.nu_[0] == pytest.approx(nu_from_C(SBPClassifier(gamma=1.0), X, y, C=2.0), rel=0.1)
    assert np.isnan(KernelSVC().fit(X, y).nu_).all()
    iris, labels = load_iris(return_X_y=True)
    assert np.isfinite(KernelSVC(solver="sbp", tol=0.1).fit(iris, labels).nu_).tolist() == [True] * 3


def test_where_no_row_can_be_held_out_there_is_a_tolerance():
    X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 2])
    for options in ({"solver": "sbp"}, {"tol": None}, {"tol": None, "solver": "smo"}):
        model = KernelSVC(random_state=0, **options).fit(X, y)
        assert model.predict(X).tolist() == [0, 1, 2] and model.status_ == "converged"


def test_every_default_call_ends_soon():
    """An overlap of classes, where the loose bounds never come near 1e-3: as long as the duals, or some times that."""
    X, y = stripes(2500, 0, columns=5)
    for solver in NAMES:
        model = KernelSVC(
            solver=solver, solver_options={"fit_intercept": solver not in ("sdca", "pegasos")}, random_state=0,
            kernel="linear" if solver == "interior-point" else "rbf",
        )  # fmt: skip
        started = time.process_time()
        model.fit(X, y)
        assert time.process_time() - started < 30.0, solver


def test_auto_sees_how_far_the_kernel_reaches():
    X, y = stripes(4000, 0)
    narrow, wide = (KernelSVC(gamma=gamma, C=0.1, tol=0.1).fit(X, y) for gamma in (30.0, 0.1))
    assert (narrow.solver_, wide.solver_) == ("spatial-dual", "dual")
    near = np.mean(rbf_kernel(X[:500], gamma=30.0) > 2.0**-22)
    share = int(re.search(r"reaches (\d+)%", narrow.solver_reason_).group(1))
    assert share == pytest.approx(100 * near, abs=2)
    flat = KernelSVC(gamma=30.0, C=0.1, tol=1e-3, solver="dual").fit(X, y)
    np.testing.assert_allclose(narrow.decision_function(X), flat.decision_function(X), atol=0.15)
    fine = KernelSVC(gamma=90.0, C=0.1).fit(X, y)
    assert fine.solver_ == "spatial-dual" and fine.violation_ <= 1e-3
    flat.set_params(gamma=90.0).fit(X, y)
    np.testing.assert_allclose(fine.decision_function(X), flat.decision_function(X), atol=5e-3)


def test_columns_that_vary_little_leave_rows_in_spatial_order():
    X, y = stripes(4000, 0)
    noise = np.random.default_rng(0).normal(size=(4000, 30))
    little, much, far = (KernelSVC(gamma=gamma, C=0.1, tol=0.1) for gamma in (90.0, 90.0, 3.0))
    for model in (little, far):
        with pytest.warns(KernelWarning, match="of the squared distances"):
            model.fit(np.hstack([X, 1e-3 * noise]), y)
    much.fit(np.hstack([X, noise]), y)
    assert [model.solver_ for model in (little, much, far)] == ["spatial-dual", "dual", "dual"]
    alone = KernelSVC(gamma=90.0, C=0.1, tol=0.1).fit(X, y)
    assert np.mean(little.predict(np.hstack([X, 1e-3 * noise])) != alone.predict(X)) < 0.02


def test_rows_held_out_take_no_part_in_training():
    X, y = stripes(600, 0)
    model = KernelSVC(tol=None, solver_options={"validation_fraction": 0.3}, random_state=3, gamma=1.0, C=1e4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MarginConvergenceWarning)
        model.fit(X, y)
    # of a memorising model every row is a support vector, or fitted
    assert model.support_.shape[0] <= 0.7 * 600
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.support_, model.support_)
    other = clone(model).set_params(random_state=4).fit(X, y)
    assert not np.array_equal(other.support_, model.support_)
    assert any("held_out_error" in entry for entry in model.history_)


def test_limits_of_the_solvers_own_steps():
    X, y = moons(400)
    with pytest.warns(MarginConvergenceWarning, match="max_iter=20: raise it"):
        few = KernelSVC(solver="smo", max_iter=20).fit(X, y)
    assert few.n_iter_.tolist() == [20]
    with pytest.warns(MarginConvergenceWarning, match=r"s with gap .* 'pegasos' has a limit of its own"):
        KernelSVC(solver="pegasos", solver_options={"fit_intercept": False}, tol=1e-6).fit(X, y)
    with pytest.raises(CapabilityError, match="fit_intercept=False"):
        KernelSVC(solver="sdca").fit(X, y)
    slow, quick = (KernelSVC(solver="smo", shrinking=some, tol=1e-8).fit(X, y) for some in (False, True))
    np.testing.assert_allclose(slow.decision_function(X), quick.decision_function(X), atol=1e-6)


def test_without_an_intercept():
    X, y = moons()
    model = KernelSVC(solver_options={"fit_intercept": False}, tol=1e-7).fit(X, y)
    assert model.intercept_.tolist() == [0.0]
    assert model.gap_ < 1e-6


def test_stops_early_with_a_model_and_a_warning():
    X, y = moons(1500)
    with pytest.warns(MarginConvergenceWarning, match=r"max_iter=1: raise it, or scale the features"):
        few = KernelSVC(max_iter=1, C=100.0).fit(X, y)
    assert (few.status_, few.fit_status_, few.n_iter_.tolist()) == ("max_iter", 1, [1])
    with pytest.warns(MarginConvergenceWarning, match="raise time_budget"):
        late = KernelSVC(solver_options={"time_budget": 1e-9}, C=100.0).fit(X, y)
    assert late.status_ == "time_limit" and late.predict(X).shape == y.shape
    with pytest.warns(MarginConvergenceWarning, match="by a callback"):
        asked = KernelSVC(solver_options={"callbacks": [lambda progress: True]}, C=100.0).fit(X, y)
    assert asked.status_ == "stopped"
    assert few.gap_ > 1e-2 < late.gap_


def test_an_interrupt_keeps_the_model():
    X, y = moons(1500)

    def interrupt(progress):
        if progress.iteration == 1:
            raise KeyboardInterrupt

    model = KernelSVC(C=100.0, solver_options={"callbacks": [interrupt]})
    with pytest.warns(MarginConvergenceWarning, match="interrupted after"), pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert (model.predict(X) == y).mean() > 0.8
    with pytest.warns(MarginConvergenceWarning, match="interrupted after"):
        model.set_params(solver_options={"callbacks": [interrupt], "on_interrupt": "return"}).fit(X, y)


def test_verbose_logs_and_prints_nothing(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="widemargin"):
        KernelSVC(verbose=1).fit(*moons())
    assert "working set 0: objective" in caplog.text
    assert capsys.readouterr() == ("", "")


def test_kernels_that_are_not_positive_semi_definite_go_on_with_a_warning():
    X, y = cancer()
    with pytest.warns(KernelWarning, match="'sigmoid' is not positive semi-definite on these rows"):
        ours = KernelSVC(kernel="sigmoid", gamma=0.5, coef0=1.0).fit(X, y)
    assert np.isnan(ours.gap_)
    theirs = SVC(kernel="sigmoid", gamma=0.5, coef0=1.0).fit(X, y)
    assert (ours.predict(X) == y).mean() > (theirs.predict(X) == y).mean() - 0.05


@pytest.mark.parametrize("solver", ["dual", "nested-dual", "smo"])
def test_a_negative_norm_is_reported_where_no_pair_of_rows_shows_it(solver):
    """`K(x, x) + K(z, z) >= 2 K(x, z)` for all pairs, and still `|w|^2 < 0`."""
    rng = np.random.default_rng(0)
    X = (rng.random((300, 40)) < 0.3).astype(float)
    X[:, :12] = 1.0
    y = (X[:, 12:].sum(axis=1) + rng.normal(size=300) > 8.4).astype(int)
    with pytest.warns(KernelWarning, match="not positive semi-definite"):
        model = KernelSVC(kernel="sigmoid", gamma=1.0, coef0=-13.0, solver=solver).fit(X, y)
    assert np.isnan(model.gap_)


def test_bad_input_is_named():
    X, y = moons(40)
    with pytest.raises(ValueError, match=r"y holds one class only, 0\.0; a classifier needs rows of at least two"):
        KernelSVC().fit(X, np.zeros(40))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        KernelSVC().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        KernelSVC().fit(X, y).predict(np.full((1, 2), np.nan))
    for gamma in (0.0, -1.0):
        with pytest.raises(ValueError, match="'gamma' parameter of KernelSVC must be"):
            KernelSVC(gamma=gamma).fit(X, y)
    with pytest.raises(KernelError, match="cannot hold one row of 40 kernel values"):
        KernelSVC(cache_size=1e-5).fit(X, y)
    with pytest.raises(KernelError, match="the cache holds 1 kernel row and 2 are needed"):
        KernelSVC(cache_size=60 * 8 / 2**20).fit(X, y)
    with pytest.raises(DataError, match="all rows of the class 1 have weight 0"):
        KernelSVC().fit(X, y, sample_weight=(y == 0).astype(float))
    for factor in (0.0, -1.0, np.nan):
        with pytest.raises(DataError, match=rf"class_weight={factor:g} of the class 1 must be a finite number > 0"):
            KernelSVC(class_weight={1: factor}).fit(X, y)
    with pytest.raises(KernelError, match="kernel 'poly' gives values that are not finite numbers"):
        KernelSVC(kernel="poly", degree=2.5).fit(X, y)
    for dtype, large in ((np.float32, 1e19), (np.float64, 1e154)):
        rows = (large * X).astype(dtype)
        for some in (rows, sp.csr_matrix(rows)):
            with pytest.raises(
                DataError, match=rf"features as large as .*e\+\d+ overflow inner products in {dtype.__name__}"
            ):
                KernelSVC().fit(some, y)
    with pytest.raises(KernelError, match="must be square"):
        KernelSVC(kernel="precomputed").fit(X, y)
    with pytest.raises(CapabilityError, match="multi_class='ovr' trains no pairs"):
        KernelSVC(solver_options={"multi_class": "ovr"}, decision_function_shape="ovo").fit(X, y)
    with pytest.raises(CapabilityError, match="needs kernel='rbf' and dense rows"):
        KernelSVC(solver="spatial-dual", kernel="linear").fit(X, y)


def test_rows_at_one_point_have_a_model():
    """K(x, x) = 0 for every row: the best model is the bias."""
    X, y = np.zeros((10, 2)), np.array([0] * 7 + [1] * 3)
    model = KernelSVC(kernel="linear").fit(X, y)
    assert model.predict(X).tolist() == [0] * 10
    assert model.gap_ == pytest.approx(SVC(kernel="linear").fit(X, y).fit_status_, abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"calibration": "isotonic"}, {"kernel": "linear"}, {"kernel": "precomputed"}])
@pytest.mark.parametrize("sparse", [False, True])
def test_model_files_give_the_model_back(tmp_path, options, sparse):
    X, y = load_iris(return_X_y=True)
    X = rbf_kernel(X) if options.get("kernel") == "precomputed" else X
    X = sp.csr_matrix(X) if sparse else X
    model = KernelSVC(random_state=0, **options).fit(X, y)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.get_params() == model.get_params()
    assert vars(loaded).keys() == vars(model).keys()
    assert loaded.history_ == model.history_ and loaded.solver_reason_ == model.solver_reason_
    if model.calibration:
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_a_kernel_function_has_no_place_in_a_model_file(tmp_path):
    model = KernelSVC(kernel=rbf_kernel).fit(*moons(30))
    with pytest.raises(ModelFileError, match=r"model\.kernel"):
        save_model(model, tmp_path / "m.skops")


@pytest.mark.filterwarnings("ignore:the `probability` parameter is deprecated")
def test_probability_is_that_of_svc():
    """Sigmoids over the scores of five folds; the model itself is that of all rows."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = KernelSVC(probability=True, random_state=0).fit(X, y)
    assert np.allclose(ours.predict_proba(X).sum(axis=1), 1.0)
    assert log_loss(y, ours.predict_proba(X)) < 0.15
    np.testing.assert_array_equal(ours.decision_function(X), KernelSVC(random_state=0).fit(X, y).decision_function(X))
    plain = KernelSVC(probability=False).fit(X, y)
    assert not hasattr(plain, "predict_proba")
    with pytest.raises(NotFittedError, match="not available when fitted with probability=False"):
        plain.set_params(probability=True).predict_proba(X)
    with pytest.raises(CapabilityError, match="two ways to the same"):
        KernelSVC(probability=True, calibration="sigmoid").fit(X, y)
    lonely = np.append(y[y < 2], 2)
    with pytest.warns(KernelWarning, match="a class has 1 row"):
        assert KernelSVC(probability=True).fit(X[:101], lonely).predict_proba(X).shape == (150, 3)
    with pytest.warns(KernelWarning) as said:  # by the fit of all rows, not by each of the folds
        KernelSVC(probability=True).fit(*load_breast_cancer(return_X_y=True))
    assert [issubclass(item.category, KernelWarning) for item in said].count(True) == 1


def test_probability_warns_where_scikit_learn_does():
    X, y = moons(30)
    with pytest.warns(FutureWarning, match="deprecated") if DEPRECATED else contextlib.nullcontext():
        KernelSVC(probability=False).fit(X, y)


def test_all_other_parameters_are_those_of_svc():
    with pytest.raises(TypeError, match="unexpected keyword argument 'probabilities'"):
        KernelSVC(probabilities=True)
    theirs, ours = SVC().get_params(), KernelSVC().get_params()
    assert theirs.keys() <= ours.keys() | {"probability"}
    differing = {name for name, value in theirs.items() if name in ours and ours[name] != value}
    assert differing <= {"verbose", "probability"}  # False and 0, and a default that depends on the version
    assert list(inspect.signature(KernelSVC).parameters)[:3] == ["C", "kernel", "degree"]


def test_weights_below_zero_leave_rows_out_and_an_infinite_c_is_a_hard_margin():
    X, y = moons(60)
    weight = np.ones(60)
    weight[::7] = -0.5
    some = weight > 0
    out, left = KernelSVC().fit(X, y, sample_weight=weight), KernelSVC(gamma=1.0).fit(X[some], y[some])
    assert not np.isin(out.support_, np.flatnonzero(~some)).any()
    np.testing.assert_allclose(
        KernelSVC(gamma=1.0).fit(X, y, sample_weight=weight).decision_function(X), left.decision_function(X), atol=1e-6
    )
    for nothing in (np.zeros(60), -np.ones(60)):
        with pytest.raises(DataError, match="all samples have zero or negative weights"):
            KernelSVC().fit(X, y, sample_weight=nothing)
    with pytest.raises(DataError, match="belong to the same class"):
        KernelSVC().fit(X, y, sample_weight=np.where(y == y[0], 1.0, 0.0))
    hard = KernelSVC(C=np.inf, kernel="linear").fit([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    np.testing.assert_allclose(hard.decision_function([[1.0], [3.0]]), [-1.0, 1.0], atol=1e-3)


@pytest.mark.parametrize("solver", ["sbp", "sdca", "pegasos"])
def test_solvers_that_need_another_kernel_or_no_bias_say_which_solver_does_not(solver):
    X, y = moons(100)
    options = {"kernel": "sigmoid", "gamma": 1.0, "coef0": -1.0}
    no_bias = {"fit_intercept": solver == "sbp"}
    with pytest.raises(KernelError, match=r"^kernel='sigmoid': .*positive semi-definite.* Or solver='dual'"):
        KernelSVC(solver=solver, solver_options=no_bias, **options).fit(X, y)
    if solver != "sbp":
        with pytest.raises(CapabilityError, match=r"no unregularised bias; .* solver='smo'"):
            KernelSVC(solver=solver).fit(X, y)


def test_the_spatial_dual_has_no_backend():
    with pytest.raises(
        CapabilityError, match=r"'spatial-dual' computes .* without backend='torch'; use backend='numpy'"
    ):
        KernelSVC(solver="spatial-dual", solver_options={"backend": "torch"}).fit(*moons(50))
    with pytest.raises(CapabilityError, match="needs kernel='rbf' and dense rows"):
        KernelSVC(solver="spatial-dual", kernel="linear").fit(*moons(50))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_of_torch_predicts_csr_rows_and_without_torch(dtype, monkeypatch):
    pytest.importorskip("torch")
    X, y = load_digits(return_X_y=True)
    model = KernelSVC(solver_options={"backend": "torch"}).fit(X[:200].astype(dtype), y[:200])
    new = X[200:300].astype(dtype)
    with_torch, calls = model.decision_function(new), []
    place = NumpyBackend.place
    monkeypatch.setattr(NumpyBackend, "place", lambda *a, **k: calls.append(1) or place(*a, **k))
    model.decision_function(new)
    assert not calls  # torch was used, so the comparison says something
    np.testing.assert_allclose(model.decision_function(sp.csr_matrix(new)), with_torch, atol=1e-4)
    monkeypatch.setitem(sys.modules, "torch", None)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.decision_function(new), with_torch, atol=1e-4)
    assert calls


def test_numbers_that_overflow_are_named():
    X, y = moons(40)
    with pytest.raises(DataError, match=r"C times the weights is up to 1e\+300; lower it to 1e\+100 at most"):
        KernelSVC().fit(X, y, sample_weight=np.full(40, 1e300))
    with pytest.raises(KernelError, match="values that are not finite numbers"):  # and no warning of numpy
        KernelSVC(kernel="poly", degree=50, gamma=100.0).fit(100.0 * X, y)


def test_rows_held_out_do_not_give_up_a_rare_class():
    """3% positives, new rows every time: tol=None loses next to nothing against the full run."""
    rng = np.random.default_rng(fresh_seed())
    for n in (6000, 24_000):  # too few rare rows to judge by, and enough
        X = rng.normal(size=(2 * n, 8))
        y = np.where(rng.random(2 * n) < 0.03, 1, -1)
        X[y > 0, :3] = 0.6 * X[y > 0, :3] + 2.0
        for C in (1.0, 100.0):
            full, loose = (KernelSVC(C=C, gamma=0.1, tol=tol, random_state=0).fit(X[:n], y[:n]) for tol in (0.02, None))
            errors = [
                (np.mean(p != y[n:]), 1.0 - balanced_accuracy_score(y[n:], p))
                for p in (full.predict(X[n:]), loose.predict(X[n:]))
            ]
            assert errors[1][0] <= errors[0][0] + 0.003
            assert errors[1][1] <= errors[0][1] + 0.03


def test_support_vectors_are_packed_once_and_cannot_be_changed_behind_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (9000, 2))
    y = (np.sin(4.0 * X).sum(axis=1) + rng.normal(size=9000) > 0.0).astype(int)
    model = KernelSVC(gamma=30.0, tol=0.1).fit(X, y)
    assert model.support_vectors_.shape[0] > 4000  # enough for sums in spatial order
    scores = model.decision_function(X[:500])
    exact = rbf_kernel(X[:500], model.support_vectors_, gamma=30.0) @ model.dual_coef_[0] + model.intercept_
    np.testing.assert_allclose(scores, exact, atol=1e-3)
    with pytest.raises(ValueError, match="read-only"):
        model.support_vectors_[0] = 0.0
    model.dual_coef_ *= 2.0  # coefficients are read at every call
    np.testing.assert_allclose(model.decision_function(X[:500]), 2.0 * exact - model.intercept_, atol=2e-3)
    model.support_vectors_ = model.support_vectors_ + 1.0
    moved = rbf_kernel(X[:500], model.support_vectors_, gamma=30.0) @ model.dual_coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(X[:500]), moved, atol=2e-3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X[:50]), model.decision_function(X[:50]))


def test_what_is_packed_goes_with_the_support_vectors_of_its_fit():
    X, y = moons(60)
    model = KernelSVC().fit(X, y)
    former = ref(model.support_vectors_)
    model.decision_function(X)
    model.fit(X[:40], y[:40]).decision_function(X)
    gc.collect()
    assert former() is None


def test_scores_of_single_rows_far_from_the_origin_are_not_rounded_away():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(400, 4)) + 30.0).astype(np.float32)
    y = (np.sin(2.0 * X).sum(axis=1) + rng.normal(size=400) > 0.0).astype(int)
    model = KernelSVC(C=300.0, gamma=0.025).fit(X, y)
    wide = X.astype(np.float64)
    exact = rbf_kernel(wide, wide[model.support_], gamma=0.025) @ model.dual_coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), exact, atol=3e-3)
