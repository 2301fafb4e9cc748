"""The exact threshold against all thresholds, tried one by one."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from testing.cells import of_pairs

from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.thresholds import threshold_sweep as loops
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE, SweptThreshold, best_threshold


class Task(NamedTuple):
    z: np.ndarray
    weight: np.ndarray
    cell: np.ndarray
    coef: CellCoefficients
    gamma: np.ndarray
    cell_weight: np.ndarray

    def value(self, positive: np.ndarray) -> tuple[float, float]:
        """Objective and summed violation when these rows are called positive."""
        mass = np.bincount(self.cell, self.weight * positive, self.coef.n_cells)
        objective, values = self.coef.totals(mass, self.cell_weight - mass, self.gamma.shape[0])
        excess = values - self.gamma
        return objective, float(excess[excess > FEASIBLE].sum())


def task(seed: int, n: int, m: int, ties: bool, *, dyadic: bool = False) -> Task:
    """Random rows in five cells; with `dyadic` all sums are exact, so that equal objectives are equal."""
    rng = np.random.default_rng(seed)
    k = 5
    z = rng.integers(-3, 4, n) / 4.0 if ties else rng.standard_normal(n)
    cell = rng.integers(0, k, n).astype(np.int32)

    def numbers(*shape: int) -> np.ndarray:
        return rng.integers(0, 4, shape) / 8.0 if dyadic else rng.random(shape)

    weight = rng.integers(1, 4, n) / 2.0 if dyadic else rng.uniform(0.5, 2.0, n)
    used = rng.random((k, m)) < 0.7
    coef = of_pairs(
        numbers(k), numbers(k), np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64),
        np.nonzero(used)[1].astype(np.int64), numbers(k, m)[used], numbers(k, m)[used],
    )  # fmt: skip
    cell_weight = np.bincount(cell, weight, k)
    low, high = coef.totals(0 * cell_weight, cell_weight, m)[1], coef.totals(cell_weight, 0 * cell_weight, m)[1]
    share = rng.uniform(-0.1, 1.1, m)
    gamma = np.round((share * low + (1 - share) * high) * 8) / 8 if dyadic else share * low + (1 - share) * high
    return Task(z, weight, cell, coef, gamma, cell_weight)


def all_thresholds(z: np.ndarray) -> list[float]:
    scores = np.unique(z)
    return [scores[0] - 1.0, *(0.5 * (scores[1:] + scores[:-1])), scores[-1] + 1.0]


@settings(max_examples=300)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 14), m=st.integers(0, 3), ties=st.booleans(), dyadic=st.booleans())
@example(0, 1, 0, False, False)
def test_no_threshold_is_better(seed: int, n: int, m: int, ties: bool, dyadic: bool) -> None:
    t = task(seed, n, m, ties, dyadic=dyadic)
    choice = best_threshold(*t)
    objective, violation = t.value(t.z > choice.threshold)
    assert choice.objective == pytest.approx(objective, abs=1e-12)
    assert choice.violation == pytest.approx(violation, abs=1e-12)
    assert choice.n_positive == np.count_nonzero(t.z > choice.threshold)
    assert not np.any(t.z == choice.threshold) or choice.threshold == 0.0
    tried = [t.value(t.z > threshold) for threshold in all_thresholds(t.z)]
    feasible = [value for value, missed in tried if missed == 0.0]
    if feasible:
        assert violation == 0.0
        assert objective <= min(feasible) + 1e-12
    else:
        least = min(missed for _, missed in tried)
        assert violation <= least + 1e-12
        if dyadic:
            assert objective <= min(value for value, missed in tried if missed == least) + 1e-12


@given(seed=st.integers(0, 10**6), n=st.integers(1, 14))
def test_among_equals_the_smallest_shift_wins(seed: int, n: int) -> None:
    """Nothing at stake: the threshold stays where the scores' own sign has it, as far as a row allows."""
    t = task(seed, n, 0, ties=True)
    coef = t.coef._replace(alpha0=np.zeros(5), beta0=np.zeros(5))
    choice = best_threshold(*t._replace(coef=coef))
    assert choice.objective == 0.0
    assert choice.n_positive == np.count_nonzero(t.z > 0.0)
    if t.z.min() <= 0.0 < t.z.max():
        assert choice.threshold == 0.0


def one_cell(z: list[float], alpha0: float, beta0: float, gamma: list[float] | None = None) -> SweptThreshold:
    """All rows in one cell of weight one each; a constraint bounds the number of positives."""
    n, bounds = len(z), np.array(gamma or [])
    m = bounds.shape[0]
    coef = CellCoefficients(np.array([alpha0]), np.array([beta0]), np.array([0, m]), np.arange(m), np.ones(m))
    return best_threshold(
        np.array(z), np.ones(n), np.zeros(n, dtype=np.int32), coef, bounds, np.array([float(n)])
    )  # fmt: skip


def test_the_middle_between_two_scores_is_taken() -> None:
    assert one_cell([1.0, 3.0, 4.0, 8.0], 0.0, 1.0, [2.0]) == SweptThreshold(3.5, 2.0, 0.0, 2)


def test_a_shift_of_zero_where_the_sign_already_does_it() -> None:
    assert one_cell([-1.0, 5.0], 0.0, 1.0, [1.0]).threshold == 0.0
    assert one_cell([0.0, 5.0], 0.0, 1.0, [1.0]).threshold == 0.0  # a score of zero is not positive


def test_all_and_none() -> None:
    everyone, nobody = one_cell([1.0, 2.0], 0.0, 1.0), one_cell([1.0, 2.0], 1.0, 0.0)
    assert (everyone.n_positive, nobody.n_positive) == (2, 0)
    assert everyone.threshold < 1.0
    assert nobody.threshold > 2.0


def test_scores_that_differ_by_rounding_are_not_separated() -> None:
    top = 1000.0
    z = [top, 1.0, 1.0 + 1e-10, 0.5]
    assert one_cell(z, 0.0, 1.0, [2.0]).n_positive == 1
    assert one_cell([1.0, 1.0, 1.0], 0.0, 1.0, [2.0]).n_positive == 0


def test_an_excess_of_rounding_is_feasible_and_a_larger_one_is_not() -> None:
    assert one_cell([1.0, 2.0], 0.0, 1.0, [2.0 - 0.9e-10]).n_positive == 2
    assert one_cell([1.0, 2.0], 0.0, 1.0, [2.0 - 1e-9]).n_positive == 1


def test_least_violation_where_nothing_is_feasible() -> None:
    choice = one_cell([1.0, 2.0], 0.0, 1.0, [-0.5])
    assert (choice.n_positive, choice.violation, choice.objective) == (0, 0.5, 2.0)


def test_compiled_sweep_equals_its_python_source() -> None:
    for seed in range(20):
        t = task(seed, 12, 2, ties=seed % 2 == 0)
        order = np.argsort(-t.z, kind="stable")
        excess = t.coef.totals(0 * t.cell_weight, t.cell_weight, 2)[1] - t.gamma
        found = []
        for sweep in (loops.sweep, loops.sweep.py_func):
            out, now = np.zeros(3), excess.copy()
            count = sweep(
                order, t.z, t.weight, t.cell, t.coef.alpha0 - t.coef.beta0, t.coef.indptr, t.coef.column,
                t.coef.value, now, 1e-12, out,
            )  # fmt: skip
            found.append(np.concatenate([[count], out, now]))
        np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-13)
