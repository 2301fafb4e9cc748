"""Hierarchical multi-label data in the ARFF dialect of Clus, and synthetic rows of the kind."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin.datasets.files import CATALOGUE, GENES, HIERARCHIES, Folder, text_of
from widemargin.exceptions import DataError, MissingDataError
from widemargin_papers.data.label_sets import LabelSets


@dataclass(frozen=True)
class Hierarchy(LabelSets):
    """Rows whose label sets are closed: a node comes with its ancestors. Missing features are NaN.

    Attributes
    ----------
    paths : tuple of str
        Of the nodes, in the order of the columns of Y, "/" between the parts.
    arcs : tuple of (int, int), or None
        (parent, child), where nodes have several parents and `paths` are only their names; None: a tree.
    """

    paths: tuple[str, ...] = ()
    arcs: tuple[tuple[int, int], ...] | None = None


def load_hierarchy(folder: Folder, name: str) -> Hierarchy:
    """One of the sets of `HIERARCHIES`, which are trees, or of `GENES`, whose rows for validation are training rows.

    Parameters
    ----------
    folder : path-like or None
        Holds its ARFF files, packed (`.gz`) or not; or its subfolder `hierarchical` does.
    name : str
        "Enron_corr", "ImCLEF07A", "Diatoms", "cellcycle_FUN"; "cellcycle_FUN+valid", "cellcycle_GO".

    Raises
    ------
    DataError
        If there is no such set.
    MissingDataError
        If the files are not there, or hold something else.
    """
    if name not in HIERARCHIES | GENES:
        raise DataError(f"{name!r} is not one of the hierarchies {', '.join(HIERARCHIES | GENES)}.")
    parents: dict[str, tuple[str, ...]] = {}
    parts: list[Any] = []
    for path in CATALOGUE[name].paths(folder, name):
        try:
            X, sets, nodes = _read(text_of(path))
            parents = parents or nodes
            parts.append((X, _closed(sets, parents)))
        except ValueError as error:
            raise MissingDataError(f"{path} is no hierarchical ARFF file: {error}.") from None
    X, Y = (np.concatenate(some) for some in zip(*parts[:-1], strict=True))
    paths, arcs = tuple(parents), None
    if any(len(above) > 1 for above in parents.values()):
        place = {node: number for number, node in enumerate(paths)}
        arcs = tuple((place[above], place[node]) for node, those in parents.items() for above in those)
    X_test, Y_test = parts[-1]
    return Hierarchy(X, Y, X_test, Y_test, name, paths, arcs)


def _read(text: str) -> tuple[npt.NDArray[np.float64], list[list[str]], dict[str, tuple[str, ...]]]:
    """Features, the nodes named by each row, and the parents of all nodes."""
    lines = [line.strip() for line in text.splitlines()]
    start = next((place for place, line in enumerate(lines) if line.upper().startswith("@DATA")), len(lines))
    classes = [line for line in lines[:start] if " hierarchical " in " ".join(line.split())]
    if len(classes) != 1:
        raise ValueError(f"{len(classes)} attributes of the kind 'hierarchical', 1 is needed")
    listed = classes[0].rpartition(" ")[2].split(",")
    parents: dict[str, tuple[str, ...]] = {}
    if any(entry.startswith("root/") for entry in listed):
        # Arcs, "parent/child"; the root above all is no node here, as every row has it.
        for above, node in (entry.split("/") for entry in listed):
            for known in {above, node} - {"root"}:
                parents.setdefault(known, ())
            parents[node] += () if above == "root" else (above,)
    else:
        for node in dict.fromkeys(above for path in listed for above in _ancestors(path)):
            parents[node] = tuple(_ancestors(node)[-2:-1])
    rows = [line.split(",") for line in lines[start + 1 :] if line and line[0] != "%"]
    X = np.array([["nan" if value == "?" else value for value in row[:-1]] for row in rows], dtype=np.float64)
    return X, [row[-1].split("@") for row in rows], parents


def _ancestors(path: str) -> list[str]:
    """A path and all above it, from the root."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def _closed(sets: list[list[str]], parents: dict[str, tuple[str, ...]]) -> npt.NDArray[np.int64]:
    index = {node: number for number, node in enumerate(parents)}
    Y = np.zeros((len(sets), len(parents)), dtype=np.int64)
    for row, named in enumerate(sets):
        waiting = list(named)
        while waiting:
            node = waiting.pop()
            if node not in index:
                raise ValueError(f"row {row} has the label {node!r}, which the hierarchy does not list")
            if not Y[row, index[node]]:
                Y[row, index[node]] = 1
                waiting += parents[node]
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
    parents = {path: tuple(_ancestors(path)[-2:-1]) for path in paths}
    centre = rng.normal(size=(len(kinds), 12))
    parts: list[Any] = []
    for _ in range(2):
        chosen = [rng.choice(len(kinds), size=rng.integers(1, 3), replace=False) for _ in range(n)]
        X = np.array([centre[few].sum(axis=0) for few in chosen]) + 0.8 * rng.normal(size=(n, 12))
        parts += [X, _closed([[kinds[kind] for kind in few] for few in chosen], parents)]
    return Hierarchy(*[*parts, f"synthetic rows (n={n})", paths])
