"""Handwritten words: `ChainSVC` beside classifiers of single letters."""

import statistics
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVC, LinearSVC

from benchmarks.data.structures import Array, Words
from benchmarks.task import Content, Context, Ratio, Row, Table, Task, grouped, mean_and_error, quietly, ratios
from benchmarks.tasks._structured_methods import Method, compare_methods
from widemargin import ChainSVC
from widemargin_papers.data import LabelSets

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


class Chains:
    """`ChainSVC`, which predicts words of different lengths."""

    def __init__(self, svm: ChainSVC) -> None:
        self.svm = svm

    def fit(self, X: Any, Y: Any) -> "Chains":
        """Train, from the dual point of the last time where the SVM is one that starts warm."""
        with quietly():
            self.svm.fit(X, Y)
        return self

    def predict(self, X: Any) -> list[Array]:
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


TASKS = {
    "structured_ocr": Task(
        "`ChainSVC` on OCR letters (6877 words, 52,152 letters of 16 x 8 pixels, 26 states) beside LinearSVC per "
        "letter, which "
        "sees the letter alone or its two neighbours too. Each fold in turn is trained on and the other nine tested.",
        {"runs": ocr_runs, "mapped": ocr_mapped},
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
        },
        _ocr_targets, subject="structures", half="tuning",
    ),
}  # fmt: skip
