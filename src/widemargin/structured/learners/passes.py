"""Passes over the examples: compiled where the model's argmax is (`structured.compiled`), in Python otherwise.

Both visit the same examples in the same order and call the same compiled loops on rows and blocks. The steps that a
learner makes on the way are its own (`block_frank_wolfe`, `sgd`).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import GREEDY, CompiledModel, Structure, Work, workspace
from widemargin.structured.learners.dual_point import Blocks, zero_blocks
from widemargin.structured.learners.example_rows import ExampleRows, scores
from widemargin.structured.learners.problem import StructuredProblem, Violation
from widemargin.structured.model import Weights
from widemargin.structured.oracles.argmax import argmax, difference

__all__ = [
    "EXAMPLES_PER_THREAD", "Buffers", "CompiledPasses", "Passes", "PythonPasses", "Responses", "Training",
    "choose_passes", "compiled_responses", "respond",
]  # fmt: skip

EXAMPLES_PER_THREAD = 64
"""Fewest examples that are worth a thread: the answers for fewer cost less than its start."""


class Training(NamedTuple):
    """Training examples, as the compiled passes see them: rows, products of rows, labels, model and rescaling."""

    rows: ExampleRows
    start: Ints
    gram: Floats
    gram_start: Ints
    truth: Ints
    truth_start: Ints
    structure: Structure
    rescale: int


class Buffers(NamedTuple):
    """Scratch for one example: potentials, (p, p_b) and the label."""

    u: Floats
    p: Floats
    p_b: Floats
    label: Ints


class Responses(NamedTuple):
    """The most violating labels of all examples at fixed weights.

    Attributes
    ----------
    value, upper : ndarray of shape (n,)
        Structured hinge of the label found, and its upper bound.
    labels : Blocks or None
        (p, p_b, loss) of the labels.
    """

    value: Floats
    upper: Floats
    labels: Blocks | None


@kernel
def respond(
    u: Floats, theta: Floats, truth: Ints, rescale: int, structure: Structure, work: Work, label: Ints, p: Floats,
    p_b: Floats,
) -> tuple[float, float]:  # fmt: skip
    """The most violating label as (p, p_b, loss): margin rescaling has p = psi, slack rescaling p = L psi.

    Returns
    -------
    loss, value : float
        The loss of the label, and the example's structured hinge.
    """
    h, g = argmax(u, theta, truth, rescale, structure, work, label)
    value = h * g if rescale == 1 else h + g - 1.0
    # The truth itself has the value 0, so nothing violates.
    if value <= 0.0:
        p[:] = 0.0
        p_b[:] = 0.0
        return 0.0, 0.0
    difference(label, truth, g if rescale == 1 else 1.0, structure, p, p_b)
    return g, value


@kernel
def compiled_responses(
    first_example: int, last_example: int, training: Training, work: Work, weights: Weights, values: Floats, keep: bool,
    labels: Blocks, buffers: Buffers,
) -> None:  # fmt: skip
    """Structured hinge of every example at fixed weights; with `keep` also (p, p_b, loss) of the labels.

    Random starts begin at a place in the table of draws that depends on the example alone, not on who is before it.
    """
    rows, start, _, _, truth, truth_start, structure, rescale = training
    (W, theta), (a, b, loss), (u, p, p_b, label) = weights, labels, buffers
    for i in range(first_example, last_example):
        work.scratch[3, 0] = i * 613 % work.draws.shape[0]
        first, last = start[i], start[i + 1]
        m = last - first
        mine = truth[truth_start[i] : truth_start[i + 1]]
        scores(rows, first, last, W, u)
        own_loss, value = respond(u[:m], theta, mine, rescale, structure, work, label[: mine.shape[0]], p[:m], p_b)
        values[i] = value
        if keep:
            loss[i] = own_loss
            for r in range(m):
                for s in range(u.shape[1]):
                    a[first + r, s] = p[r, s]
            for j in range(b.shape[1]):
                b[i, j] = p_b[j]


class PythonPasses:
    """Passes for any oracle.

    Attributes
    ----------
    queries : int
        Questions asked so far.
    certain : bool
        Whether the upper bounds of `responses` are proved: the oracle's answers are exact.
    stale : bool
        Whether `violations` may be those of earlier weights.
    """

    stale = False

    def __init__(self, problem: StructuredProblem) -> None:
        self.problem = problem
        self.queries = 0
        self.certain = problem.certain

    def violations(self, order: Ints, weights: Weights) -> Iterator[tuple[int, Floats, Violation]]:
        """Examples with their potentials and most violating labels, one by one, at the weights of that moment."""
        for i in order.tolist():
            u = self.problem.potentials(i, weights.W)
            yield i, u, self.problem.violation(i, u, weights.theta)

    def responses(self, weights: Weights, *, keep: bool = False, slack: Floats | None = None) -> Responses:
        """The most violating labels of all examples at fixed weights."""
        problem = self.problem
        gathered = Gathered(problem, keep)

        def part(first: int, last: int) -> int:
            queries = 0
            for i in range(first, last):
                u = problem.potentials(i, weights.W)
                seen = problem.violation(i, u, weights.theta, None if slack is None else float(slack[i]))
                queries += gathered.add(i, seen)
            return queries

        # The labels of a local search may depend on the one before, so one thread looks for all of them.
        least = EXAMPLES_PER_THREAD if self.certain else problem.n
        self.queries += sum(in_threads(problem.n, least, part))
        return gathered.responses


class Gathered:
    """Most violating labels, put where they belong."""

    def __init__(self, problem: StructuredProblem, keep: bool) -> None:
        self._start = problem.start
        labels = zero_blocks(problem) if keep else None
        self.responses = Responses(np.empty(problem.n), np.empty(problem.n), labels)

    def add(self, i: int, seen: Violation) -> int:
        """Take in the label of example i; returns the questions it took."""
        value, upper, labels = self.responses
        value[i], upper[i] = seen.value, seen.upper
        if labels is not None:
            labels.a[self._start[i] : self._start[i + 1]] = seen.A
            labels.b[i], labels.loss[i] = seen.b, seen.loss
        return seen.queries


class CompiledPasses:
    """Passes for models whose argmax is compiled: one question an example."""

    def __init__(self, problem: StructuredProblem, seed: int = 0) -> None:
        model = problem.model
        assert isinstance(model, CompiledModel)
        self.problem, self.seed, self.queries = problem, seed, 0
        # Local search is the only compiled argmax that may miss the best label.
        self.certain = model.structure.kind != GREEDY
        self.training = Training(
            problem.rows, problem.start, problem.gram, problem.gram_start, *model.encode_all(problem.Y),
            model.structure, 1 if problem.slack else 0,
        )  # fmt: skip
        self.work = self.workspace()

    def workspace(self) -> Work:
        """Arrays for the argmax; one set a thread."""
        return workspace(self.training.structure, self.problem.longest, self.seed)

    def buffers(self) -> Buffers:
        """Scratch for one example; one set a thread."""
        shape = (self.problem.longest, self.problem.S)
        longest = int(np.diff(self.training.truth_start).max())
        return Buffers(np.empty(shape), np.empty(shape), np.empty(self.problem.P), np.empty(longest, dtype=np.int64))

    def responses(self, weights: Weights, *, keep: bool = False, slack: Floats | None = None) -> Responses:
        """The most violating labels of all examples at fixed weights."""
        problem = self.problem
        value = np.empty(problem.n)
        labels = zero_blocks(problem) if keep else Blocks(np.empty((0, 0)), np.empty((0, 0)), np.empty(0))

        def part(first: int, last: int) -> None:
            work = self.workspace()
            compiled_responses(first, last, self.training, work, weights, value, keep, labels, self.buffers())

        in_threads(problem.n, EXAMPLES_PER_THREAD, part)
        self.queries += problem.n
        return Responses(value, value, labels if keep else None)


Passes = PythonPasses | CompiledPasses


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
    compiles = getattr(problem.model, "compiles", None)
    usual = problem.asks_once and not problem.check
    if compiled is not False and usual and compiles is not None and compiles(problem.slack):
        return CompiledPasses(problem, seed)
    return PythonPasses(problem)
