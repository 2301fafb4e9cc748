"""Tables of people to begin with, and the catalogue of files that experiments use, which widemargin-papers loads."""

from typing import Any

from widemargin._papers import moved_name
from widemargin.datasets.files import (
    CATALOGUE,
    DATA_VARIABLE,
    GENES,
    HIERARCHIES,
    PEOPLE_FILES,
    DataSet,
    data_folder,
    load_people,
)

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

_IN_PAPERS = frozenset(
    [
        "EDUCATION",
        "FEMALE",
        "MALE",
        "N_FEATURES",
        "Adult",
        "Digits",
        "Forest",
        "Hierarchy",
        "LabelSets",
        "load_a9a",
        "load_covtype",
        "load_hierarchy",
        "load_mnist",
        "load_rcv1",
        "load_yeast",
        "synthetic_a9a",
        "synthetic_digits",
        "synthetic_forest",
        "synthetic_hierarchy",
        "synthetic_label_sets",
    ]
)


def __getattr__(name: str) -> Any:
    """Loaders of the papers' data, which were here once: found where widemargin-papers is installed."""
    return moved_name(__name__, name, _IN_PAPERS, "data")
