"""Newton steps on risks: by a system of one number a row as by that of the unknowns, dense as sparse, stiff or not."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import RiskClassifier
from widemargin.linalg import cholesky
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import SURROGATES
from widemargin.losses.risks import make_risk
from widemargin.solvers.smooth import risk_problem
from widemargin.solvers.smooth.risk_problem import RiskProblem


def problem(n=12, d=30, fit_intercept=True, make=np.asarray, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    y, share = np.where(rng.random(n) < 0.4, 1.0, -1.0), rng.random(n) + 0.1
    return RiskProblem(
        RowBlocks([(make(X), None)]), y, share / share.sum(), 0.01, 0.0, make_risk("mean", None)[0],
        SURROGATES["logistic"], fit_intercept,
    )  # fmt: skip


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("taken_off", [0, 1, 3])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_few_rows_give_the_step_of_the_whole_system(make, taken_off, fit_intercept, monkeypatch):
    asked, rng = problem(fit_intercept=fit_intercept, make=make), np.random.default_rng(1)
    curvature = asked.share * rng.random(12)
    curvature[3] = 0.0  # a row without curvature counts for nothing
    # The matrix by row stays positive semi-definite: each column is a share of the curvature.
    columns = curvature[:, None] * rng.random((12, taken_off)) / np.sqrt(4.0 * curvature.sum())
    point, gradient = rng.normal(size=(2, asked.n_unknowns))
    given = (point, gradient, curvature, columns, 0.0)
    by_rows = asked.newton(*given)
    monkeypatch.setattr(risk_problem, "_STIFF", 0.0)
    np.testing.assert_allclose(by_rows, asked.newton(*given), rtol=1e-8, atol=1e-8 * np.abs(by_rows).max())


def test_only_few_rows_that_are_not_stiff_go_that_way(monkeypatch):
    asked = []
    monkeypatch.setattr(RiskProblem, "_newton_by_rows", lambda self, *given: asked.append(self) or np.zeros(31))
    few, many = problem(), problem(n=40)
    for each, stiff in ((few, 1.0), (many, 1.0), (few, 1e12)):
        n = each.rows.n_rows
        each.newton(np.zeros(31), np.ones(31), stiff * each.share, np.zeros((n, 0)), 0.0)
    assert asked == [few]


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e9])
@pytest.mark.parametrize("risk", ["mean", "cvar", "spectral", "tilted", "chi-square"])
def test_few_rows_of_many_columns_are_solved_to_the_gap(risk, C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 70))
    y = X[:, 0] + rng.normal(size=40) > 0.0
    clf = RiskClassifier(risk, C=C).fit(X, y)
    assert clf.status_ == "converged" and clf.gap_[0] <= 1e-6


def test_tails_of_rows_with_more_columns_than_are_factored_converge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 1510))
    y = X[:, :20].sum(axis=1) + 3.0 * rng.normal(size=800) > 0.0
    # By conjugate gradients a thousand steps were not enough.
    clf = RiskClassifier("spectral", max_iter=50).fit(X, y)
    assert clf.status_ == "converged" and clf.gap_[0] <= 1e-6


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_last_factor_gives_the_next_step_until_the_curvatures_are_others(fit_intercept, monkeypatch):
    asked, rng = problem(900, 300, fit_intercept), np.random.default_rng(1)
    asked = replace(asked, rows=RowBlocks([(rng.normal(size=(900, 300)) * 10.0 ** rng.uniform(-3, 3, 300), None)]))
    point, gradient = rng.normal(size=(2, asked.n_unknowns)) * asked.back(asked.share)
    none = np.zeros((900, 0))
    factored = []
    monkeypatch.setattr(risk_problem, "factor", lambda system: factored.append(1) or cholesky.factor(system))
    asked.newton(point, gradient, asked.share, none, 0.0)
    near, far = asked.share * rng.uniform(0.7, 1.0, size=900), asked.share * (rng.random(900) < 0.4)
    for curvature, factors in ((near, 1), (far, 2), (0.0 * near, 3)):
        step = asked.newton(point, gradient, curvature, none, 0.0)
        assert len(factored) == factors
        exact = replace(asked).newton(point, gradient, curvature, none, 0.0)  # a problem made of another has no factor
        factored.pop()
        # What a step promises is its length in the norm that does not care how columns are scaled.
        assert gradient @ step == pytest.approx(gradient @ exact, rel=1e-4)
    assert (asked.newton(point, 0.0 * gradient, near, none, 0.0) == 0.0).all()
