"""Data sets of the reproductions and benchmarks: loaders for files that you have, generators for those you lack."""

from widemargin.datasets.a9a import EDUCATION, FEMALE, MALE, N_FEATURES, Adult, load_a9a, synthetic_a9a
from widemargin.datasets.covtype import Forest, load_covtype, synthetic_forest
from widemargin.datasets.files import CATALOGUE, DATA_VARIABLE, GENES, HIERARCHIES, PEOPLE_FILES, DataSet, data_folder
from widemargin.datasets.hierarchies import Hierarchy, load_hierarchy, synthetic_hierarchy
from widemargin.datasets.label_sets import LabelSets, load_rcv1, load_yeast, synthetic_label_sets
from widemargin.datasets.mnist import Digits, load_mnist, synthetic_digits
from widemargin.datasets.people import load_people

__all__ = [
    "CATALOGUE",
    "DATA_VARIABLE",
    "EDUCATION",
    "FEMALE",
    "GENES",
    "HIERARCHIES",
    "MALE",
    "N_FEATURES",
    "PEOPLE_FILES",
    "Adult",
    "DataSet",
    "Digits",
    "Forest",
    "Hierarchy",
    "LabelSets",
    "data_folder",
    "load_a9a",
    "load_covtype",
    "load_hierarchy",
    "load_mnist",
    "load_people",
    "load_rcv1",
    "load_yeast",
    "synthetic_a9a",
    "synthetic_digits",
    "synthetic_forest",
    "synthetic_hierarchy",
    "synthetic_label_sets",
]
