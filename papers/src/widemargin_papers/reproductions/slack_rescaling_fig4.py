"""Figures 4 and 8 of Choi, Meshi and Srebro 2016: objective and test accuracy against time, questions and passes.

Cutting planes with a slack per example, and stochastic gradients, each with angular, bisecting and (cutting planes
only) Sarawagi and Gupta's search; beside them this library's default, block-coordinate Frank-Wolfe steps with the exact
argmax, compiled. The oracle of the searches looks at all 2^14 label sets on yeast; on RCV1 (pairs along a tree) each of
its questions is a dynamic programme.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from widemargin.extending import Ints, Matrix, limit_threads
from widemargin.solvers.base import Budget, Progress
from widemargin.structured.learners import block_frank_wolfe
from widemargin.structured.learners.example_rows import potentials_of
from widemargin.structured.learners.passes import choose_passes
from widemargin.structured.learners.problem import StructuredProblem, Violation
from widemargin.structured.learners.result import LearnerResult, primal_value
from widemargin.structured.model import Weights
from widemargin.structured.models import MultiLabelModel
from widemargin_papers.data import LabelSets
from widemargin_papers.reproductions.pictures.slack_rescaling_pictures import learning_figure
from widemargin_papers.reproductions.slack_rescaling_study import (
    TITLES,
    Study,
    TreeModel,
    drawn_rows,
    load,
    measures,
    with_constant,
)
from widemargin_papers.reproductions.summary import markdown, mean_and_sd
from widemargin_papers.solvers import structured_sgd as sgd
from widemargin_papers.solvers.structured_cutting_planes import slack_per_example

__all__ = ["METHODS", "draw", "keys", "load", "run", "settings", "summarise", "table"]

METHODS = {
    "sgd angular": "SGD, angular",
    "sgd bisecting": "SGD, bisecting",
    "cp angular": "cutting plane, angular",
    "cp bisecting": "cutting plane, bisecting",
    "cp sarawagi-gupta": "cutting plane, Sarawagi and Gupta",
    "bcfw": "block-coordinate Frank-Wolfe, compiled",
}

PASSES = {"sgd": [1, 2, 4, 8, 16, 32, 64], "cp": [1, 2, 4, 8, 16, 24], "bcfw": [1, 4, 16, 64, 256, 1024]}
LEVELS = (1.0, 0.3, 0.1, 0.03)
"""Of the objective above the optimum."""

COUNTED_AT = 0.1

_FEW = 20  # rows
_MOST_PASSES = 2000


def settings(quick: bool) -> dict[str, Any]:
    """Training rows, the papers' C, and after how many passes (cutting planes: rounds) a point is drawn."""
    return {
        "train_rows": 12 if quick else 3000,
        "C": {"yeast": 0.1, "rcv1": 0.1} if quick else {"yeast": 0.01, "rcv1": 0.001},
        "passes": {learner: [1, 4] for learner in PASSES} if quick else PASSES,
        "search_ratio": 0.999,
        "reference_gap": 0.01 if quick else 0.005,
        "data": "synthetic" if quick else "yeast, rcv1subset1",
    }


def keys(runs: int) -> list[str]:
    """A task and a seed, which draws the training rows and the order of the steps."""
    return [f"{task}, seed {seed}" for seed in range(runs) for task in TITLES]


def run(data: Study, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The curves of all methods, on one draw of training rows."""
    began = time.process_time()
    name, _, seed = key.partition(", seed ")
    X, Y = drawn_rows(data.tasks[name], settings["train_rows"], int(seed))
    C = 1.0 / (settings["C"][name] * Y.shape[0])
    with limit_threads(1):
        judge = _Judge(data.tasks[name], _problem(name, X, Y, C), settings["reference_gap"])
        curves = {}
        for method in METHODS:
            make = partial(_problem, name, search=method.partition(" ")[2], ratio=settings["search_ratio"])
            _solver(method, 0)(make(X[:_FEW], Y[:_FEW], C), max_iter=1)  # loads the compiled loops
            passes = settings["passes"][method.partition(" ")[0]]
            curves[method] = _curve(method, partial(make, X, Y, C), passes, int(seed), judge)
    return {
        "n": Y.shape[0],
        "optimum": judge.accuracy(judge.best.weights),
        "reference_gap": round(judge.best.gap, 6),
        "methods": curves,
        "seconds": round(time.process_time() - began, 1),
    }


def _problem(name: str, X: Matrix, Y: Ints, C: float, search: str = "", ratio: float = 1.0) -> StructuredProblem:
    """With a search of the paper; without one the exact argmax, compiled."""
    model = MultiLabelModel("full" if name == "yeast" else "tree")
    if not search:
        return StructuredProblem(model, X, Y, C=C)
    return _Counting(model if name == "yeast" else TreeModel(), X, Y, C=C, search=search, ratio=ratio)


def _solver(method: str, seed: int) -> Callable[..., LearnerResult]:
    """The learner of a method: it runs until its passes are over, and looks at its certificate at the end only."""
    learner = method.partition(" ")[0]
    if learner == "cp":
        return partial(slack_per_example, tol=0.0, seed=seed, compiled=False)
    solvers: dict[str, Callable[..., LearnerResult]] = {"sgd": sgd.solve, "bcfw": block_frank_wolfe.solve}
    return partial(solvers[learner], tol=0.0, seed=seed, check_every=10**9)


def _curve(
    method: str, make: Callable[[], StructuredProblem], passes: list[int], seed: int, judge: "_Judge"
) -> dict[str, list[float]]:
    """Processor seconds, questions to the oracle, objective above the optimum and test accuracy after so many passes.

    Each point is a run of its own: the same seed gives the same steps, and the certificate that a learner looks at when
    its passes are over costs it no time.
    """
    solve = _solver(method, seed)
    curve: dict[str, list[float]] = {"passes": [], "seconds": [], "questions": [], "excess": [], "accuracy": []}
    for count in passes:
        problem = make()
        began = time.process_time()
        ends: list[tuple[float, int]] = []
        result = solve(problem, max_iter=count, budget=Budget(callbacks=(_note(count, problem, ends),)))
        end, questions = (ends or [(time.process_time(), _asked(problem, count))])[0]
        curve["passes"].append(count)
        curve["seconds"].append(round(end - began, 4))
        curve["questions"].append(questions)
        curve["excess"].append(round(judge.excess(result.weights), 6))
        curve["accuracy"].append(judge.accuracy(result.weights))
    return curve


def _note(count: int, problem: StructuredProblem, ends: list[tuple[float, int]]) -> Callable[[Progress], None]:
    """A callback that notes when the last pass ends, and how many questions were asked up to there."""

    def note(progress: Progress) -> None:
        if progress.iteration == count:
            ends.append((time.process_time(), _asked(problem, count)))

    return note


def _asked(problem: StructuredProblem, passes: int) -> int:
    """Questions so far; the compiled argmax is one for each example and pass."""
    return problem.questions if isinstance(problem, _Counting) else passes * problem.n


class _Counting(StructuredProblem):
    """Counts the questions that its searches ask."""

    questions = 0

    def violation(self, *arguments: Any, **named: Any) -> Violation:
        found = super().violation(*arguments, **named)
        self.questions += found.queries
        return found


class _Judge:
    """The objective of any weights, by the exact argmax, and their accuracy on the test rows."""

    def __init__(self, task: LabelSets, problem: StructuredProblem, gap: float) -> None:
        self._problem, self._passes = problem, choose_passes(problem)
        self.best = block_frank_wolfe.solve(problem, tol=gap, max_iter=_MOST_PASSES)
        self._X_test, self._Y_test = with_constant(task.X_test), task.Y_test

    def excess(self, weights: Weights) -> float:
        """Relative distance of the objective from the best lower bound."""
        dual = self.best.dual
        return (primal_value(self._problem, weights, self._passes.responses(weights)) - dual) / dual

    def accuracy(self, weights: Weights) -> float:
        """Mean Jaccard accuracy of the predictions."""
        model = self._problem.model
        found = [model.decode(None, u, weights.theta) for u in potentials_of(model, self._X_test, weights.W)]
        return measures(self._Y_test, np.array(found))["accuracy"]


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By task and method: mean and sd over the runs."""
    summary: dict[str, Any] = {"data": settings["data"]}
    for name in TITLES:
        several = [result for key, result in runs.items() if key.startswith(f"{name}, seed")]
        summary[name] = {
            "runs": len(several),
            "n": several[0]["n"],
            "optimum": mean_and_sd([[result["optimum"]] for result in several]),
            "methods": {
                method: {
                    what: mean_and_sd([result["methods"][method][what] for result in several])
                    for what in ("passes", "seconds", "questions", "excess", "accuracy")
                }
                for method in METHODS
            },
        }
    return summary


def table(summary: Mapping[str, Any]) -> str:
    """Seconds until the objective is near the optimum, questions until 10% above, and the last point of every curve."""
    columns = [
        "method", *(f"{100 * level:g}% above" for level in LEVELS), f"questions to {100 * COUNTED_AT:g}%", "last point",
        "its objective above",
    ]  # fmt: skip
    text = []
    for name, title in TITLES.items():
        content = summary[name]
        rows = []
        for method, label in METHODS.items():
            curve = content["methods"][method]
            seconds, excess = curve["seconds"]["mean"], curve["excess"]["mean"]
            near = [
                next((s for s, value in zip(seconds, excess, strict=True) if value <= level), None) for level in LEVELS
            ]
            reached = ["-" if value is None else f"{value:.2f}" for value in near]
            asked = [
                count for count, value in zip(curve["questions"]["mean"], excess, strict=True) if value <= COUNTED_AT
            ]
            reached.append(f"{asked[0]:,.0f}" if asked else "-")
            accuracy = curve["accuracy"]["mean"][-1]
            rows.append([label, *reached, f"{seconds[-1]:.2f} s", f"{100 * excess[-1]:.1f}%", f"{accuracy:.3f}"])
        several = "run" if content["runs"] == 1 else "runs"
        text.append(
            f"**{title}**, n = {content['n']}, {content['runs']} {several}; the optimum's accuracy is "
            f"{content['optimum']['mean'][0]:.3f}. Processor seconds to the first point so near the optimum:\n"
        )
        text.append(markdown([*columns, "its accuracy"], rows))
    return "\n".join(text)


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: a column for each task."""
    return learning_figure(summary, TITLES, METHODS)
