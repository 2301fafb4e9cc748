"""The methods that the benchmarks of structured outputs compare, how the C of each is chosen, and their scores.

Every method is chosen the same way: for each C of its grid it is trained on four fifths of the training rows; the C,
and the settings of its predictions where it has some, of largest example Jaccard on the other fifth (or on all five
fifths in turn) are taken; then it is trained on all training rows. Test rows are looked at once.
"""

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import f1_score, hamming_loss, jaccard_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.svm import LinearSVC

from benchmarks.data.structures import Array, hold_outs
from benchmarks.task import Row, mean_and_error, quietly
from widemargin_papers.data import LabelSets

SCORES = ("jaccard", "hamming", "micro_f1", "example_f1", "macro_f1")
PLAIN: Mapping[str, Sequence[Mapping[str, Any]]] = {"": ({},)}


def jaccards(Y: Array, predicted: Array) -> Array:
    """Jaccard index of every row; 1 where both sets are empty."""
    both, either = (Y & predicted).sum(axis=1), (Y | predicted).sum(axis=1)
    return np.where(either > 0, both / np.maximum(either, 1), 1.0)


def scores(Y: Array, predicted: Array) -> dict[str, float]:
    """Scores of predicted label sets, by scikit-learn's functions."""
    return {
        "jaccard": jaccard_score(Y, predicted, average="samples", zero_division=1.0),
        "hamming": hamming_loss(Y, predicted),
        "micro_f1": f1_score(Y, predicted, average="micro", zero_division=0.0),
        "example_f1": f1_score(Y, predicted, average="samples", zero_division=1.0),
        "macro_f1": f1_score(Y, predicted, average="macro", zero_division=0.0),
    }


def paired(runs: Sequence[Mapping[str, Any]], method: str, reference: str, score: str) -> tuple[float, float]:
    """Mean difference of a score to the reference's on the same splits, and its standard error."""
    values = {(run["method"], run["split"]): run[score] for run in runs}
    splits = [split for name, split in values if name == method and (reference, split) in values]
    return mean_and_error([values[method, split] - values[reference, split] for split in splits])


class Binary(ClassifierMixin, BaseEstimator):
    """A linear classifier of 0 and 1 that bears training rows of one class."""

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Any, y: Array) -> "Binary":
        """Train."""
        self.classes_ = np.array([0, 1])
        self.only_ = None if y.min() < y.max() else int(y[0])
        if self.only_ is None:
            self.model_ = LinearSVC(C=self.C, random_state=0).fit(X, y)
        return self

    def predict(self, X: Any) -> Array:
        """0 or 1 per row."""
        return np.full(X.shape[0], self.only_) if self.only_ is not None else np.asarray(self.model_.predict(X))


class OneVsRest:
    """scikit-learn's OneVsRestClassifier, by default over LinearSVC, by its `decision_function`."""

    def __init__(self, C: float, paths: Sequence[str] = (), base: Any = None) -> None:
        self.paths, self.base = paths, base or LinearSVC(C=C, random_state=0)

    def fit(self, X: Any, Y: Array) -> "OneVsRest":
        """Train."""
        self.Y, self._seen = Y, None
        with quietly():
            self.model = OneVsRestClassifier(self.base).fit(X, Y)
        return self

    def decisions(self, X: Any) -> Array:
        """A score of every label."""
        return np.asarray(self.model.decision_function(X))

    def predict(self, X: Any, threshold: float = 0.0, one_path: bool = False) -> Array:
        """Labels above the threshold. Or the best path."""
        if self._seen is not X:  # many thresholds are tried on the same rows
            self._seen, self._decisions = X, self.decisions(X)
        decisions = self._decisions
        if one_path:
            return best_path(decisions, self.Y, parents(self.paths))
        return (decisions > threshold).astype(int)


class Chain:
    """scikit-learn's ClassifierChain, labels in the order of the columns."""

    def __init__(self, C: float) -> None:
        self.C = C

    def fit(self, X: Any, Y: Array) -> "Chain":
        """Train."""
        with quietly():
            self.model = ClassifierChain(Binary(self.C)).fit(X, Y)
        return self

    def predict(self, X: Any) -> Array:
        """Label sets."""
        return np.asarray(self.model.predict(X)).astype(int)


class HiClass:
    """hiclass's local classifiers, one for every parent, for label sets that are one path each.

    Raises
    ------
    ImportError
        If hiclass is not installed.
    """

    def __init__(self, C: float, paths: Sequence[str]) -> None:
        self.C, self.paths = C, paths
        self.kind = importlib.import_module("hiclass").LocalClassifierPerParentNode

    def fit(self, X: Any, Y: Array) -> "HiClass":
        """Train."""
        depth = np.array([path.count("/") for path in self.paths])
        levels = np.full((Y.shape[0], depth.max() + 1), "", dtype=f"U{max(map(len, self.paths))}")
        for i, node in zip(*np.nonzero(Y), strict=True):
            levels[i, depth[node]] = self.paths[node]
        with quietly():
            self.model = self.kind(local_classifier=LinearSVC(C=self.C), replace_classifiers=True).fit(X, levels)
        return self

    def predict(self, X: Any) -> Array:
        """Closed label sets."""
        index = {path: node for node, path in enumerate(self.paths)}
        found = np.zeros((X.shape[0], len(self.paths)), dtype=int)
        for i, path in enumerate(self.model.predict(X)):
            found[i, [index[name] for name in path if name in index]] = 1
        return found


def parents(paths: Sequence[str]) -> Array:
    """Parent of every node by the names, -1 for roots."""
    index = {path: node for node, path in enumerate(paths)}
    return np.array([index.get(path.rpartition("/")[0], -1) for path in paths])


def top_down(parent: Array) -> list[int]:
    """Nodes, parents before children."""
    depth = np.zeros(parent.shape[0], dtype=int)
    above = parent.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return [int(node) for node in np.argsort(depth, kind="stable")]


def one_path(Y: Array, parent: Array) -> bool:
    """Whether every label set is one path from a root."""
    children = np.zeros_like(Y)
    for node, above in enumerate(parent):
        if above >= 0:
            children[:, above] += Y[:, node]
    roots = Y[:, parent < 0].sum(axis=1)
    return bool((children <= 1).all() and (roots == 1).all())


def best_path(scores_of: Array, Y: Array, parent: Array) -> Array:
    """The path from a root, out of those that end where one of the sets Y ends, with the largest sum of scores."""
    paths = np.eye(parent.shape[0], dtype=int)
    for node in top_down(parent):
        if parent[node] >= 0:
            paths[node] |= paths[parent[node]]
    ends = Y.copy()
    for node, above in enumerate(parent):
        if above >= 0:
            ends[:, above] &= 1 - Y[:, node]
    allowed = paths[ends.any(axis=0)]
    found: Array = allowed[np.argmax(scores_of @ allowed.T, axis=1)]
    return found


@dataclass(frozen=True)
class Method:
    """A method with its grid.

    Attributes
    ----------
    name : str
    make : callable
        Of C; the result has `fit(X, Y)` and `predict(X, **setting)`.
    grid : sequence
        Of C, or of whatever `make` takes; where there is nothing to choose, no rows are held out.
    variants : mapping
        Settings of `predict` to choose from, by a name that is added to that of the method. Each has a C of its own.
    warm : bool
        Whether one model is trained for all C in turn, the smallest first, each from the dual point of the last.
    """

    name: str
    make: Any
    grid: Sequence[Any]
    variants: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=lambda: PLAIN)
    warm: bool = False

    def trained(self, grid: Sequence[Any], X: Any, Y: Array) -> Iterator[tuple[Any, Any, float]]:
        """C, the model, and the processor seconds of its training (with those before it on a warm path)."""
        started, model = time.process_time(), self.make(min(grid)) if self.warm else None
        for C in sorted(grid):
            if model is None:
                started, made = time.process_time(), self.make(C)
            else:
                made = model
                made.svm.set_params(C=C)
            with quietly():
                made.fit(X, Y)
            yield C, made, time.process_time() - started


def scores_and_rows(Y: Array, predicted: Array) -> Row:
    """Scores, and the rows' own Jaccard indices."""
    return {**scores(Y, predicted), "rows": jaccards(Y, predicted)}


def compare_methods(
    task: LabelSets, methods: Sequence[Method], folds: int = 1, *,
    merit: Callable[[Any, Any], float] = lambda Y, predicted: float(jaccards(Y, predicted).mean()),
    judge: Callable[[Any, Any], Mapping[str, Any]] = scores_and_rows,
) -> list[Row]:  # fmt: skip
    """Choose every variant of every method by its merit on rows held out, train, and judge it on the test rows."""
    rows = []
    for method in methods:
        started = time.process_time()
        chosen = _choose(task, method, folds, merit)
        spent = time.process_time() - started
        wanted = sorted({C for C, _, _ in chosen.values()})
        upto = [C for C in method.grid if wanted[-1] >= C] if method.warm else wanted
        for C, model, seconds in method.trained(upto, task.X, task.Y):
            for variant, (best, setting, held) in chosen.items():
                if best != C:
                    continue
                svm = getattr(model, "svm", model)
                rows.append({
                    "method": method.name + variant, "C": C, "setting": setting, "held_out": held,
                    "at_end": C in (min(method.grid), max(method.grid)), "choice_s": spent, "fit_s": seconds,
                    "gap": getattr(svm, "gap_", None), "certified": getattr(svm, "certified_", None),
                    **judge(task.Y_test, model.predict(task.X_test, **setting)),
                })  # fmt: skip
        print(f"{method.name}: {time.process_time() - started:.0f} s", flush=True)
    return rows


def _choose(
    task: LabelSets, method: Method, folds: int, merit: Callable[[Any, Any], float]
) -> dict[str, tuple[Any, Mapping[str, Any], float | None]]:
    """For each variant C, setting and merit on the rows held out."""
    if len(method.grid) == 1 and all(len(settings) == 1 for settings in method.variants.values()):
        return {variant: (method.grid[0], settings[0], None) for variant, settings in method.variants.items()}
    parts = hold_outs(task, folds)
    values: dict[tuple[str, Any, int], float] = {}
    for held in parts:
        for C, model, _ in method.trained(method.grid, held.X, held.Y):
            for variant, settings in method.variants.items():
                for index, setting in enumerate(settings):
                    found = merit(held.Y_test, model.predict(held.X_test, **setting)) / len(parts)
                    values[variant, C, index] = values.get((variant, C, index), 0.0) + found
    best = {variant: max((key for key in values if key[0] == variant), key=lambda key: values[key])
            for variant in method.variants}  # fmt: skip
    return {variant: (key[1], method.variants[variant][key[2]], values[key]) for variant, key in best.items()}
