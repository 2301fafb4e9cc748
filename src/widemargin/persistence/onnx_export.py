"""Export of linear and kernel models to ONNX, for servers without Python.

The graph holds the model's own formula in double precision: `X coef' + intercept`, also on random Fourier and
Nystroem's features, or `K(X, support vectors) dual' + intercept` for the kernels "linear", "rbf", "poly" and "sigmoid";
then the label. Before it may stand the tables of numbers and words of `make_preprocessor`, in standard operators, or
steps of scikit-learn for numbers and words, and a threshold may stand over any scorer of scikit-learn: these are
converted by skl2onnx (`persistence/sklearn_graphs.py`).
"""

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import Floats
from widemargin.estimators.kernel_svm.multiclass import coef_of_pairs
from widemargin.estimators.reduction.cost_sensitive import AveragedScorer
from widemargin.exceptions import CapabilityError, MissingLibraryError
from widemargin.persistence.container import write_file
from widemargin.persistence.onnx_graph import (
    KERNELS,
    MISSING_KEY,
    ML_OPSET,
    OPSET,
    Builder,
    KernelForm,
    kernel_values,
    mapped,
    table_features,
)
from widemargin.persistence.sklearn_graphs import (
    FEATURES,
    SCORE,
    averaged_graph,
    feature_graph,
    in_single_precision,
    joined,
    scored_graph,
    steps_of,
)
from widemargin.preprocessing import TablePreprocessor
from widemargin.rows import as_dense


class _Formula(NamedTuple):
    """Scores `Z weights' + shift`, and how labels follow from them.

    Z is X itself, its kernel values, or its features by a map. For two classes `zero_is_second` says whether a score of
    0 predicts the second one. For scores of pairs of classes `pairs` holds the parameters `decision_function_shape` and
    `break_ties`; None: no pairs.
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
        Fitted: `RateConstrainedClassifier`, `MarginPursuitClassifier`, `RiskClassifier`, `KernelSVC` (also with several
        classes) or `SBPClassifier`; a `GoalThresholdClassifier` with one threshold over one of these, or over a
        classifier or pipeline of scikit-learn; a `GoalReduction` with one threshold around such a classifier or
        pipeline; or a Pipeline that ends in one of all these, behind `make_preprocessor` (as `widemargin train` saves
        it) or scikit-learn's steps for numbers and words.
    path : path-like
        Usually ends in `.onnx`. An existing file is replaced.

    Notes
    -----
    The input `X` is a matrix of doubles, shape (n, n_features). For a table there is one input for each column, of its
    name and shape (n, 1): numbers are doubles, NaN where missing; words, and `true` and `false`, are texts, empty where
    missing. So it is for a pipeline of scikit-learn whose first step was fitted to columns by name
    (`ColumnTransformer`), where words are the columns of a `OneHotEncoder` or `OrdinalEncoder` of texts. The graph does
    not check its input: unknown words are replaced without a warning.

    The outputs are `label`, shape (n,), and `scores`, the `decision_function`, shape (n,) or (n, n_scores). Sums are
    made in another order than here, so scores agree to about 1e-9 of their size (1e-6 where scikit-learn's trees,
    ensembles or networks stand below a threshold, in single precision, and 0.04 where `GoalReduction` makes log odds of
    their probabilities and these are within 1e-6 of 0 or 1), and a label may differ where a score is as near to 0.

    Raises
    ------
    MissingLibraryError
        onnx (or, for scikit-learn's steps, skl2onnx) is not installed.
    CapabilityError
        Something in the model has no counterpart: thresholds of several populations, random predictions, rows left
        undecided, label sets, other kernels (laplacian, functions, precomputed values), other feature maps, other steps
        behind a table.
    sklearn.exceptions.NotFittedError
    ModelFileError
        The file cannot be written.
    """
    check_is_fitted(model)
    try:
        import onnx
    except ImportError:
        raise MissingLibraryError.of("to_onnx needs onnx", "onnx") from None
    *before, last = steps_of(model)
    inner = steps_of(last.estimator_) if hasattr(last, "estimator_") else [last]
    before, scorer = [*before, *inner[:-1]], inner[-1]
    table = before[0] if before and isinstance(before[0], TablePreprocessor) else None
    if table is not None and len(before) > 1:
        names = ", ".join(type(step).__name__ for step in before[1:])
        raise CapabilityError(f"steps between table and model ({names}) cannot be written as ONNX. Use save_model.")
    # Linear and kernel scorers are written by `_formula`. SVC of scikit-learn has `dual_coef_`, too, with another
    # meaning, but no `gamma_`. All other scorers are converted by skl2onnx, with the threshold as a second graph.
    fitted = vars(scorer)
    has_formula = "coef_" in fitted or ("dual_coef_" in fitted and hasattr(scorer, "gamma_"))
    if last is not scorer and not has_formula:
        _refuse_many_thresholds(last)
        scores = averaged_graph(scorer) if isinstance(scorer, AveragedScorer) else scored_graph(scorer)
        classes, threshold = np.asarray(last.classes_), float(last.threshold_)
        is_first = bool(last.positive_class_ == classes[0])
        if in_single_precision(scorer):
            # Half of the trees of a forest often agree on a row, whose score is then the threshold itself. In single
            # precision their sum may lie beyond it by some 1e-7, and the row would be called positive.
            threshold += (-1e-6 if is_first else 1e-6) * max(1.0, abs(threshold))
        # The threshold over the scores of the other graph is the formula `1 * score - threshold`.
        shift = np.array([-threshold])
        rule = _Formula(type(scorer).__name__, np.ones((1, 1)), shift, 1, None, None, classes, is_first, None)
        if table is not None:
            scores = joined(_table_graph(table), scores, FEATURES)
        made = joined(scores, _graph(rule, None), SCORE)
    else:
        made = _graph(_formula(last, scorer), table)
    if before and table is None:
        made = joined(feature_graph(before), made, FEATURES)
    onnx.checker.check_model(made)
    write_file(Path(path), made.SerializeToString())


def _refuse_many_thresholds(model: Any) -> None:
    if getattr(model, "offsets_", None) is not None:
        name = type(model).__name__
        raise CapabilityError(f"{name}: offsets of several classes cannot be written as ONNX. Use save_model.")
    options = {
        "thresholds of several populations": model.groups_ is not None,
        "random predictions": getattr(model, "randomize", False),
        f"rows left undecided (abstain={getattr(model, 'abstain', None)!r})": np.size(model.threshold_) > 1,
    }
    for what in (what for what, is_used in options.items() if is_used):
        name = type(model).__name__
        raise CapabilityError(f"{name}: {what} cannot be written as ONNX. Use one threshold, or save_model.")


def _formula(model: Any, scoring: Any) -> _Formula:
    """Formula and rule of a model, which is a threshold over `scoring` where that is another one.

    The rules at a score of 0 are those of `predict`: a model with a positive class gives it only above 0.
    """
    name, threshold = type(scoring).__name__, 0.0
    if model is not scoring:
        _refuse_many_thresholds(model)
        threshold = float(model.threshold_)
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
        if is_in_pairs:
            # Vectors of all other classes have weight 0 in the problem of a pair.
            weights = coef_of_pairs(weights, scoring.n_support_).toarray().T
        vectors = as_dense(scoring.support_vectors_)
        shape, width = scoring if hasattr(scoring, "degree") else scoring._options, vectors.shape[1]
        kernel = KernelForm(scoring.kernel, vectors, float(scoring.gamma_), float(shape.degree), float(shape.coef0))
    elif n_classes >= 2 and len(weights) in (1, n_classes) and not get_tags(scoring).target_tags.multi_output:
        feature_map = fitted.get("feature_map_")
        width = weights.shape[1] if feature_map is None else int(feature_map.n_features_in_)
    else:
        raise CapabilityError(
            f"{name} cannot be written as ONNX; linear and kernel classifiers of this library can, and thresholds over "
            "linear ones. Use save_model, or for scikit-learn's models skl2onnx."
        )
    intercept = np.asarray(getattr(scoring, "intercept_", 0.0), dtype=np.float64).reshape(-1)
    if len(weights) == n_classes == 2:  # a score for each class, of which `decision_function` is the difference
        weights, intercept = weights[1:] - weights[:1], intercept[1:] - intercept[:1]
    shift = np.broadcast_to(intercept, (len(weights),)) - threshold
    classes, positive = np.asarray(model.classes_), getattr(model, "positive_class_", None)
    zero_is_second = bool(positive == classes[0])
    pairs = None
    if positive is None:
        zero_is_second = type(model).__name__ == "KernelSVC"
        pairs = (model.decision_function_shape, bool(model.break_ties)) if is_in_pairs else None
    return _Formula(name, weights, shift, width, kernel, feature_map, classes, zero_is_second, pairs)


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
    classes = formula.classes
    # ONNX holds texts, 64-bit integers and booleans.
    if classes.dtype.kind in "OUS" and all(isinstance(label, str) for label in classes.tolist()):
        classes = classes.astype(object)
    elif classes.dtype.kind in "iu" or (classes.dtype.kind == "f" and (classes == np.round(classes)).all()):
        classes = classes.astype(np.int64)
    elif classes.dtype.kind != "b":
        shown = classes.tolist()[:5]
        raise CapabilityError(f"the labels {shown} are neither words nor whole numbers. Encode them first.")
    chosen, width = _decided(to, sums, formula)
    to.add("Gather", to.constant(classes), chosen, name="label")
    kind = {"O": TensorProto.STRING, "i": TensorProto.INT64, "b": TensorProto.BOOL}[classes.dtype.kind]
    outputs = [
        helper.make_tensor_value_info("label", kind, [None]),
        helper.make_tensor_value_info("scores", TensorProto.DOUBLE, [None] if width is None else [None, width]),
    ]
    return _model(to, inputs, outputs, is_of_table=table is not None)


def _table_graph(table: TablePreprocessor) -> Any:
    """The features of a table, for a scorer that is a graph of its own."""
    from onnx import TensorProto, compose, helper

    to = Builder()
    rows, inputs = table_features(to, table)
    to.add("Identity", rows, name=FEATURES)
    outputs = [helper.make_tensor_value_info(FEATURES, TensorProto.DOUBLE, [None, None])]
    made = _model(to, inputs, outputs, is_of_table=True)
    return compose.add_prefix(made, "table/", rename_inputs=False, rename_outputs=False)


def _model(to: Builder, inputs: list[Any], outputs: list[Any], *, is_of_table: bool) -> Any:
    """A model of what was built, which says how it takes missing words where it takes a table."""
    from onnx import helper

    graph = helper.make_graph(to.nodes, "widemargin", inputs, outputs, to.constants)
    opsets = [helper.make_opsetid("", OPSET), *([helper.make_opsetid("ai.onnx.ml", ML_OPSET)] if is_of_table else [])]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="widemargin")
    made.ir_version = 8  # the one that belongs to OPSET; by default onnx writes its newest, which older runtimes refuse
    if is_of_table:
        helper.set_model_props(made, {MISSING_KEY: ""})
    return made


def _decided(to: Builder, sums: str, formula: _Formula) -> tuple[str, int | None]:
    """The node that computes the index of each row's class, and the width of the output `scores` (None: a vector)."""
    if len(formula.weights) == 1:
        scores = to.add("Squeeze", sums, to.constant(np.array([1])), name="scores")
        compare = "GreaterOrEqual" if formula.zero_is_second else "Greater"
        return to.cast(to.add(compare, scores, to.constant(0.0)), "INT64"), None
    if formula.pairs is None:
        return to.add("ArgMax", to.add("Identity", sums, name="scores"), axis=1, keepdims=0), len(formula.weights)
    shape, break_ties = formula.pairs
    k = len(formula.classes)
    sides = np.array([[float(c == i) - float(c == j) for c in range(k)] for i in range(k) for j in range(i + 1, k)])
    # A pair (i, j) that i wins gives 1 to i and -1 to j; `losing` adds 1 to j for every pair, so that in the end the
    # winner of each pair has 1 vote more and the other class 0.
    losing = np.maximum(-sides, 0.0).sum(axis=0)

    def votes(winning: str) -> str:
        won = to.add("MatMul", to.cast(winning, "DOUBLE"), to.constant(sides))
        return to.add("Add", won, to.constant(losing[None, :]))

    if shape == "ovo":
        to.add("Identity", sums, name="scores")
        width = len(formula.weights)
    else:
        # As in scikit-learn's `_ovr_decision_function`: votes plus sum / (3 (|sum| + 1)), which lies within 1/3, so the
        # sum of scores only orders classes with equally many votes. There a score of 0 is a vote for the first class.
        total, one = to.add("MatMul", sums, to.constant(sides)), to.constant(1.0)
        size = to.add("Mul", to.constant(3.0), to.add("Add", to.add("Abs", total), one))
        first = votes(to.add("Not", to.add("Less", sums, to.constant(0.0))))
        to.add("Add", first, to.add("Div", total, size), name="scores")
        width = k
    decides = "scores" if break_ties and shape != "ovo" else votes(to.add("Greater", sums, to.constant(0.0)))
    return to.add("ArgMax", decides, axis=1, keepdims=0), width
