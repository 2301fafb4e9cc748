"""Which risk when: test errors of every risk of `RiskClassifier` on clean and on spoilt training rows.

The tasks are those of `benchmarks.risk_tasks`, by default the half that nothing was chosen on; `--half tuning` is the
one that the candidates and the rule of `risk="auto"` were chosen on. A share of the training rows gets the other
label ("labels"), or the other label and all features times 3 ("times 3"); the test rows are clean. C = 1, levels by
default. LinearSVC is fitted to clean rows only.

Two targets for "auto", by task: on clean rows at most .2 points above the better of LogisticRegression and LinearSVC;
on spoilt ones at most 1 point above its own error on clean rows. Differences are paired by draw, with standard errors
over the draws; over all tasks, with standard errors over the tasks. Run as `python -m benchmarks.risk_choice`; see
README.md here.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import widemargin as wm
from benchmarks import risk_tasks
from benchmarks.common import MissingDataError, machine, one_thread, parser, show, skipped, verdict, write
from benchmarks.margin_robustness import mean_and_error, spoil
from widemargin.losses.risks import RISKS

CASES = (("clean", 0.0), ("labels", 0.1), ("labels", 0.2), ("times 3", 0.1), ("times 3", 0.2))
PEERS = ("LogisticRegression", "LinearSVC")
AUTO = "auto"
MOST_LOST, MOST_SPOILT = 0.2, 1.0

Errors = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""By task, case and method: test errors in percent of the draws."""


def methods() -> dict[str, Any]:
    """Two peers, and every risk at its default level; the mean is logistic regression."""
    risks = {name: wm.RiskClassifier(name, random_state=0) for name in (*RISKS, "pursuit", AUTO) if name != "mean"}
    return dict(zip(PEERS, (LogisticRegression(max_iter=2000), LinearSVC(random_state=0)), strict=True)) | risks


def case_name(kind: str, share: float) -> str:
    """What a column is called."""
    return kind if share == 0.0 else f"{kind}, {share:.0%}"


def measure(tasks: Mapping[str, risk_tasks.Task], seeds: int) -> tuple[Errors, dict[str, float]]:
    """Test errors of all, and the mean processor seconds of a fit of each method."""
    errors: dict[str, dict[str, dict[str, list[float]]]] = {}
    seconds: dict[str, list[float]] = {}
    for task, draw in tasks.items():
        for seed in range(seeds):
            split = draw(seed)
            for kind, share in CASES:
                bad = split if kind == "clean" else spoil(split, kind, share, seed)
                found = errors.setdefault(task, {}).setdefault(case_name(kind, share), {})
                for name, clf in methods().items():
                    if name == PEERS[1] and kind != "clean":
                        continue  # LIBLINEAR takes minutes on rows of very different lengths
                    began = time.process_time()
                    clf.fit(bad.X, bad.y)
                    seconds.setdefault(name, []).append(time.process_time() - began)
                    error = 100.0 * float((clf.predict(split.X_test) != split.y_test).mean())
                    found.setdefault(name, []).append(round(error, 3))
        print(f"{task}: done", file=sys.stderr, flush=True)
    return errors, {name: statistics.mean(each) for name, each in seconds.items()}


def above(some: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """By how much errors lie above others, paired, and the standard error of that."""
    return mean_and_error([ours - theirs for ours, theirs in zip(some, others, strict=True)])


def best_peer(clean: Mapping[str, Sequence[float]]) -> str:
    """The better one on clean rows."""
    return min(PEERS, key=lambda name: statistics.mean(clean[name]))


def targets(errors: Errors) -> str:
    """The two targets of "auto", by task."""
    rows: list[list[str]] = []
    lost, spoilt = [], []
    for task, cases in errors.items():
        clean = cases["clean"]
        peer = best_peer(clean)
        here = above(clean[AUTO], clean[peer])
        changes = [above(found[AUTO], clean[AUTO]) for case, found in cases.items() if case != "clean"]
        lost.append(here[0])
        spoilt += [change for change, _ in changes]
        cells = [f"{value:+.2f} ± {error:.2f}" for value, error in (here, *changes)]
        met = sum(change <= MOST_SPOILT for change, _ in changes)
        peer_error = statistics.mean(clean[peer])
        rows.append([task, f"{peer_error:.1f}", *cells, verdict(here[0] <= MOST_LOST), f"{met} of {len(changes)}"])
    rows.append(
        ["all", "", f"{statistics.mean(lost):+.2f}", *[""] * (len(CASES) - 1),
         f"{sum(each <= MOST_LOST for each in lost)} of {len(lost)}",
         f"{sum(each <= MOST_SPOILT for each in spoilt)} of {len(spoilt)}"]
    )  # fmt: skip
    columns = [
        "task", "best peer, clean", "auto - best peer, clean",
        *(f"{case_name(*case)} - clean" for case in CASES[1:]), f"clean <= {MOST_LOST}", f"spoilt <= {MOST_SPOILT:g}",
    ]  # fmt: skip
    return show('risk="auto": test error in %, differences in points', columns, rows)


def summary(errors: Errors, seconds: Mapping[str, float]) -> dict[str, dict[str, tuple[float, float]]]:
    """By method and case: the mean over the tasks of the error above that of logistic regression on clean rows."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for name in seconds:
        for case, methods_there in next(iter(errors.values())).items():
            if name not in methods_there:
                continue
            by_task = [above(cases[case][name], cases["clean"][PEERS[0]])[0] for cases in errors.values()]
            found.setdefault(name, {})[case] = mean_and_error(by_task)
    return found


def overview(errors: Errors, seconds: Mapping[str, float]) -> str:
    """All methods, over all tasks."""
    cases = [case_name(*case) for case in CASES]
    rows = [
        [
            name,
            *("{:+.2f} ± {:.2f}".format(*found[case]) if case in found else "" for case in cases),
            f"{seconds[name]:.2f}",
        ]
        for name, found in summary(errors, seconds).items()
    ]
    columns = ["method", *cases, "cpu s"]
    title = f"Points above LogisticRegression on clean rows, means over {len(errors)} tasks"
    return show(title, columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--seeds", type=int, default=5, help="draws of the rows (default 5, at least 2)")
    made.add_argument("--half", choices=("tuning", "reporting"), default="reporting", help="which tasks")
    options: argparse.Namespace = made.parse_args(arguments)
    about = machine()
    try:
        tasks = getattr(risk_tasks, options.half)(options)
    except MissingDataError as error:
        return skipped(error)
    with one_thread():
        errors, seconds = measure(tasks, 2 if options.quick else options.seeds)
    sections = [targets(errors), overview(errors, seconds)]
    results = {"machine": about, "half": options.half, "test_error": errors, "above": summary(errors, seconds)}
    write(options, "risk_choice" if options.half == "reporting" else "risk_choice_tuning", results, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
