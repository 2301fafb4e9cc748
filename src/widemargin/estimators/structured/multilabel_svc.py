"""Multi-label classification with pairs of labels: `MultiLabelSVC`."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import ClassVar

import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions

from widemargin._typing import Ints, Seed
from widemargin.estimators.structured.ready_made import LabelSetSVM
from widemargin.estimators.structured.training import StructuralOptions
from widemargin.solvers.base import Callback
from widemargin.structured.models import MultiLabelModel
from widemargin.structured.models.multilabel import ORACLES

__all__ = ["MultiLabelSVC"]


class MultiLabelSVC(LabelSetSVM):
    """Multi-label classifier that trains the weights of labels and of pairs of labels together.

    The score of a label set is `sum_l y_l (x . w_l + b_l) + sum_{pq in edges} theta_pq y_p y_q`, the loss the number of
    wrong labels (Finley and Joachims 2008; slack rescaling: Choi, Meshi and Srebro 2016). Training and prediction are
    exact without cycles of edges, and up to 18 labels; beyond, labels are found by local search, `certified_` is False,
    and `proved_gap_` and `decode_certified` say what roof duality proves nevertheless.

    `score` is the share of examples whose label set is right in all labels (scikit-learn's subset accuracy).
    `widemargin.label_set_scorers` has example Jaccard, Hamming loss, micro, macro and example F1 for `scoring=`.

    Parameters
    ----------
    edges : {"full", "tree"}, None or sequence of pairs, default="full"
        Pairs of labels with a weight: all, a maximum spanning tree of the labels' mutual information, none, or these.
    weights : array-like of shape (k,), default=None
        Loss of each wrong label, `>= 0`. None: 1 each.
    oracle : {"auto", "enumeration", "greedy", "tree", "roof", "lp", "milp"}, default="auto"
        How labels are found in training. "auto": exactly where that is cheap (forests; up to 18 labels), else by
        "greedy" local search. "roof" trains on the relaxation of the problem, by maximum flow: labels may be fractions
        then, so that `primal_` is an upper bound for the label sets too, and `dual_` and `gap_` are those of the
        relaxed problem; slower, and mostly not better. "lp" is the same by linear programming, and "milp" exact by
        integer programming; both are slow.
    restarts : int, default=5
        Random starts of the local search after the first. More find better labels and take longer.
    fit_intercept : bool, default=True
        Give the rows a last column of ones; its weights are regularised like the others.
    offset : float, default=0.0
        Added to the score of every label when predicting, so that more labels are predicted (fewer, if negative): what
        training with Hamming counts finds best is too few labels for Jaccard and F1. `structural_search` chooses it.
    C : float, default=1.0
        Weight of the losses; the papers' regulariser is `1 / (C n)`. Slack rescaling wants another C than margin
        rescaling (by factors of 3 to 30): search each on a grid of its own.
    rescaling : {"slack", "margin"}, default="slack"
        "slack" asks all labels for the same margin, and weighs the violation by the loss; "margin" asks for a margin as
        large as the loss.
    solver : {"bcfw", "sgd", "cutting-plane", "one-slack"}, default="bcfw"
        Block-coordinate Frank-Wolfe, Pegasos steps, or cutting planes with a slack per example or one in all.
    tol : float, default=0.01
        Relative duality gap at which to stop.
    max_iter : int, default=100
        Most passes over the examples; cutting planes: rounds, of one pass each.
    warm_start : bool, default=False
        Go on from the dual point of the last `fit`, which is kept in `blocks_`. C, solver and tolerances may differ;
        where examples, labels, losses or rescaling do, training starts afresh.
    random_state : int, RandomState or None, default=None
        Order of the examples.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning.
    callbacks : sequence of callable, default=None
        Each is called with a `Progress` after every pass; returning True stops the fit.
    n_jobs : int, default=None
        Threads of the certificate passes; changes no result. None means 1.
    solver_options : StructuralOptions or dict, default=None
        How it trains in detail: iterates, certificates, searches, interrupts and logging.

    Attributes
    ----------
    coef_ : ndarray of shape (k, d)
    intercept_ : ndarray of shape (k,)
    theta_ : ndarray of shape (m,)
        Weights of the edges.
    edges_ : ndarray of shape (m, 2)
        Labels that they join.
    classes_ : ndarray of shape (k,)
        Names of the columns of y, or their numbers.
    primal_, dual_, gap_ : float
        Upper bound of the objective at these weights, lower bound of its optimum, relative difference.
    certified_ : bool
        Whether `primal_` is proved; else it is relative to the labels that a local search found.
    proved_primal_, proved_gap_ : float
        The same upper bound and relative difference, but proved whatever was found: see `StructuralSVM`.
    search_, status_, n_iter_, n_oracle_calls_, n_queries_, averaged_, history_ : see `StructuralSVM`
    model_ : MultiLabelModel
        The model that was trained.
    blocks_ : Blocks
        Only with `warm_start`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import MultiLabelSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> Y = np.stack([X[:, 0] > 0, X[:, 1] > 0, (X[:, 0] > 0) & (X[:, 1] > 0)], axis=1)
    >>> clf = MultiLabelSVC(edges="tree", max_iter=1000, random_state=0).fit(X, Y)
    >>> clf.predict(X[:2]).shape
    (2, 3)
    >>> clf.gap_ <= 0.01
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **LabelSetSVM._parameter_constraints,
        "edges": [StrOptions({"full", "tree"}), "array-like", None],
        "weights": ["array-like", None],
        "oracle": [StrOptions(set(ORACLES))],
        "restarts": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        edges: str | npt.ArrayLike | None = "full",
        *,
        weights: npt.ArrayLike | None = None,
        oracle: str = "auto",
        restarts: int = 5,
        fit_intercept: bool = True,
        offset: float = 0.0,
        C: float = 1.0,
        rescaling: str = "slack",
        solver: str = "bcfw",
        tol: float = 0.01,
        max_iter: int = 100,
        warm_start: bool = False,
        random_state: Seed = None,
        time_budget: float | None = None,
        callbacks: Sequence[Callback] | None = None,
        n_jobs: int | None = None,
        solver_options: StructuralOptions | Mapping[str, object] | None = None,
    ) -> None:
        self.edges = edges
        self.weights = weights
        self.oracle = oracle
        self.restarts = restarts
        self.fit_intercept = fit_intercept
        self.offset = offset
        self.C = C
        self.rescaling = rescaling
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.time_budget = time_budget
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.solver_options = solver_options

    def _model(self) -> MultiLabelModel:
        return MultiLabelModel(self.edges, weights=self.weights, oracle=self.oracle, restarts=self.restarts)

    @property
    def edges_(self) -> Ints:
        """Pairs of labels of `theta_`."""
        pairs: Ints = self.model_.structure.pairs
        return pairs
