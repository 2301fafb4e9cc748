"""What a learner returns: weights with a certificate; how its run is recorded, and what it proves.

A local search only ever finds labels, so what it sees is a lower bound of every example's structured hinge. An oracle
may offer a relaxation, `relaxed()`: more labels than there are, over which the search is exact (for pairs of labels
roof duality, `structured.oracles.roof_duality`). Its optimum is never below that of the labels themselves, so it proves
an upper bound of the objective.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints
from widemargin.exceptions import OracleError
from widemargin.solvers.base import Budget, Recorder, Status, relative_gap
from widemargin.structured.learners.passes import EXAMPLES_PER_THREAD, Passes, Responses
from widemargin.structured.learners.problem import Blocks, StructuredProblem, norm2
from widemargin.structured.model import Weights
from widemargin.structured.search.hull import edge

__all__ = [
    "DEFAULTS", "LearnerOptions", "LearnerRecorder", "LearnerResult", "hinge_bound", "next_look", "primal_value",
    "proved_primal",
]  # fmt: skip


@dataclass(frozen=True)
class LearnerOptions:
    """What the learners trade.

    Attributes
    ----------
    first_look : int, default=10
        Passes of "bcfw" and "sgd" before the first certificate, which costs a pass or two. Earlier the gap is nearly
        always above a usual tolerance of one percent.
    examples_between_clocks : int, default=512
        Steps of "bcfw" and "sgd" between two looks at the clock. Compiled steps take some 10 microseconds: a time limit
        is kept to a few milliseconds, and leaving the compiled loop costs nothing that can be measured.
    share_of_cuts : float, default=0.1
        Of the tolerance, what the problem of the cuts may leave open. More lets the cuts alone miss the tolerance; less
        solves them more exactly than the next round needs.
    least_gap : float, default=1e-6
        Relative gap of the problem of the cuts that is never undercut, where rounding would end all progress.
    sweeps : int, default=1000
        Most rounds over the examples in one problem of the cuts; a guard, never met in the tests and benchmarks.
    """

    first_look: int = 10
    examples_between_clocks: int = 512
    share_of_cuts: float = 0.1
    least_gap: float = 1e-6
    sweeps: int = 1000


DEFAULTS = LearnerOptions()


@dataclass(frozen=True)
class LearnerResult:
    """Weights with their certificate.

    Attributes
    ----------
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
        relaxation (`proved_primal`); infinite where it has none, or the run was broken off.
    n_iter : int
        Passes over the examples (cutting plane: rounds).
    n_oracle_calls : int
        Searches.
    n_queries : int
        Questions that the searches asked.
    steps : int
        Examples visited on the way to `blocks`, earlier runs of SGD included: what it needs to go on.
    averaged : bool
        Whether `weights` are the averaged iterate.
    left_by_search : float
        Share of `primal` by which the search did not close its own bounds: the part of the gap that no solver closes.
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
    left_by_search: float = 0.0
    history: tuple[dict[str, float], ...] = ()

    @property
    def gap(self) -> float:
        """`(primal - dual) / primal`, 0 where the primal value is 0."""
        return relative_gap(self.primal, self.dual)

    @property
    def proved_gap(self) -> float:
        """The same with `proved`: 1 where nothing is."""
        return relative_gap(self.proved, self.dual)


def primal_value(problem: StructuredProblem, weights: Weights, responses: Responses) -> float:
    """`1/2 |w|^2 + C sum_i upper_i`."""
    return 0.5 * norm2(weights) + problem.C * float(responses.upper.sum())


def next_look(done: int, gap: float, tol: float) -> int:
    """Passes after which the next certificate, which costs one or two passes, is worth making.

    The gap falls about as one over the passes, so it is made where that says that the gap is closed; between a tenth
    more passes and twice as many.
    """
    # Five percent more than the trend says, as a look that comes too early costs a pass for nothing.
    promised = 1.05 * done * gap / tol if tol > 0.0 else math.inf
    return math.ceil(min(max(promised, 1.1 * done, done + 5), 2 * done))


class LearnerRecorder(Recorder[Weights]):
    """History of a run: best primal value with its weights, best dual value, counts.

    A learner calls `evaluate` for the weights that it wants judged, `bound` for dual values, then `look`.

    Attributes
    ----------
    calls, checks : int
        Searches of the learner's steps, and those of the evaluations.
    done : int
        Passes or rounds made so far.
    steps : int
        Examples visited so far, those of earlier runs included.
    averaged : bool
        Whether the best weights are an averaged iterate.
    left_by_search : float
        What the search left open at the best weights, in units of the objective.
    """

    def __init__(
        self, problem: StructuredProblem, passes: Passes, budget: Budget, stage: str, tol: float, steps: int = 0
    ) -> None:
        super().__init__(stage, budget, tol, lambda weights: Weights(weights.W.copy(), weights.theta.copy()))
        self.problem, self.passes = problem, passes
        self.calls = self.checks = self.done = 0
        self.steps = steps
        self.averaged, self.left_by_search = False, 0.0
        self.bound(0.0)  # the dual point 0

    def bound(self, dual: float) -> None:
        """A lower bound of the optimum, by the losses of the search: rounded ones are so much larger at most."""
        super().bound(dual / (1.0 + self.problem.rounding))

    def run_passes(
        self, visit: Callable[[Ints, int], float], judge: Callable[[], None], dual: Callable[[], float], *,
        max_iter: int, check_every: int | None, seed: int, options: LearnerOptions,
    ) -> bool:  # fmt: skip
        """Visit all examples in a random order, pass after pass, until a certificate closes the gap or time runs out.

        Parameters
        ----------
        visit : callable
            `visit(order, t)` makes the steps of these examples after t earlier ones; returns the sum of the gaps of
            their blocks, NaN where these are not known.
        judge : callable
            Evaluates the weights of now, and takes in the lower bound that they come with.
        dual : callable
            The dual value of now.
        max_iter, check_every, seed, options
            As in the learners.

        Returns
        -------
        bool
            Whether the gap is closed.
        """
        rng, n, begun, last_look = np.random.default_rng(seed), self.problem.n, self.steps, -1
        due, converged = check_every or options.first_look, False
        try:
            while self.done < max_iter and not converged and not (self.done and self.budget.exhausted):
                order, promised = rng.permutation(n).astype(np.int64), 0.0
                # A pass in parts, so that the clock is looked at within a long one.
                for first in range(0, n, options.examples_between_clocks):
                    part = order[first : first + options.examples_between_clocks]
                    promised += visit(part, self.steps)
                    self.steps += part.shape[0]
                    if self.budget.exhausted:
                        break
                self.calls = self.steps - begun
                # The time ran out within the pass, which does not count.
                if self.calls < (self.done + 1) * n:
                    break
                self.done += 1
                # The gaps of the blocks, each as it was when visited, add up to about the gap of now: where that is
                # small enough, a certificate is worth its pass, unless hardly anything has changed since the last one.
                promising = promised <= self.tol * (dual() + promised) and self.steps > 1.1 * last_look
                if self.done >= due or promising:
                    last_look = self.steps
                    judge()
                    converged = self.look(self.done)
                    due = self.done + check_every if check_every else next_look(self.done, self.gap, self.tol)
                else:
                    self.budget.tell(str(self.stage), self.done, self.primal, self.gap, 0.0)
            # What came after the last certificate is judged too, so that the best weights of all are returned.
            if last_look < self.steps:
                judge()
                converged = self.look(self.done)
        except KeyboardInterrupt:
            self.budget.interrupted = True
        return converged

    def evaluate(self, weights: Weights, responses: Responses | None = None, *, averaged: bool = False) -> None:
        """Judge weights, in a full pass where their most violating labels are not known, and keep the best."""
        if responses is None:
            responses = self.passes.responses(weights)
            self.checks += self.problem.n
        # Only what the best weights leave open is told, so it is kept together with them.
        if self.offer(primal_value(self.problem, weights, responses), weights):
            self.averaged = averaged
            self.left_by_search = self.problem.C * float((responses.upper - responses.value).sum())

    def look(self, iteration: int, *, violation: float = 0.0, **facts: float) -> bool:
        """Note and tell where the run is; True when the gap is closed."""
        # What a run costs is told beside what it has reached: seconds differ from machine to machine.
        counts = {"oracle_calls": float(self.calls + self.checks), "queries": float(self.passes.queries)}
        return super().look(iteration, violation=violation, **counts, **facts)

    def result(self, weights: Weights, blocks: Blocks, converged: bool) -> LearnerResult:
        """The best point seen; `weights` only where none was evaluated.

        Raises
        ------
        OracleError
            If an exact oracle leaves the objective below its lower bound by more than rounding, or some of its answers
            at the best weights are wrong.
        """
        if self.passes.certain and self.primal < self.dual - 1e-6 * abs(self.dual):
            raise OracleError(
                f"the objective {self.primal:.9g} is below its lower bound {self.dual:.9g}: the oracle missed labels "
                "that violate. Fit with debug=True, or set exact = False where its answers need not be the best."
            )
        # At random weights an oracle that forgets the losses, say, may be right; the certificate is of these.
        unseen = self.passes.certain and not self.problem.own
        if unseen and self.point is not None and not self.budget.interrupted:
            self.problem.spot_check(self.point)
        # Exact oracles prove what they find. Others need their relaxation, which a run that was broken off leaves out.
        proved = self.primal if self.passes.certain else math.inf
        if not self.passes.certain and self.point is not None and self.problem.prove and not self.budget.interrupted:
            proved = proved_primal(self.problem, self.point)
        return LearnerResult(
            weights=weights if self.point is None else self.point,
            blocks=blocks,
            primal=self.primal,
            dual=self.dual,
            certified=self.passes.certain,
            proved=proved,
            status=self.budget.status(converged=converged),
            n_iter=self.done,
            n_oracle_calls=self.calls + self.checks,
            n_queries=self.passes.queries,
            seconds=self.budget.elapsed,
            steps=self.steps,
            averaged=self.averaged,
            left_by_search=self.left_by_search / max(self.primal, 1e-300),
            history=tuple(self.history),
        )


def hinge_bound(problem: StructuredProblem, i: int, u: Floats, theta: Floats) -> float:
    """Upper bound of the structured hinge of example i over all labels; infinite where its oracle has no relaxation.

    Parameters
    ----------
    u : ndarray of shape (rows, S)
        Potentials.
    theta : ndarray of shape (P,)
    """
    # The relaxation is made for one example at the weights of now, and forgotten afterwards.
    relax = getattr(problem.oracle(i, u, theta), "relaxed", None)
    if relax is None:
        return math.inf
    relaxation = relax()
    # Over fractional labels the search along the edge is exact, so its bound holds for whole labels too; up to a
    # hundredth, which takes half the questions.
    if problem.slack:
        return float(edge(relaxation, ratio=0.99).upper)
    answer = relaxation.free(1.0)
    return max(0.0, float(answer.h + answer.g) - 1.0)


def proved_primal(problem: StructuredProblem, weights: Weights) -> float:
    """`1/2 |w|^2 + C sum_i s_i H_i(w)` from above, s the weights of the examples, whatever the labels that are found.

    Returns
    -------
    float
        Infinite where the oracle offers no relaxation.
    """

    def part(first: int, last: int) -> float:
        total = 0.0
        for i in range(first, last):
            total += problem.weight[i] * hinge_bound(problem, i, problem.potentials(i, weights.W), weights.theta)
            # One example without a bound leaves the sum without one.
            if math.isinf(total):
                break
        return total

    return 0.5 * norm2(weights) + problem.C * float(sum(in_threads(problem.n, EXAMPLES_PER_THREAD, part)))
