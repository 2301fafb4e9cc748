"""A problem over blocks against the same problem in memory."""

import numpy as np
import pytest
from testing.blocked import blocked
from testing.ramp_problems import random_ramp_problem

from widemargin.problems.rate_constrained import RateConstrainedProblem, nearest_rows


def both(seed: int = 0, **options: object) -> tuple[RateConstrainedProblem, RateConstrainedProblem, np.ndarray, float]:
    problem, w, b = random_ramp_problem(seed, 90, 4, 3, **options)
    return problem, blocked(problem, 20), w, b


@pytest.mark.parametrize("sparse", [False, True])
def test_masses_values_and_majorisation(sparse: bool) -> None:
    problem, over, w, b = both(sparse=sparse)
    z, at = problem.scores(w, b), over.scores(w, b)
    assert at.shape == (90,)
    np.testing.assert_allclose(over.ramp_mass(at), problem.ramp_mass(z))
    np.testing.assert_allclose(over.hard_mass(at), problem.hard_mass(z))
    for one, other in zip(over.ramp_values(w, at), problem.ramp_values(w, z), strict=True):
        np.testing.assert_allclose(one, other)
    assert over.rows.n_passes == 1  # the masses of the last model are remembered
    sub, there = problem.majorise(z), over.majorise(at)
    assert there.constant == pytest.approx(sub.constant)
    np.testing.assert_allclose(there.gamma, sub.gamma)


def test_variants_are_those_of_the_problem_in_memory() -> None:
    problem, over, w, b = both()
    for name, arguments in (
        ("unconstrained", ()), ("with_lam", (3.0,)), ("restricted", ([0, 2], 1)), ("tightened", (np.full(3, 0.01),)),
    ):  # fmt: skip
        here, there = getattr(problem, name)(*arguments), getattr(over, name)(*arguments)
        value, excess = here.ramp_values(w, here.scores(w, b))
        assert there.ramp_values(w, there.scores(w, b))[0] == pytest.approx(value)
        np.testing.assert_allclose(there.ramp_values(w, there.scores(w, b))[1], excess)
        assert there.constant_start(1.0) == pytest.approx(here.constant_start(1.0))


def test_a_sample_keeps_the_weight_of_every_cell() -> None:
    _, over, _, _ = both()
    some = over.drawn(np.full(over.coef.n_cells, 0.7), 0)
    assert 40 < some.rows.n_rows < 85
    weights = np.bincount(some.cell, some.weight, over.coef.n_cells)
    np.testing.assert_allclose(weights, over.cell_weight)
    every = over.drawn(np.ones(over.coef.n_cells), 0)
    assert every.rows.n_rows == 90


@pytest.mark.parametrize("sparse", [False, True])
def test_of_the_rows_that_are_not_nearest_a_mean_row_has_their_weight(sparse: bool) -> None:
    problem, over, w, b = both(sparse=sparse)
    z = problem.scores(w, b)
    near = nearest_rows(over, w, b, int(0.4 * problem.rows.n_stored))
    assert near.rows.n_rows < 90
    there = near.scores(w, b)
    # In all they are the same rows, at the same rates, with the same sum of features.
    for side in (1.0, -1.0):
        weights = [
            np.bincount(one.cell, one.weight * (side * scores > 0.0), one.coef.n_cells)
            for one, scores in ((problem, z), (near, there))
        ]
        np.testing.assert_allclose(*weights)
    np.testing.assert_allclose(near.rows.tdot(near.weight), problem.rows.tdot(problem.weight), atol=1e-9)
    # Each block of 20 hands over its nearest ones.
    nearest = np.sort(np.abs(z[:20]))[:3]
    assert all(np.isclose(np.abs(there), score).any() for score in nearest)
    # A small move is measured as on all rows.
    moved = b + 0.5 * np.sort(np.abs(z))[2]
    np.testing.assert_allclose(near.hard_mass(near.scores(w, moved)), problem.hard_mass(problem.scores(w, moved)))


def test_all_rows_are_gathered_where_they_are_few() -> None:
    problem, over, w, b = both()
    near = nearest_rows(over, w, b, 10**6)
    assert near.rows.n_rows == 90
    np.testing.assert_allclose(near.scores(w, b), problem.scores(w, b))
