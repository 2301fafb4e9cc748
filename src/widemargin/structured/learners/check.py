"""Whether an oracle keeps its word: its answers against the model's own features and loss."""

from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin.exceptions import OracleError
from widemargin.structured.model import Features
from widemargin.structured.oracle import CAPABILITIES, CONVEX, Answer, Oracle
from widemargin.structured.search.edge import Mixture

if TYPE_CHECKING:
    from widemargin.structured.learners.problem import Floats, StructuredProblem

__all__ = ["check_answer", "check_label", "check_oracle"]

_TOLERANCE = 1e-6


def check_oracle(oracle: Oracle) -> None:
    """Refuse an oracle that does not say what it can do, or gives impossible losses.

    Raises
    ------
    OracleError
    """
    name = type(oracle).__name__
    unknown = sorted(set(oracle.capabilities) - CAPABILITIES)
    if unknown:
        raise OracleError(f"{name}.capabilities names {unknown}; known are {sorted(CAPABILITIES)}.")
    missing = [what for what in sorted(oracle.capabilities - {"convex"}) if not hasattr(oracle, what)]
    if missing:
        raise OracleError(f"{name}.capabilities names {missing}, but there are no such methods.")
    no_least = CONVEX not in oracle.capabilities and not oracle.smallest_loss > 0.0  # mixtures of labels have none
    if oracle.largest_loss < 0.0 or (oracle.largest_loss > 0.0 and no_least):
        raise OracleError(
            f"{name}.smallest_loss is {oracle.smallest_loss:g} and largest_loss {oracle.largest_loss:g}; the first is "
            "the least positive loss of a label, the second the largest."
        )


def check_label(problem: "StructuredProblem", i: int, y: Any) -> None:
    """Refuse a label that the model says is none of its labels (by `contains(x, y)`, which a model may have).

    Raises
    ------
    OracleError
    """
    contains = getattr(problem.model, "contains", None)
    for part in [y.first, y.second] if isinstance(y, Mixture) else [y]:
        if contains is not None and not contains(problem.X[i], part):
            name = type(problem.model).__name__
            raise OracleError(f"example {i}: the oracle returned {part!r}, which is not a label of {name}.")


def check_answer(
    problem: "StructuredProblem", i: int, answer: Answer, psi: Features, u: "Floats", theta: "Floats"
) -> None:
    """Compare the point of an answer with the label's own score and loss.

    Raises
    ------
    OracleError
        If they differ by more than 1e-6.
    """
    name = type(problem.model).__name__
    score = float((psi.A * u).sum() + psi.b @ theta)
    scale = 1.0 + float(np.abs(psi.A * u).sum() + np.abs(psi.b * theta).sum())
    if not abs(answer.h - (1.0 - score)) <= _TOLERANCE * scale:
        raise OracleError(
            f"example {i}: the oracle says h = {answer.h:.9g} of label {answer.y!r}, but 1 + f(y) - f(y_i) is "
            f"{1.0 - score:.9g} by {name}.features. One of them is wrong."
        )
    if not isinstance(answer.y, Mixture):
        loss = problem.model.loss(answer.y, problem.Y[i])
        if not abs(answer.g - loss) <= _TOLERANCE * (1.0 + abs(loss)):
            raise OracleError(
                f"example {i}: the oracle says g = {answer.g:.9g} of label {answer.y!r}, but its loss is {loss:.9g} by "
                f"{name}.loss. One of them is wrong."
            )
