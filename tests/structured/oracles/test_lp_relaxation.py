"""The linear programme and its integer form, against enumeration; one model for many examples."""

import numpy as np
import pytest
from testing import structured_cases as cases

from widemargin.structured.models import MultiLabelModel
from widemargin.structured.oracles.lp_relaxation import PairwiseProgram, ProgramOracle
from widemargin.structured.search.angular import angular


@pytest.mark.parametrize("weight", cases.WEIGHTS)
def test_integer_programme_is_exact(weight):
    for seed in range(4):
        model, truth, u, theta, brute = cases.multi_label(seed, 5, "full", weight, oracle="milp")
        exact = cases.multi_label(seed, 5, "full", weight, oracle="enumeration")[0].oracle(None, truth, u, theta)
        oracle = model.oracle(None, truth, u, theta)
        assert not model.compiles(slack=False)
        for lam in (0.0, 1.0, 0.3):
            answer = oracle.free(lam)
            assert brute.holds(answer)
            assert answer.h + lam * answer.g == pytest.approx(brute.best(lam), abs=1e-6)
            for alpha, beta in ((3.0, 0.5), (np.inf, 0.2), (1.0, 0.9)):
                expected, answer = exact.cone(lam, alpha, beta), oracle.cone(lam, alpha, beta)
                assert (expected is None) == (answer is None)
                if expected is not None:
                    assert answer.h + lam * answer.g == pytest.approx(expected.h + lam * expected.g, abs=1e-6)
        for c in range(6):
            expected, answer = brute.level(c), oracle.level(c)
            assert (answer is None) == (expected == -np.inf)
            if answer is not None:
                assert answer.h == pytest.approx(expected, abs=1e-6)


def test_one_programme_serves_many_examples():
    """Interleaved questions of two examples give what each gives alone."""
    model, truth, u, theta, _ = cases.multi_label(0, 5, "full")
    _, truth2, u2, theta2, _ = cases.multi_label(1, 5, "full")
    shared = PairwiseProgram(model.structure)
    first, second = ProgramOracle(u, theta, truth, shared), ProgramOracle(u2, theta2, truth2, shared)
    for lam in (0.0, 1.0, 0.5):
        for oracle, example in ((first, (u, theta, truth)), (second, (u2, theta2, truth2))):
            alone = ProgramOracle(*example, PairwiseProgram(model.structure)).free(lam)
            answer = oracle.free(lam)
            assert answer.h + lam * answer.g == pytest.approx(alone.h + lam * alone.g, abs=1e-8)


def test_relaxed_answers_lie_in_their_cone():
    model, truth, u, theta, brute = cases.multi_label(3, 5, "full", oracle="lp")
    oracle = model.oracle(None, truth, u, theta)
    assert oracle.capabilities == {"free", "cone", "convex"}
    for lam in (0.2, 1.0):
        answer = oracle.cone(lam, 2.0, 0.5)
        assert 0.5 * answer.h - 1e-6 <= answer.g <= 2.0 * answer.h + 1e-6
        inside = (0.5 * brute.h <= brute.g) & (brute.g <= 2.0 * brute.h)
        assert answer.h + lam * answer.g >= (brute.h + lam * brute.g)[inside].max(initial=-np.inf) - 1e-6
        features = model.features(None, answer.y)
        score = (features.A * u).sum() + features.b @ theta
        assert 1.0 + score - model.score(truth, u, theta) == pytest.approx(answer.h, abs=1e-6)


def test_wide_cones_are_not_taken_for_empty():
    """With a row of alpha = 1e9 HiGHS took the search's first cone for empty: a bound of 1e-9."""
    model = MultiLabelModel("full", weights=[0.66165551, 0.36703606], oracle="milp")
    truth = np.array([1, 1])
    model.prepare(np.zeros((2, 1)), np.array([truth, truth]))
    oracle = model.oracle(None, truth, np.full((1, 2), 1 / 6), np.array([2 / 3]))
    found = angular(oracle, eps=1e-6)
    assert found.value == pytest.approx(0.66165551 / 6)
    assert found.upper == pytest.approx(found.value, rel=1e-5)


def test_levels_are_for_integer_losses():
    """A search through the levels 1, 2, ... would not see the other losses, and its bound would be none."""
    for weight, able in (("integers", {"free", "cone", "level"}), ("reals", {"free", "cone"})):
        model, truth, u, theta, _ = cases.multi_label(0, 4, "full", weight, oracle="milp")
        assert model.oracle(None, truth, u, theta).capabilities == able
