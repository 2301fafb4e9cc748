"""Structural SVM over any model: `StructuralSVM`."""

import copy
from dataclasses import field
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import ArrayLike, Bools, Floats
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import parameters
from widemargin.estimators.structured.training import Chosen, StructuralEstimator
from widemargin.exceptions import CapabilityError, DataError
from widemargin.structured.learners.example_rows import as_examples, count, potentials_of
from widemargin.structured.model import Examples, Weights


@parameters
class StructuralSVM(StructuralEstimator):
    """Structural SVM with slack or margin rescaling, for labels of any structure.

    It minimises `1/2 |w|^2 + C sum_i H_i(w)` with

    - `H_i = max_y L(y, y_i) (1 + f(y) - f(y_i))` for slack rescaling: a label that is beaten by the margin costs
      nothing, however large its loss; multiplying the loss by a number is the same as multiplying C by it.
    - `H_i = max_y L(y, y_i) + f(y) - f(y_i)` for margin rescaling: labels of large loss have to be beaten by more.

    Slack rescaling often makes the better predictor, but its worst label is harder to find; `search` finds it exactly
    where the model's oracle can answer enough (Choi, Meshi and Srebro 2016, corrected).

    Parameters
    ----------
    model : StructuredModel
        Joint features, loss, oracle and decoder: one of `widemargin.structured.models` or your own. It is copied, never
        changed.
    C : float, default=1.0
        Weight of the losses; the papers' regulariser is `1 / (C n)`. Raising it fits the training examples more
        closely. The best C for slack rescaling is many times smaller than that for margin rescaling.
    rescaling : {"slack", "margin"}, default="slack"
    search : str or callable, default="auto"
        How slack rescaling finds its worst label: "auto", "direct", "levels", "edge", "angular", "level" or "hull".
        "auto" takes the exact search that is cheapest for the oracle, and "hull", which is heuristic, for an oracle
        with free questions only (with a warning). Where widemargin-papers is installed, "bisecting", "binary" and
        "sarawagi-gupta" are the searches that the paper compares with; "sarawagi-gupta" needs `solver="cutting-plane"`.
        A search of your own is a function of the protocol `widemargin.structured.oracle.Search`; it is exact if its
        attribute `exact` says so.
    solver : {"bcfw", "sgd", "cutting-plane", "one-slack"}, default="bcfw"
        Block-coordinate Frank-Wolfe; the others, Pegasos steps and cutting planes with a slack per example or one in
        all, exist for comparisons, and are in widemargin-papers.
    tol : float, default=0.05
        Relative duality gap at which to stop.
    max_iter : int, default=1000
        Most passes over the examples; cutting planes: rounds, of one pass each.
    debug : bool, default=False
        For a model under development: compare every answer of the oracle with the model's features and loss, and with
        labels that may not be better (`docs/structured.md`).
    warm_start : bool, default=False
        Go on from the dual point of the last `fit`, which is kept in `blocks_`. C, solver and tolerances may differ;
        where examples, labels, losses or rescaling do, training starts afresh.
    random_state : int, RandomState or None, default=None
        Order of the examples.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning; its certificate is computed after that.
    callbacks : sequence of callable, default=None
        Each is called with a `Progress` after every pass; returning True stops the fit.
    n_jobs : int, default=None
        Threads of the certificate passes and of the rounds of the cutting planes; changes no result. None means 1. With
        more, a model of your own is asked by several threads at once.
    solver_options : StructuralOptions or dict, default=None
        How it trains in detail: iterates, certificates, searches, interrupts and logging.

    Attributes
    ----------
    coef_ : ndarray of shape (d, S)
        Weights of the rows of an example, a column per number that a label chooses.
    theta_ : ndarray of shape (P,)
        Weights of the features that do not depend on x.
    primal_, dual_, gap_ : float
        Upper bound of the objective at these weights, lower bound of its optimum, relative difference.
    certified_ : bool
        Whether the oracle's answers are exact, so that `primal_` is proved; else it counts only labels that were found.
    proved_primal_, proved_gap_ : float
        Upper bound and relative difference that are always proved: where `certified_` is False, by a relaxation that
        the oracle offers (roof duality for pairs of labels); infinite and 1 if it offers none.
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

    model: Any = field(kw_only=False)
    C: kinds.Positive = 1.0
    debug: bool = False

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Examples, Y: Examples, sample_weight: ArrayLike | None = None) -> "StructuralSVM":
        """Train on labelled examples.

        Parameters
        ----------
        X : sequence or matrix
            Examples, as the model takes them; a table (pandas, polars) as its array.
        Y : sequence or matrix
            Their labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the examples, `>= 0`: an example counts C times its weight.

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
            If an answer of the oracle contradicts the model. Without `debug=True`, eight examples are checked, at
            random weights and at those of the result.
        """
        model = copy.deepcopy(self.model)
        self._train(
            model, as_examples(X), as_examples(Y), Chosen(self.C), sample_weight=sample_weight, debug=self.debug
        )
        return self

    def _set_weights(self, weights: Weights) -> None:
        super()._set_weights(weights)
        self.n_features_in_ = self.coef_.shape[0]

    def predict(self, X: Examples) -> list[Any]:
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

    def decode_certified(self, X: Examples) -> tuple[list[Any], Bools]:
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
        decode = getattr(self.model_, "decode_certified", None)
        if decode is None:
            raise CapabilityError(
                f"{type(self.model_).__name__} has no `decode_certified(potentials, theta)`, which returns a label and "
                "whether it is proved to be the best one; use `predict`."
            )
        decoded = [decode(u, self.theta_) for u in potentials_of(self.model_, as_examples(X), self.coef_)]
        return [label for label, _ in decoded], np.array([proved for _, proved in decoded], dtype=bool)

    def margins(self, X: Examples, Y: Examples) -> Floats:
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
        X, Y = _pairs(X, Y)
        u = potentials_of(self.model_, X, self.coef_)
        return self._margins((X[i], Y[i], own) for i, own in enumerate(u))

    def score(self, X: Examples, Y: Examples) -> float:
        """Minus the mean loss of the predictions: 0 is perfect.

        Parameters
        ----------
        X, Y : sequence or matrix
        """
        X, Y = _pairs(X, Y)
        losses = [self.model_.loss(y, Y[i]) for i, y in enumerate(self.predict(X))]
        return -float(np.mean(losses))


def _pairs(X: Examples, Y: Examples) -> tuple[Examples, Examples]:
    """Examples and their labels, of which there must be as many."""
    X, Y = as_examples(X), as_examples(Y)
    if count(X) != count(Y):
        raise DataError(f"there are {count(X)} examples and {count(Y)} labels; each example needs one.")
    return X, Y
