"""Dynamic programmes against enumeration: every question, every loss, ties and degenerate sizes included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import structured_cases as cases

from widemargin.exceptions import CapabilityError
from widemargin.structured.compiled import CHAIN, HIERARCHY, TREE, UNARY, workspace
from widemargin.structured.models import MultiLabelModel
from widemargin.structured.oracles import argmax as loops
from widemargin.structured.oracles import closed_sets, label_tree, viterbi
from widemargin.structured.oracles.argmax import best_of_losses
from widemargin.structured.oracles.compiled_oracles import LossOracle
from widemargin.structured.search.angular import angular

seeds = st.integers(0, 10**6)
weight_kinds = st.sampled_from(cases.WEIGHTS)


def check(case):
    """Every question that the oracle answers."""
    model, truth, u, theta, brute = case
    oracle = model.oracle(None, truth, u, theta)
    assert oracle.largest_loss >= brute.g.max()
    assert oracle.smallest_loss <= brute.g[brute.g > 0].min(initial=np.inf)
    for lam in (0.0, 0.3, 1.0, 5.0):
        answer = oracle.free(lam)
        assert brute.holds(answer)
        assert answer.h + lam * answer.g == pytest.approx(brute.best(lam), abs=1e-9)
    if "direct" in oracle.capabilities:
        answer = oracle.direct()
        # Losses that are counted in units which are nearly common are a hundredth too large at most.
        share, best = getattr(oracle, "tolerance", 0.0), brute.best_product()
        assert share or brute.holds(answer)
        assert best - 1e-9 <= answer.h * answer.g <= best * (1.0 + share) + 1e-9
    if "levels" in oracle.capabilities:
        H = oracle.levels()
        for c in range(int(brute.g.max()) + 2):
            expected = brute.level(c)
            assert (H[c] if c < H.shape[0] else -np.inf) == pytest.approx(expected, abs=1e-9)
            answer = oracle.level(c)
            if answer is None:
                assert expected == -np.inf
            else:
                assert brute.holds(answer)
                assert answer.g == c
    decoded = model.decode(None, u, theta)
    index = next(i for i, y in enumerate(brute.labels) if np.array_equal(y, decoded))
    assert brute.h[index] == pytest.approx(brute.h.max(), abs=1e-9)


@given(seed=seeds, k=st.integers(1, 7), weight=weight_kinds)
def test_independent_labels(seed, k, weight):
    check(cases.multi_label(seed, k, None, weight, oracle="tree"))


@given(seed=seeds, k=st.integers(1, 7), edges=st.sampled_from(["forest", "tree"]), weight=weight_kinds)
def test_label_trees(seed, k, edges, weight):
    check(cases.multi_label(seed, k, edges, weight, oracle="tree"))


@given(seed=seeds, k=st.integers(1, 7), over=st.sampled_from(["nodes", "leaves"]), weight=weight_kinds)
def test_hierarchies(seed, k, over, weight):
    check(cases.hierarchy(seed, k, over, weight))


@given(seed=seeds, T=st.integers(1, 4), S=st.integers(1, 3), weight=weight_kinds)
def test_chains(seed, T, S, weight):
    check(cases.chain(seed, T, S, weight))


def test_kinds():
    assert cases.multi_label(0, 5, None)[0].structure.kind == UNARY
    assert cases.multi_label(0, 5, "tree")[0].structure.kind == TREE
    assert cases.hierarchy(0, 5)[0].structure.kind == HIERARCHY
    assert cases.chain(0, 5, 2)[0].structure.kind == CHAIN


def test_two_oracles_of_a_model_do_not_disturb_each_other():
    model, truth, u, theta, brute = cases.multi_label(3, 6, "tree")
    first, second = model.oracle(None, truth, u, theta), model.oracle(None, truth, -u, theta)
    first.levels()
    second.levels()
    for c in range(7):
        assert brute.holds(first.level(c))
        second.level(c)
        first.free(1.0)
        assert brute.holds(first.level(c))


def test_weights_without_a_unit_have_rounded_products_and_no_levels():
    """The product of the label found, with its rounded loss, bounds those of all labels, by a hundredth at most."""
    for seed in range(20):
        model, truth, u, theta, brute = cases.multi_label(seed, 5, "tree", "reals", oracle="tree")
        oracle = model.oracle(None, truth, u, theta)
        assert oracle.capabilities == {"free", "direct"}
        assert model.compiles(slack=True)
        answer, best = oracle.direct(), brute.best_product()
        assert best * (1.0 - 1e-9) <= answer.h * answer.g <= best * (1.0 + oracle.tolerance) * (1.0 + 1e-9)
        assert 0.0 < oracle.tolerance <= 0.0201
    with pytest.raises(CapabilityError, match="needs an oracle that answers cone"):
        angular(oracle)


def test_a_unit_other_than_one_has_products_but_no_integer_levels():
    model, truth, u, theta, brute = cases.multi_label(0, 5, "tree")
    half = model.structure._replace(weight=0.5 * model.structure.weight, unit=0.5)
    oracle = LossOracle(u, theta, truth, half)
    assert oracle.capabilities == {"free", "direct", "cone"}
    assert angular(oracle).value == pytest.approx(0.5 * brute.best_product())
    answer = oracle.direct()
    assert answer.h * answer.g == pytest.approx(0.5 * brute.best_product())


@pytest.mark.parametrize("make", [lambda s: cases.multi_label(s, 6, "tree"), lambda s: cases.hierarchy(s, 6, "leaves")])
def test_nothing_positive_gives_the_truth(make):
    """Where y_i wins by far, its own label and the point (1, 0)."""
    model, truth, u, theta, _ = make(1)
    u = 100.0 * (2.0 * truth[None, :] - 1.0)
    answer = model.oracle(None, truth, u, 0.0 * theta).direct()
    assert (answer.y == truth).all()
    assert (answer.h, answer.g) == (1.0, 0.0)


CASES = {
    "unary": lambda s: cases.multi_label(s, 6, None),
    "tree": lambda s: cases.multi_label(s, 6, "forest", "integers", oracle="tree"),
    "nodes": lambda s: cases.hierarchy(s, 6, "nodes"),
    "leaves": lambda s: cases.hierarchy(s, 6, "leaves", "integers"),
    "chain": lambda s: cases.chain(s, 4, 3),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lam", [1.0, None])
def test_compiled_is_plain_python(name, lam, monkeypatch):
    for seed in range(5):
        model, truth, u, theta, _ = CASES[name](seed)
        answers = []
        for plain in (False, True):
            if plain:
                # Each module calls its loops by their names: those become the Python functions that were compiled.
                for module in (loops, label_tree, closed_sets, viterbi):
                    for function in [name for name in vars(module) if hasattr(getattr(module, name), "py_func")]:
                        monkeypatch.setattr(module, function, getattr(module, function).py_func)
            work, label = workspace(model.structure, u.shape[0]), np.empty_like(truth)
            answers.append((*loops.best_answer(u, theta, truth, lam, model.structure, work, label), *label))
        monkeypatch.undo()
        assert answers[0] == answers[1]


def test_unary_levels_stop_early_without_changing_the_product():
    model, truth, _, theta, _ = cases.multi_label(7, 7, None)
    u = (2.0 * truth[None, :] - 1.0) * np.linspace(0.2, 0.5, 7)  # every flip loses
    few, every = workspace(model.structure), workspace(model.structure)
    best_of_losses(u, theta, truth, model.structure, few, False)
    best_of_losses(u, theta, truth, model.structure, every, True)
    known = np.isfinite(few.H)
    assert not known.all()
    assert (few.H[known] == every.H[known]).all()
    c = np.arange(8)
    assert (c * every.H).max() == (c[known] * few.H[known]).max()


def test_labels_that_cost_several_levels_are_not_cut_off():
    """The weights sum to the number of labels, as counts do, but one flip is two levels."""
    model = MultiLabelModel([(0, 1)], weights=[0, 1, 2])
    model.prepare(np.zeros((1, 1)), np.zeros((1, 3), dtype=int))
    answer = model.oracle(None, np.zeros(3, dtype=int), np.array([[-2.0, -2.0, 0.5]]), np.zeros(1)).direct()
    assert (answer.y.tolist(), answer.h, answer.g) == ([0, 0, 1], 1.5, 2.0)


@pytest.mark.parametrize("kind", ["forest", "hierarchy"])
def test_the_slack_argmax_is_that_of_all_levels(kind):
    """Costs that cannot win are left out; weak potentials leave out many, strong ones none."""
    for seed in range(60):
        if kind == "forest":
            model, truth, u, theta, brute = cases.multi_label(seed, 6, "forest")
        else:
            model, truth, u, theta, brute = cases.hierarchy(seed, 7)
        for scale in (0.05, 0.3, 1.0):
            oracle = model.oracle(None, truth, scale * u, scale * theta)
            H, answer = oracle.levels(), oracle.direct()
            reached = -np.inf < H
            best = max(0.0, (np.arange(H.shape[0])[reached] * H[reached]).max())
            assert answer.h * answer.g == pytest.approx(best, abs=1e-9)
        assert oracle.direct().h * oracle.direct().g == pytest.approx(brute.best_product(), abs=1e-9)
