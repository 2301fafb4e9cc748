"""What the experiments of slack rescaling share: data, splits, scores, oracles.

Choi, Meshi and Srebro (AISTATS 2016) train pairwise models of label sets (Finley and Joachims 2008) on yeast and on
RCV1 with its 50 most frequent labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.metrics import f1_score, hamming_loss, jaccard_score

from widemargin.extending import Matrix
from widemargin.structured.models import MultiLabelModel
from widemargin.structured.oracle import CONE, FREE, LEVEL, LEVELS, Answer, Oracle, PartialOracle
from widemargin.structured.oracles.enumeration import PointOracle
from widemargin_papers.data import LabelSets, load_rcv1, load_yeast, synthetic_label_sets
from widemargin_papers.reproductions.summary import markdown, mean_and_sd

__all__ = [
    "MEASURES", "TITLES", "LevelCones", "Study", "TreeModel", "drawn_rows", "load", "measures", "parts",
    "scores_summary", "scores_table", "split", "with_constant",
]  # fmt: skip

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


def with_constant(X: Matrix) -> Matrix:
    """Rows with a last column of ones: its weights are intercepts, regularised like the others."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])


def drawn_rows(data: LabelSets, count: int, seed: int) -> tuple[Any, Array]:
    """So many training rows, drawn at random (all if there are fewer), with a constant column, and their labels."""
    rows = np.random.default_rng(seed).permutation(data.Y.shape[0])[:count]
    return with_constant(data.X[rows]), data.Y[rows]


def split(data: LabelSets, seed: int) -> tuple[Any, Array, Any, Array]:
    """X, Y, X_test, Y_test: for seed 0 as published, else all rows divided anew in parts of the same sizes."""
    if seed == 0:
        return data.X, data.Y, data.X_test, data.Y_test
    both = (data.X, data.X_test)
    X = sp.vstack(both, format="csr") if sp.issparse(data.X) else np.concatenate(both)
    Y = np.concatenate((data.Y, data.Y_test))
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


def scores_summary(settings: Mapping[str, Any], runs: Mapping[str, Any], titles: Mapping[str, str]) -> dict[str, Any]:
    """By data set and rescaling: mean and sd of all measures over the splits; the same of slack minus margin.

    Models trained on the relaxation are those of the published split alone.
    """
    summary: dict[str, Any] = {"data": settings["data"]}
    for name in titles:
        several = [result for key, result in runs.items() if key.startswith(f"{name}, seed")]
        both = {rescaling: [result["scores"][rescaling] for result in several] for rescaling in ("slack", "margin")}
        summary[name] = {
            "runs": len(several),
            "n": several[0]["n"],
            "C": {rescaling: [scores["C"] for scores in found] for rescaling, found in both.items()},
            "scores": {
                rescaling: {what: mean_and_sd([[scores[what]] for scores in found]) for what in (*MEASURES, "gap")}
                for rescaling, found in both.items()
            },
            "relaxed": several[0].get("relaxed", {}),
            "difference": {
                what: mean_and_sd([[slack[what] - margin[what]] for slack, margin in zip(*both.values(), strict=True)])
                for what in MEASURES
            },
        }
    return summary


def scores_table(
    summary: Mapping[str, Any], titles: Mapping[str, str], published: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> str:
    """Scores of both rescalings and their difference; the paper's numbers below those of the same data."""
    rows = []
    several = summary[next(iter(titles))]["runs"]
    published = {} if summary["data"] == "synthetic" else published
    for name, title in titles.items():
        content = summary[name]
        label = f"{title}, n = {content['n']}"
        for rescaling, scores in content["scores"].items():
            chosen = ", ".join(f"{C:g}" for C in sorted(set(content["C"][rescaling])))
            gap = f"{100 * scores['gap']['mean'][0]:.1f}%"
            rows.append([label, rescaling, *(_cell(scores[what], several) for what in MEASURES), chosen, gap])
            label = ""
        difference = (_cell(content["difference"][what], several, "+") for what in MEASURES)
        rows.append(["", "slack - margin", *difference, "", ""])
        for rescaling, one in content.get("relaxed", {}).items():
            values = (f"{one[what]:.4f}" for what in MEASURES)
            rows.append(["", f"{rescaling}, LP, one split", *values, f"{one['C']:g}", f"{100 * one['gap']:.1f}%"])
        rows += _published_rows(published.get(name, {}), "the paper, ")
    for name, numbers in published.items():
        if name not in titles:
            rows += _published_rows(numbers, f"the paper, {name}, ")
    head = f"{several} splits, mean ± sd, test rows.\n\n" if several > 1 else "One split, test rows.\n\n"
    return head + markdown(["data", "rescaling", *MEASURES.values(), "C chosen", "gap"], rows)


def _published_rows(numbers: Mapping[str, Mapping[str, float]], label: str) -> list[list[str]]:
    return [
        ["", f"{label}{rescaling}", *(f"{scores[what]:.4g}" if what in scores else "" for what in MEASURES), "", ""]
        for rescaling, scores in numbers.items()
    ]


def _cell(content: Mapping[str, Any], several: int, sign: str = "") -> str:
    mean = f"{content['mean'][0]:{sign}.4f}"
    return f"{mean} ± {content['sd'][0]:.4f}" if several > 1 else mean


class LevelCones(PartialOracle):
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
