"""Export of linear and kernel models to ONNX, for servers without Python.

The graph holds the model's own formula in double precision: `X coef' + intercept`, or `K(X, support vectors) dual' +
intercept` for the kernels "linear", "rbf", "poly" and "sigmoid"; then the label. Steps of scikit-learn before the model
are converted by skl2onnx.
"""

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from widemargin.exceptions import CapabilityError, MissingLibraryError
from widemargin.persistence.container import write_file

__all__ = ["to_onnx"]

OPSET = 17
_KERNELS = ("linear", "rbf", "poly", "sigmoid")

Floats = npt.NDArray[np.float64]


class _Scorer(NamedTuple):
    """Scores `K(X, vectors) weights' + shift`; without a kernel K is X itself."""

    weights: Floats
    shift: Floats
    kernel: str | None = None
    vectors: Floats | None = None
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 0.0


class _Rule(NamedTuple):
    """How labels follow: the classes, and for two of them whether a score of 0 means the second one."""

    classes: npt.NDArray[Any]
    zero_is_second: bool


def to_onnx(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted classifier as an ONNX file.

    Parameters
    ----------
    model : estimator
        Fitted: `RateConstrainedClassifier`, `MarginPursuitClassifier`, `KernelSVC` (also with several classes one
        against the rest), `SBPClassifier`, or a `GoalThresholdClassifier` with one threshold over one of these or over
        a linear model of scikit-learn; or a Pipeline of scikit-learn's steps for numbers that ends in one.
    path : path-like
        Usually ends in `.onnx`. An existing file is replaced.

    Notes
    -----
    The input `X` is a matrix of doubles, shape (n, n_features), the outputs are `label`, shape (n,), and `scores`, the
    `decision_function`, shape (n,) or (n, n_classes). They are computed in another order than here, so scores agree to
    about 1e-9 of their size, and a label may differ where a score is as near to 0 as that.

    Raises
    ------
    MissingLibraryError
        onnx (or, for pipelines, skl2onnx) is not installed.
    CapabilityError
        Something in the model has no counterpart: thresholds of several populations, random predictions, feature maps,
        other kernels, votes of pairs of classes, tables of words.
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
    made = _graph(*_parts(last))
    if len(steps) > 1:
        made = _behind(model[:-1], made)
    onnx.checker.check_model(made)
    write_file(Path(path), made.SerializeToString())


def _parts(model: Any) -> tuple[_Scorer, _Rule]:
    """Formula and rule of a model.

    The rules at a score of 0 are those of `predict`: a model with a positive class gives it only above 0.
    """
    name = type(model).__name__
    if name == "GoalThresholdClassifier":
        if model.groups_ is not None or getattr(model, "randomize", False):
            what = "thresholds of several populations" if model.groups_ is not None else "random predictions"
            raise CapabilityError(f"{name}: {what} cannot be written as ONNX. Use one threshold, or save_model.")
        inner = _scorer(model.estimator_)
        return inner._replace(shift=inner.shift - float(model.threshold_)), _rule(model)
    return _scorer(model), _rule(model)


def _rule(model: Any) -> _Rule:
    classes = np.asarray(model.classes_)
    positive = getattr(model, "positive_class_", None)
    if positive is None:
        return _Rule(classes, type(model).__name__ == "KernelSVC")
    return _Rule(classes, bool(positive == classes[0]))


def _scorer(model: Any) -> _Scorer:
    name, fitted = type(model).__name__, vars(model)
    if fitted.get("feature_map_") is not None:
        raise CapabilityError(f"{name}: a feature map cannot be written as ONNX. Use an exact kernel, or save_model.")
    classes = getattr(model, "classes_", ())
    if "dual_coef_" in fitted:
        return _kernel_scorer(model, name)
    if "coef_" in fitted and len(classes) >= 2:
        coef = np.atleast_2d(_dense(model.coef_))
        if len(coef) in (1, len(classes)):
            shift = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64).reshape(-1), (len(coef),))
            return _Scorer(coef, shift.copy())
    raise CapabilityError(
        f"{name} cannot be written as ONNX; linear and kernel classifiers of this library can, and thresholds over "
        "linear ones. Use save_model, or for scikit-learn's models skl2onnx."
    )


def _kernel_scorer(model: Any, name: str) -> _Scorer:
    pairs = len(model.classes_) > 2 and getattr(model, "multi_class", "ovr") == "ovo"
    if pairs:
        raise CapabilityError(f"{name}: votes of pairs of classes cannot be written as ONNX. Use multi_class='ovr'.")
    if model.kernel not in _KERNELS:
        raise CapabilityError(
            f"{name}: the kernel {model.kernel!r} cannot be written as ONNX; {', '.join(_KERNELS)} can. Use save_model."
        )
    weights = np.atleast_2d(_dense(model.dual_coef_))
    shift = np.asarray(getattr(model, "intercept_", np.zeros(len(weights))), dtype=np.float64).reshape(-1)
    vectors = _dense(model.support_vectors_)
    return _Scorer(weights, shift, model.kernel, vectors, float(model.gamma_), float(model.degree), float(model.coef0))


def _dense(values: Any) -> Floats:
    return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)


class _Builder:
    """Collects the nodes and constants of a graph."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any) -> str:
        """Name of a constant."""
        name = f"c{len(self.constants)}"
        self.constants.append(self.numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Name of the output of a new node."""
        output = name or f"n{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(inputs), [output], **attributes))
        return output


def _graph(scorer: _Scorer, rule: _Rule) -> Any:
    from onnx import TensorProto, helper

    to = _Builder()
    features = scorer.weights if scorer.vectors is None else scorer.vectors
    rows = "X" if scorer.vectors is None else _kernel_values(to, scorer)
    table = to.add("Add", to.add("MatMul", rows, to.constant(scorer.weights.T)), to.constant(scorer.shift))
    classes = _storable(rule.classes)
    if len(scorer.weights) == 1:
        scores = to.add("Squeeze", table, to.constant(np.array([1])), name="scores")
        compare = "GreaterOrEqual" if rule.zero_is_second else "Greater"
        chosen = to.add("Cast", to.add(compare, scores, to.constant(0.0)), to=TensorProto.INT64)
        shape: list[Any] = [None]
    else:
        scores = to.add("Identity", table, name="scores")
        chosen = to.add("ArgMax", scores, axis=1, keepdims=0)
        shape = [None, len(scorer.weights)]
    to.add("Gather", to.constant(classes), chosen, name="label")
    kind = {"O": TensorProto.STRING, "i": TensorProto.INT64, "b": TensorProto.BOOL}[classes.dtype.kind]
    graph = helper.make_graph(
        to.nodes,
        "widemargin",
        [helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, features.shape[1]])],
        [
            helper.make_tensor_value_info("label", kind, [None]),
            helper.make_tensor_value_info("scores", TensorProto.DOUBLE, shape),
        ],
        to.constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="widemargin")
    made.ir_version = 8
    return made


def _kernel_values(to: _Builder, scorer: _Scorer) -> str:
    """Kernel values of X with the support vectors, shape (n, n_SV)."""
    assert scorer.vectors is not None
    products = to.add("MatMul", "X", to.constant(scorer.vectors.T))
    if scorer.kernel == "linear":
        return products
    gamma = to.constant(scorer.gamma)
    if scorer.kernel == "rbf":
        own = to.add("ReduceSumSquare", "X", axes=[1], keepdims=1)
        norms = to.constant((scorer.vectors**2).sum(axis=1)[None, :])
        distance = to.add("Sub", to.add("Add", own, norms), to.add("Mul", to.constant(2.0), products))
        nearest = to.add("Max", distance, to.constant(0.0))
        return to.add("Exp", to.add("Neg", to.add("Mul", gamma, nearest)))
    inner = to.add("Add", to.add("Mul", gamma, products), to.constant(scorer.coef0))
    if scorer.kernel == "poly":
        return to.add("Pow", inner, to.constant(scorer.degree))
    # tanh(z) = 2 / (1 + exp(-2 z)) - 1: onnxruntime has no Tanh for doubles
    falling = to.add("Exp", to.add("Mul", to.constant(-2.0), inner))
    share = to.add("Div", to.constant(2.0), to.add("Add", to.constant(1.0), falling))
    return to.add("Sub", share, to.constant(1.0))


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
        first = skl2onnx.to_onnx(before, initial_types=kind, target_opset={"": OPSET, "ai.onnx.ml": 3})
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
