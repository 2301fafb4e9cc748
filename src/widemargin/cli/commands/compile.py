"""`widemargin compile`: compile now what the first fit of each estimator would compile, and keep it on disk.

A fit compiles the loops of its kind when it is first called on a machine: half a second to ten. Images of containers,
and machines of many users should do that when they are set up.
"""

import argparse
import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

import widemargin as wm
from widemargin._numba import cache_folder
from widemargin._typing import Floats
from widemargin.cli.console import Progress, say
from widemargin.exceptions import DataError
from widemargin.goals import Goal, error_rate, recall

ESTIMATORS = (
    "RateConstrainedClassifier", "GoalThresholdClassifier", "GoalReduction", "KernelSVC", "SBPClassifier",
    "KernelPerceptron", "MarginPursuitClassifier", "RiskClassifier", "MulticlassSVC", "MultiLabelSVC",
    "HierarchicalSVC", "ChainSVC",
)  # fmt: skip
"""Those that have loops of their own; the structural ones, last, have some for each kind."""

PARENTS = (-1, 0, 0, 1, 1)
"""A small hierarchy."""


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Fit each estimator on small rows; the exit code and the content for --json."""
    names: list[str] = options.estimator or [*ESTIMATORS]
    strange = [name for name in names if name not in ESTIMATORS]
    if strange:
        raise DataError(f"{', '.join(map(repr, strange))}: no such estimator. Name some of {', '.join(ESTIMATORS)}")
    folder = os.environ.get("NUMBA_CACHE_DIR") or cache_folder()
    seconds = {}
    with Progress() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small rows that nobody wants a good model of
        for name in names:
            progress.step(f"compiling {name}")
            start = time.process_time()
            for rows in made_rows(name, 60):
                made_estimator(name).fit(*rows).predict(rows[0])
            seconds[name] = round(time.process_time() - start, 2)
    say(*(f"{name:26} {taken:6.2f} s" for name, taken in seconds.items()))
    say(
        f"Compiled code lies in {folder or 'the folder that numba chose'}.",
        "It serves this version in this environment, on processors of this kind; others compile their own.",
    )
    return 0, {"folder": folder, "seconds": seconds}


def made_estimator(name: str) -> Any:
    """The estimator with its defaults, and what it cannot be made without."""
    goal = Goal(error_rate(), recall() >= 0.6)
    if name in ("GoalThresholdClassifier", "GoalReduction"):  # who fits another one need not wait for this import
        from sklearn.linear_model import LogisticRegression

        return getattr(wm, name)(LogisticRegression(), goal)
    needed: Mapping[str, tuple[object, ...]] = {"RateConstrainedClassifier": (goal,), "HierarchicalSVC": (PARENTS,)}
    return getattr(wm, name)(*needed.get(name, ()))


def made_rows(name: str, n: int) -> list[tuple[Any, Any]]:
    """Rows of five columns with labels of the estimator's kind, dense and sparse where it takes both.

    Labels are classes, label sets, closed ones, or sequences of ten.
    """
    rng = np.random.default_rng(0)
    X: Floats = rng.normal(size=(n, 5))
    Y = (X + 0.5 * rng.normal(size=(n, 5)) > 0.0).astype(int)
    if name == "ChainSVC":
        pieces = range(0, n, 10)
        return [([X[first : first + 10] for first in pieces], [Y[first : first + 10, 0] for first in pieces])]
    if name == "HierarchicalSVC":
        for node, parent in enumerate(PARENTS[1:], 1):
            Y[:, node] &= Y[:, parent]
    y = Y if name in ("MultiLabelSVC", "HierarchicalSVC") else Y[:, 0]
    # The problems of several classes have a loop of their own.
    several = [(X, Y[:, :2].sum(axis=1))] if name == "KernelSVC" else []
    return [(X, y), (sp.csr_matrix(X), y), *several]
