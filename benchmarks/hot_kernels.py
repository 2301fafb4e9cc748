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
    scores = [rng.normal(size=y.shape[0])]
    for _ in range(9):
        scores.append(scores[-1] + 0.01 * rng.normal(size=y.shape[0]))
    return lambda: [water.of_volume(some, 500.0) for some in scores]


def sdca_epoch() -> Action:
    """Three epochs of dual ascent on CSR rows, from zero (10,000 rows)."""
    from widemargin.solvers.paper_nest import sdca

    block = _rows(10_000).blocks[0]
    n, d = block.row_of.shape[0], synthetic_a9a(10_000).X.shape[1]
    rng = np.random.default_rng(0)
    plus, minus = 0.01 * rng.random(n), 0.01 * rng.random(n)
    chunks = rng.permutation(-(-n // 16))
    q = np.full(n, 130.0)

    def run() -> None:
        rest, delay = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
        xi, w, scale = np.zeros(n), np.zeros(d), np.full(d, 10.0)
        dual = sdca.DualRows(plus, minus, q, xi, rest, delay)
        for _ in range(3):
            sdca.epoch_csr(*block.csr, block.row_of, chunks, 16, dual, 63, w, 0.1, scale)

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
    rows = _rows(20_000)
    rng = np.random.default_rng(0)
    w, g = rng.normal(size=synthetic_a9a(20_000).X.shape[1]), rng.normal(size=rows.n_rows)
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
    table = pa.table({"w": data.women})
    goal = """
    w = population(w == True)
    m = population(w == False)
    subject to positive_rate(w) >= 0.8 * positive_rate(m)
    """
    labels = (data.y > 0).astype(int)
    return lambda: wm.RateConstrainedClassifier(goal).fit(data.X, labels, populations=table)


def _bcfw(kind: str) -> Action:
    from widemargin.structured.learners import block_frank_wolfe
    from widemargin.structured.learners.problem import StructuredProblem

    problem = StructuredProblem(*_structured(kind), C=0.1, rescaling="slack")
    return lambda: block_frank_wolfe.solve(problem, tol=1e-12, max_iter=3)


def _argmax(kind: str) -> Action:
    """Most violating labels of all examples at random weights."""
    from widemargin.structured.learners.passes import CompiledPasses
    from widemargin.structured.learners.problem import StructuredProblem
    from widemargin.structured.model import Weights

    model, X, Y = _structured(kind)
    problem = StructuredProblem(model, X, Y, C=0.1, rescaling="slack")
    rng = np.random.default_rng(1)
    sizes = model.prepare(X, Y)
    weights = Weights(rng.normal(size=sizes[:2]), rng.normal(size=sizes[2]))
    passes = CompiledPasses(problem)
    return lambda: passes.responses(weights)


def qpbo() -> Action:
    """Roof duals of 50 models with 30 labels and all pairs, at three prices of loss each, warm from one to the next."""
    from widemargin.structured.oracles.roof_duality import RoofOracle

    rng = np.random.default_rng(0)
    model, X, Y = _structured("full", n=50, k=30)
    model.prepare(X, Y)
    structure = model.structure
    tasks = [(rng.normal(size=(1, 30)), 0.2 * rng.normal(size=structure.pairs.shape[0]), y) for y in Y]

    def run() -> None:
        for u, theta, truth in tasks:
            oracle = RoofOracle(u, theta, truth, structure)
            for lam in (0.0, 0.1, 0.2):
                oracle.value(lam)

    return run


def margin_gradient() -> Action:
    """Value and gradient of margin pursuit over 20,000 CSR rows."""
    data = synthetic_a9a(20_000)
    clf = wm.MarginPursuitClassifier(scale=1.0, max_iter=5)
    labels = (data.y > 0).astype(int)

    def run() -> None:
        with warnings.catch_warnings(action="ignore"):  # that it did not converge
            clf.fit(data.X, labels)

    return run


def bind_and_audit() -> Action:
    """Bind a goal with four constraints to 50,000 rows and measure predictions, without intervals."""
    rng = np.random.default_rng(0)
    n = 50_000
    table = pa.table({"sex": rng.choice(["F", "M"], n), "deployed": rng.integers(0, 2, n)})
    y, said = rng.integers(0, 2, n), rng.integers(0, 2, n)
    goal = """
    women = population(sex == "F")
    men = population(sex == "M")
    subject to positive_rate(women) >= 0.5 * positive_rate(men)
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


def _structured(kind: str, n: int = 1000, k: int = 14) -> tuple[Any, Any, Any]:
    from widemargin.structured.models import ChainModel, MultiLabelModel

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 40))
    if kind == "chain":
        words = [X[i : i + 8] for i in range(0, n, 8)]
        return ChainModel(), words, [np.argmax(word[:, :k], axis=1) for word in words]
    Y = (X[:, :k] + 0.7 * rng.normal(size=(n, k)) > 0).astype(int)
    return MultiLabelModel({"none": None}.get(kind, kind)), X, Y


KERNELS: dict[str, Callable[[], Action]] = {
    "water level": water_level,
    "SDCA epochs, CSR": sdca_epoch,
    "SMO pair steps": smo_pairs,
    "kernel rows, dense": partial(kernel_rows, "dense"),
    "kernel rows, 0/1": partial(kernel_rows, "0/1"),
    "row products, CSR": row_products,
    "band Gram": band_gram,
    "smooth sums": smoothed_hinges,
    "constrained fit": constrained_fit,
    "BCFW passes, label tree": partial(_bcfw, "tree"),
    "argmax, no pairs": partial(_argmax, "none"),
    "argmax, label tree": partial(_argmax, "tree"),
    "argmax, chain": partial(_argmax, "chain"),
    "argmax, all pairs": partial(_argmax, "full"),
    "QPBO": qpbo,
    "margin pursuit, 5 steps": margin_gradient,
    "bind and audit": bind_and_audit,
}
