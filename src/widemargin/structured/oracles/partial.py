"""An oracle that answers nothing: the base of those that answer some questions."""

from typing import Never

import numpy as np
import numpy.typing as npt

from widemargin.exceptions import CapabilityError
from widemargin.structured.oracle import CONE, DIRECT, FREE, LEVEL, LEVELS, Answer

__all__ = ["PartialOracle"]


class PartialOracle:
    """Refuses every question; a subclass overrides those named in its `capabilities`."""

    capabilities: frozenset[str] = frozenset()
    smallest_loss: float
    largest_loss: float

    def _refuse(self, question: str) -> Never:
        able = ", ".join(sorted(self.capabilities)) or "nothing"
        raise CapabilityError(f"{type(self).__name__} does not answer {question!r}; it answers {able}.")

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        self._refuse(FREE)

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same among the labels with `beta h <= g <= alpha h` and `h >= 0`."""
        self._refuse(CONE)

    def level(self, c: int) -> Answer | None:
        """The label with the largest h among those of loss c."""
        self._refuse(LEVEL)

    def levels(self) -> npt.NDArray[np.float64]:
        """The largest h of every loss 0, 1, ...."""
        self._refuse(LEVELS)

    def direct(self) -> Answer:
        """The label with the largest `h g`."""
        self._refuse(DIRECT)
