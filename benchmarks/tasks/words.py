"""Handwritten words: `ChainSVC` beside classifiers of single letters."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from sklearn.svm import SVC, LinearSVC

from benchmarks.data.structures import Array, Words
from benchmarks.task import Content, Context, Limit, Row, Table, Task, grouped, mean_and_error, ratios
from benchmarks.tasks._structured_methods import Method, compare_methods
from widemargin import ChainSVC
from widemargin_papers.data import LabelSets

LETTER_GRID = (0.01, 0.03, 0.1, 0.3, 1.0)
REFERENCE = "LinearSVC, a letter"


class Letters:
    """LinearSVC or an RBF SVC per letter; with `window` it sees the letters beside it as well."""

    def __init__(self, C: float, window: int = 0, rbf: bool = False) -> None:
        self.window, self.svm = window, SVC(C=C) if rbf else LinearSVC(C=C, random_state=0)

    def _rows(self, X: Sequence[Array]) -> Array:
        padded = [np.pad(x, ((self.window, self.window), (0, 0))) for x in X]
        return np.concatenate([
            np.hstack([wide[shift : shift + len(x)] for shift in range(2 * self.window + 1)])
            for x, wide in zip(X, padded, strict=True)
        ])  # fmt: skip

    def fit(self, X: Sequence[Array], Y: Sequence[Array]) -> "Letters":
        self.svm.fit(self._rows(X), np.concatenate(Y))
        return self

    def predict(self, X: Sequence[Array]) -> list[Array]:
        return np.split(self.svm.predict(self._rows(X)), np.cumsum([len(x) for x in X])[:-1])


def letter_errors(Y: Sequence[Array], predicted: Sequence[Array]) -> dict[str, float]:
    """Share of wrong letters, and of words with one."""
    wrong = [int((y != found).sum()) for y, found in zip(Y, predicted, strict=True)]
    return {
        "character": sum(wrong) / sum(y.shape[0] for y in Y),
        "word": float(np.mean([count > 0 for count in wrong])),
    }


def parts(words: Words, fold: int) -> LabelSets:
    """A fold as training words, the nine others as test words: arrays of arrays, of which rows can be picked."""

    def ragged(some: Sequence[Array]) -> Array:
        made = np.empty(len(some), dtype=object)
        made[:] = some
        return made

    X, Y, inside = ragged(words.X), ragged(words.Y), words.fold == fold
    return LabelSets(X[inside], Y[inside], X[~inside], Y[~inside], "words")


def errors_of(ctx: Context, methods: Sequence[Method], folds: int) -> list[Row]:
    """Errors of methods that are trained on each of some folds; C is chosen by letters on a fifth of the words."""
    words = ctx.load("ocr")
    return [
        {"fold": fold, **run}
        for fold in range(ctx.pick(folds, 1))
        for run in compare_methods(
            parts(words, fold), methods, merit=lambda Y, said: -letter_errors(Y, said)["character"],
            judge=letter_errors,
        )
    ]  # fmt: skip


def linear(ctx: Context) -> list[Row]:
    """Linear features of a letter's own pixels, and of its neighbours'."""

    def chains(rescaling: str, C: float) -> ChainSVC:
        return ChainSVC(C=C, rescaling=rescaling, max_iter=200, tol=0.01, random_state=0)

    methods = [
        Method("ChainSVC slack", partial(chains, "slack"), (0.0003, 0.001, 0.003, 0.01, 0.03)),
        Method("ChainSVC margin", partial(chains, "margin"), LETTER_GRID),
        Method(REFERENCE, Letters, LETTER_GRID),
        Method("LinearSVC, neighbours", partial(Letters, window=1), LETTER_GRID),
    ]
    return errors_of(ctx, methods, 10)


def mapped(ctx: Context) -> list[Row]:
    """`ChainSVC` as it comes and with features of a kernel; a kernel SVM per letter."""
    mapped_chain, width = partial(ChainSVC, random_state=0, feature_map="nystroem"), {"gamma": None}
    methods = [
        Method("ChainSVC()", lambda _: ChainSVC(random_state=0), (None,)),
        Method("ChainSVC, nystroem", lambda _: mapped_chain(), (None,)),
        Method("ChainSVC, nystroem, width chosen", lambda _: mapped_chain(solver_options=width), (None,)),
        Method("RBF SVC, neighbours", partial(Letters, window=1, rbf=True), (1.0, 10.0, 100.0)),
    ]
    return errors_of(ctx, methods, 3)


def _means(part: str) -> Callable[[Content], Iterable[Row]]:
    """Means over the folds; older records have words that were trained on nine folds, too."""

    def rows(content: Content) -> Iterable[Row]:
        found = [run for run in content[part] if not run.get("large")]
        for name, own in grouped(found, "method"):
            errors = {what: mean_and_error([100 * run[what] for run in own]) for what in ("character", "word")}
            seconds = statistics.fmean(run.get("seconds", run["fit_s"]) for run in own)
            fit_s = statistics.median(run["fit_s"] for run in own)
            yield {"method": name, "folds": len(own), "seconds": seconds, "fit_s": fit_s, **errors}

    return rows


class structured_ocr(Task):
    """`ChainSVC` on OCR letters (6877 words, 52,152 letters of 16 x 8 pixels, 26 states) beside LinearSVC per letter,
    which sees the letter alone or its two neighbours too. Each fold in turn is trained on and the other nine tested.
    """

    subject = "structures"
    half = "tuning"
    parts = {"runs": linear, "mapped": mapped}
    tables = {
        "few": Table(
            "One of ten folds for training", _means("runs"),
            "method | wrong letters, %: {character:±.1f} | fit: {fit_s:.1f} s",
        ),
        "mapped": Table(
            "One of ten folds for training, C (and the width of the kernel) chosen inside", _means("mapped"),
            "method | folds | wrong letters, %: {character:±.1f} | wrong words, %: {word:±.1f} "
            "| choice and fit: {seconds:.0f} s",
        ),
    }  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        seconds = {row["method"]: row["fit_s"] for row in _means("runs")(content)}
        peers = dict.fromkeys((REFERENCE, "LinearSVC, neighbours"))
        return ratios("OCR words, a fit at the C chosen", seconds, "ChainSVC margin", peers)
