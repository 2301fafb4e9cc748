"""Sequences: Viterbi with an error count; `D[t, c, s]` is the best prefix of cost c that ends in state s."""

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import Structure, Work


@kernel
def point(u: Floats, theta: Floats, label: Ints, truth: Ints, structure: Structure, work: Work) -> tuple[float, float]:
    """(h, g) of a label."""
    h, g = 1.0, 0.0
    for t in range(truth.shape[0]):
        h += u[t, label[t]] - u[t, truth[t]]
        if label[t] != truth[t]:
            g += structure.weight[0, truth[t]]
        if t > 0:
            # Pairs of states are numbered row by row, by the state before.
            h += theta[label[t - 1] * u.shape[1] + label[t]] - theta[truth[t - 1] * u.shape[1] + truth[t]]
    return h, g


@kernel
def difference(label: Ints, truth: Ints, factor: float, structure: Structure, A: Floats, b: Floats) -> None:
    """`factor` times the joint features of the truth minus those of a label, into A and b."""
    A[:] = 0.0
    b[:] = 0.0
    # Steps collide in pairs of states, so both labels are added; label sets have a place for each pair.
    for t in range(truth.shape[0]):
        A[t, truth[t]] += factor
        A[t, label[t]] -= factor
        if t > 0:
            b[truth[t - 1] * A.shape[1] + truth[t]] += factor
            b[label[t - 1] * A.shape[1] + label[t]] -= factor


@kernel
def arrive(t: int, then: Floats, theta: Floats, n_states: int, best: Floats, came: Ints) -> None:
    """Set the best way of arriving in each state at step t, without its own score, and the state before it.

    `then` are the best prefixes by their last state, which the first step has none of.
    """
    for s in range(n_states):
        best[s], came[s] = 0.0 if t == 0 else -np.inf, 0
    for r in range(n_states if t > 0 else 0):
        # No prefix of this cost ends here: it leads nowhere.
        if then[r] == -np.inf:
            continue
        base, row = then[r], r * n_states
        for s in range(n_states):  # without jumps
            x = base + theta[row + s]
            better = x > best[s]
            best[s] = x if better else best[s]
            came[s] = r if better else came[s]


@kernel
def best_of_losses(u: Floats, theta: Floats, truth: Ints, structure: Structure, work: Work) -> None:
    """H[c] for every cost c, into `work.H` (-inf beyond the last); the decisions stay in `work` for `label_of_loss`."""
    T, n_states = u.shape
    D, before, H, best, came = work.values, work.split, work.H, work.rows[0], work.scratch[0]
    own, size = 0.0, 1
    for t in range(T):
        w = structure.cost[0, truth[t]]
        own += u[t, truth[t]]
        # A step costs w if it is wrong, so the costs reach w further than before it.
        for c in range(size + w):
            for s in range(n_states):
                D[t, c, s] = -np.inf
        for c in range(size):
            arrive(t, D[t - 1, c], theta, n_states, best, came)
            # The true state keeps the cost of the prefix; every other one adds w.
            for s in range(n_states):
                level = c if s == truth[t] else c + w
                if best[s] + u[t, s] > D[t, level, s]:
                    D[t, level, s] = best[s] + u[t, s]
                    before[t, level, s] = came[s]
        if t > 0:
            own += theta[truth[t - 1] * n_states + truth[t]]
        size += w
    # The score of the truth turns scores into h = 1 + f(y) - f(y_i); the last state of the best labelling is where
    # the way back begins.
    for c in range(H.shape[0]):
        H[c] = -np.inf
    for c in range(size):
        for s in range(n_states):
            if D[T - 1, c, s] + 1.0 - own > H[c]:
                H[c] = D[T - 1, c, s] + 1.0 - own
                work.choice[0, c, 0] = s


@kernel
def label_of_loss(c: int, truth: Ints, structure: Structure, work: Work, label: Ints) -> None:
    """The label of cost c, after `best_of_losses`."""
    s = np.int64(work.choice[0, c, 0])
    for t in range(truth.shape[0] - 1, -1, -1):
        label[t] = s
        # Backwards: the state before belongs to the cost that was left before this step.
        came = np.int64(work.split[t, c, s])
        if s != truth[t]:
            c -= structure.cost[0, truth[t]]
        s = came


@kernel
def free(u: Floats, theta: Floats, truth: Ints, lam: float, structure: Structure, work: Work, label: Ints) -> None:
    """The label with the largest score plus `lam` times its loss: Viterbi."""
    T, n_states = u.shape
    now, then, before, came = work.rows[0], work.rows[1], work.split, work.scratch[0]
    for t in range(T):
        arrive(t, then, theta, n_states, now, came)
        # The loss is a sum over steps, so it goes into the potentials of the wrong states.
        extra = lam * structure.weight[0, truth[t]]
        for s in range(n_states):
            then[s] = now[s] + (u[t, s] + (extra if s != truth[t] else 0.0))
            before[t, 0, s] = came[s]
    # The best last state, and from it back along the ways that led there.
    last = np.int64(0)
    for s in range(n_states):
        if then[s] > then[last]:
            last = np.int64(s)
    for t in range(T - 1, -1, -1):
        label[t] = last
        last = np.int64(before[t, 0, last])
