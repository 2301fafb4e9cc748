"""Hierarchies and words: `HierarchicalSVC` and `ChainSVC` beside local and flat classifiers."""

import statistics
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVC, LinearSVC

from benchmarks.data.halves import names
from benchmarks.data.structures import Array, Words
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
    HiClass,
    Method,
    OneVsRest,
    Structural,
    TopDown,
    compare_methods,
    one_path,
    parents,
    scores,
    top_down,
)
from benchmarks.tasks.label_sets import lead, with_lead
from widemargin import ChainSVC, HierarchicalSVC
from widemargin.datasets import Hierarchy, LabelSets

_SCORES = " | ".join(f"{score.replace('_', ' ')}: {{{score}:.4f}}" for score in SCORES)

# --- hierarchies ------------------------------------------------------------------------------------------------------

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

KNOWN: dict[str, dict[str, tuple[float, float, float | None]]] = {
    "ImCLEF07A": {"margin": (1e-5, 0.734, 17.0)},
    "Enron_corr": {"margin": (1e-3, 0.518, 0.25), "slack": (1e-2, 0.502, None)},
}
"""The papers' C, the test Jaccard of the prototype at a gap of 1%, and the seconds to get there."""


def _hierarchical(task: Hierarchy, rescaling: str, C: float, passes: int, **more: Any) -> HierarchicalSVC:
    return HierarchicalSVC(
        task.paths, C=C, rescaling=rescaling, max_iter=passes, random_state=0, **{"tol": 0.01} | more
    )


def _methods(ctx: Context, task: Hierarchy) -> list[Method]:
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
                _hierarchical(task, rescaling, C, PASSES, labels=labels, warm_start=True)
            ),
            GRIDS[rescaling],
            offsets if labels == "sets" else {"": ({},)},
            warm=True,
        )
        for rescaling in ("slack", "margin")
        for labels in (("sets", "path") if alone else ("sets",))
    ]
    if not ctx.with_peers:
        return made
    made += [
        Method("OneVsRest", lambda C: OneVsRest(C, task.paths), LINEAR, variants),
        Method("ClassifierChain", Chain, LINEAR),
        Method("chain, top down, logistic", lambda C: Chain(C, top_down(parent), logistic=True), LOGISTIC),
        Method("local, top down", lambda C: TopDown(C, parent), LINEAR),
    ]
    if not alone:
        print("without hiclass: it predicts one path a row, and label sets here are several", file=sys.stderr)
    elif ctx.peer("hiclass") is not None:
        made += [
            Method("hiclass, per parent", lambda C: HiClass(C, task.paths, "ParentNode"), LINEAR),
            Method("hiclass, per node, logistic", lambda C: HiClass(C, task.paths, "Node"), LOGISTIC),
        ]
    return made


def path_known(run: Row) -> bool:
    """Whether the method knows that a label set is one path."""
    return "one path" in run["method"] or "hiclass" in run["method"]


def _beside_best(runs: Sequence[Row]) -> list[Row]:
    """With the difference of Jaccard to the best peer (or the best one), paired by test row."""
    for known in (False, True):
        group = [run for run in runs if path_known(run) == known]
        peers = [run for run in group if "HierarchicalSVC" not in run["method"]] or group
        best = max(peers, key=lambda run: float(run["jaccard"]), default=None)
        for run in group:
            run["against"] = best["method"] if best else None
            difference = run["rows"] - best["rows"] if best else run["rows"]
            run["difference"], run["difference_se"] = mean_and_error([*difference])
    return [{key: value for key, value in run.items() if key != "rows"} for run in runs]


def hierarchies(ctx: Context) -> list[Row]:
    """Test scores of all methods on every hierarchy of the half; C, offsets and thresholds chosen on training rows."""
    runs: list[Row] = []
    for name in names("structures", ctx.task.half):
        if name not in _HIERARCHIES or (ctx.quick and runs):
            continue
        task = ctx.load(name)
        runs += [{"data": name, **run} for run in _beside_best(compare_methods(task, _methods(ctx, task)))]
    return runs


_HIERARCHIES = ("ImCLEF07A", "Enron_corr", "Diatoms", LARGEST)


def to_a_gap(ctx: Context) -> list[Row]:
    """One training from nothing at the papers' C, until the gap is 1%."""
    rows = []
    for name in names("structures", ctx.task.half):
        for rescaling, (weight, prototype, limit) in KNOWN.get(name, {}).items():
            task, clock = ctx.load(name), Clock()
            small = _hierarchical(task, rescaling, 1.0, 2)
            Timing.of(partial(small.fit, task.X[:50], task.Y[:50]))  # compiles, for paths too
            C, passes = 1.0 / (weight * task.Y.shape[0]), ctx.pick(600, 20)
            made = _hierarchical(task, rescaling, C, passes, tol=0.01, callbacks=[clock])
            svm = clock.fit(partial(made.fit, task.X, task.Y))
            rows.append({
                "data": name, "rescaling": rescaling, "papers_C": weight, "C": C, "prototype": prototype,
                "limit_s": limit, **clock.row(svm),
                **scores(task.Y_test, svm.predict(task.X_test)),
            })  # fmt: skip
    return rows


def starts(ctx: Context) -> list[Row]:
    """Slack rescaling at a C: after the smaller ones of the grid, and from nothing with as many passes."""
    rows, grid = [], ctx.pick(GRIDS["slack"][:8], GRIDS["slack"][:2])
    for name in names("structures", ctx.task.half)[: ctx.pick(None, 1)]:
        if name not in _HIERARCHIES or name == LARGEST:
            continue
        task, passes = ctx.load(name), PASSES * len(grid)
        warm, cold = (
            _hierarchical(task, "slack", grid[0], PASSES, warm_start=True),
            _hierarchical(task, "slack", grid[-1], passes),
        )

        def path(warm: Any = warm, task: Hierarchy = task) -> Any:
            for C in grid:
                warm.set_params(C=C).fit(task.X, task.Y)
            return warm

        for start, train in (("warm", path), ("from 0", partial(cold.fit, task.X, task.Y))):
            clock = Clock()
            svm = clock.fit(train)
            rows.append({"data": name, "C": grid[-1], "start": start, "processor_s": clock.processor, "passes": passes,
                         "gap": svm.gap_, **scores(task.Y_test, svm.predict(task.X_test))})  # fmt: skip
    return rows


def _few(content: Content) -> Iterable[Row]:
    """Ours that is best on rows held out, the best peer, the better hiclass: of each hierarchy and kind of answer."""
    for data, known in dict.fromkeys((run["data"], path_known(run)) for run in content["runs"]):
        mine = {run["method"]: run for run in content["runs"] if run["data"] == data and path_known(run) == known}
        ours = [name for name in mine if "HierarchicalSVC" in name]
        best = max(ours, key=lambda name: float(mine[name]["held_out"]))
        shown = dict.fromkeys([best, mine[best]["against"]])
        hiclass = [name for name in mine if "hiclass" in name]
        if hiclass:
            shown |= {max(hiclass, key=lambda name: float(mine[name]["jaccard"])): None}
        for name in shown:
            yield with_lead(mine[name]) | {"kind": "one path" if known else "sets"}


def _hierarchy_targets(content: Content) -> Iterable[Ratio | Limit]:
    for name, runs in grouped(content["runs"], "data"):
        seconds = {row["method"]: row["fit_s"] for row in runs}
        ours = "HierarchicalSVC margin, one path"
        ours = ours if ours in seconds else "HierarchicalSVC margin"
        peers = dict.fromkeys(("OneVsRest", "ClassifierChain", "hiclass, per parent"))
        yield from ratios(f"{name}, a fit at the C chosen", seconds, ours, peers)
    for row in content["to_a_gap"]:
        limit = KNOWN.get(row["data"], {}).get(row["rescaling"], (0.0, 0.0, None))[2]
        if limit and row["to_1"]:
            yield Limit(f"{row['data']}, {row['rescaling']}, gap of 1%", row["to_1"][0], limit, "s")


def _hierarchy_sentences(content: Content) -> Iterable[tuple[str, str]]:
    found: dict[str, list[str]] = {"ahead": [], "within noise": [], "behind": []}
    for row in _few(content):
        if "HierarchicalSVC" in row["method"] and (said := lead(row["difference"], row["difference_se"])):
            found[said].append(f"{row['data']} ({row['kind']})")
    text = "; ".join(f"{said} on {', '.join(where)}" for said, where in found.items() if where)
    yield "docs/comparison.md", text


# --- handwritten words ------------------------------------------------------------------------------------------------

CHAIN_GRIDS = {"slack": (0.0003, 0.001, 0.003, 0.01, 0.03), "margin": (0.01, 0.03, 0.1, 0.3, 1.0)}
LETTER_GRID = (0.01, 0.03, 0.1, 0.3, 1.0)
CHAIN_PASSES, FOLDS, LARGE_FOLDS = 40, 10, 1
REFERENCE = "LinearSVC, a letter"
Part = tuple[list[Array], list[Array]]


class Letters:
    """LinearSVC or an RBF SVC per letter; with `window` it sees the letters beside it as well."""

    def __init__(self, C: float, window: int = 0, rbf: bool = False) -> None:
        self.window, self.svm = window, SVC(C=C) if rbf else LinearSVC(C=C, random_state=0)

    def _rows(self, X: Sequence[Array]) -> Array:
        return np.concatenate([self._beside(x) for x in X])

    def _beside(self, x: Array) -> Array:
        padded = np.pad(x, ((self.window, self.window), (0, 0)))
        return np.hstack([padded[shift : shift + x.shape[0]] for shift in range(2 * self.window + 1)])

    def fit(self, X: Sequence[Array], Y: Sequence[Array]) -> "Letters":
        """Train."""
        with quietly():
            self.model = self.svm.fit(self._rows(X), np.concatenate(Y))
        return self

    def predict(self, X: Sequence[Array]) -> list[Array]:
        """A letter per step."""
        return np.split(self.model.predict(self._rows(X)), np.cumsum([x.shape[0] for x in X])[:-1])


def letter_errors(Y: Sequence[Array], predicted: Sequence[Array]) -> dict[str, float]:
    """Share of wrong letters, and of words with one."""
    wrong = [int((y != found).sum()) for y, found in zip(Y, predicted, strict=True)]
    return {
        "character": sum(wrong) / sum(y.shape[0] for y in Y),
        "word": float(np.mean([count > 0 for count in wrong])),
    }


class Chains(Structural):
    """`ChainSVC`, which predicts words of different lengths."""

    def predict(self, X: Any) -> Any:
        """A letter per step."""
        return self.svm.predict(list(X))


def _chains(rescaling: str, C: float) -> Chains:
    return Chains(ChainSVC(C=C, rescaling=rescaling, max_iter=CHAIN_PASSES, tol=0.01, random_state=0, warm_start=True))


def _ragged(some: Sequence[Array]) -> Array:
    """An array of arrays, of which rows can be picked."""
    made = np.empty(len(some), dtype=object)
    made[:] = some
    return made


def parts(words: Words, fold: int, large: bool) -> tuple[Part, Part]:
    """Training and test words: a fold and the nine others, or the reverse."""
    inside = (words.fold == fold) != large
    return _words(words.X, words.Y, np.flatnonzero(inside)), _words(words.X, words.Y, np.flatnonzero(~inside))


def _words(X: Sequence[Array], Y: Sequence[Array], chosen: Array) -> Part:
    return [X[i] for i in chosen], [Y[i] for i in chosen]


def ocr_runs(ctx: Context) -> list[Row]:
    """C chosen by character errors on a fifth of the training words, for each fold; the reverse for the first."""
    words, runs = ctx.load("ocr"), []
    methods = [
        Method(f"ChainSVC {rescaling}", partial(_chains, rescaling), grid, warm=True)
        for rescaling, grid in CHAIN_GRIDS.items()
    ] + [Method(REFERENCE, Letters, LETTER_GRID)]
    methods += [Method("LinearSVC, neighbours", partial(Letters, window=1), LETTER_GRID)] if ctx.with_peers else []
    for large, count in ((False, ctx.pick(FOLDS, 2)), (True, LARGE_FOLDS)):
        for fold in range(count):
            train, test = parts(words, fold, large)
            task = LabelSets(*(_ragged(some) for some in (*train, *test)), "words")
            found = compare_methods(
                task, methods, merit=lambda Y, predicted: -letter_errors(Y, predicted)["character"],
                judge=letter_errors,
            )  # fmt: skip
            runs += [{"large": large, "fold": fold, "train_words": len(train[0]), **run} for run in found]
    return runs


def ocr_mapped(ctx: Context) -> list[Row]:
    """`ChainSVC` as it comes and with features of a kernel, trained on each of three folds; a kernel SVM per letter."""
    words, made = ctx.load("ocr"), []
    methods = [
        Method(name, lambda _, more=more: Chains(ChainSVC(random_state=0, **more)), (None,))
        for name, more in {
            "ChainSVC()": {},
            "ChainSVC, nystroem": {"feature_map": "nystroem"},
            "ChainSVC, nystroem, width chosen": {"feature_map": "nystroem", "solver_options": {"gamma": None}},
        }.items()
    ]
    methods += [Method("RBF SVC, neighbours", partial(Letters, window=1, rbf=True), (1.0, 10.0, 100.0))]
    for fold in range(ctx.pick(3, 1)):
        train, test = parts(words, fold, large=False)
        task = LabelSets(*(_ragged(some) for some in (*train, *test)), "words")
        found = compare_methods(
            task, methods, merit=lambda Y, predicted: -letter_errors(Y, predicted)["character"], judge=letter_errors
        )
        made += [{"fold": fold, "seconds": run["choice_s"] + run["fit_s"], **run} for run in found]
    return made


def _mapped(content: Content) -> Iterable[Row]:
    """Means over the folds."""
    for name, own in grouped(content["mapped"], "method"):
        errors = {what: mean_and_error([100 * run[what] for run in own]) for what in ("character", "word")}
        yield {"method": name, "folds": len(own), "seconds": statistics.fmean(run["seconds"] for run in own), **errors}


def ocr_timed(ctx: Context) -> list[Row]:
    """One training from nothing until the gap is 1%, at a C in the middle of the grid."""
    words, rows = ctx.load("ocr"), []
    for large in (False, True):
        train, test = parts(words, 0, large)
        for rescaling, grid in CHAIN_GRIDS.items():
            clock, C, passes = Clock(), grid[2], ctx.pick(600, 20)
            made = ChainSVC(C=C, rescaling=rescaling, max_iter=passes, random_state=0, tol=0.01, callbacks=[clock])
            svm = clock.fit(partial(made.fit, *train))
            rows.append({
                "rescaling": rescaling, "C": C, "train_words": len(train[0]), **clock.row(svm),
                **letter_errors(test[1], svm.predict(test[0])),
            })  # fmt: skip
    return rows


def ocr_summary(content: Content) -> list[Row]:
    """Mean errors of every method and direction in %, and their difference to LinearSVC's, paired by fold."""
    runs, made = content["runs"], []
    for (large, name), mine in grouped(runs, "large", "method"):
        base = {run["fold"]: run for run in runs if (run["large"], run["method"]) == (large, REFERENCE)}
        row: Row = {
            "trained on": "nine folds" if large else "one fold", "method": name, "folds": len(mine),
            "C": list(dict.fromkeys(run["C"] for run in mine)), "at_end": sum(run["at_end"] for run in mine),
            "fit_s": statistics.median(run["fit_s"] for run in mine),
            "gap": None if mine[0]["gap"] is None else max(run["gap"] for run in mine),
        }  # fmt: skip
        for what in ("character", "word"):
            row[what] = mean_and_error([100 * run[what] for run in mine])
            row[f"{what}_less"] = mean_and_error([100 * (run[what] - base[run["fold"]][what]) for run in mine])
        made.append(row)
    return made


def _ocr_targets(content: Content) -> Iterable[Ratio]:
    for name in ("one fold", "nine folds"):
        seconds = {row["method"]: row["fit_s"] for row in ocr_summary(content) if row["trained on"] == name}
        peers = dict.fromkeys((REFERENCE, "LinearSVC, neighbours"))
        yield from ratios(f"OCR words, {name}, a fit at the C chosen", seconds, "ChainSVC margin", peers)


_TABLES = {
    "few": Table(
        "Ours that is best on the rows held out, the best peer on the test rows, the better hiclass", _few,
        "data | predictions: {kind} | method | example Jaccard: {jaccard:.3f} | beside the best peer: {beside} | fit: "
        "{fit_s:.1f} s",
    ),
    "scores": Table(
        "Test scores", lambda content: map(with_lead, content["runs"]),
        "data | method | C: {C:g} | at end of grid: {at_end} | fit s: {fit_s:.2f} | gap: {gap:.1%} | " + _SCORES
        + " | minus best peer: {beside}",
    ),
    "to_a_gap": Table(
        "From nothing to a gap of 1%, processor seconds", "to_a_gap",
        "data | rescaling | papers' C: {papers_C:g} | us/search: {us_per_search:.1f} | to 5%: {to_5[0]:.2f} "
        "| to 1%: {to_1[0]:.2f} | passes | gap: {gap:.2%} | jaccard: {jaccard:.4f} | prototype: {prototype:.3f}",
    ),
    "starts": Table(
        "Slack rescaling after smaller C, and from nothing with as many passes", "starts",
        "data | C: {C:g} | start | passes | s: {processor_s:.1f} | gap: {gap:.1%} | jaccard: {jaccard:.4f}",
    ),
}  # fmt: skip
_PARTS = {"runs": hierarchies, "to_a_gap": to_a_gap, "starts": starts}

TASKS = {
    "structured_hierarchies": Task(
        "`HierarchicalSVC` on hierarchies of labels that nothing was chosen on (Enron_corr, Diatoms, cellcycle_FUN): "
        "slack and margin rescaling beside one-vs-rest, chains, local classifiers and, where every label set is one "
        "path, hiclass.",
        _PARTS, _TABLES, _hierarchy_targets, _hierarchy_sentences, subject="structures", peers=("hiclass",),
    ),
    "structured_hierarchies_tuned": Task(
        "The same on ImCLEF07A.", _PARTS, _TABLES, _hierarchy_targets, subject="structures", half="tuning",
        peers=("hiclass",)
    ),
    "structured_ocr": Task(
        "`ChainSVC` on OCR letters (6877 words, 52,152 letters of 16 x 8 pixels, 26 states) beside LinearSVC per "
        "letter, which "
        "sees the letter alone or its two neighbours too. Each fold in turn is trained on and the other nine tested.",
        {"runs": ocr_runs, "mapped": ocr_mapped, "timed": ocr_timed},
        {
            "few": Table(
                "One of ten folds for training", lambda content: [row for row in ocr_summary(content)
                if row["trained on"] == "one fold"],
                "method | wrong letters, %: {character:±.1f} | fit: {fit_s:.1f} s",
            ),
            "errors": Table(
                "Test errors in %, C chosen on training words", ocr_summary,
                "trained on | folds | method | C: {C:g} | at end of grid: {at_end} | fit s: {fit_s:.2f} | gap: "
                "{gap:.1%} | characters: {character:±.2f} | words: {word:±.2f} | characters minus LinearSVC's: "
                "{character_less:±+.2f} | words minus: {word_less:±+.2f}",
            ),
            "mapped": Table(
                "One of ten folds for training, C (and the width of the kernel) chosen inside", _mapped,
                "method | folds | wrong letters, %: {character:±.1f} | wrong words, %: {word:±.1f} | choice and fit: "
                "{seconds:.0f} s",
            ),
            "timed": Table(
                "From nothing to a gap of 1%, processor seconds", "timed",
                "words: {train_words} | rescaling | C: {C:g} | us/search: {us_per_search:.1f} | to 5%: {to_5[0]:.1f} "
                "| to 1%: {to_1[0]:.1f} | passes | gap: {gap:.2%} | characters: {character:.2%} | words: {word:.2%}",
            ),
        },
        _ocr_targets, subject="structures", half="tuning",
    ),
}  # fmt: skip
