"""`MultiLabelSVC` on rcv1subset1 (50 most frequent labels, 47,236 sparse columns): how fast, how good beside peers.

First, on the file's own halves, at the papers' C: microseconds of an argmax, processor seconds and passes to a gap of
5% and 1%, memory, and the share of predictions that are proved to be the best label sets. Then, over splits drawn anew,
test scores of all methods, each with its C chosen on training rows (`structured_methods`), and, on the file's halves,
beside the paper's Table 2.
Run as `python -m benchmarks.structured_rcv1`; see README.md here.
"""

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numba
import numpy as np

from benchmarks.common import MissingDataError, machine, one_thread, parser, show, skipped, verdict, write
from benchmarks.kernel_scaling import Peak
from benchmarks.structured_methods import Chain, Method, OneVsRest, Structural, compare_methods
from benchmarks.structured_tasks import (
    SCORES,
    Clock,
    LabelSets,
    folder_of,
    mean_and_error,
    paired,
    quietly,
    scores,
    shuffled,
    synthetic_topics,
)
from widemargin import MultiLabelSVC
from widemargin.datasets import load_rcv1
from widemargin.structured.compiled import workspace
from widemargin.structured.oracles import argmax as loops

N_TOPICS = 50
GRIDS = {"slack": (0.033, 0.1, 0.33, 1.0), "margin": (1.0, 3.3, 10.0, 33.0)}
LINEAR = (1.0, 3.0, 10.0, 30.0, 100.0)
PASSES = 30
"""For every C of a path."""

TIMED: tuple[tuple[Any, str, float, float | None], ...] = (
    ("tree", "slack", 1e-3, 0.702),
    ("tree", "margin", 1e-4, 0.704),
    ("full", "slack", 3e-3, 0.748),
    ("full", "margin", 1e-4, 0.719),
    (None, "slack", 3e-4, 0.697),
    (None, "margin", 1e-4, 0.698),
)
"""Edges, rescaling, the papers' C, and the prototype's Jaccard on the same halves."""

PAPER = {
    "Table 2 of the paper, slack": (0.676, 0.023, 0.755, 0.747),
    "Table 2 of the paper, margin": (0.662, 0.023, 0.753, 0.742),
}
OFFSETS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
THRESHOLDS = tuple(float(threshold) for threshold in np.round(np.arange(-0.8, 0.21, 0.05), 2))

Run = dict[str, Any]


def load(options: argparse.Namespace) -> LabelSets:
    """The rows and label sets."""
    return synthetic_topics() if options.quick else load_rcv1(folder_of(options), N_TOPICS)


def ours(edges: Any, rescaling: str, C: float, passes: int, **more: Any) -> MultiLabelSVC:
    """An estimator."""
    return MultiLabelSVC(edges, C=C, rescaling=rescaling, max_iter=passes, random_state=0, **{"tol": 0.01} | more)


def _argmaxes(U: Any, theta: Any, Y: Any, slack: bool, structure: Any, work: Any, label: Any) -> Any:
    total = 0.0
    for i in range(U.shape[0]):
        h, g = loops.best_answer(U[i : i + 1], theta, Y[i], slack, 1.0, structure, work, label)
        total += h * g
    return total


_compiled_argmaxes = numba.njit(_argmaxes)


def argmax_microseconds(svm: MultiLabelSVC, task: LabelSets, options: argparse.Namespace) -> float:
    """Processor time of the most violating label of a training row, its potentials given; the median of repeats."""
    U = np.ascontiguousarray(task.X @ svm.coef_.T + svm.intercept_)
    Y, structure = np.ascontiguousarray(task.Y, dtype=np.int64), svm.model_.structure
    work, label = workspace(structure), np.empty(Y.shape[1], dtype=np.int64)
    all_rows = _argmaxes if options.quick else _compiled_argmaxes  # to compile it takes long
    seconds = []
    for _ in range(options.repeats + 1):  # the first compiles
        started = time.process_time()
        all_rows(U, svm.theta_, Y, svm.rescaling == "slack", structure, work, label)
        seconds.append(time.process_time() - started)
    return 1e6 * statistics.median(seconds[1:]) / Y.shape[0]


def timed(task: LabelSets, edges: Any, rescaling: str, weight: float, passes: int, options: argparse.Namespace) -> Run:
    """One training to a gap of 1% at the papers' C, with its memory, and how its predictions are proved."""
    with quietly():
        ours(edges, rescaling, 1.0, 2).fit(task.X[:50], task.Y[:50])  # compiles
    clock, C = Clock(), 1.0 / (weight * task.Y.shape[0])
    with Peak() as peak:
        svm = clock.fit(lambda: ours(edges, rescaling, C, passes, tol=0.01, callbacks=[clock]).fit(task.X, task.Y))
    started = time.process_time()
    predicted, proved = svm.decode_certified(task.X_test)
    seconds = time.process_time() - started
    return {
        "edges": edges, "rescaling": rescaling, "papers_C": weight, "C": C, "processor_s": clock.processor,
        "wall_s": clock.wall, "passes": svm.n_iter_, "gap": svm.gap_, "certified": svm.certified_,
        "proved_gap": svm.proved_gap_,
        "to_5": clock.until(0.05), "to_1": clock.until(0.01), "us_argmax": argmax_microseconds(svm, task, options),
        "us_per_search": 1e6 * clock.processor / svm.n_oracle_calls_, "peak_mb": peak.grown,
        "process_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "us_per_prediction": 1e6 * seconds / task.Y_test.shape[0], "proved": float(np.mean(proved)),
        **scores(task.Y_test, predicted),
    }  # fmt: skip


def methods(options: argparse.Namespace) -> list[Method]:
    """Ours and the peers."""
    variants: dict[str, Any] = {"": [{}], ", tuned offset": [{"offset": offset} for offset in OFFSETS]}

    def method(edges: Any, rescaling: str) -> Method:
        return Method(
            f"MultiLabelSVC {rescaling}, {edges or 'no'} edges",
            lambda C: Structural(ours(edges, rescaling, C, PASSES, warm_start=True)),
            GRIDS[rescaling],
            variants,
            warm=True,
        )

    made = [method(edges, rescaling) for edges in ("full", "tree", None) for rescaling in ("slack", "margin")]
    if options.no_peers:
        return made
    tuned = [{"threshold": threshold} for threshold in THRESHOLDS]
    variants = {
        "": [{}],
        ", tuned threshold": tuned,
        ", tuned threshold, at least one": [{**setting, "at_least_one": True} for setting in tuned],
    }
    return [*made, Method("OneVsRest", OneVsRest, LINEAR, variants), Method("ClassifierChain", Chain, LINEAR)]


def summary(runs: Sequence[Run]) -> list[Run]:
    """For each method: mean scores, by how much full slack is above it split by split, standard errors, seconds."""
    drawn = [run for run in runs if run["split"] >= 0]
    names = list(dict.fromkeys(run["method"] for run in runs))
    first, made = "MultiLabelSVC slack, full edges", []
    for name in names:
        mine = [run for run in drawn if run["method"] == name]
        own = next(run for run in runs if run["method"] == name and run["split"] < 0)
        made.append(
            {
                "method": name, "splits": len(mine), "first": first,
                **{score: mean_and_error([run[score] for run in mine]) for score in SCORES},
                "above": {score: paired(drawn, first, name, score) for score in SCORES},
                "C": [run["C"] for run in mine], "at_end": sum(run["at_end"] for run in mine),
                "fit_s": statistics.median(run["fit_s"] for run in mine),
                "choice_s": statistics.median(run["choice_s"] for run in mine),
                "file": {score: own[score] for score in SCORES} | {"C": own["C"]},
            }
        )  # fmt: skip
    return made


def timing_table(rows: Sequence[Run]) -> str:
    """Print and return the table of times."""
    return show(
        "The file's halves at the papers' C: processor seconds, from nothing to a gap of 1%",
        [
            "edges", "rescaling", "papers' C", "us/argmax", "us/search", "to 5%", "to 1%", "passes", "gap", "certified",
            "proved gap", "MB grown", "jaccard", "prototype", "us/prediction", "proved",
        ],
        [
            [
                run["edges"], run["rescaling"], f"{run['papers_C']:g}", f"{run['us_argmax']:.1f}",
                f"{run['us_per_search']:.1f}", *_reached(run), run["passes"], f"{run['gap']:.2%}", run["certified"],
                f"{run['proved_gap']:.1%}", f"{run['peak_mb']:.0f}", f"{run['jaccard']:.4f}", known,
                f"{run['us_per_prediction']:.0f}", f"{run['proved']:.1%}",
            ]
            for run, (*_, known) in zip(rows, TIMED, strict=False)
        ],
    )  # fmt: skip


def _reached(run: Run) -> list[str]:
    return ["-" if run[key] is None else f"{run[key][0]:.1f}" for key in ("to_5", "to_1")]


def score_tables(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Print and return the tables of scores."""
    names = [score.replace("_", " ") for score in SCORES]
    first = show(
        f"Means over {rows[0]['splits']} splits drawn anew, ± standard errors; C chosen on training rows",
        ["method", *names, "fit s", "choice s", "C", "at end of grid"],
        [
            [
                row["method"],
                *(f"{row[score][0]:.4f} ± {row[score][1]:.4f}" for score in SCORES),
                f"{row['fit_s']:.1f}",
                f"{row['choice_s']:.1f}",
                " ".join(f"{C:g}" for C in row["C"]),
                row["at_end"],
            ]
            for row in rows
        ],
    )
    second = show(
        f"{rows[0]['first']} minus the other, paired by split, and whether it leads by two standard errors",
        ["other", *names],
        [
            [
                row["method"],
                *(f"{mean:+.4f} ± {error:.4f} {lead(score, mean, error)}" for score, mean, error in _above(row)),
            ]
            for row in rows
            if row["method"] != row["first"]
        ],
    )
    own = [[row["method"], f"{row['file']['C']:g}", *(f"{row['file'][score]:.4f}" for score in SCORES)] for row in rows]
    published = [[name, "-", *values, "-"] for name, values in PAPER.items()]
    third = show("The file's halves, beside the paper (other halves)", ["method", "C", *names], own + published)
    return [first, second, third]


def _above(row: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    return [(score, *row["above"][score]) for score in SCORES]


def lead(score: str, difference: float, error: float) -> str:
    """What a difference in a score says; of losses the smaller is ahead."""
    if abs(difference) <= 2 * error:
        return "within noise"
    return "ahead" if (difference > 0) != (score == "hamming") else "behind"


def targets(rows: Sequence[Run], found: Sequence[Mapping[str, Any]]) -> str:
    """What was to be reached."""
    lines = []
    for run in rows:
        if run["edges"] == "tree":
            lines.append([f"tree, {run['rescaling']}: an argmax in 8 us", verdict(run["us_argmax"] <= 8.0)])
            reached = run["to_1"] is not None and run["to_1"][0] <= 20.0
            lines.append([f"tree, {run['rescaling']}: a gap of 1% in 20 s", verdict(reached)])
        if run["edges"] == "full":
            memory = run["process_peak_mb"] <= 2000
            lines.append([f"full, {run['rescaling']}: training in 2 minutes", verdict(run["processor_s"] <= 120)])
            lines.append([f"full, {run['rescaling']}: the process in 2 GB", verdict(memory)])
    for row in found:
        if row["method"].startswith("OneVsRest, "):
            ahead = lead("jaccard", *row["above"]["jaccard"]) == "ahead"
            lines.append([f"full slack ahead of {row['method']} in Jaccard", verdict(ahead)])
    return show("Targets", ["target", "reached"], lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--splits", type=int, default=5, help="splits drawn anew (default 5; a quick run has 2)")
    made.add_argument("--passes", type=int, default=800, help="most passes of the timed fits (default 800)")
    options = made.parse_args(arguments)
    about = machine()
    try:
        task = load(options)
    except MissingDataError as error:
        return skipped(error)
    passes, splits = (20, 2) if options.quick else (options.passes, options.splits)
    rows: list[Run] = []
    runs: list[Run] = []
    with one_thread():
        for edges, rescaling, weight, _ in TIMED:
            most = min(passes, 200) if edges == "full" else passes
            rows.append(timed(task, edges, rescaling, weight, most, options))
        first = timing_table(rows)
        for split in range(-1, splits):  # -1: the file's own
            print(f"split {split}", flush=True)
            mine = compare_methods(task if split < 0 else shuffled(task, split), methods(options))
            runs += [{"split": split, **run} for run in mine]
    found = summary(runs)
    sections = [first, *score_tables(found), targets(rows, found)]
    for run in runs:
        del run["rows"]
    write(options, "structured_rcv1", {"machine": about, "timed": rows, "summary": found, "runs": runs}, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
