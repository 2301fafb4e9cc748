"""Data sets of the papers' experiments and of the benchmarks: loaders for files that you have, else generators."""

from widemargin_papers.data.a9a import EDUCATION, FEMALE, MALE, N_FEATURES, Adult, load_a9a, synthetic_a9a
from widemargin_papers.data.covtype import Forest, load_covtype, synthetic_forest
from widemargin_papers.data.hierarchies import Hierarchy, load_hierarchy, synthetic_hierarchy
from widemargin_papers.data.label_sets import LabelSets, load_rcv1, load_yeast, synthetic_label_sets
from widemargin_papers.data.mnist import Digits, load_mnist, synthetic_digits

__all__ = [
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
