"""Wrong labels found: `label_suspects` beside cleanlab's rankings, by the labels that were planted."""

import statistics
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils import check_random_state

import widemargin as wm
from benchmarks.data.sources import drawn, two_classes
from benchmarks.task import Content, Context, Limit, Row, Table, Task, mean_and_error, paired, quietly

ROWS, FOLDS, REPEATS, SEEDS, SHARE = 3000, 5, 3, 5, 0.1
OURS = "label_suspects"
PEERS = {
    "cleanlab, self confidence": "self_confidence",
    "cleanlab, normalized margin": "normalized_margin",
    "cleanlab, confidence-weighted entropy": "confidence_weighted_entropy",
}
"""Its name here, and cleanlab's."""


def plant(y: npt.NDArray[np.int64], share: float, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Labels of which a share is another class, and which ones."""
    rng = np.random.default_rng((seed, 2))
    planted = np.zeros(len(y), dtype=np.bool_)
    planted[rng.permutation(len(y))[: round(share * len(y))]] = True
    n_classes = int(y.max()) + 1
    return np.where(planted, (y + rng.integers(1, n_classes, len(y))) % n_classes, y), planted


def _probabilities(estimator: Any, X: Any, y: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """Those that `label_suspects` with this seed judges by."""
    rng = check_random_state(seed)
    cuts = [StratifiedKFold(FOLDS, shuffle=True, random_state=rng.randint(2**31 - 1)) for _ in range(REPEATS)]
    return np.mean([cross_val_predict(estimator, X, y, cv=cut, method="predict_proba") for cut in cuts], axis=0)


def rankings(ctx: Context) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Average precision of every ranking, by data set and seed."""
    cleanlab, found = ctx.peer("cleanlab.rank"), {}
    for name, data in ctx.every(slice(3)):
        rows = (data.X, data.digit) if name == "mnist" else data if name == "letter" else two_classes(name, data)
        split, of = drawn(*rows, ROWS), {}
        for seed in range(ctx.pick(SEEDS, 2)):
            X, right, _, _ = split(seed)
            y, planted = plant(right, SHARE, seed)
            estimator = LogisticRegression(C=0.1, max_iter=500)
            settings: Row = {"folds": FOLDS, "repeats": REPEATS, "random_state": seed}
            with quietly():
                suspicion = {OURS: -wm.label_suspects(estimator, X, y, **settings).margin}
                if cleanlab is not None:
                    shares = _probabilities(estimator, X, y, seed)
                    for peer, method in PEERS.items():
                        suspicion[peer] = -cleanlab.get_label_quality_scores(y, shares, method=method)
            for ranking, suspected in suspicion.items():
                precision = round(float(average_precision_score(planted, suspected)), 5)
                of.setdefault(ranking, {"average_precision": []})["average_precision"].append(precision)
        found[name] = of
    return found


def _compared(content: Content) -> Iterable[Row]:
    for data, of in content["rankings"].items():
        precision = {name: one["average_precision"] for name, one in of.items()}
        row: Row = {"data": data} | {name: mean_and_error(values) for name, values in precision.items()}
        if peers := [precision[name] for name in PEERS if name in precision]:
            best = max(peers, key=statistics.fmean)
            row |= {"best": statistics.fmean(best), "gain": paired(precision[OURS], best)}
        yield row


class label_suspects(Task, subject="suspects", peers=("cleanlab",)):
    """Average precision of planted wrong labels (a tenth of 3,000 rows, five seeds), `label_suspects` beside cleanlab's
    three rankings over the probabilities of the same folds. The data sets have wrong labels of their own: no ranking
    reaches 1.
    """

    parts = {"rankings": rankings}
    few = Table(
        "Average precision beside the best of cleanlab's rankings", _compared,
        "data | `label_suspects`: {label_suspects:±.3f} | best of cleanlab: {best:.3f} | minus it: {gain:±+.3f}",
    )  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        for row in _compared(content):
            if "best" in row:
                what = f"{row['data']}, average precision beside cleanlab's"
                yield Limit(what, row[OURS][0], row["best"], at_least=True)
