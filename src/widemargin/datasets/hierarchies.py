"""Hierarchical multi-label data in the ARFF dialect of Clus, and synthetic rows of the kind."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin.datasets.files import CATALOGUE, HIERARCHIES, Folder, text_of
from widemargin.datasets.label_sets import LabelSets
from widemargin.exceptions import DataError, MissingDataError


@dataclass(frozen=True)
class Hierarchy(LabelSets):
    """Rows whose label sets are closed: a node comes with its ancestors. Missing features are NaN.

    Attributes
    ----------
    paths : tuple of str
        Of the nodes, in the order of the columns of Y, "/" between the parts.
    """

    paths: tuple[str, ...] = ()


def load_hierarchy(folder: Folder, name: str) -> Hierarchy:
    """One of the sets of `HIERARCHIES`, whose hierarchies are trees.

    Parameters
    ----------
    folder : path-like or None
        Holds its ARFF files, packed (`.gz`) or not; or its subfolder `hierarchical` does.
    name : str
        "Enron_corr", "ImCLEF07A", "Diatoms" or "cellcycle_FUN".

    Raises
    ------
    DataError
        If there is no such set.
    MissingDataError
        If the files are not there, or hold something else.
    """
    if name not in HIERARCHIES:
        raise DataError(f"{name!r} is not one of the hierarchies {', '.join(HIERARCHIES)}.")
    paths: tuple[str, ...] = ()
    parts: list[Any] = []
    for path in CATALOGUE[name].paths(folder, name):
        try:
            X, sets, nodes = _read(text_of(path))
            paths = paths or nodes
            parts += [X, _closed(sets, paths)]
        except ValueError as error:
            raise MissingDataError(f"{path} is no hierarchical ARFF file: {error}.") from None
    return Hierarchy(*[*parts, name, paths])


def _read(text: str) -> tuple[npt.NDArray[np.float64], list[list[str]], tuple[str, ...]]:
    """Features, the nodes named by each row, and all nodes with their ancestors."""
    lines = [line.strip() for line in text.splitlines()]
    start = next((place for place, line in enumerate(lines) if line.upper().startswith("@DATA")), len(lines))
    classes = [line for line in lines[:start] if " hierarchical " in " ".join(line.split())]
    if len(classes) != 1:
        raise ValueError(f"{len(classes)} attributes of the kind 'hierarchical', 1 is needed")
    listed = classes[0].rpartition(" ")[2].split(",")
    paths = tuple(dict.fromkeys(above for path in listed for above in _ancestors(path)))
    rows = [line.split(",") for line in lines[start + 1 :] if line and line[0] != "%"]
    X = np.array([["nan" if value == "?" else value for value in row[:-1]] for row in rows], dtype=np.float64)
    return X, [row[-1].split("@") for row in rows], paths


def _ancestors(path: str) -> list[str]:
    """A path and all above it, from the root."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def _closed(sets: list[list[str]], paths: tuple[str, ...]) -> npt.NDArray[np.int64]:
    index = {path: node for node, path in enumerate(paths)}
    Y = np.zeros((len(sets), len(paths)), dtype=np.int64)
    for row, named in enumerate(sets):
        for path in named:
            for above in _ancestors(path):
                if above not in index:
                    raise ValueError(f"row {row} has the label {path!r}, which the hierarchy does not list")
                Y[row, index[above]] = 1
    return Y


def synthetic_hierarchy(n: int, seed: int = 0) -> Hierarchy:
    """Rows of 3 groups of 3 kinds each, one or two kinds a row, n training and n test rows.

    Parameters
    ----------
    n : int
    seed : int
    """
    rng = np.random.default_rng(seed)
    kinds = [f"{group}/{kind}" for group in "abc" for kind in "123"]
    paths = tuple(dict.fromkeys(above for path in kinds for above in _ancestors(path)))
    centre = rng.normal(size=(len(kinds), 12))
    parts: list[Any] = []
    for _ in range(2):
        chosen = [rng.choice(len(kinds), size=rng.integers(1, 3), replace=False) for _ in range(n)]
        X = np.array([centre[few].sum(axis=0) for few in chosen]) + 0.8 * rng.normal(size=(n, 12))
        parts += [X, _closed([[kinds[kind] for kind in few] for few in chosen], paths)]
    return Hierarchy(*[*parts, f"synthetic rows (n={n})", paths])
