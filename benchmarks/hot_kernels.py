"""The hot kernels that two commits are compared on: each prepares its data and returns what is timed.

Most are small fits that spend their time in one kernel, so that they stay where modules move. Inner modules are
imported inside the functions: a kernel that a commit does not have is left out there, and the others still run. Data
are synthetic and the same for every commit. An entry runs for some milliseconds, or some tenths of a second.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import widemargin as wm
from widemargin_papers.data import synthetic_a9a

Action = Callable[[], Any]


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


def kernel_fit(kind: str, **options: Any) -> Action:
    """A fit of 1,000 rows: dense ones of 100 columns, float32, or sparse ones of 0 and 1."""
    data = synthetic_a9a(1000)
    X = np.random.default_rng(0).normal(size=(1000, 100)) if kind == "dense" else data.X.toarray()
    clf = wm.KernelSVC(random_state=0, **options)
    return lambda: clf.fit(X.astype(np.float32), data.y)


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


def structured_fit(edges: str | None) -> Action:
    """Three passes over 1,000 label sets of 14 labels, with pairs of labels or without."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 40))
    Y = (X[:, :14] + 0.7 * rng.normal(size=(1000, 14)) > 0).astype(int)
    clf = wm.MultiLabelSVC(C=0.1, edges=edges, max_iter=3, random_state=0)
    return partial(clf.fit, X, Y)


def chain_fit() -> Action:
    """Three passes over 125 sequences of 8 rows with 14 labels."""
    X = np.random.default_rng(0).normal(size=(125, 8, 40))
    clf = wm.ChainSVC(C=0.1, max_iter=3, random_state=0)
    return partial(clf.fit, [*X], [*X[:, :, :14].argmax(axis=2)])


def margin_gradient() -> Action:
    """Value and gradient of margin pursuit over 20,000 CSR rows."""
    data = synthetic_a9a(20_000)
    clf = wm.MarginPursuitClassifier(scale=1.0, max_iter=5)
    return partial(clf.fit, data.X, (data.y > 0).astype(int))


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


KERNELS: dict[str, Callable[[], Action]] = {
    "dual ascent, CSR": sdca_epochs,
    "kernel fit, dense": partial(kernel_fit, "dense"),
    "kernel fit, 0/1": partial(kernel_fit, "0/1"),
    "batch perceptron": partial(kernel_fit, "0/1", solver="sbp", C=1.0),
    "row products, CSR": row_products,
    "band Gram": band_gram,
    "smooth sums": smoothed_hinges,
    "constrained fit": constrained_fit,
    "label sets, no pairs": partial(structured_fit, None),
    "label sets, tree": partial(structured_fit, "tree"),
    "label sets, all pairs": partial(structured_fit, "full"),
    "sequences": chain_fit,
    "margin pursuit, 5 steps": margin_gradient,
    "bind and audit": bind_and_audit,
}
