"""The one door to widemargin-papers, the second distribution: the papers' experiments, and solvers to compare with.

The library works without it. Where a user names something that lives there, it is imported here, or one sentence says
how to get it.
"""

import importlib
import sys
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from widemargin.exceptions import CapabilityError

_CHECKOUT = Path(__file__).parents[2] / "papers" / "src"


def papers_module(name: str, wanted: str) -> ModuleType:
    """A module of widemargin-papers, installed or beside the library in a checkout of the repository.

    Parameters
    ----------
    name : str
        Below `widemargin_papers`.
    wanted : str
        What the user asked for, for the message.

    Raises
    ------
    CapabilityError
        If there is no such package.
    """
    if "widemargin_papers" not in sys.modules and find_spec("widemargin_papers") is None and _CHECKOUT.is_dir():
        sys.path.append(str(_CHECKOUT))
    try:
        return importlib.import_module(f"widemargin_papers.{name}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("widemargin_papers"):
            raise
        raise CapabilityError(
            f"{wanted} lives in widemargin-papers, which is not installed: run `pip install ./papers` in a checkout of "
            "the repository."
        ) from None


def moved_name(package: str, name: str, moved: Collection[str], home: str) -> Any:
    """For the `__getattr__` of a package: a name that was in it once and is in a module of widemargin-papers now.

    Parameters
    ----------
    package, name : str
    moved : collection of str
        All such names. The library has to know them, so that any other one is unknown without widemargin-papers, too.
    home : str
        The module that has them, below `widemargin_papers`.

    Raises
    ------
    AttributeError
        If the name is none of these.
    CapabilityError
        If there is no widemargin-papers.
    """
    if name not in moved:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(papers_module(home, f"{package}.{name}"), name)
