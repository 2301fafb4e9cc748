"""Rows of all examples in one matrix, and rows times weights.

Weights are stored a row per feature, W of shape (d, S), so a sparse row of X touches contiguous rows of W.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from widemargin._numba import array_kernel, kernel
from widemargin._typing import ArrayLike, Floats, Ints, Matrix
from widemargin.exceptions import DataError
from widemargin.linalg.equal_rows import canonical_rows
from widemargin.structured.model import Examples, StructuredModel

__all__ = [
    "ExampleRows", "add_blocks", "add_rows", "all_scores", "as_examples", "check_lengths", "check_weights", "count",
    "grams", "model_rows", "potentials_of", "row_parts", "scores", "scores_of", "stack_rows",
]  # fmt: skip


class ExampleRows(NamedTuple):
    """Rows of all examples, one after the other: CSR, or dense with empty indices.

    Attributes
    ----------
    data : ndarray
        Of shape (1, stored) in CSR form, else (rows, d); float32 or float64.
    indices, indptr : ndarray
    """

    data: Floats
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int32]


def as_examples(X: Examples) -> Examples:
    """Examples or labels of which `X[i]` is number i: a table or a column (pandas, polars) becomes its array."""
    return X.to_numpy() if hasattr(X, "to_numpy") else X


def count(X: Examples) -> int:
    """Number of examples of a sequence or matrix.

    Raises
    ------
    DataError
        If it has no length.
    """
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        raise DataError(f"{X!r} is no sequence of examples or labels: give a list or an array, one entry per example.")
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def check_lengths(X: Examples, Y: Examples) -> int:
    """As many examples as labels; returns how many.

    Raises
    ------
    DataError
    """
    n = count(X)
    if n != count(Y):
        raise DataError(f"there are {n} examples and {count(Y)} labels: give one label per example.")
    if n == 0:
        raise DataError("there are no examples to learn from.")
    return n


def check_weights(weights: ArrayLike | None, n: int, name: str = "weights", each: str = "label") -> Floats:
    """Loss weights of n labels, or other weights; 1 each by default.

    Raises
    ------
    DataError
    """
    if weights is None:
        return np.ones(n)
    weight = np.array(weights, dtype=np.float64)
    if weight.shape != (n,):
        raise DataError(f"{name} have the shape {weight.shape}: give {n} numbers, one per {each}.")
    # Weights of 0 are allowed for what nobody cares about, but not for all.
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0.0)))
    if wrong.size or not weight.any():
        fault = f"that of {each} {wrong[0]} is {weight[wrong[0]]:g}" if wrong.size else "all are zero"
        raise DataError(f"{name} must be finite numbers >= 0, not all zero; {fault}.")
    return weight


def model_rows(model: StructuredModel, X: Examples, d: int) -> tuple[ExampleRows, Ints]:
    """Rows of all examples, by the model's own `stack(X)` where it has one; and where each example begins.

    Raises
    ------
    DataError
        If rows do not fit the model, or are not finite.
    """
    # The rows at once are far quicker than one call an example.
    stack = getattr(model, "stack", None)
    if stack is not None:
        whole, start = stack(X)
        return stack_rows([whole], d)[0], start
    parts = [model.rows(x) for x in X]
    for i, part in enumerate(parts):
        if not (hasattr(part, "ndim") and hasattr(part, "shape")):
            raise DataError(
                f"{type(model).__name__}.rows returned {type(part).__name__} for example {i}; give a NumPy array or "
                "CSR matrix of shape (m, d)."
            )
    return stack_rows(parts, d)


def stack_rows(parts: Sequence[Matrix], d: int) -> tuple[ExampleRows, Ints]:
    """Rows of all examples in one matrix, and where each example begins.

    Raises
    ------
    DataError
        If the rows of an example are not of shape (m, d), or not finite.
    """
    for i, part in enumerate(parts):
        if part.ndim != 2 or part.shape[1] != d:
            raise DataError(f"the rows of example {i} have shape {part.shape}; the model says (m, {d}).")
    start = np.concatenate([[0], np.cumsum([part.shape[0] for part in parts])]).astype(np.int64)
    # One sparse example makes all sparse: the compiled loops know one form at a time.
    if any(sp.issparse(part) for part in parts):
        whole = canonical_rows(sp.vstack([sp.csr_matrix(part) for part in parts], format="csr"))
        data, indices, indptr = whole.data[None, :], whole.indices, whole.indptr
    else:
        data = np.concatenate(parts) if parts else np.empty((0, d))
        indices = indptr = np.empty(0, dtype=np.int32)
    # Single precision is kept, as it halves the memory; whole numbers and flags become double.
    data = np.ascontiguousarray(data, dtype=None if data.dtype in (np.float32, np.float64) else np.float64)
    # A NaN would spread over all weights with the first step.
    if not np.isfinite(data).all():
        raise DataError("the rows hold NaN or infinity; impute or leave out these examples.")
    return ExampleRows(data, indices, indptr), start


def potentials_of(model: StructuredModel, X: Examples, W: Floats) -> Iterator[Floats]:
    """`rows(x) W` of every example, shape (m, S) each.

    Raises
    ------
    DataError
        If rows do not fit the weights.
    """
    rows, start = model_rows(model, X, W.shape[0])
    # All examples in one go; each then gets its part of the result, a view.
    u = all_scores(rows, W)
    for first, last in itertools.pairwise(start.tolist()):
        yield u[first:last]


@kernel
def scores(rows: ExampleRows, first: int, last: int, W: Floats, u: Floats) -> None:
    """`u[r] = x_(first + r) W` for the rows of one example."""
    data, indices, indptr = rows
    S, dense = W.shape[1], indptr.shape[0] == 0
    for r in range(first, last):
        out = u[r - first]
        for s in range(S):
            out[s] = 0.0
        # Dense and sparse rows differ in where a feature is found; the loops are the same.
        line, place, end = (r, 0, data.shape[1]) if dense else (0, indptr[r], indptr[r + 1])
        while place + 4 <= end:  # four features at a time, so that `out` is loaded and stored less often
            x0, x1, x2, x3 = data[line, place], data[line, place + 1], data[line, place + 2], data[line, place + 3]
            f0, f1, f2, f3 = place, place + 1, place + 2, place + 3
            if not dense:
                f0, f1, f2, f3 = indices[f0], indices[f1], indices[f2], indices[f3]
            w0, w1, w2, w3 = W[f0], W[f1], W[f2], W[f3]
            for s in range(S):
                out[s] = (((out[s] + x0 * w0[s]) + x1 * w1[s]) + x2 * w2[s]) + x3 * w3[s]
            place += 4
        while place < end:
            x, w = data[line, place], W[place if dense else indices[place]]
            for s in range(S):
                out[s] += x * w[s]
            place += 1


@array_kernel
def scores_of(rows: ExampleRows, places: Ints, W: Floats) -> Floats:
    """Some rows times W."""
    u = np.empty((places.shape[0], W.shape[1]))
    for r in range(places.shape[0]):
        scores(rows, places[r], places[r] + 1, W, u[r : r + 1])
    return u


@kernel
def add_rows(rows: ExampleRows, first: int, last: int, change: Floats, factor: float, W: Floats) -> None:
    """`W += factor sum_r x_(first + r) (x) change[r]`."""
    data, indices, indptr = rows
    S = W.shape[1]
    for r in range(first, last):
        # Only features that the row has are touched, whatever d is.
        row = change[r - first]
        if indptr.shape[0] == 0:
            for f in range(data.shape[1]):
                x, w = factor * data[r, f], W[f]
                if x != 0.0:
                    for s in range(S):
                        w[s] += x * row[s]
        else:
            for place in range(indptr[r], indptr[r + 1]):
                x, w = factor * data[0, place], W[indices[place]]
                for s in range(S):
                    w[s] += x * row[s]


def row_parts(rows: ExampleRows, d: int, size: int = 4096) -> Iterator[tuple[slice, Matrix]]:
    """The rows as matrices of so many rows: products of float32 rows copy them to float64, and not all at once."""
    data, indices, indptr = rows
    n = indptr.shape[0] - 1 if indptr.shape[0] else data.shape[0]
    whole = sp.csr_matrix((data[0], indices, indptr), shape=(n, d), copy=False) if indptr.shape[0] else data
    for first in range(0, max(n, 1), max(size, 1)):  # a part of no rows where there are none
        part = slice(first, min(first + size, n))
        yield part, whole[part]


def all_scores(rows: ExampleRows, W: Floats) -> Floats:
    """`X W`, all examples."""
    return np.concatenate([X @ W for _, X in row_parts(rows, W.shape[0])])


def add_blocks(rows: ExampleRows, a: Floats, W: Floats) -> None:
    """`W += X' a`, all examples."""
    for part, X in row_parts(rows, W.shape[0]):
        W += X.T @ a[part]


def grams(rows: ExampleRows, start: Ints, d: int) -> Floats:
    """Products of the rows of every example with each other: its m^2 numbers, one example after the other."""
    if np.all(np.diff(start) == 1):
        return np.concatenate([row_norms(X, squared=True) for _, X in row_parts(rows, d)]).astype(np.float64)
    whole = next(row_parts(rows, d, int(start[-1])))[1]
    examples = (whole[first:last] for first, last in itertools.pairwise(start.tolist()))
    squares: Iterator[Matrix] = (X @ X.T for X in examples)
    return np.concatenate(
        [np.ravel(G if isinstance(G, np.ndarray) else G.toarray()) for G in squares], dtype=np.float64
    )
