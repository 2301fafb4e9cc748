"""Passes whose oracles are asked side by side, for oracles that take longer than everything else.

The labels of a batch of examples are looked for at the same weights, on the workers of a Dask cluster or in threads;
then the blocks move one after the other, each by an exact line search at the weights of that moment. A label that is no
longer worth a step makes none, so the dual never falls; labels grow stale with the batch, so more passes are needed
(Lacoste-Julien et al. 2013, section 3; Wang et al. 2016, "Parallel and distributed block-coordinate Frank-Wolfe").
The result depends on the batch, not on the workers.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from widemargin._threads import threads_in_force
from widemargin._typing import Floats, Ints
from widemargin.distributed.blocks import Block
from widemargin.distributed.recipes import ArrayRows
from widemargin.distributed.workers import block_map, client_in_force
from widemargin.structured.learners.passes import Gathered, PythonPasses, Responses
from widemargin.structured.learners.problem import StructuredProblem, Violation
from widemargin.structured.model import Weights

__all__ = ["MappedPasses"]


class Cluster(Protocol):
    """What is asked of a `distributed.Client`; Dask need not be installed."""

    def nthreads(self) -> Mapping[str, int]:
        """Threads of every worker."""
        ...


class MappedPasses(PythonPasses):
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

    def __init__(self, problem: StructuredProblem, batch: int, workers: "int | Cluster | None" = None) -> None:
        super().__init__(problem)
        self._batch = batch
        client = client_in_force() if workers is None else workers
        if client is None:
            client = threads_in_force()
        parts = client if isinstance(client, int) else max(1, len(client.nthreads()))
        recipes = [ArrayRows({"part": np.array([part])}) for part in range(parts)]
        self._blocks = block_map(recipes, client).prepared(_with_problem, problem)

    def violations(self, order: Ints, weights: Weights) -> Iterator[tuple[int, Floats, Violation]]:
        """See `PythonPasses`: labels are those of the weights at the beginning of their batch, potentials are not."""
        for first in range(0, order.shape[0], self._batch):
            batch = order[first : first + self._batch]
            for i, seen in zip(batch.tolist(), self._ask(batch, weights, None), strict=True):
                yield i, self.problem.potentials(i, weights.W), seen

    def responses(self, weights: Weights, *, keep: bool = False, slack: Floats | None = None) -> Responses:
        """See `PythonPasses`."""
        gathered = Gathered(self.problem, keep)
        for i, seen in enumerate(self._ask(np.arange(self.problem.n), weights, slack)):
            self.queries += gathered.add(i, seen)
        return gathered.responses

    def _ask(self, examples: Ints, weights: Weights, slack: Floats | None) -> list[Violation]:
        """The most violating labels of some examples; an example is always asked about in the same part."""
        parts = self._blocks.n_blocks
        shares = [np.flatnonzero(examples % parts == part) for part in range(parts)]
        question = _Question(weights.W, weights.theta, [examples[share].tolist() for share in shares], slack)
        violations: dict[int, Violation] = {}
        for share, seen in zip(shares, self._blocks.map(_violations, question), strict=True):
            violations |= zip(share.tolist(), seen, strict=True)
        return [violations[place] for place in range(examples.shape[0])]


class _Question(NamedTuple):
    """Weights, and the examples of every part."""

    W: Floats
    theta: Floats
    examples: list[list[int]]
    slack: Floats | None


def _with_problem(_: object, problem: StructuredProblem) -> StructuredProblem:
    return problem


def _violations(block: Block, question: _Question) -> list[Violation]:
    problem: StructuredProblem = block.data
    W, theta, examples, slack = question
    return [
        problem.violation(i, problem.potentials(i, W), theta, None if slack is None else float(slack[i]))
        for i in examples[block.index]
    ]
