"""Passes over the examples, compiled, for models whose argmax is compiled (`structured.compiled`)."""

from typing import Any

from widemargin._numba import kernel
from widemargin.structured.learners.bcfw_rows import add_rows, remember, scores, step
from widemargin.structured.oracles.argmax import argmax, difference

__all__ = ["bcfw_pass", "responses", "sgd_pass"]

_STRIDE = 613  # of the starts of successive examples in the table of draws


@kernel
def respond(
    u: Any, theta: Any, truth: Any, rescale: int, structure: Any, work: Any, label: Any, p: Any, p_b: Any
) -> Any:
    """The most violating label as (p, p_b, level): margin rescaling has p = psi, slack rescaling p = L psi.

    Returns
    -------
    level, value : float
        The loss of the label, and the example's structured hinge.
    """
    h, g = argmax(u, theta, truth, rescale, structure, work, label)
    value = h * g if rescale == 1 else h + g - 1.0
    if value <= 0.0:
        p[:] = 0.0
        p_b[:] = 0.0
        return 0.0, 0.0
    difference(label, truth, g if rescale == 1 else 1.0, structure, p, p_b)
    return g, value


@kernel
def bcfw_pass(
    order: Any, t: int, C: float, rescale: int,
    rows: Any, start: Any, gram: Any, gram_start: Any,
    truth: Any, truth_start: Any, structure: Any, work: Any,
    blocks: Any, W: Any, theta: Any, sums: Any, visited: Any, averaging: bool,
    u: Any, p: Any, p_b: Any, label: Any,
) -> float:  # fmt: skip
    """Visit the examples of `order`; t steps were made before. Returns the sum of the blocks' gaps."""
    a, b, loss = blocks
    a_sums, b_sums, loss_sums = sums
    total = 0.0
    for position in range(order.shape[0]):
        i = order[position]
        first, last = start[i], start[i + 1]
        m = last - first
        mine = truth[truth_start[i] : truth_start[i + 1]]
        scores(rows, first, last, W, u)
        level, _ = respond(
            u[:m], theta, mine, rescale, structure, work, label[: mine.shape[0]], p[:m], p_b
        )  # fmt: skip
        t += 1
        if averaging:  # the block was as it is for the iterates visited[i], ..., t - 1, of these weights
            weight = 0.5 * (float(t) * (t - 1) - float(visited[i]) * (visited[i] - 1))
            remember(a[first:last], b[i], loss, weight, a_sums[first:last], b_sums[i], loss_sums, i)
            visited[i] = t
        gap, _ = step(
            rows, first, last, gram[gram_start[i] : gram_start[i + 1]], u[:m],
            p[:m], p_b, level, C, a[first:last], b[i], loss, i, W, theta,
        )  # fmt: skip
        total += gap
    return total


@kernel
def sgd_pass(
    order: Any, t: int, scale: float, rescale: int,
    rows: Any, start: Any, truth: Any, truth_start: Any, structure: Any, work: Any,
    blocks: Any, W: Any, theta: Any, W_sum: Any, theta_sum: Any,
    u: Any, p: Any, p_b: Any, label: Any, scaled: Any,
) -> None:  # fmt: skip
    """Pegasos steps: `W` and `theta` are sums of all p, and the weights of step t are `scale / t` times them."""
    a, b, loss = blocks
    for position in range(order.shape[0]):
        i = order[position]
        first, last = start[i], start[i + 1]
        m = last - first
        mine = truth[truth_start[i] : truth_start[i + 1]]
        factor = scale / t if t > 0 else 0.0
        scores(rows, first, last, W, u)
        for r in range(m):
            for s in range(u.shape[1]):
                u[r, s] *= factor
        for j in range(theta.shape[0]):
            scaled[j] = factor * theta[j]
        level, value = respond(u[:m], scaled, mine, rescale, structure, work, label[: mine.shape[0]], p[:m], p_b)
        t += 1
        if value > 0.0:
            add_rows(rows, first, last, p[:m], 1.0, W)
            add_rows(rows, first, last, p[:m], float(t), W_sum)
            for j in range(theta.shape[0]):
                theta[j] += p_b[j]
                theta_sum[j] += t * p_b[j]
                b[i, j] += p_b[j]
            for r in range(m):
                for s in range(u.shape[1]):
                    a[first + r, s] += p[r, s]
            loss[i] += level


@kernel
def responses(
    first_example: int, last_example: int, rescale: int,
    rows: Any, start: Any, truth: Any, truth_start: Any, structure: Any, work: Any,
    W: Any, theta: Any, values: Any, keep: bool, a: Any, b: Any, loss: Any,
    u: Any, p: Any, p_b: Any, label: Any,
) -> None:  # fmt: skip
    """Structured hinge of every example at fixed weights; with `keep` also (p, p_b, level) of the labels.

    Random starts begin at a place in the table of draws that depends on the example alone, not on who is before it.
    """
    for i in range(first_example, last_example):
        work.scratch[3, 0] = i * _STRIDE % work.draws.shape[0]
        first, last = start[i], start[i + 1]
        m = last - first
        mine = truth[truth_start[i] : truth_start[i + 1]]
        scores(rows, first, last, W, u)
        level, value = respond(u[:m], theta, mine, rescale, structure, work, label[: mine.shape[0]], p[:m], p_b)
        values[i] = value
        if keep:
            loss[i] = level
            for r in range(m):
                for s in range(u.shape[1]):
                    a[first + r, s] = p[r, s]
            for j in range(b.shape[1]):
                b[i, j] = p_b[j]
