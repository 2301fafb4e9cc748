"""Data sets of the reproductions and benchmarks: loaders for files that you have, generators for those you lack."""

from widemargin.datasets.a9a import (
    DATA_VARIABLE,
    EDUCATION,
    FEMALE,
    MALE,
    N_FEATURES,
    Adult,
    data_folder,
    load_a9a,
    synthetic_a9a,
)
from widemargin.datasets.covtype import Rows, load_covtype, load_ijcnn1, synthetic_rows
from widemargin.datasets.mnist import Digits, load_mnist, synthetic_digits

__all__ = [
    "DATA_VARIABLE",
    "EDUCATION",
    "FEMALE",
    "MALE",
    "N_FEATURES",
    "Adult",
    "Digits",
    "Rows",
    "data_folder",
    "load_a9a",
    "load_covtype",
    "load_ijcnn1",
    "load_mnist",
    "synthetic_a9a",
    "synthetic_digits",
    "synthetic_rows",
]
