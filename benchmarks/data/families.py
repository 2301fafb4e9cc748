"""Drawn families of two classes: rows and labels of 0 and 1."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.datasets import make_classification, make_moons

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


def images(n: int = 10_000, faintest: int = 20) -> Rows:
    """Rings and crosses of random place, size and thickness, 28 x 28 bytes; those below the faintest are 0."""
    rng = np.random.default_rng(5)
    down, across = np.mgrid[0:28, 0:28]
    X, y = np.empty((n, 784)), rng.integers(2, size=n)
    for i in range(n):
        x0, y0 = rng.normal(14, 2, 2)
        radius, thick, angle = rng.uniform(4, 9), rng.uniform(0.7, 1.6), rng.uniform(0, np.pi)
        u = (down - x0) * np.cos(angle) + (across - y0) * np.sin(angle)
        v = (across - y0) * np.cos(angle) - (down - x0) * np.sin(angle)
        far = np.hypot(u, v * rng.uniform(0.6, 1.0))
        away = np.abs(far - radius) if y[i] else np.where(far < radius + 1, np.minimum(np.abs(u), np.abs(v)), 9.0)
        shade = 255.0 * np.exp(-((away / thick) ** 2))
        X[i] = np.where(shade < faintest, 0.0, np.floor(shade)).ravel() / 255.0
    return X, y


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


def spirals(n: int = 20_000) -> Rows:
    """Two spirals, blurred."""
    rng = np.random.default_rng(13)
    turn, y = np.sqrt(rng.random(n)) * 4 * np.pi, rng.integers(2, size=n)
    X = np.c_[turn * np.cos(turn + np.pi * y), turn * np.sin(turn + np.pi * y)] + 0.5 * rng.normal(size=(n, 2))
    return X / 10.0, y


def clusters(n: int = 20_000, columns: int = 6, centres: int = 60) -> Rows:
    """Clusters of either class."""
    rng = np.random.default_rng(17)
    centre, of = 2.0 * rng.normal(size=(centres, columns)), rng.integers(centres, size=n)
    return centre[of] + 0.6 * rng.normal(size=(n, columns)), of % 2


def towns(n: int = 40_000, columns: int = 3, centres: int = 800) -> Rows:
    """Many small clusters, each of one class, 2% of the labels wrong."""
    rng = np.random.default_rng(41)
    centre, of = rng.random((centres, columns)), rng.integers(centres, size=n)
    y = rng.integers(2, size=centres)[of]
    return centre[of] + 0.02 * rng.normal(size=(n, columns)), np.where(rng.random(n) < 0.02, 1 - y, y)


def moons(n: int = 4000, noise: float = 0.3, seed: int = 0) -> Rows:
    """scikit-learn's two moons."""
    X, y = make_moons(n, noise=noise, random_state=seed)
    return X, y.astype(np.int64)


KERNEL_FAMILIES: dict[str, Callable[..., Rows]] = {
    "drawn: one-hot": one_hot,
    "drawn: counts": counts,
    "drawn: images": images,
    # With shades of 1: the unit of bytes is read off the smallest number, and scanned images have such.
    "drawn: all shades": partial(images, faintest=1),
    "drawn: textures": textures,
    "drawn: board, 2 columns": lambda n=30_000: board(n, 2, 4, 11),
    "drawn: board, 3 columns": lambda n=30_000: board(n, 3, 3, 23),
    "drawn: blocks": lambda n=50_000: board(n, 2, 16, 37),
    "drawn: spirals": spirals,
    "drawn: clusters": clusters,
    "drawn: towns": towns,
    "drawn: moons": moons,
}


# --- for risks: other rows, and other parameters, for every seed ------------------------------------------------------


def noisy(rng: np.random.Generator, n: int, d: int, noise: float) -> Rows:
    """A hyperplane, normal features and a logistic chance of the label."""
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    score = X @ w / np.linalg.norm(w)
    return X, (score + noise * rng.logistic(size=n) > 0).astype(np.int64)


def corners(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Several clusters a class, in a corner of the features."""
    X, y = make_classification(n, d, n_informative=6, n_clusters_per_class=3, random_state=int(rng.integers(2**31)))
    return X, y.astype(np.int64)


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
    "drawn: 20 columns": (lambda rng, n: noisy(rng, n, 20, 0.3), 1000),
    "drawn: 100 columns": (lambda rng, n: noisy(rng, n, 100, 0.1), 1000),
    "drawn: corners": (lambda rng, n: corners(rng, n, 20), 1000),
    "drawn: rare class": (lambda rng, n: rare(rng, n, 10, 0.1), 1000),
    "drawn: 50 columns": (lambda rng, n: noisy(rng, n, 50, 0.2), 1000),
    "drawn: heavy tails": (lambda rng, n: heavy(rng, n, 15), 1000),
    "drawn: many words": (lambda rng, n: words(rng, n, 200), 1000),
    "drawn: minority": (lambda rng, n: minority(rng, n, 10), 1000),
    "drawn: rare, 3%": (lambda rng, n: rare(rng, n, 30, 0.03), 3000),
}
"""What draws them, and how many training rows."""
