"""Which search: the library's own by name, what "auto" takes, those of the papers, and those that users write."""

import inspect

from widemargin._papers import papers_module
from widemargin.exceptions import CapabilityError, OracleError
from widemargin.structured.oracle import CONE, CONVEX, DIRECT, FREE, LEVEL, LEVELS, Answer, Found, Search
from widemargin.structured.search.angular import angular
from widemargin.structured.search.hull import all_losses, direct, edge, hull, loss_by_loss

__all__ = ["EXACT", "IN_PAPERS", "SEARCHES", "automatic", "check_found", "named"]

SEARCHES: dict[str, Search] = {
    "direct": direct,
    "levels": all_losses,
    "edge": edge,
    "angular": angular,
    "level": loss_by_loss,
    "hull": hull,
}

EXACT = frozenset(name for name, search in SEARCHES.items() if getattr(search, "exact", False))
"""Searches that find the optimum; the others are heuristic, whatever the oracle (Theorem 1)."""

IN_PAPERS = ("bisecting", "binary", "sarawagi-gupta")
"""Searches to compare with, in `SEARCHES` of `widemargin_papers.solvers.label_searches`."""


def automatic(capabilities: frozenset[str]) -> str:
    """Name of the cheapest exact search for an oracle; "hull", which is heuristic, for one with free questions only.

    Raises
    ------
    CapabilityError
        If the oracle can answer nothing that a search asks.
    """
    # Fewest and cheapest questions first.
    by_cost: dict[str, set[str]] = {
        "direct": {DIRECT}, "levels": {LEVELS, LEVEL}, "edge": {FREE, CONVEX}, "angular": {FREE, CONE},
        "level": {FREE, LEVEL}, "hull": {FREE},
    }  # fmt: skip
    for name, needed in by_cost.items():
        if needed <= capabilities:
            return name
    raise CapabilityError(
        f"no search works with an oracle that answers {', '.join(sorted(capabilities)) or 'nothing'}; "
        "it needs at least 'free'."
    )


def named(search: str | Search, capabilities: frozenset[str]) -> tuple[str, Search]:
    """The search asked for with its name, "auto" resolved.

    Raises
    ------
    CapabilityError
        If the name is unknown, or that of a search in widemargin-papers, which is not installed; or if a function is
        not called as searches are.
    """
    if not isinstance(search, str):
        # A user's search must be called as the others are; to find out at the first example would be late.
        name = str(getattr(search, "__name__", type(search).__name__))
        options = dict.fromkeys(("best", "hint", "eps", "ratio", "max_queries"))
        if getattr(search, "needs_slack", False):
            options["slack"] = None
        try:
            inspect.signature(search).bind(None, **options)
        except TypeError as error:
            raise CapabilityError(
                f"search={name} cannot be called as search(oracle, *, {', '.join(options)}): {error}. "
                "See widemargin.structured.oracle.Search."
            ) from error
        return name, search
    # Searches of the papers are known by name too, and found where their package is installed.
    name = automatic(capabilities) if search == "auto" else search
    if name in SEARCHES:
        return name, SEARCHES[name]
    if name not in IN_PAPERS:
        raise CapabilityError(
            f"search={name!r} is not one of 'auto', {', '.join(map(repr, [*SEARCHES, *IN_PAPERS]))}, and no function."
        )
    searches: dict[str, Search] = papers_module("solvers.label_searches", f"search={name!r}").SEARCHES
    return name, searches[name]


def check_found(name: str, returned: object, best: Answer | None) -> None:
    """Refuse what a user's search returns where its upper bound is below a label that is known, or no number.

    Raises
    ------
    OracleError
    """
    # The gap of a run is only as good as what its search says.
    if not isinstance(returned, Found):
        raise OracleError(
            f"search {name} returned {type(returned).__name__}; give a Found(y, h, g, upper, queries, exact)."
        )
    # The label met before counts as well: the bound has to cover it.
    best_value = max(returned.value, 0.0 if best is None or best.h <= 0.0 else best.h * best.g)
    if not returned.upper >= best_value * (1.0 - 1e-9):  # not, so that NaN is refused
        raise OracleError(
            f"search {name} says that no label is worth more than {returned.upper:.9g}, but one is worth "
            f"{best_value:.9g}. "
            "`upper` must bound h g of all labels: it makes the duality gap a certificate. Return math.inf where "
            "nothing is proved."
        )
