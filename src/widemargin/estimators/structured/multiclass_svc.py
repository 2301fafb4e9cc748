"""One of several classes, with costs: `MulticlassSVC`."""

from dataclasses import field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import ArrayLike, Features, Floats
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import checked_rows, refuse_one_class
from widemargin.estimators._options import parameters
from widemargin.estimators.kernel_svm.kernel_model import labels_of
from widemargin.estimators.structured.automatic import Automatic, choose
from widemargin.estimators.structured.training import ReadyMadeSVM
from widemargin.structured.learners.problem import example_weights
from widemargin.structured.models import MulticlassModel


@parameters
class MulticlassSVC(ClassifierMixin, ReadyMadeSVM):  # type: ignore[misc]
    """Multi-class SVM that trains all classes together, with any cost of taking one class for another.

    The score of class c is `x . w_c + b_c` (Crammer and Singer 2001). With 0/1 costs slack and margin rescaling are the
    same problem; with a cost matrix slack rescaling weighs violations by their cost, and margin rescaling asks for
    margins as large as the cost (Tsochantaridis, Hofmann, Joachims and Altun 2005).

    Parameters
    ----------
    cost : array-like of shape (S, S), default=None
        `cost[i, j] >= 0` of predicting class j where class i is true, 0 on the diagonal; classes in sorted order. None:
        0/1.
    feature_map, n_jobs
        As in `MultiLabelSVC`.
    C : float or "auto", default="auto"
        Weight of the losses; the papers' regulariser is `1 / (C n)`. "auto": chosen on rows held out, by the `scoring`
        of `solver_options`, or else by the mean cost (without `cost` the share of right classes). Rows of a class with
        fewer than 3 are never held out; C is 1 if the others are fewer than 20 rows, or of one class.
    rescaling : {"slack", "margin"}, default="slack"
        "slack" asks all classes for the same margin, and weighs the violation by the cost; "margin" asks for a margin
        as large as the cost.
    solver, tol, max_iter, search, warm_start, random_state, time_budget, callbacks, solver_options
        As in `StructuralSVM`.

    Attributes
    ----------
    C_ : float
        C, or what was chosen. If each column was divided by its own unit, it is for the divided columns.
    classes_ : ndarray of shape (S,)
    coef_ : ndarray of shape (S, d)
        With a feature map: one column for each of its features.
    feature_map_ : transformer
        Only with a feature map.
    intercept_ : ndarray of shape (S,)
    theta_ : ndarray of shape (0,)
    primal_, dual_, gap_, certified_, proved_primal_, proved_gap_, search_, status_
        As in `StructuralSVM`, and so are `n_iter_`, `n_oracle_calls_`, `n_queries_`, `averaged_` and `history_`.
    model_ : MulticlassModel
        The model that was trained.
    blocks_ : Blocks
        Only with `warm_start`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import MulticlassSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> cost = [[0, 1, 1], [1, 0, 1], [1, 5, 0]]  # taking class 2 for class 1 is dear
    >>> clf = MulticlassSVC(cost, C=0.1, max_iter=1000, random_state=0).fit(X, y)
    >>> clf.decision_function(X).shape
    (150, 3)
    """

    cost: kinds.Array | None = field(default=None, kw_only=False)
    C: kinds.PositiveOrAuto = "auto"

    model_: MulticlassModel = field(init=False)

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on labelled examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like of shape (n,)
            Classes, at least two.
        sample_weight : array-like of shape (n,), default=None
            Weights of the examples, `>= 0`: an example counts C times its weight.

        Returns
        -------
        self

        Raises
        ------
        DataError
            One class only among the rows with a weight, or a cost matrix that does not fit the classes.
        """
        X, labels = checked_rows(self, X, y)
        self._give_up()
        check_classification_targets(labels)
        refuse_one_class(np.unique(labels))
        if sample_weight is not None:
            weighed = example_weights(sample_weight, labels.shape[0]) > 0.0
            refuse_one_class(np.unique(labels[weighed]), "of rows with a weight above 0, ")
        model = MulticlassModel(self.cost)
        scoring = None if self.cost is None else _saved_cost
        # Its path begins at a larger C than those of label sets: below, all of them predict the same classes.
        chosen = choose(
            self, self.C, 0.0, model, X, labels, sample_weight, scoring, by_class=True, how=Automatic(slack_from=5)
        )
        self._train(model, self._training_rows(X, chosen), labels, chosen, sample_weight=sample_weight)
        return self

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes, sorted."""
        return np.asarray(self.model_.classes)

    def decision_function(self, X: Features) -> Floats:
        """Scores of the classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, S), or (n,) with two classes
            With two classes the score of the second minus that of the first.
        """
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """The class of largest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return labels_of(self.decision_function(X), self.classes_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _saved_cost(clf: MulticlassSVC, X: Features, y: npt.NDArray[Any]) -> float:
    """1 less the mean cost of the predictions, as a share of the largest cost."""
    model = clf.model_
    at = np.searchsorted(model.classes, y), np.searchsorted(model.classes, clf.predict(X))
    cost = np.asarray(model.cost, np.float64)[at]
    return 1.0 - float(cost.mean() / np.max(np.asarray(model.cost)))
