"""Figure 3 of Goh et al. 2016: churn and error against the churn target, on public data.

Minimise `errors(D1) + false_positives(D2)` subject to `recall(D2) >= the deployed model's` and `churn(D3) <= target`,
by 5 majorisation steps, each of them solved by the default solver, and once more by the paper's Algorithms 2 and 3 (the
nest of cutting planes over SDCA, which looks next at the maximiser of its bound). The paper's data are proprietary; the
task is drawn from a9a (recall_task.py), 80 rows of 100 of each data set for training. The baseline is the SVM on D1 and
D2 with its threshold shifted to the recall.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin import RateConstrainedClassifier
from widemargin.extending import Floats
from widemargin.goals import Goal, errors, false_positives, recall
from widemargin_papers.baselines import ShiftedSVC
from widemargin_papers.data import Adult
from widemargin_papers.reproductions.experiment import load_adult as load
from widemargin_papers.reproductions.pictures.constraint_and_kernel_pictures import churn_figure
from widemargin_papers.reproductions.recall_task import D1, D2, RecallTask, goal_of
from widemargin_papers.reproductions.recall_task import draw as draw_task
from widemargin_papers.reproductions.summary import markdown, mean_and_sd, number

__all__ = ["draw", "keys", "load", "run", "settings", "summarise", "table"]

METHODS = {
    "thresholded": "thresholded",
    "randomised": "randomised",
    "nest": "randomised, by Algorithms 2 and 3",
    "deterministic": 'enforce="deterministic"',
    "baseline": "shifted SVM",
}
PARTS = ("train", "test")
WHAT = ("churn", "error", "recall", "objective")

SHARE = 0.8
NEST = "cutting-plane-maximisation"

Rows = npt.NDArray[np.int64]


def settings(quick: bool) -> dict[str, Any]:
    """The churn targets of the paper, 3% to 6%, and some around them."""
    return {
        "C": 1.0,
        "majorisation_steps": 5,
        "step_tol": 1e-2,
        "tol": 1e-4,
        "targets": [0.04, 0.08] if quick else np.arange(0.02, 0.0851, 0.005).round(4).tolist(),
        "share_for_training": SHARE,
        "data": "synthetic" if quick else "a9a",
    }


def keys(runs: int) -> list[str]:
    """A draw of the task and of its split for each seed."""
    return [f"draw {seed}" for seed in range(runs)]


def run(adult: Adult, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """All methods at all targets on one draw."""
    began = time.process_time()
    seed = int(key.removeprefix("draw "))
    task = draw_task(adult, seed)
    parts = dict(zip(PARTS, _split(task, seed, settings["share_for_training"]), strict=True))
    train = parts["train"]
    found: dict[str, Any] = {method: {part: {what: [] for what in WHAT} for part in PARTS} for method in METHODS}
    met: dict[str, list[bool]] = {"randomised": [], "nest": [], "deterministic": []}
    apart: dict[str, list[float | None]] = {"objective": [], "decisions": []}
    shared = {
        "C": settings["C"], "max_steps": settings["majorisation_steps"], "on_infeasible": "warn",
        "solver_options": {"step_tol": settings["step_tol"], "tol": settings["tol"]},
    }  # fmt: skip
    given = {"populations": train.populations, "external": train.external}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not met shows in the record
        for target in settings["targets"]:
            goal = goal_of(task.deployed_recall, target)
            soft = RateConstrainedClassifier(goal, enforce="randomized", **shared).fit(train.X, train.y, **given)
            hard = RateConstrainedClassifier(goal, **shared).fit(train.X, train.y, **given)
            papers = shared | {"solver_options": shared["solver_options"] | {"solver": NEST}}
            nest = RateConstrainedClassifier(goal, enforce="randomized", **papers).fit(train.X, train.y, **given)
            _measure(soft, parts, found["thresholded"], _threshold)
            _measure(soft, parts, found["randomised"], _ramp)
            _measure(nest, parts, found["nest"], _ramp)
            _measure(hard, parts, found["deterministic"], _threshold)
            met["nest"].append(all(item.ramp_met for item in nest.goal_report_.constraints))
            ends = [_end(model, train.y.shape[0] + train.deployed3.shape[0]) for model in (soft, nest)]
            apart["objective"].append(number(ends[1] / ends[0] - 1.0))
            differ = soft.predict(train.X) != nest.predict(train.X)
            apart["decisions"].append(number(float(np.mean(differ))))
            met["randomised"].append(all(item.ramp_met for item in soft.goal_report_.constraints))
            met["deterministic"].append(hard.goal_report_.all_met())
        least = Goal(errors(on=D1) + false_positives(on=D2), recall(on=D2) >= task.deployed_recall)
        shifted = ShiftedSVC(least, C=settings["C"], tol=settings["tol"], on_infeasible="warn")
        shifted.fit(train.X, train.y, populations=train.populations)
        _measure(shifted, parts, found["baseline"], _threshold)
    about = {"recall_floor": number(task.deployed_recall), "met_on_training_rows": met, "nest_apart": apart}
    return found | about | {"seconds": round(time.process_time() - began, 2)}


def _end(model: RateConstrainedClassifier, n: int) -> float:
    """What the descent minimises at its end: ramp objective and regulariser (lambda = 2 / (n C))."""
    return float(model.goal_report_.ramp_objective + (model.coef_**2).sum() / (n * model.C))


def _split(task: RecallTask, seed: int, share: float) -> tuple[RecallTask, RecallTask]:
    """Each of D1, D2 and D3 cut at random; the two parts as tasks of their own."""
    rng = np.random.default_rng([seed, 80])
    orders = [rng.permutation(size) for size in (task.n1, task.y.shape[0] - task.n1, task.deployed3.shape[0])]
    cuts = [round(share * len(order)) for order in orders]
    train = _part(task, *(order[:cut] for order, cut in zip(orders, cuts, strict=True)))
    return train, _part(task, *(order[cut:] for order, cut in zip(orders, cuts, strict=True)))


def _part(task: RecallTask, first: Rows, second: Rows, third: Rows) -> RecallTask:
    """The task on some rows of D1, D2 and D3."""
    both, third = np.concatenate([np.sort(first), task.n1 + np.sort(second)]), np.sort(third)
    return dataclasses.replace(
        task, X=task.X[both], y=task.y[both], n1=len(first), X3=task.X3[third], deployed3=task.deployed3[third]
    )


def _ramp(z: Floats) -> Floats:
    """Probability of the positive prediction of the randomised classifier."""
    return np.clip(z + 0.5, 0.0, 1.0)


def _threshold(z: Floats) -> Floats:
    return (z > 0.0).astype(np.float64)


def _measure(
    model: RateConstrainedClassifier | ShiftedSVC,
    parts: Mapping[str, RecallTask],
    store: Mapping[str, Any],
    share_of: Callable[[Floats], Floats],
) -> None:
    """Append what a model reaches on both parts."""
    for part, task in parts.items():
        share, share3 = (share_of(model.decision_function(X)) for X in (task.X, task.X3))
        objective, reached, changed = task.measure(share, share3)
        wrong = np.where(task.y > 0, 1.0 - share, share)
        values = {"churn": changed, "error": float(wrong.mean()), "recall": reached, "objective": objective}
        for what, value in values.items():
            store[part][what].append(number(value))


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By method and part: churn, error, recall, objective, mean and sd over the draws; and how often goals are met."""
    results = list(runs.values())
    return {
        "targets": settings["targets"],
        "runs": len(results),
        "recall_floor": mean_and_sd([[result["recall_floor"]] for result in results]),
        "met": {
            method: np.mean([result["met_on_training_rows"][method] for result in results], axis=0).round(3).tolist()
            for method in ("randomised", "nest", "deterministic")
        },
        "nest_apart": {
            what: mean_and_sd([result["nest_apart"][what] for result in results]) for what in ("objective", "decisions")
        },
        "methods": {
            method: {
                part: {what: mean_and_sd([result[method][part][what] for result in results]) for what in WHAT}
                for part in PARTS
            }
            for method in METHODS
        },
    }


def table(summary: Mapping[str, Any]) -> str:
    """Churn and error of every method on both parts, and recall on the held-out part."""
    rows: list[list[str]] = []
    targets, methods = summary["targets"], summary["methods"]
    for j, target in enumerate(targets):
        if round(1000 * target) % 10:  # the figure has the half percents as well
            continue
        rows += [
            [f"{target:.1%}", METHODS[method], *_cells(methods[method], j), _share(summary, method, j)]
            for method in ("thresholded", "randomised", "nest", "deterministic")
        ]
    rows.append(["none", METHODS["baseline"], *_cells(methods["baseline"], 0), ""])
    head = ["churn asked", "method", "churn train", "churn test", "error train", "error test", "recall train",
            "recall test", "goal met"]  # fmt: skip
    floor = summary["recall_floor"]["mean"][0]
    note = f"{summary['runs']} draws, mean ± sd; recall floor {floor:.3f} on average; test: the 20% held out.\n"
    worst = {what: max(values["mean"], key=abs) for what, values in summary["nest_apart"].items()}
    agreement = (
        f"Algorithms 2 and 3 end {100 * worst['objective']:+.2f}% from the default solver's objective, and decide "
        f"{100 * worst['decisions']:.2f}% of the training rows otherwise, at the targets where they differ most.\n"
    )
    return f"{note}\n{markdown(head, rows)}\n{agreement}"


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: four panels."""
    return churn_figure(summary)


def _cells(content: Mapping[str, Any], j: int) -> list[str]:
    texts = []
    for what in ("churn", "error", "recall"):
        for part in PARTS:
            place = content[part][what]
            texts.append(f"{place['mean'][j]:.4f} ± {place['sd'][j]:.4f}")
    return texts


def _share(summary: Mapping[str, Any], method: str, j: int) -> str:
    met = summary["met"].get(method)
    return "" if met is None else f"{met[j]:.0%}"
