"""What a rate-constrained model is linear in: the columns of X, features that approximate a kernel, or a kernel itself.

A space says how checked rows become what the solvers work on, and turns the solution into fitted attributes. Scores of
new rows need the fitted attributes only (`model_scores`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from widemargin._typing import Floats, Ints
from widemargin.exceptions import CapabilityError
from widemargin.kernels.feature_maps import make_feature_map
from widemargin.kernels.functions import Kernel, check_precomputed, resolve_kernel, settled_kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.problems.rate_constrained import RateConstrainedProblem
from widemargin.solvers.convex.convex_step import ConvexStep, KernelStep
from widemargin.solvers.ramp.majorization import ConvexSolver

__all__ = ["CoefficientsOfLinearModels", "KernelSpace", "LinearSpace", "MappedSpace", "make_space", "model_scores"]

_MAPPED = 4096  # rows mapped at a time in prediction

_OF_SPACES = ("coef_", "dual_coef_", "feature_map_", "gamma_", "intercept_", "support_", "support_vectors_")


class CoefficientsOfLinearModels:
    """Class attribute `coef_`: found only where `fit` has set none on the instance."""

    def __get__(self, model: Any, owner: type) -> Any:
        if model is not None and "dual_coef_" in vars(model):
            raise AttributeError(
                "a kernel model has no coef_: it is a combination of support_vectors_ with the weights dual_coef_. "
                "For coefficients use kernel=None, or a feature_map."
            )
        raise AttributeError("coef_ is set by fit.")


@dataclass
class LinearSpace:
    """The columns of X."""

    used: Sequence[str] = ()

    def features(self, matrices: Sequence[Any]) -> Sequence[Any]:
        """Rows as the problem takes them."""
        return matrices

    def lift(self, problem: RateConstrainedProblem, solver: str) -> tuple[RateConstrainedProblem, ConvexSolver]:
        """The problem to solve, and its convex solver; the names of the solvers appear in `used`."""
        step = ConvexStep(solver, problem.n_features)
        self.used = step.used
        return problem, step

    def adopt(self, model: Any, w: Floats, b: float, sign: float) -> None:
        """Set the fitted attributes of a model `f(x) = <w, x> - b`; `sign` is -1 where `f > 0` means `classes_[0]`."""
        _forget(model)
        model.coef_ = sign * w[None, :]
        model.intercept_ = np.array([-sign * b])


@dataclass
class MappedSpace(LinearSpace):
    """Explicit features that approximate a kernel."""

    feature_map: Any = None

    def features(self, matrices: Sequence[Any]) -> Sequence[Any]:
        """Mapped rows, dense; the map is fitted on the first matrix."""
        first = self.feature_map.fit_transform(matrices[0])
        rest = [self.feature_map.transform(X) for X in matrices[1:]]
        return [np.ascontiguousarray(part) for part in (first, *rest)]

    def adopt(self, model: Any, w: Floats, b: float, sign: float) -> None:
        """Set the fitted attributes; `coef_` has one number for each feature of the map."""
        super().adopt(model, w, b, sign)
        model.feature_map_ = self.feature_map


@dataclass
class KernelSpace(LinearSpace):
    """A kernel, exactly: w is a combination of the rows."""

    kernel: Kernel | None = None
    cache_size: float = 0.0
    blocks: RowBlocks | None = None

    def features(self, matrices: Sequence[Any]) -> Sequence[Any]:
        """Rows as they are; a precomputed kernel as a dense matrix."""
        assert self.kernel is not None
        return [check_precomputed(matrices[0])] if self.kernel.name == "precomputed" else matrices

    def lift(self, problem: RateConstrainedProblem, solver: str) -> tuple[RateConstrainedProblem, ConvexSolver]:
        """The problem on kernel rows: on the whole matrix where it fits `cache_size`, else through the row cache.

        Raises
        ------
        CapabilityError
            If the matrix does not fit, and the solver is not "cutting-plane".
        """
        assert self.kernel is not None and isinstance(problem.rows, RowBlocks)
        self.blocks = problem.rows
        n, megabytes = problem.rows.n_rows, 8.0 * problem.rows.n_rows**2 / MEGABYTE
        whole = megabytes <= self.cache_size
        if not (whole or solver == "cutting-plane"):
            raise CapabilityError(
                f"the kernel matrix of {n} rows takes {megabytes:.0f} MB and cache_size is {self.cache_size:g} MB. "
                "Use a feature_map ('nystroem' or 'fourier'), whose cost is linear in the rows; or raise cache_size; "
                "or solver='cutting-plane', which computes rows again that do not fit (slow)."
            )
        rows = self._gram(problem.rows, whole)
        step = KernelStep(solver, rows)
        self.used = step.used
        return replace(problem, rows=rows), step

    def adopt(self, model: Any, w: Floats, b: float, sign: float) -> None:
        """Set the fitted attributes of a model `f(x) = sum_i w_i K(x_i, x) - b`."""
        assert self.kernel is not None and self.blocks is not None
        _forget(model)
        chosen = np.flatnonzero(w)
        model.support_ = _row_numbers(self.blocks)[chosen]
        precomputed = self.kernel.name == "precomputed"
        model.support_vectors_ = np.empty((0, 0)) if precomputed else _stacked(self.blocks, chosen)
        model.dual_coef_ = sign * w[None, chosen]
        model.intercept_ = np.array([-sign * b])
        model.gamma_ = self.kernel.gamma

    def _gram(self, blocks: RowBlocks, whole: bool) -> GramRows:
        assert self.kernel is not None
        stacked = _stacked(blocks, np.arange(blocks.n_rows))
        if self.kernel.name == "precomputed":
            stacked = stacked[:, blocks.blocks[0].row_of]
        rows = KernelRows(self.kernel, stacked, cache_size=self.cache_size, dtype=np.float64)
        return GramRows(rows.full()) if whole else GramRows(rows)


def make_space(model: Any, X: Any, sample_weight: Floats | None, *, n_sources: int) -> LinearSpace:
    """The space that an estimator's parameters ask for, settled on its training rows X.

    Raises
    ------
    CapabilityError
        If the parameters do not go together.
    KernelError
        If the kernel cannot be used.
    """
    if model.kernel is None:
        if model.feature_map is not None:
            raise CapabilityError(f"feature_map={model.feature_map!r} needs a kernel to approximate: kernel='rbf'.")
        return LinearSpace()
    options = model._options
    parameters = {"gamma": model.gamma, "degree": options.degree, "coef0": options.coef0}
    kernel = resolve_kernel(model.kernel, X, sample_weight=sample_weight, **parameters)
    if kernel.name == "precomputed" and (n_sources > 1 or model.calibration is not None):
        what = "external data" if n_sources > 1 else "calibration"
        raise CapabilityError(
            f"kernel='precomputed' cannot be used with {what}: it needs kernel values with rows that the matrix "
            "does not hold. Give the kernel by name or as a function."
        )
    if model.feature_map is None:
        return KernelSpace(kernel=kernel, cache_size=float(options.cache_size))
    seed = int(check_random_state(model.random_state).randint(np.iinfo(np.int32).max))
    made = make_feature_map(model.feature_map, kernel, options.n_components, seed=seed, n_rows=X.shape[0])
    return MappedSpace(feature_map=made)


def model_scores(model: Any, X: Any) -> Floats:
    """Signed scores of checked rows by a fitted model, shape (n,), in double precision and bounded memory."""
    fitted, intercept = vars(model), float(model.intercept_[0])
    if "dual_coef_" in fitted:
        return _kernel_scores(model, X) + intercept
    if "feature_map_" not in fitted:
        # by RowBlocks, because `X @ w` would copy the whole of a float32 X
        return RowBlocks([(X, None)]).dot(model.coef_[0]) + intercept
    scores = np.empty(X.shape[0])
    for low in range(0, X.shape[0], _MAPPED):
        mapped = np.ascontiguousarray(model.feature_map_.transform(X[low : low + _MAPPED]))
        scores[low : low + _MAPPED] = RowBlocks([(mapped, None)]).dot(model.coef_[0])
    return scores + intercept


def _kernel_scores(model: Any, X: Any) -> Floats:
    coefficients = model.dual_coef_[0]
    if not coefficients.shape[0]:
        return np.zeros(X.shape[0])
    if model.kernel == "precomputed":
        return np.asarray(X[:, model.support_] @ coefficients, dtype=np.float64)
    kernel = settled_kernel(model.kernel, gamma=model.gamma_, degree=model._options.degree, coef0=model._options.coef0)
    return KernelRows(kernel, model.support_vectors_, dtype=np.float64).products(X, coefficients)


def _row_numbers(blocks: RowBlocks) -> Ints:
    """Number of each row of the problem, counted through all matrices."""
    starts = np.cumsum([0, *(block.X.shape[0] for block in blocks.blocks[:-1])])
    return np.concatenate([block.row_of + start for block, start in zip(blocks.blocks, starts, strict=True)])


def _stacked(blocks: RowBlocks, chosen: Ints) -> Any:
    """Some rows of the problem (increasing numbers) as one matrix of their own."""
    parts = []
    for block in blocks.blocks:
        mine = chosen[(chosen >= block.place.start) & (chosen < block.place.stop)] - block.place.start
        parts.append(block.X[block.row_of[mine]])
    if any(sp.issparse(part) for part in parts):
        return sp.csr_matrix(sp.vstack(parts, format="csr"))
    return np.concatenate(parts)


def _forget(model: Any) -> None:
    """Remove what an earlier fit in another space has set."""
    for name in _OF_SPACES:
        vars(model).pop(name, None)
