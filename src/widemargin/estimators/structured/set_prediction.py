"""What classifiers that predict label sets share: `fit`, the sets that may be predicted, scores and margins."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context, clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin._threads import blas_threads, limit_threads
from widemargin._typing import ArrayLike, Bools, Features, Floats, Ints
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import checked_rows
from widemargin.estimators.structured.automatic import choose
from widemargin.estimators.structured.label_names import GivenSets, example_jaccard, read_label_sets
from widemargin.estimators.structured.label_probabilities import LabelProbabilities, fit_probabilities, likely_sets
from widemargin.estimators.structured.training import ReadyMadeSVM
from widemargin.exceptions import CapabilityError, DataError
from widemargin.structured.learners.example_rows import check_lengths
from widemargin.structured.learners.problem import example_weights, held
from widemargin.structured.models import PowersetModel
from widemargin.structured.models.base import LabelSetModel


def _calibrates(estimator: Any) -> bool:
    """Whether an estimator has a predict_proba, and if not, why."""
    chosen = estimator.calibration == "auto" and (
        "probabilities_" in vars(estimator) or "model_" not in vars(estimator)
    )
    if estimator.calibration != "sigmoid" and not chosen:
        raise AttributeError("predict_proba needs calibrated probabilities: set calibration='sigmoid' before fit.")
    return True


class LabelSetSVM(ClassifierMixin, ReadyMadeSVM):  # type: ignore[misc]
    """A ready-made structural SVM that predicts 0/1 matrices.

    Of scikit-learn's `check_estimator` it fails, on purpose, the checks that give a vector or a column of values other
    than 0 and 1 as y (`tests/estimators/structured/test_multilabel_svc.py` lists them).
    """

    C: kinds.PositiveOrAuto
    calibration: str | None
    model_: LabelSetModel
    offset_: float
    probabilities_: LabelProbabilities
    _has_offset: ClassVar[bool] = True
    _seen: tuple[Features, Floats] | None = None  # in a search: the last rows and their scores, whatever the offset

    _stored_arrays: ClassVar[Mapping[str, str]] = {"classes_": "label k", "label_sets_": "count * k"}

    @abstractmethod
    def _model(self, y: Features) -> LabelSetModel:
        """The model that the parameters describe; refuses labels that do not fit them."""

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: Features, sample_weight: ArrayLike | None = None) -> Self:
        """Train on labelled examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like or sparse matrix of shape (n, k), or sequence of n collections of str
            0 or 1; -1 or NaN: unknown. Unknown labels are left out of the loss of their row, and count as off in its
            pairs (in a hierarchy: as on above a label that is on). Names of columns are kept. Or the names of each
            row's labels, as `predict_names` returns them.
        sample_weight : array-like of shape (n,), default=None
            Weights of the examples, `>= 0`: an example counts C times its weight. `C="auto"` trains with them, and
            scores all rows alike.

        Returns
        -------
        self

        Raises
        ------
        CapabilityError
            If `decode="expected"` is asked for without `calibration`.
        DataError
            If y is no 0/1 matrix, or does not fit the parameters.
        """
        if self._options.decode == "expected" and self.calibration is None:
            raise CapabilityError("decode='expected' goes by the probabilities of labels: set calibration='sigmoid'.")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None: give labels.")
        try:
            given = read_label_sets(y, self._known_names())
            model = self._model(y if hasattr(y, "columns") else given.sets)
            Y = self._complete(given, model)
            missing = np.zeros(Y.shape, dtype=bool) if given.missing is None else given.missing
            if missing.any() and Y[~missing].all():
                raise DataError(
                    "no label of y is 0: all known ones are 1, and -1 and NaN mean unknown. Give 0 for a label that is "
                    "absent."
                )
            check_lengths(X, Y)
        except Exception:  # as where rows are refused, an earlier fit stays as it is
            checked_rows(clone(self), X)  # what is wrong with the rows is said first
            raise
        X = checked_rows(self, X)
        self._give_up()
        marked, left_out = np.where(missing, -1, Y), given.missing
        if missing.any() and self._options.unknown == "completed":
            options = replace(self._options, unknown="left out", decode="best")
            first = clone(self).set_params(calibration=None, solver_options=options)
            if isinstance(model, PowersetModel):
                first.set_params(powerset=False)
            first.fit(X, marked, sample_weight)
            Y = first.model_.decode_all(first._potentials(X) + held(Y, ~missing), first.theta_)
            marked, left_out = Y, None
        elif missing.any() and isinstance(model, PowersetModel):
            raise CapabilityError(
                "powerset=True takes whole label sets, and some labels of y are unknown (-1 or NaN): complete them by "
                "solver_options={'unknown': 'completed'}, or use powerset=False."
            )
        if self._options.decode == "seen" and missing.any(axis=1).all():
            raise DataError("decode='seen' predicts label sets of training rows, and every row has an unknown label.")
        self.classes_ = given.classes
        chosen = choose(self, self.C, self._options.offset, model, X, marked, sample_weight, "jaccard", complete=Y)
        self.offset_ = chosen.offset
        # Ctrl-C keeps the weights so far; they never meet probabilities, or label sets, of an earlier fit.
        for name in ("label_sets_", "probabilities_", "_seen"):
            self.__dict__.pop(name, None)
        if self._options.decode == "seen":
            self.label_sets_ = np.unique(Y[~missing.any(axis=1)], axis=0)
        self.decode_: str = "best" if self._options.decode == "auto" else self._options.decode
        self._train(model, self._training_rows(X, chosen), Y, chosen, sample_weight=sample_weight, missing=left_out)
        wanted = self.calibration == "sigmoid" or self._options.decode == "expected"
        if wanted or (self.calibration == "auto" and not np.isnan(chosen.score)):
            weight, rng = example_weights(sample_weight, X.shape[0]), check_random_state(self.random_state)
            # Products and factors of dense matrices, which BLAS shares out among all threads of a fit.
            with limit_threads(self.n_jobs), blas_threads(float(X.shape[0]) ** 3):
                self.probabilities_, seen = fit_probabilities(X, Y, given.missing, weight, rng)
            if self._options.decode == "auto" and self._options.scoring is None:
                likely = likely_sets(seen, self._coherent(seen), self._allowed())
                # Both scores are of rows that were not learned from; there is none where C is given.
                if example_jaccard(marked[weight > 0.0], likely) > chosen.score:
                    self.decode_ = "expected"
        return self

    def _known_names(self) -> Sequence[Any] | None:
        """The names that labels may have, in their order; None where the training rows say it."""
        return None

    def _coherent(self, probabilities: Floats) -> Ints:
        """Raise probabilities to those of the labels that imply them, in place; labels, the implied ones first."""
        return np.arange(probabilities.shape[1])

    def _allowed(self) -> Ints | None:
        """The only label sets that there may be, where the model says so."""
        return None

    def _complete(self, given: GivenSets, model: LabelSetModel) -> Ints:
        """The label sets with labels that nobody has looked at as off."""
        return given.sets

    def predict(self, X: Features) -> Ints:
        """The label set of largest score of every example, among those that the option `decode` allows.

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
        """The predicted label sets as tuples of names out of `classes_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        """
        return [tuple(self.classes_[own == 1].tolist()) for own in self._decode(X)[0]]

    def score(self, X: Features, y: Features, sample_weight: ArrayLike | None = None) -> float:
        """Share of the examples whose label set is right in all labels that are known.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like or sparse matrix of shape (n, k), or sequence of n collections of str
        sample_weight : array-like of shape (n,), default=None
        """
        found = self._decode(X)[0]
        given = self._truth(y, len(found))
        wrong = given.sets != found
        if given.missing is not None:
            wrong &= ~given.missing
        return float(np.average(~wrong.any(axis=1), weights=example_weights(sample_weight, len(found))))

    def _truth(self, y: Features, n: int) -> GivenSets:
        """Labels of n examples as those of `fit` were read.

        Raises
        ------
        DataError
            If they do not fit the model, or are columns of names that come in another order.
        """
        given = read_label_sets(y, self.classes_.tolist())
        if given.sets.shape != (n, len(self.classes_)):
            raise DataError(f"y has the shape {given.sets.shape}; give one of {(n, len(self.classes_))}.")
        known = {name: column for column, name in enumerate(self.classes_.tolist())}
        for column, name in enumerate(given.classes.tolist() if hasattr(y, "columns") else ()):
            if known.get(name, column) != column:
                raise DataError(
                    f"column {column} of y is {name!r}, but that of the training labels was {self.classes_[column]!r}: "
                    "bring the columns into the order of classes_."
                )
        return given._replace(sets=self._complete(given, self.model_))

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
            If `decode` is "expected", which does not go by scores, or was set to "seen" after a `fit` without it, which
            kept no label sets.
        """
        if self._decoding() == "expected":
            raise CapabilityError("decode='expected' looks for no largest score: use predict, or another decode.")
        sets, u = self._decode(X)
        if self.model_.exact or self._options.decode == "seen":
            return sets, np.ones(u.shape[0], dtype=bool)
        proved = [self.model_.decode_certified(own[None, :], self.theta_)[1] for own in u]
        return sets, np.array(proved, dtype=bool)

    def _decoding(self) -> str:
        """The option `decode`, or what `fit` chose; models stored before there was a choice have the best sets."""
        return vars(self).get("decode_", "best") if self._options.decode == "auto" else self._options.decode

    def _decode(self, X: Features) -> tuple[Ints, Floats]:
        """The predictions, and the potentials by which they are the best of all label sets."""
        u, decode = self._potentials(X), self._decoding()
        if decode == "expected":
            if "probabilities_" not in vars(self) and self.status_ != "interrupted":
                raise CapabilityError("decode='expected' goes by probabilities: set calibration='sigmoid' before fit.")
            probabilities = self.predict_proba(X)
            return likely_sets(probabilities, self._coherent(probabilities), self._allowed()), u
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
            gain = np.zeros((len(empty), sets.shape[1]))
            beyond = 1.0 + 2.0 * (np.abs(u[empty]).sum(axis=1) + np.abs(self.theta_).sum())
            gain[np.arange(len(empty)), wanted] = beyond
            u[empty] = self.model_.raised(u[empty], gain)
            sets[empty] = self.model_.decode_all(u[empty], self.theta_)
        return sets, u

    def decision_function(self, X: Features) -> Floats:
        """For every label the best score with it on, minus the best score with it off.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k)
            Positive where `predict` has the label, up to ties. Where the argmax is local search, the other labels stay
            as predicted.
        """
        u = self._potentials(X)
        return self.model_.max_marginals(u, self.theta_)

    @available_if(_calibrates)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Features) -> Floats:
        """Calibrated probability of every label; of a hierarchy, no node has a larger one than its parents.

        They come from least squares in the features of a Gaussian kernel, whatever the model's own features, and from a
        sigmoid for each label, fitted on scores that training rows got from models without them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k)

        Raises
        ------
        CapabilityError
            If `calibration` was set after `fit`, or `fit` was interrupted.
        """
        check_is_fitted(self)
        if "probabilities_" not in vars(self):
            if self.status_ == "interrupted":
                raise CapabilityError(
                    "fit was interrupted before it made probabilities: fit again, or go by decode='best'."
                )
            raise CapabilityError("the model was fitted without calibration: set calibration='sigmoid' before fit.")
        probabilities = self.probabilities_(checked_rows(self, X, reset=False))
        self._coherent(probabilities)
        return probabilities

    def predict_scores(self, X: Features) -> Floats:
        """What ranks labels, shape (n, k): `predict_proba` where there is one, else `decision_function`."""
        return self.predict_proba(X) if hasattr(self, "predict_proba") else self.decision_function(X)

    def _potentials(self, X: Features) -> Floats:
        check_is_fitted(self)
        known = self._seen
        u = known[1] if known is not None and known[0] is X else self._scores(checked_rows(self, X, reset=False))
        if self._in_search:
            self._seen = X, u
        offset = self._options.offset
        return self.model_.raised(u, self.offset_ if offset == "auto" else float(offset))

    def _refuse_arrays(self) -> None:
        super()._refuse_arrays()
        if "model_" in vars(self) and self.model_.n_labels != len(self.classes_):
            raise ValueError(f"{len(self.classes_)} labels are named, the model has {self.model_.n_labels}")
        if "probabilities_" in vars(self):
            held, k = self.probabilities_, len(self.classes_)
            if held.landmarks.shape[1] != self.n_features_in_ or held.intercept.shape[0] != k:
                raise ValueError(f"its probabilities are not of {self.n_features_in_} columns and {k} labels")

    def margins(self, X: Features, y: Features) -> Floats:
        """Scores of the labels given minus the largest scores of any others (of positive loss), for `margin_report`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like or sparse matrix of shape (n, k), or sequence of n collections of str

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
        given = self._truth(y, X.shape[0])
        if given.missing is not None:
            raise DataError("some labels of y are unknown (-1 or NaN), and margins are those of whole label sets.")
        u = self._scores(X)
        return self._margins((None, labels, u[i : i + 1]) for i, labels in enumerate(given.sets))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags
