"""What a learner returns, and how its run is watched."""

import math
from dataclasses import dataclass, field

from widemargin.solvers.base import Budget, Status
from widemargin.structured.learners.bound import proved_primal
from widemargin.structured.learners.passes import Passes, Responses
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.state import Blocks, norm2
from widemargin.structured.model import Weights

__all__ = ["LearnerResult", "Watch", "next_look", "primal_value"]


@dataclass(frozen=True)
class LearnerResult:
    """Weights with their certificate.

    Attributes
    ----------
    weights : Weights
    blocks : Blocks
        Dual point to go on from; its weights may be others than `weights`, which may be an average.
    primal : float
        Upper bound of the objective of `weights`, `1/2 |w|^2 + C sum_i upper_i`.
    dual : float
        Lower bound of the optimum.
    certified : bool
        Whether the oracle's answers are exact; else `primal` is relative to the best labels it found.
    proved : float
        Upper bound of the same that holds for all labels: `primal` where that is certified, else by the oracle's
        relaxation (`learners.bound`); infinite where it has none, or the run was broken off.
    status : Status
    n_iter : int
        Passes over the examples (cutting plane: rounds).
    n_oracle_calls : int
        Searches.
    n_queries : int
        Questions that the searches asked.
    seconds : float
    steps : int
        Examples visited on the way to `blocks`, earlier runs of SGD included: what it needs to go on.
    averaged : bool
        Whether `weights` are the averaged iterate.
    history : tuple of dict
        Entries with `iteration`, `seconds`, `oracle_calls`, `queries`, `primal`, `dual`.
    """

    weights: Weights
    blocks: Blocks
    primal: float
    dual: float
    certified: bool
    proved: float
    status: Status
    n_iter: int
    n_oracle_calls: int
    n_queries: int
    seconds: float
    steps: int = 0
    averaged: bool = False
    history: tuple[dict[str, float], ...] = ()

    @property
    def gap(self) -> float:
        """`(primal - dual) / primal`, 0 where the primal value is 0."""
        return _relative(self.primal, self.dual)

    @property
    def proved_gap(self) -> float:
        """The same with `proved`: 1 where nothing is."""
        return _relative(self.proved, self.dual)


def _relative(primal: float, dual: float) -> float:
    if primal <= 0.0:
        return 0.0
    return 1.0 if math.isinf(primal) else (primal - dual) / primal


def primal_value(problem: StructuredProblem, weights: Weights, responses: Responses) -> float:
    """`1/2 |w|^2 + C sum_i upper_i`."""
    return 0.5 * norm2(weights) + problem.C * float(responses.upper.sum())


def next_look(done: int, gap: float, tol: float) -> int:
    """Passes after which the next certificate, which costs one or two passes, is worth making.

    The gap falls about as one over the passes, so it is made where that says that the gap is closed; between a tenth
    more passes and twice as many.
    """
    promised = 1.05 * done * gap / tol if tol > 0.0 else math.inf
    return math.ceil(min(max(promised, 1.1 * done, done + 5), 2 * done))


@dataclass
class Watch:
    """History of a run: best primal value with its weights, best dual value, counts.

    A learner calls `offer` for the points that it wants evaluated, then `look`. `calls` counts the searches of its
    steps, `checks` those of the evaluations.
    """

    problem: StructuredProblem
    passes: Passes
    budget: Budget
    stage: str
    tol: float
    weights: Weights | None = None
    primal: float = float("inf")
    dual: float = 0.0
    averaged: bool = False
    calls: int = 0
    checks: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    def offer(self, weights: Weights, *, averaged: bool = False) -> float:
        """Evaluate weights in a full pass, and keep a copy of the best; returns the primal value."""
        responses = self.passes.responses(weights)
        self.checks += self.problem.n
        return self.offer_seen(weights, responses, averaged=averaged)

    def offer_seen(self, weights: Weights, responses: Responses, *, averaged: bool = False) -> float:
        """The same where the labels are known already."""
        primal = primal_value(self.problem, weights, responses)
        if primal <= self.primal:
            self.weights = Weights(weights.W.copy(), weights.theta.copy())
            self.primal, self.averaged = primal, averaged
        return primal

    @property
    def gap(self) -> float:
        """Relative gap so far."""
        return _relative(self.primal, self.dual)

    def look(self, iteration: int) -> bool:
        """Note and tell where the run is; True when the gap is closed."""
        self.history.append(
            {
                "iteration": float(iteration),
                "seconds": self.budget.elapsed,
                "oracle_calls": float(self.calls + self.checks),
                "queries": float(self.passes.queries),
                "primal": self.primal,
                "dual": self.dual,
            }
        )
        self.budget.tell(self.stage, iteration, self.primal, self.gap, 0.0)
        return self.gap <= self.tol

    def _proved(self) -> float:
        """Upper bound of the best primal value over all labels."""
        if self.passes.certain:
            return self.primal
        if self.weights is None or self.budget.interrupted or not self.problem.prove:
            return math.inf
        return proved_primal(self.problem, self.weights)

    def result(
        self, weights: Weights, blocks: Blocks, iterations: int, converged: bool, *, steps: int | None = None
    ) -> LearnerResult:
        """The best point seen; `weights` only where none was evaluated."""
        budget = self.budget
        if budget.interrupted:
            status = Status.INTERRUPTED
        elif converged:
            status = Status.CONVERGED
        elif budget.stopped:
            status = Status.STOPPED
        elif budget.exhausted:
            status = Status.TIME_LIMIT
        else:
            status = Status.MAX_ITER
        return LearnerResult(
            weights=self.weights if self.weights is not None else weights,
            blocks=blocks,
            primal=self.primal,
            dual=self.dual,
            certified=self.passes.certain,
            proved=self._proved(),
            status=status,
            n_iter=iterations,
            n_oracle_calls=self.calls + self.checks,
            n_queries=self.passes.queries,
            seconds=budget.elapsed,
            steps=iterations * self.problem.n if steps is None else steps,
            averaged=self.averaged,
            history=tuple(self.history),
        )
