"""The hot kernels that two commits are compared on: each prepares its data and returns what is timed.

They are fits that spend their time in one kernel, by public names, so that they stay where modules move; a kernel that
a commit does not have is left out there, and the others still run. Data are synthetic and the same for every commit. An
entry runs for some milliseconds, or some tenths of a second.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import widemargin as wm
from widemargin_papers.data import synthetic_a9a

Action = Callable[[], Any]


def kernel_fit(kind: str, **options: Any) -> Action:
    """A fit of 1,000 rows: dense ones of 100 columns, float32, or sparse ones of 0 and 1."""
    data = synthetic_a9a(1000)
    X = np.random.default_rng(0).normal(size=(1000, 100)) if kind == "dense" else data.X.toarray()
    clf = wm.KernelSVC(random_state=0, **options)
    return lambda: clf.fit(X.astype(np.float32), data.y)


def constrained_fit(n: int, **options: Any) -> Action:
    """A whole fit under the 80% rule on CSR rows."""
    data = synthetic_a9a(n)
    women, men = "positive_rate(population(w == True))", "positive_rate(population(w == False))"
    clf = wm.RateConstrainedClassifier(f"subject to {women} >= 0.8 * {men}", **options)
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


KERNELS: dict[str, Callable[[], Action]] = {
    "kernel fit, dense": partial(kernel_fit, "dense"),
    "kernel fit, 0/1": partial(kernel_fit, "0/1"),
    "batch perceptron": partial(kernel_fit, "0/1", solver="sbp", C=1.0),
    "constrained fit": partial(constrained_fit, 1500),
    # Sums of smoothed hinges, products of rows, their Gram matrix.
    "constrained fit, 20,000 rows": partial(constrained_fit, 20_000, max_steps=1),
    # Dual ascent.
    "constrained fit, the paper's nest": partial(
        constrained_fit, 3000, max_steps=1, solver_options={"solver": "cutting-plane"}
    ),
    "label sets, no pairs": partial(structured_fit, None),
    "label sets, tree": partial(structured_fit, "tree"),
    "label sets, all pairs": partial(structured_fit, "full"),
    "sequences": chain_fit,
    "margin pursuit, 5 steps": margin_gradient,
    "bind and audit": bind_and_audit,
}
