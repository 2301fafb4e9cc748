"""Label sets: `MultiLabelSVC` on yeast and rcv1 beside one-vs-rest and chains; how fast, and how good."""

import resource
import statistics
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numba
import numpy as np

from benchmarks.data.structures import shuffled, standardised
from benchmarks.machine import resident_growth
from benchmarks.task import (
    Content,
    Context,
    Limit,
    Ratio,
    Row,
    Table,
    Task,
    Timing,
    grouped,
    mean_and_error,
    quietly,
    ratios,
)
from benchmarks.tasks._structured_methods import (
    SCORES,
    Chain,
    Clock,
    Method,
    OneVsRest,
    Structural,
    compare_methods,
    paired,
    scores,
)
from widemargin import MultiLabelSVC, structural_search
from widemargin.datasets import LabelSets
from widemargin.structured.compiled import workspace
from widemargin.structured.oracles import argmax as loops

_SCORES = " | ".join(f"{score.replace('_', ' ')}: {{{score}:.4f}}" for score in SCORES)
_WITH_ERRORS = " | ".join(f"{score.replace('_', ' ')}: {{{score}:±.4f}}" for score in SCORES)

THRESHOLDS = tuple(float(threshold) for threshold in np.round(np.arange(-0.8, 0.21, 0.05), 2))
TUNED = [{"threshold": threshold} for threshold in THRESHOLDS]


def _peers(ctx: Context, linear: Sequence[float], variants: dict[str, Any]) -> list[Method]:
    if not ctx.with_peers:
        return []
    return [Method("OneVsRest", OneVsRest, linear, variants), Method("ClassifierChain", Chain, linear)]


# --- yeast ------------------------------------------------------------------------------------------------------------

PASSES = (20, 100)
PAPERS_C = {"slack": 1 / (0.01 * 1500), "margin": 1 / (0.0003 * 1500)}
"""The papers' .01 and .0003, which were chosen by example Jaccard on 1200 and 300 of the training rows."""

SEARCHED_OFFSETS = (0.0, 0.025, 0.05, 0.075, 0.1, 0.15)
REGULARISERS = {"slack": (0.1, 0.03, 0.01, 0.003), "margin": (3e-3, 1e-3, 3e-4, 1e-4)}
YEAST_LINEAR = (0.1, 0.3, 1.0, 3.0, 10.0)
YEAST_OFFSETS = tuple(float(offset) for offset in np.round(np.arange(-0.2, 0.81, 0.1), 1))
ORDERS = 6


def _yeast(task: LabelSets, rescaling: str, passes: int, C: float, seed: int = 0, offset: float = 0.0) -> MultiLabelSVC:
    """One training, whole passes and a certificate at the end: the passes are counted here, not the gap."""
    clf = MultiLabelSVC("full", C=C, rescaling=rescaling, max_iter=passes, tol=0.0, random_state=seed, offset=offset)
    with quietly():
        return clf.fit(task.X, task.Y)


def _chosen(ctx: Context, task: LabelSets, rescaling: str) -> tuple[float, float]:
    """C and offset on five folds of the training rows: of those within a standard error of the best example Jaccard,
    the ones of least Hamming loss."""
    found = structural_search(
        MultiLabelSVC("full", random_state=0), task.X, task.Y, Cs=ctx.pick(None, tuple(PAPERS_C.values())),
        rescalings=[rescaling], max_iters=[ctx.pick(PASSES[-1], 5)], offsets=SEARCHED_OFFSETS,
        scoring=("jaccard", "hamming"), cv=ctx.pick(5, 2), random_state=0,
    )  # fmt: skip
    return found.best_params["C"], found.best_params["offset"]


def yeast_runs(ctx: Context) -> list[Row]:
    """Times, gap and test scores of 20 and 100 passes; C and offset as chosen, then the papers' C without an offset.

    The microseconds an example (and a search, of which averaged iterate and certificates ask for more) are the
    difference of 100 and 20 passes, so the set-up is not in them.
    """
    task, rows, (few, many) = ctx.load("yeast"), [], PASSES
    settings = [(rescaling, "by five folds", *_chosen(ctx, task, rescaling)) for rescaling in PAPERS_C]
    settings += [(rescaling, "the papers'", weight, 0.0) for rescaling, weight in PAPERS_C.items()]
    for rescaling, how, weight, offset in settings:
        timings = ctx.clock(
            {str(count): partial(_yeast, task, rescaling, count, weight, offset=offset) for count in PASSES}
        )
        short, long = timings[str(few)], timings[str(many)]
        seconds = long.processor_median - short.processor_median
        searches = max(1, long.result.n_oracle_calls_ - short.result.n_oracle_calls_)
        rows.append({
            "rescaling": rescaling, "chosen": how, "C": weight, "offset": offset, f"passes_{few}": short.to_dict(),
            f"passes_{many}": long.to_dict(), "us_per_step": 1e6 * seconds / ((many - few) * task.X.shape[0]),
            "us_per_search": 1e6 * seconds / searches, "gap_few": short.result.gap_, "gap": long.result.gap_,
            "jaccard_few": scores(task.Y_test, short.result.predict(task.X_test))["jaccard"],
            **scores(task.Y_test, long.result.predict(task.X_test)),
        })  # fmt: skip
    return rows


def yeast_compared(ctx: Context) -> list[Row]:
    """Test scores of all methods, C by five folds; differences in Jaccard to slack rescaling are paired by test row."""
    raw, offsets, made = ctx.load("yeast"), [{"offset": offset} for offset in YEAST_OFFSETS], []

    def path(rescaling: str, C: float) -> Structural:
        passes = ctx.pick(30, 5)
        return Structural(
            MultiLabelSVC("full", C=C, rescaling=rescaling, max_iter=passes, tol=0.01, warm_start=True, random_state=0)
        )

    methods = [
        Method(
            f"MultiLabelSVC {rescaling}", partial(path, rescaling), tuple(1 / (weight * 1500) for weight in weights),
            {"": [{}], ", tuned offset": offsets}, warm=True,
        )
        for rescaling, weights in REGULARISERS.items()
    ]  # fmt: skip
    methods += _peers(ctx, YEAST_LINEAR, {"": [{}], ", tuned threshold": TUNED})
    for columns, some in (("as they are", raw), ("standardised", standardised(raw))):
        runs = compare_methods(some, methods, folds=ctx.pick(5, 2))
        first = runs[0]["rows"]
        for run in runs:
            difference = mean_and_error([*(run.pop("rows") - first)])
            made.append({"columns": columns, **run, "difference": difference[0], "difference_se": difference[1]})
    return made


def yeast_orders(ctx: Context) -> list[Row]:
    """Test scores of several orders of the examples, at the papers' C."""
    task, made = ctx.load("yeast"), []
    for rescaling, weight in PAPERS_C.items():
        for passes in PASSES:
            models = [_yeast(task, rescaling, passes, weight, seed) for seed in range(ctx.pick(ORDERS, 2))]
            found = [scores(task.Y_test, model.predict(task.X_test)) for model in models]
            values = {score: [one[score] for one in found] for score in SCORES}
            made.append({"rescaling": rescaling, "passes": passes, "values": values})
    return made


def _yeast_targets(content: Content) -> Iterable[Limit]:
    slack = next(row for row in content["runs"] if row["rescaling"] == "slack")
    yield Limit("yeast, slack, 20 passes", slack["passes_20"]["median_processor_s"], 1.0, "s")
    yield Limit("yeast, slack, 100 passes", slack["passes_100"]["median_processor_s"], 5.0, "s")
    yield Limit("yeast, slack, an example", slack["us_per_step"], 30.0, "us")
    yield Limit("yeast, slack, gap after 100 passes", 100 * slack["gap"], 2.0, "%")
    yield Limit("yeast, slack, Jaccard", slack["jaccard"], 0.525, at_least=True)
    yield Limit("yeast, slack, Hamming loss", slack["hamming"], 0.202)


def lead(difference: float, error: float, *, less_is_better: bool = False) -> str:
    """What a difference says, by two standard errors."""
    if not error:
        return ""
    if abs(difference) <= 2 * error:
        return "within noise"
    return "ahead" if (difference > 0) != less_is_better else "behind"


def with_lead(row: Row) -> Row:
    """A row with its paired difference and verdict in one field."""
    said = lead(row["difference"], row["difference_se"])
    return row | {"beside": f"{row['difference']:+.3f} ± {row['difference_se']:.3f}, {said}" if said else ""}


def _yeast_few(content: Content) -> Iterable[Row]:
    return [with_lead(row) for row in content["compared"] if row["columns"] == "as they are"]


# --- rcv1 -------------------------------------------------------------------------------------------------------------

GRIDS = {"slack": (0.033, 0.1, 0.33, 1.0), "margin": (1.0, 3.3, 10.0, 33.0)}
RCV1_LINEAR = (1.0, 3.0, 10.0, 30.0, 100.0)
RCV1_OFFSETS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
PATH_PASSES, TIMED_PASSES, SPLITS = 30, 800, 5
FIRST = "MultiLabelSVC slack, full edges"

TIMED: tuple[tuple[Any, str, float, float], ...] = (
    ("tree", "slack", 1e-3, 0.702), ("tree", "margin", 1e-4, 0.704), ("full", "slack", 3e-3, 0.748),
    ("full", "margin", 1e-4, 0.719), (None, "slack", 3e-4, 0.697), (None, "margin", 1e-4, 0.698),
)  # fmt: skip
"""Edges, rescaling, the papers' C, and the prototype's Jaccard on the same halves."""

PAPER = {
    "Table 2 of the paper, slack": (0.676, 0.023, 0.755, 0.747),
    "Table 2 of the paper, margin": (0.662, 0.023, 0.753, 0.742),
}


def _rcv1(edges: Any, rescaling: str, C: float, passes: int, **more: Any) -> MultiLabelSVC:
    return MultiLabelSVC(edges, C=C, rescaling=rescaling, max_iter=passes, random_state=0, **{"tol": 0.01} | more)


def _argmaxes(U: Any, theta: Any, Y: Any, lam: float | None, structure: Any, work: Any, label: Any) -> Any:
    total = 0.0
    for i in range(U.shape[0]):
        h, g = loops.best_answer(U[i : i + 1], theta, Y[i], lam, structure, work, label)
        total += h * g
    return total


_compiled_argmaxes = numba.njit(_argmaxes)


def _argmax_microseconds(ctx: Context, svm: MultiLabelSVC, task: LabelSets) -> float:
    """Processor time of the most violating label of a training row, its potentials given."""
    U = np.ascontiguousarray(task.X @ svm.coef_.T + svm.intercept_)
    Y, structure = np.ascontiguousarray(task.Y, dtype=np.int64), svm.model_.structure
    work, label = workspace(structure), np.empty(Y.shape[1], dtype=np.int64)
    all_rows = ctx.pick(_compiled_argmaxes, _argmaxes)  # to compile it takes long
    case = partial(all_rows, U, svm.theta_, Y, None if svm.rescaling == "slack" else 1.0, structure, work, label)
    return 1e6 * ctx.clock({"argmax": case})["argmax"].processor_median / Y.shape[0]


def rcv1_timed(ctx: Context) -> list[Row]:
    """The file's own halves at the papers' C: one training to a gap of 1%, its memory, how predictions are proved."""
    task, rows = ctx.load("rcv1"), []
    for edges, rescaling, weight, known in TIMED:
        Timing.of(partial(_rcv1(edges, rescaling, 1.0, 2).fit, task.X[:50], task.Y[:50]))  # compiles
        clock, C = Clock(), 1.0 / (weight * task.Y.shape[0])
        passes = ctx.pick(min(TIMED_PASSES, 200) if edges == "full" else TIMED_PASSES, 20)
        made = _rcv1(edges, rescaling, C, passes, tol=0.01, callbacks=[clock])
        svm, grown = resident_growth(lambda made=made, clock=clock: clock.fit(partial(made.fit, task.X, task.Y)))
        predicted = Timing.of(partial(svm.decode_certified, task.X_test))
        labels, proved = predicted.result
        rows.append({
            "edges": edges, "rescaling": rescaling, "papers_C": weight, "C": C, "prototype": known, **clock.row(svm),
            "certified": svm.certified_, "proved_gap": svm.proved_gap_,
            "us_argmax": _argmax_microseconds(ctx, svm, task), "peak_mb": grown and grown / 1e6,
            "process_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "us_per_prediction": 1e6 * predicted.processor[0] / task.Y_test.shape[0], "proved": float(np.mean(proved)),
            **scores(task.Y_test, labels),
        })  # fmt: skip
    return rows


def rcv1_runs(ctx: Context) -> list[Row]:
    """Test scores of all methods on splits drawn anew; split -1 is the file's own."""
    task, runs = ctx.load("rcv1"), []
    offsets = {"": [{}], ", tuned offset": [{"offset": offset} for offset in RCV1_OFFSETS]}
    at_least_one = [setting | {"at_least_one": True} for setting in TUNED]
    methods = [
        Method(
            f"MultiLabelSVC {rescaling}, {edges or 'no'} edges",
            lambda C, edges=edges, rescaling=rescaling: Structural(
                _rcv1(edges, rescaling, C, PATH_PASSES, warm_start=True)
            ),
            GRIDS[rescaling], offsets, warm=True,
        )
        for edges in ("full", "tree", None) for rescaling in ("slack", "margin")
    ]  # fmt: skip
    variants = {"": [{}], ", tuned threshold": TUNED, ", tuned threshold, at least one": at_least_one}
    methods += _peers(ctx, RCV1_LINEAR, variants)
    for split in range(-1, ctx.pick(SPLITS, 1)):
        print(f"split {split}", flush=True)
        mine = compare_methods(task if split < 0 else shuffled(task, split), methods)
        runs += [{"split": split} | {key: value for key, value in run.items() if key != "rows"} for run in mine]
    return runs


def rcv1_summary(content: Content) -> list[Row]:
    """For each method: mean scores, by how much full slack is above it split by split, standard errors, seconds."""
    runs = content["runs"]
    drawn, made = [run for run in runs if run["split"] >= 0], []
    for name, both in grouped(runs, "method"):
        mine, own = [run for run in both if run["split"] >= 0], next(run for run in both if run["split"] < 0)
        above = {score: paired(drawn, FIRST, name, score) for score in SCORES}
        made.append({
            "method": name, "splits": len(mine), "above": above, "C": [run["C"] for run in mine],
            **{score: mean_and_error([run[score] for run in mine]) for score in SCORES},
            "leads": {
                score: f"{mean:+.4f} ± {error:.4f} {lead(mean, error, less_is_better=score == 'hamming')}"
                for score, (mean, error) in above.items()
            },
            "at_end": sum(run["at_end"] for run in mine), "fit_s": statistics.median(run["fit_s"] for run in mine),
            "choice_s": statistics.median(run["choice_s"] for run in mine), "file": own,
        })  # fmt: skip
    return made


def _beside_paper(content: Content) -> Iterable[Row]:
    for row in rcv1_summary(content):
        yield {"method": row["method"], **row["file"], "method ": row["method"]}
    for name, values in PAPER.items():
        yield {"method": name, **dict(zip(SCORES, values, strict=False))}


_FEW = (
    "OneVsRest", "OneVsRest, tuned threshold", "ClassifierChain", "MultiLabelSVC margin, full edges",
    "MultiLabelSVC margin, full edges, tuned offset", FIRST, f"{FIRST}, tuned offset",
)  # fmt: skip


def _rcv1_targets(content: Content) -> Iterable[Ratio | Limit]:
    rows = rcv1_summary(content)
    seconds = {row["method"]: row["fit_s"] for row in rows}
    peers = dict.fromkeys(("OneVsRest", "ClassifierChain"))
    yield from ratios("rcv1, 50 topics, a fit at the C chosen", seconds, FIRST, peers)
    for row in content["timed"]:
        what = f"rcv1, {row['edges']}, {row['rescaling']}"
        if row["edges"] == "tree":
            yield Limit(f"{what}, an argmax", row["us_argmax"], 8.0, "us")
            if row["to_1"]:
                yield Limit(f"{what}, gap of 1%", row["to_1"][0], 20.0, "s")
        if row["edges"] == "full":
            yield Limit(f"{what}, training", row["processor_s"], 120.0, "s")
            yield Limit(f"{what}, the process", row["process_peak_mb"], 2000.0, "MB")


TASKS = {
    "structured_yeast": Task(
        "`MultiLabelSVC` on yeast (1500 training and 917 test rows, 103 columns, 14 labels, all pairs), slack and "
        "margin rescaling, both exact: time of 20 and 100 passes, certified gap, test scores beside OneVsRest and "
        "ClassifierChain.",
        {"runs": yeast_runs, "compared": yeast_compared, "orders": yeast_orders},
        {
            "runs": Table(
                "Yeast, all pairs, processor seconds", "runs",
                "rescaling | C and offset: {chosen} | C: {C:.3g} | offset: {offset:g} | 20 passes s: "
                "{passes_20[median_processor_s]:.2f} | 100 passes s: {passes_100[median_processor_s]:.2f} | "
                "us/example: {us_per_step:.1f} | us/search: {us_per_search:.1f} | gap 20: {gap_few:.2%} | gap 100: "
                "{gap:.2%} | jaccard 20: {jaccard_few:.4f} | " + _SCORES,
            ),
            "few": Table(
                "Yeast: test Jaccard and the difference from the first row", _yeast_few,
                "method | example Jaccard: {jaccard:.3f} | beside the first: {beside} | fit: {fit_s:.1f} s",
            ),
            "compared": Table(
                "Test scores, C by five folds of the training rows", lambda content: map(with_lead,
                content["compared"]),
                "columns | method | C: {C:.3g} | at end of grid: {at_end} | by folds: {held_out:.4f} | " + _SCORES
                + " | Jaccard minus slack's: {beside}",
            ),
            "orders": Table(
                "The papers' C: test scores of several orders of the examples", "orders",
                "rescaling | passes | " + " | ".join(f"{score.replace('_', ' ')}: {{values[{score}]:.4f}}"
                for score in SCORES),
            ),
        },
        _yeast_targets, subject="structures", half="tuning",
    ),
    "structured_rcv1": Task(
        "`MultiLabelSVC` on rcv1subset1 with its 50 most frequent labels (3000 training and 3000 test rows, 47,236 "
        "sparse columns), all 1225 pairs (local search), a tree of pairs (exact) and none. First the file's halves at "
        "the papers' C, then splits of all rows drawn anew, beside one-vs-rest, thresholds and chains; differences are "
        "paired by split.",
        {"timed": rcv1_timed, "runs": rcv1_runs},
        {
            "timed": Table(
                "The file's halves at the papers' C: processor seconds, from nothing to a gap of 1%", "timed",
                "edges | rescaling | papers' C: {papers_C:g} | us/argmax: {us_argmax:.1f} | us/search: "
                "{us_per_search:.1f} | to 5%: {to_5[0]:.1f} | to 1%: {to_1[0]:.1f} | passes | gap: {gap:.2%} | "
                "certified | proved gap: {proved_gap:.1%} | MB grown: {peak_mb:.0f} | jaccard: {jaccard:.4f} | "
                "prototype | us/prediction: {us_per_prediction:.0f} | proved: {proved:.1%}",
            ),
            "few": Table(
                "50 topics of rcv1subset1, random splits", lambda content: [row for row in rcv1_summary(content)
                if row["method"] in _FEW],
                "method | example Jaccard: {jaccard:±.3f} | macro F1: {macro_f1:±.3f} | fit: {fit_s:.1f} s",
            ),
            "means": Table(
                "Means over splits drawn anew, ± standard errors; C chosen on training rows", rcv1_summary,
                "method | " + _WITH_ERRORS
                + " | fit s: {fit_s:.1f} | choice s: {choice_s:.1f} | C: {C:g} | at end of grid: {at_end}",
            ),
            "leads": Table(
                f"{FIRST} minus the other, paired by split, and whether it leads by two standard errors",
                lambda content: [row for row in rcv1_summary(content) if row["method"] != FIRST],
                "other: {method} | " + " | ".join(f"{score.replace('_', ' ')}: {{leads[{score}]}}" for score in SCORES),
            ),
            "file": Table("The file's halves, beside the paper (other halves)", _beside_paper,
                "method | C: {C:g} | " + _SCORES),
        },
        _rcv1_targets, subject="structures", half="tuning",
    ),
}  # fmt: skip
