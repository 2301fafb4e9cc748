"""The methods that the benchmarks of structured outputs compare, how the C of each is chosen, and their scores.

Every method is chosen the same way: for each C of its grid it is trained on four fifths of the training rows; the C,
and the settings of its predictions where it has some, of largest example Jaccard on the other fifth (or on all folds in
turn) are taken; then it is trained on all training rows. Test rows are looked at once.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.metrics import f1_score, hamming_loss, jaccard_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.svm import SVC, LinearSVC

from benchmarks.data.structures import Array, hold_outs
from benchmarks.task import Row, Timing, mean_and_error
from widemargin_papers.data import LabelSets

SCORES = ("jaccard", "hamming", "micro_f1")


def scores(Y: Array, predicted: Array) -> dict[str, float]:
    """Scores of predicted label sets, by scikit-learn's functions."""
    return {
        "jaccard": jaccard_score(Y, predicted, average="samples", zero_division=1.0),
        "hamming": hamming_loss(Y, predicted),
        "micro_f1": f1_score(Y, predicted, average="micro", zero_division=0.0),
    }


def mean_jaccard(Y: Array, predicted: Array) -> float:
    """The same Jaccard index where many thresholds are tried: scikit-learn's takes much longer."""
    right, said = Y > 0, predicted > 0
    both, either = (right & said).sum(axis=1), (right | said).sum(axis=1)
    return float(np.where(either > 0, both / np.maximum(either, 1), 1.0).mean())


def paired(runs: Sequence[Mapping[str, Any]], method: str, reference: str, score: str) -> tuple[float, float]:
    """Mean difference of a score to the reference's on the same splits, and its standard error."""
    values = pd.DataFrame(runs).pivot(index="split", columns="method", values=score)
    differences = (values[method] - values[reference]).dropna()
    return mean_and_error(differences.tolist())


class OneVsRest:
    """scikit-learn's OneVsRestClassifier, by default over LinearSVC, by its `decision_function`."""

    def __init__(self, C: float, base: Any = None) -> None:
        self.model = OneVsRestClassifier(base or LinearSVC(C=C, random_state=0))

    def fit(self, X: Any, Y: Array) -> "OneVsRest":
        self.Y, self._seen = Y, None
        self.model.fit(X, Y)
        return self

    def decisions(self, X: Any) -> Array:
        """A score of every label."""
        return np.asarray(self.model.decision_function(X))

    def predict(self, X: Any, threshold: float = 0.0, best_path: bool = False) -> Array:
        """Labels above the threshold; or the label set of a training row, these being paths, with the largest sum."""
        if self._seen is not X:  # many thresholds are tried on the same rows
            self._seen, self._decisions = X, self.decisions(X)
        if best_path:
            sets = np.unique(self.Y, axis=0)
            return np.asarray(sets[np.argmax(self._decisions @ sets.T, axis=1)])
        return (self._decisions > threshold).astype(int)


class Forest(OneVsRest):
    """Votes of extremely randomised trees, of all labels together."""

    def __init__(self, leaf: int, trees: int = 300) -> None:
        # Trees that regress on 0 and 1 are those that classify: the variance is half the Gini index. Their answers are
        # one array, where classifiers keep two numbers for every label in a list.
        self.model = ExtraTreesRegressor(trees, min_samples_leaf=leaf, max_features="sqrt", random_state=0)

    def decisions(self, X: Any) -> Array:
        """Shares of the trees."""
        return np.asarray(self.model.predict(X))


def chain(C: float) -> ClassifierChain:
    """scikit-learn's ClassifierChain, labels in the order of the columns; a column may be constant."""
    return ClassifierChain(OneVsRestClassifier(LinearSVC(C=C, random_state=0)))


class Powerset:
    """One class for every label set of the training rows, by an RBF SVC."""

    def __init__(self, C: float, gamma: float) -> None:
        self.svc = SVC(C=C, gamma=gamma)

    def fit(self, X: Any, Y: Array) -> "Powerset":
        self.sets, number = np.unique(Y, axis=0, return_inverse=True)
        self.svc.fit(X, number.ravel())
        return self

    def predict(self, X: Any) -> Array:
        return np.asarray(self.sets[self.svc.predict(X)])


class HiClass:
    """hiclass's local classifiers, one for every parent, for label sets that are one path each."""

    def __init__(self, C: float, paths: Sequence[str]) -> None:
        kind = importlib.import_module("hiclass").LocalClassifierPerParentNode
        self.paths, self.model = paths, kind(local_classifier=LinearSVC(C=C), replace_classifiers=True)

    def fit(self, X: Any, Y: Array) -> "HiClass":
        depth = np.array([path.count("/") for path in self.paths])
        levels = np.full((Y.shape[0], depth.max() + 1), "", dtype=f"U{max(map(len, self.paths))}")
        for i, node in zip(*np.nonzero(Y), strict=True):
            levels[i, depth[node]] = self.paths[node]
        self.model.fit(X, levels)
        return self

    def predict(self, X: Any) -> Array:
        found = self.model.predict(X)
        return np.column_stack([(found == path).any(axis=1) for path in self.paths]).astype(int)


def one_path(Y: Array, paths: Sequence[str]) -> bool:
    """Whether every closed label set is one path from a root: it has as many nodes as its deepest one lies deep."""
    depth = np.array([path.count("/") + 1 for path in paths])
    size = Y.sum(axis=1)
    return bool((size > 0).all() and (size == (Y * depth).max(axis=1)).all())


@dataclass(frozen=True)
class Method:
    """A method with its grid."""

    name: str
    # Of C; the result has `fit(X, Y)` and `predict(X, **setting)`.
    make: Any
    # Of C, or of whatever `make` takes; where there is nothing to choose, no rows are held out.
    grid: Sequence[Any]
    # Settings of `predict` to choose from, by a name that is added to that of the method. Each has a C of its own.
    variants: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=lambda: {"": ({},)})


def compare_methods(
    task: LabelSets, methods: Sequence[Method], folds: int = 1, *,
    merit: Callable[[Any, Any], float] = mean_jaccard, judge: Callable[[Any, Any], Mapping[str, Any]] = scores,
) -> list[Row]:  # fmt: skip
    """Choose every variant of every method by its merit on rows held out, train, and judge it on the test rows."""
    rows: list[Row] = []
    for method in methods:
        choice = Timing.of(partial(_choose, task, method, folds, merit))
        fits: dict[Any, Timing] = {}
        for variant, (C, setting) in choice.result.items():
            if C not in fits:
                fits[C] = Timing.of(lambda C=C, make=method.make: make(C).fit(task.X, task.Y))
            model, fit_s = fits[C].result, fits[C].processor_median
            rows.append({
                "method": method.name + variant, "C": C, "setting": setting, "fit_s": fit_s,
                "seconds": choice.processor_median + fit_s, "gap": getattr(model, "gap_", None),
                **judge(task.Y_test, model.predict(task.X_test, **setting)),
            })  # fmt: skip
        print(f"{method.name}: {rows[-1]['seconds']:.0f} s", flush=True)
    return rows


def _choose(
    task: LabelSets, method: Method, folds: int, merit: Callable[[Any, Any], float]
) -> dict[str, tuple[Any, Mapping[str, Any]]]:
    """For each variant the C and the setting of most merit on the rows held out."""
    if len(method.grid) == 1 and all(len(settings) == 1 for settings in method.variants.values()):
        return {variant: (method.grid[0], settings[0]) for variant, settings in method.variants.items()}
    values: dict[tuple[str, Any, int], float] = {}
    for held in hold_outs(task, folds):
        for C in method.grid:
            model = method.make(C).fit(held.X, held.Y)
            for variant, settings in method.variants.items():
                for index, setting in enumerate(settings):
                    found = merit(held.Y_test, model.predict(held.X_test, **setting))
                    values[variant, C, index] = values.get((variant, C, index), 0.0) + found
    best = {variant: max((key for key in values if key[0] == variant), key=lambda key: values[key])
            for variant in method.variants}  # fmt: skip
    return {variant: (C, method.variants[variant][index]) for variant, (_, C, index) in best.items()}
