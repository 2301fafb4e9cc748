"""Passes over the examples: compiled where the model's argmax is (`structured.compiled`), in Python otherwise.

Both visit the same examples in the same order and call the same compiled loops on rows and blocks. The steps on the way
are those of `block_frank_wolfe`.

Where an oracle takes longer than everything else, the labels of a batch of examples are looked for at the same weights,
on the workers of a Dask cluster or in threads; then the blocks move one after the other, each by an exact line search
at the weights of that moment. A label that is no longer worth a step makes none, so the dual never falls; labels grow
stale with the batch, so more passes are needed (Lacoste-Julien et al. 2013, section 3; Wang et al. 2016, "Parallel and
distributed block-coordinate Frank-Wolfe"). The result depends on the batch, not on the workers.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from widemargin._threads import in_threads, threads_in_force
from widemargin._typing import Floats, Ints
from widemargin.distributed.blocks import Block
from widemargin.distributed.recipes import ArrayRows
from widemargin.distributed.workers import block_map, client_in_force
from widemargin.structured.compiled import GREEDY, Work, workspace
from widemargin.structured.learners.problem import Blocks, StructuredProblem, Violation, zero_blocks
from widemargin.structured.learners.visits import (
    AVERAGED_STEPS,
    LABELS,
    STEPS,
    VALUES,
    Average,
    Buffers,
    Training,
    go_by_label,
    go_to,
    no_sums,
    remember,
    update_block,
    visit,
)
from widemargin.structured.model import Weights

__all__ = [
    "EXAMPLES_PER_THREAD", "BatchedPasses", "Cluster", "CompiledPasses", "ManyPasses", "Passes", "PythonPasses",
    "Responses", "choose_passes",
]  # fmt: skip

EXAMPLES_PER_THREAD = 64
"""Fewest examples that are worth a thread: the answers for fewer cost less than its start."""

_NONE = Blocks(np.empty((0, 0)), np.empty((0, 0)), np.empty(0))


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

    def ask(self, examples: Ints, weights: Weights, slack: Floats | None) -> Iterator[Violation]:
        """The most violating labels of some examples, all at the same weights."""
        for i in examples.tolist():
            own = None if slack is None else float(slack[i])
            yield self.problem.violation(i, self.problem.potentials(i, weights.W), weights.theta, own)

    def steps(self, order: Ints, t: int, blocks: Blocks, weights: Weights, average: Average | None) -> float:
        """Steps for the examples of `order`, in place, after t earlier ones; returns the sum of the gaps."""
        problem, total = self.problem, 0.0
        # A model whose own argmax found the labels; those of relaxations are fractions, which have no steps of their
        # own.
        compiled = None if problem.slack else problem.compiled
        for i, u, seen in self.violations(order, weights):
            t += 1
            first, last = int(problem.start[i]), int(problem.start[i + 1])
            self.queries += seen.queries
            a, b = blocks.a[first:last], blocks.b[i]
            if average is not None:
                sums_a, sums_loss, sums_theta, visited = average
                remember(a, blocks.loss, weights.theta, t, visited, sums_a[first:last], sums_loss, sums_theta, i)
            gram = problem.gram[problem.gram_start[i] : problem.gram_start[i + 1]]
            p, p_b, loss, before = np.ascontiguousarray(seen.A), np.ascontiguousarray(seen.b), seen.loss, -np.inf
            if compiled is not None:
                truth, weight = compiled.encode(problem.Y[i]), float(problem.weight[i])
                loss, before = go_by_label(
                    u, weights.theta, truth, weight, 1.0, gram[0], compiled.structure, problem.C, a, b, p, p_b, loss
                )
            gap, _ = update_block(
                problem.rows, first, last, gram, u, p, p_b, loss, problem.C, a, b, blocks.loss, i, *weights
            )
            gap = max(gap, before)
            # Labels of a batch may be out of date by now: then there is no step, and the gap may be negative.
            total += max(0.0, gap) if self.stale else gap
        return total

    def responses(self, weights: Weights, *, keep: bool = False, slack: Floats | None = None) -> Responses:
        """The most violating labels of all examples at fixed weights."""
        problem = self.problem
        labels = zero_blocks(problem) if keep else None
        # Labels are kept only for learners that make cuts of them: they take as much memory as a dual point.
        value, upper = np.empty(problem.n), np.empty(problem.n)

        def part(first: int, last: int) -> int:
            queries = 0
            for i, seen in enumerate(self.ask(np.arange(first, last), weights, slack), first):
                value[i], upper[i] = seen.value, seen.upper
                queries += seen.queries
                if labels is not None:
                    labels.a[problem.start[i] : problem.start[i + 1]] = seen.A
                    labels.b[i], labels.loss[i] = seen.b, seen.loss
            return queries

        # The labels of a local search may depend on the one before, so one thread looks for all of them; a batch is
        # spread over threads or workers already.
        least = EXAMPLES_PER_THREAD if self.certain and not self.stale else problem.n
        self.queries += sum(in_threads(problem.n, least, part))
        return Responses(value, upper, labels)


class Cluster(Protocol):
    """What is wanted of a `distributed.Client`; Dask need not be installed."""

    def nthreads(self) -> Mapping[str, int]:
        """Threads of every worker."""
        ...


class BatchedPasses(PythonPasses):
    """Passes that ask for the labels of many examples at a time.

    Parameters
    ----------
    problem : StructuredProblem
        Travels to every worker once.
    batch : int
        Examples whose labels are looked for at the same weights.
    workers : None, int or distributed.Client, default=None
        None: the Dask client in force, else the threads in force.
    """

    stale = True

    def __init__(self, problem: StructuredProblem, batch: int, workers: int | Cluster | None = None) -> None:
        super().__init__(problem)
        self._batch = batch
        # Where a cluster is in force it has the processors; else threads share them here.
        client = client_in_force() if workers is None else workers
        if client is None:
            client = threads_in_force()
        parts = client if isinstance(client, int) else max(1, len(client.nthreads()))
        recipes = [ArrayRows({"part": np.array([part])}) for part in range(parts)]
        self._blocks = block_map(recipes, client).prepared(_problem_of_block, problem)

    def violations(self, order: Ints, weights: Weights) -> Iterator[tuple[int, Floats, Violation]]:
        """See `PythonPasses`: labels are those of the weights at the beginning of their batch, potentials are not."""
        for first in range(0, order.shape[0], self._batch):
            batch = order[first : first + self._batch]
            for i, seen in zip(batch.tolist(), self.ask(batch, weights, None), strict=True):
                yield i, self.problem.potentials(i, weights.W), seen

    def ask(self, examples: Ints, weights: Weights, slack: Floats | None) -> Iterator[Violation]:
        """See `PythonPasses`; an example is always asked about in the same part, whose oracles may remember it."""
        parts = self._blocks.n_blocks
        shares = [np.flatnonzero(examples % parts == part) for part in range(parts)]
        message = weights, [examples[share] for share in shares], slack
        # The answers come part by part and go back to the places of their examples.
        violations: dict[int, Violation] = {}
        for share, seen in zip(shares, self._blocks.map(_violations_of_block, message), strict=True):
            violations |= zip(share.tolist(), seen, strict=True)
        return (violations[place] for place in range(examples.shape[0]))


def _problem_of_block(_: object, problem: StructuredProblem) -> StructuredProblem:
    return problem


def _violations_of_block(block: Block, message: tuple[Weights, list[Ints], Floats | None]) -> list[Violation]:
    weights, examples, slack = message
    return list(PythonPasses(block.data).ask(examples[block.index], weights, slack))


class ManyPasses(PythonPasses):
    """Passes for models that answer for many examples at a time, by `oracle_many`.

    Parameters
    ----------
    batch : int, default=None
        Examples of a step of the pass; None: a sixteenth of them, at most 64. Larger ones need fewer calls and more
        passes, as labels are those of the weights at the beginning of their batch.
    """

    stale = True

    def __init__(self, problem: StructuredProblem, batch: int | None = None) -> None:
        super().__init__(problem)
        self._batch = batch or max(1, min(64, problem.n // 16))

    def steps(self, order: Ints, t: int, blocks: Blocks, weights: Weights, average: Average | None) -> float:
        """See `PythonPasses`."""
        problem, total = self.problem, 0.0
        sums = no_sums(blocks) if average is None else average
        for first in range(0, order.shape[0], self._batch):
            batch = order[first : first + self._batch]
            total += go_to(
                batch, self.labels(batch, weights)[1], problem.rows, problem.start, problem.gram, problem.gram_start,
                problem.C, blocks, weights, t + first, sums,
            )  # fmt: skip
        return total

    def labels(self, examples: Ints, weights: Weights) -> tuple[Floats, Blocks]:
        """The hinges and most violating labels of some examples, all at the same weights."""
        self.queries += examples.shape[0]
        assert self.problem.many is not None
        value, *label = self.problem.many(examples, weights.W, weights.theta)
        return value, Blocks(*label)

    def responses(self, weights: Weights, *, keep: bool = False, slack: Floats | None = None) -> Responses:
        """See `PythonPasses`; a thousand examples in a call."""
        n, start = self.problem.n, self.problem.start
        labels, value = zero_blocks(self.problem) if keep else None, np.empty(n)
        for first in range(0, n, 1024):
            last = min(first + 1024, n)
            value[first:last], found = self.labels(np.arange(first, last), weights)
            if labels is not None:
                labels.a[start[first] : start[last]], labels.b[first:last], labels.loss[first:last] = found
        return Responses(value, value, labels)


class CompiledPasses:
    """Passes for models whose argmax is compiled: one question an example."""

    def __init__(self, problem: StructuredProblem, seed: int = 0) -> None:
        model = problem.compiled
        assert model is not None
        self.problem, self.queries, self._seed = problem, 0, seed
        # Local search is the only compiled argmax that may miss the best label.
        self.certain = model.structure.kind != GREEDY
        self.training = Training(
            problem.rows, problem.start, problem.gram, problem.gram_start, *model.encode_all(problem.Y),
            model.structure, None if problem.slack else 1.0, problem.weight, problem.shift,
        )  # fmt: skip
        self.work = workspace(model.structure, problem.longest, seed)
        self._longest_truth = int(np.diff(self.training.truth_start).max())
        self._buffers = self.buffers()
        self._idle = list[tuple[Work, Buffers]]()

    def steps(self, order: Ints, t: int, blocks: Blocks, weights: Weights, average: Average | None) -> float:
        """See `PythonPasses`."""
        self.queries += order.shape[0]
        purpose, sums = (STEPS, no_sums(blocks)) if average is None else (AVERAGED_STEPS, average)
        return visit(
            order, purpose, self.training, self.work, weights, blocks, np.empty(0), t, self.problem.C, sums,
            self._buffers,
        )  # fmt: skip

    def buffers(self) -> Buffers:
        """Scratch for one example; one set a thread."""
        shape, truth = (self.problem.longest, self.problem.S), np.empty(self._longest_truth, dtype=np.int64)
        return Buffers(np.empty(shape), np.empty(shape), np.empty(self.problem.P), truth)

    def responses(self, weights: Weights, *, keep: bool = False, slack: Floats | None = None) -> Responses:
        """The most violating labels of all examples at fixed weights."""
        problem = self.problem
        value, labels = np.empty(problem.n), zero_blocks(problem) if keep else _NONE

        def part(first: int, last: int) -> None:
            # Every thread has arrays of its own, for as long as it looks.
            try:
                own = self._idle.pop()
            except IndexError:
                own = workspace(self.training.structure, problem.longest, self._seed), self.buffers()
            work, buffers = own
            visit(
                np.arange(first, last), LABELS if keep else VALUES, self.training, work, weights, labels, value, 0, 0.0,
                no_sums(labels), buffers,
            )  # fmt: skip
            self._idle.append(own)

        in_threads(problem.n, EXAMPLES_PER_THREAD, part, pieces=1)
        # A compiled argmax answers at once: one question an example.
        self.queries += problem.n
        return Responses(value, value, labels if keep else None)


Passes = PythonPasses | CompiledPasses


def choose_passes(
    problem: StructuredProblem, seed: int = 0, compiled: bool | None = None, batch: int | None = None
) -> Passes:
    """Passes over many examples at a time where the model answers so, or `batch` asks for them.

    Else compiled ones where the model has them and the search is the exact one they make, else those in Python.

    Parameters
    ----------
    seed : int, default=0
        Of searches with random starts.
    compiled : bool, default=None
        False: Python even so.
    batch : int, default=None
        Examples whose labels are looked for at the same weights.
    """
    if problem.many is not None:
        return ManyPasses(problem, batch)
    if batch is not None:
        return BatchedPasses(problem, batch)
    # In debug mode every answer is compared in Python; a search of many questions needs its oracle there.
    if compiled is not False and problem.asks_once and not problem.check and problem.compiled is not None:
        return CompiledPasses(problem, seed)
    return PythonPasses(problem)
