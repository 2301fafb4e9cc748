"""Recall and churn on three data sets: objective, constraints met or not, and time, beside fairlearn and Cooper.

Minimise `errors(D1) + false_positives(D2)` subject to `recall(D2) >= r` and `churn(D3) <= c`, with D3 unlabelled. The
published draw of this task cannot be repeated, so `recall_task` of widemargin-papers rebuilds it from its description.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from benchmarks.task import Content, Context, Limit, Ratio, Row, Table, Task, quietly, ratios
from widemargin import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.options import gathered
from widemargin.exceptions import InfeasibleGoalError
from widemargin_papers.reproductions.recall_task import INFEASIBLE, POINTS, RecallTask, draw, goal_of

POINT = (0.491, 0.04)
SEEDS = (0, 1, 2, 3, 4)

SETTINGS: dict[str, dict[str, Any]] = {
    "ours, C=1": {"C": 1.0, "max_steps": 9, "step_tol": 1e-2},
    "ours, C=2": {"C": 2.0, "max_steps": 9, "step_tol": 1e-2},
    "ours, C=4": {"C": 4.0, "max_steps": 9, "step_tol": 1e-2},
    "ours, C=400": {"C": 400.0, "max_steps": 20, "step_tol": 1e-2, "tol": 1e-2},
    "ours, defaults": {},
}
"""C = 1 is lambda = 2/14000 beside an objective whose coefficients sum to one; fairlearn's SVMs have about C = 1.7, and
Cooper's model has no regulariser, which is what C = 400 comes near to."""

PEERS = {"fairlearn": "benchmarks.tasks._fairlearn", "Cooper": "benchmarks.tasks._cooper"}
"""By name, the module that trains it."""


def fit(task: RecallTask, point: tuple[float, float], **parameters: Any) -> RateConstrainedClassifier:
    """Our deterministic model: D1 and D2 are the training rows, D3 an external data set without labels."""
    made = RateConstrainedClassifier(goal_of(*point), on_infeasible="warn", **gathered(parameters))
    with quietly():  # an unmet goal shows in the table
        return made.fit(task.X, task.y, populations=task.populations, external=task.external)


def _refused(task: RecallTask, point: tuple[float, float], **parameters: Any) -> InfeasibleGoalError | None:
    """What `fit` says where the goal cannot be met; None where it is met after all."""
    try:
        made = RateConstrainedClassifier(goal_of(*point), **gathered(parameters))
        made.fit(task.X, task.y, populations=task.populations, external=task.external)
    except InfeasibleGoalError as error:
        return error
    return None


class ShiftedSVM:
    """The paper's baseline: an SVM on D1 and D2 whose threshold is moved to the recall asked; churn is what it is."""

    def __init__(self, task: RecallTask, least_recall: float) -> None:
        with quietly():
            self._svm = LinearSVC(loss="hinge", C=1.0, random_state=0).fit(task.X, task.y)
        second = slice(task.n1, None)
        positive = np.sort(self._svm.decision_function(task.X[second][task.y[second] > 0]))[::-1]
        self._threshold = positive[int(np.ceil(least_recall * positive.shape[0])) - 1]

    def share(self, X: Any) -> npt.NDArray[np.float64]:
        """1 where a row is called positive, else 0."""
        return (self._svm.decision_function(X) >= self._threshold).astype(float)


def reached(task: RecallTask, model: Any, point: tuple[float, float]) -> Row:
    """Objective and rates on training and test rows: those of 0/1 predictions, or the expected ones of a mixture."""
    share = model.share if hasattr(model, "share") else lambda X: (model.predict(X) > 0).astype(float)
    objective, recall, churn = task.measure(share(task.X), share(task.X3))
    met = bool(recall >= point[0] - 1e-9 and churn <= point[1] + 1e-9)
    found = {"objective": round(objective, 1), "recall": recall, "churn": churn, "met": met}
    return found | task.measure_test(share(task.X_test))


def rows(ctx: Context) -> list[Row]:
    """Every method at every point of the first draw, and at one point of the others."""
    adult, found = ctx.load("a9a"), []
    peers = {name: peer for name, module in PEERS.items() if (peer := ctx.peer(module)) is not None}
    for seed in ctx.pick(SEEDS, SEEDS[:1]):
        task = draw(adult, seed)
        dense = sp.vstack([task.X, task.X3]).toarray() if peers else None
        for point in POINTS if seed == 0 and not ctx.quick else (POINT,):
            cases: dict[str, Callable[[], Any]] = {
                name: partial(fit, task, point, **settings) for name, settings in SETTINGS.items()
            }
            for name, peer in peers.items():
                tuned = peer.tune(task, dense, *point) if hasattr(peer, "tune") else {}  # not counted in its time
                cases[name] = partial(peer.fit_recall_churn, task, dense, *point, **tuned)
            about = {"seed": seed, "r": point[0], "c": point[1]}
            here = {
                name: about | {"what": name} | reached(task, timing.result, point) | timing.to_dict()
                for name, timing in ctx.clock(cases).items()
            }
            for row in (here[name] for name in SETTINGS):
                for peer in peers:
                    row[f"objective_below_{peer.lower()}"] = round(1.0 - row["objective"] / here[peer]["objective"], 4)
                    row[f"{peer.lower()}_time_ratio"] = round(here[peer]["median_s"] / row["median_s"], 1)
            here["shifted SVM"] = about | {"what": "shifted SVM"} | reached(task, ShiftedSVM(task, point[0]), point)
            found += here.values()
    return found


def refusals(ctx: Context) -> list[Row]:
    """Every setting of ours at the points that cannot be reached: what the refusal says, and how long it takes."""
    task, found = draw(ctx.load("a9a"), 0), []
    for point in INFEASIBLE:
        timings = ctx.clock({name: partial(_refused, task, point, **more) for name, more in SETTINGS.items()})
        for name, timing in timings.items():
            error = timing.result
            row = {"r": point[0], "c": point[1], "what": name, "refused": error is not None} | timing.to_dict()
            if error is not None:
                row |= {"missed": error.violations, "ramp_missed": error.ramp_violations, "conflict": error.conflict,
                        "irreducible": error.irreducible, "proved": error.proved, "best": error.best_values,
                        "message": str(error)}  # fmt: skip
            found.append(row)
    return found


def _named(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in values.items())


def _said(content: Content) -> Iterable[Row]:
    for row in content["refusals"]:
        yield row | {
            "missed": _named(row.get("missed", {})), "best": _named(row.get("best", {})),
            "conflict": ", ".join(row.get("conflict", ())),
        }  # fmt: skip


def _targets(content: Content) -> Iterable[Ratio | Limit]:
    first = [row for row in content["rows"] if row["seed"] == 0]
    for r, c in sorted({(row["r"], row["c"]) for row in first}):
        seconds = {row["what"]: row.get("median_s") for row in first if (row["r"], row["c"]) == (r, c)}
        case = f"recall >= {r:g}, churn <= {c:g}"
        yield from ratios(case, seconds, "ours, C=2", {"fairlearn": None})
        yield from ratios(case, seconds, "ours, C=400", {"Cooper": None})
    for ours, peer in (("ours, C=2", "fairlearn"), ("ours, C=400", "Cooper")):
        key = f"objective_below_{peer.lower()}"
        below = [100 * row[key] for row in first if row["what"] == ours and key in row]
        if below:
            yield Limit(f"objective below {peer}'s, least, {ours}, first draw", min(below), 4.0, "%", at_least=True)
        seconds = [row["median_s"] for row in first if row["what"] == ours]
        yield Limit(f"slowest point, {ours}", max(seconds), 0.5, "s")
    yield Limit("slowest refusal", max(row["median_s"] for row in content["refusals"]), 3.0, "s")


TASKS = {
    "recall_churn": Task(
        "Recall and churn on three data sets drawn from a9a: minimise `errors(D1) + false_positives(D2)` subject to "
        "`recall(D2) >= r` and `churn(D3) <= c`, with D3 unlabelled. fairlearn has moments written by hand (a mixture: "
        "its rates are expectations), Cooper the best of six pairs of step sizes, chosen at every point on its own "
        "training rows.",
        {"rows": rows, "refusals": refusals},
        {
            "rates": Table(
                "Objective and rates on the training rows (fairlearn: expectations of a mixture; Cooper: 0/1)", "rows",
                "seed | recall >=: {r} | churn <=: {c} | what | objective: {objective:.0f} | recall: {recall:.4f} "
                "| churn: {churn:.4f} | met | test recall / error / churn: {test_recall:.3f} / {test_error:.4f} / "
                "{test_churn:.4f} | median s: {median_s:.2f} | below fairlearn: {objective_below_fairlearn:.1%} "
                "| below Cooper: {objective_below_cooper:.1%} | time fairlearn / ours: {fairlearn_time_ratio} "
                "| time Cooper / ours: {cooper_time_ratio}",
            ),
            "refusals": Table(
                "Points out of reach", _said,
                "recall >=: {r} | churn <=: {c} | what | refused | missed by: {missed} | in conflict: {conflict} "
                "| best of each, the other met: {best} | s: {median_s:.2f}",
            ),
        },
        _targets, half="tuning", peers=("fairlearn", "cooper-optim", "torch"),
    ),
}  # fmt: skip
