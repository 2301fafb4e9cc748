"""Facts about scores that a goal counts: whether a row's margin is below a number, whether its decision is certified.

Predictions do not show these facts, so the classifier itself is asked, and they travel as baselines do
(`goals/language/linear.ScoreFact`).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from widemargin._typing import Classifier, Column, Features, Label
from widemargin.diagnostics.margins import margins_of
from widemargin.diagnostics.robustness import certificate, certified_radii
from widemargin.exceptions import DataError
from widemargin.goals.language.linear import ScoreFact


def caution_of_bounds(facts: Sequence[ScoreFact], model: Classifier) -> str | None:
    """The note that certified rates are lower bounds, as they are with kernels and feature maps; else None."""
    how = {certificate(model, fact.norm or "l2") for fact in facts if fact.metric == "certified_rate"}
    methods = sorted(method for is_exact, method in how if not is_exact)
    if not methods:
        return None
    return f"certified rates are lower bounds here, by the {methods[0]}: more decisions may withstand such changes."


def score_facts(
    facts: Sequence[ScoreFact], model: Classifier, X: Features, y: Column | None, positive: Label
) -> dict[str, npt.NDArray[np.object_]]:
    """Each fact of each row, as a baseline that says the positive class where it is true.

    Parameters
    ----------
    facts : sequence of ScoreFact
    model : fitted classifier of two classes
    X : array-like of shape (n, d)
    y : array-like of shape (n,) or None
        Labels, for facts about margins.
    positive : label

    Raises
    ------
    DataError
        If the classifier gives no scores, or labels are missing.
    """
    if not facts:
        return {}
    names = [label for label in np.asarray(getattr(model, "classes_", ())).tolist() if label != positive]
    if len(names) != 1:
        raise DataError(f"{facts[0].name} needs a classifier of two classes, with classes_.")
    found = {}
    for fact in facts:
        if fact.metric == "certified_rate":
            holds = certified_radii(model, X, norm=fact.norm or "l2").values > fact.number
        elif y is None:
            raise DataError(f"{fact.name} needs labels; give y.")
        else:
            holds = margins_of(model, X, y).values < fact.number
        found[fact.name] = np.array([names[0], positive], dtype=object)[holds.astype(np.intp)]
    return found
