"""Certificates of kernel SVMs in double precision, whatever precision the steps used."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from certified_svms import ROUTES, check, holds, true_certificate
from fresh import fresh_seed
from widemargin import KernelSVC
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.certificate import certified, exact_scores, near_scores
from widemargin.solvers.kernel_svm.dual import nested, working_set
from widemargin.solvers.kernel_svm.problem import KernelProblem


def waves(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10)) * np.geomspace(0.2, 3.0, 10)
    return X, np.where(np.sin(X[:, :5]).sum(axis=1) + 0.8 * rng.normal(size=n) > 0.0, 1, -1)


def test_no_true_violation_is_above_twice_the_reported_one():
    rng = np.random.default_rng(fresh_seed())
    records = [check(rng, 0.5, routes=["auto"], most=2500) for _ in range(8)]
    records += [check(rng, 0.3, routes=[route], most=1000) for route in dict.fromkeys(ROUTES)]
    records.append(check(rng, 0.5, routes=["auto"], least=5000, most=6000))
    assert not [record for record in records if not holds(record)]
    late = [r for r in records if r["route"] == "auto" and r["status"] == "converged" and r["true"] > 1.001e-3]
    assert not late


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


def test_only_scores_that_decide_are_computed_anew():
    """Scores wrong by what the bound of the rounding allows: the certificate is that of the right ones."""
    X, y = waves(1500)
    rows = KernelRows(Kernel("rbf", gamma=0.1), X)
    problem = KernelProblem(rows, y.astype(float), np.full(1500, 1.0))
    result = working_set.solve(problem, tol=1e-4)
    error = 1e-4
    off = replace(result, scores=result.scores + np.random.default_rng(1).uniform(-error, error, 1500))
    assert problem.values(off.coef, off.scores, off.intercept).violation > 1.5 * result.violation
    asked = []

    class Counted(KernelRows):
        def in_double(self, part, cache_size):
            return Counted(self.kernel, X[part])

        def add(self, rows, change, scores, columns=None):
            asked.append(columns.shape[0])
            super().add(rows, change, scores, columns)

    exact = partial(exact_scores, Counted(rows.kernel, X), np.arange(1500), 100.0)
    told, known = certified(problem, off, exact, np.full(1500, error))
    np.testing.assert_allclose(told.scores[known], (rows.full() @ off.coef)[known], atol=1e-6)
    assert told.violation == pytest.approx(result.violation, abs=1e-9)
    assert told.gap == pytest.approx(result.gap, rel=1e-3)
    free = int(((result.coef != 0.0) & (np.abs(result.coef) < 1.0)).sum())
    assert free <= asked[0] < 1.1 * free
    # Nothing is known of the errors: all scores are computed.
    told, known = certified(problem, off, exact, np.full(1500, np.inf))
    assert known.all()
    assert told.violation == pytest.approx(result.violation, abs=1e-9)
    assert told.primal == pytest.approx(result.primal, rel=1e-9) and asked[1] == 1500


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_no_value_is_further_off_than_the_bound(make):
    X = np.random.default_rng(fresh_seed()).normal(size=(300, 30)) * np.geomspace(0.01, 3.0, 30) + 1.0
    single = KernelRows(Kernel("rbf", gamma=0.05), make(X), dtype=np.float32)
    errors, everything = single.full() - single.in_double(np.arange(300), 100.0).full(), np.arange(300)
    assert errors.any()
    for coef in np.eye(300)[:20]:
        assert (np.abs(errors @ coef) < single.rounding(everything, coef)).all()
    assert (single.rounding(everything, np.ones(300)) < 300 * 1e-4).all()


def test_scores_beyond_the_margin_need_not_be_known():
    X, y = waves(1500)
    rows = KernelRows(Kernel("rbf", gamma=0.1), X)
    problem = KernelProblem(rows, y.astype(float), np.full(1500, 1.0))
    result = working_set.solve(problem, tol=1e-4)
    margin = y * (result.scores + result.intercept)
    stale = np.where((result.coef == 0.0) & (margin > 1.1), result.scores + 0.05 * y, result.scores)
    exact = partial(exact_scores, rows, np.arange(1500), 100.0)
    told, _ = certified(problem, replace(result, scores=stale), exact, np.full(1500, 1e-4))
    assert told.violation == pytest.approx(result.violation, abs=1e-9)


def test_scores_that_lack_the_last_steps_are_computed_anew():
    X, y = waves(1500)
    rows = KernelRows(Kernel("rbf", gamma=0.1), X)
    problem = KernelProblem(rows, y.astype(float), np.full(1500, 1.0))
    half = np.arange(1500) < 750
    result = working_set.solve(replace(problem, upper=half.astype(float)), tol=1e-3)
    late = np.where(half, 0.0, 5.0)  # hides that many of the other half violate
    hidden = replace(result, scores=result.scores + late * y)
    shown = problem.values(hidden.coef, hidden.scores, hidden.intercept).violation
    exact = partial(exact_scores, rows, np.arange(1500), 100.0)
    told, _ = certified(problem, replace(hidden, stale=late), exact, np.full(1500, 1e-9))
    scores = rows.full() @ result.coef
    wanted = problem.values(result.coef, scores, problem.optimal_bias(scores)).violation
    assert told.violation == pytest.approx(wanted, rel=1e-3) and shown < 0.5 * wanted


def test_nested_subsamples_say_how_stale_their_scores_are():
    X, y = waves(4000)
    rows = KernelRows(Kernel("rbf", gamma=0.1), X)
    result = nested.solve(KernelProblem(rows, y.astype(float), np.full(4000, 1.0)))
    off = np.abs(rows.full() @ result.coef - result.scores)
    assert (off <= result.stale + 1e-9).all() and off.max() > 1e-6


def test_near_scores_leave_out_what_they_say():
    rng = np.random.default_rng(fresh_seed())
    X, coef = rng.normal(size=(2500, 3)), rng.normal(size=2500) * (rng.random(2500) < 0.4)
    rows, some = KernelRows(Kernel("rbf", gamma=80.0), X, dtype=np.float32), np.flatnonzero(rng.random(2500) < 0.7)
    count, whose = rows._count, (rows, np.arange(2500), 100.0)
    wanted, before = exact_scores(*whose, coef, some), count.evaluations
    for reach in (22.0, 40.0):
        made = near_scores(*whose, coef, some, reach=reach)
        assert np.abs(made - wanted).max() <= 2.0**-reach * np.abs(coef).sum() + 1e-12
    assert count.evaluations - before < 1.5 * before  # fewer than twice all pairs
