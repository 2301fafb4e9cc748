"""What the experiments of slack rescaling share: data, splits, scores, oracles.

Choi, Meshi and Srebro (AISTATS 2016) train pairwise models of label sets (Finley and Joachims 2008) on yeast and on RCV1
with its 50 most frequent labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import f1_score, hamming_loss, jaccard_score

from widemargin.datasets import LabelSets, load_rcv1, load_yeast, synthetic_label_sets
from widemargin.datasets.label_sets import stacked
from widemargin.estimators._structural_ready import with_constant
from widemargin.structured.models import MultiLabelModel
from widemargin.structured.oracle import CONE, FREE, LEVEL, LEVELS, Answer, Oracle
from widemargin.structured.oracles.points import PointOracle

__all__ = ["MEASURES", "TITLES", "LevelCones", "Study", "TreeModel", "drawn_rows", "load", "measures", "parts", "split"]

TITLES = {"yeast": "Yeast", "rcv1": "RCV1, 50 labels"}
MEASURES = {
    "accuracy": "Acc", "loss": "label loss", "micro": "MiF1", "macro": "macro F1", "example": "example F1",
}  # fmt: skip

N_LABELS = 50

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Study:
    """The tasks by name."""

    tasks: Mapping[str, LabelSets]
    name: str


def load(folder: Path | None, quick: bool) -> Study:
    """Yeast and RCV1 with 50 labels, or few synthetic rows with 5 and 7 labels."""
    if quick:
        yeast, rcv1 = synthetic_label_sets(60, 5), synthetic_label_sets(60, 7, seed=1)
        return Study({"yeast": yeast, "rcv1": rcv1}, yeast.name)
    tasks = {"yeast": load_yeast(folder), "rcv1": load_rcv1(folder, N_LABELS)}
    return Study(tasks, ", ".join(task.name for task in tasks.values()))


def drawn_rows(data: LabelSets, count: int, seed: int) -> tuple[Any, Array]:
    """So many training rows, drawn at random (all if there are fewer), with a constant column, and their labels."""
    rows = np.random.default_rng(seed).permutation(data.Y.shape[0])[:count]
    return with_constant(data.X[rows]), data.Y[rows]


def split(data: LabelSets, seed: int) -> tuple[Any, Array, Any, Array]:
    """X, Y, X_test, Y_test: for seed 0 as published, else all rows divided anew in parts of the same sizes."""
    if seed == 0:
        return data.X, data.Y, data.X_test, data.Y_test
    X, Y = stacked(data)
    rows = np.random.default_rng(seed).permutation(Y.shape[0])
    train, test = np.split(rows, [data.Y.shape[0]])
    return X[train], Y[train], X[test], Y[test]


def parts(n: int, share: float, seed: int) -> tuple[Array, Array]:
    """Rows for training and rows held out, `share` of all."""
    rows = np.random.default_rng([seed, n]).permutation(n)
    held = round(share * n)
    return np.sort(rows[held:]), np.sort(rows[:held])


def measures(Y: Array, predicted: Array) -> dict[str, float]:
    """Example Jaccard, Hamming loss, micro, macro and example F1."""
    return {
        "accuracy": round(float(jaccard_score(Y, predicted, average="samples", zero_division=1.0)), 6),
        "loss": round(float(hamming_loss(Y, predicted)), 6),
        "micro": round(float(f1_score(Y, predicted, average="micro", zero_division=0.0)), 6),
        "macro": round(float(f1_score(Y, predicted, average="macro", zero_division=0.0)), 6),
        "example": round(float(f1_score(Y, predicted, average="samples", zero_division=1.0)), 6),
    }


class LevelCones:
    """Cones for an oracle of levels: every question costs one dynamic programme.

    The best label is the best one of its level, so a cone need only look at those: one point for every loss.
    """

    capabilities = frozenset({FREE, CONE, LEVEL, LEVELS})

    def __init__(self, make: Any) -> None:
        self._make = make  # a new oracle of levels, that has computed nothing yet
        inner: Oracle = make()
        self.smallest_loss, self.largest_loss = inner.smallest_loss, inner.largest_loss

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        answer: Answer = self._make().free(lam)
        return answer

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same among the best labels of every level, with `beta h <= g <= alpha h` and `h >= 0`."""
        inner = self._make()
        H = inner.levels()
        reached = np.flatnonzero(np.isfinite(H))
        points = PointOracle(H[reached], reached.astype(np.float64), lambda index: inner.level(int(reached[index])).y)
        return points.cone(lam, alpha, beta)

    def level(self, c: int) -> Answer | None:
        """The label with the largest h among those of loss c."""
        answer: Answer | None = self._make().level(c)
        return answer

    def levels(self) -> npt.NDArray[np.float64]:
        """The largest h of every loss."""
        H: npt.NDArray[np.float64] = self._make().levels()
        return H


class TreeModel(MultiLabelModel):
    """Label sets with the pairs of a spanning tree, whose oracle answers cones too."""

    def __init__(self) -> None:
        super().__init__("tree", oracle="tree")

    def oracle(self, x: Any, truth: Any, potentials: Array, theta: Array) -> Oracle:
        """The oracle of a training example."""
        make = super().oracle
        return LevelCones(lambda: make(x, truth, potentials, theta))
