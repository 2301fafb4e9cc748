"""Table 2 of Choi, Meshi and Srebro 2016: slack against margin rescaling on yeast and RCV1, all pairs of labels.

C is chosen by example Jaccard on held-out training rows, on a grid for each rescaling; the model is then trained on all
training rows. On yeast the argmax is exact (a table of all label sets), on RCV1 it is local search with restarts. The
paper trains on the relaxation of the labels' linear programme: so does a further model on the published split, at the
same C; maximum flow finds its fractional labels.
"""

import time
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from widemargin import MultiLabelSVC
from widemargin.exceptions import MarginConvergenceWarning
from widemargin.extending import Ints, Matrix
from widemargin_papers.reproductions.pictures.slack_rescaling_pictures import scores_figure
from widemargin_papers.reproductions.slack_rescaling_study import (
    MEASURES,
    TITLES,
    Study,
    load,
    measures,
    parts,
    scores_summary,
    scores_table,
    split,
)  # fmt: skip

__all__ = ["PUBLISHED", "draw", "keys", "load", "run", "settings", "summarise", "table"]

PUBLISHED = {
    "yeast": {
        "slack": {"accuracy": 0.54, "loss": 0.205, "micro": 0.661, "example": 0.651},
        "margin": {"accuracy": 0.545, "loss": 0.204, "micro": 0.666, "example": 0.654},
    },
    "rcv1": {
        "slack": {"accuracy": 0.676, "loss": 0.023, "micro": 0.755, "example": 0.747},
        "margin": {"accuracy": 0.662, "loss": 0.023, "micro": 0.753, "example": 0.742},
    },
}
"""Its "MaF1" is taken for the example-averaged F1."""


def settings(quick: bool) -> dict[str, Any]:
    """Passes, the share of training rows held out, and the papers' C, decreasing."""
    few = {"slack": [0.01, 0.001], "margin": [0.001, 0.0001]}
    yeast = {"slack": [0.03, 0.01, 0.003], "margin": [0.001, 0.0003, 0.0001]}
    rcv1 = {"slack": [0.01, 0.003, 0.001], "margin": [0.0003, 0.0001, 0.00003]}
    return {
        "C": {"yeast": few, "rcv1": few} if quick else {"yeast": yeast, "rcv1": rcv1},
        "passes": {"yeast": 5, "rcv1": 5} if quick else {"yeast": 100, "rcv1": 40},
        "held_out": 0.2,
        "data": "synthetic" if quick else "yeast, rcv1subset1",
    }


def keys(runs: int) -> list[str]:
    """A task and a seed; seed 0 is the published split, the others draw new ones of the same sizes."""
    return [f"{task}, seed {seed}" for seed in range(runs) for task in TITLES]


def run(data: Study, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Scores of both rescalings on one split."""
    began = time.process_time()
    name, _, seed = key.partition(", seed ")
    X, Y, X_test, Y_test = split(data.tasks[name], int(seed))
    train, held = parts(Y.shape[0], settings["held_out"], int(seed))
    found: dict[str, dict[str, Any]] = {"scores": {}, "relaxed": {}}
    for rescaling, grid in settings["C"][name].items():
        fit = partial(_fit, rescaling, settings["passes"][name], int(seed))
        tried = [
            measures(Y[held], fit(X[train], Y[train], C=C).predict(X[held]))["accuracy"] for C in grid
        ]  # fmt: skip
        chosen = grid[tried.index(max(tried))]
        trained = {"scores": "auto"} | ({"relaxed": "roof"} if int(seed) == 0 else {})
        for part, oracle in trained.items():
            clf = fit(X, Y, C=chosen, oracle=oracle)
            found[part][rescaling] = {"C": chosen, "gap": round(clf.gap_, 6), **measures(Y_test, clf.predict(X_test))}
    return {"n": Y.shape[0], **found, "seconds": round(time.process_time() - began, 1)}


def _fit(rescaling: str, passes: int, seed: int, X: Matrix, Y: Ints, C: float, oracle: str = "auto") -> MultiLabelSVC:
    """A model for the papers' C."""
    clf = MultiLabelSVC(
        "full", solver_options={"oracle": oracle}, C=1.0 / (C * Y.shape[0]), rescaling=rescaling, max_iter=passes,
        tol=0.01, random_state=seed,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MarginConvergenceWarning)  # the gap is among the results
        clf.fit(X, Y)
    return clf


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By task and rescaling: mean and sd over the splits, and of slack minus margin."""
    return scores_summary(settings, runs, TITLES)


def table(summary: Mapping[str, Any]) -> str:
    """Scores, the paper's beside them."""
    return scores_table(summary, TITLES, PUBLISHED)


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: a panel for each task."""
    return scores_figure(summary, TITLES, MEASURES, {} if summary["data"] == "synthetic" else PUBLISHED)
