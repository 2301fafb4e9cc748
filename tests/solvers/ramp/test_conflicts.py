"""Proofs against enumeration, conflicts on goals made to contradict themselves, best values against what is known."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.cells import of_pairs
from testing.ramp_problems import random_ramp_problem

from widemargin.estimators.rate_constrained.training import Deterministic, Randomized
from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.problems.rate_constrained import RateConstrainedProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.convex import newton
from widemargin.solvers.ramp.conflicts import diagnose, impossible_subset, lower_bound
from widemargin.solvers.ramp.majorization import MajorizeOptions
from widemargin.solvers.ramp.pool import Candidate, Pool
from widemargin.solvers.ramp.tightening import enforce


def coefficients(alpha: np.ndarray, beta: np.ndarray) -> CellCoefficients:
    """Constraint coefficients from dense tables of shape (k, m)."""
    used = (alpha != 0) | (beta != 0)
    owner, column = np.nonzero(used)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=alpha.shape[0]))])
    zero = np.zeros(alpha.shape[0])
    return of_pairs(zero, zero, indptr, column, alpha[used], beta[used])


def tables(seed: int, k: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Random coefficients, cell weights, and bounds that are often too tight."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 4, k).astype(float)
    alpha, beta = rng.integers(0, 3, (k, m)) / 4.0, rng.integers(0, 3, (k, m)) / 4.0
    low = np.minimum(alpha, beta).T @ weight
    high = np.maximum(alpha, beta).T @ weight
    return alpha, beta, weight, low + rng.uniform(-0.05, 0.5, m) * (high - low)


def least_violation(alpha: np.ndarray, beta: np.ndarray, weight: np.ndarray, gamma: np.ndarray, fine: int) -> float:
    """Largest excess of the best of all classifiers whose masses are multiples of a `fine`-th of each cell."""
    best = np.inf
    for share in itertools.product(np.linspace(0.0, 1.0, fine + 1), repeat=weight.shape[0]):
        positive = np.array(share) * weight
        best = min(best, float((alpha.T @ positive + beta.T @ (weight - positive) - gamma).max()))
    return best


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3), m=st.integers(1, 3))
def test_a_proof_is_a_proof_and_none_is_missed(seed: int, k: int, m: int) -> None:
    alpha, beta, weight, gamma = tables(seed, k, m)
    conflict = list(impossible_subset(coefficients(alpha, beta), weight, gamma))
    if conflict:
        assert least_violation(alpha[:, conflict], beta[:, conflict], weight, gamma[conflict], 8) > 0.0
        for j in conflict:
            rest = [i for i in conflict if i != j]
            assert impossible_subset(coefficients(alpha[:, rest], beta[:, rest]), weight, gamma[rest]) == ()
    else:  # a grid of eighths comes as near as its step allows
        step = float((np.abs(alpha - beta).T @ weight).max()) / 16.0
        assert least_violation(alpha, beta, weight, gamma, 8) <= step + 1e-6


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3), m=st.integers(1, 3))
def test_the_certificate_bounds_every_classifier(seed: int, k: int, m: int) -> None:
    alpha, beta, weight, gamma = tables(seed, k, m)
    v = np.random.default_rng(seed).random(m)
    bound = lower_bound(coefficients(alpha, beta), weight, gamma, v)
    values = [
        float(v @ (alpha.T @ positive + beta.T @ (weight - positive) - gamma))
        for positive in (np.array(share) * weight for share in itertools.product([0.0, 0.5, 1.0], repeat=k))
    ]
    assert min(values) == pytest.approx(bound, abs=1e-12)  # attained at a corner


def test_an_impossible_triple_is_found_among_many() -> None:
    """Shares of three cells of which each pair can be had, all three not; beside constraints that matter to nobody."""
    alpha, beta = np.zeros((3, 6)), np.zeros((3, 6))
    for place, column in enumerate((1, 3, 4)):
        beta[place, column] = 1.0  # cell `place` must be positive, up to 0.2 of it
    alpha[:, 1] = [0.0, 0.5, 0.5]
    alpha[:, 3] = [0.5, 0.0, 0.5]
    alpha[:, 4] = [0.5, 0.5, 0.0]
    alpha[:, 0], beta[:, 2], alpha[:, 5] = 0.1, 0.1, 0.2
    gamma = np.array([1.0, 0.6, 1.0, 0.6, 0.6, 1.0])
    coef, weight = coefficients(alpha, beta), np.ones(3)
    assert impossible_subset(coef, weight, gamma) == (1, 3, 4)
    assert impossible_subset(coef, weight, gamma + 0.5) == ()


# conflicts of models


def two_clouds(gamma: tuple[float, float], *, extra: float | None = None, seed: int = 0) -> RateConstrainedProblem:
    """One feature; constraint 0 asks for positives among cell 1, constraint 1 for few among cell 0.

    Both cells are standard normal, so any threshold gives them the same share of positives: a linear model can meet
    both only where `1 - gamma[0] <= gamma[1]` (about), though the masses alone never contradict. With `extra` a third
    constraint allows that many positives in cell 0, which is met with ease.
    """
    rng = np.random.default_rng(seed)
    n = 400
    X = rng.standard_normal((n, 1))
    cell = (np.arange(n) % 2).astype(np.int32)
    m = 2 if extra is None else 3
    alpha, beta = np.zeros((2, m)), np.zeros((2, m))
    beta[1, 0], alpha[0, 1] = 2.0 / n, 2.0 / n
    bounds = list(gamma)
    if extra is not None:
        alpha[0, 2] = 2.0 / n
        bounds.append(extra)
    coef = coefficients(alpha, beta)._replace(alpha0=np.array([1.0, 0.0]) / n, beta0=np.array([0.0, 1.0]) / n)
    return RateConstrainedProblem(
        rows=RowBlocks([(X, None)]), weight=np.ones(n), cell=cell, coef=coef, gamma=np.array(bounds), lam=1e-3,
        fit_intercept=True, cell_weight=np.full(2, n / 2), objective_scale=1.0, constraint_scale=np.ones(m),
    )  # fmt: skip


def diagnosed(problem: RateConstrainedProblem, measures: Any = Deterministic, budget: Budget | None = None) -> Any:
    pool = enforce(problem, newton.solve, Pool(measures(problem)), MajorizeOptions())
    first = pool.best
    assert first.violation > 0.0
    return diagnose(problem, newton.solve, measures, pool, budget=budget or Budget()), first


def pool_of(candidate: Candidate, own: Deterministic) -> Pool:
    pool = Pool(own)
    pool.add(candidate)
    return pool


def attainable(problem: RateConstrainedProblem) -> tuple[float, float]:
    """Least excess of constraint 0 where 1 is met, and the other way round, over every linear model of one feature."""
    X = problem.rows.dot(np.ones(1))
    best = [np.inf, np.inf]
    for sign in (1.0, -1.0):
        z = np.sort(sign * X)
        for threshold in [z[0] - 1, *(0.5 * (z[1:] + z[:-1])), z[-1] + 1]:
            _, excess = problem.values(problem.hard_mass(sign * X - threshold))
            for j in (0, 1):
                if excess[1 - j] <= 1e-10:
                    best[j] = min(best[j], excess[j])
    return best[0], best[1]


@pytest.mark.parametrize("extra", [None, 0.97])
def test_a_conflict_of_two_is_found_with_the_best_values(extra: float | None) -> None:
    problem = two_clouds((0.3, 0.4), extra=extra)
    found, first = diagnosed(problem)
    assert (found.conflict, found.irreducible, found.proved) == ((0, 1), True, False)
    assert impossible_subset(problem.coef, problem.cell_weight, problem.gamma) == ()
    exact = attainable(problem)
    for j in (0, 1):
        reached = [problem.values(problem.hard_mass(problem.scores(w, b)))[1] for w, b in found.nearest[j]]
        assert all(excess[1 - j] <= 1e-10 for excess in reached)  # the other holds
        assert exact[j] - 1e-12 <= min(excess[j] for excess in reached) <= exact[j] + 0.05
    assert found.best.violation <= first.violation
    _, excess = problem.values(problem.hard_mass(problem.scores(found.best.w, found.best.b)))
    np.testing.assert_allclose(found.best.excess, excess, atol=1e-12)


def test_what_is_not_needed_for_the_conflict_is_left_out() -> None:
    """Either cap alone contradicts the floor; a first model that misses all three makes all of them suspects."""
    problem = two_clouds((0.3, 0.4), extra=0.35)
    own = Deterministic(problem)
    first = enforce(problem, newton.solve, Pool(own), MajorizeOptions()).best
    first = replace(first, excess=np.maximum(first.excess, 0.01))
    found = diagnose(problem, newton.solve, Deterministic, pool_of(first, own), budget=Budget())
    assert (found.conflict, found.irreducible, found.proved) == ((0, 2), True, False)


def test_a_proved_conflict_is_exact_and_still_has_best_values() -> None:
    problem = two_clouds((0.3, 0.4), extra=0.97)
    alpha, beta = np.zeros((2, 3)), np.zeros((2, 3))
    beta[1, 0], alpha[0, 1] = 1.0 / 200, 1.0 / 200
    alpha[1, 2] = 1.0 / 200  # at most half of cell 1 positive beside at least 0.7 of it
    problem = replace(problem, gamma=np.array([0.3, 0.9, 0.5]))
    coef = coefficients(alpha, beta)._replace(alpha0=problem.coef.alpha0, beta0=problem.coef.beta0)
    found, _ = diagnosed(replace(problem, coef=coef))
    assert (found.conflict, found.irreducible, found.proved) == ((0, 2), True, True)
    assert set(found.nearest) == {0, 2}


def test_ramp_rates_are_diagnosed_by_ramp_rates() -> None:
    problem = two_clouds((0.3, 0.4))
    found, _ = diagnosed(problem, Randomized)
    assert found.conflict == (0, 1)
    for j in (0, 1):
        for w, b in found.nearest[j]:
            assert problem.ramp_values(w, problem.scores(w, b))[1][1 - j] <= 1e-9


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_contradicting_bounds_are_named(seed: int) -> None:
    """At least 60% negative and at least 60% positive of the same rows, beside an idle third constraint."""
    problem, _, _ = random_ramp_problem(seed, 80, 3, 3, feasible=False)
    problem = replace(problem, gamma=np.array([0.4, 0.4, 10.0]))
    found, _ = diagnosed(problem)
    assert (found.conflict, found.proved) == ((0, 1), True)


def test_a_feasible_model_that_the_searches_find_is_given_back() -> None:
    """The first model is a bad one, not the goal an impossible one."""
    problem = two_clouds((0.6, 0.6))
    own = Deterministic(problem)
    first = enforce(problem, newton.solve, Pool(own), MajorizeOptions()).best
    assert first.violation == 0.0
    w, b = np.zeros(1), 5.0
    bad = replace(first, w=w, b=b, objective=own.values(w, b)[0], excess=own.values(w, b)[1])
    assert bad.violation > 0.0
    found = diagnose(problem, newton.solve, Deterministic, pool_of(bad, own), budget=Budget())
    assert found.best.violation == 0.0
    assert found.conflict == ()


def test_a_spent_budget_ends_the_searches() -> None:
    problem = two_clouds((0.3, 0.4))
    budget = Budget()
    own = Deterministic(problem)
    first = enforce(problem, newton.solve, Pool(own), MajorizeOptions()).best
    budget.stopped = True
    found = diagnose(problem, newton.solve, Deterministic, pool_of(first, own), budget=budget)
    assert not found.irreducible
    assert found.best is first


def test_the_same_goal_gets_the_same_diagnosis() -> None:
    one, other = (diagnosed(two_clouds((0.3, 0.4)))[0] for _ in range(2))
    assert one.conflict == other.conflict
    for j in one.nearest:
        for (w, b), (same, again) in zip(one.nearest[j], other.nearest[j], strict=True):
            np.testing.assert_array_equal(w, same)
            assert b == again
