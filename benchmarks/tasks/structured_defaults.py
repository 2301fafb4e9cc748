"""`MultiLabelSVC()` and `HierarchicalSVC(hierarchy)` as they are, beside tuned peers."""

import statistics
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.data.halves import Half, half_of
from benchmarks.data.structures import shuffled, standardised
from benchmarks.task import Content, Context, Row, Table, Task, Timing, grouped, mean_and_error
from benchmarks.tasks import _structured_methods as peers
from widemargin import HierarchicalSVC, MultiLabelSVC
from widemargin.estimators.structured.label_names import au_prc
from widemargin.structured.models.label_graph import LabelGraph
from widemargin_papers.data import Hierarchy, LabelSets

LINEAR = (0.1, 1.0, 10.0, 100.0)
RBF = tuple((C, gamma) for C in (1.0, 10.0, 100.0) for gamma in (0.1, 1.0, 3.0))
"""On rows of mean square 1."""
AS_THEY_ARE = (None,)
THRESHOLDS = tuple(np.round(np.arange(-1.0, 0.61, 0.05), 2).tolist())
PUBLISHED = {
    "ImCLEF07A": 0.956, "Enron_corr": 0.756, "Diatoms": 0.758, "cellcycle_FUN+valid": 0.255, "cellcycle_GO": 0.413,
}  # fmt: skip
ONE_PASS: Row = {"rescaling": "margin", "C": 1.0, "max_iter": 1, "time_budget": 10.0}
"""Where only probabilities are wanted, which do not depend on the SVM."""
TOPS = ("GO0003674", "GO0005575", "GO0008150")


def methods(ctx: Context, task: LabelSets) -> dict[str, peers.Method]:
    """All that may be compared, by name: ours, with nothing to choose, and peers with C, widths and thresholds."""
    likely: Row = {"calibration": "sigmoid", "solver_options": {"decode": "expected"}}
    made = []
    for name, options in {
        "MultiLabelSVC()": {},
        "MultiLabelSVC(loss='f1')": {"loss": "f1"},
        "MultiLabelSVC(feature_map='nystroem')": {"feature_map": "nystroem"},
        "MultiLabelSVC(likely sets)": likely,
        "MultiLabelSVC(powerset=True)": {"powerset": True},
        "MultiLabelSVC(powerset=True, feature_map='nystroem')": {"powerset": True, "feature_map": "nystroem"},
        "HierarchicalSVC(paths, calibration=None)": {"calibration": None},
        "HierarchicalSVC(paths, likely sets)": likely,
        "HierarchicalSVC(paths, one pass, likely sets)": ONE_PASS | likely,
        "HierarchicalSVC(paths, labels='path', calibration=None)": {"labels": "path", "calibration": None},
        "HierarchicalSVC(paths, likely paths)": {"labels": "path"} | likely,
    }.items():
        kind: Any = MultiLabelSVC
        if name.startswith("HierarchicalSVC"):
            if not isinstance(task, Hierarchy):
                continue
            kind = partial(HierarchicalSVC, known(task))
        made.append(
            peers.Method(name, lambda _, kind=kind, options=options: kind(random_state=0, **options), AS_THEY_ARE)
        )
    few = task.Y.shape[1] < 1000
    sets: dict[str, Sequence[Row]] = {", tuned threshold": [{"threshold": threshold} for threshold in THRESHOLDS]}
    if isinstance(task, Hierarchy) and task.arcs is None and peers.one_path(task.Y, task.paths):
        sets[", best path"] = [{"best_path": True}]
    made += [
        peers.Method("OneVsRest LinearSVC", peers.OneVsRest, LINEAR, sets),
        peers.Method("ClassifierChain LinearSVC", peers.chain, LINEAR),
        peers.Method("OneVsRest RBF SVC", lambda at: peers.OneVsRest(1.0, SVC(C=at[0], gamma=at[1])), RBF, sets),
        peers.Method("label powerset RBF SVC", lambda at: peers.Powerset(*at), RBF),
        peers.Method("ExtraTrees", peers.Forest, (1, 2, 5), sets),
        # Trees of thousands of labels with fewer rows a leaf take more memory than there is.
        peers.Method("100 ExtraTrees", partial(peers.Forest, trees=100), (1, 2, 5) if few else (5,), sets),
    ]
    if isinstance(task, Hierarchy) and ctx.peer("hiclass") is not None:
        made.append(peers.Method(HICLASS[0], partial(peers.HiClass, paths=task.paths), LINEAR))
    return {method.name: method for method in made}


def known(task: Hierarchy) -> Any:
    """The hierarchy, as `HierarchicalSVC` takes it."""
    return task.paths if task.arcs is None else LabelGraph(task.paths, np.array(task.arcs))


SETS = ("MultiLabelSVC()", "MultiLabelSVC(loss='f1')")
KERNELS = ("MultiLabelSVC(feature_map='nystroem')", "MultiLabelSVC(likely sets)")
POWERSETS = ("MultiLabelSVC(powerset=True)", "MultiLabelSVC(powerset=True, feature_map='nystroem')")
NODES = ("HierarchicalSVC(paths, calibration=None)", "HierarchicalSVC(paths, likely sets)")
PATHS = ("HierarchicalSVC(paths, likely paths)", "HierarchicalSVC(paths, labels='path', calibration=None)")
LINEAR_PEERS = ("OneVsRest LinearSVC", "ClassifierChain LinearSVC")
KERNEL_PEERS = ("OneVsRest RBF SVC", "label powerset RBF SVC", "ExtraTrees")
HICLASS = ("hiclass, per parent",)
COMPARED: dict[str, dict[str, tuple[str, ...]]] = {
    "runs": {
        "yeast": SETS + KERNELS + LINEAR_PEERS + KERNEL_PEERS,
        "Enron_corr": SETS + NODES + KERNELS + LINEAR_PEERS + KERNEL_PEERS,
        "cellcycle_FUN": NODES + LINEAR_PEERS,
    },
    "rcv1": {"rcv1": (SETS[0], "MultiLabelSVC(likely sets)", *LINEAR_PEERS, "100 ExtraTrees")},
    "Diatoms": {"Diatoms": (*PATHS, "label powerset RBF SVC", "100 ExtraTrees")},
    "ImCLEF07A": {"ImCLEF07A": (*PATHS, "OneVsRest LinearSVC", "label powerset RBF SVC", "100 ExtraTrees")},
    "cellcycle_FUN": {"cellcycle_FUN": ("100 ExtraTrees",)},
    "cellcycle_GO": {"cellcycle_GO": ("HierarchicalSVC(paths, one pass, likely sets)", "100 ExtraTrees")},
    "without calibration": {"cellcycle_GO": ("HierarchicalSVC(paths, calibration=None)",)},
    "hiclass": {"Diatoms": HICLASS, "ImCLEF07A": HICLASS},
    "powersets": {
        "yeast": (SETS[0], POWERSETS[0], KERNELS[0], POWERSETS[1]),
        "rcv1": (SETS[0], POWERSETS[0]),
    },
    "all topics": {"rcv1, all topics": (SETS[0], LINEAR_PEERS[0])},
}
"""By part and data set the methods that are compared. The parts beside "runs" have a hundred nodes, or thousands of
columns, and the last two are a task of their own. Peers are left out where choice and training take ten minutes or so:
RBF SVCs and boosted trees (2.4 s each) for the 398 nodes of Diatoms, any RBF SVC for the words of rcv1, linear SVCs for
the 4125 nodes of cellcycle_GO."""


def data_of(part: str, half: str) -> list[str]:
    """Those of a part's data sets that are in a half."""
    return [name for name in COMPARED[part] if half_of(name, "structures") == half]


def runs(ctx: Context, part: str) -> list[Row]:
    """All methods on some splits of all rows, seconds of the choice and the last training together."""
    made, (splits, folds) = [], (5, 3) if part == "runs" else (3, 1)
    for name in data_of(part, ctx.task.half):
        task = ctx.load(name)
        task = standardised(task) if name == "yeast" else task
        there = methods(ctx, task)
        every = [there[method] for method in COMPARED[part][name] if method in there]
        for method in every:
            if method.grid == AS_THEY_ARE:  # compiles
                Timing.of(partial(method.make(None).fit, task.X[:60], task.Y[:60]))
        for split in range(min(splits, ctx.repeats)):
            made += [
                {"data": name, "split": split, **run}
                for run in peers.compare_methods(shuffled(task, split), every, folds)
            ]
    return made


def ranks(ctx: Context) -> list[Row]:
    """AU(PRC) of the file's own test rows, by probabilities; they do not depend on the SVM, which makes one pass."""
    made, names = [], [name for name in PUBLISHED if half_of(name, ctx.task.subject) == ctx.task.half]
    for name in ctx.pick(names, names[:1]):
        task = ctx.load(name)
        model = HierarchicalSVC(known(task), calibration="sigmoid", random_state=0, **ONE_PASS)
        timing = Timing.of(lambda model=model, task=task: model.fit(task.X, task.Y).predict_proba(task.X_test))
        # As C-HMCNN counts, without the three nodes that stand above all others of GO.
        counted = [node not in TOPS for node in task.paths]
        found = au_prc(task.Y_test[:, counted], timing.result[:, counted])
        expected = model.set_params(solver_options={"decode": "expected"}).predict(task.X_test)
        made.append({"data": name, "au_prc": found, "published": PUBLISHED[name], "seconds": timing.processor[0],
                     "jaccard": peers.mean_jaccard(task.Y_test, expected)})  # fmt: skip
    return made


def _by_data(content: Content) -> Iterable[tuple[str, dict[str, list[Row]], list[Row]]]:
    """The runs of every data set, by method and all of them."""
    for name, here in grouped([run for part in COMPARED for run in content.get(part, [])], "data"):
        yield name, dict(grouped(here, "method")), here


def _means(content: Content) -> Iterable[Row]:
    """Means over the splits, and differences of Jaccard to the first method, paired by split."""
    for name, methods, here in _by_data(content):
        first = here[0]["method"]
        for method, own in methods.items():
            gaps = [run["gap"] for run in own if run["gap"] is not None]
            beside = None if method == first else peers.paired(here, method, first, "jaccard")
            yield {"data": name, "method": method, "beside": beside, "gap": max(gaps, default=None),
                   "seconds": statistics.fmean(run["seconds"] for run in own),
                   **{score: mean_and_error([run[score] for run in own]) for score in peers.SCORES}}  # fmt: skip


def _parts(half: Half) -> dict[str, Any]:
    """The comparisons that have data of a half, but the last two, and the ranking."""
    return {part: partial(runs, part=part) for part in tuple(COMPARED)[:-2] if data_of(part, half)} | {"ranks": ranks}


_SCORES = " | ".join(f"{score.replace('_', ' ')}: {{{score}:±.4f}}" for score in peers.SCORES)


class structured_defaults(Task):
    """`MultiLabelSVC()` and `HierarchicalSVC(hierarchy)` as they are beside tuned peers: Jaccard and seconds of whole
    fits. Every method is handed training rows and looks for C, thresholds or widths in them, ours by `C="auto"`, the
    peers in three folds (on five splits), or, with a hundred nodes or thousands of columns, on a fifth of the rows (on
    three splits). Then the ranking of nodes by `predict_proba` (AU(PRC) of the test rows) beside C-HMCNN(h) as
    published (Giunchiglia and Lukasiewicz 2020, Table 2), which trains on the same rows. Constants of these
    probabilities were looked at on training rows held out, of Enron_corr, Diatoms and cellcycle_FUN, too, and the test
    rows were ranked twice: before and after the last one was changed.
    """

    subject = "structures"
    peers = ("hiclass",)
    parts = _parts("reporting")
    tables = {
        "means": Table(
            "Means over splits of all rows, ± standard errors", _means,
            f"data | method | {_SCORES} | Jaccard beside the first: {{beside:±+.4f}} | s: {{seconds:.1f}} "
            "| largest gap: {gap:.1%}",
        ),
        "ranks": Table(
            "AU(PRC) of the test rows", "ranks",
            "data | HierarchicalSVC, calibration='sigmoid': {au_prc:.3f} | C-HMCNN(h), published: {published:.3f} "
            "| Jaccard of decode='expected': {jaccard:.3f} | s: {seconds:.1f}",
        ),
    }  # fmt: skip

    def sentences(self, content: Content) -> Iterable[str]:
        """Our best beside the best peer, both by mean Jaccard on the test rows, by two standard errors."""
        found: dict[str, list[str]] = {"ahead": [], "within noise": [], "behind": []}
        for data, methods, here in _by_data(content):
            means = {name: statistics.fmean(run["jaccard"] for run in own) for name, own in methods.items()}
            ours = {name for name in means if name.startswith(("MultiLabelSVC", "HierarchicalSVC"))}
            best, peer = (max(some, key=lambda name: means[name]) for some in (ours, means.keys() - ours))
            difference, error = peers.paired(here, best, peer, "jaccard")
            said = "within noise" if abs(difference) <= 2 * error else "ahead" if difference > 0 else "behind"
            found[said].append(data)
        yield "; ".join(f"{said} on {', '.join(where)}" for said, where in found.items() if where)


class structured_defaults_tuned(structured_defaults):
    half = "tuning"
    asked_only = True
    parts = _parts("tuning")
    sentences = Task.sentences


class structured_powersets(structured_defaults_tuned):
    parts = {part: partial(runs, part=part) for part in tuple(COMPARED)[-2:]}
