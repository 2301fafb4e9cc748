"""Multi-label classification in a hierarchy of labels: `HierarchicalSVC`."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import HasMethods, StrOptions

from widemargin._typing import Features, Ints, Seed
from widemargin.estimators.structured.ready_made import LabelSetSVM
from widemargin.estimators.structured.training import StructuralOptions
from widemargin.solvers.base import Callback
from widemargin.structured.models import HierarchyModel
from widemargin.structured.models.label_graph import Hierarchy, check_order, read_hierarchy, storable

__all__ = ["HierarchicalSVC"]


class HierarchicalSVC(LabelSetSVM):
    """Multi-label classifier whose label sets respect a hierarchy: a label comes with all its parents.

    The score of a label set is `sum_v y_v (x . w_v + b_v)` over the nodes. A set may end at an inner node. In a forest
    training and prediction are exact, by dynamic programming; where nodes have several parents, prediction and margin
    rescaling are exact, slack rescaling is heuristic (with a warning and a certified gap) unless `oracle="milp"`.

    Where every example has exactly one path, `labels="path"` says so: only paths are predicted, and training looks at
    paths only. It is exact, by looking at all of them.

    `score` is the share of examples whose label set is right in all labels (scikit-learn's subset accuracy).
    `widemargin.label_set_scorers` has example Jaccard, Hamming loss, micro, macro and example F1 for `scoring=`.

    Parameters
    ----------
    hierarchy : array-like of int, sequence of str, or directed graph
        Parent of every node (-1: root); or the paths of the nodes, such as "animal/cat"; or a networkx graph, arcs from
        parent to child. Nodes are the columns of y, in this order (of a graph: `list(graph.nodes)`); columns with the
        names or numbers of nodes in another order are refused. Copies and saved models hold the nodes and arcs of a
        graph instead of it.
    loss : {"nodes", "leaves"}, default="nodes"
        What is counted: wrong nodes, or wrong ends of paths (deepest nodes of a set; needs a forest).
    weights : array-like of shape (k,), default=None
        Loss of each of them, `>= 0`. None: 1 each.
    oracle : {"auto", "milp"}, default="auto"
        "milp": slack rescaling is exact where nodes have several parents too, by integer programming; slow.
    labels : {"sets", "path"}, default="sets"
        "path": the label of an example is one path from a root to a node where a training label ends. A training row of
        y that is empty or has two ends is refused; for forests.
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
    theta_ : ndarray of shape (0,)
    classes_ : ndarray of shape (k,)
        Names of the columns of y, or their numbers.
    primal_, dual_, gap_ : float
        Upper bound of the objective at these weights, lower bound of its optimum, relative difference.
    certified_ : bool
        Whether `primal_` is proved; else it is relative to the labels that a local search found.
    proved_primal_, proved_gap_ : float
        The same upper bound and relative difference, but proved whatever was found: see `StructuralSVM`.
    search_, status_, n_iter_, n_oracle_calls_, n_queries_, averaged_, history_ : see `StructuralSVM`
    model_ : HierarchyModel
        The model that was trained.
    blocks_ : Blocks
        Only with `warm_start`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import HierarchicalSVC
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [-1.0, -1.0], [-0.9, -1.0]])
    >>> Y = [[1, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0], [0, 0, 0]]
    >>> clf = HierarchicalSVC(["animal", "animal/cat", "animal/dog"], C=10.0, max_iter=500, tol=0.1, random_state=0)
    >>> clf.fit(X, Y).predict(X).tolist()
    [[1, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0], [0, 0, 0]]

    Cats and dogs only, one path a row:

    >>> clf.set_params(labels="path").fit(X[:3], Y[:3]).predict(X[:3]).tolist()
    [[1, 1, 0], [1, 1, 0], [1, 0, 1]]
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **LabelSetSVM._parameter_constraints,
        "hierarchy": ["array-like", HasMethods(["nodes", "edges"])],
        "loss": [StrOptions({"nodes", "leaves"})],
        "weights": ["array-like", None],
        "oracle": [StrOptions({"auto", "milp"})],
        "labels": [StrOptions({"sets", "path"})],
    }

    def __init__(
        self,
        hierarchy: Hierarchy,
        *,
        loss: str = "nodes",
        weights: npt.ArrayLike | None = None,
        oracle: str = "auto",
        labels: str = "sets",
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
        self.hierarchy = hierarchy
        self.loss = loss
        self.weights = weights
        self.oracle = oracle
        self.labels = labels
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

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"hierarchy": storable(self.hierarchy)}

    def _model(self) -> HierarchyModel:
        return HierarchyModel(
            self.hierarchy, loss=self.loss, weights=self.weights, separator=self._separator, oracle=self.oracle,
            labels=self.labels,
        )  # fmt: skip

    def closed(self, y: npt.ArrayLike) -> Ints:
        """Label sets with the ancestors of their nodes added: what `fit` wants.

        Parameters
        ----------
        y : array-like of shape (n, k)

        Returns
        -------
        ndarray of shape (n, k)
        """
        self._check_columns(getattr(y, "columns", None))
        return self._model().closed(y)

    def _check_labels(self, y: Features) -> None:
        self._check_columns(getattr(y, "columns", None))

    @property
    def _separator(self) -> str:
        return StructuralOptions.of(self.solver_options).separator

    def _check_columns(self, names: npt.ArrayLike | None) -> None:
        """Refuse columns of y that carry the names of nodes in another order."""
        graph = read_hierarchy(self.hierarchy, self._separator)
        check_order(graph, np.arange(len(graph.names)) if names is None else names)
