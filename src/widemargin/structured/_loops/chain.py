"""Sequences: Viterbi with an error count; `D[t, s, c]` is the best prefix that ends in state s with cost c."""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["at_level", "free", "levels"]


@kernel
def levels(u: Any, theta: Any, truth: Any, structure: Any, work: Any) -> None:
    """H[c] for every cost c, into `work.H` (-inf beyond the last); the decisions stay in `work` for `at_level`."""
    T, n_states = u.shape
    D, before = work.values, work.split
    H, best = work.H, work.rows[0]
    own, size = 0.0, 1
    for t in range(T):
        w = structure.cost[0, truth[t]]
        own += u[t, truth[t]]
        if t > 0:
            own += theta[truth[t - 1] * n_states + truth[t]]
        for s in range(n_states):
            error = 0 if s == truth[t] else w
            for c in range(size + w):
                D[t, s, c] = -np.inf
            if t == 0:
                D[t, s, error] = u[t, s]
                continue
            for c in range(size):
                best[c] = -np.inf
            target, link = D[t, s], before[t, s]
            for r in range(n_states):
                step, previous = theta[r * n_states + s] + u[t, s], D[t - 1, r]
                for c in range(size):
                    x = previous[c] + step
                    better = x > best[c]
                    best[c] = x if better else best[c]
                    link[c + error] = np.int32(r) if better else link[c + error]
            for c in range(size):
                target[c + error] = best[c]
        size += w
    for c in range(H.shape[0]):
        H[c] = -np.inf
    for s in range(n_states):
        for c in range(size):
            if D[T - 1, s, c] + 1.0 - own > H[c]:
                H[c] = D[T - 1, s, c] + 1.0 - own
                work.choice[0, 0, c] = s


@kernel
def at_level(c: int, truth: Any, structure: Any, work: Any, label: Any) -> None:
    """The label of cost c, after `levels`."""
    s = np.int64(work.choice[0, 0, c])
    for t in range(truth.shape[0] - 1, -1, -1):
        label[t] = s
        came = np.int64(work.split[t, s, c])
        if s != truth[t]:
            c -= structure.cost[0, truth[t]]
        s = came


@kernel
def free(u: Any, theta: Any, truth: Any, lam: float, structure: Any, work: Any, label: Any) -> None:
    """The label with the largest score plus `lam` times its loss: Viterbi."""
    T, n_states = u.shape
    now, then, before = work.rows[0], work.rows[1], work.split
    for t in range(T):
        extra = lam * structure.weight[0, truth[t]]
        for s in range(n_states):
            own = u[t, s] + (extra if s != truth[t] else 0.0)
            if t == 0:
                now[s] = own
                continue
            best, came = -np.inf, 0
            for r in range(n_states):
                x = then[r] + theta[r * n_states + s]
                if x > best:
                    best, came = x, r
            now[s] = best + own
            before[t, s, 0] = came
        for s in range(n_states):
            then[s] = now[s]
    last = np.int64(0)
    for s in range(n_states):
        if then[s] > then[last]:
            last = np.int64(s)
    for t in range(T - 1, -1, -1):
        label[t] = last
        last = np.int64(before[t, last, 0])
