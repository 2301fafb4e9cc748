"""Tables of numbers and words as the inputs of an ONNX graph: what `TablePreprocessor` does, in standard operators."""

from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin.exceptions import CapabilityError
from widemargin.persistence.onnx_graph import Builder
from widemargin.preprocessing import QuantileBins, TablePreprocessor

__all__ = ["MISSING_KEY", "OUTPUTS", "table_features"]

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
        A column is called like an output, or an empty text is one of its words.
    """
    from onnx import TensorProto

    taken = [name for name in step.schema_.names if name in OUTPUTS or name.startswith("widemargin/")]
    if taken:
        raise CapabilityError(f"column {taken[0]!r} has a name that the graph needs itself. Rename the column.")
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
        blocks.append(_words(to, column.name, step.word_step_, j))
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
        flags = _as_double(to, missing)
        blocks.append(to.add("Gather", flags, to.constant(np.asarray(impute.indicator_.features_, np.int64)), axis=1))
    return blocks


def _bins(to: Builder, names: list[str], step: QuantileBins) -> list[str]:
    """One 0/1 column for each interval, and one for missing values where training had some."""
    blocks = []
    for name, edges, has_missing in zip(names, step.edges_, step.has_missing_, strict=True):
        number = to.add("Mul", _as_whole(to, to.add("IsNaN", name)), to.constant(np.int64(len(edges) + 1)))
        if len(edges):  # no edge is reached by NaN
            reached = _as_whole(to, to.add("GreaterOrEqual", name, to.constant(edges[None, :])))
            number = to.add("Add", number, to.add("ReduceSum", reached, to.constant(np.array([1])), keepdims=1))
        blocks.append(_one_hot(to, number, len(edges) + 1 + int(has_missing)))
    return blocks


def _words(to: Builder, name: str, step: Any, column: int) -> str:
    """One 0/1 column for each word, missing ones among them, and at last one for the rare ones."""
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
    return _one_hot(to, code, last + bool(rare))


def _one_hot(to: Builder, code: str, width: int) -> str:
    """0/1 columns; a code outside sets none."""
    places: npt.NDArray[np.int64] = np.arange(width, dtype=np.int64)[None, :]
    return _as_double(to, to.add("Equal", code, to.constant(places)))


def _as_double(to: Builder, name: str) -> str:
    from onnx import TensorProto

    return to.add("Cast", name, to=TensorProto.DOUBLE)


def _as_whole(to: Builder, name: str) -> str:
    from onnx import TensorProto

    return to.add("Cast", name, to=TensorProto.INT64)
