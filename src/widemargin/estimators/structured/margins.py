"""Margins of structured classifiers: the score of the label minus the largest score of any other."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import CapabilityError
from widemargin.structured.oracle import LEVELS

__all__ = ["structured_margins"]


def structured_margins(model: Any, examples: Iterable[tuple[Any, Any, Floats]], theta: Floats) -> Floats:
    """`f(x, y) - max_{y' of loss > 0} f(x, y')` of every example.

    Parameters
    ----------
    model : StructuredModel
    examples : iterable of (x, label, potentials)
    theta : ndarray of shape (P,)

    Raises
    ------
    CapabilityError
        If the oracle of an example does not know the best label of every loss.
    """
    found = []
    for x, label, u in examples:
        oracle = model.oracle(x, label, u, theta)
        if LEVELS not in oracle.capabilities:
            raise CapabilityError(
                f"margins need an oracle that answers 'levels', the best label of every loss; {type(oracle).__name__} "
                "does not. Models of label trees, hierarchies, chains and independent labels with integer losses do."
            )
        found.append(1.0 - float(oracle.levels()[1:].max()))  # h = 1 + f(y') - f(y)
    return np.array(found)
