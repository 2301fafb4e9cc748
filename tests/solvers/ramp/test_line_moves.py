"""Exact moves along a line against every classifier on it, and the descent that is made of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.ramp_problems import random_ramp_problem

from widemargin import RateConstrainedClassifier
from widemargin.problems.rate_constrained import RateConstrainedProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp import line_loops, line_moves
from widemargin.solvers.ramp.line_loops import Lines, State, try_lines
from widemargin.solvers.ramp.line_moves import Columns, Moved, best_share, improve
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE, best_threshold


def standing(problem: RateConstrainedProblem, z: np.ndarray) -> tuple[float, float]:
    """Violation and objective of a classifier by its scores."""
    objective, excess = problem.values(problem.hard_mass(z))
    return float(excess[excess > FEASIBLE].sum()), objective


def best_step(problem: RateConstrainedProblem, z: np.ndarray, row: np.ndarray, x: np.ndarray) -> State:
    """The best classifier of the line z + t x: its t is the only weight of `best_w`."""
    objective, excess = problem.values(problem.hard_mass(z))
    best = np.array([excess[excess > FEASIBLE].sum(), objective])
    work = np.empty(z.shape[0]), np.empty(z.shape[0], np.int64), np.empty_like(excess)
    at = State(np.zeros(1), z.copy(), excess, np.array([objective]), np.zeros(1), best, np.zeros(2, np.int64), *work)
    line = Lines(np.ones((1, 1)), np.array([0, row.shape[0]]), np.zeros(1, np.int64), row, np.ascontiguousarray(x))
    try_lines(line, line_moves._counted(problem), 0.0, row.shape[0], 1, 0.0, at)
    return at


def tight(seed: int, by: float = 0.01, **options: Any) -> tuple[RateConstrainedProblem, np.ndarray, float]:
    """A problem whose bounds a given classifier misses by a little, each."""
    problem, w, b = random_ramp_problem(seed, **options)
    _, excess = problem.values(problem.hard_mass(problem.scores(w, b)))
    return problem.tightened(-excess + by), w, b


def all_on_the_line(z: np.ndarray, x: np.ndarray) -> list[float]:
    """A length in every interval between two turns."""
    turns = np.unique(-z[x != 0] / x[x != 0])
    if turns.shape[0] == 0:
        return [0.0]
    return [turns[0] - 1.0, *(0.5 * (turns[1:] + turns[:-1])), turns[-1] + 1.0, 0.0]


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 25), m=st.integers(1, 3), ties=st.booleans(), shift=st.booleans())
def test_no_classifier_on_the_line_is_better(seed: int, n: int, m: int, ties: bool, shift: bool) -> None:
    rng = np.random.default_rng(seed)
    problem, w, b = tight(seed, float(rng.uniform(-0.1, 0.2)), n=n, d=2, m=m)
    z = rng.integers(-3, 4, n) / 2.0 if ties else problem.scores(w, b)
    x = rng.integers(-2, 3, n) / 2.0 if ties else rng.standard_normal(n) * (rng.random(n) < 0.7)
    row = np.arange(n)
    if shift:  # rows in any order, zeros left out
        row = rng.permutation(n)[: n // 2 + 1]
    whole = np.zeros(n)
    whole[row] = x[row]
    step = best_step(problem, z, row, x[row])
    assert tuple(step.best) == pytest.approx(standing(problem, z + step.best_w[0] * whole), abs=1e-12)
    is_best_of(tuple(step.best), [standing(problem, z + t * whole) for t in all_on_the_line(z, whole)])


def is_best_of(found: tuple[float, float], tried: list[tuple[float, float]]) -> None:
    least = min(violation for violation, _ in tried)
    assert found[0] <= least + 1e-12
    if least == 0.0:
        assert found[1] <= min(objective for violation, objective in tried if violation == 0.0) + 1e-12


def test_nothing_better_on_the_line_means_no_move() -> None:
    problem, w, b = tight(3, n=80, m=2)
    z = problem.scores(w, b)
    x = np.random.default_rng(0).standard_normal(z.shape[0])
    length = best_step(problem, z, np.arange(80), x).best_w[0]
    assert length != 0.0
    assert best_step(problem, z + length * x, np.arange(80), x).best_w[0] == 0.0
    assert best_step(problem, z, np.arange(80), np.zeros(80)).best_w[0] == 0.0


@settings(max_examples=80)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 25), m=st.integers(1, 3), ties=st.booleans())
def test_no_classifier_between_two_is_better(seed: int, n: int, m: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    problem, w, b = tight(seed, float(rng.uniform(-0.1, 0.2)), n=n, d=2, m=m)
    z = rng.integers(-3, 4, n) / 2.0 if ties else problem.scores(w, b)
    there = rng.integers(-3, 4, n) / 2.0 if ties else z + 2.0 * rng.standard_normal(n)
    share = best_share(problem, z, there)
    assert 0.0 <= share <= 1.0
    found = standing(problem, z + share * (there - z))
    moves = z != there
    turns = z[moves] / (z[moves] - there[moves])
    ends = np.unique([0.0, *turns[(turns > 0.0) & (turns < 1.0)], 1.0])
    on_the_way = [standing(problem, z + t * (there - z)) for t in 0.5 * (ends[1:] + ends[:-1])]
    is_best_of(found, [standing(problem, z), *on_the_way])
    assert share == 0.0 or found < standing(problem, z)
    assert best_share(problem, z, z) == 0.0


def test_the_bias_alone_is_the_threshold_sweep() -> None:
    for seed in range(20):
        problem, w, b = tight(seed, -0.01 if seed % 2 else 0.05, n=60, m=2)
        z = problem.scores(w, b)
        step = best_step(problem, z, np.arange(z.shape[0]), np.full(z.shape[0], -1.0))
        sweep = best_threshold(z, problem.weight, problem.cell, problem.coef, problem.gamma, problem.cell_weight)
        assert step.best[0] == pytest.approx(sweep.violation, abs=1e-12)
        if sweep.violation == 0.0:  # else rounding of the violation decides between equals
            assert step.best[1] == pytest.approx(sweep.objective, abs=1e-12)


def moved(
    problem: RateConstrainedProblem, w: np.ndarray, b: float, *, walk: bool = False, budget: Budget | None = None
) -> Moved:
    columns = Columns(problem.rows, problem.fit_intercept)
    return improve(problem, columns, w, b, walk=walk, budget=budget or Budget())


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 4),
    sparse=st.booleans(),
    narrow=st.booleans(),
    index_dtype=st.sampled_from([np.int32, np.int64]),
    fit_intercept=st.booleans(),
    walk=st.booleans(),
    few=st.booleans(),
)
def test_moves_never_make_it_worse(
    seed: int, m: int, sparse: bool, narrow: bool, index_dtype: Any, fit_intercept: bool, walk: bool, few: bool
) -> None:
    dtype = np.float32 if narrow else np.float64
    problem, w, b = tight(
        seed, n=60, d=3 if few else 25, m=m, sparse=sparse, dtype=dtype, index_dtype=index_dtype,
        fit_intercept=fit_intercept,
    )  # fmt: skip
    kept = w.copy()
    before = standing(problem, problem.scores(w, b))
    found = moved(problem, w, b, walk=walk)
    np.testing.assert_array_equal(w, kept)
    after = standing(problem, problem.scores(found.w, found.b))
    assert after <= (before[0] + 1e-12, before[1] + 1e-12)
    assert found.objective == pytest.approx(after[1], abs=1e-12)
    assert fit_intercept or found.b == b


def test_small_misses_are_repaired() -> None:
    met = 0
    for seed in range(30):
        problem, w, b = tight(seed, 0.004, n=300, d=6, m=3)
        met += bool(np.all(moved(problem, w, b).excess <= FEASIBLE))
    assert met >= 25


def test_a_walk_ends_where_no_feature_by_itself_helps() -> None:
    for seed in range(6):
        problem, w, b = tight(seed, 0.003, n=120, d=4, m=1)
        problem = problem.with_lam(1e-12)  # a regulariser would hold moves back
        found = moved(problem, w, b, walk=True)
        z, n = problem.scores(found.w, found.b), 120
        X = np.column_stack([problem.rows.dot(column) for column in np.eye(4)] + [np.full(n, -1.0)])
        steps = [best_step(problem, z, np.arange(n), X[:, j]) for j in range(5)]
        here = standing(problem, z)
        assert min(step.best[0] for step in steps) >= here[0] - 1e-9
        assert min(step.best[1] for step in steps if step.best[0] <= here[0]) >= here[1] - 1e-9


def test_a_walk_finds_what_moves_from_one_place_do_not() -> None:
    gains = []
    for seed in range(10):
        problem, w, b = tight(seed, -0.02, n=200, d=5, m=2)
        gains.append(moved(problem, w, b).objective - moved(problem, w, b, walk=True).objective)
    assert np.mean(gains) > 0.0


def test_a_walk_that_finds_nothing_more_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, w, b = tight(2, 0.003, n=60, d=3, m=1)
    monkeypatch.setattr(line_moves, "OPTIONS", replace(line_moves.OPTIONS, walk=10**6, idle=500))
    tried, gained, loop = [0], [0], line_moves.try_lines

    def counted(*given: Any) -> int:
        before = given[-1].best.copy()
        tried.append(tried[-1] + loop(*given))
        if not np.array_equal(before, given[-1].best):
            gained.append(tried[-1])
        return tried[-1] - tried[-2]

    monkeypatch.setattr(line_moves, "try_lines", counted)
    moved(problem, w, b, walk=True)
    assert 2 * gained[-1] + 500 < tried[-1] <= 2 * gained[-1] + 500 + line_moves.OPTIONS.chunk


def test_a_move_has_to_be_worth_what_w_grows_by() -> None:
    lost = []
    for seed in range(10):
        problem, w, b = tight(seed, -0.01, n=100, d=25, m=1)
        free, held = moved(problem.with_lam(1e-12), w, b), moved(problem.with_lam(1e6), w, b)
        lost.append(held.objective - free.objective)
    assert np.mean(lost) > 0.0


def test_the_scale_stays() -> None:
    problem, w, b = tight(5, 0.01, n=200, d=4, m=2)
    found = moved(problem.with_lam(1e-12), w, b, walk=True)
    # The last move may still add to it.
    assert np.linalg.norm(found.w) == pytest.approx(np.linalg.norm(w), rel=0.5)


def test_a_kick_of_one_feature_that_leads_to_nothing_is_not_scaled() -> None:
    """The bias became infinite, with a warning, where w was kicked to exactly 0."""

    class Backwards:
        def standard_normal(self, size: int) -> np.ndarray:
            return np.full(size, -1.0)

    problem, _, _ = tight(1, 0.01, n=60, d=1, m=1)
    columns = Columns(problem.rows, problem.fit_intercept)
    columns.__dict__["spread"] = np.ones(2)
    kicked = line_moves._kicked(problem, columns, np.array([3.0, 100.0]), 1.0, Backwards())  # type: ignore[arg-type]
    assert kicked[0] == 0.0 and np.isfinite(kicked[1])


def test_on_larger_tables_work_ends_with_the_entries_that_may_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, w, b = tight(1, 0.01, n=400, d=30, m=2, sparse=True)
    monkeypatch.setattr(line_moves, "OPTIONS", replace(line_moves.OPTIONS, small=0, chunk=1))
    tried, loop = list[int](), line_moves.try_lines

    def counted(*given: Any) -> int:
        lines = loop(*given)
        tried.append(given[-1].tried[1])
        return lines

    monkeypatch.setattr(line_moves, "try_lines", counted)
    few = moved(problem, w, b)
    assert tried[-2] < 0.5 * problem.rows.n_stored <= tried[-1]
    assert standing(problem, problem.scores(few.w, few.b)) <= standing(problem, problem.scores(w, b))


@pytest.mark.parametrize(("d", "sparse"), [(3, False), (3, True), (25, False), (25, True)])
def test_a_line_says_what_its_direction_adds_to_each_score(d: int, sparse: bool) -> None:
    problem, w, b = tight(4, n=60, d=d, m=1, sparse=sparse)
    columns, rng = Columns(problem.rows, True), np.random.default_rng(0)
    z = problem.scores(w, b)
    lines = columns.lines(np.arange(40) % (d + 1), z, rng)
    held = 0
    for k, direction in enumerate(lines.direction):
        place, x = slice(*lines.indptr[k : k + 2]), np.zeros(60)
        entry = lines.entry[place]
        x[lines.row[lines.first[k] : lines.first[k] + entry.shape[0]]] = entry
        np.testing.assert_allclose(x, problem.scores(direction[:d], float(direction[d])), atol=1e-12)
        held += bool((np.abs(x) < 1e-12).sum() in range(1, d))
    assert held > 5 or sparse  # rotations and directions that rows are held in


def test_nothing_to_gain_nothing_moved() -> None:
    problem, w, b = tight(0, -0.01, n=80)
    best = moved(problem, w, b)
    found = moved(problem, best.w, best.b)
    assert standing(problem, problem.scores(found.w, found.b)) <= standing(problem, problem.scores(best.w, best.b))


def test_dense_equals_sparse_and_again_the_same_bits() -> None:
    for seed in range(8):
        (dense, w, b), (sparse, _, _) = tight(seed, n=80, m=2), tight(seed, n=80, m=2, sparse=True)
        one, other, again = moved(dense, w, b), moved(sparse, w, b), moved(dense, w, b)
        np.testing.assert_allclose(other.w, one.w, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(again.w, one.w)
        assert again.b == one.b


def test_a_spent_budget_moves_nothing() -> None:
    problem, w, b = tight(1, n=80)
    assert not np.array_equal(moved(problem, w, b).w, w)
    np.testing.assert_array_equal(moved(problem, w, b, budget=Budget(seconds=0.0)).w, w)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 1500), most=st.integers(1, 200), ties=st.booleans())
def test_the_nearest_turns_come_first(seed: int, n: int, most: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    z = rng.integers(-9, 10, n).astype(float) if ties else rng.standard_normal(n)
    x = rng.integers(-3, 4, n).astype(float) if ties else np.exp(3.0 * rng.standard_normal(n))
    row = rng.permutation(n)
    distance, order = np.empty(n), np.empty(n, np.int64)
    count = line_loops.nearest(z, row, x, min(most, n), distance, order)
    with np.errstate(divide="ignore", invalid="ignore"):
        turns = np.where(np.abs(x) > 1e-11, np.where(z[row] == 0.0, line_loops.TINY, np.abs(z[row] / x)), np.inf)
    assert np.unique(order[:count]).shape[0] == count == min(most, np.isfinite(turns).sum())
    np.testing.assert_array_equal(distance[:count], turns[order[:count]])
    np.testing.assert_array_equal(distance[:count], np.sort(turns)[:count])


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 8), m=st.integers(0, 8), double=st.booleans())
def test_directions_hold_the_rows_that_they_are_made_orthogonal_to(seed: int, d: int, m: int, double: bool) -> None:
    rng = np.random.default_rng(seed)
    held, direction = rng.standard_normal((3, m, d)), rng.standard_normal((3, d))
    if double and m > 1:
        held[:, 1] = -2.0 * held[:, 0]
    n_held, before = rng.integers(0, m + 1, 3), direction.copy()
    rows = held.copy()
    together = np.concatenate([held, direction[:, None]], axis=1)
    together[np.arange(3), n_held] = direction
    line_loops.hold(together, n_held)
    direction = together[np.arange(3), n_held]
    for k in range(3):
        some = rows[k, : n_held[k]]
        left = before[k] - np.linalg.pinv(some, rcond=1e-8) @ (some @ before[k])
        np.testing.assert_allclose(direction[k], left, atol=1e-7)
        np.testing.assert_allclose(some @ direction[k], 0.0, atol=1e-9)


def test_compiled_equals_python(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = [name for name, loop in vars(line_loops).items() if hasattr(loop, "py_func")]
    plain: dict[str, Callable[..., object]] = {name: getattr(line_loops, name).py_func for name in loops}
    options = replace(line_moves.OPTIONS, lines=20, walk=40, walk_of_few=40, uneven_walk=1, patience=10)
    monkeypatch.setattr(line_moves, "OPTIONS", options)
    for seed in range(4):
        problem, w, b = tight(seed, n=50, d=3 + 20 * (seed % 2), m=2, sparse=seed > 1)
        compiled = moved(problem, w, b, walk=True)
        with monkeypatch.context() as patched:
            for name, loop in plain.items():
                patched.setattr(line_loops, name, loop)
            for name in ("hold", "try_lines"):
                patched.setattr(line_moves, name, plain[name])
            found = moved(problem, w, b, walk=True)
        np.testing.assert_allclose(found.w, compiled.w, rtol=1e-9)
        assert found.objective == pytest.approx(compiled.objective, abs=1e-12)


def test_no_line_is_tried_where_every_row_lies_on_its_better_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_moves, "try_lines", None)  # calling it would fail
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[:, 0] += np.where(X[:, 0] > 0.0, 2.0, -2.0)
    y = X[:, 0] > 0.0
    assert RateConstrainedClassifier("subject to recall() >= 0.5").fit(X, y).score(X, y) == 1.0
