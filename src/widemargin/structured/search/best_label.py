"""What every search keeps while it asks: the best label met, an upper bound of the optimum, the number of questions.

Searches of your own may use it, too; see `widemargin.structured.oracle.Search`.
"""

import math

from widemargin.exceptions import OracleError
from widemargin.structured.oracle import Answer, Found

__all__ = ["MOST_QUERIES", "BestLabel", "checked"]

MOST_QUERIES = 1000
"""Questions after which a search gives up, where nobody says otherwise: exact searches ask ten or so."""


def checked(answer: Answer) -> Answer:
    """What an oracle answered, where it is an answer.

    Raises
    ------
    OracleError
        If it has no label and point, or the point is not finite, or the loss is negative.
    """
    if not all(hasattr(answer, part) for part in Answer._fields):
        raise OracleError(f"the oracle answered {answer!r}; give an Answer(y, h, g).")
    # NaN compares with nothing, so that it would never be seen later; -1e-6 is the rounding of linear programmes.
    if not (math.isfinite(answer.h) and -1e-6 <= answer.g < math.inf):
        raise OracleError(
            f"the oracle answered h = {answer.h:g} and g = {answer.g:g}; both must be finite, and g, the loss, >= 0."
        )
    return answer


class BestLabel:
    """State of a search.

    Attributes
    ----------
    answer : Answer or None
        The best label of positive value.
    best : float
        Its `h g`; 0 without one.
    upper : float
        `h g` of every label is at most this.
    queries : int
    """

    def __init__(self, best: Answer | None = None) -> None:
        self.answer: Answer | None = None
        self.best = 0.0
        self.upper = math.inf
        self.queries = 0
        if best is not None:
            self.meet(best)

    def meet(self, answer: Answer) -> None:
        """Keep a label if it is the best so far.

        Raises
        ------
        OracleError
            As in `checked`.
        """
        value = checked(answer).h * answer.g
        if answer.h > 0.0 and value > self.best:
            self.best, self.answer = value, answer

    def line(self, lam: float, answer: Answer) -> float:
        """Use an answer of `free(lam)`: no label lies above the line through it, `h + lam g <= K` (Lemma 5).

        Returns
        -------
        float
            K.
        """
        self.queries += 1
        self.meet(answer)
        K = answer.h + lam * answer.g
        if K <= 0.0:
            self.upper = 0.0
        elif lam > 0.0:
            # h g is largest on the line where h = lam g = K / 2.
            self.upper = min(self.upper, K * K / (4.0 * lam))
        return K

    def found(self, eps: float, *, exact: bool | None = None) -> Found:
        """End of the search: exact if the bound meets the best value up to the factor `1 + eps`."""
        # Rounding may leave the bound a little below the value of the label itself.
        upper = max(self.upper, self.best)
        if exact is None:
            exact = upper <= self.best * (1.0 + eps)
        # Without a label of positive value the truth is the best: h = 1, g = 0.
        y, h, g = self.answer if self.answer is not None else (None, 1.0, 0.0)
        return Found(y, h, g, upper, self.queries, exact)
