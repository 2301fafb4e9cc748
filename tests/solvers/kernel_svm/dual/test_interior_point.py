"""The interior point method for linear kernels, against clarabel, the working-set dual, and columns of any scale."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from testing.kernel_svms import RBF, data, exact, problem

from widemargin import KernelSVC
from widemargin.exceptions import CapabilityError, MarginConvergenceWarning
from widemargin.kernels.functions import Kernel
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.dual import interior_point, working_set
from widemargin.solvers.kernel_svm.dual.interior_point import InteriorPointOptions, solve

LINEAR = Kernel("linear")
AT_ONCE = InteriorPointOptions(begin=0)
"""Without steps along pairs of rows, which would solve small problems."""


def raw(seed, n=400):
    """Columns of very different scales and means, one without variation, and overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = np.where(X[:, 0] - X[:, 1] + rng.normal(size=n) > 0.3, 1.0, -1.0)
    return np.column_stack((X * [1.0, 300.0, 0.01, 5.0, 1e3] + [0.0, 1e3, 0.0, 7.0, 2e3], np.ones(n))), y


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), C=st.sampled_from([0.01, 1.0, 100.0]), fit_intercept=st.booleans())
def test_the_exact_optimum(seed, C, fit_intercept):
    X, y = data(seed, 60, 4)
    upper = C * np.random.default_rng(seed).integers(0, 4, 60).astype(float)
    upper[:2] = C
    p = problem(X, y, upper, LINEAR, fit_intercept)
    result, best = solve(p, tol=1e-7, options=AT_ONCE), exact(p)
    assert result.status is Status.CONVERGED and result.violation <= 1e-7
    assert result.primal == pytest.approx(best, rel=1e-6) and result.dual == pytest.approx(best, rel=1e-6)
    # The certificate is that of these coefficients, within their bounds.
    low, high = p.bounds
    assert (low <= result.coef).all() and (result.coef <= high).all()
    at = p.values(result.coef, X @ (X.T @ result.coef), result.intercept)
    np.testing.assert_allclose((result.primal, result.dual), at[:2], rtol=1e-9)
    assert at.violation <= 1e-6


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_raw_columns_take_as_few_steps_as_scaled_ones(C):
    X, y = raw(0)
    result = solve(problem(X, y, C, LINEAR), options=AT_ONCE)
    assert result.status is Status.CONVERGED and result.violation <= 1e-3 and abs(result.gap) < 1e-4
    assert result.n_iter < 60
    # The dual does not come near within many more steps.
    behind = working_set.solve(problem(X, y, C, LINEAR), budget=Budget(callbacks=(lambda at: at.iteration > 50,)))
    assert behind.violation > 1e-1


@pytest.mark.parametrize("n", [2, 3, 40])
def test_alike_rows_and_separable_ones(n):
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], [n // 2, n - n // 2], axis=0)
    y = np.where(X[:, 0] > 0.5, 1.0, -1.0)
    for options in (AT_ONCE, InteriorPointOptions()):
        result = solve(problem(X, y, 1e3, LINEAR), options=options)
        assert result.status is Status.CONVERGED
        assert result.primal == pytest.approx(1.0, rel=1e-3)  # w = (1, -1)
    flat = solve(problem(np.ones((n, 3)), y, 1.0, LINEAR), options=AT_ONCE)
    assert flat.primal == pytest.approx(2.0 * (n // 2), rel=1e-6)  # nothing but a bias


def test_few_rows_are_solved_by_steps_along_pairs():
    X, y = data(1, 100)
    result = solve(problem(X, y, kernel=LINEAR))
    assert result.n_iter == 1 and result.status is Status.CONVERGED


def test_a_limit_of_time_and_callbacks_are_kept():
    X, y = raw(1)
    seen = []

    def end(at):
        seen.append(at)
        return len(seen) >= 4

    result = solve(problem(X, y, kernel=LINEAR), options=AT_ONCE, budget=Budget(callbacks=(end,)))
    assert result.status is Status.STOPPED and {at.stage for at in seen} == {"working set", "interior point"}
    assert abs(result.coef.sum()) <= 1e-6 * np.abs(result.coef).sum()
    at_once = solve(problem(X, y, kernel=LINEAR), options=AT_ONCE, budget=Budget(0.0))
    assert at_once.status is Status.TIME_LIMIT


def test_another_kernel_is_refused():
    X, y = data()
    with pytest.raises(CapabilityError, match="needs kernel='linear'"):
        solve(problem(X, y, kernel=RBF))


@pytest.mark.filterwarnings("ignore:.*Scale them:widemargin.exceptions.KernelWarning")
@pytest.mark.filterwarnings("ignore:.*hardly regularises:widemargin.exceptions.KernelWarning")
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_the_estimator_takes_it_for_raw_columns(multi_class):
    X, y = raw(2, 900)
    y = y + (X[:, 3] > 7.0)  # four classes
    model = KernelSVC(kernel="linear", C=10.0, solver_options={"multi_class": multi_class})
    dense, sparse, single = (clone(model).fit(Z, y) for Z in (X, sp.csr_matrix(X), X.astype(np.float32)))
    assert dense.status_ == "converged" and dense.violation_ <= 1e-3 and "interior-point" in dense.solver_
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-3)
    assert single.violation_ <= 1e-3 and (single.predict(X) == dense.predict(X)).mean() > 0.99
    with pytest.raises(CapabilityError, match="'interior-point' needs kernel='linear' and a tol"):
        KernelSVC(solver="interior-point").fit(X / X.std(axis=0).clip(1.0), y)
    with pytest.raises(CapabilityError, match="'interior-point' computes in its own way, without backend='torch'"):
        KernelSVC(solver="interior-point", kernel="linear", solver_options={"backend": "torch"}).fit(X, y)


@pytest.mark.filterwarnings("ignore:.*(Scale them|hardly regularises):widemargin.exceptions.KernelWarning")
def test_raw_columns_that_are_many_end_too():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(900, 300)) * np.exp(2.0 * rng.normal(size=300))
    y = (X / np.abs(X).mean(axis=0))[:, :20].sum(axis=1) + 4.0 * rng.normal(size=900) > 2.0
    model = KernelSVC(kernel="linear", max_iter=-1).fit(X, y)
    # Working sets alone take thousands.
    assert model.solver_ == "interior-point" and model.status_ == "converged" and model.n_iter_[0] < 60
    assert model.gap_ <= 1e-3


@pytest.mark.filterwarnings("ignore:.*(Scale them|hardly regularises):widemargin.exceptions.KernelWarning")
@pytest.mark.parametrize("C", [10.0, 1000.0])
def test_rows_that_are_parted_have_the_same_solution_at_any_large_C(C):
    """Squares of raw columns: no coefficient is above 1e-5, and C says nothing of which are 0."""
    rng = np.random.default_rng(8)
    y = rng.random(800) < 0.5
    X = 1500.0 * np.where(y[:, None], 2.0 * rng.normal(size=(800, 12)), 12**-0.5 * 2.0 + rng.normal(size=(800, 12)))
    first, second = np.triu_indices(12)
    Z = np.column_stack((X, X[:, first] * X[:, second]))
    model = KernelSVC(kernel="linear", C=C).fit(Z, y)
    assert model.status_ == "converged" and model.violation_ <= 1e-3 and model.score(Z, y) == 1.0
    assert np.abs(model.dual_coef_).max() < 1e-5


def test_few_working_sets_solve_what_is_easy():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(700, 500))
    y = X[:, 0] + rng.normal(size=700) > 0.0
    seen = []
    model = KernelSVC(kernel="linear", C=0.01, solver_options={"callbacks": [seen.append]}).fit(X, y)
    assert model.solver_ == "interior-point" and {at.stage for at in seen} == {"working set"}


def test_the_path_keeps_off_its_bounds():
    X, y = raw(3, 50)
    coef, steps, _ = interior_point.optimum(X, problem(X, y, kernel=LINEAR), Budget(), InteriorPointOptions(steps=3))
    assert steps == 3 and np.isfinite(coef).all()


@pytest.mark.filterwarnings("ignore:.*hardly regularises:widemargin.exceptions.KernelWarning")
@pytest.mark.parametrize("classes", [2, 3])
def test_columns_far_from_0_are_those_near_it(classes):
    """Seconds since 1970: their squares have no digits left for what parts the rows."""
    X, y = raw(4)
    X = X[:, [0, 2]] / X[:, [0, 2]].std(axis=0)
    y = y + (X[:, 1] > 0.5) * (classes - 2)
    near = KernelSVC(kernel="linear", C=1e4).fit(X, y)
    far = KernelSVC(kernel="linear", C=1e-2).fit(1e3 * X + 1.7e9, y)
    np.testing.assert_allclose(far.coef_ * 1e3, near.coef_, rtol=1e-2, atol=1e-3)
    assert (far.predict(1e3 * X + 1.7e9) == near.predict(X)).mean() > 0.99


def test_an_interrupt_on_the_path_keeps_the_best_model():
    X, y = raw(5)

    def interrupted(at):
        if at.stage == "interior point" and at.iteration == 6:
            raise KeyboardInterrupt

    p = problem(X, y, kernel=LINEAR)
    result = solve(p, options=AT_ONCE, budget=Budget(callbacks=(interrupted,)))
    assert result.status is Status.INTERRUPTED
    assert np.isfinite(result.primal) and result.primal < p.upper.sum()  # better than w = 0


@pytest.mark.filterwarnings("ignore:.*(Scale them|hardly regularises):widemargin.exceptions.KernelWarning")
def test_a_problem_beyond_double_precision_ends():
    """Numbers of customers and amounts of money at a large C: the path ends, and no coefficients hold its weights."""
    rng, n = np.random.default_rng(3), 200
    X = np.column_stack((rng.integers(15_500_000, 15_800_000, n), rng.uniform(0, 2e5, n), rng.integers(18, 80, n)))
    y = rng.random(n) < 0.1 + 0.5 * (X[:, 2] > 50)
    model = KernelSVC(kernel="linear", C=1e4, solver_options={"time_budget": 30.0})
    with pytest.warns(MarginConvergenceWarning, match="rounding: use float64 rows, scale the features"):
        model.fit(X, y)
    assert model.status_ == "max_iter" and model.n_iter_[0] < 400
    assert model.violation_ > 1e-3 and 0.0 < model.gap_ < 0.01
