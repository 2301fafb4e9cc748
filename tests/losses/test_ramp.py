"""The ramp and its majoriser (Goh et al. 2016), checked row by row."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.losses.ramp import (
    KEEP_MINUS,
    KEEP_PLUS,
    hinge_sums,
    majoriser,
    positive_sums,
    ramp,
    ramp_sums,
)

scores = st.floats(-3.0, 3.0) | st.sampled_from([-0.5, 0.0, 0.5, np.nextafter(0.5, 1), np.nextafter(-0.5, -1)])


def plain_ramp(z: float) -> float:
    return 0.0 if z <= -0.5 else 1.0 if z >= 0.5 else 0.5 + z


@given(st.lists(scores, min_size=1, max_size=20))
def test_ramp_is_a_probability_and_its_sides_add_up(values: list[float]) -> None:
    z = np.array(values)
    p = ramp(z)
    assert np.all((p >= 0.0) & (p <= 1.0))
    np.testing.assert_allclose(p, [plain_ramp(v) for v in values], rtol=0, atol=1e-16)
    np.testing.assert_allclose(p + ramp(-z), 1.0, rtol=0, atol=1e-15)


def majorised(z: float, tight_at: float) -> tuple[float, float]:
    """Value of the two sides of the majoriser tight at `tight_at`, at z: a row of weight 1 in one cell."""
    one, cell = np.ones(1), np.zeros(1, dtype=np.int32)
    keep, constant, hinge = np.zeros(1, dtype=np.uint8), np.zeros((2, 1)), np.zeros((2, 1))
    majoriser(np.array([tight_at]), one, cell, keep, constant[0], constant[1])
    hinge_sums(np.array([z]), one, cell, keep, hinge[0], hinge[1])
    total = constant + hinge
    return float(total[0, 0]), float(total[1, 0])


@given(z=scores, tight_at=scores)
def test_majoriser_lies_above_the_ramp_and_touches_it(z: float, tight_at: float) -> None:
    plus, minus = majorised(z, tight_at)
    assert plus >= plain_ramp(z) - 1e-15
    assert minus >= plain_ramp(-z) - 1e-15
    plus, minus = majorised(tight_at, tight_at)
    assert plus == pytest.approx(plain_ramp(tight_at), abs=1e-15)
    assert minus == pytest.approx(plain_ramp(-tight_at), abs=1e-15)


@given(tight_at=scores, z=scores, other=scores, share=st.floats(0.0, 1.0))
def test_majoriser_is_convex(tight_at: float, z: float, other: float, share: float) -> None:
    between = np.array(majorised(share * z + (1 - share) * other, tight_at))
    chord = share * np.array(majorised(z, tight_at)) + (1 - share) * np.array(majorised(other, tight_at))
    assert np.all(between <= chord + 1e-14)


def test_bits_of_keep() -> None:
    """The positive hinge counts up to z' = 1/2, the negative one from z' = -1/2, ends included."""
    z = np.array([-0.6, -0.5, 0.0, 0.5, 0.6])
    keep = np.zeros(5, dtype=np.uint8)
    plus, minus = np.zeros(1), np.zeros(1)
    majoriser(z, np.arange(1.0, 6.0), np.zeros(5, dtype=np.int32), keep, plus, minus)
    both = KEEP_PLUS | KEEP_MINUS
    assert keep.tolist() == [KEEP_PLUS, both, both, both, KEEP_MINUS]
    assert (plus[0], minus[0]) == (5.0, 1.0)


@given(seed=st.integers(0, 1000))
def test_sums_by_cell(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = 30, 4
    z, weight = rng.choice([-1.0, -0.5, -0.1, 0.0, 0.2, 0.5, 2.0], n), rng.random(n)
    cell, keep = rng.integers(0, k, n).astype(np.int32), rng.integers(0, 4, n).astype(np.uint8)
    soft, hard, plus, minus = (np.zeros(k) for _ in range(4))
    ramp_sums(z, weight, cell, soft)
    positive_sums(z, weight, cell, hard)
    hinge_sums(z, weight, cell, keep, plus, minus)
    for c in range(k):
        mine = cell == c
        s = weight[mine]
        assert soft[c] == pytest.approx(sum(s * [plain_ramp(v) for v in z[mine]]), abs=1e-14)
        assert hard[c] == pytest.approx(sum(s * (z[mine] > 0)), abs=1e-14)
        assert plus[c] == pytest.approx(sum(s * (keep[mine] & 1) * np.maximum(0.5 + z[mine], 0)), abs=1e-14)
        assert minus[c] == pytest.approx(sum(s * (keep[mine] >> 1) * np.maximum(0.5 - z[mine], 0)), abs=1e-14)


@pytest.mark.parametrize("kernel", [ramp_sums, positive_sums, hinge_sums, majoriser])
def test_compiled_loops_equal_their_python_source(kernel: Callable[..., None]) -> None:
    rng = np.random.default_rng(0)
    z, weight, cell = rng.uniform(-1, 1, 50), rng.random(50), rng.integers(0, 3, 50).astype(np.int32)
    results = []
    for run in (kernel, kernel.py_func):  # type: ignore[attr-defined]
        keep, sums = np.arange(50, dtype=np.uint8) % 4, np.zeros((2, 3))
        extra = (keep, sums[0], sums[1]) if kernel in (hinge_sums, majoriser) else (sums[0],)
        run(z, weight, cell, *extra)
        results.append((keep, sums))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-14)
    assert np.any(results[0][1])
