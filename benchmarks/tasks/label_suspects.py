"""Wrong labels found: `label_suspects` beside cleanlab's rankings, by the labels that were planted."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils import check_random_state

import widemargin as wm
from benchmarks.data.halves import names
from benchmarks.data.sources import drawn, two_classes
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, mean_and_error

ROWS, FOLDS, REPEATS, SEEDS, SHARE = 3000, 5, 3, 5, 0.1
OURS, ONE_ROUND = "label_suspects", "label_suspects, one round"
PEERS = {
    "cleanlab, self confidence": "self_confidence",
    "cleanlab, normalized margin": "normalized_margin",
    "cleanlab, confidence-weighted entropy": "confidence_weighted_entropy",
}
"""Its name here, and cleanlab's."""

Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


def _rows(ctx: Context, name: str) -> Callable[[int], Rows]:
    """Training rows and labels of a data set, standardised, by seed."""
    if ctx.quick:
        X, y = make_classification(400, 8, n_informative=5, n_classes=3, random_state=len(name))
    else:
        data = ctx.load(name)
        several = {"mnist": lambda: (data.X, data.digit), "letter": lambda: data}
        X, y = several[name]() if name in several else two_classes(name, data)
    split = drawn(X, y, ROWS)
    return lambda seed: split(seed)[:2]


def plant(y: npt.NDArray[np.int64], share: float, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Labels of which a share is another class, and which ones."""
    rng = np.random.default_rng((seed, 2))
    planted = np.zeros(len(y), dtype=np.bool_)
    planted[rng.permutation(len(y))[: round(share * len(y))]] = True
    n_classes = int(y.max()) + 1
    return np.where(planted, (y + rng.integers(1, n_classes, len(y))) % n_classes, y), planted


def _probabilities(estimator: Any, X: Any, y: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """Those that `label_suspects` with this seed judges its first round by."""
    rng = check_random_state(seed)
    cuts = [StratifiedKFold(FOLDS, shuffle=True, random_state=rng.randint(2**31 - 1)) for _ in range(REPEATS)]
    return np.mean([cross_val_predict(estimator, X, y, cv=cut, method="predict_proba") for cut in cuts], axis=0)


def rankings(ctx: Context) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Average precision and processor seconds of every ranking, by data set and seed."""
    cleanlab, found = ctx.peer("cleanlab.rank"), {}
    for name in names("suspects", "reporting")[: ctx.pick(None, 3)]:
        make, of = _rows(ctx, name), {}
        for seed in range(ctx.pick(SEEDS, 2)):
            X, right = make(seed)
            y, planted = plant(right, SHARE, seed)
            estimator = LogisticRegression(C=0.1, max_iter=500)
            seen: dict[str, tuple[Any, float]] = {}
            settings: Row = {"folds": FOLDS, "repeats": REPEATS, "random_state": seed}
            for ours, refit in ((OURS, True), (ONE_ROUND, False)):
                run = Timing.of(partial(wm.label_suspects, estimator, X, y, refit=refit, **settings))
                seen[ours] = (-run.result.margin, run.processor_median)
            if cleanlab is not None:
                run = Timing.of(partial(_probabilities, estimator, X, y, seed))
                for peer, method in PEERS.items():
                    score = -cleanlab.get_label_quality_scores(y, run.result, method=method)
                    seen[peer] = (score, run.processor_median)
            for ranking, (suspicion, seconds) in seen.items():
                row = of.setdefault(ranking, {"average_precision": [], "processor_s": []})
                row["average_precision"].append(round(float(average_precision_score(planted, suspicion)), 5))
                row["processor_s"].append(round(seconds, 3))
        found[name] = of
    return found


def _best(of: Mapping[str, Mapping[str, Sequence[float]]]) -> Sequence[float] | None:
    """Those of the best of cleanlab's rankings."""
    peers = [row["average_precision"] for name, row in of.items() if name in PEERS]
    return max(peers, key=statistics.fmean, default=None)


def _compared(content: Content) -> Iterable[Row]:
    for task, of in content["rankings"].items():
        row: Row = {"data": task} | {name: mean_and_error(one["average_precision"]) for name, one in of.items()}
        if (best := _best(of)) is not None:
            gain = mean_and_error(np.subtract(of[OURS]["average_precision"], best).tolist())
            row |= {"best": statistics.fmean(best), "gain": gain, "good": gain[0] >= 0.0}
        yield row


def _targets(content: Content) -> Iterable[Limit]:
    for row in _compared(content):
        if "best" in row:
            yield Limit(f"{row['data']}, average precision beside cleanlab's", row[OURS][0], row["best"], at_least=True)


TASKS = {
    "label_suspects": Task(
        "Average precision of planted wrong labels (a tenth of 3,000 rows, five seeds), `label_suspects` beside "
        "cleanlab's three rankings over the probabilities of the same folds. The data sets have wrong labels of their "
        "own: no ranking reaches 1.",
        {"rankings": rankings},
        {
            "few": Table(
                "Average precision beside the best of cleanlab's rankings", _compared,
                "data | `label_suspects`: {label_suspects:±.3f} | one round: {label_suspects, one round:±.3f} "
                "| best of cleanlab: {best:.3f}",
            ),
            "all": Table(
                f"Average precision of {SHARE:.0%} wrong labels", _compared,
                "data | " + " | ".join(f"{name}: {{{name}:±.3f}}" for name in (OURS, ONE_ROUND, *PEERS))
                + " | minus the best of cleanlab's: {gain:±+.3f} | at least as good: {good}",
            ),
        },
        _targets, subject="suspects", peers=("cleanlab",),
    ),
}  # fmt: skip
