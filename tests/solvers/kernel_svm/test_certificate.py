"""Certificates of kernel SVMs in double precision, whatever precision the steps used."""

from dataclasses import replace

import numpy as np
import pytest

from certified_svms import check, holds, true_certificate
from fresh import fresh_seed
from widemargin import KernelSVC
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.certificate import certified
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.problem import KernelProblem


def waves(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10)) * np.geomspace(0.2, 3.0, 10)
    return X, np.where(np.sin(X[:, :5]).sum(axis=1) + 0.8 * rng.normal(size=n) > 0.0, 1, -1)


def test_no_true_violation_is_above_twice_the_reported_one():
    rng = np.random.default_rng(fresh_seed())
    records = [check(rng, 0.5, most=2500) for _ in range(24)] + [check(rng, 0.5, least=5000, most=6000)]
    assert not [record for record in records if not holds(record)]
    assert not [record for record in records if record["status"] == "converged" and record["true"] > 1.001e-3]


@pytest.mark.parametrize("solver", ["auto", "smo", "nested-dual"])
def test_single_rows_of_a_large_cost_end_in_double_precision(solver):
    X, y = waves(700)
    svc = KernelSVC(C=1e4, gamma=0.1, solver=solver, solver_options={"precision": "single"}).fit(X, y)
    violation, gap = true_certificate(svc, X, y)
    assert svc.status_ == "converged"
    assert violation <= 1.001e-3
    assert violation == pytest.approx(svc.violation_, rel=1e-3)
    assert gap == pytest.approx(svc.gap_, rel=1e-3)


def test_values_left_out_in_spatial_order_are_certified_too():
    X, y = waves(1500)
    svc = KernelSVC(C=1000.0, gamma=20.0, solver="spatial-dual").fit(X[:, 6:8], y)
    violation, _ = true_certificate(svc, X[:, 6:8], y)
    assert violation <= 2.0 * svc.violation_


def test_a_bound_of_the_rounding_is_added_where_it_is_small():
    """Errors of the scores of known size: what is reported holds for them, and all scores are not computed."""
    X, y = waves(1500)
    rows = KernelRows(Kernel("rbf", gamma=0.1), X)
    problem = KernelProblem(rows, y.astype(float), np.full(1500, 1.0))
    result = working_set.solve(problem, tol=1e-4)
    rng, asked = np.random.default_rng(1), []

    def exact(part):
        asked.append(part.shape[0])
        return rows.in_double(part, 100.0)

    off = replace(result, scores=result.scores + rng.uniform(-1e-4, 1e-4, 1500))
    told = certified(problem, off, exact, 1.0)
    assert result.violation + 2e-4 <= told.violation <= result.violation + 6e-4
    assert result.gap < told.gap <= result.gap + 0.01
    assert asked[0] < 1500
    # No bound is enough for a tolerance that is nearly met: then all scores are computed, and the errors are gone.
    told = certified(problem, off, exact, 1.5e-4)
    assert told.violation == pytest.approx(result.violation, abs=1e-9)
    assert asked[-1] == 1500


def test_scores_beyond_the_margin_need_not_be_known():
    X, y = waves(1500)
    rows = KernelRows(Kernel("rbf", gamma=0.1), X)
    problem = KernelProblem(rows, y.astype(float), np.full(1500, 1.0))
    result = working_set.solve(problem, tol=1e-4)
    margin = y * (result.scores + result.intercept)
    stale = np.where((result.coef == 0.0) & (margin > 1.1), result.scores + 0.05 * y, result.scores)
    told = certified(problem, replace(result, scores=stale), lambda part: rows.in_double(part, 100.0), 1.0)
    assert told.violation == pytest.approx(result.violation, abs=1e-9)
