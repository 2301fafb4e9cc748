"""Steps and scorers of scikit-learn as ONNX graphs, by skl2onnx, and the composition of two graphs.

Everything is in double precision, except trees, ensembles and networks, for which skl2onnx and onnxruntime have only
single precision. skl2onnx knows most models, but not all of their options: some graphs answer otherwise than the model
(columns of categories, calibration by steps), others no runtime can read. So both are asked about made rows.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree

from widemargin._typing import Floats
from widemargin.estimators.reduction.cost_sensitive import AveragedScorer
from widemargin.estimators.thresholds.class_offsets import CERTAIN
from widemargin.estimators.thresholds.scores import raw_scores
from widemargin.exceptions import CapabilityError, MissingLibraryError
from widemargin.persistence.onnx_graph import MISSING_KEY, ML_OPSET, OPSET, Builder
from widemargin.rows import as_dense

FEATURES, SCORE = "widemargin/features", "widemargin/score"
"""Names of the output of a graph of features, and of a graph of scores."""


def feature_graph(steps: Sequence[Any]) -> Any:
    """The features that steps compute of rows, shape (n, d)."""
    made = _converted(steps, {}, "before/")
    _rename(made, made.graph.output[0].name, FEATURES)
    takes_a_matrix = [value.name for value in made.graph.input] == ["X"]
    _refuse_other_answers(
        made, (lambda rows: as_dense(_in_a_row(steps).transform(rows))) if takes_a_matrix else None,
        int(steps[0].n_features_in_), ", ".join(type(step).__name__ for step in steps),
    )  # fmt: skip
    return made


def scored_graph(scorer: Any) -> Any:
    """The scores of a binary classifier: `decision_function`, else the second probability, shape (n, 1)."""
    from onnx import TensorProto, helper, numpy_helper

    has_decision, single = hasattr(scorer, "decision_function"), in_single_precision(scorer)
    # Without "zipmap" scores are a matrix; by default skl2onnx writes a dict for each row.
    asked = {"zipmap": False, **({"raw_scores": True} if has_decision else {})}
    made = _converted([scorer], {id(scorer): asked}, "scorer/", single=single)
    _with_sides_of_missing_values(made, scorer)
    scores = made.graph.output[1].name
    made.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "scorer/last"))
    # Raw scores may have one column, or one for each class; in both the last is the score of the second class.
    made.graph.node.append(helper.make_node("Gather", [scores, "scorer/last"], ["scorer/column"], axis=1))
    made.graph.node.append(helper.make_node("Cast", ["scorer/column"], [SCORE], to=TensorProto.DOUBLE))
    del made.graph.output[:]
    made.graph.output.append(helper.make_tensor_value_info(SCORE, TensorProto.DOUBLE, [None, 1]))
    if single:  # scikit-learn's decision trees round their rows to single precision, too
        _rename(made, "X", "scorer/single")
        made.graph.node.insert(0, helper.make_node("Cast", ["X"], ["scorer/single"], to=TensorProto.FLOAT))
        del made.graph.input[:]
        width = int(scorer.n_features_in_)
        made.graph.input.append(helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, width]))
    _refuse_other_answers(made, partial(raw_scores, scorer), int(scorer.n_features_in_), type(scorer).__name__)
    return made


def averaged_graph(scorer: AveragedScorer) -> Any:
    """The weighted mean of the log odds of fitted models, as one score: the graphs of all of them, with one input."""
    from onnx import TensorProto, compose, helper

    to, graphs, terms = Builder(), list[Any](), list[str]()
    used = [(model, share) for model, share in zip(scorer.models, scorer.shares, strict=True) if model is not None]
    for number, (model, share) in enumerate(used):
        *before, last = steps_of(model)
        made = scored_graph(last)
        made = joined(feature_graph(before), made, FEATURES) if before else made
        made = compose.add_prefix(made, f"model{number}/", rename_inputs=False)
        score = made.graph.output[0].name
        if not hasattr(last, "decision_function"):
            score = _log_odds(to, score)
        graphs.append(made)
        terms.append(to.add("Mul", score, to.constant(float(share))))
    if not graphs:
        raise CapabilityError("GoalReduction kept no fitted model, and scores every row 0. Use save_model.")
    to.add("Sum", *terms, name=SCORE)
    inputs = {value.name: value for made in graphs for value in made.graph.input}
    graph = helper.make_graph(
        [node for made in graphs for node in made.graph.node] + to.nodes, "widemargin", [*inputs.values()],
        [helper.make_tensor_value_info(SCORE, TensorProto.DOUBLE, [None, 1])],
        [value for made in graphs for value in made.graph.initializer] + to.constants,
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=list(graphs[0].opset_import))
    made = compose.add_prefix(made, "mean/", rename_inputs=False, rename_outputs=False)
    helper.set_model_props(made, {prop.key: prop.value for prop in graphs[0].metadata_props})
    return made


def _log_odds(to: Builder, probability: str) -> str:
    """As `class_offsets.log_odds` makes them of probabilities."""
    least, most = np.finfo(np.float64).smallest_subnormal, 1.0 - np.finfo(np.float64).epsneg
    possible = to.add("Clip", probability, to.constant(least), to.constant(most))
    odds = to.add("Sub", to.add("Log", possible), to.add("Log", to.add("Sub", to.constant(1.0), possible)))
    certain = -math.log(CERTAIN)
    near = to.add("Clip", odds, to.constant(-certain), to.constant(certain))
    return to.add("Add", near, to.add("Mul", to.constant(1e-3), to.add("Sub", odds, near)))


def steps_of(model: Any) -> list[Any]:
    """The steps of a pipeline, also of a frozen one; a model alone is the only step."""
    model = getattr(model, "estimator", model) if type(model).__name__ == "FrozenEstimator" else model
    return [step for _, step in model.steps] if hasattr(model, "steps") else [model]


def in_single_precision(scorer: Any) -> bool:
    """Whether a classifier is made of trees, which onnxruntime knows in single precision only."""
    return isinstance(scorer, BaseDecisionTree | HistGradientBoostingClassifier) or any(
        map(in_single_precision, _parts_of(scorer))
    )


def _parts_of(scorer: Any) -> list[Any]:
    """The fitted models that an ensemble, a calibration or a pipeline is made of, in their order."""
    parts: list[Any] = np.ravel(np.asarray(getattr(scorer, "estimators_", []), dtype=object)).tolist()
    parts += [one.estimator for one in getattr(scorer, "calibrated_classifiers_", [])]
    parts += getattr(scorer, "models", [])
    return parts + [step for _, step in getattr(scorer, "steps", [])]


def _trees_of(scorer: Any) -> list[Any]:
    if isinstance(scorer, BaseDecisionTree):
        return [scorer.tree_]
    return [tree for part in _parts_of(scorer) for tree in _trees_of(part)]


def _with_sides_of_missing_values(made: Any, scorer: Any) -> None:
    """Each split of a tree sends missing values where the tree does; skl2onnx sends all of them to the right."""
    numbered, trees = list[tuple[Any, int, int]](), dict[tuple[int, int], int]()
    for place, node in enumerate(made.graph.node):
        if node.op_type.startswith("TreeEnsemble"):
            of = {attribute.name: attribute for attribute in node.attribute}
            for tree, number in zip(of["nodes_treeids"].ints, of["nodes_nodeids"].ints, strict=True):
                known = trees.setdefault((place, tree), len(trees))
                numbered.append((of["nodes_missing_value_tracks_true"], known, number))
    left = [tree.missing_go_to_left for tree in _trees_of(scorer)]
    if len(left) != len(trees) or len(numbered) != sum(map(len, left)):
        return  # of boosted trees, whose sides skl2onnx does write
    for sides, _, _ in numbered:
        del sides.ints[:]
    for sides, tree, number in numbered:
        sides.ints.append(int(left[tree][number]))


def joined(first: Any, second: Any, between: str) -> Any:
    """One graph of two: the output `between` of the first is the input X of the second."""
    from onnx import compose, helper

    first.ir_version = second.ir_version
    # Each graph declares the lowest versions of the operator sets that have all its operators, but the two have to
    # agree. The operators used are the same from those versions up to OPSET and ML_OPSET.
    for made in (first, second):
        del made.opset_import[:]
        made.opset_import.extend([helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)])
    try:
        return compose.merge_models(first, second, io_map=[(between, "X")])
    except ValueError as error:
        raise CapabilityError(f"the graphs cannot be put together ({str(error)[:200]}). Use save_model.") from error


def _converted(steps: Sequence[Any], options: dict[int, dict[str, Any]], prefix: str, *, single: bool = False) -> Any:
    """The graph of a pipeline, with the inputs that `to_onnx` promises, and names that no other graph has."""
    try:
        import skl2onnx
        from onnx import compose, helper
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType
        from sklearn.impute import SimpleImputer
    except ImportError:
        raise MissingLibraryError.of("pipelines need skl2onnx", "onnx") from None
    first, names = steps[0], ", ".join(type(step).__name__ for step in steps)
    columns = [str(name) for name in getattr(first, "feature_names_in_", ())]
    words = _words(first, columns)
    inputs = [("X", (FloatTensorType if single else DoubleTensorType)([None, int(first.n_features_in_)]))]
    if columns and (words or hasattr(first, "transformers_")):
        inputs = [(name, (StringTensorType if name in words else DoubleTensorType)([None, 1])) for name in columns]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations between skl2onnx, NumPy and protobuf, not about the model
            own = {
                "custom_conversion_functions": {SimpleImputer: _imputer},
                "custom_shape_calculators": {SimpleImputer: _kept},
            }
            made = skl2onnx.convert_sklearn(
                _in_a_row(steps), initial_types=inputs,
                options=options, target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET}, **own,
            )  # fmt: skip
    except Exception as error:  # skl2onnx raises classes of its own
        why = str(error).partition("\n")[0][:200]
        raise CapabilityError(
            f"{names} cannot be written as ONNX by skl2onnx ({type(error).__name__}: {why}). "
            "Use models and steps that it knows, or save_model."
        ) from error
    made = compose.add_prefix(made, prefix=prefix)
    if words:
        _missing_as_empty(made, [values for step in steps for values in _categories(step)])
        helper.set_model_props(made, {MISSING_KEY: ""})
    for name, _ in inputs:
        _rename(made, f"{prefix}{name}", name)
    if len(inputs) > 1:  # a column that a `ColumnTransformer` drops may be of any type, or not there at all
        used = {name for node in made.graph.node for name in node.input}
        kept = [value for value in made.graph.input if value.name in used]
        del made.graph.input[:]
        made.graph.input.extend(kept)
    return made


def _in_a_row(steps: Sequence[Any]) -> Pipeline:
    """Fitted steps as one pipeline."""
    return Pipeline([(f"step{number}", step) for number, step in enumerate(steps)])


def _rename(made: Any, old: str, new: str) -> None:
    for value in (*made.graph.input, *made.graph.output):
        value.name = new if value.name == old else value.name
    for node in made.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]


def _words(step: Any, columns: Sequence[str]) -> set[str]:
    """Columns of texts: those of whose values an encoder or imputer has learned a text."""
    if hasattr(step, "transformers_"):
        found = set()
        for _, inner, chosen in step.transformers_:
            mine = np.atleast_1d(np.asarray(columns, dtype=object)[_places(chosen, columns)]).tolist()
            found |= set() if isinstance(inner, str) else _words(inner, mine)
        return found
    if hasattr(step, "steps"):
        return set().union(*(_words(inner, columns) for _, inner in step.steps))
    learned: Any = getattr(step, "categories_", getattr(step, "statistics_", ()))
    if len(learned) != len(columns):
        return set()
    return {name for name, values in zip(columns, learned, strict=True)
            if any(isinstance(value, str) for value in np.atleast_1d(np.asarray(values, dtype=object)))}  # fmt: skip


def _categories(step: Any) -> list[Any]:
    """What the encoders of a step have learned, column by column."""
    parts = [inner for _, inner, *_ in getattr(step, "transformers_", getattr(step, "steps", ()))]
    return [*getattr(step, "categories_", ()), *(values for inner in parts for values in _categories(inner))]


def _missing_as_empty(made: Any, categories: Sequence[Any]) -> None:
    """A missing word that an encoder has learned is the empty text, as in all graphs here; skl2onnx writes "nan"."""
    texts = {
        tuple(str(value).encode() for value in values)
        for values in categories
        if len(values) and not isinstance(values[-1], str) and (values[-1] is None or values[-1] != values[-1])
    }
    for attribute in (attribute for node in made.graph.node for attribute in node.attribute):
        if tuple(attribute.strings) in texts:
            attribute.strings[-1] = b""


def _places(chosen: Any, columns: Sequence[str]) -> Any:
    """Columns of a `ColumnTransformer` as an index: names, positions, a slice or a mask."""
    if isinstance(chosen, str):
        chosen = [chosen]
    if isinstance(chosen, slice | int):
        return chosen
    return [columns.index(name) if isinstance(name, str) else name for name in chosen]


def _kept(operator: Any) -> None:
    """The output of the imputer has the shape and type of its input."""
    given = operator.inputs[0].type
    operator.outputs[0].type = type(given)([operator.inputs[0].get_first_dimension(), given.shape[1]])


def _imputer(scope: Any, operator: Any, container: Any) -> None:
    """`SimpleImputer` of numbers missing as NaN, which onnxruntime has not in double precision, or of words."""
    from onnx import TensorProto
    from skl2onnx.algebra.onnx_ops import OnnxCast, OnnxIsNaN, OnnxLabelEncoder, OnnxWhere

    step, rows = operator.raw_operator, operator.inputs[0]
    filling, missing = np.asarray(step.statistics_), step.missing_values
    of_words = filling.dtype.kind in "OU" and all(isinstance(value, str) for value in filling)
    is_absent = missing is None or (not isinstance(missing, str) and bool(np.isnan(missing)))
    if step.add_indicator or not (is_absent or of_words) or not (of_words or filling.dtype.kind in "fiu"):
        raise CapabilityError("SimpleImputer is written for words, and numbers missing as NaN, without an indicator.")
    if of_words:  # a missing word is an empty text
        value = filling.astype(str)[None, :]
        found = OnnxLabelEncoder(
            rows, keys_strings=["" if is_absent else missing], values_int64s=[1], default_int64=0, op_version=2
        )
        gaps = OnnxCast(found, to=TensorProto.BOOL, op_version=OPSET)
    else:
        value, gaps = filling.astype(np.float64)[None, :], OnnxIsNaN(rows, op_version=OPSET)
        if np.isnan(value).any():
            raise CapabilityError("SimpleImputer has dropped a column without values. Leave that column out.")
    OnnxWhere(gaps, value, rows, op_version=OPSET, output_names=[operator.outputs[0].full_name]).add_to(
        scope, container
    )


def _refuse_other_answers(made: Any, ask: Callable[[Floats], npt.NDArray[Any]] | None, width: int, name: str) -> None:
    """Refuse a graph of the input X that does not give what `ask` does; without onnxruntime nothing is done.

    More than one row of a hundred must differ, as in single precision a few may lie at the threshold of a tree. With
    `ask` None, where the graph takes no matrix of numbers, it is only read.
    """
    try:
        import onnxruntime
    except ImportError:
        return
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class for each of its codes
        why = str(error).partition("\n")[0][:200]
        raise CapabilityError(
            f"{name} cannot be written as ONNX: onnxruntime cannot read what skl2onnx makes of it ({why}). "
            "Use save_model."
        ) from error
    if ask is None:
        return
    for rows in _made_rows(width):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of names that these rows have not, and of numbers that are too large
                expected = np.asarray(ask(rows), dtype=np.float64).reshape(len(rows), -1)
        except Exception:  # a model refuses rows in its own words
            continue
        found = np.asarray(session.run(None, {"X": rows})[0], dtype=np.float64).reshape(len(rows), -1)
        differ = ~np.isclose(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True).all(axis=1)
        if differ.mean() > 0.01:
            raise CapabilityError(
                f"{name} cannot be written as ONNX: what skl2onnx makes of it gives other numbers than the model on "
                f"{np.count_nonzero(differ)} of {len(rows)} rows made to try it. Use save_model."
            )
        return
    raise CapabilityError(
        f"{name} cannot be written as ONNX: it takes no rows of {width} numbers alone, as the graph would. "
        "Use save_model."
    )


def _made_rows(width: int) -> Iterator[Floats]:
    """Rows of numbers and codes; with missing values, without, and of 0 and 1 for models that refuse the former.

    All are exact in single precision, in which graphs of trees compute.
    """
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(400, width)) * np.repeat([1.0, 10.0], 200)[:, None]
    rows = np.vstack([normal, rng.integers(0, 10, size=(200, width))]).astype(np.float32).astype(np.float64)
    absent = (rng.random(rows.shape) < 0.2) & (np.arange(len(rows)) % 2 == 0)[:, None]
    yield np.where(absent, np.nan, rows)
    yield rows
    yield (rows > 0.0).astype(np.float64)
