"""Cutting planes, with a slack per example or one slack in all, and the small quadratic programme of their cuts.

Every round asks for the most violating label of every example, adds cuts for those, and solves the problem of all cuts.
With a slack per example (Tsochantaridis, Hofmann, Joachims and Altun 2005, Algorithm 1) a cut is the label of one
example; the problem is solved by example, over the simplex of its cuts, until no example gains. With one slack
(Joachims, Finley and Yu 2009, Algorithm 3) a cut is the sum of the labels of all examples. Such cuts are kept by block,
sparse: their products follow from the scores of a new cut, and no cut needs memory in the number of features.
"""

import numpy as np
import scipy.sparse as sp

from widemargin.extending import Floats, kernel
from widemargin.solvers.base import Budget
from widemargin.structured.learners.example_rows import add_rows, all_scores
from widemargin.structured.learners.passes import Responses, choose_passes
from widemargin.structured.learners.problem import Blocks, StructuredProblem, begin, dual_value, norm2, weights_of
from widemargin.structured.learners.result import DEFAULTS, LearnerOptions, LearnerRecorder, LearnerResult
from widemargin.structured.model import Weights


@kernel
def ascend(G: Floats, slope: Floats, x: Floats, tol: float, max_steps: int) -> int:
    """Maximise `c.x - 1/2 x'Gx` over `x >= 0` with the sum of x kept, from a feasible x.

    By pairs of variables, as in LIBSVM (Fan, Chen and Lin 2005). `slope` holds `c - G x` and is kept. Ends when no move
    from one variable to another gains at a rate above `tol`. Returns the number of moves.

    The programmes have a handful of variables each, and there are thousands of them in a round: from the last solution
    a few moves are enough, at a microsecond each, where an interior point would start anew.
    """
    n = x.shape[0]
    for moves in range(max_steps):
        # The first of the pair is the variable with the steepest slope, the second the one that gives the largest gain
        # with it to second order: `rate^2 / curvature`.
        up = 0
        for j in range(1, n):
            if slope[j] > slope[up]:
                up = j
        down, most, worst = -1, 0.0, 0.0
        for j in range(n):
            rate = slope[up] - slope[j]
            if x[j] > 0.0 and rate > 0.0:
                worst = max(worst, rate)
                gain = rate * rate / max(G[up, up] + G[j, j] - 2.0 * G[up, j], 1e-300)
                if gain > most:
                    most, down = gain, j
        if worst <= tol or down < 0:
            return moves
        curvature = G[up, up] + G[down, down] - 2.0 * G[up, down]
        length = x[down]
        if curvature > 0.0:
            length = min(length, (slope[up] - slope[down]) / curvature)
        before = x[down]
        x[up] += length
        x[down] = before - length if length < before else 0.0  # exactly 0, so that the cut counts as inactive
        for j in range(n):
            slope[j] -= length * (G[j, up] - G[j, down])
    return max_steps


def maximise(G: Floats, c: Floats, x: Floats, tol: float, slope: Floats | None = None) -> Floats:
    """Maximise `c.x - 1/2 x'Gx` over `x >= 0` with the sum of x kept.

    Parameters
    ----------
    G : ndarray of shape (K, K)
        Positive semi-definite.
    c : ndarray of shape (K,)
    x : ndarray of shape (K,)
        Feasible; changed in place.
    tol : float
        Largest gain left, per unit moved from one variable to another.
    slope : ndarray of shape (K,), default=None
        `c - G x` where it is known.

    Returns
    -------
    ndarray of shape (K,)
        x.
    """
    gradient = c - G @ x if slope is None else np.array(slope, dtype=np.float64)
    ascend(np.ascontiguousarray(G), gradient, x, tol, 100_000)
    return x


class _ExampleCuts:
    """The cuts of one example with their dual variables; the first is the label y_i, whose p and l are 0."""

    def __init__(self, m: int, S: int, P: int, C: float, gram: Floats) -> None:
        self.A = np.zeros((1, m, S))
        self.b = np.zeros((1, P))
        self.loss = np.zeros(1)
        self.x = np.array([C])
        self.G = np.zeros((1, 1))
        self.gram = gram.reshape(m, m)

    def add(self, A: Floats, b: Floats, loss: float) -> None:
        spread = self.gram @ A  # products of the example's rows with the new cut's
        products = np.append(np.einsum("kms,ms->k", self.A, spread) + self.b @ b, float((A * spread).sum() + b @ b))
        self.G = np.block([[self.G, products[:-1, None]], [products[None, :]]])
        # A new cut begins with no weight: the dual point is the same with it as without.
        self.A, self.b = np.concatenate([self.A, A[None]]), np.concatenate([self.b, b[None]])
        self.loss, self.x = np.append(self.loss, loss), np.append(self.x, 0.0)

    def slope(self, u: Floats, theta: Floats) -> Floats:
        """`l - w . p` of every cut."""
        slopes: Floats = self.loss - np.tensordot(self.A, u, 2) - self.b @ theta
        return slopes


class _CutsByExample:
    """The cuts of all examples: y_i of every example, and its block to start from as a cut of weight C."""

    def __init__(
        self, problem: StructuredProblem, blocks: Blocks, weights: Weights, options: LearnerOptions, budget: Budget
    ) -> None:
        self._problem, self._options, self._budget = problem, options, budget
        self._cuts: list[_ExampleCuts] = []
        self.slack = np.zeros(problem.n)
        self._open = np.inf  # what the last solution left open of the problem of the cuts
        # A point to start from becomes one cut for each example, so that it loses nothing.
        for i in range(problem.n):
            rows = self._rows(i)
            gram = problem.gram[problem.gram_start[i] : problem.gram_start[i + 1]]
            cuts = _ExampleCuts(rows.stop - rows.start, problem.S, problem.P, problem.C, gram)
            if blocks.loss[i] > 0.0 or blocks.a[rows].any():
                cuts.add(blocks.a[rows] / problem.C, blocks.b[i] / problem.C, float(blocks.loss[i]) / problem.C)
                cuts.x[:] = 0.0, problem.C
            self._cuts.append(cuts)
        self._measure(weights)

    def _rows(self, i: int) -> slice:
        return slice(int(self._problem.start[i]), int(self._problem.start[i + 1]))

    def improve(
        self, labels: Blocks, seen: Responses, blocks: Blocks, weights: Weights, recorder: LearnerRecorder
    ) -> Blocks | None:
        """Add the labels that violate and solve the problem of all cuts; None where neither gains."""
        problem, options = self._problem, self._options
        # Relative to the labels found, not to their upper bounds: with a heuristic search these may stay far apart.
        primal = 0.5 * norm2(weights) + problem.C * float(seen.value.sum())
        least = max(options.share_of_cuts * recorder.tol, options.least_gap) * primal
        violating = np.flatnonzero(seen.value > self.slack + least / (problem.C * problem.n))
        # Early rounds need no precision: new cuts change everything again. Where none comes, the gap may be what the
        # last solution left open, so that is closed before the run may end.
        left = max(least, options.share_of_cuts * (primal - recorder.dual)) if violating.shape[0] else least
        if violating.shape[0] == 0 and self._open <= least:
            return None
        for i in violating.tolist():
            self._cuts[i].add(labels.a[self._rows(i)], labels.b[i], float(labels.loss[i]))
        moved = self._solve(blocks, weights, left)
        return blocks if moved or violating.shape[0] else None

    def _solve(self, blocks: Blocks, weights: Weights, left: float) -> bool:
        """Maximise the dual over the cuts, example by example, until the gap is `left`; whether any block moved."""
        problem, moved = self._problem, False
        # What every example may leave open, so that all together leave `left`.
        enough = left / (problem.C * problem.n)
        for _ in range(self._options.sweeps):
            total = 0.0
            for i, cuts in enumerate(self._cuts):
                # An example that never violated has y_i alone, and nothing to decide.
                if cuts.x.shape[0] == 1:
                    continue
                slope = cuts.slope(problem.potentials(i, weights.W), weights.theta)
                gap = problem.C * max(0.0, float(slope.max())) - float(slope @ cuts.x)
                total += gap
                # Hardly anything to gain here: others are worth the time more.
                if gap <= 0.1 * problem.C * enough:
                    continue
                before = cuts.x.copy()
                maximise(cuts.G, cuts.loss, cuts.x, 0.1 * enough, slope)
                # The block and the weights follow the change, so that the next example sees what this one gained.
                change, rows = cuts.x - before, self._rows(i)
                moved |= bool(change.any())
                da, db = np.tensordot(change, cuts.A, 1), change @ cuts.b
                blocks.a[rows] += da
                blocks.b[i] += db
                blocks.loss[i] += float(change @ cuts.loss)
                add_rows(problem.rows, rows.start, rows.stop, da, 1.0, weights.W)
                weights.theta[:] += db
            if total <= left or self._budget.exhausted:
                break
        # Later examples have changed the weights since the first ones were looked at.
        self._open = self._measure(weights)
        return moved

    def _measure(self, weights: Weights) -> float:
        """Set the slacks at these weights; the gap of the problem of the cuts."""
        problem, total = self._problem, 0.0
        for i, cuts in enumerate(self._cuts):
            if cuts.x.shape[0] > 1:
                slope = cuts.slope(problem.potentials(i, weights.W), weights.theta)
                self.slack[i] = max(0.0, float(slope.max()))
                total += problem.C * self.slack[i] - float(slope @ cuts.x)
        return total


class _CutsOfAll:
    """Sums of labels: their blocks, products and losses, with dual variables; the first is that of all y_i, 0."""

    slack: Floats | None = None

    def __init__(self, problem: StructuredProblem, start: Blocks | None, options: LearnerOptions) -> None:
        self._problem, self._options = problem, options
        self._a = [sp.csr_matrix((int(problem.start[-1]), problem.S))]
        self._b = [sp.csr_matrix((problem.n, problem.P))]
        self._loss = [np.zeros(problem.n)]
        self._theta = [np.zeros(problem.P)]
        self._G, self._x = np.zeros((1, 1)), np.array([problem.C])
        if start is not None:
            self._add(start.scaled(1.0 / problem.C))
            self._x[:] = 0.0, problem.C

    def _add(self, labels: Blocks) -> None:
        # Blocks of a cut are sparse: at most examples no label violates in the end.
        weights = weights_of(self._problem, labels)
        u = all_scores(self._problem.rows, weights.W)
        self._a.append(sp.csr_matrix(labels.a))
        self._b.append(sp.csr_matrix(labels.b))
        self._loss.append(labels.loss.copy())
        self._theta.append(weights.theta)
        # <W_k, W_new> = sum of a_k times the scores of the new weights: no W but the new one is needed.
        products = np.array([a.multiply(u).sum() for a in self._a]) + np.array(self._theta) @ weights.theta
        self._G = np.block([[self._G, products[:-1, None]], [products[None, :]]])
        self._x = np.append(self._x, 0.0)

    def improve(
        self, labels: Blocks, seen: Responses, blocks: Blocks, weights: Weights, recorder: LearnerRecorder
    ) -> Blocks | None:
        """Add the sum of the labels as a cut and solve the problem of all cuts."""
        self._add(labels)
        least = max(self._options.share_of_cuts * recorder.tol, self._options.least_gap)
        losses: Floats = np.array([loss.sum() for loss in self._loss])
        x = maximise(self._G, losses, self._x, least * recorder.primal / self._problem.C)
        # Most cuts have no weight by now; the sum runs over the few that have.
        active = np.flatnonzero(x)
        return Blocks(
            np.asarray(sum(x[k] * self._a[k] for k in active).todense()),
            np.asarray(sum(x[k] * self._b[k] for k in active).todense()),
            np.sum([x[k] * self._loss[k] for k in active], axis=0),
        )


def slack_per_example(
    problem: StructuredProblem,
    *,
    tol: float = 0.01,
    max_iter: int = 100,
    start: Blocks | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    compiled: bool | None = None,
    options: LearnerOptions = DEFAULTS,
) -> LearnerResult:
    """Minimise the structured hinge loss by cuts of single examples.

    Parameters
    ----------
    problem : StructuredProblem
    tol : float, default=0.01
        Relative duality gap at which to stop.
    max_iter : int, default=100
        Most rounds, each of one search per example.
    start : Blocks, default=None
        Dual point to go on from, changed in place; that of another C must be scaled (`Blocks.scaled`).
        The block of an example becomes its first cut.
    budget : Budget, default=None
    seed : int, default=0
        Of an oracle with random starts.
    compiled : bool, default=None
        False: searches in Python even where the model has compiled ones.
    options : LearnerOptions

    Returns
    -------
    LearnerResult
        `n_iter` counts rounds.
    """
    budget = budget or Budget()
    blocks, weights = begin(problem, start)
    cuts = _CutsByExample(problem, blocks, weights, options, budget)
    return _rounds(problem, cuts, "cutting plane", blocks, weights, tol, max_iter, budget, seed, compiled)


def one_slack(
    problem: StructuredProblem,
    *,
    tol: float = 0.01,
    max_iter: int = 100,
    start: Blocks | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    compiled: bool | None = None,
    options: LearnerOptions = DEFAULTS,
) -> LearnerResult:
    """Minimise the structured hinge loss by cuts of all examples together.

    Parameters
    ----------
    problem, tol, budget, seed, compiled, options
        As in `slack_per_example`.
    max_iter : int, default=100
        Most cuts.
    start : Blocks, default=None
        Dual point to go on from; that of another C must be scaled (`Blocks.scaled`).
        It becomes the first cut.

    Returns
    -------
    LearnerResult
        `n_iter` counts cuts.

    Raises
    ------
    CapabilityError
        With a search that needs the slack of each example.
    """
    blocks, weights = begin(problem, start)
    cuts = _CutsOfAll(problem, start, options)
    return _rounds(problem, cuts, "1-slack", blocks, weights, tol, max_iter, budget or Budget(), seed, compiled)


def _rounds(
    problem: StructuredProblem, cuts: _CutsByExample | _CutsOfAll, stage: str, blocks: Blocks, weights: Weights,
    tol: float, max_iter: int, budget: Budget, seed: int, compiled: bool | None,
) -> LearnerResult:  # fmt: skip
    """Ask for labels and add cuts, until the gap is closed or nothing violates any more."""
    passes = choose_passes(problem, seed, compiled)
    recorder, converged = LearnerRecorder(problem, passes, budget, stage, tol), False
    try:
        while True:
            seen = passes.responses(weights, keep=True, slack=cuts.slack)
            recorder.calls += problem.n
            # The labels just found are the certificate of these weights too: no pass is spent on it.
            recorder.evaluate(weights, seen)
            recorder.bound(dual_value(blocks, weights))
            converged = recorder.look(recorder.done)
            if converged or recorder.done >= max_iter or budget.exhausted or seen.labels is None:
                break
            improved = cuts.improve(seen.labels, seen, blocks, weights, recorder)
            if improved is None:
                break  # no more cuts, and their problem is solved: what is left is the search's or rounding's
            recorder.done, blocks = recorder.done + 1, improved
            weights = weights_of(problem, blocks)
    except KeyboardInterrupt:
        budget.interrupted = True
    recorder.steps = recorder.done * problem.n
    return recorder.result(weights, blocks, converged)
