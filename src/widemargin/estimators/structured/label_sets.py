"""Classifiers that predict label sets: `MultiLabelSVC`, with pairs of labels, and `HierarchicalSVC`."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from numbers import Integral
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import Bools, Features, Floats, Ints
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import checked_rows
from widemargin.estimators._options import parameters
from widemargin.estimators.structured.automatic import choose
from widemargin.estimators.structured.label_names import GivenSets, read_label_sets
from widemargin.estimators.structured.training import ReadyMadeSVM
from widemargin.exceptions import CapabilityError, DataError
from widemargin.rows import as_csr
from widemargin.structured.model import Examples
from widemargin.structured.models import HierarchyModel, MultiLabelModel
from widemargin.structured.models.base import LabelSetModel
from widemargin.structured.models.label_graph import Hierarchy, check_order, read_hierarchy, storable
from widemargin.structured.models.multilabel import LOSSES, ORACLES


class LabelSetSVM(ClassifierMixin, ReadyMadeSVM):  # type: ignore[misc]
    """A ready-made structural SVM that predicts 0/1 matrices.

    Of scikit-learn's `check_estimator` it fails, on purpose, the checks that give a vector or a column of values other
    than 0 and 1 as y (`tests/estimators/structured/test_multilabel_svc.py` lists them).
    """

    C: kinds.PositiveOrAuto
    offset: kinds.AnyNumberOrAuto
    model_: LabelSetModel
    offset_: float

    _stored_arrays: ClassVar[Mapping[str, str]] = {"classes_": "label S", "label_sets_": "count * S"}

    @abstractmethod
    def _model(self, y: Features) -> LabelSetModel:
        """The model that the parameters describe; refuses labels that do not fit them."""

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: Features, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Train on labelled examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like or sparse matrix of shape (n, k), or sequence of n collections of str
            0 or 1; column names are kept, where it has some. -1 or NaN: nobody has looked; such labels are left out of
            the loss of their row, and count as off in its pairs (of a hierarchy: as on above what is on). Or the names
            of each row's labels; `predict_names` returns such ones.
        sample_weight : array-like of shape (n,), default=None
            Weights of the examples, `>= 0`: C times them is what the losses weigh. The choice of C trains with
            them, but scores all rows alike.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If y is no 0/1 matrix, or does not fit the parameters.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None: give labels.")
        X = checked_rows(self, X)
        given = read_label_sets(y, self._known_names())
        model = self._model(y if hasattr(y, "columns") else given.sets)
        Y = self._complete(given, model)
        missing = np.zeros(Y.shape, dtype=bool) if given.missing is None else given.missing
        marked = Y if given.missing is None else np.where(missing, -1, Y)
        self.classes_ = given.classes
        chosen = choose(self, self.C, self.offset, model, X, marked, sample_weight, "jaccard", complete=Y)
        self.offset_ = chosen.offset
        self._train(
            model, self._training_rows(X, chosen.gamma), Y, C=chosen.C, spent=chosen.seconds,
            sample_weight=sample_weight, missing=given.missing,
        )  # fmt: skip
        self.__dict__.pop("label_sets_", None)
        if self._options.decode == "seen":
            self.label_sets_ = np.unique(Y[~missing.any(axis=1)], axis=0)
        return self

    def _known_names(self) -> Sequence[Any] | None:
        """The names that labels may have, in their order; None where the training rows say it."""
        return None

    def _complete(self, given: GivenSets, model: LabelSetModel) -> Ints:
        """The label sets with labels that nobody has looked at as off."""
        return given.sets

    def predict(self, X: Features) -> Ints:
        """The label set of largest score of every example, of those that the option `decode` allows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k)
            0 or 1.
        """
        return self._decode(X)[0]

    def predict_names(self, X: Features) -> list[tuple[Any, ...]]:
        """The same by names: for every example those of its labels, out of `classes_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        """
        return [tuple(self.classes_[own == 1].tolist()) for own in self._decode(X)[0]]

    def score(self, X: Features, y: Features, sample_weight: npt.ArrayLike | None = None) -> float:
        """Share of the examples whose label set is right in all labels, of those that somebody has looked at.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like or sparse matrix of shape (n, k), or sequence of n collections of str
        sample_weight : array-like of shape (n,), default=None
        """
        found = self._decode(X)[0]
        given = read_label_sets(y, self.classes_.tolist())
        if given.sets.shape != found.shape:
            raise DataError(f"y has the shape {given.sets.shape}; give one of {found.shape}.")
        wrong = given.sets != found
        if given.missing is not None:
            wrong &= ~given.missing
        right = np.logical_not(wrong.any(axis=1)).astype(np.float64)
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)))

    def decode_certified(self, X: Features) -> tuple[Ints, Bools]:
        """The predictions, and which of them are proved to have the largest score of all label sets that are allowed.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        labels : ndarray of shape (n, k)
        proved : ndarray of bool of shape (n,)
            All True where the argmax is exact.

        Raises
        ------
        CapabilityError
            If `decode` became "seen" after `fit`, which keeps the label sets only where it is asked to.
        """
        sets, u = self._decode(X)
        if self.model_.exact or self._options.decode == "seen":
            return sets, np.ones(u.shape[0], dtype=bool)
        proved = [self.model_.decode_certified(own[None, :], self.theta_)[1] for own in u]
        return sets, np.array(proved, dtype=bool)

    def _decode(self, X: Features) -> tuple[Ints, Floats]:
        """The predictions, and the potentials by which they are the best of all label sets."""
        u, decode = self._potentials(X), self._options.decode
        if decode == "seen":
            if "label_sets_" not in vars(self):
                raise CapabilityError("decode='seen' needs the label sets of the training rows: set it before fit.")
            scores = self.model_.scores_of(self.label_sets_, u, self.theta_)
            return self.label_sets_[scores.argmax(axis=1)].astype(np.int64), u
        sets = self.model_.decode_all(u, self.theta_)
        empty = np.flatnonzero(~sets.any(axis=1))
        if decode == "nonempty" and len(empty):
            # Where the empty set is the best one, the best other set has the label of largest max-marginal: a gain
            # beyond all others together forces it in.
            wanted = self.model_.max_marginals(u[empty], self.theta_).argmax(axis=1)
            u[empty, wanted] += 1.0 + 2.0 * (np.abs(u[empty]).sum(axis=1) + np.abs(self.theta_).sum())
            sets[empty] = self.model_.decode_all(u[empty], self.theta_)
        return sets, u

    def decision_function(self, X: Features) -> Floats:
        """How much every label is wanted: the best score with it on, minus the best score with it off.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k)
            Positive where `predict` has the label, up to ties. Where the argmax is local search, the other labels are
            kept as predicted.
        """
        u = self._potentials(X)
        return self.model_.max_marginals(u, self.theta_)

    def _potentials(self, X: Features) -> Floats:
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        return self._scores(X) + (self.offset_ if self.offset == "auto" else self.offset)

    def margins(self, X: Features, y: Features) -> Floats:
        """Scores of the labels given minus the largest scores of any others (of positive loss), for `margin_report`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like or sparse matrix of shape (n, k)

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
        X = checked_rows(self, X, reset=False)
        Y = as_csr(y, "y").toarray() if sparse.issparse(y) else np.asarray(y)
        if Y.shape != (X.shape[0], len(self.classes_)):
            raise DataError(f"y has the shape {Y.shape}; give one of {(X.shape[0], len(self.classes_))}.")
        u = self._scores(X)
        return self._margins((None, labels, u[i : i + 1]) for i, labels in enumerate(Y))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags


@parameters
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
    edges : {"auto", "full", "tree"}, None or sequence of pairs, default="auto"
        Pairs of labels with a weight: all ("full"), a maximum spanning tree of the labels' mutual information, none, or
        these. "auto": all pairs of up to 64 labels, else a tree, as time and memory grow with rows times pairs.
    loss : {"hamming", "jaccard", "f1", "exact"}, default="hamming"
        What training makes small, in either rescaling: the number of wrong labels, 1 less the Jaccard index or F1 of
        the two label sets, or 1 for any wrong set. All but "hamming" are exact up to 18 labels, whatever the edges;
        beyond, by local search.
    weights : array-like of shape (k,), default=None
        Of "hamming": loss of each wrong label, `>= 0`. None: 1 each.
    oracle : {"auto", "enumeration", "greedy", "tree", "roof", "lp", "milp"}, default="auto"
        How labels are found in training. "auto": exactly where that is cheap (forests; up to 18 labels), else by
        "greedy" local search. "roof" trains on the relaxation of the problem, by maximum flow: labels may be fractions
        then, so that `primal_` is an upper bound for the label sets too, and `dual_` and `gap_` are those of the
        relaxed problem; slower, and mostly not better. "lp" is the same by linear programming, and "milp" exact by
        integer programming; both are slow.
    restarts : int, default=1
        Random starts of the local search after the first. More find better labels and take longer. Predictions make 10
        more.
    fit_intercept : bool, default=True
        Give the rows a last column of ones; its weights are regularised like the others.
    feature_map : {None, "nystroem", "fourier"}, default=None
        Train on explicit features that approximate a kernel, at a cost linear in the rows. Which kernel, its `gamma`
        and `n_components` are in `solver_options`; the RBF kernel by default.
    offset : float or "auto", default="auto"
        Added to the score of every label when predicting, so that more labels are predicted (fewer, if negative): what
        training with Hamming counts finds best is too few labels for Jaccard and F1. "auto": chosen together with C; 0
        where C is a number.
    C : float or "auto", default="auto"
        Weight of the losses; the papers' regulariser is `1 / (C n)`. Slack rescaling wants another C than margin
        rescaling, by factors of 3 to 30. "auto": chosen on rows held out, by example Jaccard or the `scoring` of
        `solver_options`; 1 with fewer than 20 rows. `structural_search` looks more closely, and at both rescalings.
    rescaling : {"auto", "slack", "margin"}, default="auto"
        "slack" asks all labels for the same margin, and weighs the violation by the loss; "margin" asks for a margin as
        large as the loss. "auto": slack up to 128 labels, margin beyond: the products of slack rescaling grow with the
        labels, and its gap closes ever more slowly (with 30 of 1000 labels a row it was above 70% after 60 passes).
    solver : {"bcfw", "sgd", "cutting-plane", "one-slack"}, default="bcfw"
        Block-coordinate Frank-Wolfe, Pegasos steps, or cutting planes with a slack per example or one in all.
    tol : float, default=0.05
        Relative duality gap at which to stop.
    max_iter : int, default=1000
        Most passes over the examples; cutting planes: rounds, of one pass each.
    search : str or callable, default="auto"
        How slack rescaling finds its label: "auto", the cheapest exact search, or by name as in `StructuralSVM`.
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
        Threads of the certificate passes; changes no result. None: all that cores, `OMP_NUM_THREADS` and
        threadpoolctl allow.
    solver_options : StructuralOptions or dict, default=None
        How it trains in detail: iterates, certificates, searches, interrupts and logging.

    Attributes
    ----------
    coef_ : ndarray of shape (k, d)
        With a feature map: one column for each of its features.
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
        `C`, or what was chosen.
    offset_ : float
        `offset` at the time of `fit`, or what was chosen; of use where `offset` is "auto".
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
    >>> clf.gap_ <= 0.05
    True
    """

    edges: Annotated[str | npt.ArrayLike | None, StrOptions({"auto", "full", "tree"}), "array-like", None] = field(
        default="auto", kw_only=False
    )
    loss: Annotated[str, StrOptions(set(LOSSES))] = "hamming"
    weights: kinds.ArrayLike | None = None
    oracle: Annotated[str, StrOptions(set(ORACLES))] = "auto"
    rescaling: Annotated[str, StrOptions({"auto", "slack", "margin"})] = "auto"
    restarts: Annotated[int, Interval(Integral, 0, None, closed="left")] = 1
    C: kinds.PositiveOrAuto = "auto"
    offset: kinds.AnyNumberOrAuto = "auto"

    def _model(self, y: Features) -> MultiLabelModel:
        return MultiLabelModel(
            self.edges, loss=self.loss, weights=self.weights, oracle=self.oracle, restarts=self.restarts
        )

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
    feature_map : {None, "nystroem", "fourier"}, default=None
        Train on explicit features that approximate a kernel, at a cost linear in the rows. Which kernel, its `gamma`
        and `n_components` are in `solver_options`; the RBF kernel by default.
    offset : float or "auto", default="auto"
        Added to the score of every label when predicting, so that more labels are predicted (fewer, if negative): what
        training with Hamming counts finds best is too few labels for Jaccard and F1. "auto": chosen together with C; 0
        where C is a number.
    C : float or "auto", default="auto"
        Weight of the losses; the papers' regulariser is `1 / (C n)`. Slack rescaling wants another C than margin
        rescaling, by factors of 3 to 30. "auto": chosen on rows held out, by example Jaccard or the `scoring` of
        `solver_options`; 1 with fewer than 20 rows. `structural_search` looks more closely, and at both rescalings.
    rescaling : {"slack", "margin"}, default="slack"
        "slack" asks all labels for the same margin, and weighs the violation by the loss; "margin" asks for a margin as
        large as the loss.
    solver : {"bcfw", "sgd", "cutting-plane", "one-slack"}, default="bcfw"
        Block-coordinate Frank-Wolfe, Pegasos steps, or cutting planes with a slack per example or one in all.
    tol : float, default=0.05
        Relative duality gap at which to stop.
    max_iter : int, default=1000
        Most passes over the examples; cutting planes: rounds, of one pass each.
    search : str or callable, default="auto"
        How slack rescaling finds its label: "auto", the cheapest exact search, or by name as in `StructuralSVM`.
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
        Threads of the certificate passes; changes no result. None: all that cores, `OMP_NUM_THREADS` and
        threadpoolctl allow.
    solver_options : StructuralOptions or dict, default=None
        How it trains in detail: iterates, certificates, searches, interrupts and logging.

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
        `C`, or what was chosen.
    offset_ : float
        `offset` at the time of `fit`, or what was chosen; of use where `offset` is "auto".
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

    hierarchy: Annotated[Hierarchy, "array-like", HasMethods(["nodes", "edges"])] = field(kw_only=False)
    loss: Literal["nodes", "leaves"] = "nodes"
    weights: kinds.ArrayLike | None = None
    oracle: Literal["auto", "milp"] = "auto"
    labels: Literal["sets", "path"] = "sets"
    C: kinds.PositiveOrAuto = "auto"
    offset: kinds.AnyNumberOrAuto = "auto"

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"hierarchy": storable(self.hierarchy)}

    def _model(self, y: Features) -> HierarchyModel:
        # Columns of y may carry the names of the nodes, and then have to come in their order.
        graph = read_hierarchy(self.hierarchy, self._options.separator)
        check_order(graph, getattr(y, "columns", np.arange(len(graph.names))))
        return HierarchyModel(
            self.hierarchy, loss=self.loss, weights=self.weights, oracle=self.oracle, labels=self.labels,
            separator=self._options.separator,
        )  # fmt: skip

    def _known_names(self) -> Sequence[Any]:
        return read_hierarchy(self.hierarchy, self._options.separator).names

    def _complete(self, given: GivenSets, model: LabelSetModel) -> Ints:
        # Names need not name what is above them, and what is above an active node is active, whoever has looked.
        assert isinstance(model, HierarchyModel)
        if given.named:
            return model.closed(given.sets)
        return given.sets if given.missing is None else np.where(given.missing, model.closed(given.sets), given.sets)

    def closed(self, y: npt.ArrayLike) -> Ints:
        """Label sets with the ancestors of their nodes added: what `fit` wants.

        Parameters
        ----------
        y : array-like of shape (n, k)

        Returns
        -------
        ndarray of shape (n, k)
        """
        return self._model(y).closed(y)
