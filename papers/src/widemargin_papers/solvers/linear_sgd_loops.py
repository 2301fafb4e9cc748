"""Compiled stochastic gradient steps of linear models, on dense and on CSR rows.

The iterate is `w = scale v`: shrinking it is one multiplication. Its weighted sum over the steps is kept the same way,
`sum_t t w_t = total v - u`, where `total = sum_t t scale_t` and a change of v by delta adds `total delta` to u. The
last entry of v and u belongs to a constant feature of value `bias` (0: there is none).
"""

from widemargin.extending import Floats, Integers, Ints, Reals, kernel
from widemargin.solvers.smooth.margin_sgd import SCALE, SMALL, SQUARE, STEPS, TOTAL, WEIGHT, fold
from widemargin_papers.solvers.kernel_pegasos import project


@kernel
def dense_dot(X: Reals, i: int, bias: float, v: Floats) -> float:
    """`<v, (x_i, bias)>`."""
    d = X.shape[1]
    total = bias * v[d]
    for j in range(d):
        total += X[i, j] * v[j]
    return float(total)


@kernel
def dense_add(X: Reals, i: int, bias: float, amount: float, v: Floats, u: Floats, total: float) -> None:
    """Add `amount (x_i, bias)` to v, and keep u in step."""
    d = X.shape[1]
    for j in range(d):
        v[j] += amount * X[i, j]
        u[j] += total * amount * X[i, j]
    v[d] += amount * bias
    u[d] += total * amount * bias


@kernel
def csr_dot(data: Reals, indices: Integers, indptr: Integers, i: int, bias: float, v: Floats) -> float:
    """`<v, (x_i, bias)>`."""
    total = bias * v[v.shape[0] - 1]
    for k in range(indptr[i], indptr[i + 1]):
        total += data[k] * v[indices[k]]
    return float(total)


@kernel
def csr_add(
    data: Reals,
    indices: Integers,
    indptr: Integers,
    i: int,
    bias: float,
    amount: float,
    v: Floats,
    u: Floats,
    total: float,
) -> None:
    """Add `amount (x_i, bias)` to v, and keep u in step."""
    last = v.shape[0] - 1
    for k in range(indptr[i], indptr[i + 1]):
        change = amount * data[k]
        v[indices[k]] += change
        u[indices[k]] += total * change
    v[last] += amount * bias
    u[last] += total * amount * bias


@kernel
def pegasos_step(score: float, y: float, size: float, norm: float, lam: float, radius: float, now: Floats) -> float:
    """`w <- (1 - 1/t) w + [y f(x) < 1] size y x / (lam t)`, projected: shrink, and say how much of the row to add to v.

    `norm` is the squared norm of the row; the square of |w| is kept in `now`.
    """
    now[STEPS] += 1.0
    t = now[STEPS]
    if t > 1.0:  # at the first step w is 0
        now[SCALE] *= 1.0 - 1.0 / t
        now[SQUARE] *= (1.0 - 1.0 / t) ** 2
    amount = 0.0
    if y * score < 1.0:
        delta = size * y / (lam * t)
        shrunk = score * (1.0 - 1.0 / t) if t > 1.0 else 0.0
        now[SQUARE] += delta * (2.0 * shrunk + delta * norm)
        amount = delta / now[SCALE]
    if radius > 0.0:
        project(radius, now)
    return amount


@kernel
def close_step(t: float, v: Floats, u: Floats, now: Floats) -> None:
    """Count the iterate with weight t."""
    if now[SCALE] < SMALL:
        now[SCALE], now[TOTAL] = fold(v, u, now[SCALE], now[TOTAL])
    now[TOTAL] += t * now[SCALE]
    now[WEIGHT] += t


@kernel
def pegasos_dense(
    X: Reals, order: Integers, y: Floats, size: Floats, norms: Floats, lam: float, radius: float, bias: float, v:
    Floats, u: Floats, hits: Ints, now: Floats,
) -> None:  # fmt: skip
    """Pegasos on the rows `order`; `hits` counts the steps that found a row inside the margin."""
    for k in range(order.shape[0]):
        i = order[k]
        score = now[SCALE] * dense_dot(X, i, bias, v)
        amount = pegasos_step(score, y[i], size[i], norms[i], lam, radius, now)
        if amount != 0.0:
            hits[i] += 1
            dense_add(X, i, bias, amount, v, u, now[TOTAL])
        close_step(now[STEPS], v, u, now)


@kernel
def pegasos_csr(
    data: Reals, indices: Integers, indptr: Integers, order: Integers, y: Floats, size: Floats, norms: Floats, lam:
    float, radius: float, bias: float, v: Floats, u: Floats, hits: Ints, now: Floats,
) -> None:  # fmt: skip
    """The same on CSR rows."""
    for k in range(order.shape[0]):
        i = order[k]
        score = now[SCALE] * csr_dot(data, indices, indptr, i, bias, v)
        amount = pegasos_step(score, y[i], size[i], norms[i], lam, radius, now)
        if amount != 0.0:
            hits[i] += 1
            csr_add(data, indices, indptr, i, bias, amount, v, u, now[TOTAL])
        close_step(now[STEPS], v, u, now)


@kernel
def ldm_amounts(
    a: float, b: float, y: float, z: float, pull: Floats, lam: float, late: float, now: Floats
) -> tuple[float, float]:
    """Shrink, and say by how much of two rows v changes: a step against an unbiased gradient from two rows drawn.

    The scores of the rows are a and b, their labels y and z. With `pull = (variance, mean)` the gradient is
    `lam w + (variance (y a - z b) - mean - [y a < 1]) y x - variance (y a - z b) z x'`, and the step
    `1 / (lam (t + late))`.
    """
    now[STEPS] += 1.0
    rate = 1.0 / (now[STEPS] + late)
    now[SCALE] *= 1.0 - rate
    step = rate / (lam * now[SCALE])
    apart = pull[0] * (y * a - z * b)
    first = apart - pull[1]
    if y * a < 1.0:
        first -= 1.0
    return -step * first * y, step * apart * z


@kernel
def ldm_dense(
    X: Reals, order: Integers, other: Integers, y: Floats, pull: Floats, lam: float, late: float, bias: float, v:
    Floats, u: Floats, now: Floats,
) -> None:  # fmt: skip
    """Stochastic steps of the large margin distribution machine on pairs of rows `(order, other)`."""
    for k in range(order.shape[0]):
        i, j = order[k], other[k]
        a = now[SCALE] * dense_dot(X, i, bias, v)
        b = now[SCALE] * dense_dot(X, j, bias, v)
        first, second = ldm_amounts(a, b, y[i], y[j], pull, lam, late, now)
        dense_add(X, i, bias, first, v, u, now[TOTAL])
        dense_add(X, j, bias, second, v, u, now[TOTAL])
        close_step(now[STEPS], v, u, now)


@kernel
def ldm_csr(
    data: Reals, indices: Integers, indptr: Integers, order: Integers, other: Integers, y: Floats, pull: Floats, lam:
    float, late: float, bias: float, v: Floats, u: Floats, now: Floats,
) -> None:  # fmt: skip
    """The same on CSR rows."""
    for k in range(order.shape[0]):
        i, j = order[k], other[k]
        a = now[SCALE] * csr_dot(data, indices, indptr, i, bias, v)
        b = now[SCALE] * csr_dot(data, indices, indptr, j, bias, v)
        first, second = ldm_amounts(a, b, y[i], y[j], pull, lam, late, now)
        csr_add(data, indices, indptr, i, bias, first, v, u, now[TOTAL])
        csr_add(data, indices, indptr, j, bias, second, v, u, now[TOTAL])
        close_step(now[STEPS], v, u, now)
