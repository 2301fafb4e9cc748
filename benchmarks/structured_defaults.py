"""`MultiLabelSVC()` and `HierarchicalSVC(hierarchy)` as they are beside tuned peers: Jaccard and seconds of whole fits.

Every method is handed training rows and looks for C, thresholds or widths in them, ours by `C="auto"`, the peers in
three folds. Seconds are those of the choice and the last training together, on one thread. Then the ranking of nodes by
`decision_function` (AU(PRC) of the test rows, `scoring="au_prc"`) beside C-HMCNN(h) as published (Giunchiglia and
Lukasiewicz 2020, Table 2), which trains on the same rows.
Run as `python -m benchmarks.structured_defaults`; see README.md here.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, LinearSVC

from benchmarks.common import MissingDataError, machine, one_thread, parser, show, skipped, write
from benchmarks.structured_hierarchies import SCALINGS
from benchmarks.structured_methods import Chain
from benchmarks.structured_tasks import (
    SCORES,
    Array,
    LabelSets,
    folder_of,
    jaccards,
    mean_and_error,
    paired,
    quietly,
    scores,
    shuffled,
    standardised,
    synthetic_paths,
)
from widemargin import HierarchicalSVC, MultiLabelSVC, label_set_scorers
from widemargin.datasets import load_hierarchy, load_rcv1, load_yeast

LINEAR = (0.1, 1.0, 10.0, 100.0)
RBF = tuple((C, gamma) for C in (1.0, 10.0, 100.0) for gamma in (0.1, 1.0, 3.0))
"""On rows of mean square 1."""
THRESHOLDS = tuple(np.round(np.arange(-1.0, 0.61, 0.05), 2).tolist())
PUBLISHED = {"ImCLEF07A": 0.956, "Enron_corr": 0.756, "Diatoms": 0.758, "cellcycle_FUN": 0.255}

Run = dict[str, Any]
Scorer = Callable[[Any, Array, Any], Array]
"""Trains on rows and labels; the scores of other rows."""


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


def one_vs_rest(make: Callable[..., Any]) -> Callable[..., Scorer]:
    """Scores of a binary classifier for each label."""
    return lambda *setting: (
        lambda X, Y, X_test: np.asarray(OneVsRestClassifier(make(*setting)).fit(X, Y).decision_function(X_test))
    )


def forest(leaf: int) -> Scorer:
    """Votes of extremely randomised trees, of all labels together."""

    def train(X: Any, Y: Array, X_test: Any) -> Array:
        trees = ExtraTreesClassifier(300, min_samples_leaf=leaf, random_state=0).fit(X, Y)
        votes = [one[:, 1] if one.shape[1] == 2 else np.full(len(one), float(known[0])) for one, known in
                 zip(trees.predict_proba(X_test), trees.classes_, strict=True)]  # fmt: skip
        return np.stack(votes, axis=1)

    return train


def decided(make: Callable[..., Any]) -> Callable[..., Scorer]:
    """Decisions instead of scores: any threshold between 0 and 1 gives them back."""
    return lambda *setting: lambda X, Y, X_test: make(*setting).fit(X, Y).predict(X_test)


def tuned(make: Callable[..., Scorer], grid: Sequence[Any], task: LabelSets) -> Array:
    """Choose setting and threshold by example Jaccard in three folds; label sets of the test rows."""
    settings = [one if isinstance(one, tuple) else (one,) for one in grid]
    found = np.zeros((len(settings), len(THRESHOLDS)))
    for rest, held in KFold(3, shuffle=True, random_state=0).split(task.Y):
        for row, setting in zip(found, settings, strict=True):
            ranked = make(*setting)(task.X[rest], task.Y[rest], task.X[held])
            row += [jaccards(task.Y[held], (ranked > one).astype(int)).mean() for one in THRESHOLDS]
    place, threshold = divmod(int(found.argmax()), len(THRESHOLDS))
    ranked = make(*settings[place])(task.X, task.Y, task.X_test)
    decided: Array = (ranked > THRESHOLDS[threshold]).astype(int)
    return decided


def methods(name: str, task: LabelSets, small: bool) -> dict[str, Callable[[LabelSets], Any]]:
    """What is compared: each trains and predicts."""
    nystroem = {"feature_map": "nystroem", "solver_options": {"n_components": 500}}

    def ours(make: Callable[..., Any], **more: Any) -> Callable[[LabelSets], Any]:
        return lambda task: (made := make(random_state=0, **more).fit(task.X, task.Y), made.predict(task.X_test))

    made: dict[str, Callable[[LabelSets], Any]] = {
        "MultiLabelSVC()": ours(MultiLabelSVC),
        "MultiLabelSVC(loss='f1')": ours(MultiLabelSVC, loss="f1"),
    }
    if hasattr(task, "paths"):
        made |= {"HierarchicalSVC(paths)": ours(lambda **known: HierarchicalSVC(task.paths, **known))}
    if small:
        made |= {
            "MultiLabelSVC, Nystroem": ours(MultiLabelSVC, **nystroem),
            "MultiLabelSVC(loss='f1'), Nystroem": ours(MultiLabelSVC, loss="f1", **nystroem),
        }

    def peer(make: Callable[..., Scorer], grid: Sequence[Any]) -> Callable[[LabelSets], Any]:
        return lambda task: (None, tuned(make, grid, task))

    made |= {
        "OneVsRest LinearSVC, tuned threshold": peer(one_vs_rest(lambda C: LinearSVC(C=C, random_state=0)), LINEAR),
        "ClassifierChain LinearSVC": peer(decided(Chain), LINEAR),
    }
    if small:
        made |= {
            "OneVsRest RBF SVC, tuned threshold": peer(one_vs_rest(lambda C, gamma: SVC(C=C, gamma=gamma)), RBF),
            "label powerset RBF SVC": peer(decided(Powerset), RBF),
            "ExtraTrees, tuned threshold": peer(forest, (1, 2, 5)),
        }
    return made


def compare(name: str, task: LabelSets, small: bool, splits: int) -> list[Run]:
    """All methods on some splits of all rows."""
    runs = []
    for method, run in methods(name, task, small).items():
        with quietly():
            part = replace(task, X=task.X[:60], Y=task.Y[:60], X_test=task.X[:9], Y_test=task.Y[:9])
            if "SVC" in method and "OneVsRest" not in method and "Chain" not in method and "powerset" not in method:
                run(part)  # compiles
        for split in range(splits):
            now = shuffled(task, split)
            started = time.process_time()
            with quietly():
                model, predicted = run(now)
            seconds = time.process_time() - started
            runs.append(
                {
                    "data": name, "method": method, "split": split, "seconds": seconds,
                    "gap": getattr(model, "gap_", None), "C": getattr(model, "C_", None),
                    "offset": getattr(model, "offset_", None), **scores(now.Y_test, predicted),
                }
            )  # fmt: skip
            print(name, method, split, f"{seconds:.1f} s", f"{runs[-1]['jaccard']:.4f}", runs[-1]["gap"], flush=True)
    return runs


def table(name: str, runs: Sequence[Run]) -> str:
    """Means over the splits, and differences of Jaccard to the first method, paired by split."""
    lines = []
    for method in dict.fromkeys(run["method"] for run in runs):
        own = [run for run in runs if run["method"] == method]
        gaps = [run["gap"] for run in own if run["gap"] is not None]
        difference = paired(runs, method, runs[0]["method"], "jaccard")
        shown = [mean_and_error([run[score] for run in own]) for score in SCORES[:3]]
        lines.append(
            [
                method, *(f"{mean:.4f} ± {error:.4f}" for mean, error in shown),
                "-" if own[0] is runs[0] else "{:+.4f} ± {:.4f}".format(*difference),
                f"{np.mean([run['seconds'] for run in own]):.1f}", f"{max(gaps):.1%}" if gaps else "-",
            ]
        )  # fmt: skip
    return show(f"{name}: means over {1 + max(run['split'] for run in runs)} splits",
                ["method", *SCORES[:3], "Jaccard beside the first", "s", "largest gap"], lines)  # fmt: skip


def ranked(name: str, task: Any) -> Run:
    """AU(PRC) of the file's own test rows."""
    started = time.process_time()
    model = HierarchicalSVC(task.paths, random_state=0, solver_options={"scoring": "au_prc"})
    with quietly():
        model.fit(task.X, task.Y)
    seconds = time.process_time() - started
    found = label_set_scorers["au_prc"](model, task.X_test, task.Y_test)
    return {"data": name, "au_prc": found, "published": PUBLISHED.get(name), "seconds": seconds, "C": model.C_,
            "gap": model.gap_}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--splits", type=int, default=5, help="splits of all rows (default 5)")
    made.add_argument("--only", nargs="*", default=None, help="data sets")
    options = made.parse_args(arguments)
    about, folder = machine(), folder_of(options)
    tasks: Mapping[str, Callable[[], Any]] = {
        "yeast": lambda: standardised(load_yeast(folder)),
        "Enron_corr": lambda: SCALINGS["Enron_corr"](load_hierarchy(folder, "Enron_corr")),
        "RCV1, 50 topics": lambda: load_rcv1(folder, 50),
    }
    if options.quick:
        tasks = {"synthetic paths": synthetic_paths}
    runs, sections, ranks = [], [], []
    try:
        with one_thread():
            for name, load in tasks.items():
                if options.only is None or name in options.only:
                    task = load()
                    small = not sparse.issparse(task.X)  # kernels of many labels and rows take minutes a split
                    compared = compare(name, task, small, 2 if options.quick else options.splits)
                    sections.append(table(name, compared))
                    runs += compared
            for name in tasks if options.quick else PUBLISHED:
                if options.only is None or name in options.only:
                    task = tasks[name]() if options.quick else SCALINGS[name](load_hierarchy(folder, name))
                    ranks += [ranked(name, task)]
    except MissingDataError as error:
        return skipped(error)
    sections.append(
        show(
            "AU(PRC) of the test rows",
            ["data", "HierarchicalSVC", "C-HMCNN(h), published", "C", "gap", "s"],
            [
                [run["data"], f"{run['au_prc']:.3f}", run["published"] or "-", f"{run['C']:.3g}", f"{run['gap']:.1%}",
                 f"{run['seconds']:.1f}"]
                for run in ranks
            ],
        )
    )  # fmt: skip
    write(options, "structured_defaults", {"machine": about, "runs": runs, "ranks": ranks}, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
