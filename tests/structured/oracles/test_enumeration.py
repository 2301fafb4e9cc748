"""Oracles that know all points: enumeration of label sets, classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import structured_cases as cases

from widemargin.structured.compiled import workspace
from widemargin.structured.models import MulticlassModel
from widemargin.structured.oracles import enumeration
from widemargin.structured.oracles.enumeration import PointOracle

CONES = ((3.0, 0.5), (np.inf, 0.2), (1.0, 0.9), (np.inf, 0.0))


@given(seed=st.integers(0, 10**6), k=st.integers(1, 7), weight=st.sampled_from(cases.WEIGHTS))
def test_enumeration_answers_everything(seed, k, weight):
    model, truth, u, theta, brute = cases.multi_label(seed, k, "full", weight, oracle="enumeration")
    oracle = model.oracle(None, truth, u, theta)
    for lam in (0.0, 0.4, 2.0):
        answer = oracle.free(lam)
        assert brute.holds(answer)
        assert answer.h + lam * answer.g == pytest.approx(brute.best(lam), abs=1e-9)
        for alpha, beta in CONES:
            steep = np.full(brute.h.shape, np.inf) if alpha == np.inf else alpha * brute.h + 1e-12
            inside = (brute.h >= 0) & (beta * brute.h <= brute.g + 1e-12) & (brute.g <= steep)
            answer = oracle.cone(lam, alpha, beta)
            if answer is None:
                assert not inside.any()
            else:
                expected = (brute.h + lam * brute.g)[inside].max()
                assert answer.h + lam * answer.g == pytest.approx(expected, abs=1e-9)
    assert max(0.0, oracle.direct().h * oracle.direct().g) == pytest.approx(brute.best_product(), abs=1e-9)
    if "levels" in oracle.capabilities:
        H = oracle.levels()
        expected = [brute.level(c) for c in range(H.shape[0])]
        assert list(H) == pytest.approx(expected, abs=1e-9)
        assert all((oracle.level(c) is None) == (H[c] == -np.inf) for c in range(H.shape[0]))
    else:
        assert weight == "reals"


@given(
    seed=st.integers(0, 10**6), k=st.integers(1, 11), loss=st.sampled_from(("hamming", "jaccard", "f1", "exact")),
    weight=st.sampled_from(cases.WEIGHTS), strength=st.sampled_from((0.0, 0.1, 1.0, 5.0)),
)  # fmt: skip
def test_the_best_set_is_that_of_the_table(seed, k, loss, weight, strength):
    """Blocks of masks that are not looked at hold no better one, for every loss and rescaling."""
    given = {} if loss == "hamming" else {"loss": loss}
    model, truth, u, theta, _ = cases.multi_label(
        seed, k, "full", weight if loss == "hamming" else "counts", oracle="enumeration", **given
    )
    theta = strength * theta
    oracle = model.oracle(None, truth, u, theta)
    work, label = workspace(model.structure), np.empty_like(truth)
    h, g = enumeration.best_set(u, theta, truth, None, model.structure, work, label)
    best = oracle.direct()
    assert h * g == pytest.approx(max(best.h * best.g, 0.0), abs=1e-9)
    assert model.loss(label, truth) == pytest.approx(g)
    for lam in (0.0, 0.7):
        h, g = enumeration.best_set(u, theta, truth, lam, model.structure, work, label)
        best = oracle.free(lam)
        assert h + lam * g == pytest.approx(best.h + lam * best.g, abs=1e-9)
        assert model.loss(label, truth) == pytest.approx(g)
    if k <= 5:
        plain = np.empty_like(label)
        assert (h, g) == enumeration.best_set.py_func(u, theta, truth, 0.7, model.structure, work, plain)
        assert (plain == label).all()


def test_enumeration_in_plain_python():
    model, truth, u, theta, _ = cases.multi_label(5, 6, "full", oracle="enumeration")
    compiled, plain = workspace(model.structure), workspace(model.structure)
    enumeration.fill(u, theta, truth, model.structure, compiled)
    enumeration.fill.py_func(u, theta, truth, model.structure, plain)
    assert (compiled.rows[0] == plain.rows[0]).all()


@given(seed=st.integers(0, 10**6), S=st.integers(2, 5), costs=st.booleans())
def test_classes(seed, S, costs):
    from widemargin.structured.oracles.argmax import best_answer

    rng = np.random.default_rng(seed)
    cost = rng.integers(0, 4, (S, S)) * (1 - np.eye(S)) if costs else 1 - np.eye(S)
    cost[0, 1] = 2.0
    model = MulticlassModel(cost)
    model.prepare(np.zeros((S, 1)), np.arange(S))
    u, truth = cases.halves(rng, 1, S), int(rng.integers(S))
    h, g = 1 + u[0] - u[0, truth], cost[truth]
    if g.max() == 0.0:
        return
    oracle = model.oracle(None, truth, u, np.zeros(0))
    best, label = oracle.direct(), np.empty(1, dtype=np.int64)
    assert best.h * best.g == (h * g).max()
    point = best_answer(u, np.zeros(0), np.array([truth]), None, model.structure, workspace(model.structure), label)
    assert point[0] * point[1] == max(0.0, (h * g).max())
    assert oracle.free(0.5).h + 0.5 * oracle.free(0.5).g == (h + 0.5 * g).max()
    assert u[0, model.decode(None, u, np.zeros(0))] == u.max()


def test_an_empty_cone_and_an_empty_level():
    oracle = PointOracle(np.array([1.0, 0.5]), np.array([0.0, 3.0]), int)
    assert oracle.cone(1.0, 5.0, 1.0) is None
    assert oracle.level(2) is None
    assert (oracle.levels() == [1.0, -np.inf, -np.inf, 0.5]).all()
    assert (oracle.smallest_loss, oracle.largest_loss) == (3.0, 3.0)
