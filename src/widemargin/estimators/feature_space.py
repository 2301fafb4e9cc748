"""What a linear model is linear in: the columns of X, features that approximate a kernel, or a kernel itself.

Rate-constrained, margin and structural estimators share these spaces. A space says how checked rows become what the
solvers work on, and turns the weights that they find into fitted attributes. Scores of new rows need the fitted
attributes alone (`model_scores`).

Random Fourier features (Rahimi and Recht 2007) approximate a Gaussian kernel to about `1 / sqrt(n_components)` in every
entry, whatever the data. Nystroem's features (Williams and Seeger 2001) are exact on the landmarks drawn from the
training rows, and elsewhere as good as the kernel matrix is of low rank: usually closer at the same number of features,
for any positive semi-definite kernel, but the landmarks, rows of the training data, become part of the model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.utils import check_random_state

from widemargin._typing import Floats, Ints, Matrix, Seed
from widemargin.exceptions import CapabilityError
from widemargin.kernels.functions import Kernel, check_precomputed, resolve_kernel, settled_kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows
from widemargin.linalg.cholesky import KernelFeatures, kernel_features
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.rows import stacked

__all__ = [
    "ColumnSpace", "FactorSpace", "FeatureMap", "GramSpace", "MappedSpace", "SpaceParameters", "make_feature_map",
    "make_space", "model_scores", "n_features_of_model", "refuse_space", "stacked",
]  # fmt: skip


_OF_SPACES = ("coef_", "dual_coef_", "feature_map_", "gamma_", "support_", "support_vectors_")


class FeatureMap(Protocol):
    """A transformer of scikit-learn whose features have inner products near the kernel's values."""

    n_components: int

    def fit(self, X: Matrix) -> object:
        """Draw or choose what the features are made of."""
        ...

    def transform(self, X: Matrix) -> Floats:
        """Features of rows."""
        ...


@dataclass(frozen=True)
class SpaceParameters:
    """Parameters of an estimator that decide its space; see `RateConstrainedClassifier` and `TrainingOptions`."""

    kernel: str | Callable[..., Any] | None
    gamma: str | float
    degree: float
    coef0: float
    cache_size: float = 0.0  # only exact kernels have one
    feature_map: str | None = None
    n_components: int = 0

    @classmethod
    def of(cls, *holders: object) -> "SpaceParameters":
        """Of an estimator, or of an estimator and its options."""
        names = cls.__dataclass_fields__
        return cls(**{name: getattr(holder, name) for holder in holders for name in names if hasattr(holder, name)})


@dataclass
class ColumnSpace:
    """The columns of X."""

    def part(self, X: Matrix, rows: Ints) -> Matrix:
        """Some of the rows."""
        return X if rows.shape[0] == X.shape[0] else X[rows]

    def features(self, matrices: Sequence[Matrix]) -> Sequence[Matrix]:
        """Rows as the solvers take them; the first matrix holds the training rows."""
        return matrices

    def explicit(self, matrices: Sequence[Matrix]) -> Sequence[Matrix] | None:
        """Features in which the fitted model is linear, or nearly so; None where the space knows none."""
        return matrices

    def attributes(self, w: Floats) -> dict[str, object]:
        """Fitted attributes for weights of the features, shape (n_problems, n_features)."""
        return {"coef_": w}

    def adopt(self, model: object, w: Floats) -> None:
        """Set the fitted attributes, and remove what an earlier fit in another space has set."""
        for name in _OF_SPACES:
            vars(model).pop(name, None)
        vars(model).update(self.attributes(w))


@dataclass
class MappedSpace(ColumnSpace):
    """Explicit features that approximate a kernel.

    Attributes
    ----------
    feature_map : FeatureMap
    used : ndarray of int or None
        Rows that it may be fitted on; None: all.
    fitted : bool
        Whether it is kept as it was fitted before.
    """

    feature_map: FeatureMap
    used: Ints | None = None
    fitted: bool = False

    def features(self, matrices: Sequence[Matrix]) -> Sequence[Matrix]:
        """Mapped rows, dense."""
        if not self.fitted:
            first = matrices[0]
            self.feature_map.fit(first if self.used is None else first[self.used])
        return [np.ascontiguousarray(self.feature_map.transform(X)) for X in matrices]

    def explicit(self, matrices: Sequence[Matrix]) -> Sequence[Matrix] | None:
        """Mapped rows, by the map as it is; None where they would take more than 160 MB."""
        if sum(X.shape[0] for X in matrices) * self.feature_map.n_components > 2e7:
            return None
        return [self.feature_map.transform(X) for X in matrices]

    def attributes(self, w: Floats) -> dict[str, object]:
        """Fitted attributes; `coef_` has one number for each feature of the map."""
        return {"coef_": w, "feature_map_": self.feature_map}


@dataclass
class _KernelSpace(ColumnSpace):
    """A kernel, exactly: the model is a combination of kernel functions of training rows."""

    kernel: Kernel
    cache_size: float

    def part(self, X: Matrix, rows: Ints) -> Matrix:
        """Some of the rows; of a precomputed kernel the values of their pairs."""
        some = super().part(X, rows)
        return some[:, rows] if self.kernel.name == "precomputed" and some is not X else some

    def explicit(self, matrices: Sequence[Matrix]) -> Sequence[Matrix] | None:
        """Features that approximate the kernel, of as many of the rows as are soon mapped."""
        if self.kernel.name in ("callable", "precomputed"):
            return None
        near = make_feature_map("nystroem", self.kernel, 500, seed=0, n_rows=matrices[0].shape[0])
        return MappedSpace(near).features(matrices)

    def _refuse_size(self, n: int, megabytes: float, more: str = "") -> None:
        raise CapabilityError(
            f"the kernel matrix of {n} rows takes {megabytes:.0f} MB and cache_size is {self.cache_size:g} MB. Use "
            f"a feature_map ('nystroem' or 'fourier'), whose cost is linear in the rows; or raise cache_size{more}."
        )

    def _combination(self, support: Ints, vectors: Matrix | None, dual_coef: Floats) -> dict[str, object]:
        """Attributes of `f(x) = sum_j dual_coef_j K(x_j, x)`; a precomputed kernel has no vectors."""
        return {
            "support_": support,
            "support_vectors_": np.empty((0, 0)) if vectors is None else vectors,
            "dual_coef_": np.ascontiguousarray(dual_coef),
            "gamma_": self.kernel.gamma,
        }


@dataclass
class FactorSpace(_KernelSpace):
    """A kernel, exactly, by a factor of its matrix: for solvers that know nothing but features."""

    _X: Matrix | None = None
    _factor: KernelFeatures | None = None

    def features(self, matrices: Sequence[Matrix]) -> Sequence[Matrix]:
        """Features with the kernel's inner products.

        Raises
        ------
        CapabilityError
            If the kernel matrix does not fit `cache_size`.
        KernelError
            If the kernel is not positive semi-definite.
        """
        (X,) = matrices
        n, megabytes = X.shape[0], 8.0 * X.shape[0] ** 2 / MEGABYTE
        if megabytes > self.cache_size:
            self._refuse_size(n, megabytes)
        whole = KernelRows(self.kernel, X, cache_size=max(self.cache_size, 1.0), dtype=np.float64)
        self._X, self._factor = X, kernel_features(whole.full().astype(np.float64, copy=False))
        return [self._factor.features]

    def attributes(self, w: Floats) -> dict[str, object]:
        """Fitted attributes: coefficients of the rows on which the factor is triangular."""
        assert self._factor is not None and self._X is not None
        order = np.argsort(self._factor.pivots)
        support = self._factor.pivots[order]
        vectors = None if self.kernel.name == "precomputed" else self._X[support]
        return self._combination(support, vectors, self._factor.coefficients(w.T).T[:, order])


@dataclass
class GramSpace(_KernelSpace):
    """A kernel, exactly, by its matrix: for solvers of rate-constrained problems, whose weights belong to rows."""

    _blocks: RowBlocks | None = field(default=None, repr=False)

    def features(self, matrices: Sequence[Matrix]) -> Sequence[Matrix]:
        """Rows as they are; a precomputed kernel as a dense matrix."""
        return [check_precomputed(matrices[0])] if self.kernel.name == "precomputed" else matrices

    def gram(self, blocks: RowBlocks, solver: str) -> GramRows:
        """The kernel matrix of a problem's rows: whole where it fits `cache_size`, else through the row cache.

        Raises
        ------
        CapabilityError
            If the matrix does not fit, and the solver is not "cutting-plane".
        """
        self._blocks = blocks
        n, megabytes = blocks.n_rows, 8.0 * blocks.n_rows**2 / MEGABYTE
        whole = megabytes <= self.cache_size
        if not (whole or solver == "cutting-plane"):
            self._refuse_size(
                n, megabytes, "; or solver='cutting-plane', which computes rows again that do not fit (slow)"
            )
        X = _rows_of(blocks, np.arange(n))
        if self.kernel.name == "precomputed":
            X = X[:, blocks.blocks[0].row_of]
        rows = KernelRows(self.kernel, X, cache_size=self.cache_size, dtype=np.float64)
        return GramRows(rows.full()) if whole else GramRows(rows)

    def attributes(self, w: Floats) -> dict[str, object]:
        """Fitted attributes; rows of weight 0 are left out."""
        assert self._blocks is not None
        blocks, chosen = self._blocks, np.flatnonzero(w[0])
        # rows of the problem are distinct ones of each matrix; support_ numbers the rows of all matrices
        starts = np.cumsum([0, *(block.X.shape[0] for block in blocks.blocks[:-1])])
        numbers = np.concatenate([block.row_of + start for block, start in zip(blocks.blocks, starts, strict=True)])
        order = np.argsort(numbers[chosen])  # the problem may have sorted its rows
        vectors = None if self.kernel.name == "precomputed" else _rows_of(blocks, chosen)[order]
        chosen = chosen[order]
        return self._combination(numbers[chosen], vectors, w[:, chosen])


def make_space(
    wanted: SpaceParameters,
    X: Matrix,
    sample_weight: Floats | None,
    *,
    random_state: Seed,
    by_factor: bool = False,
    known_map: FeatureMap | None = None,
) -> ColumnSpace:
    """The space that an estimator's parameters ask for, settled on its training rows X.

    Parameters
    ----------
    random_state : int, RandomState or None
        What a feature map draws from.
    by_factor : bool, default=False
        Whether an exact kernel is needed as features.
    known_map : feature map of an earlier fit, optional
        Kept where it is what the parameters ask for.

    Raises
    ------
    CapabilityError
        If the parameters do not go together.
    KernelError
        If the kernel cannot be used.
    """
    if wanted.kernel is None:
        if wanted.feature_map is not None:
            raise CapabilityError(f"feature_map={wanted.feature_map!r} needs a kernel to approximate: kernel='rbf'.")
        return ColumnSpace()
    kernel = resolve_kernel(
        wanted.kernel, X, sample_weight=sample_weight, gamma=wanted.gamma, degree=wanted.degree, coef0=wanted.coef0
    )
    if wanted.feature_map is None:
        return (FactorSpace if by_factor else GramSpace)(kernel, float(wanted.cache_size))
    # landmarks of a margin estimator are rows of positive weight: a row without weight is as good as absent
    used = np.flatnonzero(sample_weight > 0.0) if by_factor and sample_weight is not None else None
    n = X.shape[0] if used is None else used.shape[0]
    if known_map is not None:
        assert isinstance(known_map, RBFSampler | Nystroem)
        kind = ("fourier", "rbf") if isinstance(known_map, RBFSampler) else ("nystroem", known_map.kernel)
        # A gamma found from the data of the earlier fit is kept.
        if (
            (wanted.feature_map, wanted.kernel) == kind
            and known_map.n_features_in_ == X.shape[1]
            and min(wanted.n_components, n) <= known_map.n_components <= wanted.n_components
            and (isinstance(wanted.gamma, str) or wanted.kernel == "linear" or wanted.gamma == known_map.gamma)
            and (wanted.kernel != "poly" or wanted.degree == known_map.degree)
            and (wanted.kernel not in ("poly", "sigmoid") or wanted.coef0 == known_map.coef0)
        ):
            return MappedSpace(known_map, fitted=True)
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    feature_map = make_feature_map(wanted.feature_map, kernel, wanted.n_components, seed=seed, n_rows=n)
    return MappedSpace(feature_map, used if n < X.shape[0] else None)


def model_scores(model: Any, X: Matrix, wanted: SpaceParameters | None = None) -> Floats:
    """Scores of checked rows by a fitted model, shape (n, n_problems), in double precision and bounded memory.

    Parameters
    ----------
    model : object
        With the attributes of its space and `intercept_`: an estimator, say.
    wanted : SpaceParameters, optional
        Where kernel, degree and coef0 stand; None: at the model itself.
    """
    fitted, n = vars(model), X.shape[0]
    if "dual_coef_" in fitted:
        settled: Any = wanted or model
        coefficients = np.ascontiguousarray(model.dual_coef_.T)
        if not coefficients.shape[0]:
            scores = np.zeros((n, coefficients.shape[1]))
        elif settled.kernel == "precomputed":
            scores = np.asarray(X[:, model.support_] @ coefficients, dtype=np.float64)
        else:
            kernel = settled_kernel(settled.kernel, gamma=model.gamma_, degree=settled.degree, coef0=settled.coef0)
            scores = KernelRows(kernel, model.support_vectors_, dtype=np.float64).products(X, coefficients)
    else:
        # 4096 rows are mapped at a time: their features take 10 MB with 300 components
        is_mapped, scores = "feature_map_" in fitted, np.empty((n, model.coef_.shape[0]))
        step = 4096 if is_mapped else max(1, n)
        for low in range(0, n, step):
            part = np.ascontiguousarray(model.feature_map_.transform(X[low : low + step])) if is_mapped else X
            rows = RowBlocks([(part, None)])  # `X @ w` would copy the whole of a float32 X
            for k, w in enumerate(model.coef_):
                scores[low : low + step, k] = rows.dot(w)
    scores += model.intercept_
    return scores


def refuse_space(model: Any) -> None:
    """Refuse arrays of a fitted model that do not fit its space: for files (`_refuse_arrays`).

    Raises
    ------
    ValueError
    """
    held = vars(model)
    if not held.keys() & {"coef_", "dual_coef_"}:  # not fitted
        return
    d = model.n_features_in_
    if "dual_coef_" in held:
        precomputed = model.kernel == "precomputed"
        wanted = (0, 0) if precomputed else (held["dual_coef_"].shape[1], d)
        if held["support_vectors_"].shape != wanted:
            raise ValueError(f"support_vectors_ has the shape {held['support_vectors_'].shape}, not {wanted}")
        if precomputed and "support_" in held and held["support_"].max(initial=-1) >= d:
            raise ValueError(f"support_ names row {held['support_'].max()} of {d}")
    else:
        width = n_features_of_model(model)
        if held["coef_"].shape[1] != width:
            raise ValueError(f"coef_ has {held['coef_'].shape[1]} columns, the model {width} features")


def n_features_of_model(model: Any) -> int:
    """How many features the weights of a fitted model belong to: those of its map, or the columns of X."""
    known = vars(vars(model).get("feature_map_", model))
    return len(known.get("random_offset_", known.get("normalization_", range(model.n_features_in_))))


def _rows_of(blocks: RowBlocks, chosen: Ints) -> Matrix:
    """Some rows of a problem (increasing positions) as one matrix of their own."""
    return stacked([block.X[block.row_of] for block in blocks.take(chosen).blocks])


def make_feature_map(name: str, kernel: Kernel, n_components: int, *, seed: int, n_rows: int) -> Any:
    """A transformer, not fitted yet.

    Parameters
    ----------
    name : {"fourier", "nystroem"}
    kernel : Kernel
        "fourier" needs "rbf"; "nystroem" a named kernel that is not "precomputed".
    n_components : int
        Features. Doubling them halves the variance of "fourier", doubles memory and makes solvers four times slower.
    seed : int
    n_rows : int
        Training rows; Nystroem takes at most as many landmarks.

    Raises
    ------
    CapabilityError
        If the map cannot do this kernel.
    """
    if name == "fourier":
        if kernel.name != "rbf":
            raise CapabilityError(f"feature_map='fourier' is for kernel='rbf', not {kernel.name!r}; use 'nystroem'.")
        return RBFSampler(gamma=kernel.gamma, n_components=n_components, random_state=seed)
    if name != "nystroem":
        raise CapabilityError(f"feature_map={name!r} is unknown; use 'fourier' or 'nystroem'.")
    if kernel.name in ("callable", "precomputed"):
        raise CapabilityError(
            f"feature_map='nystroem' needs a named kernel, not a {kernel.name} one; train it exactly: feature_map=None."
        )
    # scikit-learn refuses parameters that a kernel does not have.
    settings = {
        "linear": {},
        "poly": {"gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0},
        "sigmoid": {"gamma": kernel.gamma, "coef0": kernel.coef0},
    }.get(kernel.name, {"gamma": kernel.gamma})
    return Nystroem(kernel.name, n_components=min(n_components, n_rows), random_state=seed, **settings)
