"""Labelling of sequences: `ChainSVC`."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context, clone
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import ArrayLike, Bools, Floats, Label, Matrix
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import parameters
from widemargin.estimators.structured.automatic import choose
from widemargin.estimators.structured.label_names import nothing
from widemargin.estimators.structured.training import ReadyMadeSVM
from widemargin.exceptions import DataError
from widemargin.rows import as_csr, stacked
from widemargin.structured.learners.example_rows import as_examples
from widemargin.structured.learners.problem import example_weights, held
from widemargin.structured.model import Examples
from widemargin.structured.models import ChainModel


@parameters
class ChainSVC(ReadyMadeSVM):
    """Label every step of a sequence, with a weight for every two successive states.

    The score of a labelling is `sum_t (x_t . w_{y_t} + b_{y_t}) + sum_t theta[y_{t-1}, y_t]`, the loss the number of
    wrong steps. Training and prediction are exact, by dynamic programming; with slack rescaling, memory grows with the
    square of the length of the longest sequence.

    Parameters
    ----------
    weights : mapping or array-like of shape (S,), default=None
        Loss of a wrong step by its true state (by name, or in sorted order), `>= 0`. None: 1 each.
    feature_map, n_jobs
        As in `MultiLabelSVC`.
    C : float or "auto", default="auto"
        Weight of the losses; the papers' regulariser is `1 / (C n)`. Slack rescaling wants a smaller C than margin
        rescaling. "auto": chosen on sequences held out, by the share of right steps or the `scoring` of
        `solver_options`; 1 with fewer than 20 sequences. `structural_search` looks more closely, and at both
        rescalings.
    rescaling : {"auto", "slack", "margin"}, default="auto"
        "slack" asks all labels for the same margin, and weighs the violation by the loss; "margin" asks for a margin as
        large as the loss. "auto": slack where no sequence is longer than 32 steps, else margin, because the gap of
        slack rescaling hardly closes on long sequences.
    solver, tol, max_iter, search, warm_start, random_state, time_budget, callbacks, solver_options
        As in `StructuralSVM`.

    Attributes
    ----------
    classes_ : ndarray of shape (S,)
        States, sorted.
    coef_ : ndarray of shape (S, d)
        With a feature map: one column for each of its features.
    feature_map_ : transformer
        Only with a feature map.
    intercept_ : ndarray of shape (S,)
    theta_ : ndarray of shape (S * S,)
        Weights of two successive states: `theta_.reshape(S, S)[before, after]`.
    C_ : float
        `C`, or what was chosen. If each column was divided by its own unit, it is for the divided columns.
    primal_, dual_, gap_, certified_, proved_primal_, proved_gap_, search_, status_
        As in `StructuralSVM`, and so are `n_iter_`, `n_oracle_calls_`, `n_queries_`, `averaged_` and `history_`.
    model_ : ChainModel
        The model that was trained.
    blocks_ : Blocks
        Only with `warm_start`.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import ChainSVC
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(length, 2)) for length in (3, 5, 4, 6)]
    >>> Y = [np.where(x[:, 0] > 0, "up", "down") for x in X]
    >>> ChainSVC(C=1.0, max_iter=1000, random_state=0).fit(X, Y).score(X, Y)
    1.0
    """

    C: kinds.PositiveOrAuto = "auto"
    weights: Annotated[Mapping[Label, float] | ArrayLike | None, dict, "array-like", None] = None
    rescaling: Annotated[str, StrOptions({"auto", "slack", "margin"})] = "auto"

    model_: ChainModel = field(init=False)

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Examples, y: Examples, sample_weight: ArrayLike | None = None) -> Self:
        """Train on labelled sequences.

        Parameters
        ----------
        X : sequence of n array-likes or sparse matrices of shape (T_i, d)
        y : sequence of n array-likes of shape (T_i,)
            States. NaN or None: unknown; the sequence is cut there into examples of their own (or see `unknown` of
            `solver_options`). -1 is a state like any other.
        sample_weight : array-like of shape (n,), default=None
            Weights of the examples, `>= 0`: an example counts C times its weight. `C="auto"` trains with them, and
            scores all sequences alike.

        Returns
        -------
        self

        Raises
        ------
        DataError
            An empty sequence, or labels that do not fit the sequences.
        """
        if y is None:
            raise DataError("ChainSVC requires y to be passed, but the target y is None: give labels.")
        X, y = as_examples(X), as_examples(y)
        sequences = [_steps(x, f"sequence {i}") for i, x in enumerate(X)]
        known = [~_unknown(states) for states in y]
        if not all(map(np.all, known)):
            if [len(part) for part in known] != [x.shape[0] for x in sequences]:
                raise DataError("the labels have other lengths than the sequences; give a state or NaN for every step.")
            if self._options.unknown == "completed":
                options = replace(self._options, unknown="left out")
                of_known = clone(self).set_params(solver_options=options).fit(X, y, sample_weight)
                y = [of_known._completed(*example) for example in zip(sequences, y, known, strict=True)]
            else:
                weights = example_weights(sample_weight, len(known))
                # Sequences and labels are cut where nobody has looked; every part has the weight of its sequence.
                parts, labels, whose = list[Matrix](), list[npt.NDArray[Any]](), list[int]()
                for i, there in enumerate(known):
                    ends = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]]).astype(np.int8)))
                    for first, last in ends.reshape(-1, 2).tolist():
                        parts.append(sequences[i][first:last])
                        labels.append(np.asarray(_entries(y[i])[first:last].tolist()))
                        whose.append(i)
                if not parts:
                    raise DataError("y holds nothing but NaN or None: somebody has to have looked at some step.")
                sequences, y, sample_weight = parts, labels, weights[whose]
        model, rows = ChainModel(self.weights), sequences
        chosen = choose(self, self.C, 0.0, model, sequences, y, sample_weight)
        self._give_up()
        if sequences:
            self.n_features_in_ = sequences[0].shape[1]
            if len({x.shape[1] for x in sequences}) == 1:
                # one map for the steps of all sequences
                steps = self._training_rows(stacked(sequences), chosen)
                ends = np.cumsum([0, *(x.shape[0] for x in sequences)])
                rows = [steps[first:last] for first, last in itertools.pairwise(ends)]
        self._train(model, rows, y, chosen, sample_weight=sample_weight)
        return self

    def _completed(self, steps: Matrix, states: ArrayLike, known: Bools) -> npt.NDArray[Any]:
        """The labelling of largest score among those that agree with what is known."""
        u, at = self._scores(steps), np.flatnonzero(known)
        on = np.zeros(u.shape)
        if at.size:
            on[at, self.model_.encode(_entries(states)[at].tolist())] = 1.0
        return np.asarray(self.model_.decode(None, u + held(on, on > 0.0), self.theta_))

    def _rescaling_of(self, Y: Examples) -> str:
        # On 24 drawn problems that had no part in this number, of 12 to 128 steps, both labelled new sequences equally
        # well, and margin rescaling took a fifth to a tenth of the time.
        automatic = "slack" if max(map(len, Y), default=0) <= 32 else "margin"
        return automatic if self.rescaling == "auto" else self.rescaling

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The states, sorted."""
        return np.asarray(self.model_.states)

    def predict(self, X: Examples) -> npt.NDArray[np.object_]:
        """The labelling of largest score of every sequence.

        Parameters
        ----------
        X : sequence of n array-likes or sparse matrices of shape (T_i, d)

        Returns
        -------
        ndarray of shape (n,)
            Of objects, each an ndarray of shape (T_i,): `cross_val_predict` can join such arrays, and no lists of them.
        """
        check_is_fitted(self)
        # NumPy would make a matrix of a list of sequences that are equally long.
        return np.fromiter((self.model_.decode(None, u, self.theta_) for u in self._potentials(X)), dtype=object)

    def margins(self, X: Examples, y: Examples) -> Floats:
        """Scores of the labels given minus the largest scores of any others (of positive loss), for `margin_report`.

        Parameters
        ----------
        X : sequence of n array-likes or sparse matrices of shape (T_i, d)
        y : sequence of n array-likes of shape (T_i,)

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
        u, y = list(self._potentials(X)), as_examples(y)
        if [len(states) for states in y] != [own.shape[0] for own in u]:
            raise DataError("the labels have other lengths than the sequences; give a state for every step.")
        return self._margins((None, y[i], own) for i, own in enumerate(u))

    def _potentials(self, X: Examples) -> Iterator[Floats]:
        """Potentials of checked sequences."""
        for i, x in enumerate(as_examples(X)):
            steps = _steps(x, f"sequence {i}")
            if steps.shape[1] != self.n_features_in_:
                raise DataError(f"sequence {i} has {steps.shape[1]} columns; the model knows {self.n_features_in_}.")
            yield self._scores(steps)

    def score(self, X: Examples, y: Examples, sample_weight: ArrayLike | None = None) -> float:
        """Share of the steps of known state, of all sequences, that are labelled right.

        Parameters
        ----------
        X, y : sequence
            As for `fit`.
        sample_weight : array-like of shape (n,), default=None
            Weights of the sequences: each step has the weight of its sequence.
        """
        predicted = self.predict(X)
        lengths = [len(states) for states in y]
        if lengths != [len(states) for states in predicted]:
            raise DataError(f"the labels have {sum(lengths)} steps, or other lengths than the sequences.")
        weight = np.repeat(example_weights(sample_weight, len(lengths)), lengths)
        known = ~np.concatenate([_unknown(states) for states in y])
        truth = np.asarray(np.concatenate([_entries(states) for states in y])[known].tolist())
        # Of states that are equal or not, as scikit-learn takes numbers such as 0.5 for no labels.
        right = truth == np.concatenate(predicted)[known]
        return float(accuracy_score(np.ones_like(right), right, sample_weight=weight[known]))


def _entries(states: ArrayLike) -> npt.NDArray[Any]:
    """The states of a sequence; those of a list as they are, where NumPy would make texts of NaN."""
    return states if isinstance(states, np.ndarray) else np.array(list(states), dtype=object)  # type: ignore[arg-type]


def _unknown(states: ArrayLike) -> Bools:
    """Which steps nobody has looked at."""
    entries = _entries(states)
    if entries.dtype != object:
        return np.isnan(entries) if entries.dtype.kind == "f" else np.zeros(entries.shape, dtype=bool)
    return np.array([nothing(entry) for entry in entries.flat], dtype=bool).reshape(entries.shape)


def _steps(x: ArrayLike | Matrix, what: str) -> Matrix:
    """Steps of a sequence as a matrix of finite numbers that is not empty."""
    rows = as_csr(x, what) if sparse.issparse(x) else np.asarray(x, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise DataError(f"{what} has shape {rows.shape}: give a matrix with one step per row, and at least one.")
    if not np.isfinite(rows.data if sparse.issparse(rows) else rows).all():
        raise DataError(f"{what} holds NaN or infinity; impute or leave out these steps.")
    return rows
