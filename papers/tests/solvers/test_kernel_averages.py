"""The stochastic kernel methods with both averages: their steps and averages are those of plain formulas."""

import numpy as np
import pytest

from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.batch_perceptron import nu_form as sbp
from widemargin_papers.reproductions import kernel_study as study
from widemargin_papers.solvers import kernel_averages as solvers

N, TEST = 30, 25


@pytest.fixture(scope="module")
def rows():
    """Kernel rows of two clouds that overlap, of which a cache keeps ten, all training rows, and the labels."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(N + TEST) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(N + TEST, 2)) + 0.7 * y[:, None]
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2)).astype(np.float32)
    return KernelRows(Kernel("precomputed"), K, cache_size=10.5 * 4 * len(y) / 2**20), K[:N], y


def errors(y, scores):
    return float((y[N:] * scores[N:] <= 0.0).mean())


def averages(iterates, y, at):
    """Errors of the last iterate and of both averages after each number of rows in `at`."""
    found = []
    for wanted in at:
        last = next(k for k, (rows, _) in enumerate(iterates) if rows == wanted)
        seen = [scores for _, scores in iterates[: last + 1]]
        weights = np.arange(1, len(seen) + 1)
        found.append([errors(y, seen[-1]), errors(y, np.sum(seen, axis=0)), errors(y, weights @ np.array(seen))])
    return np.array(found).T


def test_the_batch_perceptron_is_algorithm_1(rows):
    kept, K, y = rows
    nu, looks, rng = 0.05, np.array([1, 3, 20, 60]), np.random.default_rng(5)
    coef, iterates = np.zeros(N), []
    for t in range(1, looks[-1] + 1):
        c = y[:N] * (coef @ K[:, :N])
        order = np.sort(c)
        level = min((N * nu + order[:k].sum()) / k for k in range(1, N + 1))  # the water level, by its formula
        i = int(rng.random() * N)
        while c[i] > level + 1e-12:
            i = int(rng.random() * N)
        coef[i] += y[i] / np.sqrt(t)
        coef /= max(1.0, np.sqrt(coef @ K[:, :N] @ coef))
        iterates.append((t, coef @ K))
    found = solvers.errors(solvers.batch_perceptron, kept, N, y, looks, nu, np.random.default_rng(5))
    np.testing.assert_allclose(found, averages(iterates, y, looks), atol=1e-12)


def test_pegasos_and_the_perceptron_are_their_formulas(rows):
    kept, K, y = rows
    looks, rng = np.array([1, 4, 15]), np.random.default_rng(6)
    coef, iterates, count = np.zeros(N), [], 0
    for t in range(1, 300):
        i = int(rng.random() * N)
        violated = y[i] * (coef @ K)[i] < 1.0
        coef *= 1.0 - 1.0 / t
        coef[i] += violated * y[i] * N / t
        count += violated
        iterates.append((count, coef @ K))
    found = solvers.errors(solvers.pegasos, kept, N, y, looks, 1.0 / N, 299, np.random.default_rng(6))
    np.testing.assert_allclose(found, averages(iterates, y, looks), atol=1e-12)
    ends = solvers.errors(solvers.pegasos, kept, N, y, np.array([1, 200]), 1.0 / N, 3, np.random.default_rng(6))
    assert ends.shape == (3, 2)  # what is not reached keeps the last error

    coef, iterates, count, rng = np.zeros(N), [], 0, np.random.default_rng(7)
    for _ in range(4):
        order = np.arange(N)
        for place in range(N):
            other = place + int(rng.random() * (N - place))
            order[[place, other]] = order[[other, place]]
            i = order[place]
            mistaken = y[i] * (coef @ K)[i] <= 0.0
            coef[i] += mistaken * y[i]
            count += mistaken
            iterates.append((count, coef @ K))
    found = solvers.errors(solvers.perceptron, kept, N, y, np.array([1, 5]), 4, np.random.default_rng(7))
    np.testing.assert_allclose(found, averages(iterates, y, [1, 5]), atol=1e-12)


def test_compiled_steps_are_those_of_the_library(rows):
    """After many steps the margin's error is that of `solve_published`, which draws otherwise."""
    kept, _, y = rows
    task = study.Task(np.zeros((N, 1), np.float32), y[:N], np.zeros((TEST, 1), np.float32), y[N:])
    problem = study.CountedRows(kept, N).problem(task, 1.0)
    published = sbp.solve_published(problem, nu=0.05, max_iter=3000, tol=0.0, seed=0).history[-1]["held_out_error"]
    looks, rng = np.array([3000]), np.random.default_rng(1)
    ours = solvers.errors(solvers.batch_perceptron, kept, N, y, looks, 0.05, rng)[1, 0]
    assert ours == pytest.approx(published, abs=1.5 / TEST)


def test_looks_are_whole_and_different():
    np.testing.assert_array_equal(solvers.looks_of(np.array([1.0, 1.2, 1.9, 2.5, 10.0])), [1, 2, 10])
