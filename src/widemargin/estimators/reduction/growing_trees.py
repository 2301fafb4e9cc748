"""Boosters of LightGBM and XGBoost that grow on costs that change from round to round.

Both libraries put the rows into bins once, and store the scores of all rows while trees are added. So further rounds at
other costs take no longer than their trees, and the state of a booster some rounds ago is its first trees.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _check_feature_names, _get_feature_names

from widemargin._typing import Bools, Features, Floats
from widemargin.estimators.reduction.cost_sensitive import last_step
from widemargin.estimators.thresholds.class_offsets import CERTAIN
from widemargin.exceptions import DataError
from widemargin.rows import length_of


@dataclass
class GrownTrees(ABC):
    """The first trees of a booster, as a scorer.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    before : Pipeline or None
        Fitted steps that make the features of the trees.
    booster : Booster
    rounds : int
    start : float
        Score before the first tree.
    missing : float
        The number that stands for a missing value, of XGBoost.
    names : ndarray of str or None
        Of the columns, where the rows to learn from had names.
    """

    classes_: npt.NDArray[Any]
    before: Pipeline | None
    booster: Any
    rounds: int
    start: float
    missing: float
    names: npt.NDArray[Any] | None

    @property
    def n_features_in_(self) -> int:
        """Number of features d."""
        return int(self._width() if self.before is None else self.before.n_features_in_)

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """Names of the features, where the trees learned from a table that has some."""
        if self.names is None:
            raise AttributeError("feature_names_in_: the trees learned from rows whose columns have no names.")
        return self.names

    def decision_function(self, X: Features) -> Floats:
        """Log odds of `classes_[1]`, shape (n,).

        Raises
        ------
        ValueError
            If X names its columns, and not as the rows that the trees learned from.
        """
        # LightGBM takes columns in any order for those that it knows, without a word.
        if self.names is not None and _get_feature_names(X) is not None:
            _check_feature_names(self, X, reset=False)
        # To both libraries a limit of 0 rounds means all trees.
        if self.rounds == 0:
            return np.full(length_of(X), self.start)
        return np.asarray(self._margins(X if self.before is None else self.before.transform(X)), np.float64)

    @abstractmethod
    def _width(self) -> int: ...

    @abstractmethod
    def _margins(self, X: Features) -> Floats: ...


class LightGBMTrees(GrownTrees):
    """Of LightGBM, whose boosters leave the start out."""

    def _width(self) -> int:
        return int(self.booster.num_feature())

    def _margins(self, X: Features) -> Floats:
        return np.asarray(self.booster.predict(X, raw_score=True, num_iteration=self.rounds) + self.start)


class XGBoostTrees(GrownTrees):
    """Of XGBoost."""

    def _width(self) -> int:
        return int(self.booster.num_features())

    def _margins(self, X: Features) -> Floats:
        rounds = (0, self.rounds)
        return np.asarray(
            self.booster.inplace_predict(X, iteration_range=rounds, predict_type="margin", missing=self.missing)
        )


class GrowingTrees(ABC):
    """A booster, the rows that it learns from, and rows held out.

    Parameters
    ----------
    estimator : LGBMClassifier, XGBClassifier, or a Pipeline that ends with one
        It stays as it is.
    labels : ndarray of shape (n,)
        For the steps before the trees, which are fitted once.
    classes : ndarray of shape (2,)
    X, held : array, CSR matrix or data frame of shape (n, d) and (p, d)
    share : float
        Of the weight, what `classes[1]` has at the first costs.

    Raises
    ------
    DataError
        If no column can be split.
    """

    MODULE: ClassVar[str]
    ROUNDS: ClassVar[tuple[str, ...]]
    """The names under which the number of trees may be given."""
    KINDS: ClassVar[tuple[tuple[str, ...], tuple[Any, ...]]]
    """Those of the way in which trees are added, and its values by which earlier trees stay as they are."""
    WEIGHING: ClassVar[tuple[str, ...]]
    """Those of what weighs classes."""
    trees: ClassVar[type[GrownTrees]]

    def __init__(
        self, estimator: Any, classes: npt.NDArray[Any], X: Features, labels: npt.NDArray[Any], held: Features,
        share: float,
    ) -> None:  # fmt: skip
        self.names = _get_feature_names(X)
        *steps, (_, booster) = steps_of(clone(estimator))
        self.before = Pipeline(steps).fit(X, labels) if steps else None
        if self.before is not None:
            X, held = self.before.transform(X), self.before.transform(held)
        self.missing: float = booster.get_params().get("missing", np.nan)
        # Boosting begins at the log odds of the class, which are infinite where the class has no weight.
        share = min(max(share, CERTAIN), 1.0 - CERTAIN)
        self.classes, self.rounds, self.start = classes, 0, float(logit(share))
        self.scores = np.full(length_of(held), self.start)
        self.booster = self._made(booster, X, held, share)

    @classmethod
    def why_not(cls, booster: Any) -> str | None:
        """Why a booster cannot grow at costs that change; None if it can."""
        settings, (names, kinds) = booster.get_params(), cls.KINDS
        for name in names:
            if name in settings and settings[name] not in kinds:
                return (
                    f"one_run=True adds trees to those that are there, and {name}={settings[name]!r} changes these. "
                    f"Use {name}={kinds[0]!r}, or one_run=False."
                )
        for name in cls.WEIGHING:
            if settings.get(name):
                return (
                    f"with one_run=True the goal says what each error costs; leave out {name}, or use one_run=False, "
                    "where it multiplies these costs."
                )
        return None

    @abstractmethod
    def _made(self, trees: Any, X: Features, held: Features, share: float) -> Any:
        """The booster before its first tree."""

    @abstractmethod
    def _add(self, rounds: int, slopes: Any) -> Floats:
        """Add trees by `slopes(scores, _) -> (first, second derivative)`; scores of the rows held out."""

    def grow(self, rounds: int, second: Bools, weight: Floats) -> None:
        """Add trees that tell `classes[1]` (`second`) by the logistic loss of weighted rows."""

        # The objective of the booster: weights and labels come from the costs of now, so they cannot be stored in its
        # data set. Both libraries keep scores and slopes in single precision.
        weight, second = weight.astype(np.float32), second.astype(np.float32)

        def slopes(scores: Floats, _: Any) -> tuple[Floats, Floats]:
            likely = expit(scores.astype(np.float32, copy=False))
            return weight * (likely - second), weight * likely * (np.float32(1.0) - likely)

        self.scores = self._add(rounds, slopes)

    def grown(self) -> GrownTrees:
        """The scorer of all trees so far; it stays when more are added."""
        return self.trees(self.classes, self.before, self.booster, self.rounds, self.start, self.missing, self.names)


class GrowingLightGBM(GrowingTrees):
    """LightGBM."""

    MODULE, WEIGHING = "lightgbm", ("class_weight", "is_unbalance", "unbalance", "scale_pos_weight")
    ROUNDS = "num_iterations", "num_boost_round", "num_rounds", "num_trees", "max_iter", "n_estimators"
    KINDS = ("boosting", "boost", "boosting_type"), ("gbdt", "goss")
    trees = LightGBMTrees

    def _made(self, trees: Any, X: Features, held: Features, share: float) -> Any:
        import lightgbm

        left_out = {*self.ROUNDS, "class_weight", "objective", "importance_type"}
        settings = {name: value for name, value in trees.get_params().items() if name not in left_out}
        settings = {name: value for name, value in settings.items() if value is not None} | {"objective": "none"}
        n, p = length_of(X), length_of(held)
        rows = lightgbm.Dataset(X, np.zeros(n), init_score=np.full(n, self.start), params=settings).construct()
        if not any(rows.feature_num_bin(j) for j in range(rows.num_feature())):
            raise DataError(
                f"LightGBM can split none of the {rows.num_feature()} columns of {n} rows: min_child_samples="
                f"{settings.get('min_child_samples')} of them must be on either side. Lower it, or give more rows."
            )
        beside = lightgbm.Dataset(held, np.zeros(p), init_score=self.scores, reference=rows, params=settings)
        return lightgbm.Booster(settings, rows).add_valid(beside, "held")

    def _add(self, rounds: int, slopes: Any) -> Floats:
        found: list[Floats] = []

        def keep(scores: Floats, _: Any) -> tuple[str, float, bool]:
            found.append(scores.copy())
            return "scores", 0.0, False

        for _ in range(rounds):
            self.booster.update(fobj=slopes)
        # Where no leaf can be split any more there are fewer rounds than were asked for.
        self.rounds = int(self.booster.current_iteration())
        self.booster.eval_valid(keep)
        return found[0]


class GrowingXGBoost(GrowingTrees):
    """XGBoost."""

    MODULE, WEIGHING, ROUNDS = "xgboost", ("scale_pos_weight",), ("n_estimators",)
    KINDS = ("booster",), (None, "gbtree")
    trees = XGBoostTrees

    def _made(self, trees: Any, X: Features, held: Features, share: float) -> Any:
        import xgboost

        settings = {name: value for name, value in trees.get_xgb_params().items() if value is not None}
        given = trees.get_params()
        about = {name: given[name] for name in ("enable_categorical", "feature_types")} | {"missing": self.missing}
        # Only "hist", the default, takes rows that are in bins already.
        sorts = given["tree_method"] in ("exact", "approx")
        kind, bins = (xgboost.DMatrix, {}) if sorts else (xgboost.QuantileDMatrix, {"max_bin": given["max_bin"] or 256})
        self._rows = kind(X, np.zeros(length_of(X)), **about, **bins)
        self._beside = xgboost.DMatrix(held, **about)
        settings |= {"objective": "binary:logistic", "base_score": share}
        return xgboost.Booster(settings, [self._rows, self._beside])

    def _add(self, rounds: int, slopes: Any) -> Floats:
        for _ in range(rounds):
            self.booster.update(self._rows, self.rounds, fobj=slopes)
            self.rounds += 1
        return np.asarray(self.booster.predict(self._beside, output_margin=True), np.float64)


LIBRARIES: Mapping[str, type[GrowingTrees]] = {"LGBMClassifier": GrowingLightGBM, "XGBClassifier": GrowingXGBoost}
FORESTS = "XGBRFClassifier"  # derived from a booster, but its trees are all grown in one round


def steps_of(estimator: Any) -> list[tuple[str, Any]]:
    """What follows each other in an estimator, pipelines in pipelines taken apart."""
    if not isinstance(estimator, Pipeline):
        return [("last", estimator)]
    *before, (_, last) = estimator.steps
    return [*before, *((f"{name}-{len(before)}", step) for name, step in steps_of(last))]


def growing_form(estimator: Any) -> type[GrowingTrees] | None:
    """How an estimator, or the one at the end of a pipeline, grows here; None where it does not."""
    for kind in type(last_step(estimator)).__mro__:
        form = LIBRARIES.get(kind.__name__)
        if kind.__name__ == FORESTS:
            return None
        if form is not None and kind.__module__.startswith(form.MODULE):
            return form
    return None
