"""ONNX graphs, all in double precision: nodes and constants, kernel values, feature maps, tables of numbers and words.

The steps of `TablePreprocessor` are written in standard operators.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.exceptions import CapabilityError
from widemargin.preprocessing import QuantileBins, TablePreprocessor
from widemargin.rows import as_dense

OPSET = 17
ML_OPSET = 3
"""Versions of the operator sets, of ONNX and of its extension for machine learning, that graphs are written in."""

KERNELS = ("linear", "rbf", "poly", "sigmoid")
"""Those that `kernel_values` can write."""


class KernelForm(NamedTuple):
    """A kernel between rows and some vectors, shape (m, d)."""

    name: str
    vectors: Floats
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 0.0


class Builder:
    """Collects the nodes and constants of a graph."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any) -> str:
        """Name of a constant."""
        name = f"widemargin/c{len(self.constants)}"
        self.constants.append(self.numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, operator: str, *inputs: str, name: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Name of the output of a new node."""
        output = name or f"widemargin/n{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(inputs), [output], domain=domain, **attributes))
        return output

    def cast(self, name: str, kind: str) -> str:
        """Name of the same numbers as ONNX's "DOUBLE" or "INT64"."""
        return self.add("Cast", name, to=getattr(self.helper.TensorProto, kind))


def kernel_values(to: Builder, rows: str, kernel: KernelForm) -> str:
    """Kernel values of rows, shape (n, d), with the vectors, shape (n, m)."""
    products = to.add("MatMul", rows, to.constant(kernel.vectors.T))
    if kernel.name == "linear":
        return products
    gamma = to.constant(kernel.gamma)
    if kernel.name == "rbf":
        own = to.add("ReduceSumSquare", rows, axes=[1], keepdims=1)
        norms = to.constant((kernel.vectors**2).sum(axis=1)[None, :])
        distance = to.add("Sub", to.add("Add", own, norms), to.add("Mul", to.constant(2.0), products))
        nearest = to.add("Max", distance, to.constant(0.0))  # rounding may leave a distance of about 0 negative
        return to.add("Exp", to.add("Neg", to.add("Mul", gamma, nearest)))
    inner = to.add("Add", to.add("Mul", gamma, products), to.constant(kernel.coef0))
    if kernel.name == "poly":
        return to.add("Pow", inner, to.constant(kernel.degree))
    # tanh(z) = 2 / (1 + exp(-2 z)) - 1: onnxruntime has no Tanh for doubles
    falling = to.add("Exp", to.add("Mul", to.constant(-2.0), inner))
    share = to.add("Div", to.constant(2.0), to.add("Add", to.constant(1.0), falling))
    return to.add("Sub", share, to.constant(1.0))


def mapped(to: Builder, rows: str, feature_map: Any, model: str) -> str:
    """Features of rows by a fitted `RBFSampler` or `Nystroem`.

    Raises
    ------
    CapabilityError
        The map, or its kernel, has no form here.
    """
    kind = type(feature_map).__name__
    if kind == "RBFSampler":
        weights, offset = as_dense(feature_map.random_weights_), as_dense(feature_map.random_offset_)
        # cos z = sin(z + pi/2): most versions of onnxruntime have no Cos for doubles
        ahead = to.constant(offset[None, :] + 0.5 * np.pi)
        angle = to.add("Add", to.add("MatMul", rows, to.constant(weights)), ahead)
        size = to.constant(float(np.sqrt(2.0 / weights.shape[1])))
        return to.add("Mul", to.add("Sin", angle), size)
    if kind != "Nystroem" or feature_map.kernel not in KERNELS:
        is_known = kind == "Nystroem"
        what = f"the kernel {feature_map.kernel!r} of a feature map" if is_known else f"the feature map {kind}"
        raise CapabilityError(
            f"{model}: {what} cannot be written as ONNX; random Fourier features and Nystroem's of the kernels "
            f"{', '.join(KERNELS)} can. Use one of them, or save_model."
        )
    vectors = as_dense(feature_map.components_)
    given = {"gamma": feature_map.gamma, "degree": feature_map.degree, "coef0": feature_map.coef0}
    usual = {"gamma": 1.0 / vectors.shape[1], "degree": 3.0, "coef0": 1.0}
    # A parameter that was not given has scikit-learn's default in the kernel function.
    settled = {name: float(usual[name] if value is None else value) for name, value in given.items()}
    values = kernel_values(to, rows, KernelForm(feature_map.kernel, vectors, **settled))
    return to.add("MatMul", values, to.constant(as_dense(feature_map.normalization_).T))


OUTPUTS = ("label", "scores")
"""Names of the graph's outputs, which no column may have."""
MISSING_KEY = "widemargin.missing"
"""Entry of the file that holds the text for a missing word; numbers are missing as NaN."""


def table_features(to: Builder, step: TablePreprocessor) -> tuple[str, list[Any]]:
    """The feature matrix in double precision, and the inputs: one of shape (n, 1) for each column.

    Numbers are doubles, NaN where missing; words, and true and false, are texts, empty where missing. Unknown words are
    treated as by the preprocessor; nothing is checked.

    Raises
    ------
    CapabilityError
        A column is called like an output, holds dates, or has an empty text as one of its words.
    """
    from onnx import TensorProto

    taken = [name for name in step.schema_.names if name in OUTPUTS or name.startswith("widemargin/")]
    if taken:
        raise CapabilityError(f"column {taken[0]!r} has a name that the graph needs itself. Rename the column.")
    for column in step.schema_.of_kind("date"):
        raise CapabilityError(f"column {column.name!r} holds dates, which ONNX does not know. Use save_model.")
    kinds = {"number": TensorProto.DOUBLE, "word": TensorProto.STRING, "flag": TensorProto.STRING}
    inputs = [
        to.helper.make_tensor_value_info(column.name, kinds[column.kind], [None, 1]) for column in step.schema_.columns
    ]
    blocks = []
    numbers = [column.name for column in step.schema_.of_kind("number")]
    if isinstance(step.number_step_, QuantileBins):
        blocks += _bins(to, numbers, step.number_step_)
    elif step.number_step_ is not None:
        blocks += _scaled(to, numbers, step.number_step_)
    for j, column in enumerate(step.schema_.of_kind("word", "flag")):
        blocks.append(_words(to, column.name, step.word_step_, j, as_codes=step.word_codes))
    return (blocks[0] if len(blocks) == 1 else to.add("Concat", *blocks, axis=1)), inputs


def _scaled(to: Builder, names: list[str], step: Any) -> list[str]:
    """Standard scores with medians for missing values, then the indicators of missing ones."""
    scale, impute = step.named_steps["scale"], step.named_steps["impute"]
    table = names[0] if len(names) == 1 else to.add("Concat", *names, axis=1)
    centred = to.add("Sub", table, to.constant(np.asarray(scale.mean_)[None, :]))
    scores = to.add("Div", centred, to.constant(np.asarray(scale.scale_)[None, :]))
    missing = to.add("IsNaN", scores)
    blocks = [to.add("Where", missing, to.constant(np.asarray(impute.statistics_, dtype=np.float64)[None, :]), scores)]
    if impute.indicator_ is not None and len(impute.indicator_.features_):
        flags = to.cast(missing, "DOUBLE")
        blocks.append(to.add("Gather", flags, to.constant(np.asarray(impute.indicator_.features_, np.int64)), axis=1))
    return blocks


def _bins(to: Builder, names: list[str], step: QuantileBins) -> list[str]:
    """One 0/1 column for each interval, and one for missing values where training had some."""
    blocks = []
    for name, edges, has_missing in zip(names, step.edges_, step.has_missing_, strict=True):
        number = to.add("Mul", to.cast(to.add("IsNaN", name), "INT64"), to.constant(np.int64(len(edges) + 1)))
        if len(edges):  # NaN >= edge is false, so of a missing value only the number from above remains
            reached = to.cast(to.add("GreaterOrEqual", name, to.constant(edges[None, :])), "INT64")
            number = to.add("Add", number, to.add("ReduceSum", reached, to.constant(np.array([1])), keepdims=1))
        blocks.append(_one_hot(to, number, len(edges) + 1 + int(has_missing)))
    return blocks


def _words(to: Builder, name: str, step: Any, column: int, *, as_codes: bool) -> str:
    """One 0/1 column for each word, a missing one among them, and a last one that all rare words share.

    `as_codes`: one column, with the number of the place, from 1 on, and 0 for other words.
    """
    known: list[str | None] = list(step.categories_[column])
    found = None if step.min_frequency is None else step.infrequent_categories_[column]
    rare = [] if found is None else list(found)
    if "" in known:
        raise CapabilityError(
            f"column {name!r}: an empty text is one of its words, and ONNX has no other mark for a missing one. Give "
            "the word a name, or save_model."
        )
    places = {word: place for place, word in enumerate(word for word in known if word not in rare)}
    last = len(places)
    codes = {("" if word is None else word): places.get(word, last) for word in known}
    code = to.add(
        "LabelEncoder", name, domain="ai.onnx.ml", keys_strings=list(codes), values_int64s=list(codes.values()),
        default_int64=last if rare else -1,
    )  # fmt: skip
    if as_codes:
        return to.cast(to.add("Add", code, to.constant(np.int64(1))), "DOUBLE")
    return _one_hot(to, code, last + bool(rare))


def _one_hot(to: Builder, code: str, width: int) -> str:
    """0/1 columns; a code outside sets none."""
    places: npt.NDArray[np.int64] = np.arange(width, dtype=np.int64)[None, :]
    return to.cast(to.add("Equal", code, to.constant(places)), "DOUBLE")
