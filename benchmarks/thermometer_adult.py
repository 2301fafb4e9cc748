"""The 80% rule on raw Adult with its numbers as thermometers: test frontier and times, beside fairlearn's reductions.

Minimise the error rate subject to `s_p(M) <= s_p(F) / kappa`, as fairness_a9a.py, on the table in examples/data with
`ThermometerEncoder` for the five numbers and 0/1 columns for the words (sex included). The peers get the same features.
Run as `python -m benchmarks.thermometer_adult`; see README.md here.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.common import (
    ROOT,
    Adult,
    Timing,
    compare,
    describe,
    interleave,
    load_peers,
    machine,
    one_thread,
    parser,
    show,
    write,
)
from benchmarks.fairness_a9a import TEST_ERROR_SE, fit
from widemargin import RateConstrainedClassifier, ThermometerEncoder
from widemargin.preprocessing import QuantileBins

KAPPAS = (1.0, 0.8, 0.6, 0.4)
REGULARISERS = {2.0 / 3.0: "3/n", 0.2: "10/n"}
NUMBERS = ("age", "education_num", "hours_per_week", "capital_gain", "capital_loss")
WORDS = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country")

CODINGS: dict[str, Callable[[], Any]] = {
    "scaled numbers": StandardScaler,
    "bins (QuantileBins)": QuantileBins,
    "thermometers (ThermometerEncoder)": ThermometerEncoder,
}


@dataclass(frozen=True)
class RawAdult(Adult):
    """Raw Adult in some coding; who is a woman comes from the table, not from a column of X."""

    sex: Any = None
    sex_test: Any = None

    @property
    def women(self) -> Any:
        return self.sex == "Female"

    @property
    def women_test(self) -> Any:
        return self.sex_test == "Female"


def load(coding: str, n_rows: int | None = None) -> RawAdult:
    """The table in a coding that is fitted on the training rows; of each part the first `n_rows`."""
    table = pyarrow.csv.read_csv(ROOT / "examples" / "data" / "adult.csv.gz")
    split = table["split"].to_pylist()
    parts = {}
    for part in ("train", "test"):
        rows = table.filter(pa.array([word == part for word in split])).slice(0, n_rows)
        numbers = np.column_stack([rows[name].to_numpy().astype(float) for name in NUMBERS])
        words = np.column_stack([np.array(rows[name].to_pylist(), dtype=object) for name in WORDS])
        sex = np.array(rows["sex"].to_pylist())
        parts[part] = (numbers, words, np.where(np.array(rows["income"].to_pylist()) == ">50K", 1.0, -1.0), sex)
    encoder, one_hot = CODINGS[coding](), OneHotEncoder(handle_unknown="ignore")
    encoder.fit(parts["train"][0])
    one_hot.fit(parts["train"][1])
    X, X_test = (
        sp.csr_matrix(sp.hstack([encoder.transform(numbers), one_hot.transform(words)]))
        for numbers, words, *_ in parts.values()
    )
    (_, _, y, sex), (_, _, y_test, sex_test) = parts["train"], parts["test"]
    return RawAdult(X, y, X_test, y_test, "raw Adult", sex, sex_test)


def quality(data: RawAdult, share: Any, share_test: Any) -> dict[str, float]:
    """Ratio of positive rates, men over women, and error, on test and training rows."""
    women, women_test = data.women, data.women_test
    return {
        "train_ratio": float(share[~women].mean() / share[women].mean()),
        "train_error": float(np.where(data.y > 0, 1.0 - share, share).mean()),
        "test_ratio": float(share_test[~women_test].mean() / share_test[women_test].mean()),
        "test_error": float(np.where(data.y_test > 0, 1.0 - share_test, share_test).mean()),
    }


def hard(model: Any, X: Any) -> Any:
    """1 where a row is called positive."""
    return (model.decision_function(X) > 0.0).astype(float)


def coding_rows(names: Sequence[str], n_rows: int | None) -> list[dict[str, Any]]:
    """What the coding of the numbers is worth: without a constraint, and with the 80% rule."""
    rows = []
    for coding in names:
        data = load(coding, n_rows)
        for what, model in (
            ("plain", RateConstrainedClassifier(C=0.2, max_steps=1, enforce="randomized").fit(data.X, data.y)),
            ("kappa = 0.8", fit(data, 0.8, C=0.2)),
        ):
            reached = quality(data, hard(model, data.X), hard(model, data.X_test))
            rows.append({"coding": coding, "goal": what, "features": data.X.shape[1]} | reached)
    return rows


def cases(data: RawAdult, kappas: Sequence[float], peers: Any) -> dict[str, Callable[[], Any]]:
    """Everything that is timed, by name `what|kappa`."""
    made: dict[str, Callable[[], Any]] = {}
    dense, labels = (data.X.toarray() if peers else None), (data.y > 0).astype(int)
    for kappa in kappas:
        for C, lam in REGULARISERS.items():
            made[f"ours, lambda = {lam}|{kappa}"] = partial(fit, data, kappa, C=C)
        if peers:
            logistic = LogisticRegression(max_iter=1000)
            made[f"fairlearn, LR|{kappa}"] = partial(peers.fit_parity, dense, labels, ~data.women, kappa, base=logistic)
            made[f"fairlearn, LinearSVC|{kappa}"] = partial(peers.fit_parity, dense, labels, ~data.women, kappa)
    return made


def frontier_rows(data: RawAdult, timings: Mapping[str, Timing]) -> list[dict[str, Any]]:
    """Quality and time of every case."""
    rows = []
    for name, timing in timings.items():
        what, _, kappa = name.partition("|")
        model = timing.result
        share = model.share if hasattr(model, "share") else partial(hard, model)
        row = {"what": what, "kappa": float(kappa)} | quality(data, share(data.X), share(data.X_test))
        row |= timing.to_dict()
        for peer in ("LR", "LinearSVC"):
            other = timings.get(f"fairlearn, {peer}|{kappa}")
            if what.startswith("ours") and other is not None:
                row[f"times_{peer}"] = round(compare(other, timing), 1)
        rows.append(row)
    return rows


def show_frontier(rows: Sequence[Mapping[str, Any]], repeats: int) -> str:
    """Table of the frontier."""
    return show(
        f"Frontier (test standard error {TEST_ERROR_SE}); median of {repeats} interleaved repeats",
        ["kappa", "ratio asked", "what", "train ratio / error", "test ratio / error", "median s", "processor s",
         "LR / ours", "LinearSVC / ours"],
        [
            [
                row["kappa"], f"{1 / row['kappa']:.2f}", row["what"],
                f"{row['train_ratio']:.3f} / {row['train_error']:.4f}",
                f"{row['test_ratio']:.3f} / {row['test_error']:.4f}", f"{row['median_s']:.2f}",
                f"{row['median_processor_s']:.2f}",
                row.get("times_LR", ""), row.get("times_LinearSVC", ""),
            ]
            for row in rows
        ],
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 unless it breaks."""
    options = parser(__doc__.splitlines()[0]).parse_args(arguments)
    about = machine()
    n_rows = 1500 if options.quick else None
    kappas = KAPPAS[1:2] if options.quick else KAPPAS
    repeats = 1 if options.quick else options.repeats
    with one_thread():
        codings = coding_rows(list(CODINGS), n_rows)
        data = load("thermometers (ThermometerEncoder)", n_rows)
        print(f"{data.name}: {data.X.shape[0]} rows, {data.X.shape[1]} features; {describe(about)}\n")
        sections = [
            show(
                "What the coding of the five numbers is worth (lambda = 10/n)",
                ["coding", "features", "goal", "train error", "test ratio", "test error"],
                [
                    [
                        row["coding"], row["features"], row["goal"], f"{row['train_error']:.4f}",
                        f"{row['test_ratio']:.3f}", f"{row['test_error']:.4f}",
                    ]
                    for row in codings
                ],
            )
        ]  # fmt: skip
        timings = interleave(cases(data, kappas, load_peers(options)), repeats, warm_up=False)
        rows = frontier_rows(data, timings)
        sections.append(show_frontier(rows, repeats))
    write(options, "thermometer_adult", {"machine": about, "codings": codings, "frontier": rows}, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
