"""Compiled dual coordinate ascent of a linear SVM whose rows have targets of their own."""

from typing import Any

from widemargin.extending import kernel

__all__ = ["target_ascent"]


@kernel
def target_ascent(Z: Any, order: Any, y: Any, target: Any, upper: Any, norms: Any, alpha: Any, v: Any) -> None:
    """Exact steps on the coordinates `order` of `max sum_i alpha_i target_i - 1/2 |v|^2`, `v = sum_i alpha_i y_i z_i`.

    With `0 <= alpha_i <= upper_i`; it is the dual of `min 1/2 |v|^2 + sum_i upper_i max(0, target_i - y_i <v, z_i>)`.
    """
    for k in range(order.shape[0]):
        i = order[k]
        slope = target[i]
        for j in range(v.shape[0]):
            slope -= y[i] * Z[i, j] * v[j]
        if norms[i] > 0.0:
            new = max(0.0, min(upper[i], alpha[i] + slope / norms[i]))
        else:
            new = upper[i] if slope > 0.0 else 0.0
        delta = (new - alpha[i]) * y[i]
        if delta != 0.0:
            alpha[i] = new
            for j in range(v.shape[0]):
                v[j] += delta * Z[i, j]
