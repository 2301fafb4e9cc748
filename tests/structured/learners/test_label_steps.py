"""Steps of label sets in which every label has a length of its own, against the distributions that they stand for."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.structured.compiled import GREEDY, JACCARD, make_structure
from widemargin.structured.learners import block_frank_wolfe
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.visits import go_by_label
from widemargin.structured.models import MultiLabelModel
from widemargin_papers.solvers import structured_cutting_planes as cutting_planes

PAIRS = np.array([[0, 1], [1, 2], [0, 3], [2, 3]])


def block_of(sets, shares, truth, mass, C):
    """(a, b, loss) of a distribution over label sets, weights of the loss 1, 2, ...."""
    weight = np.arange(1.0, truth.shape[0] + 1.0)
    pairs = np.stack([one[PAIRS].prod(axis=1) for one in sets])
    a = C * mass * (truth - shares @ sets)
    b = C * mass * (truth[PAIRS].prod(axis=1) - shares @ pairs)
    return a[None, :], b, C * mass * float(shares @ (np.abs(sets - truth) @ weight))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 2.0]))
def test_the_goal_is_a_distribution_and_no_worse_than_the_label_set(seed, pull):
    rng = np.random.default_rng(seed)
    truth, goal, sets = rng.integers(0, 2, 4), rng.integers(0, 2, 4), rng.integers(0, 2, (3, 4))
    shares, mass, C, square = rng.dirichlet(np.ones(3)), rng.choice([0.5, 1.0, 2.0]), 3.0, rng.uniform(0.1, 2.0)
    structure = make_structure(GREEDY, np.arange(1.0, 5.0)[None, :], pairs=PAIRS)
    a, b, loss = block_of(sets, shares, truth, mass, C)
    u, theta = rng.normal(size=(1, 4)), pull * rng.normal(size=4)
    p, p_b, goal_loss = block_of(goal[None, :], np.ones(1), truth, mass, 1.0)

    def grown(p, p_b, goal_loss):
        move, move_b = C * p - a, C * p_b - b
        gap = C * goal_loss - loss - float((move * u).sum() + move_b @ theta)
        bend = square * float((move**2).sum()) + float(move_b @ move_b)
        length = np.clip(gap / bend, 0.0, 1.0) if bend else 0.0
        return length * gap - 0.5 * length**2 * bend, gap

    new, new_b = p.copy(), p_b.copy()
    new_loss, gap = go_by_label(u, theta, truth, mass, 1.0, square, structure, C, a, b, new, new_b, goal_loss)
    before, whole = grown(p, p_b, goal_loss)
    assert gap == pytest.approx(whole, abs=1e-9)
    assert grown(new, new_b, new_loss)[0] >= before - 1e-9
    # The lengths, and the distribution that they stand for: sets of which some labels are the goal's.
    move = (C * p - a)[0]
    lengths = np.where(np.abs(move) > 1e-12, (C * new - a)[0] / np.where(np.abs(move) > 1e-12, move, 1.0), 1.0)
    levels = np.concatenate([[0.0], np.sort(np.clip(lengths, 0.0, 1.0)), [1.0]])
    mixed, parts = [], []
    for low, high in itertools.pairwise(levels):
        from_goal = lengths > 0.5 * (low + high)
        mixed += [np.where(from_goal, goal, own) for own in sets]
        parts += [(high - low) * share for share in shares]
    wanted, wanted_b, wanted_loss = block_of(np.array(mixed), np.array(parts), truth, mass, 1.0)
    np.testing.assert_allclose(new, wanted, atol=1e-9)
    np.testing.assert_allclose(new_b, wanted_b, atol=1e-9)
    assert new_loss == pytest.approx(wanted_loss, abs=1e-9)


def test_losses_that_are_no_sums_move_as_one():
    structure = make_structure(GREEDY, np.ones((1, 4)), pairs=PAIRS, scored=JACCARD)
    p, p_b = np.ones((1, 4)), np.zeros(4)
    arguments = (np.ones((1, 4)), np.zeros(4), np.ones(4, dtype=np.int64), 1.0, 1.0, 1.0, structure, 1.0)
    assert go_by_label(*arguments, np.zeros((1, 4)), np.zeros(4), p, p_b, 0.5) == (0.5, -np.inf)
    np.testing.assert_array_equal(p, 1.0)


@pytest.mark.parametrize("edges", [None, "tree", "full"])
def test_the_optimum_is_that_of_cutting_planes(edges):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 6))
    Y = (X[:, :5] + 0.7 * rng.normal(size=(40, 5)) > 0).astype(int)
    weight = rng.integers(0, 3, 40)
    made = {
        name: learner(
            StructuredProblem(MultiLabelModel(edges), X, Y, C=0.3, rescaling="margin", sample_weight=weight),
            tol=1e-4, max_iter=20000,
        )
        for name, learner in {"steps": block_frank_wolfe.solve, "planes": cutting_planes.slack_per_example}.items()
    }  # fmt: skip
    assert made["steps"].gap <= 1e-4
    assert made["steps"].primal == pytest.approx(made["planes"].primal, rel=2e-4)


def test_many_labels_take_few_passes():
    # One length for all labels took 320 passes here, and these take 136.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 50)) / 50**0.5
    Y = (X @ rng.normal(size=(50, 40)) + 0.5 * rng.normal(size=(300, 40)) > 1.0).astype(int)
    problem = StructuredProblem(MultiLabelModel(None), X, Y, C=100.0, rescaling="margin")
    assert block_frank_wolfe.solve(problem, tol=0.05, max_iter=200).gap <= 0.05
