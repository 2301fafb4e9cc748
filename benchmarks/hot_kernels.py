"""The hot kernels that two commits are compared on: each prepares its data and returns what is timed.

Inner modules are imported inside the functions, so that a kernel that a commit does not have is left out there, and
the others still run. Data are synthetic and the same for every commit. An entry runs for some milliseconds.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import widemargin as wm
from widemargin_papers.data import synthetic_a9a

Action = Callable[[], Any]


def water_level() -> Action:
    """The level of the stochastic batch perceptron, warm from scores that move (20,000 rows, two basins)."""
    from widemargin.solvers.kernel_svm.batch_perceptron.water_level import WaterLevel

    rng = np.random.default_rng(0)
    y = np.where(rng.random(20_000) < 0.3, 1.0, -1.0)
    water = WaterLevel(y, np.ones(y.shape[0]), True)
    scores = rng.normal(size=y.shape[0]) + 0.01 * rng.normal(size=(10, y.shape[0])).cumsum(axis=0)
    return lambda: [water.of_volume(some, 500.0) for some in scores]


def sdca_epochs() -> Action:
    """Three epochs of dual ascent on CSR rows, from zero (10,000 rows)."""
    from widemargin.solvers.paper_nest.sdca import Ascent

    rows, rng = _rows(10_000), np.random.default_rng(0)
    plus, minus = 0.01 * rng.random((2, rows.n_rows))

    def run() -> None:
        ascent = Ascent(rows, 0.1)
        ascent.set_sides(plus, minus)
        for _ in range(3):
            ascent.epoch(0.1, 0.1)

    return run


def smo_pairs() -> Action:
    """Pair steps of the working-set solver on one block of 512 kernel rows, in float32."""
    from widemargin.solvers.kernel_svm.dual import pair_steps

    X, y = _clouds(512)
    K = _kernel_rows(X).full()
    lower, upper = np.minimum(10 * y, 0), np.maximum(10 * y, 0)

    def run() -> None:
        room = np.empty((5, 512), np.float32)
        g, b = y.astype(float), np.zeros(512)
        pair_steps.solve_pairs(
            np.empty((0, 0), K.dtype), 0.0, K, np.arange(512), 512, K.diagonal().copy(), g, b, lower, upper, room,
            False, 1e-3, 1e-4, 2000,
        )  # fmt: skip

    return run


def kernel_rows(kind: str) -> Action:
    """64 rows of a Gaussian kernel with 5,000 rows: dense ones of 100 columns, float32, or sparse ones of 0 and 1."""
    X = _clouds(5000, 100)[0] if kind == "dense" else synthetic_a9a(5000).X.toarray().astype(np.float32)
    rows = _kernel_rows(X)
    return lambda: rows.block(np.arange(64))


def row_products() -> Action:
    """`X w` and `X' g` of 20,000 CSR rows."""
    rows, rng = _rows(20_000), np.random.default_rng(0)
    w, g = rng.normal(size=rows.n_features), rng.normal(size=rows.n_rows)
    return lambda: (rows.dot(w), rows.tdot(g))


def band_gram() -> Action:
    """The Gram matrix of the rows of the band in the proximal Newton solver (a fifth of 20,000 rows)."""
    rows = _rows(20_000)
    scale = np.where(np.random.default_rng(0).random(rows.n_rows) < 0.2, 1.0, 0.0)
    return lambda: rows.gram(scale)


def smoothed_hinges() -> Action:
    """The smoothed hinge sums of the proximal Newton solver's line search, 100,000 rows in four cells."""
    from widemargin.solvers.convex.smoothed_hinges import smooth_sums

    rng = np.random.default_rng(0)
    n = 100_000
    z, dz, weight, up, um = *rng.normal(size=(2, n)), *rng.random((3, n))
    cell, keep = rng.integers(0, 4, n).astype(np.int32), np.full(n, 3, dtype=np.uint8)
    return lambda: smooth_sums(z, dz, weight, cell, keep, up, um, 0.3, 0.1, np.zeros((4, 4)))


def constrained_fit() -> Action:
    """A whole small fit under the 80% rule (1,500 rows)."""
    data = synthetic_a9a(1500)
    women, men = "positive_rate(population(w == True))", "positive_rate(population(w == False))"
    clf = wm.RateConstrainedClassifier(f"subject to {women} >= 0.8 * {men}")
    return lambda: clf.fit(data.X, (data.y > 0).astype(int), populations=pa.table({"w": data.women}))


def block_frank_wolfe() -> Action:
    """Passes over examples with a tree of labels."""
    from widemargin.structured.learners import block_frank_wolfe as learner

    problem = _structured("tree")
    return lambda: learner.solve(problem, tol=1e-12, max_iter=3)


def argmax(kind: str) -> Action:
    """Most violating labels of all examples at random weights."""
    from widemargin.structured.learners.passes import CompiledPasses
    from widemargin.structured.model import Weights

    problem, rng = _structured(kind), np.random.default_rng(1)
    *first, last = problem.model.prepare(problem.X, problem.Y)
    weights = Weights(rng.normal(size=first), rng.normal(size=last))
    passes = CompiledPasses(problem)
    return lambda: passes.responses(weights)


def margin_gradient() -> Action:
    """Value and gradient of margin pursuit over 20,000 CSR rows."""
    data = synthetic_a9a(20_000)
    clf = wm.MarginPursuitClassifier(scale=1.0, max_iter=5)

    def run() -> None:
        with warnings.catch_warnings(action="ignore"):  # that it did not converge
            clf.fit(data.X, (data.y > 0).astype(int))

    return run


def bind_and_audit() -> Action:
    """Bind a goal with four constraints to 50,000 rows and measure predictions, without intervals."""
    rng, n = np.random.default_rng(0), 50_000
    table = pa.table({"sex": rng.choice(["F", "M"], n), "deployed": rng.integers(0, 2, n)})
    y, said = rng.integers(0, 2, (2, n))
    goal = """
    subject to positive_rate(population(sex == "F")) >= 0.5 * positive_rate(population(sex == "M"))
    subject to recall() >= 0.4
    subject to precision() >= 0.4
    subject to churn("deployed") <= 0.6
    """
    return lambda: wm.audit(said, goal, np.zeros((n, 1)), y, populations=table, confidence=None)


def _rows(n: int) -> Any:
    from widemargin.linalg.matrix_blocks import RowBlocks

    return RowBlocks([(synthetic_a9a(n).X, None)])


def _clouds(n: int, d: int = 20) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X, np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 1.0, 1.0, -1.0)


def _kernel_rows(X: Any) -> Any:
    from widemargin.kernels.functions import Kernel
    from widemargin.kernels.rows import KernelRows

    return KernelRows(Kernel("rbf", gamma=0.05), X)


def _structured(kind: str) -> Any:
    from widemargin.structured.learners.problem import StructuredProblem
    from widemargin.structured.models import ChainModel, MultiLabelModel

    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 40))
    Y = (X[:, :14] + 0.7 * rng.normal(size=(1000, 14)) > 0).astype(int)
    if kind == "chain":
        rows = X.reshape(125, 8, 40)
        return StructuredProblem(ChainModel(), [*rows], [*rows[:, :, :14].argmax(axis=2)], C=0.1, rescaling="slack")
    return StructuredProblem(MultiLabelModel(kind), X, Y, C=0.1, rescaling="slack")


KERNELS: dict[str, Callable[[], Action]] = {
    "water level": water_level,
    "SDCA epochs, CSR": sdca_epochs,
    "SMO pair steps": smo_pairs,
    "kernel rows, dense": partial(kernel_rows, "dense"),
    "kernel rows, 0/1": partial(kernel_rows, "0/1"),
    "row products, CSR": row_products,
    "band Gram": band_gram,
    "smooth sums": smoothed_hinges,
    "constrained fit": constrained_fit,
    "BCFW passes, label tree": block_frank_wolfe,
    "argmax, no pairs": partial(argmax, None),
    "argmax, label tree": partial(argmax, "tree"),
    "argmax, chain": partial(argmax, "chain"),
    "argmax, all pairs": partial(argmax, "full"),
    "margin pursuit, 5 steps": margin_gradient,
    "bind and audit": bind_and_audit,
}
