"""Which linear method withstands what: wrong labels, heavy tails, and rows with huge features.

a9a, and the ten numeric columns of covtype (class 1 against the rest), 4000 training rows and C = 1. A share of the
training rows is spoiled, the test rows are clean:

- labels: the other label;
- tails: Cauchy noise on every feature, the label stays;
- times 3, times 20: all features multiplied, and the other label.

The columns of covtype are standardised by the clean training rows, so that what is spoiled is spoiled. Seeds draw the
training rows, which of them are spoiled, and what the methods draw; the rows of the tables are means over the seeds
with their standard errors.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, RobustScaler
from sklearn.svm import LinearSVC

import widemargin as wm
from benchmarks.common import (
    ROOT,
    MissingDataError,
    load_adult,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    verdict,
    write,
)
from widemargin.datasets import data_folder
from widemargin_papers.baselines import (
    CatoniRiskClassifier,
    LDMClassifier,
    MarginDistributionClassifier,
    MedianOfMeansClassifier,
)
from widemargin_papers.data.two_classes import load_spruce, synthetic_rows

TRAIN_ROWS, TEST_ROWS = 4000, 20_000
SHARES = (0.1, 0.2)
KINDS = ("labels", "tails", "times 3", "times 20")
PEERS = ("LogisticRegression", "LinearSVC", "SGD modified Huber")
ROBUST = ("CatoniRisk", "MedianOfMeans")
TASKS = {"a9a": "a9a", "covtype": "covtype, 10 numeric columns"}


class Split(NamedTuple):
    """Training and test rows; labels 0 and 1."""

    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.int64]
    X_test: npt.NDArray[np.float64]
    y_test: npt.NDArray[np.int64]


def load(name: str, options: argparse.Namespace) -> Callable[[int], Split]:
    """A task: its split for every seed."""
    if name == "a9a":
        adult = load_adult(options)
        X, y = adult.X.toarray(), (adult.y > 0).astype(int)
        X_test, y_test = adult.X_test.toarray(), (adult.y_test > 0).astype(int)

        def split(seed: int) -> Split:
            rows = np.random.default_rng(seed).permutation(len(y))[:TRAIN_ROWS]
            return Split(X[rows], y[rows], X_test, y_test)

        return split
    folder = data_folder(options.data) or ROOT.parent / "shared" / "data"
    cover = synthetic_rows(500, 10) if options.quick else load_spruce(folder)
    label = (cover.y > 0).astype(int)

    def split_cover(seed: int) -> Split:
        order = np.random.default_rng(seed).permutation(len(label))
        n = min(TRAIN_ROWS, len(order) // 2)
        train, test = order[:n], order[n : n + TEST_ROWS]
        X, X_test = (cover.X[rows, :10].astype(np.float64) for rows in (train, test))
        mean, spread = X.mean(axis=0), X.std(axis=0)
        return Split((X - mean) / spread, label[train], (X_test - mean) / spread, label[test])

    return split_cover


def spoil(split: Split, kind: str, share: float, seed: int) -> Split:
    """The split with a share of its training rows spoiled."""
    rng = np.random.default_rng((seed, 1))
    rows = rng.permutation(len(split.y))[: round(share * len(split.y))]
    X, y = split.X.copy(), split.y.copy()
    if kind == "tails":
        X[rows] += rng.standard_cauchy((len(rows), X.shape[1]))
    else:
        y[rows] = 1 - y[rows]
        X[rows] *= {"labels": 1.0, "times 3": 3.0, "times 20": 20.0}[kind]
    return split._replace(X=X, y=y)


class RowClip(FunctionTransformer):
    """Rows longer than the median training row are scaled down to its length."""

    def __init__(self, limit: float) -> None:
        super().__init__(clip_rows, kw_args={"limit": limit})
        self.limit = limit


def clip_rows(X: Any, limit: float) -> Any:
    """Rows of norm at most `limit`."""
    return X * np.minimum(1.0, limit / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300))


def clip_columns(X: Any, low: Any, high: Any) -> Any:
    """Columns between their bounds."""
    return np.clip(X, low, high)


def methods(split: Split, seed: int) -> dict[str, Any]:
    """The classifiers, and logistic regression behind three remedies; those see the spoiled training rows, too."""
    limit = float(np.median(np.linalg.norm(split.X, axis=1)))
    low, high = np.quantile(split.X, [0.05, 0.95], axis=0)
    columns = FunctionTransformer(clip_columns, kw_args={"low": low, "high": high})
    plain = LogisticRegression(max_iter=1000)
    return {
        "LogisticRegression": plain,
        "LinearSVC": LinearSVC(random_state=seed),
        "SGD modified Huber": SGDClassifier(loss="modified_huber", random_state=seed),
        "logistic, RobustScaler": make_pipeline(RobustScaler(), plain),
        "logistic, rows clipped": make_pipeline(RowClip(limit), plain),
        "logistic, columns clipped": make_pipeline(columns, plain),
        "MarginPursuit": wm.MarginPursuitClassifier(),
        "MarginPursuit, rows clipped": make_pipeline(RowClip(limit), wm.MarginPursuitClassifier()),
        "LDM": LDMClassifier(max_iter=200, random_state=seed),
        "MarginDistribution": MarginDistributionClassifier(random_state=seed),
        "CatoniRisk": CatoniRiskClassifier(),
        "MedianOfMeans": MedianOfMeansClassifier(random_state=seed),
        "MedianOfMeans, gradient": MedianOfMeansClassifier(method="gradient", random_state=seed),
    }


def run(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Test error and processor seconds of every method, for every kind, share and seed."""
    task, found = load(name, options), []
    cases = [("clean", 0.0), *((kind, share) for kind in KINDS for share in SHARES)]
    for seed in range(2 if options.quick else options.seeds):
        split = task(seed)
        for kind, share in cases if not options.quick else [cases[0], *cases[5:7]]:
            bad = split if kind == "clean" else spoil(split, kind, share, seed)
            for method, clf in methods(bad, seed).items():
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)  # LIBLINEAR on rows of very different lengths
                    clf.fit(bad.X, bad.y)
                seconds = time.process_time() - began
                error = float((clf.predict(split.X_test) != split.y_test).mean())
                found.append(
                    {"task": name, "seed": seed, "kind": kind, "share": share, "method": method, "error": error,
                     "processor_s": round(seconds, 3)}
                )  # fmt: skip
    return found


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5


def errors(runs: Sequence[Mapping[str, Any]], method: str, case: tuple[str, float]) -> list[float]:
    """Test errors in percent, by seed."""
    return [100 * row["error"] for row in runs if row["method"] == method and (row["kind"], row["share"]) == case]


def tables(runs: Sequence[Mapping[str, Any]], name: str, title: str) -> list[str]:
    """Test errors of a task, and whether the robust methods win at factor 3."""
    mine = [row for row in runs if row["task"] == name]
    cases = list(dict.fromkeys((row["kind"], row["share"]) for row in mine))
    names = list(dict.fromkeys(row["method"] for row in mine))
    head = [kind if share == 0.0 else f"{kind}, {share:.0%}" for kind, share in cases]
    rows = []
    for method in names:
        cells = ["{:.1f} ± {:.1f}".format(*mean_and_error(errors(mine, method, case))) for case in cases]
        seconds = statistics.median(row["processor_s"] for row in mine if row["method"] == method)
        rows.append([method, *cells, f"{seconds:.2f}"])
    made = [show(f"{title}: test error in %", ["method", *head, "cpu s"], rows)]
    verdicts = []
    for case in [case for case in cases if case[0] == "times 3"]:
        for robust in ROBUST:
            for peer in PEERS:
                pairs = zip(errors(mine, peer, case), errors(mine, robust, case), strict=True)
                gain, error = mean_and_error([theirs - ours for theirs, ours in pairs])
                row = [
                    f"{case[0]}, {case[1]:.0%}",
                    robust,
                    peer,
                    f"{gain:+.1f} ± {error:.1f}",
                    verdict(gain > 2 * error),
                ]
                verdicts.append(row)
    columns = ["spoiled", "method", "peer", "peer's error minus this one", "more than 2 standard errors"]
    made.append(show(f"{title}: rows multiplied by 3, with the other label", columns, verdicts))
    return made


def by_case(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For the result file: the test errors of every task, case and method, by seed."""
    found: dict[str, Any] = {}
    for row in runs:
        case = f"{row['kind']} {row['share']:g}"
        found.setdefault(row["task"], {}).setdefault(case, {}).setdefault(row["method"], []).append(
            round(row["error"], 5)
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--seeds", type=int, default=5, help="draws of the rows (default 5, at least 2)")
    options = made.parse_args(arguments)
    about = machine()
    runs: list[dict[str, Any]] = []
    sections: list[str] = []
    try:
        with one_thread():
            for name in TASKS:
                runs += run(name, options)
                sections += tables(runs, name, f"synthetic rows like {TASKS[name]}" if options.quick else TASKS[name])
    except MissingDataError as error:
        return skipped(error)
    write(options, "margin_robustness", {"machine": about, "test_error": by_case(runs)}, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
