"""`MultiLabelSVC()` and `HierarchicalSVC(hierarchy)` as they are, beside tuned peers."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.svm import SVC

from benchmarks.data.structures import Array, shuffled, standardised
from benchmarks.task import Content, Context, Row, Table, Task, Timing, grouped, mean_and_error
from benchmarks.tasks._structured_methods import SCORES, Chain, Method, OneVsRest, compare_methods, jaccards, paired
from widemargin import HierarchicalSVC, MultiLabelSVC
from widemargin.datasets import LabelSets
from widemargin.estimators.structured.scorers import au_prc
from widemargin.structured.models.label_graph import LabelGraph

LINEAR = (0.1, 1.0, 10.0, 100.0)
RBF = tuple((C, gamma) for C in (1.0, 10.0, 100.0) for gamma in (0.1, 1.0, 3.0))
"""On rows of mean square 1."""
AS_THEY_ARE = (None,)
THRESHOLDS = tuple(np.round(np.arange(-1.0, 0.61, 0.05), 2).tolist())
PUBLISHED = {
    "ImCLEF07A": 0.956,
    "Enron_corr": 0.756,
    "Diatoms": 0.758,
    "cellcycle_FUN+valid": 0.255,
    "cellcycle_GO": 0.413,
}
TOPS = ("GO0003674", "GO0005575", "GO0008150")


class Powerset:
    """One class for every label set of the training rows, by an RBF SVC."""

    def __init__(self, C: float, gamma: float) -> None:
        self.svc = SVC(C=C, gamma=gamma)

    def fit(self, X: Any, Y: Array) -> "Powerset":
        """Train."""
        self.sets, number = np.unique(Y, axis=0, return_inverse=True)
        self.svc.fit(X, number.ravel())
        return self

    def predict(self, X: Any) -> Array:
        """Label sets of the training rows."""
        found: Array = self.sets[self.svc.predict(X)]
        return found


class Forest(OneVsRest):
    """Votes of extremely randomised trees, of all labels together."""

    def __init__(self, leaf: int) -> None:
        self.model = ExtraTreesClassifier(300, min_samples_leaf=leaf, random_state=0)

    def fit(self, X: Any, Y: Array) -> "Forest":
        """Train."""
        self._seen = None
        self.model.fit(X, Y)
        return self

    def decisions(self, X: Any) -> Array:
        """Shares of the trees."""
        votes = zip(self.model.predict_proba(X), self.model.classes_, strict=True)
        known = [one[:, 1] if one.shape[1] == 2 else np.full(len(one), float(label[0])) for one, label in votes]
        return np.stack(known, axis=1)


def methods(task: LabelSets, small: bool) -> list[Method]:
    """What is compared: ours, with nothing to choose, and peers with C, widths and thresholds."""
    few = task.Y.shape[1] <= 128  # an RBF SVC for each of hundreds of nodes, searched, would take hours
    likely: Row = {"calibration": "sigmoid", "solver_options": {"decode": "expected"}}
    thresholds = {"": [{"threshold": threshold} for threshold in THRESHOLDS]}
    ours: dict[str, tuple[Callable[..., Any], Row]] = {}
    if few:
        ours |= {"MultiLabelSVC()": (MultiLabelSVC, {}), "MultiLabelSVC(loss='f1')": (MultiLabelSVC, {"loss": "f1"})}
    if hasattr(task, "paths"):
        hierarchical = partial(HierarchicalSVC, task.paths)
        ours |= {
            "HierarchicalSVC(paths)": (hierarchical, {}), "HierarchicalSVC(paths, likely sets)": (hierarchical, likely),
        }  # fmt: skip
    peers = [
        Method("OneVsRest LinearSVC, tuned threshold", OneVsRest, LINEAR, thresholds),
        Method("ClassifierChain LinearSVC", Chain, LINEAR),
    ]
    if small and few:
        ours |= {
            "MultiLabelSVC(feature_map='nystroem')": (MultiLabelSVC, {"feature_map": "nystroem"}),
            "MultiLabelSVC(likely sets)": (MultiLabelSVC, likely),
        }
        peers += [
            Method("OneVsRest RBF SVC, tuned threshold", lambda at: OneVsRest(1.0, base=SVC(C=at[0], gamma=at[1])), RBF,
                   thresholds),
            Method("label powerset RBF SVC", lambda at: Powerset(*at), RBF),
            Method("ExtraTrees, tuned threshold", Forest, (1, 2, 5), thresholds),
        ]  # fmt: skip
    made = [
        Method(name, lambda _, make=make, more=more: make(random_state=0, **more), AS_THEY_ARE)
        for name, (make, more) in ours.items()
    ]
    return made + peers


def runs(ctx: Context, names: Sequence[str]) -> list[Row]:
    """All methods on some splits of all rows, seconds of the choice and the last training together."""
    made = []
    for name in names:
        task = ctx.load(name)
        task = standardised(task) if name == "yeast" else task
        small = ctx.with_peers and not ctx.quick and (not sparse.issparse(task.X) or task.X.shape[1] < 2000)
        every = methods(task, small)
        for method in every:
            if method.grid == AS_THEY_ARE:  # compiles
                Timing.of(partial(method.make(None).fit, task.X[:60], task.Y[:60]))
        for split in range(ctx.repeats):
            for run in compare_methods(shuffled(task, split), every, 3):
                del run["rows"]
                made.append({"data": name, "split": split, "seconds": run["choice_s"] + run["fit_s"], **run})
    return made


def ranks(ctx: Context, names: Sequence[str]) -> list[Row]:
    """AU(PRC) of the file's own test rows, by probabilities; they do not depend on the SVM, which makes one pass."""
    made = []
    for name in ctx.pick(names, names[:1]):
        task = ctx.load(name)
        known = task.paths if task.arcs is None else LabelGraph(task.paths, np.array(task.arcs))
        model = HierarchicalSVC(known, rescaling="margin", C=1.0, max_iter=1, time_budget=10.0, random_state=0)
        model.set_params(calibration="sigmoid")
        timing = Timing.of(lambda model=model, task=task: model.fit(task.X, task.Y).predict_proba(task.X_test))
        # As C-HMCNN counts, without the three nodes that stand above all others of GO.
        counted = [node not in TOPS for node in task.paths]
        found = au_prc(task.Y_test[:, counted], timing.result[:, counted])
        expected = model.set_params(solver_options={"decode": "expected"}).predict(task.X_test)
        made.append({"data": name, "au_prc": found, "published": PUBLISHED[name], "seconds": timing.processor[0],
                     "jaccard": float(jaccards(task.Y_test, expected).mean())})  # fmt: skip
    return made


def _means(content: Content) -> Iterable[Row]:
    """Means over the splits, and differences of Jaccard to the first method, paired by split."""
    for name, here in grouped(content["runs"], "data"):
        for method, own in grouped(here, "method"):
            gaps = [run["gap"] for run in own if run["gap"] is not None]
            beside = None if own[0] is here[0] else paired(here, method, here[0]["method"], "jaccard")
            yield {"data": name, "method": method, "beside": beside, "gap": max(gaps, default=None),
                   "seconds": statistics.fmean(run["seconds"] for run in own),
                   **{score: mean_and_error([run[score] for run in own]) for score in SCORES[:3]}}  # fmt: skip


def _task(compared: Sequence[str], ranked: Sequence[str], half: Any, *, asked_only: bool = False) -> Task:
    return Task(
        "`MultiLabelSVC()` and `HierarchicalSVC(hierarchy)` as they are beside tuned peers: Jaccard and seconds of "
        "whole fits. Every method is handed training rows and looks for C, thresholds or widths in them, ours by "
        "`C=\"auto\"`, the peers in three folds. Then the ranking of nodes by `predict_proba` (AU(PRC) of the test "
        "rows) beside C-HMCNN(h) as published (Giunchiglia and Lukasiewicz 2020, Table 2), which trains on the same "
        "rows. Constants of these probabilities were looked at on training rows held out, of Enron_corr, Diatoms and "
        "cellcycle_FUN, too, and the test rows were ranked twice: before and after the last one was changed.",
        {"runs": partial(runs, names=compared), "ranks": partial(ranks, names=ranked)},
        {
            "means": Table(
                "Means over splits of all rows, ± standard errors", _means,
                "data | method | " + " | ".join(f"{score.replace('_', ' ')}: {{{score}:±.4f}}" for score in SCORES[:3])
                + " | Jaccard beside the first: {beside:±+.4f} | s: {seconds:.1f} | largest gap: {gap:.1%}",
            ),
            "ranks": Table(
                "AU(PRC) of the test rows", "ranks",
                "data | HierarchicalSVC, calibration='sigmoid': {au_prc:.3f} | C-HMCNN(h), published: {published:.3f} "
                "| Jaccard of decode='expected': {jaccard:.3f} | s: {seconds:.1f}",
            ),
        },
        subject="structures", half=half, asked_only=asked_only,
    )  # fmt: skip


TASKS = {
    "structured_defaults": _task(
        ("Enron_corr", "cellcycle_FUN"), ("Enron_corr", "Diatoms", "cellcycle_FUN+valid", "cellcycle_GO"), "reporting"
    ),
    "structured_defaults_tuned": _task(("yeast", "rcv1"), ("ImCLEF07A",), "tuning", asked_only=True),
}
