"""Decision trees from a file, checked before their compiled code follows the numbers in it.

scikit-learn's trees look children and features up without bounds: a wrong number in a file reads foreign memory. So the
arguments of their constructor are checked on the raw description, and every node after it was built.
"""

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import Tree

from widemargin.exceptions import ModelFileError

__all__ = ["check_tree_arguments", "check_trees"]

MAX_OUTPUTS = 1000


def check_tree_arguments(schema: Any, parts: Mapping[str, bytes], where: str) -> None:
    """Refuse trees whose numbers of outputs and of classes do not fit together.

    Parameters
    ----------
    schema : parsed `schema.json`
    parts : mapping of str to bytes
        The files of the archive.
    where : str
        Name of the file in messages.
    """
    open_nodes = [schema]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, list):
            open_nodes += node
        elif isinstance(node, dict):
            if node.get("__loader__") == "TreeNode" and not _fits(node, parts):
                raise ModelFileError(f"{where}: the description of a tree is wrong. Save the model again")
            open_nodes += node.values()


def _fits(node: Mapping[str, Any], parts: Mapping[str, bytes]) -> bool:
    try:
        n_features, n_classes, n_outputs = node["__reduce__"]["args"]["content"]
        loaders = [part["__loader__"] for part in (n_features, n_classes, n_outputs)]
        numbers = [json.loads(part["content"]) for part in (n_features, n_outputs)]
        classes = np.load(io.BytesIO(parts[n_classes["file"]]), allow_pickle=False)
    except Exception:  # NumPy raises all sorts of things at a broken header
        return False
    return (
        loaders == ["JsonNode", "NdArrayNode", "JsonNode"]
        and n_classes["type"] == "numpy"
        and all(type(number) is int and number > 0 for number in numbers)
        and numbers[1] <= MAX_OUTPUTS
        and classes.dtype == np.intp
        and classes.shape == (numbers[1],)
    )


def check_trees(model: Any, where: str) -> None:
    """Refuse a model with a tree that would leave its own nodes or the columns of its table.

    Raises
    ------
    ModelFileError
    """
    for part, owner in _parts(model):
        if isinstance(part, Tree) and not (_is_tree(owner) and _is_sound(part, owner)):
            raise ModelFileError(f"{where}: a tree in it is damaged. Save the model again")
        if isinstance(part, RandomForestClassifier | ExtraTreesClassifier):
            width = getattr(part, "n_features_in_", None)
            trees = getattr(part, "estimators_", [])
            if not all(_is_tree(tree) and getattr(tree, "n_features_in_", 0) == width for tree in trees):
                raise ModelFileError(f"{where}: the trees of a forest in it are damaged. Save the model again")


def _is_tree(part: Any) -> bool:
    return isinstance(part, DecisionTreeClassifier)


def _parts(model: Any) -> Iterator[tuple[Any, Any]]:
    """Everything inside a model, with the estimator that it is the `tree_` of (None else)."""
    waiting: list[tuple[Any, Any]] = [(model, None)]
    seen: set[int] = set()
    while waiting:
        part, owner = waiting.pop()
        yield part, owner
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, BaseEstimator) or (hasattr(part, "__dict__") and not isinstance(part, type)):
            waiting += [(value, part if name == "tree_" else None) for name, value in vars(part).items()]
        if isinstance(part, dict):
            waiting += [(value, None) for value in part.values()]
        elif isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object):
            waiting += [(value, None) for value in part]


def _is_sound(tree: Any, owner: Any) -> bool:
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    number, place = tree.node_count, np.arange(tree.node_count)
    leaf = left == -1
    if number < 1 or not np.array_equal(leaf, right == -1):
        return False
    inner = ~leaf
    after = all((child[inner] > place[inner]).all() and (child[inner] < number).all() for child in (left, right))
    width = getattr(owner, "n_features_in_", 0)
    return bool(after and (feature[inner] >= 0).all() and (feature[inner] < width).all())
