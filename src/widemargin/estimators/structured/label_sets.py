"""Classifiers that predict label sets: `MultiLabelSVC`, with pairs of labels, and `HierarchicalSVC`."""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, Literal

import numpy as np
from sklearn.utils._param_validation import HasMethods, StrOptions

from widemargin._typing import ArrayLike, Features, Floats, Ints
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import parameters
from widemargin.estimators.structured.label_names import GivenSets
from widemargin.estimators.structured.set_prediction import LabelSetSVM
from widemargin.exceptions import CapabilityError
from widemargin.structured.model import Examples
from widemargin.structured.models import HierarchyModel, MultiLabelModel, PowersetModel
from widemargin.structured.models.base import LabelSetModel
from widemargin.structured.models.label_graph import Hierarchy, check_order, read_hierarchy, storable
from widemargin.structured.models.multilabel import LOSSES


@parameters
class MultiLabelSVC(LabelSetSVM):
    """Multi-label classifier that trains the weights of labels and of pairs of labels together.

    The score of a label set is `sum_l y_l (x . w_l + b_l) + sum_{pq in edges} theta_pq y_p y_q`, the loss the number of
    wrong labels (Finley and Joachims 2008; slack rescaling: Choi, Meshi and Srebro 2016). Training and prediction are
    exact if the edges have no cycles, or with up to 18 labels. Otherwise labels are found by local search, `certified_`
    is False, and `proved_gap_` and `decode_certified` say what roof duality still proves.

    `score` is scikit-learn's subset accuracy; `widemargin.label_set_scorers` has other scores for `scoring=`.

    Parameters
    ----------
    edges : {"auto", "full", "tree"}, None or sequence of pairs, default="auto"
        Pairs of labels with a weight: all ("full"), those of a maximum spanning tree of the labels' mutual information
        ("tree"), none (None), or the pairs given. "auto": all pairs with up to 64 labels, else a tree, because time and
        memory grow with rows times pairs.
    loss : {"hamming", "jaccard", "f1", "exact"}, default="hamming"
        The loss that training makes small: the number of wrong labels, 1 less the Jaccard index or F1 of the two label
        sets, or 1 for any wrong set. All but "hamming" are exact up to 18 labels, whatever the edges; beyond, by local
        search.
    weights : array-like of shape (k,), default=None
        Of "hamming": loss of each wrong label, `>= 0`. None: 1 each.
    powerset : bool, default=False
        Make every label set of the training rows a class with weights of its own; a loss between two sets is the cost
        of taking one for the other. No other set is predicted, and training is exact for any number of labels and any
        loss. Time and memory grow with features times sets; `edges` and the option `oracle` are refused.
    calibration : {None, "sigmoid"}, default=None
        "sigmoid": `fit` also makes `predict_proba`, the probabilities of the labels. They rank labels better than
        margins do where many are rare. Takes seconds for some thousand rows, which `time_budget` does not count.
    feature_map : {None, "nystroem", "fourier"}, default=None
        Train on explicit features that approximate a kernel, at a cost linear in the rows. Which kernel, its `gamma`
        and `n_components` are in `solver_options`; the RBF kernel by default.
    C : float or "auto", default="auto"
        Weight of the losses; the papers' regulariser is `1 / (C n)`. Slack rescaling wants a C ten or more
        times smaller than margin rescaling. "auto": chosen on rows held out, by example Jaccard or the `scoring` of
        `solver_options`; 1 with fewer than 20 rows. `structural_search` looks more closely, and at both rescalings.
    rescaling : {"auto", "slack", "margin"}, default="auto"
        "slack" asks all labels for the same margin, and weighs the violation by the loss; "margin" asks for a margin as
        large as the loss. "auto": slack up to 128 labels, margin beyond, because the gap of slack rescaling hardly
        closes with many.
    solver, tol, max_iter, search, warm_start, random_state, time_budget, callbacks, solver_options
        As in `StructuralSVM`.
    n_jobs : int, default=None
        Threads of the certificate passes; changes no result. None: all that cores, `OMP_NUM_THREADS` and
        threadpoolctl allow.

    Attributes
    ----------
    coef_ : ndarray of shape (k, d)
        With a feature map: one column for each of its features. With `powerset` a row for each of `model_.sets`.
    feature_map_ : transformer
        Only with a feature map.
    intercept_ : ndarray of shape (k,)
    theta_ : ndarray of shape (m,)
        Weights of the edges.
    edges_ : ndarray of shape (m, 2)
        Labels that they join.
    classes_ : ndarray of shape (k,)
        Names of the columns of y, or their numbers.
    C_ : float
        `C`, or what was chosen. If each column was divided by its own unit, it is for the divided columns.
    offset_ : float
        The option `offset` at the time of `fit`, or what was chosen; of use where it is "auto".
    decode_ : str
        The option `decode` at the time of `fit`, or what was chosen.
    primal_, dual_, gap_, certified_, proved_primal_, proved_gap_, search_, status_
        As in `StructuralSVM`, and so are `n_iter_`, `n_oracle_calls_`, `n_queries_`, `averaged_` and `history_`.
    model_ : MultiLabelModel or PowersetModel
        The model that was trained.
    blocks_ : Blocks
        Only with `warm_start`.
    probabilities_ : LabelProbabilities
        Only with `calibration`.
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
    >>> clf.gap_ <= 0.05
    True
    """

    edges: Annotated[str | ArrayLike | None, StrOptions({"auto", "full", "tree"}), "array-like", None] = field(
        default="auto", kw_only=False
    )
    loss: Annotated[str, StrOptions(set(LOSSES))] = "hamming"
    weights: kinds.Array | None = None
    rescaling: Annotated[str, StrOptions({"auto", "slack", "margin"})] = "auto"
    powerset: bool = False
    C: kinds.PositiveOrAuto = "auto"
    calibration: Literal["sigmoid"] | None = None

    def _model(self, y: Features) -> MultiLabelModel | PowersetModel:
        if self.powerset:
            named = {"edges": self.edges, "oracle": self._options.oracle}
            given = [name for name, value in named.items() if not (isinstance(value, str) and value == "auto")]
            given += ["weights"] if self.weights is not None and self.loss != "hamming" else []
            if given:
                raise CapabilityError(
                    f"{given[0]} does not go with powerset=True"
                    f"{f' and loss={self.loss!r}' if given[0] == 'weights' else ''}: leave it out."
                )
            return PowersetModel(loss=self.loss, weights=self.weights)
        return MultiLabelModel(
            self.edges, loss=self.loss, weights=self.weights, oracle=self._options.oracle,
            restarts=self._options.restarts,
        )  # fmt: skip

    def _rescaling_of(self, Y: Examples) -> str:
        # RCV1 has 101 labels, and slack rescaling scores better there.
        automatic = "slack" if np.shape(Y)[1] <= 128 else "margin"
        return automatic if self.rescaling == "auto" else self.rescaling

    @property
    def edges_(self) -> Ints:
        """Pairs of labels of `theta_`."""
        return np.asarray(self.model_.structure.pairs)


@parameters
class HierarchicalSVC(LabelSetSVM):
    """Multi-label classifier whose label sets respect a hierarchy: a label comes with all its parents.

    The score of a label set is `sum_v y_v (x . w_v + b_v)` over the nodes. A set may end at an inner node. In a forest,
    training and prediction are exact, by dynamic programming. Where nodes have several parents, prediction and margin
    rescaling are exact. Slack rescaling is then heuristic, with a warning and a certified gap, unless the option
    `oracle` is "milp".

    Where every example has exactly one path, set `labels="path"`: training and prediction then look at all paths and
    nothing else, exactly.

    `score` is scikit-learn's subset accuracy; `widemargin.label_set_scorers` has other scores for `scoring=`.

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
        Loss of each wrong node or end, `>= 0`. None: 1 each.
    labels : {"sets", "path"}, default="sets"
        "path", for forests: the label of an example is one path from a root to a node where a training label ends. A
        training row of y that is empty or has two ends is refused.
    calibration : {"auto", "sigmoid", None}, default="auto"
        "sigmoid": as in `MultiLabelSVC`, coherent with the hierarchy; `predict` may go by these probabilities (see
        `decode` of `solver_options`), and the model keeps training rows. "auto": "sigmoid" with `C="auto"`, which
        compares the two predictions, else None.
    feature_map, C, n_jobs
        As in `MultiLabelSVC`.
    rescaling : {"auto", "slack", "margin"}, default="auto"
        "slack" asks all labels for the same margin, and weighs the violation by the loss; "margin" asks for a margin as
        large as the loss. "auto": slack where its search is exact, so margin where nodes have several parents, unless
        the option `oracle` is "milp".
    solver, tol, max_iter, search, warm_start, random_state, time_budget, callbacks, solver_options
        As in `StructuralSVM`.

    Attributes
    ----------
    coef_ : ndarray of shape (k, d)
        With a feature map: one column for each of its features.
    feature_map_ : transformer
        Only with a feature map.
    intercept_ : ndarray of shape (k,)
    theta_ : ndarray of shape (0,)
    classes_ : ndarray of shape (k,)
        Names of the columns of y, or their numbers.
    C_ : float
        `C`, or what was chosen. If each column was divided by its own unit, it is for the divided columns.
    offset_ : float
        The option `offset` at the time of `fit`, or what was chosen; of use where it is "auto".
    decode_ : str
        The option `decode` at the time of `fit`, or what was chosen.
    primal_, dual_, gap_, certified_, proved_primal_, proved_gap_, search_, status_
        As in `StructuralSVM`, and so are `n_iter_`, `n_oracle_calls_`, `n_queries_`, `averaged_` and `history_`.
    model_ : HierarchyModel
        The model that was trained.
    blocks_ : Blocks
        Only with `warm_start`.
    probabilities_ : LabelProbabilities
        Only where there are probabilities.
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

    hierarchy: Annotated[Hierarchy, "array-like", HasMethods(["nodes", "edges"])] = field(kw_only=False)
    loss: Literal["nodes", "leaves"] = "nodes"
    weights: kinds.Array | None = None
    labels: Literal["sets", "path"] = "sets"
    rescaling: Annotated[str, StrOptions({"auto", "slack", "margin"})] = "auto"
    C: kinds.PositiveOrAuto = "auto"
    calibration: Literal["auto", "sigmoid"] | None = "auto"

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"hierarchy": storable(self.hierarchy)}

    def _model(self, y: Features) -> HierarchyModel:
        # Columns of y may carry the names of the nodes, and then have to come in their order.
        graph = read_hierarchy(self.hierarchy, self._options.separator)
        check_order(graph, getattr(y, "columns", np.arange(len(graph.names))))
        return HierarchyModel(
            self.hierarchy, loss=self.loss, weights=self.weights, oracle=self._options.oracle, labels=self.labels,
            separator=self._options.separator,
        )  # fmt: skip

    def _rescaling_of(self, Y: Examples) -> str:
        if self.rescaling != "auto":
            return self.rescaling
        exact = self._options.oracle == "milp" or read_hierarchy(self.hierarchy, self._options.separator).is_forest
        return "slack" if exact else "margin"

    def _known_names(self) -> Sequence[Any]:
        return read_hierarchy(self.hierarchy, self._options.separator).names

    def _allowed(self) -> Ints | None:
        assert isinstance(self.model_, HierarchyModel)
        if self.model_.labels != "path":
            return None
        # What a training row ends with, and all that is above it.
        ends = self.model_.structure.ends
        return self.model_.closed(np.eye(ends.shape[0], dtype=np.int64)[ends > 0])

    def _complete(self, given: GivenSets, model: LabelSetModel) -> Ints:
        # Names need not name what is above them, and what is above an active node is active, whoever has looked.
        assert isinstance(model, HierarchyModel)
        if given.named:
            return model.closed(given.sets)
        return given.sets if given.missing is None else np.where(given.missing, model.closed(given.sets), given.sets)

    def _coherent(self, probabilities: Floats) -> Ints:
        graph = read_hierarchy(self.hierarchy, self._options.separator)
        for p, q in graph.deep_first():
            np.maximum(probabilities[:, p], probabilities[:, q], out=probabilities[:, p])
        return graph.topological()

    def closed(self, y: ArrayLike) -> Ints:
        """Label sets with the ancestors of their nodes added: what `fit` wants.

        Parameters
        ----------
        y : array-like of shape (n, k)

        Returns
        -------
        ndarray of shape (n, k)
        """
        return self._model(y).closed(y)
