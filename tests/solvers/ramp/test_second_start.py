"""The second start: when it is made, and what it is worth."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from testing.cells import of_pairs
from testing.ramp_problems import random_ramp_problem, scores_of_rows

from widemargin.estimators.rate_constrained.training import Deterministic, Randomized
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.problems.rate_constrained import RateConstrainedProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.convex import newton
from widemargin.solvers.ramp import search as ramp_search
from widemargin.solvers.ramp.majorization import MajorizeOptions, RampResult
from widemargin.solvers.ramp.pool import Candidate, Pool
from widemargin.solvers.ramp.search import search as search_from
from widemargin.solvers.ramp.tightening import enforce


class Counting(Deterministic):
    """Counts how often each solution is judged."""

    def __init__(self, problem: RateConstrainedProblem) -> None:
        super().__init__(problem)
        self.seen: list[bytes] = []

    def judge(self, solution: RampResult) -> Candidate:
        self.seen.append(solution.w.tobytes() + np.float64(solution.b).tobytes())
        return super().judge(solution)


def search(problem: RateConstrainedProblem, *, soft: bool = False, **options: Any) -> tuple[Pool, Counting]:
    hard = Counting(problem)
    measures = Randomized(problem) if soft else hard
    options = {"budget": Budget(), **options}
    found = search_from(problem, newton.solve, measures, MajorizeOptions(), hard=hard, **options)
    return found, hard


def missed(seed: int) -> RateConstrainedProblem:
    """A problem that no model meets."""
    problem, _, _ = random_ramp_problem(seed, 120, 4, 2, lam=5e-3)
    return replace(problem, gamma=problem.gamma - 0.25)


def precise(seed: int, floor: float = 0.85, n: int = 300) -> RateConstrainedProblem:
    """Fewest errors at a precision of at least `floor`; one positive in four rows. "All negative" meets it, idly."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    positive = X[:, 0] + 0.8 * rng.standard_normal(n) > 0.9
    weight = np.bincount(positive.astype(int)).astype(float)
    coef = of_pairs(  # floor (TP + FP) - TP <= 0, with the positives' side written as what they miss
        np.array([1.0, 0.0]) / n, np.array([0.0, 1.0]) / n, np.array([0, 1, 2]), np.array([0, 0]),
        np.array([floor, 0.0]) / n, np.array([0.0, 1.0 - floor]) / n,
    )  # fmt: skip
    return RateConstrainedProblem(
        rows=RowBlocks([(X, None)]), weight=np.ones(n), cell=positive.astype(np.int32), coef=coef,
        gamma=np.array([(1.0 - floor) * weight[1] / n]), lam=10.0 / n, fit_intercept=True, cell_weight=weight,
        objective_scale=1.0, constraint_scale=np.ones(1),
    )  # fmt: skip


def test_it_is_never_worse_than_one_start_and_never_worse_than_the_shifted_svm() -> None:
    won = 0
    for seed in range(6):
        problem = precise(seed)
        own = Deterministic(problem)
        own.moves = None  # a single descent, and nothing done to it afterwards
        one = enforce(problem, newton.solve, Pool(own), MajorizeOptions()).best
        both = search(problem)[0].best
        assert not one.beats(both)
        won += both.objective < one.objective - 0.005
        svm = newton.solve(problem.unconstrained().majorise(np.zeros(problem.rows.n_rows)), tol=1e-4)
        judged = own.judge(replace(both.solution, w=svm.w, b=svm.b))
        assert (both.violation, both.objective) <= (judged.violation, judged.objective + 1e-3)
    assert won >= 1


def test_the_plain_svm_is_judged_once() -> None:
    for problem in (*map(precise, range(4)), *map(missed, range(4))):
        _, hard = search(problem)
        assert len(set(hard.seen)) == len(hard.seen)


def test_a_given_start_is_used_and_ramp_rates_are_enforced_where_asked() -> None:
    problem, w, b = random_ramp_problem(1, 120, 4, 2, lam=5e-3)
    found, _ = search(problem, start=(w, b))
    assert found.best.violation == 0.0
    soft, _ = search(problem, soft=True)
    _, excess = problem.ramp_values(soft.best.w, problem.scores(soft.best.w, soft.best.b))
    np.testing.assert_allclose(soft.best.excess, excess, atol=1e-12)


def test_without_constraints_or_budget_there_is_one_start() -> None:
    problem = missed(0)
    free, hard = search(problem.unconstrained())
    assert len(hard.seen) <= 6  # five rungs, and the asked regulariser again where a stronger one was better
    assert free.n_rounds == 0
    spent, hard = search(problem, budget=Budget(seconds=0.0))
    assert len(hard.seen) == 1
    assert spent.best.violation > 0.0


def test_the_search_ends_at_a_model_without_error_that_meets_every_bound() -> None:
    # The positives lie beyond a gap, so every rung of the ladder finds them; with one label wrong none can.
    problem = precise(0)
    block = problem.rows.blocks[0]  # type: ignore[union-attr]
    gap = replace(problem, rows=RowBlocks([(block.X + 3.0 * problem.cell[:, None], None)]))
    found, hard = search(gap)
    assert found.best.perfect
    assert (found.best.violation, found.best.objective) == (0.0, 0.0)
    assert len(hard.seen) == 3
    assert found.n_rounds == 0
    wrong = gap.cell.copy()
    wrong[int(np.argmax(scores_of_rows(gap, np.ones(4), 0.0)))] = 0
    found, hard = search(replace(gap, cell=wrong, cell_weight=np.bincount(wrong, gap.weight)))
    assert not found.best.perfect
    assert found.best.objective >= 1.0 / 300 - 1e-12
    assert len(hard.seen) > 3


def test_an_interrupt_in_the_second_start_keeps_the_first_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ramp_search, "OPTIONS", replace(ramp_search.OPTIONS, few_features=0))
    problem = precise(0)

    class Breaking(Counting):
        def judge(self, solution: RampResult) -> Candidate:
            if not solution.multipliers.any() and self.seen:  # the plain SVM
                raise KeyboardInterrupt
            return super().judge(solution)

    hard, budget = Breaking(problem), Budget()
    found = search_from(problem, newton.solve, hard, MajorizeOptions(), hard=hard, budget=budget)
    assert budget.interrupted
    assert found.best.violation == 0.0
    assert not any(member.beats(found.best) for member in found.members)
