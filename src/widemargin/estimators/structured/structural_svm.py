"""Structural SVM over any model: `StructuralSVM`."""

import copy
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from widemargin._threads import limit_threads
from widemargin._typing import Floats
from widemargin.estimators._progress import watchers
from widemargin.estimators.structured.margins import structured_margins
from widemargin.exceptions import CapabilityError, DataError, MarginConvergenceWarning, OracleWarning
from widemargin.goals._warn import warn
from widemargin.solvers.base import Budget, Progress, Status
from widemargin.structured.learners import block_frank_wolfe, cutting_planes, sgd
from widemargin.structured.learners.example_rows import as_examples, count, potentials_of
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.result import LearnerResult
from widemargin.structured.model import StructuredModel
from widemargin.structured.oracle import Search
from widemargin.structured.search.automatic import IN_PAPERS, SEARCHES

__all__ = ["StructuralSVM"]

_SOLVERS: dict[str, Any] = {
    "bcfw": block_frank_wolfe.solve,
    "sgd": sgd.solve,
    "cutting-plane": cutting_planes.slack_per_example,
    "one-slack": cutting_planes.one_slack,
}


class StructuralSVM(BaseEstimator):  # type: ignore[misc]
    """Structural SVM with slack or margin rescaling, for labels of any structure.

    It minimises `1/2 |w|^2 + C sum_i H_i(w)` with

    - `H_i = max_y L(y, y_i) (1 + f(y) - f(y_i))` for slack rescaling: a label that is beaten by the margin costs
      nothing, however large its loss; multiplying the loss by a number is the same as multiplying C by it.
    - `H_i = max_y L(y, y_i) + f(y) - f(y_i)` for margin rescaling: labels of large loss have to be beaten by more.

    Slack rescaling often makes the better predictor, and its largest label is harder to find; `search` finds it exactly
    where the model's oracle can answer enough (Choi, Meshi and Srebro 2016, corrected).

    Parameters
    ----------
    model : StructuredModel
        Joint features, loss, oracle and decoder: one of `widemargin.structured.models` or your own. It is copied, never
        changed.
    C : float, default=1.0
        Weight of the losses; the papers' regulariser is `1 / (C n)`. Raising it fits the training examples more
        closely. Slack rescaling wants a C that is several times smaller than margin rescaling does.
    rescaling : {"slack", "margin"}, default="slack"
    search : str or callable, default="auto"
        How slack rescaling finds its label: "auto", "direct", "levels", "edge", "angular", "level" or "hull". "auto"
        takes the exact search that is cheapest for the oracle, and "hull", which is heuristic, for an oracle with free
        questions only (with a warning). Where widemargin-papers is installed, "bisecting", "binary" and
        "sarawagi-gupta" are the searches that the paper compares with; "sarawagi-gupta" needs `solver="cutting-plane"`.
        A search of your own is a function of the protocol `widemargin.structured.oracle.Search`; it is exact if its
        attribute `exact` says so.
    solver : {"bcfw", "sgd", "cutting-plane", "one-slack"}, default="bcfw"
        Block-coordinate Frank-Wolfe, Pegasos steps, or cutting planes with a slack per example or one in all.
    tol : float, default=0.01
        Relative duality gap at which to stop.
    max_iter : int, default=100
        Most passes over the examples; cutting planes: rounds, of one pass each.
    average : bool, default=True
        For "bcfw" and "sgd": look at the averaged iterate too, and keep the better one.
    check_every : int, default=None
        For "bcfw" and "sgd": passes between two certificates, which cost one or two passes each. None: rarely.
    oracle_batch : int, default=None
        For "bcfw" with a slow oracle of your own: ask for the labels of so many examples at the same weights, side by
        side, on the workers of the Dask client in force, else in `n_jobs` threads. Raising it needs more passes; the
        model depends on it, not on the workers.
    search_tol : float, default=1e-9
        Relative error of a search; that of an oracle by linear programming is 1e-6 at least.
    search_ratio : float, default=1.0
        A search may stop at this share of its upper bound; the paper uses 0.999.
    max_queries : int, default=1000
        Most questions of a search.
    debug : bool, default=False
        Compare every answer of the oracle with the model's own features and loss, with its `smallest_loss` and
        `largest_loss`, and with labels that may not be better: y_i, the decoded label, the answers before and, where
        the model has `contains(x, y)`, labels of other examples. For a model under development.
    warm_start : bool, default=False
        Go on from the dual point of the last `fit`, which is kept in `blocks_`. C, solver and tolerances may differ;
        where examples, labels, losses or rescaling do, training starts afresh.
    random_state : int, RandomState or None, default=None
        Order of the examples.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning; its certificate comes after them.
    callbacks : sequence of callable, default=None
        Each is called with a `Progress` after every pass; returning True stops the fit.
    verbose : int, default=0
        1 logs every pass under "widemargin".
    n_jobs : int, default=None
        Threads of the certificate passes and of the rounds of the cutting planes; changes no result. None means 1. With
        more, a model of your own is asked by several threads at once.

    Attributes
    ----------
    coef_ : ndarray of shape (d, S)
        Weights of the rows of an example, a column per number that a label chooses.
    theta_ : ndarray of shape (P,)
        Weights of the features that do not depend on x.
    primal_, dual_, gap_ : float
        Upper bound of the objective at these weights, lower bound of its optimum, relative difference.
    certified_ : bool
        Whether the oracle's answers are exact, so that `primal_` is proved; else it is relative to what it found.
    proved_primal_, proved_gap_ : float
        The same upper bound and relative difference, but proved whatever the oracle finds: where `certified_` is
        False, by a relaxation that the oracle offers (with pairs of labels roof duality; infinite and 1 without one).
    search_ : str
        The name of the search used; "margin" for margin rescaling.
    status_ : str
        "converged", "max_iter", "time_limit", "stopped" (by a callback) or "interrupted".
    n_iter_, n_oracle_calls_, n_queries_ : int
        Passes, searches, and questions asked by them.
    averaged_ : bool
        Whether the weights are the averaged iterate.
    history_ : tuple of dict
    model_ : StructuredModel
        The copy that has seen the training examples.
    blocks_ : Blocks
        Only with `warm_start`.
    n_features_in_ : int
        d.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import StructuralSVM
    >>> from widemargin.structured.models import ChainModel
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(length, 2)) for length in (3, 5, 4, 6)]
    >>> Y = [(x[:, 0] > 0).astype(int) for x in X]
    >>> svm = StructuralSVM(ChainModel(), C=1.0, max_iter=1000, random_state=0).fit(X, Y)
    >>> all((svm.predict(X)[i] == Y[i]).all() for i in range(4))
    True
    """

    _prove = True  # a search has no use for the bounds of its models

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "model": "no_validation",  # type: ignore[dict-item]
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "rescaling": [StrOptions({"slack", "margin"})],
        "search": [StrOptions({"auto", *SEARCHES, *IN_PAPERS}), callable],
        "solver": [StrOptions(set(_SOLVERS))],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "check_every": [Interval(Integral, 1, None, closed="left"), None],
        "oracle_batch": [Interval(Integral, 1, None, closed="left"), None],
        "search_tol": [Interval(Real, 0.0, 1.0, closed="neither")],
        "search_ratio": [Interval(Real, 0.0, 1.0, closed="right")],
        "max_queries": [Interval(Integral, 2, None, closed="left")],
        "debug": ["boolean"],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "on_interrupt": [StrOptions({"raise", "return"})],
        "time_budget": [Interval(Real, 0.0, None, closed="neither"), None],
        "callbacks": ["array-like", None],
        "verbose": ["verbose"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        model: StructuredModel,
        *,
        C: float = 1.0,
        rescaling: str = "slack",
        search: str | Search = "auto",
        solver: str = "bcfw",
        tol: float = 0.01,
        max_iter: int = 100,
        average: bool = True,
        check_every: int | None = None,
        oracle_batch: int | None = None,
        search_tol: float = 1e-9,
        search_ratio: float = 1.0,
        max_queries: int = 1000,
        debug: bool = False,
        warm_start: bool = False,
        random_state: Any = None,
        on_interrupt: str = "raise",
        time_budget: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.model = model
        self.C = C
        self.rescaling = rescaling
        self.search = search
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.average = average
        self.check_every = check_every
        self.oracle_batch = oracle_batch
        self.search_tol = search_tol
        self.search_ratio = search_ratio
        self.max_queries = max_queries
        self.debug = debug
        self.warm_start = warm_start
        self.random_state = random_state
        self.on_interrupt = on_interrupt
        self.time_budget = time_budget
        self.callbacks = callbacks
        self.verbose = verbose
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, Y: Any) -> "StructuralSVM":
        """Train on labelled examples.

        Parameters
        ----------
        X : sequence or matrix
            Examples, as the model takes them; a table (pandas, polars) as its array.
        Y : sequence or matrix
            Their labels.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If examples or labels do not fit the model.
        CapabilityError
            If the oracle cannot answer what the search asks.
        OracleError
            If the oracle breaks its word; most ways of that are noticed with `debug=True` only.
        """
        X, Y = as_examples(X), as_examples(Y)
        budget = Budget(self.time_budget, watchers(self.callbacks, self.verbose))
        model = copy.deepcopy(self.model)
        problem = StructuredProblem(
            model,
            X,
            Y,
            C=self.C,
            rescaling=self.rescaling,
            search=self.search,
            eps=self.search_tol,
            ratio=self.search_ratio,
            max_queries=self.max_queries,
            check=self.debug,
            prove=self._prove,
        )
        if self.search == "auto" and problem.certain and not problem.exact:
            warn(
                "the oracle answers free questions only, so the search is heuristic: it sees labels on the hull of all "
                "(h, g), and may miss better ones inside (the gap counts them). Give the oracle cones, levels or a "
                "direct answer (HierarchyModel: oracle='milp'), or use rescaling='margin'.",
                OracleWarning,
            )
        options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "budget": budget}
        options["seed"] = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if self.solver in ("bcfw", "sgd"):
            options |= {"average": self.average, "check_every": self.check_every}
        if self.oracle_batch is not None:
            if self.solver != "bcfw":
                raise CapabilityError(
                    f"oracle_batch is for solver='bcfw', and solver is {self.solver!r}; leave it out."
                )
            options["batch"] = self.oracle_batch
        if self.warm_start:
            options |= self._resume(problem)
        with limit_threads(self.n_jobs):
            result: LearnerResult = _SOLVERS[self.solver](problem, **options)
        self._adopt(result, problem)
        self._conclude(result, budget)
        return self

    def _resume(self, problem: StructuredProblem) -> dict[str, Any]:
        """Where the learner starts from: the dual point of the last fit, if that was one of the same problem."""
        C, steps, fingerprint = getattr(self, "_origin", (1.0, 0, None))
        if fingerprint != problem.fingerprint():
            return {}
        start = {"start": self.blocks_.scaled(self.C / C)}
        return start | {"steps": steps} if self.solver == "sgd" else start

    def _adopt(self, result: LearnerResult, problem: StructuredProblem) -> None:
        """Set the fitted attributes."""
        self.model_, self.n_features_in_, self.search_ = problem.model, problem.d, problem.search_name
        self.coef_, self.theta_ = result.weights
        self.primal_, self.dual_, self.gap_ = result.primal, result.dual, result.gap
        self.certified_, self.averaged_ = result.certified, result.averaged
        self.proved_primal_, self.proved_gap_ = result.proved, result.proved_gap
        self.status_, self.n_iter_, self.history_ = str(result.status), result.n_iter, result.history
        self.n_oracle_calls_, self.n_queries_ = result.n_oracle_calls, result.n_queries
        if self.warm_start:
            self.blocks_, self._origin = result.blocks, (float(self.C), result.steps, problem.fingerprint())

    def _conclude(self, result: LearnerResult, budget: Budget) -> None:
        """Warn or raise according to how the run ended."""
        if budget.interrupted:
            warn(f"interrupted after {budget.elapsed:.1f} s; the model so far is kept.", MarginConvergenceWarning)
            if self.on_interrupt == "raise":
                raise KeyboardInterrupt
        elif result.status != Status.CONVERGED:
            cures = {
                Status.TIME_LIMIT: "the time budget is spent: raise time_budget",
                Status.STOPPED: "by a callback",
                Status.MAX_ITER: "raise max_iter or tol, or lower C",
            }
            if result.n_iter < self.max_iter:
                cures[Status.MAX_ITER] = f"the search {self.search_!r} finds no more violated label: use an exact one"
            if not result.gap < 0.995:
                cures[Status.MAX_ITER] += f"; C={self.C:g} is far from what so many passes can solve"
            relative = ""
            if not result.certified:
                relative = f", relative to the labels that the inexact oracle found; proved: {result.proved_gap:.1%}"
            warn(
                f"stopped after {result.n_iter} passes with a duality gap of {result.gap:.1%}{relative} "
                f"({cures[result.status]}).",
                MarginConvergenceWarning,
            )

    def predict(self, X: Any) -> list[Any]:
        """The label of largest score of every example, as the model decodes it.

        Parameters
        ----------
        X : sequence or matrix

        Returns
        -------
        list
        """
        check_is_fitted(self)
        X = as_examples(X)
        return [
            self.model_.decode(X[i], u, self.theta_) for i, u in enumerate(potentials_of(self.model_, X, self.coef_))
        ]

    def decode_certified(self, X: Any) -> tuple[list[Any], npt.NDArray[np.bool_]]:
        """The predictions, and which of them are proved to have the largest score of all labels.

        Parameters
        ----------
        X : sequence or matrix

        Returns
        -------
        labels : list
        proved : ndarray of bool of shape (n,)

        Raises
        ------
        CapabilityError
            If the model has no `decode_certified(potentials, theta)`.
        """
        check_is_fitted(self)
        decode: Any = getattr(self.model_, "decode_certified", None)
        if decode is None:
            raise CapabilityError(
                f"{type(self.model_).__name__} has no `decode_certified(potentials, theta)`, which returns a label and "
                "whether it is proved to be the best one; use `predict`."
            )
        found = [decode(u, self.theta_) for u in potentials_of(self.model_, as_examples(X), self.coef_)]
        return [label for label, _ in found], np.array([proved for _, proved in found], dtype=bool)

    def margins(self, X: Any, Y: Any) -> Floats:
        """Scores of the labels given minus the largest scores of any others (of positive loss), for `margin_report`.

        Parameters
        ----------
        X : sequence or matrix
        Y : sequence or matrix

        Returns
        -------
        ndarray of shape (n,)
            Positive where the prediction is right.

        Raises
        ------
        CapabilityError
            If the oracle does not answer "levels".
        DataError
            If the labels do not fit.
        """
        check_is_fitted(self)
        X, Y = as_examples(X), as_examples(Y)
        if count(X) != count(Y):
            raise DataError(f"there are {count(X)} examples and {count(Y)} labels; each example needs one.")
        u = potentials_of(self.model_, X, self.coef_)
        return structured_margins(self.model_, ((X[i], Y[i], own) for i, own in enumerate(u)), self.theta_)

    def score(self, X: Any, Y: Any) -> float:
        """Minus the mean loss of the predictions: 0 is perfect.

        Parameters
        ----------
        X, Y : sequence or matrix
        """
        X, Y = as_examples(X), as_examples(Y)
        if count(X) != count(Y):
            raise DataError(f"there are {count(X)} examples and {count(Y)} labels; each example needs one.")
        losses = [self.model_.loss(y, Y[i]) for i, y in enumerate(self.predict(X))]
        return -float(np.mean(losses))
