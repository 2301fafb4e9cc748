"""The check of the numbers in a model: shapes that agree, indices within bounds, finite coefficients.

Compiled code does not check the indices that a model holds: a wrong one in a file would read foreign memory, and the
process would crash or, worse, predict. So every array is checked when a file is read, before anything is predicted.

A class of this library states its arrays next to its attributes, in `_stored_arrays`: attribute -> contract. A contract
is a kind and the length of every dimension, several of them joined by `|`:

    "float s d"            finite numbers of float32 or float64, s rows of d
    "double s d"           the same, of float64 alone
    "any-float k"          the same, not necessarily finite
    "count s"              integers of at least 0
    "bool d"               true or false
    "label k"              numbers or texts
    "integer m 2"          integers
    "scalar"               one number, and no array
    "each d: increasing *" a list of d arrays, each of increasing numbers

A length is a number, `*` for any, or a letter, which stands for one number in the whole object: `d` is
`n_features_in_`, `k` the number of classes, `p` the number of binary problems of `k` classes one against the rest, and
any other letter the length that the first array with it has. What contracts cannot express, such as which numbers are
indices into what, is checked by the method `_refuse_arrays` of the class, which raises a ValueError. CSR matrices are
checked wherever they are.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import Tree

from widemargin._typing import JSON, Integers
from widemargin.exceptions import DataError, ModelFileError
from widemargin.persistence.model_file_check import json_objects
from widemargin.rows import check_sparse

_INTEGERS, _FLOATS = "bhilqBHILQ", "fd"
_TYPES = {
    "any-float": _FLOATS, "bool": "?", "count": _INTEGERS, "double": "d", "float": _FLOATS, "increasing": _FLOATS,
    "integer": _INTEGERS, "label": f"?{_INTEGERS}{_FLOATS}UO",
}  # fmt: skip
"""Kinds of contracts, and the codes of the NumPy types that they allow."""


def check_arrays(model: object, where: str) -> None:
    """Refuse a model with an array that breaks the contract of its class or is unsafe for compiled code.

    Parameters
    ----------
    model : object
        As it was built from a file.
    where : str
        Name of the file in messages.

    Raises
    ------
    ModelFileError
    """
    for place, part, owner in parts_of(model):
        try:
            if sp.issparse(part):
                _check_csr(part)
            elif isinstance(part, Tree):
                children = part.children_left, part.children_right
                inner, width = children[0] != -1, getattr(owner, "n_features_in_", 0)
                is_sound = isinstance(owner, DecisionTreeClassifier) and np.array_equal(inner, children[1] != -1)
                if not is_sound or not _ends_in_leaves(inner, children, part.feature, width):
                    raise ValueError("a tree in it is damaged")
            _check_stored(part)
            # Looked up on the class: an attribute of the object comes from the file and could replace the method.
            refuse = getattr(type(part), "_refuse_arrays", None) or _OF_SCIKIT_LEARN.get(type(part))
            if refuse is not None:
                refuse(part)
        # Where a part has the wrong type, the check itself can fail with any of these errors.
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{where}: {place} is damaged, or its parts do not fit each other: {error}. Save the model again"
            ) from error


def parts_of(model: object) -> Iterator[tuple[str, object, object]]:
    """Everything in a model with its place, each with the object that it is an attribute of."""
    waiting: list[tuple[str, object, object]] = [("model", model, None)]
    # By id, with the part itself: as long as it is referred to, no other object can get its id.
    seen: dict[int, object] = {}
    while waiting:
        place, part, owner = waiting.pop()
        # A tree is yielded for each of its owners, because only the owner knows how many columns there are.
        if id(part) in seen and not isinstance(part, Tree):
            continue
        seen[id(part)] = part
        yield place, part, owner
        if hasattr(part, "__dict__") and not isinstance(part, type):
            waiting += [(f"{place}.{name}", value, part) for name, value in vars(part).items()]
        if isinstance(part, dict):
            waiting += [(f"{place}[{key!r}]", value, None) for key, value in part.items()]
        elif isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object):
            items = part.ravel().tolist() if isinstance(part, np.ndarray) else part
            waiting += [(f"{place}[{number}]", value, None) for number, value in enumerate(items)]


def _check_csr(matrix: Any) -> None:
    """Indices within bounds, increasing within each row, values finite: as after `fit`."""
    if matrix.format != "csr":
        raise ValueError(f"it is a {matrix.format.upper()} matrix, not a CSR one")
    try:
        check_sparse(matrix)
    except DataError as error:
        raise ValueError(str(error.__cause__)) from error
    if matrix.data.dtype.kind not in "fiub" or not np.isfinite(matrix.data).all():
        raise ValueError("its values are not finite numbers")
    # A matrix caches whether it is canonical; a new one of the same arrays computes it.
    if not type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape).has_canonical_format:
        raise ValueError("its column numbers are not sorted, or name a column twice")


def contracts_of(kind: type) -> dict[str, str]:
    """The contracts that a class states of its arrays, also by its bases."""
    contracts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        stated = vars(base).get("_stored_arrays", {})
        contracts |= dict(stated() if callable(stated) else stated)  # a static method of named tuples
    return contracts


def _check_stored(part: object) -> None:
    """The contracts that the class of an object states."""
    contracts = contracts_of(type(part))
    if not contracts:
        return
    named: Any = part
    held: Mapping[str, Any] = named._asdict() if isinstance(part, tuple) else vars(part)
    sizes: dict[str, Any] = {"d": held.get("n_features_in_")}
    if "classes_" in held:
        # `offsets_` is None where thresholds stand between two classes; then a file with more classes is refused.
        sizes["k"] = 2 if held.get("offsets_", ()) is None else len(held["classes_"])
        sizes["p"] = {0: 0, 1: 0, 2: 1}.get(sizes["k"], sizes["k"])  # one class makes no problem, two make one
    for name, contract in contracts.items():
        if held.get(name) is not None:
            faults = [_fault(held[name], choice, sizes) for choice in contract.split(" | ")]
            if None not in faults:
                raise ValueError(f"{name} {faults[0]}")


def _fault(value: Any, contract: str, sizes: dict[str, int]) -> str | None:
    """What is wrong with an attribute, None where nothing is. A letter that is not in `sizes` yet is added to it."""
    if contract.startswith("each "):
        length, _, inner = contract.removeprefix("each ").partition(": ")
        if not isinstance(value, list) or len(value) != sizes.setdefault(length, len(value)):
            return f"is no list of {sizes.get(length)} arrays"
        return next((fault for item in value if (fault := _fault(item, inner, sizes))), None)
    if contract == "scalar":
        return None if isinstance(value, float | int) else f"is a {type(value).__name__}, no number"
    kind, *lengths = contract.split()
    is_csr = sp.issparse(value) and kind == "float" and len(lengths) == 2
    if not (isinstance(value, np.ndarray) or is_csr):
        return f"is a {type(value).__name__}, no array"
    if value.dtype.char not in _TYPES[kind] or not value.dtype.isnative:
        return f"holds {value.dtype}, not numbers of the kind {kind!r}"
    wanted = [
        int(length) if length.isdecimal() else actual if length == "*" else sizes.setdefault(length, actual)
        for length, actual in zip(lengths, value.shape, strict=False)
    ]
    if len(lengths) != value.ndim or list(value.shape) != wanted:
        return f"has the shape {value.shape}, not ({', '.join(lengths)}) = {tuple(wanted)}"
    numbers = value.data if is_csr else value
    if kind in ("double", "float", "increasing") and not np.isfinite(numbers).all():
        return "holds NaN or infinity"
    if kind == "count" and numbers.size and numbers.min() < 0:
        return f"holds {numbers.min()}; its numbers are at least 0"
    if kind == "increasing" and (np.diff(numbers) <= 0).any():
        return "does not increase"
    return None


def _refuse_forest(forest: Any) -> None:
    for tree in getattr(forest, "estimators_", []):
        if not isinstance(tree, DecisionTreeClassifier) or getattr(tree, "n_features_in_", 0) != forest.n_features_in_:
            raise ValueError("the trees of a forest in it are damaged")


def _refuse_boosting(boosting: HistGradientBoostingClassifier) -> None:
    """Every tree must end in leaves, and compare values of existing columns only."""
    if not hasattr(boosting, "_predictors"):
        return
    per_round, width = boosting.n_trees_per_iteration_, boosting.n_features_in_
    # Compiled code reads the bit sets of categories without a check of bounds, so trees that have some are refused.
    categorical = np.asarray(boosting._bin_mapper.is_categorical_)
    if categorical.shape != (width,) or categorical.any() or boosting._baseline_prediction.shape != (1, per_round):
        raise ValueError("its bins or its first prediction are damaged")
    for of_round in boosting._predictors:
        for predictor in of_round:
            nodes = predictor.nodes
            inner, children = nodes["is_leaf"] == 0, (nodes["left"], nodes["right"])
            is_sound = nodes.ndim == 1 and not nodes["is_categorical"].any()
            if not is_sound or not _ends_in_leaves(inner, children, nodes["feature_idx"], width):
                raise ValueError("a tree in it is damaged")
        if len(of_round) != per_round:
            raise ValueError(f"a round has {len(of_round)} trees, not {per_round}")


def _refuse_one_hot(encoder: OneHotEncoder) -> None:
    """The columns that its categories give must be as many as it states: it writes CSR rows without a check."""
    if not hasattr(encoder, "categories_"):
        return
    numbers = [len(values) for values in encoder.categories_]
    dropped = encoder._drop_idx_after_grouping
    rare = encoder._infrequent_enabled and encoder._default_to_infrequent_mappings
    columns = []
    for j, number in enumerate(numbers):
        codes = np.arange(number) if not rare or rare[j] is None else np.asarray(rare[j])
        if codes.shape != (number,) or codes.dtype.kind not in "iu" or (number and codes.min() < 0):
            raise ValueError(f"the rare categories of column {j} are damaged")
        last = int(codes.max(initial=-1))
        drop = None if dropped is None else dropped[j]
        if drop is not None and not 0 <= drop <= last:
            raise ValueError(f"column {j} has no category {drop} to drop")
        columns.append(last + 1 - (drop is not None))
    if list(encoder._n_features_outs) != columns or len(numbers) != encoder.n_features_in_:
        raise ValueError(f"it makes {columns} columns and says {encoder._n_features_outs}")


_OF_SCIKIT_LEARN: Mapping[type, Callable[[Any], None]] = {
    ExtraTreesClassifier: _refuse_forest,
    HistGradientBoostingClassifier: _refuse_boosting,
    OneHotEncoder: _refuse_one_hot,
    RandomForestClassifier: _refuse_forest,
}
"""The checks of scikit-learn's estimators, in place of a method `_refuse_arrays`."""


MAX_OUTPUTS = 1000
"""Most outputs of a tree; the classifiers here have one."""


def check_tree_arguments(schema: JSON, parts: Mapping[str, bytes], where: str) -> None:
    """Refuse trees whose numbers of nodes, outputs and classes do not fit together, before they are built.

    Parameters
    ----------
    parts : mapping of str to bytes
        The files of the archive.
    where : str
        Name of the file in messages.
    """
    for _, node in json_objects(schema):
        if node.get("__loader__") == "TreeNode" and not _arguments_fit(node, parts):
            raise ModelFileError(f"{where}: the description of a tree is wrong. Save the model again")


def _arguments_fit(node: Mapping[str, Any], parts: Mapping[str, bytes]) -> bool:
    """Whether the numbers that `Tree` is constructed with are what its compiled code relies on."""
    try:
        n_features, n_classes, n_outputs = node["__reduce__"]["args"]["content"]
        loaders = [part["__loader__"] for part in (n_features, n_classes, n_outputs)]
        numbers = [json.loads(part["content"]) for part in (n_features, n_outputs)]
        classes = np.load(io.BytesIO(parts[n_classes["file"]]), allow_pickle=False)
        state = node["content"]["content"]
        loaders += [state[name]["__loader__"] for name in ("node_count", "nodes")]
        nodes = np.load(io.BytesIO(parts[state["nodes"]["file"]]), allow_pickle=False)
        n_nodes = json.loads(state["node_count"]["content"])
        return (
            loaders == ["JsonNode", "NdArrayNode", "JsonNode", "JsonNode", "NdArrayNode"]
            and n_classes["type"] == state["nodes"]["type"] == "numpy"
            and nodes.ndim == 1
            and type(n_nodes) is int
            and n_nodes == nodes.shape[0]
            and all(type(number) is int and number > 0 for number in numbers)
            and numbers[1] <= MAX_OUTPUTS
            and classes.dtype == np.intp
            and classes.shape == (numbers[1],)
        )
    except Exception:  # NumPy raises many kinds of errors on a damaged header
        return False


def _ends_in_leaves(
    inner: npt.NDArray[np.bool_], children: tuple[Integers, Integers], feature: Integers, width: int
) -> bool:
    """Whether a tree has nodes, and its inner ones have two existing children each and one of `width` columns."""
    # Children come after their parents, so that a path cannot return to a node and go on for ever.
    place, feature = np.flatnonzero(inner), feature[inner]
    after = all(((child[inner] > place) & (child[inner] < len(inner))).all() for child in children)
    return bool(len(inner) and after and (feature >= 0).all() and (feature < width).all())
