"""What code outside the library uses of its ground: types, compiled loops, checks of estimators, figures in its style.

Solvers, models and estimators of other packages import this module, the public names and the modules that
`docs/extending.md` lists, and nothing else of the library; `widemargin-papers` does. What is here may move inside the
library without moving here.
"""

from widemargin._files import replace_file
from widemargin._numba import array_kernel, kernel
from widemargin._threads import limit_threads
from widemargin._typing import (
    JSON,
    Bools,
    Classifier,
    Column,
    Features,
    Flags,
    Floats,
    Index,
    Integers,
    Ints,
    Label,
    Matrix,
    Reals,
    Seed,
    Signs,
    Singles,
    Table,
)
from widemargin.distributed.workers import side_by_side
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import BinaryGoalMixin, checked_rows, refuse_one_class
from widemargin.estimators._options import CURES, SolverOptions, budget_of, interrupted, parameters, worst
from widemargin.estimators.feature_scales import refuse_overflow
from widemargin.estimators.kernel_svm.kernel_model import KernelModel, labels_of, positive_numbers, refuse_missing
from widemargin.exceptions import warn
from widemargin.plotting._canvas import COLOURS, axes_for, band, new_figure, require_matplotlib, tidy

__all__ = [
    "COLOURS",
    "CURES",
    "JSON",
    "BinaryGoalMixin",
    "Bools",
    "Classifier",
    "Column",
    "Features",
    "Flags",
    "Floats",
    "Index",
    "Integers",
    "Ints",
    "KernelModel",
    "Label",
    "Matrix",
    "Reals",
    "Seed",
    "Signs",
    "Singles",
    "SolverOptions",
    "Table",
    "array_kernel",
    "axes_for",
    "band",
    "budget_of",
    "checked_rows",
    "interrupted",
    "kernel",
    "kinds",
    "labels_of",
    "limit_threads",
    "new_figure",
    "parameters",
    "positive_numbers",
    "refuse_missing",
    "refuse_one_class",
    "refuse_overflow",
    "replace_file",
    "require_matplotlib",
    "side_by_side",
    "tidy",
    "warn",
    "worst",
]
