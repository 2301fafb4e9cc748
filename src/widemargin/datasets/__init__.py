"""Tables of people to begin with, and the catalogue of files that experiments use, which widemargin-papers loads."""

from typing import Any

from widemargin._papers import papers_module
from widemargin.datasets.files import CATALOGUE, DATA_VARIABLE, GENES, HIERARCHIES, PEOPLE_FILES, DataSet, data_folder
from widemargin.datasets.people import load_people

__all__ = [
    "CATALOGUE",
    "DATA_VARIABLE",
    "GENES",
    "HIERARCHIES",
    "PEOPLE_FILES",
    "DataSet",
    "data_folder",
    "load_people",
]


def __getattr__(name: str) -> Any:
    """Loaders of the papers' data, which were here once: found where widemargin-papers is installed."""
    moved = {} if name.startswith("_") else vars(papers_module("data", f"widemargin.datasets.{name}"))
    if name not in moved.get("__all__", ()):
        raise AttributeError(f"module 'widemargin.datasets' has no attribute {name!r}")
    return moved[name]
