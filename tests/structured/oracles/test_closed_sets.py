"""Single paths of a forest: oracle and compiled loops against all paths, by the definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import structured_cases as cases

from widemargin.structured.compiled import PATHS, workspace
from widemargin.structured.oracle import CONE, LEVELS
from widemargin.structured.oracles import closed_sets
from widemargin.structured.oracles.argmax import best_answer, loss, score
from widemargin.structured.search.angular import angular
from widemargin.structured.search.hull import all_losses

problems = {
    "seed": st.integers(0, 10**6),
    "k": st.integers(1, 8),
    "over": st.sampled_from(["nodes", "leaves"]),
    "weight": st.sampled_from(cases.WEIGHTS),
}


@given(**problems)
def test_the_compiled_argmax_is_the_best_path(seed, k, over, weight):
    model, truth, u, theta, brute = cases.paths(seed, k, over, weight)
    assert model.structure.kind == PATHS
    assert model.compiles(slack=True)
    work, label = workspace(model.structure), np.empty_like(truth)
    for lam in (1.0, None, 0.0):
        h, g = best_answer(u, theta, truth, lam, model.structure, work, label)
        value, best = (h * g, brute.best_product()) if lam is None else (h + lam * g, brute.best(lam))
        assert value == pytest.approx(best, abs=1e-9)
        own = score(u, theta, truth, model.structure)
        assert h == pytest.approx(1.0 + score(u, theta, label, model.structure) - own, abs=1e-9)
        assert g == pytest.approx(loss(label, truth, model.structure, work), abs=1e-9)
        assert any((label == y).all() for y in brute.labels)
    assert model.score(model.decode(None, u, theta), u, theta) - own + 1.0 == pytest.approx(brute.best(0.0), abs=1e-9)


@given(lam=st.sampled_from([0.0, 0.5, 3.0]), **problems)
def test_the_oracle_answers_about_paths(lam, seed, k, over, weight):
    model, truth, u, theta, brute = cases.paths(seed, k, over, weight)
    oracle = model.oracle(None, truth, u, theta)
    answer, best = oracle.free(lam), oracle.direct()
    assert brute.holds(answer)
    assert brute.holds(best)
    assert answer.h + lam * answer.g == pytest.approx(brute.best(lam), abs=1e-9)
    assert max(0.0, best.h * best.g) == pytest.approx(brute.best_product(), abs=1e-9)
    assert oracle.largest_loss == pytest.approx(brute.g.max(), abs=1e-9)
    positive = brute.g[brute.g > 0.0]
    assert oracle.smallest_loss == pytest.approx(positive.min(initial=np.inf) if positive.size else 0.0, abs=1e-9)
    assert CONE in oracle.capabilities
    assert angular(oracle, eps=1e-9).value == pytest.approx(brute.best_product(), abs=1e-8)
    if LEVELS in oracle.capabilities:
        assert all_losses(oracle, eps=1e-9).value == pytest.approx(brute.best_product(), abs=1e-9)


@given(**problems)
def test_the_truth_has_no_loss_at_all(seed, k, over, weight):
    """Not by rounding either: a tiny loss would be the smallest one."""
    model, truth, u, _, brute = cases.paths(seed, k, over, weight)
    work = workspace(model.structure)
    end = closed_sets.path_points(u, truth, model.structure, work)
    assert work.rows[1][end] == 0.0
    assert work.rows[0][end] == pytest.approx(u[0] @ truth, abs=1e-9)
    np.testing.assert_allclose(np.sort(work.rows[1][:k][model.structure.ends == 1]), np.sort(brute.g), atol=1e-9)


@pytest.mark.parametrize("over", ["nodes", "leaves"])
@pytest.mark.parametrize("lam", [None, 0.7])
def test_compiled_loops_are_python_loops(over, lam):
    model, truth, u, theta, _ = cases.paths(3, 8, over, "reals")
    found = []
    for run in (closed_sets.best_path, closed_sets.best_path.py_func):
        label = np.empty_like(truth)
        point = run(u, theta, truth, lam, model.structure, workspace(model.structure), label)
        found.append((point, label.tolist()))
    assert found[0] == found[1]
