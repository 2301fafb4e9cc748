"""Passes over the examples: compiled where the model's argmax is (`structured.compiled`), in Python otherwise.

Both visit the same examples in the same order and call the same compiled loops on rows and blocks.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import GREEDY, Work, workspace
from widemargin.structured.learners import bcfw_loops as passes
from widemargin.structured.learners import bcfw_rows as loops
from widemargin.structured.learners.problem import StructuredProblem, Violation
from widemargin.structured.learners.state import Blocks, zero_blocks
from widemargin.structured.model import Weights

__all__ = ["PART", "Average", "CompiledPasses", "Passes", "PythonPasses", "Responses", "choose_passes"]

_LEAST = 64  # examples that are worth a thread

PART = 512
"""Examples between two looks at the clock."""


class Average(NamedTuple):
    """Sums of the iterates `w_1, w_2, ...` with weights 1, 2, ..., block by block.

    Attributes
    ----------
    sums : Blocks
        Up to the last visit of each block.
    visited : ndarray of shape (n,)
        Step of that visit.
    """

    sums: Blocks
    visited: Ints


class Responses(NamedTuple):
    """The most violating labels of all examples at fixed weights.

    Attributes
    ----------
    value, upper : ndarray of shape (n,)
        Structured hinge of the label found, and its upper bound.
    labels : Blocks or None
        (p, p_b, level) of the labels.
    """

    value: Floats
    upper: Floats
    labels: Blocks | None


class Passes(Protocol):
    """What the learners need of a pass.

    Attributes
    ----------
    queries : int
        Questions asked so far.
    certain : bool
        Whether the upper bounds of `responses` are proved: the oracle's answers are exact.
    """

    queries: int
    certain: bool

    def bcfw(self, order: Ints, t: int, blocks: Blocks, weights: Weights, average: Average | None) -> float:
        """Frank-Wolfe steps, in place, after t earlier ones; returns the sum of the gaps of the blocks."""
        ...

    def sgd(self, order: Ints, t: int, blocks: Blocks, sums: Weights, weighted: Weights) -> None:
        """Pegasos steps: `sums` of all p, `weighted` the same times the step they came at; the blocks like `sums`."""
        ...

    def responses(self, weights: Weights, *, keep: bool = False, slack: Floats | None = None) -> Responses:
        """The most violating labels at fixed weights."""
        ...


class PythonPasses:
    """Passes for any oracle."""

    def __init__(self, problem: StructuredProblem) -> None:
        self.problem = problem
        self.queries = 0
        self.certain = problem.certain

    def bcfw(self, order: Ints, t: int, blocks: Blocks, weights: Weights, average: Average | None) -> float:
        problem, total = self.problem, 0.0
        for i in order.tolist():
            u = problem.potentials(i, weights.W)
            t += 1
            total += self.step(i, u, problem.violation(i, u, weights.theta), t, blocks, weights, average)
        return total

    def step(
        self, i: int, u: Floats, seen: Violation, t: int, blocks: Blocks, weights: Weights, average: Average | None
    ) -> float:
        """Move the block of example i, whose potentials are u, towards a label, in place; the gap it had."""
        problem = self.problem
        first, last = int(problem.start[i]), int(problem.start[i + 1])
        self.queries += seen.queries
        a, b = blocks.a[first:last], blocks.b[i]
        if average is not None:
            sums, visited = average
            weight = 0.5 * (float(t) * (t - 1) - float(visited[i]) * (visited[i] - 1))
            loops.remember(a, b, blocks.loss, weight, sums.a[first:last], sums.b[i], sums.loss, i)
            visited[i] = t
        gram = problem.gram[problem.gram_start[i] : problem.gram_start[i + 1]]
        gap, _ = loops.step(
            problem.rows, first, last, gram, u, _own(seen.A), _own(seen.b), seen.level, problem.C,
            a, b, blocks.loss, i, weights.W, weights.theta,
        )  # fmt: skip
        return float(gap)

    def sgd(self, order: Ints, t: int, blocks: Blocks, sums: Weights, weighted: Weights) -> None:
        problem = self.problem
        scale = problem.C * problem.n
        for i in order.tolist():
            first, last = int(problem.start[i]), int(problem.start[i + 1])
            factor = scale / t if t > 0 else 0.0
            seen = problem.violation(i, factor * problem.potentials(i, sums.W), factor * sums.theta)
            self.queries += seen.queries
            t += 1
            if seen.value > 0.0:
                loops.add_rows(problem.rows, first, last, _own(seen.A), 1.0, sums.W)
                loops.add_rows(problem.rows, first, last, _own(seen.A), float(t), weighted.W)
                sums.theta[:] += seen.b
                weighted.theta[:] += t * seen.b
                blocks.a[first:last] += seen.A
                blocks.b[i] += seen.b
                blocks.loss[i] += seen.level

    def responses(self, weights: Weights, *, keep: bool = False, slack: Floats | None = None) -> Responses:
        problem = self.problem
        value, upper = np.empty(problem.n), np.empty(problem.n)
        labels = zero_blocks(problem) if keep else None

        def part(first: int, last: int) -> int:
            queries = 0
            for i in range(first, last):
                u = problem.potentials(i, weights.W)
                seen = problem.violation(i, u, weights.theta, None if slack is None else float(slack[i]))
                value[i], upper[i] = seen.value, seen.upper
                queries += seen.queries
                if labels is not None:
                    labels.a[problem.start[i] : problem.start[i + 1]] = seen.A
                    labels.b[i], labels.loss[i] = seen.b, seen.level
            return queries

        least = _LEAST if self.certain else problem.n  # the labels of a local search may depend on the one before
        self.queries += sum(in_threads(problem.n, least, part))
        return Responses(value, upper, labels)


def _own(array: Floats) -> Floats:
    return np.ascontiguousarray(array)


class CompiledPasses:
    """Passes for models whose argmax is compiled: one question an example."""

    def __init__(self, problem: StructuredProblem, seed: int = 0) -> None:
        self.problem = problem
        self.queries = 0
        model: Any = problem.model
        self.structure = model.structure
        self.certain = self.structure.kind != GREEDY
        self.truth, self.truth_start = model.encode_all(problem.Y)
        self._most = int(np.diff(self.truth_start).max())
        self.seed = seed
        self.work = self.workspace()

    def workspace(self) -> Work:
        """Arrays for the argmax; one set a thread."""
        return workspace(self.structure, self.problem.longest, self.seed)

    def _buffers(self) -> tuple[Floats, Floats, Floats, Ints]:
        """u, p, p_b and label of one example."""
        problem = self.problem
        shape = (problem.longest, problem.S)
        return np.empty(shape), np.empty(shape), np.empty(problem.P), np.empty(self._most, dtype=np.int64)

    def bcfw(self, order: Ints, t: int, blocks: Blocks, weights: Weights, average: Average | None) -> float:
        problem = self.problem
        sums, visited = average if average is not None else (blocks, np.empty(0, dtype=np.int64))
        self.queries += order.shape[0]
        return float(
            passes.bcfw_pass(
                order, t, problem.C, problem.rescale, problem.rows, problem.start, problem.gram, problem.gram_start,
                self.truth, self.truth_start, self.structure, self.work, blocks, weights.W, weights.theta,
                sums, visited, average is not None, *self._buffers(),
            )
        )  # fmt: skip

    def sgd(self, order: Ints, t: int, blocks: Blocks, sums: Weights, weighted: Weights) -> None:
        problem = self.problem
        self.queries += order.shape[0]
        passes.sgd_pass(
            order, t, problem.C * problem.n, problem.rescale, problem.rows, problem.start, self.truth,
            self.truth_start, self.structure, self.work, blocks, sums.W, sums.theta, weighted.W, weighted.theta,
            *self._buffers(), np.empty(problem.P),
        )  # fmt: skip

    def responses(self, weights: Weights, *, keep: bool = False, slack: Floats | None = None) -> Responses:
        problem = self.problem
        value = np.empty(problem.n)
        labels = zero_blocks(problem) if keep else Blocks(np.empty((0, 0)), np.empty((0, 0)), np.empty(0))

        def part(first: int, last: int) -> None:
            passes.responses(
                first, last, problem.rescale, problem.rows, problem.start, self.truth, self.truth_start,
                self.structure, self.workspace(), weights.W, weights.theta, value, keep, *labels, *self._buffers(),
            )  # fmt: skip

        in_threads(problem.n, _LEAST, part)
        self.queries += problem.n
        return Responses(value, value, labels if keep else None)


def choose_passes(problem: StructuredProblem, seed: int = 0, compiled: bool | None = None) -> Passes:
    """Compiled passes where the model has them and the search is the exact one they make, else those in Python.

    Parameters
    ----------
    problem : StructuredProblem
    seed : int, default=0
        Of searches with random starts.
    compiled : bool, default=None
        False: Python even so.
    """
    compiles: Any = getattr(problem.model, "compiles", None)
    usual = problem.asks_once and not problem.check
    if compiled is not False and usual and compiles is not None and compiles(problem.slack):
        return CompiledPasses(problem, seed)
    return PythonPasses(problem)
