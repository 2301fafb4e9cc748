"""Export of linear and kernel models to ONNX, for servers without Python.

The graph holds the model's own formula in double precision: `X coef' + intercept`, also on random Fourier and
Nystroem's features, or `K(X, support vectors) dual' + intercept` for the kernels "linear", "rbf", "poly" and "sigmoid";
then the label. Before it may stand the tables of numbers and words of `make_preprocessor`, in standard operators, or
steps of scikit-learn for numbers, converted by skl2onnx.
"""

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import Floats
from widemargin.exceptions import CapabilityError, MissingLibraryError
from widemargin.persistence.container import write_file
from widemargin.persistence.onnx_graph import (
    KERNELS,
    MISSING_KEY,
    Builder,
    KernelForm,
    as_dense,
    kernel_values,
    mapped,
    table_features,
)
from widemargin.preprocessing import TablePreprocessor

OPSET = 17
ML_OPSET = 3


class _Formula(NamedTuple):
    """Scores `Z weights' + shift`, and how labels follow from them.

    Z is X itself, its kernel values, or its features by a map. For two classes `zero_is_second` says whether a score of
    0 means the second one; `pairs`, for pairs of classes, whether `decision_function` and ties go by scores for each
    class ("ovr"); None: no pairs.
    """

    name: str
    weights: Floats
    shift: Floats
    n_features: int
    kernel: KernelForm | None
    feature_map: Any
    classes: npt.NDArray[Any]
    zero_is_second: bool
    pairs: tuple[str, bool] | None


def to_onnx(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted classifier as an ONNX file.

    Parameters
    ----------
    model : estimator
        Fitted: `RateConstrainedClassifier`, `MarginPursuitClassifier`, `RiskClassifier`, `KernelSVC` (also with
        several classes), `SBPClassifier`, or a `GoalThresholdClassifier` with one threshold over one of these
        or over a linear model of scikit-learn; or a Pipeline that ends in one: of `make_preprocessor` and the
        model, as `widemargin train` saves it, or of scikit-learn's steps for numbers.
    path : path-like
        Usually ends in `.onnx`. An existing file is replaced.

    Notes
    -----
    The input `X` is a matrix of doubles, shape (n, n_features). A table has one input for each column, by its name and
    of shape (n, 1): numbers are doubles, NaN where missing; words, and `true` and `false`, are texts, empty where
    missing. The graph does not check its input as `TableSchema` does: unknown words fall back, and nobody is told.

    The outputs are `label`, shape (n,), and `scores`, the `decision_function`, shape (n,) or (n, n_scores). They are
    computed in another order than here, so scores agree to about 1e-9 of their size, and a label may differ where a
    score is as near to 0 as that.

    Raises
    ------
    MissingLibraryError
        onnx (or, for scikit-learn's steps, skl2onnx) is not installed.
    CapabilityError
        Something in the model has no counterpart: thresholds of several populations, random predictions, other kernels
        (laplacian, functions, precomputed values), other feature maps, other steps behind a table.
    sklearn.exceptions.NotFittedError
    ModelFileError
        The file cannot be written.
    """
    check_is_fitted(model)
    try:
        import onnx
    except ImportError:
        raise MissingLibraryError("to_onnx needs onnx: pip install 'widemargin[onnx]'") from None
    steps = list(model.steps) if hasattr(model, "steps") else [("model", model)]
    last = steps[-1][1]
    table = steps[0][1] if isinstance(steps[0][1], TablePreprocessor) else None
    if table is not None and len(steps) > 2:
        names = ", ".join(type(step).__name__ for _, step in steps[1:-1])
        raise CapabilityError(f"steps between table and model ({names}) cannot be written as ONNX. Use save_model.")
    made = _graph(_formula(last), table)
    if table is None and len(steps) > 1:
        made = _behind(model[:-1], made)
    onnx.checker.check_model(made)
    write_file(Path(path), made.SerializeToString())


def _formula(model: Any) -> _Formula:
    """Formula and rule of a model.

    The rules at a score of 0 are those of `predict`: a model with a positive class gives it only above 0.
    """
    name, threshold, scoring = type(model).__name__, 0.0, model
    if name == "GoalThresholdClassifier":
        if model.groups_ is not None or getattr(model, "randomize", False):
            what = "thresholds of several populations" if model.groups_ is not None else "random predictions"
            raise CapabilityError(f"{name}: {what} cannot be written as ONNX. Use one threshold, or save_model.")
        threshold, scoring = float(model.threshold_), model.estimator_
        name = type(scoring).__name__
    fitted, n_classes = vars(scoring), len(getattr(scoring, "classes_", ()))
    is_in_pairs = n_classes > 2 and getattr(getattr(scoring, "_options", None), "multi_class", "ovr") == "ovo"
    weights = np.atleast_2d(as_dense(fitted.get("dual_coef_", fitted.get("coef_", np.empty((0, 0))))))
    kernel = feature_map = None
    if "dual_coef_" in fitted:
        if scoring.kernel not in KERNELS:
            raise CapabilityError(
                f"{name}: the kernel {scoring.kernel!r} cannot be written as ONNX; {', '.join(KERNELS)} can. Use "
                "save_model."
            )
        weights = _pair_weights(weights, scoring.n_support_) if is_in_pairs else weights
        vectors = as_dense(scoring.support_vectors_)
        shape, width = scoring if hasattr(scoring, "degree") else scoring._options, vectors.shape[1]
        kernel = KernelForm(scoring.kernel, vectors, float(scoring.gamma_), float(shape.degree), float(shape.coef0))
    elif n_classes >= 2 and len(weights) in (1, n_classes):
        feature_map = fitted.get("feature_map_")
        width = weights.shape[1] if feature_map is None else int(feature_map.n_features_in_)
    else:
        raise CapabilityError(
            f"{name} cannot be written as ONNX; linear and kernel classifiers of this library can, and thresholds over "
            "linear ones. Use save_model, or for scikit-learn's models skl2onnx."
        )
    intercept = np.asarray(getattr(scoring, "intercept_", 0.0), dtype=np.float64).reshape(-1)
    shift = np.broadcast_to(intercept, (len(weights),)) - threshold
    classes, positive = np.asarray(model.classes_), getattr(model, "positive_class_", None)
    zero_is_second = bool(positive == classes[0])
    pairs = None
    if positive is None:
        zero_is_second = type(model).__name__ == "KernelSVC"
        pairs = (model.decision_function_shape, bool(model.break_ties)) if is_in_pairs else None
    return _Formula(name, weights, shift, width, kernel, feature_map, classes, zero_is_second, pairs)


def _pair_weights(dual_coef: Floats, n_support: Any) -> Floats:
    """Weights of all support vectors in the problem of each pair of classes, in the order (0, 1), (0, 2), ..."""
    k, cuts = len(n_support), np.concatenate(([0], np.cumsum(n_support)))
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    weights = np.zeros((len(pairs), dual_coef.shape[1]))
    for row, (i, j) in zip(weights, pairs, strict=True):
        first, second = slice(cuts[i], cuts[i + 1]), slice(cuts[j], cuts[j + 1])
        row[first], row[second] = dual_coef[j - 1, first], dual_coef[i, second]
    return weights


def _graph(formula: _Formula, table: TablePreprocessor | None) -> Any:
    from onnx import TensorProto, helper

    to, rows = Builder(), "X"
    inputs = [helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, formula.n_features])]
    if table is not None:
        rows, inputs = table_features(to, table)
    if formula.kernel is not None:
        rows = kernel_values(to, rows, formula.kernel)
    elif formula.feature_map is not None:
        rows = mapped(to, rows, formula.feature_map, formula.name)
    sums = to.add("Add", to.add("MatMul", rows, to.constant(formula.weights.T)), to.constant(formula.shift))
    classes = _storable(formula.classes)
    chosen, width = _decided(to, sums, formula)
    to.add("Gather", to.constant(classes), chosen, name="label")
    kind = {"O": TensorProto.STRING, "i": TensorProto.INT64, "b": TensorProto.BOOL}[classes.dtype.kind]
    graph = helper.make_graph(
        to.nodes,
        "widemargin",
        inputs,
        [
            helper.make_tensor_value_info("label", kind, [None]),
            helper.make_tensor_value_info("scores", TensorProto.DOUBLE, [None] if width is None else [None, width]),
        ],
        to.constants,
    )
    opsets = [helper.make_opsetid("", OPSET), *([] if table is None else [helper.make_opsetid("ai.onnx.ml", ML_OPSET)])]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="widemargin")
    made.ir_version = 8
    if table is not None:
        helper.set_model_props(made, {MISSING_KEY: ""})
    return made


def _decided(to: Builder, sums: str, formula: _Formula) -> tuple[str, int | None]:
    """The number of each row's class, and the width of the output `scores` (None: a vector)."""
    if len(formula.weights) == 1:
        scores = to.add("Squeeze", sums, to.constant(np.array([1])), name="scores")
        compare = "GreaterOrEqual" if formula.zero_is_second else "Greater"
        return to.cast(to.add(compare, scores, to.constant(0.0)), "INT64"), None
    if formula.pairs is None:
        return to.add("ArgMax", to.add("Identity", sums, name="scores"), axis=1, keepdims=0), len(formula.weights)
    shape, break_ties = formula.pairs
    k = len(formula.classes)
    sides = np.array([[float(c == i) - float(c == j) for c in range(k)] for i in range(k) for j in range(i + 1, k)])
    losing = np.maximum(-sides, 0.0).sum(axis=0)

    def votes(winning: str) -> str:
        won = to.add("MatMul", to.cast(winning, "DOUBLE"), to.constant(sides))
        return to.add("Add", won, to.constant(losing[None, :]))

    if shape == "ovo":
        to.add("Identity", sums, name="scores")
        width = len(formula.weights)
    else:  # votes made continuous, as scikit-learn does; a score of 0 is a vote for the first of the two there
        total, one = to.add("MatMul", sums, to.constant(sides)), to.constant(1.0)
        size = to.add("Mul", to.constant(3.0), to.add("Add", to.add("Abs", total), one))
        first = votes(to.add("Not", to.add("Less", sums, to.constant(0.0))))
        to.add("Add", first, to.add("Div", total, size), name="scores")
        width = k
    decides = "scores" if break_ties and shape != "ovo" else votes(to.add("Greater", sums, to.constant(0.0)))
    return to.add("ArgMax", decides, axis=1, keepdims=0), width


def _storable(classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels as ONNX has them: words, whole numbers, flags."""
    if classes.dtype.kind in "OUS" and all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object)
    if classes.dtype.kind in "iu" or (classes.dtype.kind == "f" and (classes == np.round(classes)).all()):
        return classes.astype(np.int64)
    if classes.dtype.kind == "b":
        return classes
    raise CapabilityError(f"the labels {classes.tolist()[:5]} are neither words nor whole numbers. Encode them first.")


def _behind(before: Any, made: Any) -> Any:
    """The graph of a model behind that of the steps before it."""
    try:
        import skl2onnx
        from skl2onnx.common.data_types import DoubleTensorType
    except ImportError:
        raise MissingLibraryError("pipelines need skl2onnx: pip install 'widemargin[onnx]'") from None
    from onnx import compose

    names = ", ".join(type(step).__name__ for _, step in before.steps)
    try:
        width = int(before[0].n_features_in_)
        kind = [("table", DoubleTensorType([None, width]))]
        first = skl2onnx.to_onnx(before, initial_types=kind, target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET})
        first.ir_version = made.ir_version
        output = first.graph.output[0].name
        first = compose.add_prefix(first, prefix="before_")
        merged = compose.merge_models(first, made, io_map=[(f"before_{output}", "X")])
    except Exception as error:  # skl2onnx raises classes of its own
        raise CapabilityError(
            f"the steps before the model ({names}) cannot be written as ONNX ({type(error).__name__}: "
            f"{str(error)[:200]}). Use steps of scikit-learn for numbers, or save_model."
        ) from error
    merged.graph.input[0].name = "X"
    for node in merged.graph.node:
        node.input[:] = ["X" if name == "before_table" else name for name in node.input]
    return merged
