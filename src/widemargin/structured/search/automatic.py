"""Which search: names, and what "auto" takes."""

from collections.abc import Callable

from widemargin.exceptions import CapabilityError
from widemargin.structured.oracle import CONE, CONVEX, DIRECT, FREE, LEVEL, LEVELS, Found
from widemargin.structured.search.angular import angular
from widemargin.structured.search.binary import binary
from widemargin.structured.search.bisecting import bisecting
from widemargin.structured.search.edge import edge
from widemargin.structured.search.hull import hull
from widemargin.structured.search.level import direct, level, levels
from widemargin.structured.search.sarawagi_gupta import sarawagi_gupta

__all__ = ["EXACT", "SEARCHES", "Search", "automatic", "named"]

Search = Callable[..., Found]
"""`search(oracle, *, best=None, hint=None, eps, ratio=1.0, max_queries) -> Found`."""

SEARCHES: dict[str, Search] = {
    "direct": direct,
    "levels": levels,
    "edge": edge,
    "angular": angular,
    "level": level,
    "hull": hull,
    "bisecting": bisecting,
    "binary": binary,
    "sarawagi-gupta": sarawagi_gupta,
}

EXACT = frozenset({"direct", "levels", "edge", "angular", "level"})
"""Searches that find the optimum; the others are heuristic, whatever the oracle (Theorem 1)."""

_BY_COST = (
    ("direct", {DIRECT}),
    ("levels", {LEVELS, LEVEL}),
    ("edge", {FREE, CONVEX}),
    ("angular", {FREE, CONE}),
    ("level", {FREE, LEVEL}),
    ("hull", {FREE}),
)


def automatic(capabilities: frozenset[str]) -> str:
    """Name of the cheapest exact search for an oracle; "hull", which is heuristic, for one with free questions only.

    Raises
    ------
    CapabilityError
        If the oracle can answer nothing that a search asks.
    """
    for name, needed in _BY_COST:
        if needed <= capabilities:
            return name
    raise CapabilityError(
        f"no search works with an oracle that answers {', '.join(sorted(capabilities)) or 'nothing'}; "
        "it needs at least 'free'."
    )


def named(name: str, capabilities: frozenset[str]) -> str:
    """The search asked for, "auto" resolved.

    Raises
    ------
    CapabilityError
        If the name is unknown.
    """
    if name == "auto":
        return automatic(capabilities)
    if name not in SEARCHES:
        raise CapabilityError(f"search={name!r} is not one of 'auto', {', '.join(map(repr, SEARCHES))}.")
    return name
