"""The check of the numbers in a model: shapes that agree, indices that lead nowhere else, finite coefficients.

Compiled code follows the numbers of a model without looking: a wrong index in a file would read foreign memory, and the
process would die or, worse, answer. So every array is checked when a file is read, before anything is predicted.

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
`n_features_in_`, `k` the number of classes, `p` the number of problems that `k` classes make one against the rest, and
any other letter what its first array says. What contracts cannot say, such as which numbers lead where, stands in the
method `_refuse_arrays` of the class, which raises a ValueError. Matrices in compressed form are checked wherever they
are.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import Tree

from widemargin._typing import JSON
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
    """Refuse a model one of whose arrays breaks the contract of its class, or would lead compiled code astray.

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
            elif isinstance(part, Tree) and not (
                isinstance(owner, DecisionTreeClassifier) and _stays_inside(part, owner)
            ):
                raise ValueError("a tree in it is damaged")
            _check_stored(part)
            # Of the class, never of the object, whose attributes come from the file.
            refuse = getattr(type(part), "_refuse_arrays", None) or _OF_SCIKIT_LEARN.get(type(part))
            if refuse is not None:
                refuse(part)
        # Parts of a wrong kind make the checks themselves fail in all sorts of ways.
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{where}: {place} is damaged, or its parts do not fit each other: {error}. Save the model again"
            ) from error


def parts_of(model: object) -> Iterator[tuple[str, object, object]]:
    """Everything in a model with its place, each with the object that it is an attribute of."""
    waiting: list[tuple[str, object, object]] = [("model", model, None)]
    seen: dict[int, object] = {}  # the parts themselves, too, so that no number is given to another one meanwhile
    while waiting:
        place, part, owner = waiting.pop()
        # A tree counts once for everyone that holds it: its holder says how many columns there are.
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
    """Indices inside, sorted and named once in a row, numbers finite: as `fit` leaves them."""
    if matrix.format != "csr":
        raise ValueError(f"it is a {matrix.format.upper()} matrix, not a CSR one")
    try:
        check_sparse(matrix)
    except DataError as error:
        raise ValueError(str(error.__cause__)) from error
    if matrix.data.dtype.kind not in "fiub" or not np.isfinite(matrix.data).all():
        raise ValueError("its values are not finite numbers")
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
        # A model that could have offsets of several classes, and has none, has thresholds between two.
        sizes["k"] = 2 if held.get("offsets_", ()) is None else len(held["classes_"])
        sizes["p"] = {0: 0, 1: 0, 2: 1}.get(sizes["k"], sizes["k"])  # one class makes no problem, two make one
    for name, contract in contracts.items():
        if held.get(name) is not None:
            faults = [_fault(held[name], choice, sizes) for choice in contract.split(" | ")]
            if None not in faults:
                raise ValueError(f"{name} {faults[0]}")


def _fault(value: Any, contract: str, sizes: dict[str, int]) -> str | None:
    """What is wrong with an attribute; None where nothing is. Letters that it meets first are added to `sizes`."""
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
    """Every tree must end in leaves, and ask for numbers of the table's columns only."""
    if not hasattr(boosting, "_predictors"):
        return
    per_round, width = boosting.n_trees_per_iteration_, boosting.n_features_in_
    # The bits of categories are read without looking, so trees that have some are not read at all.
    categorical = np.asarray(boosting._bin_mapper.is_categorical_)
    if categorical.shape != (width,) or categorical.any() or boosting._baseline_prediction.shape != (1, per_round):
        raise ValueError("its bins or its first prediction are damaged")
    for of_round in boosting._predictors:
        for predictor in of_round:
            nodes = predictor.nodes
            inner = nodes["is_leaf"] == 0
            place, number = np.flatnonzero(inner), nodes.shape[0]
            inside = (nodes["feature_idx"][inner] >= 0) & (nodes["feature_idx"][inner] < width)
            for child in ("left", "right"):  # children that come after their parents cannot form a circle
                inside &= (nodes[child][inner] > place) & (nodes[child][inner] < number)
            if nodes.ndim != 1 or not number or nodes["is_categorical"].any() or not inside.all():
                raise ValueError("a tree in it is damaged")
        if len(of_round) != per_round:
            raise ValueError(f"a round has {len(of_round)} trees, not {per_round}")


def _refuse_one_hot(encoder: OneHotEncoder) -> None:
    """The columns that it makes must be those that it says it makes: it writes CSR rows without looking."""
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
"""What is refused in estimators whose class cannot say it itself."""


MAX_OUTPUTS = 1000
"""Most outputs of a tree; the classifiers here have one."""


def check_tree_arguments(schema: JSON, parts: Mapping[str, bytes], where: str) -> None:
    """Refuse trees whose numbers of nodes, outputs and classes do not fit together, before they are built.

    Parameters
    ----------
    schema : parsed `schema.json`
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
    except Exception:  # NumPy raises all sorts of things at a broken header
        return False
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


def _stays_inside(tree: Tree, owner: DecisionTreeClassifier) -> bool:
    """Whether every way from the root ends in a leaf, and asks only for columns that the table has."""
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    number, place = tree.node_count, np.arange(tree.node_count)
    leaf = left == -1
    if number < 1 or not np.array_equal(leaf, right == -1):
        return False
    inner = ~leaf
    # Children that come after their parents cannot form a circle.
    after = all((child[inner] > place[inner]).all() and (child[inner] < number).all() for child in (left, right))
    width = getattr(owner, "n_features_in_", 0)
    return bool(after and (feature[inner] >= 0).all() and (feature[inner] < width).all())
