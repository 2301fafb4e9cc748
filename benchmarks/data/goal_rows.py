"""Rows and goals of any size: people of a9a, dense rows; and two families that nothing was tuned on."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from widemargin import RateConstrainedClassifier
from widemargin.distributed import labelled_rows
from widemargin.distributed.recipes import ArrayRows
from widemargin.goals import Goal
from widemargin_papers.data import Adult

N_EXTRA, EXTRA_SHARE, FLIPS = 19, 0.2, 0.01


class GoalRows(NamedTuple):
    """Features, labels, table of populations, goal."""

    X: Any
    y: npt.NDArray[np.float64]
    populations: pa.Table
    goal: Goal | str

    def blocks(self, block_rows: int) -> list[ArrayRows]:
        """The rows in blocks of so many."""
        return labelled_rows(self.X, self.y, populations=self.populations, block_rows=block_rows)

    def fit(self) -> RateConstrainedClassifier:
        """A whole fit with the defaults; a goal that is not met shows in the tables."""
        model = RateConstrainedClassifier(self.goal, on_infeasible="warn")
        return model.fit(self.X, self.y, populations=self.populations)


def resampled_task(adult: Adult, n: int, m: int = 4, seed: int = 0) -> GoalRows:
    """Rows of a9a drawn with replacement, 19 binary columns more, and 1% of the bits flipped: 142 columns, 19 ones.

    m = 1: the 80% rule between the sexes. Up to 4: recall floors for all and for each sex beside it. More: recall of
    at least 90% in each of m countries of very different size.
    """
    rng = np.random.default_rng(seed)
    picked = rng.integers(adult.X.shape[0], size=n)
    extra = sp.random(n, N_EXTRA, EXTRA_SHARE, "csr", bool, rng)
    bits = sp.hstack([sp.csr_matrix(adult.X, dtype=bool)[picked], extra], "csr")
    X = sp.csr_matrix(bits != sp.random(*bits.shape, FLIPS, "csr", bool, rng), dtype=np.float64)
    return GoalRows(X, adult.y[picked], _populations(adult.women[picked], m, rng), goal_of(m))


def goal_of(m: int) -> Goal:
    """The goal with m constraints."""
    asked = [f"recall(population(country == {j})) >= 0.9" for j in range(m)]
    if m <= 4:
        women, men = (f"population(sex == '{name}')" for name in ("Female", "Male"))
        asked = [
            f"positive_rate({women}) >= 0.8 * positive_rate({men})",
            "recall() >= 0.60", f"recall({women}) >= 0.58", f"recall({men}) >= 0.62",
        ]  # fmt: skip
    return Goal.parse("\nsubject to ".join(["minimize error_rate()", *asked[:m]]))


def dense_task(n: int, d: int, seed: int = 0) -> GoalRows:
    """Gaussian columns, a noisy linear concept that a group is better at, the 80% rule and a recall floor."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    women = rng.random(n) < 1 / 3
    score = X @ (rng.standard_normal(d) / np.sqrt(d)) - 0.5 * women + rng.standard_normal(n)
    X[:, 0] += women
    return _ranked(X, score, 0.25, women, rng)


def mixed_task(n: int, m: int = 4, seed: int = 0) -> GoalRows:
    """Ten words of 3 to 30 values as columns of 0 and 1, and six skewed numbers: 138 columns, 16 stored a row."""
    rng = np.random.default_rng(seed)
    sizes = np.array([3, 4, 5, 8, 10, 12, 15, 20, 25, 30])
    starts = 6 + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    women = rng.random(n) < 0.45
    kind = rng.standard_normal(n) + 0.3 * women
    # Frequent values come first, and a hidden kind of person shifts what is frequent.
    chosen = (sizes * rng.beta(1.0, 2.0, (n, 10)) + 0.4 * kind[:, None]).astype(np.int32).clip(0, sizes - 1)
    numbers = np.exp(0.5 * rng.standard_normal((n, 6)) + 0.2 * kind[:, None])
    indices = np.hstack([np.broadcast_to(np.arange(6), (n, 6)), starts + chosen]).astype(np.int32)
    values = np.hstack([numbers, np.ones((n, 10))])
    ends = np.arange(0, 16 * n + 1, 16, dtype=np.int32)
    X = sp.csr_matrix((values.ravel(), indices.ravel(), ends), shape=(n, 6 + sizes.sum()))
    score = X @ rng.standard_normal(X.shape[1]) + 0.5 * kind + 1.5 * rng.logistic(size=n)
    return _ranked(X, score, 0.3, women, rng, m)


def heavy_task(n: int, d: int, seed: int = 0) -> GoalRows:
    """Correlated columns with the tails of Student's t with 4 degrees of freedom, two groups that differ in a tenth."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(4.0, (n, d)) + 0.5 * rng.standard_normal((n, 1))
    women = rng.random(n) < 0.4
    X[:, : d // 10] += 0.3 * women[:, None]
    score = X @ (rng.laplace(size=d) / np.sqrt(d)) + rng.logistic(size=n)
    return _ranked(X, score, 0.35, women, rng)


def _ranked(X: Any, score: Any, share: float, women: Any, rng: np.random.Generator, m: int = 2) -> GoalRows:
    """Positive is a share of the rows, those of the largest scores."""
    y = np.where(score > np.quantile(score, 1.0 - share), 1.0, -1.0)
    return GoalRows(X, y, _populations(women, m, rng), goal_of(m))


def _populations(women: Any, m: int, rng: np.random.Generator) -> pa.Table:
    """Sexes, and m countries of very different size."""
    sizes = 1.0 / np.arange(1, m + 1) ** 0.5
    country = rng.choice(m, size=len(women), p=sizes / sizes.sum()).astype(np.int16)
    return pa.table({"sex": np.where(women, "Female", "Male"), "country": country})
