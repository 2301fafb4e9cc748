"""Table 1 of Choi, Meshi and Srebro 2016: what the searches for the most violating label find, and what they cost.

Cutting planes with a slack per example are trained on 160 examples, the cuts coming from the exact search; in some
rounds every search is asked for the label of every example at those weights and slacks. Beside the paper's setting, the
relaxation by linear programming, label sets themselves: all 2^14 on yeast, and pairs along a tree on RCV1.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from widemargin.extending import Floats, Ints, Matrix, limit_threads
from widemargin.structured.learners.problem import StructuredProblem, Violation
from widemargin.structured.models import MultiLabelModel
from widemargin.structured.oracle import Found, Oracle
from widemargin.structured.oracles.lp_relaxation import PairwiseProgram, ProgramOracle
from widemargin.structured.search.automatic import SEARCHES as EXACT_SEARCHES
from widemargin_papers.reproductions.pictures.slack_rescaling_pictures import search_figure
from widemargin_papers.reproductions.slack_rescaling_study import Study, TreeModel, drawn_rows, load
from widemargin_papers.reproductions.summary import markdown, mean_and_sd, number
from widemargin_papers.solvers import label_searches
from widemargin_papers.solvers.structured_cutting_planes import slack_per_example

__all__ = ["PROBLEMS", "SEARCHED", "draw", "keys", "load", "run", "settings", "summarise", "table"]

PROBLEMS = {
    "yeast": "Yeast, label sets",
    "yeast relaxed": "Yeast, relaxation",
    "rcv1": "RCV1, label sets, tree",
    "rcv1 relaxed": "RCV1, relaxation",
}
SEARCHED = {
    "angular": "angular",
    "angular .999": "angular, stopped at .999",
    "bisecting": "bisecting",
    "sarawagi-gupta": "Sarawagi and Gupta",
    "binary": "binary",
    "hull": "hull",
    "level": "level",
    "edge": "edge",
}
PUBLISHED: dict[str, dict[str, str]] = {
    "yeast relaxed": {
        "angular .999": "22.4%, 3.8, 4.7",
        "bisecting": "16.5%, 10.3, 3.6",
        "sarawagi-gupta": "16.4%, 43.2, 18.5",
    },
    "rcv1 relaxed": {
        "angular .999": "25.6%, 4.8, 4.4",
        "bisecting": "18.2%, 12.7, 5.2",
        "sarawagi-gupta": "18%, 49, 20.9",
    },
}
COUNTED = ("violated", "exact", "share", "queries", "milliseconds")

_EXACT = 1e-5  # relative difference from the best value, above the tolerances of linear programmes
_NOTHING = 1e-6


def settings(quick: bool) -> dict[str, Any]:
    """Examples, rounds that are looked at, the papers' C, and by how much a violated label exceeds the slack."""
    return {
        "train_rows": 5 if quick else 160,
        "rounds": [1, 2] if quick else [1, 4, 16],
        "C": {"yeast": 0.01, "yeast relaxed": 0.01, "rcv1": 0.001, "rcv1 relaxed": 0.003},
        "violation": 0.01,
        "eps": {"label sets": 1e-9, "relaxation": 1e-6},
        "data": "synthetic" if quick else "yeast, rcv1subset1",
    }


def keys(runs: int) -> list[str]:
    """A problem and a seed, which draws the examples."""
    return [f"{problem}, seed {seed}" for seed in range(runs) for problem in PROBLEMS]


def run(data: Study, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Means over all searches of all rounds looked at."""
    began = time.process_time()
    name, _, seed = key.partition(", seed ")
    X, Y = drawn_rows(data.tasks[name.removesuffix(" relaxed")], settings["train_rows"], int(seed))
    with limit_threads(1):
        problem = _Compared(name, X, Y, settings)
        slack_per_example(problem, tol=1e-4, max_iter=max(settings["rounds"]), compiled=False)
    return {**problem.means(), "seconds": round(time.process_time() - began, 1)}


class _Compared(StructuredProblem):
    """A training problem which, in some rounds of the cutting plane, asks all searches for the label of an example."""

    def __init__(self, name: str, X: Matrix, Y: Ints, settings: Mapping[str, Any]) -> None:
        self.relaxed = name.endswith("relaxed")
        if self.relaxed:
            model, search = MultiLabelModel("full", oracle="roof"), "edge"
        else:
            model, search = MultiLabelModel("full") if name == "yeast" else TreeModel(), "levels"
        super().__init__(model, X, Y, C=1.0 / (settings["C"][name] * Y.shape[0]), search=search)
        self._rounds, self._violation = settings["rounds"], settings["violation"]
        self._eps = settings["eps"]["relaxation" if self.relaxed else "label sets"]
        self._calls = 0
        self._program = PairwiseProgram(model.structure) if self.relaxed else None
        self._searches = _searches(self.relaxed)
        self._seen: dict[str, list[tuple[float, ...]]] = {search: [] for search in self._searches}
        self._violated: list[bool] = []
        self.rounds: list[int] = []

    def violation(self, i: int, u: Floats, theta: Floats, slack: float | None = None) -> Violation:
        """The label that the training goes on with; before, what the searches find."""
        done, _ = divmod(self._calls, self.n)
        self._calls += 1
        if self._calls == 1:
            self._compare(i, u, theta, 0.0)  # loads the compiled loops
            self._seen = {search: [] for search in self._searches}
            self._violated.clear()
        if done in self._rounds:
            self.rounds = sorted({*self.rounds, done})
            self._compare(i, u, theta, float(slack or 0.0))
        return super().violation(i, u, theta, slack)

    def _compare(self, i: int, u: Floats, theta: Floats, slack: float) -> None:
        names = list(self._searches)
        turn = i % len(names)  # no search is always the one that finds everything in the cache
        found: dict[str, tuple[Found, float]] = {}
        for name in names[turn:] + names[:turn]:
            search, options = self._searches[name]
            options = {"slack": slack} if name == "sarawagi-gupta" else {"eps": self._eps, **options}
            oracle = self._paper_oracle(i, u, theta)
            began = time.process_time()
            answer = search(oracle, **options)
            found[name] = answer, time.process_time() - began
        best = max(answer.value for answer, _ in found.values())
        self._violated.append(best > slack + self._violation)
        for name, (answer, seconds) in found.items():
            violated = answer.value > slack + self._violation
            share = answer.value / best if best > _NOTHING else np.nan
            exact = share >= 1.0 - _EXACT if best > _NOTHING else np.nan
            self._seen[name].append((violated, exact, share, answer.queries, 1e3 * seconds))

    def _paper_oracle(self, i: int, u: Floats, theta: Floats) -> Oracle:
        """The oracle that the searches are compared on; relaxed, it is the linear programme, as in the paper."""
        if self._program is None:
            return self.model.oracle(self.X[i], self.Y[i], u, theta)
        return ProgramOracle(u, theta, np.asarray(self.Y[i], dtype=np.int64), self._program)

    def means(self) -> dict[str, Any]:
        """By search: shares and means; and how many searches there were."""
        table = {name: np.array(rows, dtype=np.float64) for name, rows in self._seen.items()}
        return {
            "searches": len(self._violated),
            "rounds": self.rounds,
            "violated": round(float(np.mean(self._violated)), 6),
            "found": {
                name: {what: number(_mean(column)) for what, column in zip(COUNTED, rows.T, strict=True)}
                for name, rows in table.items()
            },
        }


def _mean(column: Floats) -> float:
    """Mean of what is defined; NaN where nothing is."""
    known = column[~np.isnan(column)]
    return float(known.mean()) if known.shape[0] else np.nan


SEARCHES = EXACT_SEARCHES | label_searches.SEARCHES


def _searches(relaxed: bool) -> dict[str, tuple[Callable[..., Found], dict[str, Any]]]:
    """The searches that apply, and their options; the exact answer is among them ("direct", "levels" or "edge")."""
    plain = ["angular", "bisecting", "sarawagi-gupta", "binary", "hull", "edge" if relaxed else "level"]
    found: dict[str, tuple[Callable[..., Found], dict[str, Any]]] = {name: (SEARCHES[name], {}) for name in plain}
    found["angular .999"] = SEARCHES["angular"], {"ratio": 0.999}
    if not relaxed:
        found["levels"] = SEARCHES["levels"], {}
    return found


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By problem and search: mean and sd over the runs."""
    summary: dict[str, Any] = {"data": settings["data"]}
    for name in PROBLEMS:
        several = [result for key, result in runs.items() if key.startswith(f"{name}, seed")]
        summary[name] = {
            "runs": len(several),
            "searches": sum(result["searches"] for result in several),
            "rounds": several[0]["rounds"],
            "violated": mean_and_sd([[result["violated"]] for result in several]),
            "found": {
                search: {what: mean_and_sd([[result["found"][search][what]] for result in several]) for what in COUNTED}
                for search in SEARCHED
                if search in several[0]["found"]
            },
        }
    return summary


def table(summary: Mapping[str, Any]) -> str:
    """A table for each problem, the paper's numbers in the last column."""
    text = []
    for name, title in PROBLEMS.items():
        content = summary[name]
        published = {} if summary["data"] == "synthetic" else PUBLISHED.get(name, {})
        rows = []
        for search, found in content["found"].items():
            violated, exact, share = (_percent(found[what]["mean"][0]) for what in COUNTED[:3])
            queries, milliseconds = (found[what]["mean"][0] for what in COUNTED[3:])
            rows.append(
                [
                    SEARCHED[search], violated, exact, share, f"{queries:.1f}", f"{milliseconds:.2f}",
                    published.get(search, ""),
                ]
            )  # fmt: skip
        there = content["violated"]["mean"][0]
        several = "one run" if content["runs"] == 1 else f"{content['runs']} runs"
        text.append(
            f"**{title}.** {content['searches']} searches of {several}, in rounds "
            f"{', '.join(map(str, content['rounds']))}; {100 * there:.1f}% of them have a violated label.\n"
        )
        columns = ["search", "violated label found", "exact maximum", "value, of the maximum", "queries", "ms"]
        columns.append("paper: found, queries, ms")
        text.append(markdown(columns, rows))
    return "\n".join(text)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: a panel for each problem, exact maxima against queries."""
    return search_figure(summary, PROBLEMS, SEARCHED)
