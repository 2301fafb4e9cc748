"""What code outside the library needs of its ground: compiled loops, types, threads, and how warnings are given.

Solvers, models and estimators of other packages import this module, the public names and the protocols that
`docs/extending.md` lists, and nothing else of the library; `widemargin-papers` does.
"""

from widemargin._files import replace_file
from widemargin._numba import kernel
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

__all__ = [
    "JSON",
    "Bools",
    "Classifier",
    "Column",
    "Features",
    "Flags",
    "Floats",
    "Index",
    "Integers",
    "Ints",
    "Label",
    "Matrix",
    "Reals",
    "Seed",
    "Signs",
    "Singles",
    "Table",
    "kernel",
    "limit_threads",
    "replace_file",
]
