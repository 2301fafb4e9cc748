"""What all structural SVMs share: their parameters of training, one way to train, and margins."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot

from widemargin._papers import papers_module
from widemargin._threads import limit_threads
from widemargin._typing import ArrayLike, Bools, Floats, Matrix
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import CURES, Checked, SolverOptions, budget_of, interrupted, parameters
from widemargin.estimators.feature_scales import warn_of_scales
from widemargin.estimators.feature_space import (
    MappedSpace,
    SpaceParameters,
    make_space,
    model_scores,
    n_features_of_model,
)
from widemargin.exceptions import CapabilityError, DataError, MarginConvergenceWarning, OracleWarning, warn
from widemargin.solvers.base import Budget, Status
from widemargin.structured.learners import block_frank_wolfe
from widemargin.structured.learners.problem import Blocks, StructuredProblem
from widemargin.structured.learners.result import LearnerResult
from widemargin.structured.model import Examples, StructuredModel, Weights
from widemargin.structured.models.base import StructureModel
from widemargin.structured.models.multilabel import ORACLES
from widemargin.structured.oracle import LEVELS, Search
from widemargin.structured.search.automatic import IN_PAPERS, SEARCHES

_IN_PAPERS = {
    "sgd": ("structured_sgd", "solve"),
    "cutting-plane": ("structured_cutting_planes", "slack_per_example"),
    "one-slack": ("structured_cutting_planes", "one_slack"),
}
"""Learners to compare with: where they are below `widemargin_papers.solvers`."""


@dataclass(frozen=True, repr=False)
class StructuralOptions(SolverOptions):
    """How structural SVMs train, where the defaults do not suit.

    Given as `solver_options=StructuralOptions(search_ratio=0.999)`, or as a dict,
    `solver_options={"search_ratio": 0.999}`.

    Parameters
    ----------
    average : bool, default=True
        For "bcfw" and "sgd": evaluate the averaged iterate too, and keep the better one. The averaged one is nearly
        always better at first, and costs a pass at every certificate.
    check_every : int, default=None
        Passes between certificates of "bcfw" and "sgd", which cost one or two passes each. None: rarely.
    oracle_batch : int, default=None
        For "bcfw" with a slow oracle of your own: ask for the labels of so many examples at the same weights, in
        parallel, on the workers of the active Dask client, else in `n_jobs` threads. A larger batch needs more passes;
        the model depends on it, not on the workers.
    search_tol : float, default=1e-9
        Relative error of a search; at least 1e-6 for oracles by linear programming. Larger asks fewer questions, and
        the gap grows by as much.
    search_ratio : float, default=1.0
        A search may stop at this share of its upper bound. The paper uses 0.999, which saves questions; the rest stays
        in the gap.
    max_queries : int, default=1000
        Most questions of a search: a guard, as exact searches ask about ten.
    oracle : {"auto", "enumeration", "greedy", "tree", "roof", "lp", "milp"}, default="auto"
        How `MultiLabelSVC` finds label sets in training. "auto": exactly where that is cheap (forests; up to 18
        labels), else by "greedy" local search. "roof" trains on a relaxation, by maximum flow, in which labels may be
        fractions: `primal_` is an upper bound for label sets too, `dual_` and `gap_` are those of the relaxed problem;
        slower, and mostly not better. "lp" is the same by linear programming, "milp" exact by integer programming; both
        are slow. `HierarchicalSVC` takes "auto" or "milp", with which slack rescaling is exact also where nodes have
        several parents.
    restarts : int, default=1
        Random starts of the local search of `MultiLabelSVC` after the first. More find better labels and take longer.
        Predictions make 10 more.
    offset : float or "auto", default="auto"
        Added to the score of every label when `MultiLabelSVC` and `HierarchicalSVC` predict: above 0 more labels are
        predicted, because training with Hamming losses predicts too few for the best Jaccard and F1. "auto": chosen
        together with C; 0 where C is a number.
    separator : str, default="/"
        Between the parts of a path, where the hierarchy of `HierarchicalSVC` is given by paths.
    fit_intercept : bool, default=True
        Give the rows of ready-made models a last column of ones. Its weights are regularised like the others, so with a
        number for C features should have mean 0 and ordinary size. With `C="auto"` the mean of dense rows is
        subtracted, and columns are divided all by one unit or each by its own (its standard deviation; for sparse rows
        its largest value), whichever scores better.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid"}, default="rbf"
        What the `feature_map` of a ready-made model approximates; without a map it is not used.
    gamma : {"scale", "auto"}, float or None, default="scale"
        Its width, as in `sklearn.svm.SVC`. None: chosen together with C out of "scale" times powers of 2, which takes
        up to ten times as long; "scale" where C is a number.
    degree : float, default=3
        Of the kernel "poly".
    coef0 : float, default=0.0
        Of the kernels "poly" and "sigmoid".
    n_components : int, default=500
        Features of the map. More come closer to the kernel, at a linear cost; with as many as there are rows,
        "nystroem" is the kernel itself.
    decode : {"auto", "best", "nonempty", "seen", "expected"}, default="auto"
        Which label set `predict` of `MultiLabelSVC` and `HierarchicalSVC` chooses. By score: the best of all ("best"),
        of all but the empty one ("nonempty"), or of those of the training examples ("seen"; kept in `label_sets_`).
        "expected": the set (or path, with `labels="path"`) of largest expected Jaccard index by `predict_proba`, as if
        labels were independent; needs `calibration`. "auto": "expected" where there is a `calibration` and this had the
        larger Jaccard index on training rows left out when `C="auto"` chose; else "best". Training and
        `decision_function` look at all sets.
    unknown : {"left out", "completed"}, default="left out"
        What becomes of unknown labels or states. "left out": they are not in the loss, and `ChainSVC` cuts sequences
        there. "completed": a first model, trained in this way, fills in what they are likely to be, given those that
        are known, and a second one is trained on all; each has the whole `time_budget`.
    scoring : str or callable, default=None
        What `C="auto"` chooses by: a scorer of scikit-learn's or a name of `label_set_scorers`. None: example Jaccard
        for label sets, the share of right steps for sequences, the share of right classes or their mean cost.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally, which suits notebooks.
    verbose : int, default=0
        1 logs every pass under "widemargin".

    Examples
    --------
    >>> from widemargin import MultiLabelSVC, StructuralOptions
    >>> MultiLabelSVC(solver_options=StructuralOptions(verbose=1))
    MultiLabelSVC(solver_options=StructuralOptions(verbose=1))
    """

    average: bool = True
    check_every: kinds.Count | None = None
    oracle_batch: kinds.Count | None = None
    search_tol: kinds.Share = 1e-9
    search_ratio: Annotated[float, Interval(Real, 0.0, 1.0, closed="right")] = 1.0
    max_queries: Annotated[int, Interval(Integral, 2, None, closed="left")] = 1000
    oracle: Annotated[str, StrOptions(set(ORACLES))] = "auto"
    restarts: Annotated[int, Interval(Integral, 0, None, closed="left")] = 1
    offset: kinds.AnyNumber | Literal["auto"] = "auto"
    separator: str = "/"
    fit_intercept: bool = True
    kernel: Literal["rbf", "linear", "poly", "laplacian", "sigmoid"] = "rbf"
    gamma: kinds.Gamma | None = "scale"
    degree: kinds.NotNegative = 3
    coef0: kinds.AnyNumber = 0.0
    n_components: kinds.Count = 500
    decode: Literal["auto", "best", "nonempty", "seen", "expected"] = "auto"
    unknown: Literal["left out", "completed"] = "left out"
    scoring: str | Callable[..., float] | None = None
    on_interrupt: kinds.OnInterrupt = "raise"
    verbose: kinds.Verbose = 0


class Standard(NamedTuple):
    """What is taken off rows, and what they are then divided by, so that neither offsets nor units matter.

    The weights of the column of ones are regularised like the others. Beside a year, or amounts in thousands, the ones
    are so small that an intercept would have to be large, and hardly any class but the most frequent is predicted.

    Attributes
    ----------
    centre : ndarray of shape (d,)
    units : ndarray of shape (d,)
        Of the columns: their standard deviations, or 1 where all share one unit.
    size : float
        Root of the mean square of the rows in these units.
    """

    centre: Floats
    units: Floats
    size: float

    def rows(self, X: Matrix) -> Matrix:
        """Rows in these units. Zeros of sparse ones stay zeros: their centre is 0."""
        scale = (self.size * self.units).astype(X.dtype)
        if not isinstance(X, np.ndarray):
            return X @ sparse.diags(1.0 / scale)
        return np.asarray(X - self.centre, X.dtype) / scale


class Chosen(NamedTuple):
    """What a training goes by.

    Attributes
    ----------
    gamma : float or str
        Width of the kernel.
    seconds : float
        What their choice took.
    score : float
        On rows held out; NaN where nothing was chosen.
    standard : Standard or None
        The units that C is for; None: the rows as they are.
    interrupted : bool
        Whether Ctrl-C ended the choice.
    """

    C: float
    offset: float = 0.0
    gamma: float | str = "scale"
    seconds: float = 0.0
    score: float = np.nan
    standard: Standard | None = None
    interrupted: bool = False


@parameters
class StructuralParameters:
    """The parameters that all structural SVMs have; each says in its own docstring what they mean there."""

    rescaling: kinds.Rescaling = "slack"
    solver: Annotated[str, StrOptions({"bcfw", *_IN_PAPERS})] = "bcfw"
    tol: kinds.NotNegative = 0.05
    max_iter: kinds.Count = 1000
    search: Annotated[str | Search, StrOptions({"auto", *SEARCHES, *IN_PAPERS}), callable] = "auto"
    warm_start: bool = False
    random_state: kinds.Random = None
    time_budget: kinds.Positive | None = None
    callbacks: kinds.Callbacks = None
    n_jobs: int | None = None
    solver_options: StructuralOptions | Mapping[str, object] | None = None


class StructuralEstimator(StructuralParameters, BaseEstimator):  # type: ignore[misc]
    """An estimator that trains a structured model. Subclasses say which, and translate X and Y."""

    _options = Checked(StructuralOptions)
    _has_offset: ClassVar[bool] = False  # whether predictions add the option `offset` to the scores of labels
    _in_search = False  # a search for parameters has no use for proved bounds, and scores the same rows many times

    model_: StructuredModel
    coef_: Floats
    theta_: Floats
    blocks_: Blocks
    C_: float
    _origin: tuple[float, int, int]

    _stored_arrays: ClassVar[Mapping[str, str]] = {"coef_": "double * *", "theta_": "double *"}

    def _refuse_arrays(self) -> None:
        """The weights must be those of the model, whose compiled argmax looks nothing up."""
        if "coef_" in vars(self):
            if not isinstance(self.model_, StructureModel):
                raise ValueError(f"its model is a {type(self.model_).__name__}")
            states, n_theta = self.model_.structure.weight.shape[1], self.model_.structure.n_theta
            shape, wanted = self._shape_of_weights(), (n_features_of_model(self), states)
            if shape != wanted or self.theta_.shape != (n_theta,):
                raise ValueError(
                    f"the weights are of {shape} columns and states and {self.theta_.shape[0]} pairs, not {wanted} and "
                    f"{n_theta}"
                )

    def _shape_of_weights(self) -> tuple[int, ...]:
        return self.coef_.shape

    def _train(
        self, model: StructuredModel, X: Examples, Y: Examples, chosen: Chosen, *,
        sample_weight: ArrayLike | None = None, missing: Bools | None = None, debug: bool = False,
    ) -> None:  # fmt: skip
        """Train the model, set the fitted attributes, then warn or raise according to how the run ended.

        The time budget is what the choice has left of it. After a choice that was interrupted it is one pass.
        """
        # Attributes are set when all of it has gone well: one that fails leaves an earlier model whole.
        options, C = self._options, float(chosen.C)
        left = None if self.time_budget is None else max(self.time_budget - chosen.seconds, 1e-3)
        budget = budget_of(left, self.callbacks, options.verbose)
        problem = StructuredProblem(
            model, X, Y, C=C, sample_weight=sample_weight, missing=missing, rescaling=self._rescaling_of(Y),
            search=self.search, eps=options.search_tol, ratio=options.search_ratio, max_queries=options.max_queries,
            check=debug, prove=not self._in_search,
        )  # fmt: skip
        if self.search == "auto" and problem.certain and not problem.exact:
            warn(
                "the oracle answers free questions only, so the search is heuristic: it sees labels on the hull of all "
                "(h, g), and may miss better ones inside (the gap counts them). Give the oracle cones, levels or a "
                "direct answer (HierarchyModel: oracle='milp'; a loss that is thousands of times its least weight at "
                "most), or use rescaling='margin'.",
                OracleWarning,
            )
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        max_iter = 1 if chosen.interrupted else self.max_iter
        arguments: dict[str, object] = {"tol": self.tol, "max_iter": max_iter, "seed": seed}
        if self.solver in ("bcfw", "sgd"):
            arguments |= {"average": options.average, "check_every": options.check_every}
        if options.oracle_batch is not None:
            if self.solver != "bcfw":
                raise CapabilityError(
                    f"oracle_batch is for solver='bcfw', and solver is {self.solver!r}; leave it out."
                )
            arguments["batch"] = options.oracle_batch
        # the dual point of the last fit proves something about the same problem only, whatever its C; it is as large as
        # the labels of all examples, so that it is not kept beside the new one
        origin, blocks = self.__dict__.pop("_origin", None), self.__dict__.pop("blocks_", None)
        if self.warm_start and origin is not None and origin[2] == problem.fingerprint():
            last_C, steps, _ = origin
            arguments["start"] = blocks.scaled(C / last_C)
            if self.solver == "sgd":
                arguments["steps"] = steps
        del blocks
        # A model of the user's own may not be made for several questions at once, so that has to be asked for.
        alone = self.n_jobs is None and not isinstance(self, ReadyMadeSVM)
        with limit_threads(1 if alone else self.n_jobs):
            learn: Callable[..., LearnerResult] = block_frank_wolfe.solve
            if self.solver in _IN_PAPERS:
                module, function = _IN_PAPERS[self.solver]
                learn = getattr(papers_module(f"solvers.{module}", f"solver={self.solver!r}"), function)
            result = learn(problem, budget=budget, **arguments)
        if chosen.interrupted:
            budget.interrupted, result = True, replace(result, status=Status.INTERRUPTED)
        self.model_, self.search_, self.C_ = problem.model, problem.search_name, C
        self._set_weights(result.weights)
        if chosen.standard is not None:
            self._give_back(chosen.standard)
        self.primal_, self.dual_, self.gap_ = result.primal, result.dual, result.gap
        self.certified_, self.averaged_ = result.certified, result.averaged
        self.proved_primal_, self.proved_gap_ = result.proved, result.proved_gap
        self.status_, self.n_iter_, self.history_ = str(result.status), result.n_iter, result.history
        self.n_oracle_calls_, self.n_queries_ = result.n_oracle_calls, result.n_queries
        if self.warm_start:
            self.blocks_, self._origin = result.blocks, (float(chosen.C), result.steps, problem.fingerprint())
        self._conclude(result, budget, options)

    def _rescaling_of(self, Y: Examples) -> str:
        """The rescaling of a training on these labels."""
        return self.rescaling

    def _set_weights(self, weights: Weights) -> None:
        """Set `coef_`, `theta_` and what else the weights are called."""
        self.coef_, self.theta_ = weights

    def _give_back(self, standard: Standard) -> None:
        """Express weights and C of standard rows in the rows that were given."""

    def _conclude(self, result: LearnerResult, budget: Budget, options: StructuralOptions) -> None:
        """Warn or raise according to how the run ended."""
        if interrupted(options, budget) or result.status == Status.CONVERGED:
            return
        cure = "raise max_iter or tol, or lower C"
        if result.n_iter < self.max_iter:
            # Cutting planes end sooner only where nothing violates and the problem of the cuts is solved.
            cure = "no label violates any more, and rounding leaves the rest: raise tol"
            if result.gap - result.left_by_search <= self.tol:
                cure = (
                    f"the search {self.search_!r} leaves {result.left_by_search:.1%} between its labels and its "
                    "bounds: use an exact one, a smaller search_tol, or a larger search_ratio or max_queries"
                )
        elif not result.gap < 0.5:
            # The gap falls slowly where it is still wide: on yeast and Enron_corr, C=1, seven to nine times the passes
            # brought it from 96% and 98% to 73% and 77% only.
            cure = f"C={self.C_:g} is far from what so many passes can solve: lower C, else raise max_iter or tol"
        relative = ""
        if not result.certified:
            relative = f", relative to the labels that an inexact oracle found; proved: {100 * result.proved_gap:.3g}%"
        warn(
            f"stopped after {result.n_iter} passes with a duality gap of {100.0 * result.gap:.3g}%{relative} "
            f"({CURES.get(str(result.status), cure)}).",
            MarginConvergenceWarning,
        )

    def _margins(self, examples: Iterable[tuple[object, object, Floats]]) -> Floats:
        """`f(x, y) - max_{y' of loss > 0} f(x, y')` of every (x, label, potentials).

        Raises
        ------
        CapabilityError
            If the oracle of an example does not know the best label of every loss.
        """
        margins = []
        for x, label, u in examples:
            oracle = self.model_.oracle(x, label, u, self.theta_)
            if LEVELS not in oracle.capabilities:
                raise CapabilityError(
                    "margins need an oracle that answers 'levels', the best label of every loss; "
                    f"{type(oracle).__name__} does not. Models of label trees, hierarchies, chains and independent "
                    "labels with integer losses do."
                )
            margins.append(1.0 - float(oracle.levels()[1:].max()))  # h = 1 + f(y') - f(y)
        return np.array(margins)


@parameters
class ReadyMadeSVM(StructuralEstimator):
    """A structural SVM whose model follows from the parameters; its rows may be mapped, and get a constant column."""

    feature_map: kinds.FeatureMapName = None

    intercept_: Floats = field(init=False)
    model_: StructureModel = field(init=False)

    _stored_arrays: ClassVar[Mapping[str, str]] = {"intercept_": "double S"}

    def __sklearn_is_fitted__(self) -> bool:
        return "coef_" in vars(self)

    def _give_up(self) -> None:
        """Forget the weights of an earlier fit, as classes and columns of another fit make wrong predictions of them.

        Called where rows are found right, before a new fit sets its first attribute: it may fail, or be interrupted.
        """
        self.__dict__.pop("coef_", None)

    def _shape_of_weights(self) -> tuple[int, ...]:
        return (self.coef_.shape[1], *{self.coef_.shape[0], self.intercept_.shape[0]})

    def _training_rows(self, X: Matrix, chosen: Chosen) -> Matrix:
        """Checked rows as the solvers take them: in these units, mapped by a map fitted here, with their constant."""
        known_map = self.__dict__.pop("feature_map_", None)
        if chosen.standard is None:
            warn_of_scales(self, None, X)
        else:  # one unit for all was chosen where it scored better than a unit for each column
            X = chosen.standard.rows(X)
        if self.feature_map is not None:
            space = make_space(
                replace(SpaceParameters.of(self, self._options), gamma=chosen.gamma), X, None,
                random_state=self.random_state, by_factor=True, known_map=known_map if self.warm_start else None,
            )  # fmt: skip
            assert isinstance(space, MappedSpace)
            (X,) = space.features([X])
            self.feature_map_ = space.feature_map
        return with_constant(X) if self._options.fit_intercept else X

    def _scores(self, X: Matrix) -> Floats:
        """Potentials of checked rows, an ndarray in float64 of shape (rows, S)."""
        if "feature_map_" in vars(self):
            return model_scores(self, X)
        return np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True), dtype=np.float64) + self.intercept_

    def _set_weights(self, weights: Weights) -> None:
        """Weights of the constant column, which is the last one, are intercepts."""
        W, has_constant = weights.W, self._options.fit_intercept
        self.intercept_ = W[-1].copy() if has_constant else np.zeros(W.shape[1])
        self.coef_ = np.ascontiguousarray((W[:-1] if has_constant else W).T)
        self.theta_ = weights.theta

    def _give_back(self, standard: Standard) -> None:
        """Express weights and C of standard rows in the rows that were given."""
        self.coef_ /= standard.size * standard.units
        self.intercept_ -= self.coef_ @ standard.centre
        self.C_ /= standard.size**2


def with_constant(X: Matrix) -> Matrix:
    """Rows with a last column of ones, ndarray or CSR: its weights are intercepts, regularised like the others."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


def mean_square(X: Matrix) -> float:
    """Mean square of the rows of a matrix; 1 where all are 0."""
    largest = float(abs(X).max())
    # Squares of numbers far beyond these are infinite or 0, and so would be C.
    if largest > 0.0 and not 1e-100 < largest < 1e100:
        raise DataError(f"the largest feature is {largest:g}: scale the features.")
    total = float((X**2 if isinstance(X, np.ndarray) else X.multiply(X)).sum())
    return total / X.shape[0] or 1.0
