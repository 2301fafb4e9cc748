"""The dual on a device: the optimum, whatever library holds its arrays, and the certificate of the estimator."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, make_moons
from sklearn.svm import SVC
from testing.kernel_svms import DEVICES, RBF, data, exact, problem

from widemargin import KernelSVC
from widemargin.exceptions import CapabilityError, MarginConvergenceWarning
from widemargin.kernels.backend import DeviceBackend
from widemargin.kernels.device import DeviceRows
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.dual import on_device, working_set
from widemargin.solvers.kernel_svm.dual.working_set import WorkingSetOptions
from widemargin.solvers.kernel_svm.problem import KernelProblem

devices = pytest.mark.parametrize("backend", DEVICES)


def placed(X, y, C=1.0, kernel=RBF, fit_intercept=True, backend="array-api", **options):
    upper = np.full(y.shape[0], C) if np.isscalar(C) else C
    return KernelProblem(DeviceRows(kernel, X, backend=backend, **options), y, upper, fit_intercept)


@devices
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("C", [0.3, 30.0])
@pytest.mark.parametrize("size", [1024, 16])
def test_the_exact_optimum(backend, fit_intercept, C, size):
    X, y = data(1, 120)
    made = placed(X, y, C, fit_intercept=fit_intercept, backend=backend)
    result = on_device.solve(made, tol=1e-7, options=WorkingSetOptions(size=size))
    best = exact(problem(X, y, C, fit_intercept=fit_intercept))
    assert result.status is Status.CONVERGED and result.violation <= 1e-7
    assert result.dual == pytest.approx(best, rel=1e-6)
    assert result.primal == pytest.approx(best, rel=1e-6)
    assert (result.intercept != 0.0) == fit_intercept


@devices
def test_a_weight_of_two_is_a_row_twice(backend):
    X, y = data(2, 80)
    weight = np.random.default_rng(0).integers(1, 4, 80)
    once = on_device.solve(placed(X, y, weight.astype(float), backend=backend), tol=1e-8)
    many = np.repeat(np.arange(80), weight)
    twice = on_device.solve(placed(X[many], y[many], backend=backend), tol=1e-8)
    assert once.dual == pytest.approx(twice.dual, rel=1e-7)
    np.testing.assert_allclose(np.bincount(many, twice.coef), once.coef, atol=1e-4)


@devices
def test_few_kept_rows_and_a_start_lead_to_the_same_model(backend, monkeypatch):
    monkeypatch.setattr(DeviceBackend, "free", lambda self: None)  # as of a device without memory of its own
    X, y = data(3, 400)
    peer = working_set.solve(problem(X, y, 10.0), tol=1e-6)
    made = placed(X, y, 10.0, backend=backend, cache_size=40 * 400 * 8 / MEGABYTE)
    assert made.rows.room == 40
    few = on_device.solve(made, tol=1e-6)
    assert few.dual == pytest.approx(peer.dual, rel=1e-6)
    assert made.rows.misses > 400  # rows are computed again
    again = on_device.solve(made, tol=1e-6, start=few.coef)
    assert again.n_iter == 0 and again.dual == pytest.approx(few.dual, rel=1e-12)
    with pytest.raises(CapabilityError, match="needs rows there"):
        on_device.solve(problem(X, y), tol=1e-3)


@devices
def test_budgets_and_interrupts_keep_the_best_model(backend):
    X, y = data(4, 400)
    for stop, status in ((lambda progress: progress.iteration >= 3, Status.STOPPED), (None, Status.INTERRUPTED)):

        def end(progress, stop=stop):
            if stop is not None:
                return stop(progress)
            if progress.iteration == 3:
                raise KeyboardInterrupt
            return False

        made = placed(X, y, 1000.0, backend=backend)
        found = on_device.solve(made, tol=1e-6, budget=Budget(callbacks=(end,)), options=WorkingSetOptions(size=32))
        assert found.status is status
        least = min(entry["primal"] for entry in found.history)
        assert found.primal <= least * (1 + 1e-9)
        values = made.values(found.coef, made.rows.full() @ found.coef, found.intercept)
        assert found.primal == pytest.approx(values.primal, rel=1e-6)


@devices
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_many_classes_weights_and_csr_rows(backend, multi_class, monkeypatch):
    X, y = load_digits(return_X_y=True)
    X, y, new = X[:500], y[:500], X[500:800]
    weight = np.random.default_rng(0).uniform(0.2, 2.0, 500)
    make = partial(KernelSVC, class_weight="balanced", tol=1e-6, gamma=1e-3)
    plain = make(solver_options={"multi_class": multi_class}).fit(X, y, weight)
    model = make(solver_options={"multi_class": multi_class, "backend": backend}).fit(X, y, weight)
    assert model.solver_ == "dual" and "on a device" in model.solver_reason_
    assert model.gap_ <= 1e-5 and model.violation_ <= 1e-6
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-4)
    assert (model.predict(new) == plain.predict(new)).all()
    monkeypatch.setattr("widemargin.estimators.kernel_svm.kernel_svc.FEW_NUMBERS", 0)
    monkeypatch.setattr(DeviceBackend, "free", lambda self: 100_000)  # CSR rows stay on the host, blocks come
    sparse = make(solver_options={"multi_class": multi_class, "backend": backend}).fit(sp.csr_matrix(X), y, weight)
    np.testing.assert_allclose(sparse.intercept_, plain.intercept_, atol=1e-4)
    assert (sparse.predict(sp.csr_matrix(new)) == plain.predict(new)).all()


@devices
def test_steps_in_single_precision_are_certified_in_double(backend):
    X, y = make_moons(600, noise=0.3, random_state=0)
    for C in (1.0, 1e4):  # at the large one single precision cannot reach tol, and the steps go on in double
        options = {"backend": backend, "precision": "single"}
        model = KernelSVC(C=C, gamma=1.0, solver_options=options).fit(X, y)
        exactly = KernelSVC(C=C, gamma=1.0, tol=1e-7, solver_options={"precision": "double"}).fit(X, y)
        scores = model.decision_function(X)
        square = model.dual_coef_[0] @ (scores - model.intercept_)[model.support_]
        signs = 2 * y - 1
        primal = 0.5 * square + C * np.maximum(0.0, 1.0 - signs * scores).sum()
        dual = signs[model.support_] @ model.dual_coef_[0] - 0.5 * square
        assert model.violation_ <= 1e-3
        assert model.gap_ == pytest.approx((primal - dual) / primal, rel=1e-3, abs=1e-8)
        best = 0.5 * (exactly.dual_coef_[0] @ (exactly.decision_function(X) - exactly.intercept_)[exactly.support_])
        best += C * np.maximum(0.0, 1.0 - signs * exactly.decision_function(X)).sum()
        assert best <= primal <= best * (1.0 + model.gap_ + 1e-6)


@devices
def test_rows_held_out_end_a_run(backend):
    X, y = make_moons(3000, noise=0.3, random_state=0)
    model = KernelSVC(tol=None, random_state=0, solver_options={"backend": backend}).fit(X, y)
    assert "on a device" in model.solver_reason_ and model.status_ == "converged"
    assert all("held_out_error" in entry for entry in model.history_)
    assert model.score(X, y) > 0.9


@devices
def test_limits_of_steps_are_those_of_working_sets(backend):
    X, y = make_moons(3000, noise=0.3, random_state=0)
    with pytest.warns(MarginConvergenceWarning, match="max_iter=2"):
        model = KernelSVC(C=100.0, max_iter=2, solver_options={"backend": backend}).fit(X, y)
    assert model.n_iter_.tolist() == [2]


@devices
def test_other_kernels_and_indefinite_ones(backend):
    X, y = data(5, 200)
    for kernel in ("linear", "poly"):
        peer = SVC(kernel=kernel, gamma=0.5, coef0=1.0, tol=1e-6).fit(X, y)
        model = KernelSVC(kernel=kernel, gamma=0.5, coef0=1.0, tol=1e-6, solver_options={"backend": backend}).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-3)
    made = placed(X, y, 10.0, Kernel("sigmoid", 1.0, 3, -1.0), backend=backend)
    assert on_device.solve(made, tol=1e-3).indefinite
