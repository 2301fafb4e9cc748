"""`ChainSVC` on handwritten words (OCR letters, ten folds): character and word errors, time to a 1% gap.

Slack and margin rescaling beside LinearSVC per letter, which sees the letter alone or its two neighbours too. Small:
each fold in turn is trained on, the other nine are tested. Large: the reverse, for the first folds. C is chosen by
the character error on a fifth of the training words. One thread, processor seconds.
Run as `python -m benchmarks.structured_ocr`; see README.md here.
"""

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from benchmarks.common import MissingDataError, machine, one_thread, parser, show, skipped, write
from benchmarks.structured_tasks import Array, Clock, Words, mean_and_error, ocr, quietly, synthetic_words
from widemargin import ChainSVC

GRIDS = {"slack": (0.0003, 0.001, 0.003, 0.01, 0.03), "margin": (0.01, 0.03, 0.1, 0.3, 1.0)}
LINEAR = (0.01, 0.03, 0.1, 0.3, 1.0)
PASSES = 40
"""For every C of a path."""

REFERENCE = "LinearSVC, a letter"
Run = dict[str, Any]
Part = tuple[list[Array], list[Array]]


class Letters:
    """LinearSVC per letter; with `window` it sees the letters beside it as well."""

    def __init__(self, C: float, window: int = 0) -> None:
        self.C, self.window = C, window

    def _rows(self, X: Sequence[Array]) -> Array:
        return np.concatenate([self._beside(x) for x in X])

    def _beside(self, x: Array) -> Array:
        padded = np.pad(x, ((self.window, self.window), (0, 0)))
        return np.hstack([padded[shift : shift + x.shape[0]] for shift in range(2 * self.window + 1)])

    def fit(self, X: Sequence[Array], Y: Sequence[Array]) -> "Letters":
        """Train."""
        with quietly():
            self.model = LinearSVC(C=self.C, random_state=0).fit(self._rows(X), np.concatenate(Y))
        return self

    def predict(self, X: Sequence[Array]) -> list[Array]:
        """A letter per step."""
        found = self.model.predict(self._rows(X))
        return np.split(found, np.cumsum([x.shape[0] for x in X])[:-1])


def errors(Y: Sequence[Array], predicted: Sequence[Array]) -> dict[str, float]:
    """Share of wrong letters, and of words with one."""
    wrong = [int((y != found).sum()) for y, found in zip(Y, predicted, strict=True)]
    return {
        "character": sum(wrong) / sum(y.shape[0] for y in Y),
        "word": float(np.mean([count > 0 for count in wrong])),
    }


def chain(rescaling: str, C: float, passes: int, **more: Any) -> ChainSVC:
    """An estimator."""
    return ChainSVC(C=C, rescaling=rescaling, max_iter=passes, random_state=0, **{"tol": 0.01} | more)


def parts(words: Words, fold: int, large: bool) -> tuple[Part, Part]:
    """Training and test words."""
    inside = (words.fold == fold) != large

    def part(chosen: Array) -> Part:
        return [words.X[i] for i in np.flatnonzero(chosen)], [words.Y[i] for i in np.flatnonzero(chosen)]

    return part(inside), part(~inside)


def held_out(train: Part) -> tuple[Part, Part]:
    """Four fifths of the words, and one."""
    X, Y = train
    order = np.random.default_rng(0).permutation(len(X)).tolist()
    cut = len(X) // 5
    rest, held = sorted(order[cut:]), sorted(order[:cut])
    return ([X[i] for i in rest], [Y[i] for i in rest]), ([X[i] for i in held], [Y[i] for i in held])


def path(rescaling: str, grid: Sequence[float], train: Part) -> Iterator[tuple[float, ChainSVC, float]]:
    """C, the model trained for each C in turn from the dual point of the last, and the processor seconds so far."""
    svm, started = chain(rescaling, grid[0], PASSES, warm_start=True), time.process_time()
    for C in grid:
        with quietly():
            svm.set_params(C=C).fit(*train)
        yield C, svm, time.process_time() - started


def peer(window: int, grid: Sequence[float], train: Part) -> Iterator[tuple[float, Letters, float]]:
    """The same for LinearSVC, each from nothing."""
    for C in grid:
        started = time.process_time()
        yield C, Letters(C, window).fit(*train), time.process_time() - started


def run(name: str, train: Part, test: Part) -> Run:
    """Choose C, train, test."""
    if name.startswith("ChainSVC"):
        rescaling = name.split()[1]
        grid: Sequence[float] = GRIDS[rescaling]
        fits: Any = lambda grid, part: path(rescaling, grid, part)  # noqa: E731
    else:
        window, grid = int("neighbours" in name), LINEAR
        fits = lambda grid, part: peer(window, grid, part)  # noqa: E731
    inner, held = held_out(train)
    found = {C: errors(held[1], model.predict(held[0]))["character"] for C, model, _ in fits(grid, inner)}
    best = min(found, key=lambda C: found[C])
    upto = [C for C in grid if best >= C] if name.startswith("ChainSVC") else [best]
    *_, (_, model, seconds) = fits(upto, train)
    return {
        "method": name, "C": best, "at_end": best in (grid[0], grid[-1]), "fit_s": seconds,
        "gap": getattr(model, "gap_", None), "train_words": len(train[0]), **errors(test[1], model.predict(test[0])),
    }  # fmt: skip


def to_a_gap(train: Part, test: Part, rescaling: str, C: float, passes: int) -> Run:
    """One training from nothing until the gap is 1%."""
    clock = Clock()
    svm = clock.fit(lambda: chain(rescaling, C, passes, tol=0.01, callbacks=[clock]).fit(*train))
    return {
        "rescaling": rescaling, "C": C, "train_words": len(train[0]), "processor_s": clock.processor,
        "passes": svm.n_iter_, "gap": svm.gap_, "to_5": clock.until(0.05), "to_1": clock.until(0.01),
        "us_per_search": 1e6 * clock.processor / svm.n_oracle_calls_, **errors(test[1], svm.predict(test[0])),
    }  # fmt: skip


def summary(runs: Sequence[Run]) -> list[Run]:
    """Mean errors of every method and direction, and their difference to LinearSVC's, paired by fold."""
    made = []
    for large, name in dict.fromkeys((run["large"], run["method"]) for run in runs):
        mine = [run for run in runs if (run["large"], run["method"]) == (large, name)]
        base = {run["fold"]: run for run in runs if (run["large"], run["method"]) == (large, REFERENCE)}
        row: Run = {"large": large, "method": name, "folds": len(mine), "C": [run["C"] for run in mine]}
        for what in ("character", "word"):
            row[what] = mean_and_error([run[what] for run in mine])
            row[f"{what}_less"] = mean_and_error([run[what] - base[run["fold"]][what] for run in mine])
        made.append(
            row | {
                "fit_s": statistics.median(run["fit_s"] for run in mine), "at_end": sum(run["at_end"] for run in mine),
                "gap": None if mine[0]["gap"] is None else max(run["gap"] for run in mine),
            }
        )  # fmt: skip
    return made


def tables(rows: Sequence[Run], timed: Sequence[Run]) -> list[str]:
    """Print and return what was measured."""

    def share(value: tuple[float, float], sign: str = "") -> str:
        return f"{100 * value[0]:{sign}.2f}" + ("" if np.isnan(value[1]) else f" ± {100 * value[1]:.2f}")

    first = show(
        "Test errors in %, C chosen on training words",
        [
            "trained on", "folds", "method", "C", "at end of grid", "fit s", "gap", "characters", "words",
            f"characters minus {REFERENCE}", "words minus",
        ],
        [
            [
                "nine folds" if row["large"] else "one fold", row["folds"], row["method"],
                " ".join(f"{C:g}" for C in dict.fromkeys(row["C"])), row["at_end"], f"{row['fit_s']:.2f}",
                "-" if row["gap"] is None else f"{row['gap']:.1%}", share(row["character"]), share(row["word"]),
                share(row["character_less"], "+"), share(row["word_less"], "+"),
            ]
            for row in rows
        ],
    )  # fmt: skip
    second = show(
        "From nothing to a gap of 1% at the C chosen for fold 0, processor seconds",
        ["words", "rescaling", "C", "us/search", "to 5%", "to 1%", "passes", "gap", "characters %", "words %"],
        [
            [
                run["train_words"], run["rescaling"], f"{run['C']:g}", f"{run['us_per_search']:.1f}",
                *("-" if run[key] is None else f"{run[key][0]:.1f}" for key in ("to_5", "to_1")), run["passes"],
                f"{run['gap']:.2%}", f"{100 * run['character']:.2f}", f"{100 * run['word']:.2f}",
            ]
            for run in timed
        ],
    )  # fmt: skip
    return [first, second]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--folds", type=int, default=10, help="folds that are trained on alone (default 10)")
    made.add_argument("--large", type=int, default=1, help="folds whose other nine are trained on (default 1)")
    made.add_argument("--passes", type=int, default=600, help="most passes of the timed fits (default 600)")
    options = made.parse_args(arguments)
    about = machine()
    try:
        words = synthetic_words() if options.quick else ocr(options)
    except MissingDataError as error:
        return skipped(error)
    names = ["ChainSVC slack", "ChainSVC margin", REFERENCE, *([] if options.no_peers else ["LinearSVC, neighbours"])]
    folds, passes = (2, 20) if options.quick else (options.folds, options.passes)
    runs: list[Run] = []
    timed: list[Run] = []
    with one_thread():
        for rescaling in GRIDS:
            with quietly():
                chain(rescaling, 1.0, 2).fit(words.X[:10], words.Y[:10])  # compiles
        for large, count in ((False, folds), (True, options.large)):
            for fold in range(count):
                train, test = parts(words, fold, large)
                mine = [{"large": large, "fold": fold, **run(name, train, test)} for name in names]
                print(f"{'large' if large else 'small'}, fold {fold}", flush=True)
                runs += mine
                if fold == 0:
                    timed += [to_a_gap(train, test, one["method"].split()[1], one["C"], passes) for one in mine[:2]]
    rows = summary(runs)
    write(
        options,
        "structured_ocr",
        {"machine": about, "summary": rows, "timed": timed, "runs": runs},
        tables(rows, timed),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
