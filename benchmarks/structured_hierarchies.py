"""`HierarchicalSVC` on four hierarchies of labels: slack and margin rescaling beside local and flat classifiers.

A table as the paper's Table 3, seconds to a 1% gap, and what it is worth to train slack rescaling for one C after the
other. Where every label set is one path (ImCLEF07A, Diatoms), hiclass knows that, and others are shown with and without
("one path": ours trained by `labels="path"`; of OneVsRest the path of largest score). One thread, processor seconds.
Run as `python -m benchmarks.structured_hierarchies`; see README.md here.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.common import MissingDataError, machine, one_thread, parser, show, skipped, verdict, write
from benchmarks.structured_methods import (
    Chain,
    HiClass,
    Method,
    OneVsRest,
    Structural,
    TopDown,
    compare_methods,
    one_path,
    parents,
    top_down,
)
from benchmarks.structured_tasks import (
    SCORES,
    Clock,
    folder_of,
    mean_and_error,
    quietly,
    scores,
    standardised,
    synthetic_paths,
    unit_rows,
)
from widemargin import HierarchicalSVC
from widemargin.datasets import Hierarchy, load_hierarchy

SCALINGS: dict[str, Callable[[Any], Any]] = {
    "ImCLEF07A": standardised,
    "Enron_corr": unit_rows,
    "Diatoms": standardised,
    "cellcycle_FUN": standardised,
}
GRIDS = {
    "slack": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    "margin": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
}
OFFSETS = (0.0, 0.025, 0.05, 0.075, 0.1, 0.15)
THRESHOLDS = tuple(float(threshold) for threshold in np.round(np.arange(-0.8, 0.21, 0.1), 1))
"""Added to all scores, and taken off them: training by errors of nodes finds too few of them for Jaccard."""
LINEAR, LOGISTIC = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0), (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
LARGEST = "cellcycle_FUN"
"""Without the comparison of warm and cold starts, which takes long."""

PASSES = 25
"""For every C of a path."""

KNOWN: dict[str, dict[str, tuple[float, float]]] = {
    "ImCLEF07A": {"margin": (1e-5, 0.734)},
    "Enron_corr": {"margin": (1e-3, 0.518), "slack": (1e-2, 0.502)},
}
"""The papers' C and the test Jaccard of the prototype at a gap of 1%."""

Run = dict[str, Any]


def load(name: str, options: argparse.Namespace) -> Hierarchy:
    """A data set."""
    return synthetic_paths() if options.quick else SCALINGS[name](load_hierarchy(folder_of(options), name))


def ours(task: Hierarchy, rescaling: str, C: float, passes: int, **more: Any) -> HierarchicalSVC:
    """An estimator."""
    return HierarchicalSVC(
        task.paths, C=C, rescaling=rescaling, max_iter=passes, random_state=0, **{"tol": 0.01} | more
    )


def methods(task: Hierarchy, options: argparse.Namespace) -> list[Method]:
    """Ours and the peers; hiclass where it is installed and label sets are paths."""
    parent = parents(task.paths)
    alone = one_path(np.concatenate([task.Y, task.Y_test]), parent)
    variants: dict[str, Any] = {"": ({},), ", tuned threshold": [{"threshold": one} for one in THRESHOLDS]}
    variants |= {", one path": ({"one_path": True},)} if alone else {}
    offsets: dict[str, Any] = {"": ({},), ", tuned offset": [{"offset": offset} for offset in OFFSETS]}
    made = [
        Method(
            f"HierarchicalSVC {rescaling}{', one path' if labels == 'path' else ''}",
            lambda C, rescaling=rescaling, labels=labels: Structural(
                ours(task, rescaling, C, PASSES, labels=labels, warm_start=True)
            ),
            GRIDS[rescaling],
            offsets if labels == "sets" else {"": ({},)},
            warm=True,
        )
        for rescaling in ("slack", "margin")
        for labels in (("sets", "path") if alone else ("sets",))
    ]
    if options.no_peers:
        return made
    made += [
        Method("OneVsRest", lambda C: OneVsRest(C, task.paths), LINEAR, variants),
        Method("ClassifierChain", Chain, LINEAR),
        Method("chain, top down, logistic", lambda C: Chain(C, top_down(parent), logistic=True), LOGISTIC),
        Method("local, top down", lambda C: TopDown(C, parent), LINEAR),
    ]
    if not alone:
        print("without hiclass: it predicts one path a row, and label sets here are several", file=sys.stderr)
    elif importlib.util.find_spec("hiclass") is None:
        print("without hiclass: not installed (install the dependency group `bench`)", file=sys.stderr)
    else:
        made += [
            Method("hiclass, per parent", lambda C: HiClass(C, task.paths, "ParentNode"), LINEAR),
            Method("hiclass, per node, logistic", lambda C: HiClass(C, task.paths, "Node"), LOGISTIC),
        ]
    return made


def to_a_gap(name: str, task: Hierarchy, rescaling: str, passes: int) -> Run:
    """One training from nothing at the papers' C, until the gap is 1%."""
    weight, prototype = KNOWN.get(name, {}).get(rescaling, (1e-3, float("nan")))
    clock = Clock()
    svm = clock.fit(
        lambda: ours(task, rescaling, 1.0 / (weight * task.Y.shape[0]), passes, tol=0.01, callbacks=[clock]).fit(
            task.X, task.Y
        )
    )
    reached = clock.until(0.01)
    return {
        "data": name, "rescaling": rescaling, "papers_C": weight, "C": svm.C, "processor_s": clock.processor,
        "wall_s": clock.wall, "gap": svm.gap_, "passes": svm.n_iter_, "prototype": prototype,
        "to_5": clock.until(0.05), "to_1": reached, "us_per_search": 1e6 * clock.processor / svm.n_oracle_calls_,
        **scores(task.Y_test, svm.predict(task.X_test)),
    }  # fmt: skip


def warm_and_cold(name: str, task: Hierarchy, chosen: float) -> list[Run]:
    """Slack rescaling at one C: after the smaller ones of the grid, and from nothing with as many passes."""
    grid = [C for C in GRIDS["slack"] if chosen >= C]
    warm, clock = ours(task, "slack", grid[0], PASSES, warm_start=True), Clock()

    def path() -> HierarchicalSVC:
        for C in grid:
            warm.set_params(C=C).fit(task.X, task.Y)
        return warm

    clock.fit(path)
    passes = PASSES * len(grid)
    cold, watch = ours(task, "slack", chosen, passes), Clock()
    watch.fit(lambda: cold.fit(task.X, task.Y))
    return [
        {
            "data": name, "C": chosen, "start": start, "processor_s": seconds.processor, "passes": passes,
            "gap": svm.gap_, **scores(task.Y_test, svm.predict(task.X_test)),
        }
        for start, svm, seconds in (("warm", warm, clock), ("from 0", cold, watch))
    ]  # fmt: skip


def with_differences(runs: Sequence[Run]) -> None:
    """Add the difference of Jaccard to the best peer (or the best one), paired by test row, with its standard error."""
    for one_path_known in (False, True):
        group = [run for run in runs if path_known(run) == one_path_known]
        peers = [run for run in group if "HierarchicalSVC" not in run["method"]] or group
        if not group:
            continue
        best = max(peers, key=lambda run: float(run["jaccard"]))
        for run in group:
            run["against"] = best["method"]
            run["difference"], run["difference_se"] = mean_and_error([*(run["rows"] - best["rows"])])


def path_known(run: Mapping[str, Any]) -> bool:
    """Whether the method knows that a label set is one path."""
    return "one path" in run["method"] or "hiclass" in run["method"]


def table(name: str, runs: Sequence[Run]) -> str:
    """Print and return the table of a data set."""
    columns = ["method", "C", "fit s", "gap", *(score.replace("_", " ") for score in SCORES), "minus best peer"]
    return show(
        f"{name}: test scores",
        columns,
        [
            [
                run["method"],
                f"{run['C']:g}" + (" (end)" if run["at_end"] else ""),
                f"{run['fit_s']:.2f}",
                "-" if run["gap"] is None else f"{run['gap']:.1%}",
                *(f"{run[score]:.4f}" for score in SCORES),
                "-" if run["method"] == run["against"] else f"{run['difference']:+.4f} ± {run['difference_se']:.4f}",
            ]
            for run in runs
        ],
    )


def verdicts(runs: Sequence[Run]) -> str:
    """Who leads, and whether by more than two standard errors."""
    lines = []
    for data, known in dict.fromkeys((run["data"], path_known(run)) for run in runs):
        group = [run for run in runs if run["data"] == data and path_known(run) == known]
        best = max((run for run in group if "HierarchicalSVC" in run["method"]), key=lambda run: float(run["held_out"]))
        if best["method"] == best["against"]:
            continue
        sure = abs(best["difference"]) > 2 * best["difference_se"]
        lines.append(
            [
                data, "one path" if known else "any closed set", best["method"], best["against"],
                f"{best['difference']:+.4f} ± {best['difference_se']:.4f}",
                ("ahead" if best["difference"] > 0 else "behind") if sure else "within noise",
            ]
        )  # fmt: skip
    columns = ["data", "predictions", "best of ours", "best peer", "Jaccard minus peer's", "lead"]
    return show(
        "Leads: ours that is best on the rows held out, the peer that is best on the test rows; two standard errors",
        columns,
        lines,
    )


def timing_tables(timed: Sequence[Run], starts: Sequence[Run]) -> list[str]:
    """Times to a gap, and warm against cold."""
    first = show(
        "From nothing to a gap of 1%, processor seconds",
        ["data", "rescaling", "papers' C", "us/search", "to 5%", "to 1%", "passes", "gap", "jaccard", "prototype"],
        [
            [
                run["data"], run["rescaling"], f"{run['papers_C']:g}", f"{run['us_per_search']:.1f}",
                *("-" if run[key] is None else f"{run[key][0]:.2f}" for key in ("to_5", "to_1")), run["passes"],
                f"{run['gap']:.2%}", f"{run['jaccard']:.4f}",
                "-" if np.isnan(run["prototype"]) else f"{run['prototype']:.3f}",
            ]
            for run in timed
        ],
    )  # fmt: skip
    second = show(
        "Slack rescaling after smaller C, and from nothing with as many passes",
        ["data", "C", "start", "passes", "s", "gap", "jaccard"],
        [
            [
                run["data"], f"{run['C']:g}", run["start"], run["passes"], f"{run['processor_s']:.1f}",
                f"{run['gap']:.1%}", f"{run['jaccard']:.4f}",
            ]
            for run in starts
        ],
    )  # fmt: skip
    return [first, second]


def targets(timed: Sequence[Run]) -> str:
    """What was to be reached."""
    lines = []
    for run in timed:
        if np.isnan(run["prototype"]):
            continue
        label = f"{run['data']}, {run['rescaling']}: Jaccard as the prototype's {run['prototype']:.3f}, less .005"
        lines.append([label, verdict(run["jaccard"] >= run["prototype"] - 0.005)])
        limit = {("ImCLEF07A", "margin"): 17.0, ("Enron_corr", "margin"): 0.25}.get((run["data"], run["rescaling"]))
        if limit is not None:
            label = f"{run['data']}, {run['rescaling']}: 1% in {limit:g} s"
            lines.append([label, verdict(run["to_1"] is not None and run["to_1"][0] <= limit)])
    return show("Targets", ["target", "reached"], lines)


def run_task(name: str, options: argparse.Namespace) -> tuple[list[Run], list[Run], list[Run]]:
    """All of a data set: comparison, times to a gap, warm and cold starts."""
    task = load(name, options)
    with quietly():
        ours(task, "slack", 1.0, 2).fit(task.X[:50], task.Y[:50])  # compiles, for paths too
        ours(task, "margin", 1.0, 2).fit(task.X[:50], task.Y[:50])
    runs = [{"data": name, **run} for run in compare_methods(task, methods(task, options))]
    with_differences(runs)
    timed = [to_a_gap(name, task, rescaling, 20 if options.quick else 600) for rescaling in KNOWN.get(name, {})]
    chosen = next(run["C"] for run in runs if run["method"] == "HierarchicalSVC slack")
    return runs, timed, warm_and_cold(name, task, chosen) if name != LARGEST else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--only", nargs="*", default=list(SCALINGS), choices=list(SCALINGS), help="data sets")
    options = made.parse_args(arguments)
    about = machine()
    runs: list[Run] = []
    timed: list[Run] = []
    starts: list[Run] = []
    sections = []
    try:
        with one_thread():
            for name in options.only[:1] if options.quick else options.only:
                compared, times, both = run_task(name, options)
                sections.append(table(name, compared))
                runs, timed, starts = runs + compared, timed + times, starts + both
    except MissingDataError as error:
        return skipped(error)
    sections += [verdicts(runs), *timing_tables(timed, starts), targets(timed)]
    for run in runs:
        del run["rows"]
    results = {"machine": about, "runs": runs, "to_a_gap": timed, "starts": starts}
    write(options, "structured_hierarchies", results, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
