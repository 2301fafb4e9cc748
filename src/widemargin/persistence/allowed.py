"""What a model file may hold: a fixed list, checked before anything is built from the file.

skops by itself trusts every scikit-learn estimator and all functions of NumPy and SciPy. A model of this library needs
far less, so the description in the file (`schema.json`) is walked first, and every node must be a loader and type
named here. Nothing is imported or built during the walk. The list grows only by editing this file; it is never derived
from the file that is being read.
"""

from collections.abc import Iterator
from typing import Any

__all__ = ["PLAIN_TYPES", "TRUSTED_TYPES", "refused_nodes"]

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
        "widemargin_papers.baselines.catoni_risk.CatoniRiskClassifier",
        "widemargin_papers.baselines.fourier_svc.FourierSVC",
        "widemargin_papers.baselines.ldm.LDMClassifier",
        "widemargin_papers.baselines.margin_distribution.MarginDistributionClassifier",
        "widemargin_papers.baselines.median_of_means.MedianOfMeansClassifier",
        "widemargin_papers.baselines.pegasos.LinearPegasosClassifier",
        "widemargin_papers.baselines.shifted.ShiftedSVC",
        "widemargin_papers.baselines.zafar.ZafarClassifier",
        "widemargin.estimators.structured.chain_svc.ChainSVC",
        "widemargin.estimators.thresholds.goal_threshold.GoalThresholdClassifier",
        "widemargin.estimators.structured.hierarchical_svc.HierarchicalSVC",
        "widemargin.estimators.kernel_svm.kernel_perceptron.KernelPerceptron",
        "widemargin.estimators.kernel_svm.kernel_svc.KernelSVC",
        "widemargin.estimators.structured.multiclass_svc.MulticlassSVC",
        "widemargin.estimators.margins.margin_pursuit.MarginPursuitClassifier",
        "widemargin.estimators.structured.multilabel_svc.MultiLabelSVC",
        "widemargin.estimators.rate_constrained.classifier.RateConstrainedClassifier",
        "widemargin.estimators.rate_constrained.cross_validated.RateConstrainedClassifierCV",
        "widemargin.estimators.rate_constrained.options.TrainingOptions",
        "widemargin.estimators.kernel_svm.sbp_classifier.SBPClassifier",
        "widemargin.estimators.structured.structural_svm.StructuralSVM",
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


# Estimators and their parts that a file written by plain skops may hold besides (`persistence/plain.py`). Left out are
# models whose compiled code trusts the numbers in the file: support vector machines of LIBSVM, nearest neighbours,
# gradient boosting. Trees are checked node by node (`persistence/trees.py`). Functions are never called by `predict`.
_PLAIN: dict[str, frozenset[str]] = {
    "ObjectNode": frozenset(
        f"sklearn.{name}"
        for name in (
            "calibration.CalibratedClassifierCV",
            "calibration._CalibratedClassifier",
            "calibration._SigmoidCalibration",
            "decomposition._pca.PCA",
            "decomposition._truncated_svd.TruncatedSVD",
            "discriminant_analysis.LinearDiscriminantAnalysis",
            "discriminant_analysis.QuadraticDiscriminantAnalysis",
            "ensemble._bagging.BaggingClassifier",
            "ensemble._forest.ExtraTreesClassifier",
            "ensemble._forest.RandomForestClassifier",
            "ensemble._weight_boosting.AdaBoostClassifier",
            "feature_selection._univariate_selection.SelectKBest",
            "feature_selection._variance_threshold.VarianceThreshold",
            "linear_model._logistic.LogisticRegressionCV",
            "linear_model._perceptron.Perceptron",
            "linear_model._ridge.RidgeClassifier",
            "linear_model._ridge.RidgeClassifierCV",
            "linear_model._stochastic_gradient.SGDClassifier",
            "model_selection._classification_threshold.FixedThresholdClassifier",
            "naive_bayes.BernoulliNB",
            "naive_bayes.ComplementNB",
            "naive_bayes.GaussianNB",
            "naive_bayes.MultinomialNB",
            "neural_network._multilayer_perceptron.MLPClassifier",
            "neural_network._stochastic_optimizers.AdamOptimizer",
            "neural_network._stochastic_optimizers.SGDOptimizer",
            "pipeline.FeatureUnion",
            "preprocessing._data.Normalizer",
            "preprocessing._data.PowerTransformer",
            "preprocessing._data.QuantileTransformer",
            "preprocessing._data.RobustScaler",
            "preprocessing._discretization.KBinsDiscretizer",
            "preprocessing._encoders.OrdinalEncoder",
            "preprocessing._label.LabelBinarizer",
            "preprocessing._label.LabelEncoder",
            "preprocessing._polynomial.PolynomialFeatures",
            "tree._classes.DecisionTreeClassifier",
            "tree._classes.ExtraTreeClassifier",
        )
    ),
    "FunctionNode": frozenset(
        f"sklearn.feature_selection._univariate_selection.{name}" for name in ("chi2", "f_classif")
    ),
    "LossNode": frozenset(
        {
            "sklearn._loss._loss.CyHalfBinomialLoss",
            "sklearn.linear_model._sgd_fast.Hinge",
            "sklearn.linear_model._sgd_fast.ModifiedHuber",
            "sklearn.linear_model._sgd_fast.SquaredHinge",
        }
    ),
    "TreeNode": frozenset({"sklearn.tree._tree.Tree"}),
}

PLAIN_TYPES: tuple[str, ...] = tuple(sorted({*TRUSTED_TYPES, *set().union(*_PLAIN.values())}))
"""The same for files of plain skops."""


def refused_nodes(schema: Any, *, plain: bool = False) -> Iterator[tuple[str, str]]:
    """Walk a parsed `schema.json` and yield (place, type) of every node that is not on the list.

    `plain` adds what files of plain skops may hold.

    Everything that skops could take for a node is looked at: each JSON object with a `__loader__`, at any depth, under
    any key. Iterative, so that depth is no limit.
    """
    open_nodes: list[tuple[str, Any]] = [("model", schema)]
    while open_nodes:
        place, node = open_nodes.pop()
        if isinstance(node, dict):
            if "__loader__" in node and not _is_allowed(node, plain):
                yield place, f"{node.get('__module__')}.{node.get('__class__')} by {node.get('__loader__')}"
            open_nodes += [(_below(place, key), value) for key, value in node.items()]
        elif isinstance(node, list):
            open_nodes += [(f"{place}[{number}]", value) for number, value in enumerate(node)]


def _is_allowed(node: dict[str, Any], plain: bool) -> bool:
    loader, name = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
    lists = (_BY_LOADER, _PLAIN) if plain else (_BY_LOADER,)
    return isinstance(loader, str) and any(name in known.get(loader, frozenset()) for known in lists)


def _below(place: str, key: str) -> str:
    # skops wraps the attributes of an object in two levels called "content"; they say nothing to a reader.
    return place if key == "content" else f"{place}.{key}"
