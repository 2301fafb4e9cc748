"""Convex subproblems on kernel rows, each with a twin on explicit features that has the same solution."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from testing.exact import stacked_rows
from testing.problems import binding_bounds, random_subproblem

from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.problems.rate_constrained import ConvexSubproblem

__all__ = ["KernelPair", "kernel_pair"]


class KernelPair(NamedTuple):
    """A subproblem on kernel rows, its kernel matrix and rows, and the twin on features F with `F F' = K`."""

    sub: ConvexSubproblem
    K: np.ndarray
    X: np.ndarray
    twin: ConvexSubproblem


def kernel_pair(kernel: Kernel, seed: int, n: int = 60, d: int = 4, m: int = 2, **options: Any) -> KernelPair:
    """A random subproblem (`random_subproblem`) with its rows seen through a kernel."""
    flat = random_subproblem(seed, n, d, m, **options)
    X = stacked_rows(flat).toarray()
    K = KernelRows(kernel, X, dtype=np.float64).full()
    values, vectors = np.linalg.eigh(K)
    features = np.ascontiguousarray(vectors * np.sqrt(np.maximum(values, 0.0)))
    twin = replace(flat, rows=RowBlocks([(features, None)]))
    if m and options.get("feasible", True):  # bounds that bind in this space
        twin = replace(twin, gamma=binding_bounds(twin, np.random.default_rng(seed + 1)))
    return KernelPair(replace(twin, rows=GramRows(K)), K, X, twin)
