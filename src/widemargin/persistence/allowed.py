"""What a model file may hold: a fixed list, checked before anything is built from the file.

skops by itself trusts every scikit-learn estimator and all functions of NumPy and SciPy. A model of this library needs
far less, so the description in the file (`schema.json`) is walked first, and every node must be a loader and type
named here. Nothing is imported or built during the walk. The list grows only by editing this file; it is never derived
from the file that is being read.
"""

from collections.abc import Iterator
from typing import Any

__all__ = ["TRUSTED_TYPES", "refused_nodes"]

_ARRAY_TYPES = frozenset(
    f"numpy.{name}"
    for name in (
        "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "str_", "object_",
    )
)  # fmt: skip

_OBJECTS = frozenset(
    {
        "sklearn.compose._column_transformer.ColumnTransformer",
        "sklearn.dummy.DummyClassifier",
        "sklearn.impute._base.MissingIndicator",
        "sklearn.impute._base.SimpleImputer",
        "sklearn.isotonic.IsotonicRegression",
        "sklearn.kernel_approximation.Nystroem",
        "sklearn.kernel_approximation.RBFSampler",
        "sklearn.linear_model._logistic.LogisticRegression",
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing._data.MaxAbsScaler",
        "sklearn.preprocessing._data.MinMaxScaler",
        "sklearn.preprocessing._data.StandardScaler",
        "sklearn.preprocessing._encoders.OneHotEncoder",
        "sklearn.svm._classes.LinearSVC",
        "widemargin.baselines.catoni_risk.CatoniRiskClassifier",
        "widemargin.baselines.fourier_svc.FourierSVC",
        "widemargin.baselines.ldm.LDMClassifier",
        "widemargin.baselines.margin_distribution.MarginDistributionClassifier",
        "widemargin.baselines.median_of_means.MedianOfMeansClassifier",
        "widemargin.baselines.pegasos.LinearPegasosClassifier",
        "widemargin.baselines.shifted.ShiftedSVC",
        "widemargin.baselines.zafar.ZafarClassifier",
        "widemargin.estimators.chain_svc.ChainSVC",
        "widemargin.estimators.goal_threshold.GoalThresholdClassifier",
        "widemargin.estimators.hierarchical_svc.HierarchicalSVC",
        "widemargin.estimators.kernel_perceptron.KernelPerceptron",
        "widemargin.estimators.kernel_svc.KernelSVC",
        "widemargin.estimators.multiclass_svc.MulticlassSVC",
        "widemargin.estimators.margin_pursuit.MarginPursuitClassifier",
        "widemargin.estimators.multilabel_svc.MultiLabelSVC",
        "widemargin.estimators.rate_constrained.RateConstrainedClassifier",
        "widemargin.estimators.rate_constrained_cv.RateConstrainedClassifierCV",
        "widemargin.estimators.sbp.SBPClassifier",
        "widemargin.estimators.structural_svm.StructuralSVM",
        "widemargin.kernels.feature_maps.FourierPairs",
        "widemargin.persistence.stored.StoredGoal",
        "widemargin.persistence.stored.StoredInfeasibility",
        "widemargin.persistence.stored.StoredPopulation",
        "widemargin.persistence.stored.StoredReport",
        "widemargin.preprocessing.bins.QuantileBins",
        "widemargin.preprocessing.schema.ColumnSchema",
        "widemargin.preprocessing.schema.TableSchema",
        "widemargin.preprocessing.tables.TablePreprocessor",
        "widemargin.preprocessing.thermometer.ThermometerEncoder",
        "widemargin.structured.models.chain.ChainModel",
        "widemargin.structured.models.hierarchy.HierarchyModel",
        "widemargin.structured.models.multiclass.MulticlassModel",
        "widemargin.structured.models.multilabel.MultiLabelModel",
    }
)

# Types that are made by calling them with the stored arguments (enumerations).
_CALLED: frozenset[str] = frozenset()

_BY_LOADER: dict[str, frozenset[str]] = {
    "DictNode": frozenset({"builtins.dict", "collections.OrderedDict"}),
    "DTypeNode": frozenset({"numpy.dtype"}),
    "JsonNode": frozenset({"builtins.str"}),
    "ListNode": frozenset({"builtins.list"}),
    "NdArrayNode": _ARRAY_TYPES | {"numpy.ndarray"},
    "ObjectNode": _OBJECTS,
    "ConstructorFromReduceNode": _CALLED,
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "SetNode": frozenset({"builtins.set"}),
    "SliceNode": frozenset({"builtins.slice"}),
    "SparseMatrixNode": frozenset({"scipy.sparse._csr.csr_matrix", "scipy.sparse._csr.csr_array"}),
    "TupleNode": frozenset(
        {
            "builtins.tuple",
            "widemargin.structured.compiled.Structure",
            "widemargin.structured.learners.state.Blocks",
            "widemargin.structured.models.label_graph.LabelGraph",
        }
    ),
    "TypeNode": _ARRAY_TYPES
    | {
        "builtins.bool",
        "builtins.dict",
        "builtins.float",
        "builtins.int",
        "builtins.list",
        "builtins.str",
        "builtins.tuple",
    },
}

TRUSTED_TYPES: tuple[str, ...] = tuple(sorted(set().union(*_BY_LOADER.values())))
"""Fully qualified names given to `skops.io.loads(..., trusted=...)`."""


def refused_nodes(schema: Any) -> Iterator[tuple[str, str]]:
    """Walk a parsed `schema.json` and yield (place, type) of every node that is not on the list.

    Everything that skops could take for a node is looked at: each JSON object with a `__loader__`, at any depth, under
    any key. Iterative, so that depth is no limit.
    """
    open_nodes: list[tuple[str, Any]] = [("model", schema)]
    while open_nodes:
        place, node = open_nodes.pop()
        if isinstance(node, dict):
            if "__loader__" in node and not _is_allowed(node):
                yield place, f"{node.get('__module__')}.{node.get('__class__')} by {node.get('__loader__')}"
            open_nodes += [(_below(place, key), value) for key, value in node.items()]
        elif isinstance(node, list):
            open_nodes += [(f"{place}[{number}]", value) for number, value in enumerate(node)]


def _is_allowed(node: dict[str, Any]) -> bool:
    loader, name = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
    return isinstance(loader, str) and name in _BY_LOADER.get(loader, frozenset())


def _below(place: str, key: str) -> str:
    # skops wraps the attributes of an object in two levels called "content"; they say nothing to a reader.
    return place if key == "content" else f"{place}.{key}"
