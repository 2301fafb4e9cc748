"""Roof duality: equal to the linear programme, never below the optimum, exact where it is integral."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import structured_cases as cases

from widemargin.structured.oracles import max_flow, roof_duality
from widemargin.structured.oracles.lp_relaxation import PairwiseProgram, ProgramOracle
from widemargin.structured.oracles.roof_duality import RoofOracle
from widemargin.structured.search.angular import angular
from widemargin.structured.search.hull import edge

LAMBDAS = (0.0, 2.0, 0.5, 0.0, 1.0)  # up and down: warm starts in both directions


@given(seed=st.integers(0, 10**6), k=st.integers(1, 7), weight=st.sampled_from(cases.WEIGHTS))
def test_bounds_the_optimum_for_pairs_of_mixed_sign(seed, k, weight):
    model, truth, u, theta, brute = cases.multi_label(seed, k, "full", weight)
    roof = RoofOracle(u, theta, truth, model.structure)
    for lam in LAMBDAS:
        answer, value = roof.free(lam), roof.value(lam)
        assert answer.h + lam * answer.g == pytest.approx(value, abs=1e-9)
        assert value >= brute.best(lam) - 1e-9
        assert model.score(answer.y, u, theta) - model.score(truth, u, theta) == pytest.approx(answer.h - 1, abs=1e-9)
        assert model.loss(answer.y, truth) == pytest.approx(answer.g, abs=1e-9)
        if ((answer.y.mu == 0.0) | (answer.y.mu == 1.0)).all():  # a label set
            assert value == pytest.approx(brute.best(lam), abs=1e-9)


@given(seed=st.integers(0, 10**6), k=st.integers(2, 7))
def test_equals_the_linear_programme(seed, k):
    model, truth, u, theta, _ = cases.multi_label(seed, k, "full")
    roof = RoofOracle(u, theta, truth, model.structure)
    program = ProgramOracle(u, theta, truth, PairwiseProgram(model.structure))
    for lam in LAMBDAS:
        answer = program.free(lam)
        assert roof.value(lam) == pytest.approx(answer.h + lam * answer.g, abs=1e-7)


CONES = ((np.inf, 0.0), (np.inf, 0.2), (3.0, 0.5), (1.0, 0.9), (0.4, 0.1), (0.05, 0.0), (40.0, 8.0))


@given(seed=st.integers(0, 10**6), k=st.integers(1, 7), weight=st.sampled_from(cases.WEIGHTS))
def test_cones_are_those_of_the_linear_programme(seed, k, weight):
    """Certified where labels are undecided too: no label set of the cone is better than the answer."""
    model, truth, u, theta, brute = cases.multi_label(seed, k, "full", weight)
    roof = RoofOracle(u, theta, truth, model.structure)
    program = ProgramOracle(u, theta, truth, PairwiseProgram(model.structure))
    ends = roof.free(0.0), program.free(1e6)
    for lam in LAMBDAS:
        for alpha, beta in CONES:
            answer, relaxed = roof.cone(lam, alpha, beta), program.cone(lam, alpha, beta)
            steep = np.full(brute.h.shape, np.inf) if np.isinf(alpha) else alpha * brute.h
            inside = (brute.h >= 0.0) & (beta * brute.h <= brute.g) & (brute.g <= steep)
            if answer is None:
                # Whatever lies in the cone has less h and less loss than the largest of the one or of the other.
                points = [] if relaxed is None else [(relaxed.h, relaxed.g)]
                for h, g in [*points, *zip(brute.h[inside], brute.g[inside], strict=True)]:
                    assert any(h <= end.h + 1e-6 and g <= end.g + 1e-6 for end in ends)
                continue
            K = answer.h + lam * answer.g
            assert pytest.approx(relaxed.h + lam * relaxed.g, abs=1e-6) == K
            assert (brute.h + lam * brute.g)[inside].max(initial=-np.inf) - 1e-9 <= K
            assert beta * answer.h <= answer.g + 1e-9
            assert answer.h >= -1e-9
            assert np.isinf(alpha) or answer.g <= alpha * answer.h + 1e-9
            gain = model.score(answer.y, u, theta) - model.score(truth, u, theta)
            assert (gain, model.loss(answer.y, truth)) == pytest.approx((answer.h - 1.0, answer.g), abs=1e-9)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 8), weight=st.sampled_from(cases.WEIGHTS))
def test_the_angular_search_over_its_cones_is_exact(seed, k, weight):
    model, truth, u, theta, brute = cases.multi_label(seed, k, "full", weight)
    found = angular(RoofOracle(u, theta, truth, model.structure))
    by_edge = edge(RoofOracle(u, theta, truth, model.structure))
    assert found.exact
    assert found.value == pytest.approx(by_edge.value, rel=1e-8, abs=1e-8)
    assert brute.best_product() - 1e-9 <= found.upper <= by_edge.upper * (1.0 + 1e-8) + 1e-7


def test_attractive_pairs_have_no_gap():
    for seed in range(20):
        model, truth, u, theta, brute = cases.multi_label(seed, 6, "full")
        zero = np.zeros_like(truth)
        own = u[0] @ truth + np.abs(theta) @ (truth[model.structure.pairs[:, 0]] * truth[model.structure.pairs[:, 1]])
        roof = RoofOracle(u, np.abs(theta), zero, model.structure)
        best = max(
            u[0] @ y + np.abs(theta) @ (y[model.structure.pairs[:, 0]] * y[model.structure.pairs[:, 1]])
            for y in brute.labels
        )
        assert roof.value(0.0) == pytest.approx(1.0 + best, abs=1e-9)
        assert best >= own


def test_persistent_labels_agree_with_an_optimum():
    checked = 0
    for seed in range(60):
        model, truth, u, theta, brute = cases.multi_label(seed, 6, "full")
        mu = RoofOracle(u, theta, truth, model.structure).free(0.0).y.mu
        fixed = mu != 0.5
        checked += fixed.any() and not fixed.all()
        optimal = [y for y, h in zip(brute.labels, brute.h, strict=True) if h >= brute.h.max() - 1e-9]
        assert any((y[fixed] == mu[fixed]).all() for y in optimal)
    assert checked > 0


def test_warm_is_cold():
    for seed in range(10):
        model, truth, u, theta, _ = cases.multi_label(seed, 7, "full")
        warm = RoofOracle(u, theta, truth, model.structure)
        for lam in LAMBDAS:
            cold = RoofOracle(u, theta, truth, model.structure)
            assert warm.value(lam) == pytest.approx(cold.value(lam), abs=1e-9)


def test_compiled_is_plain_python():
    model, truth, u, theta, _ = cases.multi_label(2, 6, "full")
    k, n_arcs = 6, 8 * 6 + 4 * theta.shape[0]
    results = []
    pairs = model.structure.pairs
    for plain in (False, True):
        flip, build, augment, read, shift, unflip = (
            getattr(function, "py_func", function) if plain else function
            for function in (
                roof_duality.flip_coordinates,
                roof_duality.build,
                max_flow.augment,
                roof_duality.read,
                roof_duality.shift,
                roof_duality.unflip,
            )
        )
        v, t = np.empty(k), np.empty(theta.shape[0])
        flip(u, theta, truth, pairs, v, t)
        graph, scratch = max_flow.empty_graph(2 * k + 2, n_arcs), np.empty((4, 2 * k + 2), dtype=np.int64)
        constant = build(v, t, pairs, graph)
        constant += shift(0.5, np.ones(k), graph.cap)
        flow = augment(graph, 2 * k, 2 * k + 1, 1e-12, scratch)
        mu, pair_mu = np.empty(k), np.empty(theta.shape[0])
        value = read(v, t, pairs, scratch[0], mu, pair_mu)
        unflip(mu, pair_mu, truth, pairs)
        results.append((constant, flow, value, *mu, *pair_mu))
    assert results[0] == results[1]


def test_maximum_flow_against_scipy():
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = 8
        capacity = rng.integers(0, 6, (n, n)) * (rng.random((n, n)) < 0.4)
        np.fill_diagonal(capacity, 0)
        graph, e = max_flow.empty_graph(n, 2 * n * n), 0
        for a, b in np.argwhere(capacity):
            e = max_flow.add_arc(e, a, b, float(capacity[a, b]), 0.0, graph)
        flow = max_flow.augment(graph, 0, n - 1, 1e-12, np.empty((4, n), dtype=np.int64))
        assert flow == maximum_flow(csr_array(capacity.astype(np.int32)), 0, n - 1).flow_value
