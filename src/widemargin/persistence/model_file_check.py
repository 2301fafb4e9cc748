"""The check of a model file: what it may hold, found out before anything is built from it.

skops by itself trusts every scikit-learn estimator and all functions of NumPy and SciPy. A model of this library needs
far less, so the description in the file (`schema.json`) is walked first, and every node must be a loader and a type
named here. Nothing is imported or built during the walk. The list grows only by editing this file; it is never derived
from the file that is being read.

Files name the classes of this library by their public home ("widemargin" and the class name), so a file stays readable
when a class moves to another module. Older files name the module of their day; the class name alone decides.

The numbers of a model are checked afterwards (`array_check.py`).
"""

from collections.abc import Iterator, Mapping

from widemargin._typing import JSON

# Where the classes of this library that a file may hold are found today. A class that moves is changed here and nowhere
# else; one that is public by `widemargin` itself never has to be.
_HOMES: dict[str, tuple[str, ...]] = {
    "widemargin": (
        "ChainSVC", "GoalReduction", "GoalThresholdClassifier", "HierarchicalSVC", "KernelOptions", "KernelPerceptron",
        "KernelSVC", "MarginPursuitClassifier", "MultiLabelSVC", "MulticlassSVC", "PursuitOptions",
        "RateConstrainedClassifier", "RateConstrainedClassifierCV", "ReductionOptions", "RiskClassifier",
        "SBPClassifier", "SBPOptions", "StructuralOptions", "StructuralSVM", "ThermometerEncoder", "TrainingOptions",
    ),
    "widemargin.estimators.reduction.cost_sensitive": ("AveragedScorer",),
    "widemargin.kernels.feature_maps": ("FourierPairs",),
    "widemargin.persistence.goals_as_text": ("StoredGoal", "StoredInfeasibility", "StoredPopulation", "StoredReport"),
    "widemargin.preprocessing": ("ColumnSchema", "QuantileBins", "TablePreprocessor", "TableSchema"),
    "widemargin.structured.models.chain": ("ChainModel",),
    "widemargin.structured.models.hierarchy": ("HierarchyModel",),
    "widemargin.structured.models.multiclass": ("MulticlassModel",),
    "widemargin.structured.models.multilabel": ("MultiLabelModel",),
    "widemargin_papers.baselines": (
        "CatoniRiskClassifier", "FourierSVC", "LDMClassifier", "LinearPegasosClassifier",
        "MarginDistributionClassifier", "MedianOfMeansClassifier", "NormBallSVC", "ShiftedSVC", "SimbaClassifier",
        "ZafarClassifier",
    ),
}  # fmt: skip
_TUPLE_HOMES: dict[str, tuple[str, ...]] = {
    "widemargin.structured.compiled": ("Structure",),
    "widemargin.structured.learners.problem": ("Blocks",),
    "widemargin.structured.models.label_graph": ("LabelGraph",),
}
"""The same for named tuples, which have a loader of their own."""

_HOME_OF = {name: home for homes in (_HOMES, _TUPLE_HOMES) for home, names in homes.items() for name in names}


def _full_names(homes: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    return frozenset(f"{home}.{name}" for home, names in homes.items() for name in names)


_ARRAY_TYPES = frozenset(
    f"numpy.{name}"
    for name in (
        "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "str_", "object_",
    )
)  # fmt: skip

_SKLEARN_HOMES = {
    "sklearn.compose._column_transformer": ("ColumnTransformer",),
    "sklearn.dummy": ("DummyClassifier",),
    "sklearn.impute._base": ("MissingIndicator", "SimpleImputer"),
    "sklearn.isotonic": ("IsotonicRegression",),
    "sklearn.kernel_approximation": ("Nystroem", "RBFSampler"),
    "sklearn.linear_model._logistic": ("LogisticRegression",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing._data": ("MaxAbsScaler", "MinMaxScaler", "StandardScaler"),
    "sklearn.preprocessing._encoders": ("OneHotEncoder",),
    "sklearn.svm._classes": ("LinearSVC",),
}

_BY_LOADER: dict[str, frozenset[str]] = {
    "DictNode": frozenset({"builtins.dict", "collections.OrderedDict"}),
    "DTypeNode": frozenset({"numpy.dtype"}),
    "JsonNode": frozenset({"builtins.str"}),
    "ListNode": frozenset({"builtins.list"}),
    "NdArrayNode": _ARRAY_TYPES | {"numpy.ndarray"},
    "ObjectNode": _full_names(_SKLEARN_HOMES) | _full_names(_HOMES),
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "SetNode": frozenset({"builtins.set"}),
    "SliceNode": frozenset({"builtins.slice"}),
    "SparseMatrixNode": frozenset({"scipy.sparse._csr.csr_matrix", "scipy.sparse._csr.csr_array"}),
    "TupleNode": _full_names(_TUPLE_HOMES) | {"builtins.tuple"},
    "TypeNode": _ARRAY_TYPES
    | {f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "str", "tuple")},
}

TRUSTED_TYPES: tuple[str, ...] = tuple(sorted(set().union(*_BY_LOADER.values())))
"""Fully qualified names given to `skops.io.loads(..., trusted=...)`."""


# Estimators and their parts that a file written by plain skops may hold besides (`load_plain_model`). Left out are
# models whose compiled code trusts the numbers in the file: support vector machines of LIBSVM, nearest neighbours,
# gradient boosting. Trees are checked node by node (`array_check.py`). Functions are never called by `predict`.
_PLAIN_HOMES = {
    "sklearn.calibration": ("CalibratedClassifierCV", "_CalibratedClassifier", "_SigmoidCalibration"),
    "sklearn.decomposition._pca": ("PCA",),
    "sklearn.decomposition._truncated_svd": ("TruncatedSVD",),
    "sklearn.discriminant_analysis": ("LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"),
    "sklearn.ensemble._bagging": ("BaggingClassifier",),
    "sklearn.ensemble._forest": ("ExtraTreesClassifier", "RandomForestClassifier"),
    "sklearn.ensemble._weight_boosting": ("AdaBoostClassifier",),
    "sklearn.feature_selection._univariate_selection": ("SelectKBest",),
    "sklearn.feature_selection._variance_threshold": ("VarianceThreshold",),
    "sklearn.linear_model._logistic": ("LogisticRegressionCV",),
    "sklearn.linear_model._perceptron": ("Perceptron",),
    "sklearn.linear_model._ridge": ("RidgeClassifier", "RidgeClassifierCV"),
    "sklearn.linear_model._stochastic_gradient": ("SGDClassifier",),
    "sklearn.model_selection._classification_threshold": ("FixedThresholdClassifier",),
    "sklearn.naive_bayes": ("BernoulliNB", "ComplementNB", "GaussianNB", "MultinomialNB"),
    "sklearn.neural_network._multilayer_perceptron": ("MLPClassifier",),
    "sklearn.neural_network._stochastic_optimizers": ("AdamOptimizer", "SGDOptimizer"),
    "sklearn.pipeline": ("FeatureUnion",),
    "sklearn.preprocessing._data": ("Normalizer", "PowerTransformer", "QuantileTransformer", "RobustScaler"),
    "sklearn.preprocessing._discretization": ("KBinsDiscretizer",),
    "sklearn.preprocessing._encoders": ("OrdinalEncoder",),
    "sklearn.preprocessing._label": ("LabelBinarizer", "LabelEncoder"),
    "sklearn.preprocessing._polynomial": ("PolynomialFeatures",),
    "sklearn.tree._classes": ("DecisionTreeClassifier", "ExtraTreeClassifier"),
}
_PLAIN: dict[str, frozenset[str]] = {
    "ObjectNode": _full_names(_PLAIN_HOMES),
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


def refused_nodes(schema: JSON, *, plain: bool = False) -> Iterator[tuple[str, str]]:
    """Walk a parsed `schema.json` and yield (place, type) of every node that is not on the list.

    `plain` adds what files of plain skops may hold.
    """
    lists = (_BY_LOADER, _PLAIN) if plain else (_BY_LOADER,)
    for place, node in json_objects(schema):
        if "__loader__" in node:
            loader, name = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
            if not (isinstance(loader, str) and any(name in types.get(loader, ()) for types in lists)):
                yield place, f"{name} by {loader}"


def json_objects(schema: JSON) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Every JSON object with its place, at any depth and under any key.

    skops could take each for a node if it has a `__loader__`. The walk is iterative, so that depth is no limit.
    """
    waiting: list[tuple[str, JSON]] = [("model", schema)]
    while waiting:
        place, part = waiting.pop()
        if isinstance(part, dict):
            yield place, part
            # skops wraps the attributes of an object in two levels called "content"; they say nothing to a reader.
            waiting += [(place if key == "content" else f"{place}.{key}", value) for key, value in part.items()]
        elif isinstance(part, list):
            waiting += [(f"{place}[{number}]", value) for number, value in enumerate(part)]


def with_class_names(schema: JSON, *, public: bool) -> JSON:
    """The schema with our classes named by their distribution, as files hold them, or by their modules of today.

    It is changed in place. Class names that are not on the list stay as they are, and are refused by the check that
    follows.
    """
    for _, node in json_objects(schema):
        module, name = node.get("__module__"), node.get("__class__")
        if isinstance(module, str) and isinstance(name, str) and name in _HOME_OF:
            distribution = module.partition(".")[0]
            if distribution in ("widemargin", "widemargin_papers"):
                node["__module__"] = distribution if public else _HOME_OF[name]
    return schema
