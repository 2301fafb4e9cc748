"""Drawn families: of two classes, rows and labels of 0 and 1; and rows with goals, of any size."""

from collections.abc import Callable
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

Floats = npt.NDArray[np.float64]
Rows = tuple[Floats, npt.NDArray[np.int64]]


# --- for kernels: of a fixed seed, as many rows as one likes ----------------------------------------------------------


def one_hot(n: int = 20_000, columns: int = 14, values: int = 8) -> Rows:
    """Nominal columns, one-hot; two pairs of them interact."""
    rng = np.random.default_rng(3)
    cell = rng.integers(values, size=(n, columns))
    X = np.zeros((n, columns * values))
    X[np.arange(n)[:, None], np.arange(columns) * values + cell] = 1.0
    score, pair = X @ rng.normal(size=columns * values), rng.normal(size=(values, values))
    score += 1.5 * pair[cell[:, 0], cell[:, 1]] + 1.5 * pair[cell[:, 2], cell[:, 3]] + 0.7 * rng.logistic(size=n)
    return X, (score > np.median(score)).astype(np.int64)


def counts(n: int = 15_000, words: int = 400, topics: int = 12) -> Rows:
    """Counts of words in short texts of mixed topics."""
    rng = np.random.default_rng(7)
    topic, mix = rng.dirichlet(np.full(words, 0.08), size=topics), rng.dirichlet(np.full(topics, 0.3), size=n)
    X = rng.poisson(60.0 * mix @ topic).astype(float)
    score = mix @ rng.normal(size=topics) + 0.15 * rng.normal(size=n)
    return X, (score > np.median(score)).astype(np.int64)


def textures(n: int = 10_000, side: int = 24) -> Rows:
    """Gratings of any place and wavelength under noise, as bytes; the classes differ in the slant."""
    rng = np.random.default_rng(19)
    down, across = np.mgrid[0:side, 0:side]
    X, y = np.empty((n, side * side)), rng.integers(2, size=n)
    for i in range(n):
        slant, wave, phase = rng.normal(0.6 + 0.5 * y[i], 0.25), rng.uniform(5, 9), rng.uniform(0, 2 * np.pi)
        grating = np.sin(2 * np.pi * (down * np.sin(slant) + across * np.cos(slant)) / wave + phase)
        X[i] = (127.5 + 90.0 * grating + 25.0 * rng.normal(size=(side, side))).ravel()
    return np.clip(np.floor(X), 0.0, 255.0) / 255.0, y


def waves(n: int, columns: int) -> Rows:
    """The sign of a sum of sines."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n, columns))
    return X, (np.sin(2 * X).sum(axis=1) + 0.5 * rng.normal(size=n) > 0).astype(np.int64)


def board(n: int, columns: int, cells: int, seed: int) -> Rows:
    """A checkerboard with 3% of the labels wrong."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, columns))
    y = np.floor(cells * X).sum(axis=1).astype(int) % 2
    return X, np.where(rng.random(n) < 0.03, 1 - y, y)


def towns(n: int = 40_000, columns: int = 3, centres: int = 800) -> Rows:
    """Many small clusters, each of one class, 2% of the labels wrong."""
    rng = np.random.default_rng(41)
    centre, of = rng.random((centres, columns)), rng.integers(centres, size=n)
    y = rng.integers(2, size=centres)[of]
    return centre[of] + 0.02 * rng.normal(size=(n, columns)), np.where(rng.random(n) < 0.02, 1 - y, y)


KERNEL_FAMILIES: dict[str, Callable[..., Rows]] = {
    "drawn: one-hot": one_hot,
    "drawn: counts": counts,
    "drawn: textures": textures,
    "drawn: board, 2 columns": lambda n=30_000: board(n, 2, 4, 11),
    "drawn: board, 3 columns": lambda n=30_000: board(n, 3, 3, 23),
    "drawn: blocks": lambda n=50_000: board(n, 2, 16, 37),
    "drawn: towns": towns,
}


# --- for risks: other rows, and other parameters, for every seed ------------------------------------------------------


def noisy(rng: np.random.Generator, n: int, d: int, noise: float) -> Rows:
    """A hyperplane, normal features and a logistic chance of the label."""
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    score = X @ w / np.linalg.norm(w)
    return X, (score + noise * rng.logistic(size=n) > 0).astype(np.int64)


def heavy(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Features with tails of Student's t with 2 degrees of freedom."""
    X, w = rng.standard_t(2.0, size=(n, d)), rng.normal(size=d)
    return X, (np.tanh(X) @ w + 0.5 * rng.logistic(size=n) > 0).astype(np.int64)


def rare(rng: np.random.Generator, n: int, d: int, share: float) -> Rows:
    """A rare class, shifted."""
    y = (rng.random(n) < share).astype(np.int64)
    return rng.normal(size=(n, d)) + 2.5 * y[:, None] * rng.normal(size=d) / np.sqrt(d), y


def minority(rng: np.random.Generator, n: int, d: int) -> Rows:
    """A tenth of the rows follow a rule of their own, and a feature says which."""
    X, w = rng.normal(size=(n, d)), rng.normal(size=(2, d))
    few = (rng.random(n) < 0.1).astype(np.int64)
    X[:, 0] = few * 2.0 + 0.3 * X[:, 0]
    score = np.einsum("ij,ij->i", X[:, 1:], w[few][:, 1:]) / np.sqrt(d)
    return X, (score + 0.3 * rng.logistic(size=n) > 0).astype(np.int64)


def words(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Sparse counts, most of which say nothing."""
    X = rng.poisson(0.1, size=(n, d)).astype(np.float64)
    w = np.where(rng.random(d) < 0.2, rng.normal(size=d), 0.0)
    return X, (X @ w + 0.3 * rng.logistic(size=n) > np.median(X @ w)).astype(np.int64)


RISK_FAMILIES: dict[str, tuple[Callable[[np.random.Generator, int], Rows], int]] = {
    "drawn: 50 columns": (lambda rng, n: noisy(rng, n, 50, 0.2), 1000),
    "drawn: heavy tails": (lambda rng, n: heavy(rng, n, 15), 1000),
    "drawn: many words": (lambda rng, n: words(rng, n, 200), 1000),
    "drawn: minority": (lambda rng, n: minority(rng, n, 10), 1000),
    "drawn: rare, 3%": (lambda rng, n: rare(rng, n, 30, 0.03), 3000),
}
"""What draws them, and how many training rows."""


# --- for goals: of any size -------------------------------------------------------------------------------------------

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


GOAL_FAMILIES: dict[str, Callable[..., GoalRows]] = {
    "drawn: dense": dense_task, "drawn: mixed columns": mixed_task, "drawn: heavy columns": heavy_task,
}  # fmt: skip


def _ranked(X: Any, score: Any, share: float, women: Any, rng: np.random.Generator, m: int = 2) -> GoalRows:
    """Positive is a share of the rows, those of the largest scores."""
    y = np.where(score > np.quantile(score, 1.0 - share), 1.0, -1.0)
    return GoalRows(X, y, _populations(women, m, rng), goal_of(m))


def _populations(women: Any, m: int, rng: np.random.Generator) -> pa.Table:
    """Sexes, and m countries of very different size."""
    sizes = 1.0 / np.arange(1, m + 1) ** 0.5
    country = rng.choice(m, size=len(women), p=sizes / sizes.sum()).astype(np.int16)
    return pa.table({"sex": np.where(women, "Female", "Male"), "country": country})
