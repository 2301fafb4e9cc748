"""Local search: never better than the best, never worse than its start, the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import structured_cases as cases

from widemargin.structured.compiled import workspace
from widemargin.structured.oracles import local_search

seeds = st.integers(0, 10**6)


@given(seed=seeds, k=st.integers(1, 7), weight=st.sampled_from(cases.WEIGHTS))
def test_labels_are_what_they_claim(seed, k, weight):
    model, truth, u, theta, brute = cases.multi_label(seed, k, "full", weight, oracle="greedy", restarts=2)
    oracle = model.oracle(None, truth, u, theta)
    answer = oracle.direct()
    assert brute.holds(answer)
    assert 0.0 <= answer.h * answer.g <= brute.best_product() + 1e-9
    answer = oracle.free(0.5)
    assert brute.holds(answer)
    assert 1.0 - 1e-9 <= answer.h + 0.5 * answer.g <= brute.best(0.5) + 1e-9
    assert oracle.exact is False


def test_finds_most_optima_of_small_problems():
    found = 0
    for seed in range(100):
        model, truth, u, theta, brute = cases.multi_label(seed, 7, "full", oracle="greedy", restarts=5)
        answer = model.oracle(None, truth, u, theta).direct()
        found += answer.h * answer.g >= brute.best_product() - 1e-9
    assert found >= 90


@pytest.mark.parametrize("lam", [1.0, None, 0.0])
def test_no_flip_and_no_swap_improves(lam):
    for seed in range(20):
        model, truth, u, theta, brute = cases.multi_label(seed, 6, "full", oracle="greedy", restarts=1)
        label = np.empty_like(truth)
        h, g = local_search.search(u, theta, truth, lam, model.structure, workspace(model.structure), label)
        value = brute.h * brute.g if lam is None else brute.h + lam * brute.g
        reached = h * g if lam is None else h + lam * g
        for y, other in zip(brute.labels, value, strict=True):
            changed = np.flatnonzero(y != label)
            if changed.size == 1 or (changed.size == 2 and ((y == truth)[changed].sum() == 1)):
                assert other <= reached + 1e-9


def test_same_seed_same_labels_and_plain_python():
    model, truth, u, theta, _ = cases.multi_label(11, 7, "full", oracle="greedy", restarts=3)
    runs = []
    for search in (local_search.search, local_search.search, local_search.search.py_func):
        work, label = workspace(model.structure, seed=4), np.empty_like(truth)
        for _ in range(3):
            point = search(u, theta, truth, None, model.structure, work, label)
        runs.append((*point, *label))
    assert runs[0] == runs[1] == runs[2]


@given(seed=seeds, k=st.integers(2, 7))
def test_decoding_is_certified_only_if_optimal(seed, k):
    model, _, u, theta, brute = cases.multi_label(seed, k, "full", oracle="greedy", restarts=0)
    label, proved = model.decode_certified(u, theta)
    index = next(i for i, y in enumerate(brute.labels) if np.array_equal(y, label))
    if proved:
        assert brute.h[index] == pytest.approx(brute.h.max(), abs=1e-8)


def test_decoding_is_often_certified():
    proved = [
        model.decode_certified(u, theta)[1]
        for model, _, u, theta, _ in (cases.multi_label(s, 7, "full", oracle="greedy") for s in range(40))
    ]
    assert 0.2 < np.mean(proved) < 1.0
