"""ONNX models of any maker, run by onnxruntime.

A model gets its inputs by name, one column each, or all feature columns as one matrix of numbers. Its first output of
whole numbers, words or flags is the label; scores and probabilities are read where they can be told.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widemargin.cli.candidates import Answer, Candidate
from widemargin.cli.tables.table_files import Block, plain
from widemargin.exceptions import DataError, MissingLibraryError, ModelFileError
from widemargin.persistence.container import read_file
from widemargin.persistence.onnx_graph import MISSING_KEY
from widemargin.preprocessing.schema import words_of

_NUMBERS = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}  # fmt: skip
_STRING = "tensor(string)"


class OnnxModel(Candidate):
    """An ONNX classifier.

    Parameters
    ----------
    features : sequence of str or None
        The columns of a matrix input, in order.

    Raises
    ------
    MissingLibraryError
        onnx or onnxruntime is not installed.
    ModelFileError
        The file is no ONNX model, refers to other files, uses operators beyond the standard, or gives no labels.
    """

    def __init__(self, path: Path, features: Sequence[str] | None) -> None:
        self._made_from = path.absolute(), features
        self._session = _session(path)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        labels = [
            item.name for item in outputs if item.type in ("tensor(int64)", "tensor(int32)", "tensor(bool)", _STRING)
        ]
        if not labels:
            types = ", ".join(f"{item.name} {item.type}" for item in outputs)
            raise ModelFileError(
                f"{path}: the model gives no labels ({types}). Export it with its labels (the output of predict), or "
                "audit a file of its predictions"
            )
        self._label = labels[0]
        self._maps = [item.name for kind in ("string", "int64") for item in outputs
                      if item.type == f"seq(map({kind},tensor(float)))"]  # fmt: skip
        self._scores = [item.name for item in outputs if item.name in ("scores", "decision_function")]
        strange = [item for item in inputs if item.type not in (*_NUMBERS, _STRING)]
        if strange:
            raise ModelFileError(f"{path}: input {strange[0].name!r} is a {strange[0].type}. Give tensors as inputs")
        self._inputs = [(item.name, item.type) for item in inputs]
        self._missing = self._session.get_modelmeta().custom_metadata_map.get(MISSING_KEY)
        self._is_matrix = len(inputs) == 1 and (len(inputs[0].shape) != 2 or inputs[0].shape[1] != 1)
        words = [name for name, kind in self._inputs if kind == _STRING and not self._is_matrix]
        features = features if self._is_matrix else [name for name, _ in self._inputs]
        super().__init__(str(path), None, features, words)
        if self._is_matrix and features is not None:
            width = inputs[0].shape[1] if len(inputs[0].shape) == 2 else None
            if isinstance(width, int) and width != len(features):
                raise ModelFileError(
                    f"{path}: the model takes {width} numbers a row, and there are {len(features)} features "
                    f"({', '.join(map(repr, features[:10]))}). Name those it was made for by data.features"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        """Sessions do not travel: another process opens the file again."""
        return type(self), self._made_from

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        columns, table = self.columns_in(block), block.table
        wanted = [self._label, *((self._maps[:1] + self._scores[:1]) if everything else [])]
        try:
            if self._is_matrix:
                ((name, kind),) = self._inputs
                feed = {name: np.column_stack([_values(table[column], column, kind) for column in columns])}
            else:
                feed = {name: _values(table[name], name, kind, self._missing)[:, None] for name, kind in self._inputs}
            outputs = dict(zip(wanted, self._session.run(wanted, feed), strict=True))
        except Exception as error:  # onnxruntime raises classes of its own
            raise self.failed(error, "Look at the inputs that it was exported with") from error
        labels = np.asarray(outputs[self._label])
        if labels.size != block.table.num_rows:
            raise DataError(f"{self.title} gives {labels.size} labels for {block.table.num_rows} rows.")
        probabilities = scores = None
        if everything and self._maps:
            rows = outputs[self._maps[0]]
            self.classes = sorted(rows[0])
            if len(self.classes) == 2:
                probabilities = np.array([row[self.classes[1]] for row in rows], dtype=np.float64)
        if everything and self._scores:
            scores = np.asarray(outputs[self._scores[0]], dtype=np.float64)
            scores = scores.reshape(-1) if scores.size == labels.size else scores
        return Answer(labels.reshape(-1), None, scores, probabilities)


def _values(column: pa.ChunkedArray, name: str, kind: str, missing: str | None = None) -> npt.NDArray[Any]:
    """A column as the model takes it; missing numbers become NaN where the type has one."""
    if kind == _STRING and missing is not None:  # words as our own graphs spell them, with their text for missing ones
        return np.array([missing if word is None else word for word in words_of(column, name)], dtype=object)
    column = plain(column)
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if is_text != (kind == _STRING):
        raise DataError(f"column {name!r} holds {column.type}, and the model takes a {kind}. Correct the column")
    if column.null_count and kind not in ("tensor(float)", "tensor(double)"):
        raise DataError(
            f"column {name!r} has {column.null_count} missing values, and the model takes none. Fill them in"
        )
    if kind == _STRING:
        return np.array(column.to_pylist(), dtype=object)
    values = column.to_numpy()
    if values.dtype.kind not in "biuf":
        raise DataError(f"column {name!r} holds {column.type}, and the model takes a {kind}. Correct the column")
    whole: npt.NDArray[Any] = values.astype(_NUMBERS[kind])
    if whole.dtype.kind == "i" and not np.array_equal(whole, values):
        raise DataError(f"column {name!r} holds fractions, and the model takes a {kind}. Correct the column")
    return whole


def _session(path: Path) -> Any:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingLibraryError.of(f"{path}: onnx models need {error.name}, which is not installed", "onnx") from None
    data = read_file(path)
    try:
        _check(onnx.load_model_from_string(data), str(path))
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except ModelFileError:
        raise
    except Exception as error:  # both libraries raise classes of their own
        raise ModelFileError(
            f"{path}: no usable ONNX model ({type(error).__name__}: {str(error)[:200]}). Export it again"
        ) from error


def _check(model: Any, where: str) -> None:
    """Refuse references out of the file: custom operators, and tensors that are stored in other files."""
    most_nested = 100  # no classifier has more, and a hostile file may have any number
    domains, tensors, waiting = {opset.domain for opset in model.opset_import}, [], [(model.graph, 0)]
    while waiting:
        graph, depth = waiting.pop()
        if depth > most_nested:
            raise ModelFileError(f"graphs are nested more than {most_nested} deep. Such a file is no classifier")
        sparse = [*graph.sparse_initializer]
        tensors += graph.initializer
        for node in graph.node:
            domains.add(node.domain)
            for attribute in node.attribute:
                tensors += [*attribute.tensors, attribute.t]
                sparse += [attribute.sparse_tensor, *attribute.sparse_tensors]
                waiting += [(inner, depth + 1) for inner in attribute.graphs]
                with contextlib.suppress(ValueError):
                    waiting += [(attribute.g, depth + 1)] if attribute.HasField("g") else []
        tensors += [part for item in sparse for part in (item.values, item.indices)]
    strange = domains - {"", "ai.onnx", "ai.onnx.ml"}
    if strange or model.functions:
        named = ", ".join(map(repr, sorted(strange))) or "functions of its own"
        raise ModelFileError(f"{where}: uses operators of {named}. Export it with standard operators only")
    if any(tensor.data_location or tensor.external_data for tensor in tensors):
        raise ModelFileError(f"{where}: keeps its numbers in other files, which are not opened. Save it as one file")
