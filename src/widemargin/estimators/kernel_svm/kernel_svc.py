"""Kernel support vector machines, a drop-in for `sklearn.svm.SVC`: `KernelSVC`."""

import inspect
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin._threads import limit_threads
from widemargin._typing import Column, Features, Floats, Index, Ints, Matrix
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._calibration import hold_out
from widemargin.estimators._options import CURES, Checked, budget_of, interrupted, parameters, worst
from widemargin.estimators.feature_scales import columns_of_distances, warn_of_steepness, warn_of_tiny_features
from widemargin.estimators.kernel_svm import multiclass
from widemargin.estimators.kernel_svm.binary_problems import (
    Solved,
    Split,
    Training,
    expand,
    kernel_rows,
    largest_problem,
    splits,
    train,
)
from widemargin.estimators.kernel_svm.kernel_model import (
    KernelModel,
    KernelOptions,
    beside,
    class_weights,
    name_the_kernel,
    warn_of_indefiniteness,
)
from widemargin.exceptions import CapabilityError, DataError, KernelWarning, MarginConvergenceWarning, warn
from widemargin.kernels.functions import refuse_indefinite, sampled_spectrum
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.automatic import BY_GAP, DEFAULT_TOL, NAMES, NEED_NORMS, Chosen
from widemargin.solvers.kernel_svm.batch_perceptron.run import SBPResult
from widemargin.solvers.kernel_svm.stopping import HoldOutOptions, choose_rows

_OF_SVC = inspect.signature(SVC).parameters.get("probability")
DEPRECATED = _OF_SVC is None or _OF_SVC.default == "deprecated"
"""Whether the installed scikit-learn has deprecated the parameter, or has none any more."""
FEW_NUMBERS = 100_000
"""Sparse rows of so few numbers, zeros included, are a dense array of less than a megabyte."""
HARD_MARGIN = 1e10
"""What an infinite C counts as: a row inside its margin then costs more than all others gain, in double precision."""


def _has_probabilities(estimator: "KernelSVC") -> bool:
    """Whether there is a predict_proba, and if not, why."""
    if estimator.probability is not True and estimator.calibration is None:
        raise AttributeError(
            'predict_proba is not available when probability=False: set calibration="sigmoid" or "isotonic" (one fit).'
        )
    return True


@parameters
class KernelSVC(KernelModel, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """C-support vector classification with kernels: `sklearn.svm.SVC` with faster solvers and a certificate.

    Minimises `1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (<w, phi(x_i)> + b))` for every pair of classes (or each class
    against the rest), `C_i` being C times the weights of the row and of its class. Parameters and attributes of SVC
    have the same meaning, shapes and signs; `docs/kernel-svm.md` lists what differs.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regulariser. Raising it fits the training rows more closely, and takes longer. Infinity
        counts as 1e10.
    kernel : {"linear", "poly", "rbf", "laplacian", "sigmoid", "precomputed"} or callable, default="rbf"
        A function gets two sets of rows and returns the matrix of all pairs; it is called on blocks of rows.
    degree : float, default=3
        Of "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width: "scale" is `1 / (n_features * X.var())`, the variance being weighted by `sample_weight`; "auto" is
        `1 / n_features`. Raising it makes the model more local.
    coef0 : float, default=0.0
        Of "poly" and "sigmoid".
    shrinking : bool, default=True
        Used by `solver="smo"` only; the other dual solvers set rows aside by themselves.
    tol : float or None, default=1e-3
        Largest violation of the optimality conditions, as in SVC. None holds out a tenth of the rows (`KernelOptions`),
        and stops when their error no longer improves. For the batch perceptrons and "pegasos" it is the largest
        relative gap; they prove a few percent at best, so for them the default means None.
    cache_size : float, default=200
        Megabytes of kernel values to keep. Raising it saves arithmetic until the kernel rows of all support vectors
        fit.
    class_weight : dict or "balanced", default=None
        Factors of C, as in SVC.
    verbose : int, default=0
        1 logs every step to the logger "widemargin".
    max_iter : int, default=-1
        Largest number of steps for each binary problem; -1: no limit, or that of the solver. A step is a working set of
        up to 2048 rows with the dual solvers, a pair of rows with "smo" (as in SVC), a batch with the batch
        perceptrons, and a pass with the others.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        With more than two classes: one column a class, or one a pair.
    break_ties : bool, default=False
        Whether `predict` breaks ties between classes by `decision_function` ("ovr"); else the first class wins.
    random_state : int, RandomState or None, default=None
        For rows that are held out and for solvers that draw.
    solver : str, default="auto"
        "auto" chooses by size, columns and kernel; `solver_` and `solver_reason_` say which and why. Or one by name:
        "dual", "nested-dual", "spatial-dual", "interior-point", "smo", "sbp", "sbp-unbiased", "sdca" or "pegasos"
        (`docs/kernel-svm.md`, "Which solver"). The last two are in widemargin-papers, to compare with, and need
        `KernelOptions(fit_intercept=False)`.
    calibration : {"sigmoid", "isotonic"}, default=None
        Hold out a fifth of the rows and fit probabilities on them, for `predict_proba`: one fit.
    probability : bool, default="deprecated"
        As in SVC, which has deprecated it: True fits sigmoids to the scores of five folds and the model to all rows,
        six fits in all, for `predict_proba`.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.
    solver_options : KernelOptions or dict, default=None
        Options that SVC does not have: one against the rest, no bias, precision and device of the arithmetic, rows held
        out, limits of time, callbacks and Ctrl-C. None: the defaults of `KernelOptions`.

    Attributes
    ----------
    support_ : ndarray of int32, shape (n_SV,)
        Numbers of the support vectors, ordered by class.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Of shape (0, 0) for a precomputed kernel.
    n_support_ : ndarray of int32, shape (n_classes,)
    dual_coef_ : ndarray or CSR matrix of shape (n_classes - 1, n_SV)
        Dual coefficients times targets, in the layout of SVC; CSR where X is. One against the rest: (n_classes, n_SV).
    intercept_ : ndarray of shape (n_classes * (n_classes - 1) / 2,) or, one against the rest, (n_classes,)
    coef_ : ndarray or CSR matrix of shape (n_problems, n_features)
        Only with `kernel="linear"`.
    classes_, class_weight_ : ndarrays of shape (n_classes,)
    gamma_ : float
        Kernel width that was used.
    shape_fit_ : tuple of int
        Shape of the training rows.
    n_iter_ : ndarray of int32, shape (n_problems,)
        Steps of the solver.
    fit_status_ : int
        0 where every problem converged, else 1 (with a warning).
    status_ : str
        "converged", "max_iter", "time_limit", "stopped" (by a callback) or "interrupted".
    solver_, solver_reason_ : str
        Which solver was used, and why.
    indefinite_ : bool
        Whether the kernel was found not to be positive semi-definite: by the eigenvalues on at most 256 rows, or by a
        negative squared norm.
    gap_ : float
        Certificate: the largest relative duality gap of the binary problems, `(primal - dual) / primal`. NaN where the
        kernel is not positive semi-definite, and where rows held out ended "nested-dual" before all rows were seen.
    violation_ : float
        The largest violation of the optimality conditions, what `tol` bounds; NaN where the solver does not know it.
    nu_ : ndarray of shape (n_problems,)
        Mean hinge loss of the training rows divided by `|w|`: the nu for which `SBPClassifier` has this solution. NaN
        unless the solver is a batch perceptron; `nu_from_C` of widemargin-papers computes it for any C.
    history_ : tuple of dict
        Of every step: "problem", "seconds", "evaluations" and what the solver knew.
    evaluations_ : int
        Kernel values computed by `fit`.
    sharpness_ : float
        With `calibration="sigmoid"` and more than two classes: the power of the probabilities that was fitted last.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    sklearn.svm.SVC : The same problem, solved by LIBSVM.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import KernelSVC
    >>> X = np.array([[-1, -1], [-2, -1], [1, 1], [2, 1]])
    >>> y = np.array([1, 1, 2, 2])
    >>> clf = KernelSVC(gamma="auto").fit(X, y)
    >>> clf.predict([[-0.8, -1]]).tolist()
    [1]
    """

    C: Annotated[float, Interval(Real, 0.0, None, closed="right")] = 1.0
    kernel: kinds.KernelName = "rbf"
    degree: kinds.NotNegative = 3
    gamma: kinds.Gamma = "scale"
    coef0: kinds.AnyNumber = 0.0
    shrinking: bool = True
    tol: kinds.Positive | None = DEFAULT_TOL
    cache_size: kinds.Positive = 200
    class_weight: kinds.ClassWeight = None
    verbose: kinds.Verbose = 0
    max_iter: Annotated[int, Interval(Integral, -1, None, closed="left")] = -1
    decision_function_shape: Literal["ovr", "ovo"] = "ovr"
    break_ties: bool = False
    random_state: kinds.Random = None
    solver: Annotated[str, StrOptions({"auto", *NAMES})] = "auto"
    calibration: kinds.Calibration = None
    probability: Annotated[bool | str, "boolean", StrOptions({"deprecated"})] = "deprecated"
    n_jobs: int | None = None
    solver_options: KernelOptions | Mapping[str, object] | None = None

    _options = Checked(KernelOptions)

    _stored_arrays: ClassVar[Mapping[str, str]] = {
        "class_weight_": "float k", "n_support_": "count k", "intercept_": "float q", "n_iter_": "count q",
        "nu_": "any-float q",
    }  # fmt: skip

    def _refuse_arrays(self) -> None:
        super()._refuse_arrays()
        if not hasattr(self, "dual_coef_"):
            return
        k, pairs = len(self.classes_), self._options.multi_class == "ovo"
        problems = 1 if k == 2 else k * (k - 1) // 2 if pairs else k
        rows = k - 1 if pairs or k == 2 else k
        if self.intercept_.shape[0] != problems or self.dual_coef_.shape[0] != rows:
            raise ValueError(
                f"{k} classes need {problems} intercepts and {rows} rows of dual_coef_, not "
                f"{self.intercept_.shape[0]} and {self.dual_coef_.shape[0]}"
            )
        if int(self.n_support_.sum()) != self.dual_coef_.shape[1]:
            raise ValueError(f"n_support_ counts {self.n_support_.sum()} of {self.dual_coef_.shape[1]} support vectors")

    @property
    def coef_(self) -> Matrix:
        """Weights of the columns, only with `kernel="linear"`; read-only, and CSR where X was."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        vectors = multiclass.centred(self.support_vectors_, self._options.fit_intercept)
        dense = multiclass.linear_weights(multiclass.dense(self.dual_coef_), vectors, self.n_support_)
        weights: Matrix = type(self.dual_coef_)(dense) if sp.issparse(self.dual_coef_) else dense
        stored: Any = weights.data if sp.issparse(weights) else weights
        stored.flags.writeable = False
        return weights

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: Column, sample_weight: Column | None = None) -> "KernelSVC":
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            float32 and float64 are used as they are. With a precomputed kernel the values of all pairs, shape (n, n).
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            Factors of C; a row of weight 2 counts as two rows, one of weight 0 or less is left out.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a class has no row of positive weight, its weight is not positive, or features are too large.
        KernelError
            If the kernel cannot be used, or the cache does not hold two rows.
        CapabilityError
            If parameters do not go together.
        """
        options = self._options
        budget = budget_of(options.time_budget, options.callbacks, self.verbose)
        if self.probability is True and self.calibration is not None:
            raise CapabilityError(
                f"probability=True and calibration={self.calibration!r} are two ways to the same; give one of them."
            )
        if self.probability != "deprecated" and DEPRECATED:
            warnings.warn(
                "the `probability` parameter is deprecated, as in scikit-learn; use calibration='sigmoid' (one fit), "
                "or CalibratedClassifierCV(KernelSVC(), ensemble=False).",
                FutureWarning,
                stacklevel=2,
            )
        if options.multi_class == "ovr" and self.decision_function_shape == "ovo":
            raise CapabilityError("multi_class='ovr' trains no pairs of classes; use decision_function_shape='ovr'.")
        if self.solver in ("spatial-dual", "interior-point") and options.backend != "numpy":
            raise CapabilityError(
                f"solver={self.solver!r} computes in its own way, without "
                f"backend={options.backend!r}; use backend='numpy', or solver='auto'."
            )
        # A pass over a precomputed kernel takes as long as many a fit; rows held out are no part of the later one.
        later = self.kernel == "precomputed" and self.calibration is None and self.probability is not True
        rows, labels, weight = self._checked_rows(X, y, sample_weight, negative_weights=True, finite=not later)
        codes = self._classified(labels, weight)
        self.class_weight_, self.shape_fit_ = class_weights(self.class_weight, self.classes_, labels), rows.shape
        rng = check_random_state(self.random_state)
        index = np.flatnonzero(weight > 0.0)
        self.calibrators_: list[Any] = []
        self.sharpness_ = 1.0
        held: list[Ints] = []
        scores: list[Floats] = []
        with limit_threads(self.n_jobs):
            for training, aside in self._calibration_folds(codes[index], rng):
                with warnings.catch_warnings():
                    if self.calibration is None:  # the fit of all rows, below, says it once
                        warnings.simplefilter("ignore", KernelWarning)
                    solved = self._train(rows, codes, weight, index[training], rng, budget)
                held.append(index[aside])
                scores += [block for _, block in self._score_blocks(rows[held[-1]])]
            if self.calibration is None:
                solved = self._train(rows, codes, weight, index, rng, budget)
            if held:  # probabilities are fitted to scores of models that did not see their rows
                method, parts, table = self.calibration or "sigmoid", self._splits(), np.concatenate(scores)
                judged = codes[np.concatenate(held)], weight[np.concatenate(held)]
                self.calibrators_ = multiclass.fit_calibrators(method, parts, table, *judged)
                if method == "sigmoid" and self.classes_.shape[0] > 2:
                    chances = multiclass.probabilities(self.calibrators_, parts, table)
                    self.sharpness_ = multiclass.sharpness(chances, *judged)
        self._conclude(solved, budget)
        return self

    def _calibration_folds(self, codes: Ints, rng: np.random.RandomState) -> list[tuple[Index, Index]]:
        """Rows to train on and rows to fit probabilities on: a fifth, or five folds in turn; none without either."""
        if self.calibration is not None:
            return [hold_out(codes, rng)]
        if self.probability is not True:
            return []
        n_folds = min(5, int(np.bincount(codes).min()))
        if n_folds < 2:  # no model could do without the only row of a class, so all rows score themselves
            everyone = np.arange(len(codes))
            warn("probabilities are fitted to training scores, because a class has 1 row: too sure.", KernelWarning)
            return [(everyone, everyone)]
        return list(StratifiedKFold(n_folds, shuffle=True, random_state=rng).split(codes, codes))

    def _train(
        self, X: Matrix, codes: Ints, weight: Floats, index: Ints, rng: np.random.RandomState, budget: Budget
    ) -> list[Solved]:
        """Train on the rows `index` and set the fitted attributes."""
        options = self._options
        whole = index.shape[0] == codes.shape[0]
        rows = X if whole else X[np.ix_(index, index)] if self.kernel == "precomputed" else X[index]
        codes, weight = codes[index], weight[index]
        # Few sparse rows are as quick as a dense array, and then give the same bits as one.
        plain: Matrix = rows
        if sp.issparse(rows) and rows.shape[0] * rows.shape[1] <= FEW_NUMBERS and not callable(self.kernel):
            plain = multiclass.dense(rows)
        kernel, C = self._resolved(plain, weight), HARD_MARGIN if np.inf == self.C else float(self.C)
        origin: Floats | None = None
        if kernel.name == "linear" and options.fit_intercept and isinstance(plain, np.ndarray):
            origin = multiclass.far_mean(plain)
            plain = plain if origin is None else plain - origin
        warn_of_steepness(self, kernel, rows)
        if kernel.name == "linear":
            warn_of_tiny_features(self, rows, C, weight)
        with np.errstate(over="ignore"):
            upper = C * self.class_weight_[codes] * weight
        tol = None if self.solver in BY_GAP and self.tol == DEFAULT_TOL else self.tol
        if upper.max() > 1e100:  # its square, times kernel values and rows, must be finite
            raise DataError(f"C times the weights is up to {upper.max():.3g}; lower it to 1e+100 at most.")
        if tol is None:
            draw = np.random.default_rng(rng.randint(np.iinfo("i").max))
            judged = 0 if self.solver in BY_GAP else HoldOutOptions().judged
            upper[choose_rows(codes, options.validation_fraction, draw, judged=judged)] = 0.0
        matrix = kernel_rows(
            kernel, plain, cache_size=self.cache_size, backend=options.backend, precision=options.precision, tol=tol,
            largest=float(np.linalg.norm(upper)),
            n_rows=largest_problem(np.bincount(codes), options.multi_class == "ovo"),
        )  # fmt: skip
        with name_the_kernel(self.kernel, "Or solver='dual', which goes on as LIBSVM does."):
            matrix.check_function()
            spectrum = sampled_spectrum(matrix)
            if self.solver in NEED_NORMS:
                refuse_indefinite(spectrum)
            indefinite = spectrum is not None
            training = Training(
                matrix, codes, upper, rows.shape[1],
                spatial=kernel.name == "rbf" and not sp.issparse(plain) and options.backend == "numpy",
                told_apart=partial(columns_of_distances, plain), positive=not indefinite, solver=self.solver, tol=tol,
                fit_intercept=options.fit_intercept, max_iter=self.max_iter, cache_size=self.cache_size,
                shrinking=self.shrinking, seed=rng.randint(np.iinfo("i").max),
            )  # fmt: skip
            solved = train(training, self._splits(), budget)
        results = [item.result for item in solved]
        self.indefinite_ = indefinite or any(result.indefinite for result in results)
        if self.indefinite_:
            warn_of_indefiniteness(self, spectrum)
        support, self.n_support_, dual_coef = expand(solved, codes, self.classes_.shape[0])
        self.support_ = index[support].astype(np.int32)
        self.support_vectors_ = np.empty((0, 0)) if self.kernel == "precomputed" else rows[support]
        self.intercept_ = np.array([result.intercept for result in results])
        self.dual_coef_ = type(rows)(dual_coef) if sp.issparse(rows) else dual_coef
        if origin is not None:
            self.intercept_ = self.intercept_ - multiclass.dense(self.coef_) @ origin
        self.gamma_, self.evaluations_ = kernel.gamma, int(matrix.evaluations)
        self._describe(solved, worst([result.status for result in results], budget))
        return solved

    def _describe(self, solved: Sequence[Solved], status: Status) -> None:
        """Set the attributes that say how training went, and what is certain about the solution."""
        results = [item.result for item in solved]
        self.n_iter_ = np.array([max(1, result.n_iter) for result in results], dtype=np.int32)
        self.status_ = str(status)
        self.fit_status_ = int(self.status_ != "converged")
        self.solver_ = ", ".join(dict.fromkeys(item.chosen.name for item in solved))
        self.solver_reason_ = "; ".join(dict.fromkeys(item.chosen.reason for item in solved))
        self.gap_ = float("nan") if self.indefinite_ else max(float(result.gap) for result in results)
        self.violation_ = max(float(result.violation) for result in results)
        self.nu_ = np.array([result.nu if isinstance(result, SBPResult) else np.nan for result in results])
        self.history_ = tuple(
            {"problem": number, **entry} for number, result in enumerate(results) for entry in result.history
        )

    def _conclude(self, solved: Sequence[Solved], budget: Budget) -> None:
        """Warn, or raise after an interrupt, according to how training ended."""
        if interrupted(self._options, budget):
            return
        if self.status_ == "converged":
            self._warn_of_bias(solved)
            return
        if self.max_iter >= 0:
            limit = f"max_iter={self.max_iter}: raise it, or scale the features"
        elif any("max_iter" in Chosen(name, "").options for name in self.solver_.split(", ")):
            own = f"the solver {self.solver_!r} has a limit of its own"
            limit = f"{own}: raise max_iter, or use tol=None or solver='auto'"
        else:
            limit = "rounding: use float64 rows, scale the features, or raise tol"
        cure, measures = CURES.get(self.status_, limit), {"violation": self.violation_, "gap": self.gap_}
        left = " and ".join(f"{name} {value:.1e}" for name, value in measures.items() if np.isfinite(value))
        warn(f"stopped after {budget.elapsed:.1f} s{left and f' with {left}'} ({cure}).", MarginConvergenceWarning)

    def _warn_of_bias(self, solved: Sequence[Solved], *, biased_gap: float = 0.5, any_gap: float = 0.9) -> None:
        """Warn where rows held out ended a batch perceptron far from what its bound proves.

        The largest gaps that are not told are those where its draws are biased, and in any case.
        """
        for item in solved:
            result = item.result
            if not isinstance(result, SBPResult) or math.isnan(result.held_out_error):
                continue
            covered = math.ceil(result.covered * (2 if self._options.fit_intercept else 1))
            small = item.capacity < covered
            biased = item.chosen.name == "sbp" and small
            if result.gap > (biased_gap if biased else any_gap):
                why = f"; the cache holds {item.capacity} of about {covered} covered rows" if small else ""
                bias = ", so the draws are biased" if biased else ""
                other = ", or use solver='sbp-unbiased'" if biased else ", or use solver='auto'"
                warn(
                    f"rows held out ended the run with a gap of {result.gap:.0%}{why}{bias}: the objective may be far "
                    f"from its optimum. Raise cache_size{other}, or give a tol.",
                    MarginConvergenceWarning,
                )
                return

    def _splits(self) -> tuple[Split, ...]:
        return splits(self.classes_.shape[0], self._options.multi_class)

    def _score_blocks(self, X: Matrix) -> Iterator[tuple[slice, Floats]]:
        """Scores of checked rows by all binary problems, a block of rows at a time."""
        pairs = self.classes_.shape[0] > 2 and self._options.multi_class == "ovo"
        return multiclass.score_blocks(self, X, pairs=pairs, backend=self._options.backend)

    def decision_function(self, X: Features) -> Floats:
        """Scores of new rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (p, d)
            With a precomputed kernel the values with all training rows, shape (p, n).

        Returns
        -------
        ndarray of shape (p,), or with k > 2 classes (p, k) or (p, k (k - 1) / 2)
            Two classes: positive means `classes_[1]`. `decision_function_shape="ovo"`: the pairs (0, 1), (0, 2), ...;
            positive means the first of them.
        """
        scores: Floats = beside(X, self._scores(self._checked_new(X)))
        return scores

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Predicted labels, shape (p,)."""
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        rows, k = self._checked_new(X), self.classes_.shape[0]
        if k == 2:
            chosen = (self._scores(rows) >= 0.0).astype(np.intp)
        elif self.break_ties or self._options.multi_class == "ovr":
            chosen = np.argmax(self._scores(rows), axis=1)
        else:
            chosen = np.empty(rows.shape[0], dtype=np.intp)
            for block, scores in self._score_blocks(rows):
                chosen[block] = multiclass.votes(scores, k)
        labels: npt.NDArray[Any] = beside(X, self.classes_[chosen])
        return labels

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Features) -> Floats:
        """Calibrated class probabilities, shape (p, k); only with `calibration="sigmoid"` or `"isotonic"`.

        Every binary problem is calibrated. The probabilities of pairs of classes are coupled as in LIBSVM; those of
        classes against the rest are scaled to sum 1. With "sigmoid" and more than two classes they are then raised to
        the power `sharpness_` and scaled again. `predict` goes by the scores, so its class need not be the most
        probable one.
        """
        rows, parts = self._checked_new(X), self._splits()
        if not self.calibrators_:
            raise NotFittedError("predict_proba is not available when fitted with probability=False; fit again.")
        blocks = [multiclass.probabilities(self.calibrators_, parts, scores) for _, scores in self._score_blocks(rows)]
        table = np.concatenate(blocks)
        return table if self.sharpness_ == 1.0 else multiclass.sharpened(table, self.sharpness_)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Features) -> Floats:
        """Logarithms of `predict_proba`, shape (p, k)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def _scores(self, X: Matrix) -> Floats:
        """Scores of checked rows, in the shape of `decision_function`."""
        k = self.classes_.shape[0]
        votes = k > 2 and self._options.multi_class == "ovo" and self.decision_function_shape == "ovr"
        out = np.empty((X.shape[0], k if votes else self.intercept_.shape[0]))
        for rows, scores in self._score_blocks(X):
            out[rows] = multiclass.one_vs_rest(scores, k) if votes else scores
        return out[:, 0] if k == 2 else out
