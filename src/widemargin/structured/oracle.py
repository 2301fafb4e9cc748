"""The argmax of a structured problem: what an oracle can answer, and how it says so.

An oracle is bound to one example and the current weights. It sees every label y as the point (h, g) of the plane,

    h(y) = 1 + f(y) - f(y_i)       how close the label is to winning,
    g(y) = L(y, y_i) >= 0          what it would cost,

and slack rescaling asks for the largest `h g`, margin rescaling for the largest `h + g`. Which questions it can answer
is in `capabilities`; the searches of `structured.search` use what there is.
(Choi, Meshi and Srebro 2016, section 4; corrected in places where the paper is wrong.)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Never, Protocol, TypeVar

from widemargin._typing import Floats
from widemargin.exceptions import CapabilityError

__all__ = [
    "CAPABILITIES", "CONE", "CONVEX", "DIRECT", "FREE", "LEVEL", "LEVELS", "Answer", "Found", "Oracle", "PartialOracle",
    "Search", "declare", "require",
]  # fmt: skip

FREE, CONE, LEVEL, LEVELS, DIRECT, CONVEX = "free", "cone", "level", "levels", "direct", "convex"

CAPABILITIES = frozenset({FREE, CONE, LEVEL, LEVELS, DIRECT, CONVEX})
"""What an oracle may be able to do: answer the question of that name. "convex" says that its labels are those of a
relaxation, and that their points fill a polygon."""


class Answer(NamedTuple):
    """A label and its point.

    Attributes
    ----------
    y : any
        The label, as the model represents it.
    h, g : float
    """

    y: Any
    h: float
    g: float


class Found(NamedTuple):
    """What a search returns.

    Attributes
    ----------
    y : any or None
        The best label found; None where no label has a positive value (then y_i itself is best, with the value 0).
    h, g : float
        Its point.
    upper : float
        Upper bound of `h g` over all labels, never below the value found: what makes a duality gap a certificate.
    queries : int
        Questions asked.
    exact : bool
        Whether `upper` is the value found, up to the tolerance of the search.
    """

    y: Any
    h: float
    g: float
    upper: float
    queries: int
    exact: bool

    @property
    def value(self) -> float:
        """`max(0, h g)`."""
        return max(0.0, self.h * self.g)


class Oracle(Protocol):
    """Answers questions about the labels of one example at the current weights.

    A user's own oracle needs `capabilities`, `smallest_loss`, `largest_loss` and the methods named in `capabilities`;
    `free` alone is enough to train (the search is then heuristic).

    Attributes
    ----------
    capabilities : frozenset of str
        Out of `CAPABILITIES`.
    smallest_loss, largest_loss : float
        The least positive loss of a label of this example, and the largest (or bounds of the two).
    exact : bool, optional
        False where the answers need not be the best ones, so that they prove nothing; True where missing.
    tolerance : float, optional
        Relative error of the answers, which a search must exceed; 0 where missing.
    relaxed : callable, optional
        Without arguments: an oracle of the same example with more labels, fractions of labels say, that answers "free"
        exactly and is "convex". Where `exact` is False it gives the proved bound of a run.
    """

    capabilities: frozenset[str]
    smallest_loss: float
    largest_loss: float

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`, `lam >= 0`."""
        ...

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same among the labels with `beta h <= g <= alpha h` and `h >= 0` (closed); None where there is none."""
        ...

    def level(self, c: int) -> Answer | None:
        """The label with the largest h among those of loss c (integer losses)."""
        ...

    def levels(self) -> Floats:
        """The largest h of every loss 0, 1, ..., -inf where there is no label."""
        ...

    def direct(self) -> Answer:
        """The label with the largest `h g`."""
        ...


class PartialOracle:
    """Refuses every question; a subclass overrides those named in its `capabilities`."""

    capabilities: frozenset[str] = frozenset()
    smallest_loss: float
    largest_loss: float

    def _refuse(self, question: str) -> Never:
        # The message says what it can do, as this class is for oracles of the users.
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

    def levels(self) -> Floats:
        """The largest h of every loss 0, 1, ...."""
        self._refuse(LEVELS)

    def direct(self) -> Answer:
        """The label with the largest `h g`."""
        self._refuse(DIRECT)


class Search(Protocol):
    """A way to find the label with the largest `h g` by asking an oracle: what `search=` of `StructuralSVM` takes.

    `widemargin.structured.search.best_label.BestLabel` keeps what a search has to keep. A search may ask nothing but
    what the oracle's `capabilities` name; `require` says so with an error.

    Attributes
    ----------
    exact : bool, optional
        Whether it finds the optimum, wherever the oracle is exact; False where missing. `declare` sets it.
    needs_slack : bool, optional
        Whether it is also called with `slack`, the slack of the example, which only `solver="cutting-plane"` knows;
        False where missing.
    """

    def __call__(
        self, oracle: Oracle, *, best: Answer | None, hint: float | None, eps: float, ratio: float, max_queries: int
    ) -> Found:
        """Look for the label with the largest `h g` of one example.

        Parameters
        ----------
        oracle : Oracle
        best : Answer or None
            A label known already, at the current weights.
        hint : float or None
            `h / g` of the label found last time for this example: a good lam to begin with.
        eps : float
            Relative difference that counts as none.
        ratio : float
            It may stop when the best label has this share of the upper bound.
        max_queries : int
            Most questions.

        Returns
        -------
        Found
            Its `upper` must bound `h g` of all labels of the oracle, whatever the search has found.
        """
        ...


S = TypeVar("S", bound=Callable[..., Found])


def declare(*, exact: bool, needs_slack: bool = False) -> Callable[[S], S]:
    """Decorator that says of a search whether it is exact and whether it needs the slack of the example."""

    def declared(search: S) -> S:
        # Attributes of the function itself, so that a search stays a plain function.
        vars(search).update(exact=exact, needs_slack=needs_slack)
        return search

    return declared


def require(oracle: Oracle, wanted: Sequence[str], search: str) -> None:
    """Refuse an oracle that cannot answer what a search asks.

    Raises
    ------
    CapabilityError
    """
    # An oracle is asked only what it says it can do: some answer other questions by nonsense.
    missing = [name for name in wanted if name not in oracle.capabilities]
    if missing:
        able = ", ".join(sorted(oracle.capabilities)) or "nothing"
        local = CONE in missing and not getattr(oracle, "exact", True)
        reason = " The best label that a local search meets in a cone bounds none of the others there." if local else ""
        raise CapabilityError(
            f"search={search!r} needs an oracle that answers {', '.join(missing)}; {type(oracle).__name__} answers "
            f"{able}.{reason} Use search='auto'."
        )
