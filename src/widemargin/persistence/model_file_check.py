"""The check of a model file: what it may hold, found out before anything is built from it.

skops by itself trusts every scikit-learn estimator and all functions of NumPy and SciPy. A model of this library,
around one of the estimators listed here, needs far less. So the description in the file (`schema.json`) is walked
first, and every node must be a loader and a type named here. Nothing is imported or built during the walk. The list
grows only by editing this file; it is never derived from the file that is being read.

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
    "widemargin.estimators.structured.label_probabilities": ("LabelProbabilities",),
    "widemargin.persistence.goals_as_text": ("StoredGoal", "StoredInfeasibility", "StoredPopulation", "StoredReport"),
    "widemargin.preprocessing": ("ColumnSchema", "QuantileBins", "TablePreprocessor", "TableSchema"),
    "widemargin.structured.models.chain": ("ChainModel",),
    "widemargin.structured.models.hierarchy": ("HierarchyModel",),
    "widemargin.structured.models.multiclass": ("MulticlassModel", "PowersetModel"),
    "widemargin.structured.models.multilabel": ("MultiLabelModel",),
    "widemargin_papers.baselines": (
        "CatoniRiskClassifier", "FourierSVC", "LDMClassifier", "LinearPegasosClassifier",
        "MarginDistributionClassifier", "MedianOfMeansClassifier", "NormBallSVC", "ShiftedSVC", "SimbaClassifier",
        "ZafarClassifier",
    ),
    "widemargin_papers.baselines.fourier_svc": ("FourierPairs",),
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

# Left out are models whose compiled code trusts numbers that are not checked here: support vector machines of LIBSVM,
# nearest neighbours, gradient boosting on exact values. Trees are checked node by node (`array_check.py`). Functions
# are never called by `predict`.
_SKLEARN_HOMES = {
    "sklearn._loss.link": ("Interval", "LogitLink", "MultinomialLogit"),
    "sklearn._loss.loss": ("HalfBinomialLoss", "HalfMultinomialLoss"),
    "sklearn.calibration": ("CalibratedClassifierCV", "_CalibratedClassifier", "_SigmoidCalibration"),
    "sklearn.compose._column_transformer": ("ColumnTransformer",),
    "sklearn.decomposition._pca": ("PCA",),
    "sklearn.decomposition._truncated_svd": ("TruncatedSVD",),
    "sklearn.discriminant_analysis": ("LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"),
    "sklearn.dummy": ("DummyClassifier",),
    "sklearn.ensemble._bagging": ("BaggingClassifier",),
    "sklearn.ensemble._forest": ("ExtraTreesClassifier", "RandomForestClassifier"),
    "sklearn.ensemble._hist_gradient_boosting.binning": ("_BinMapper",),
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": ("HistGradientBoostingClassifier",),
    "sklearn.ensemble._hist_gradient_boosting.predictor": ("TreePredictor",),
    "sklearn.ensemble._weight_boosting": ("AdaBoostClassifier",),
    "sklearn.feature_selection._univariate_selection": ("SelectKBest",),
    "sklearn.feature_selection._variance_threshold": ("VarianceThreshold",),
    "sklearn.impute._base": ("MissingIndicator", "SimpleImputer"),
    "sklearn.isotonic": ("IsotonicRegression",),
    "sklearn.kernel_approximation": ("Nystroem", "RBFSampler"),
    "sklearn.linear_model._logistic": ("LogisticRegression", "LogisticRegressionCV"),
    "sklearn.linear_model._perceptron": ("Perceptron",),
    "sklearn.linear_model._ridge": ("RidgeClassifier", "RidgeClassifierCV"),
    "sklearn.linear_model._stochastic_gradient": ("SGDClassifier",),
    "sklearn.model_selection._classification_threshold": ("FixedThresholdClassifier",),
    "sklearn.naive_bayes": ("BernoulliNB", "ComplementNB", "GaussianNB", "MultinomialNB"),
    "sklearn.neural_network._multilayer_perceptron": ("MLPClassifier",),
    "sklearn.neural_network._stochastic_optimizers": ("AdamOptimizer", "SGDOptimizer"),
    "sklearn.pipeline": ("FeatureUnion", "Pipeline"),
    "sklearn.preprocessing._data": (
        "MaxAbsScaler",
        "MinMaxScaler",
        "Normalizer",
        "PowerTransformer",
        "QuantileTransformer",
        "RobustScaler",
        "StandardScaler",
    ),
    "sklearn.preprocessing._discretization": ("KBinsDiscretizer",),
    "sklearn.preprocessing._encoders": ("OneHotEncoder", "OrdinalEncoder"),
    "sklearn.preprocessing._label": ("LabelBinarizer", "LabelEncoder"),
    "sklearn.preprocessing._polynomial": ("PolynomialFeatures",),
    "sklearn.svm._classes": ("LinearSVC",),
    "sklearn.tree._classes": ("DecisionTreeClassifier", "ExtraTreeClassifier"),
}

_BY_LOADER: dict[str, frozenset[str]] = {
    "DictNode": frozenset({"builtins.dict", "collections.OrderedDict"}),
    "DTypeNode": frozenset({"numpy.dtype"}),
    "FunctionNode": frozenset(
        f"sklearn.feature_selection._univariate_selection.{name}" for name in ("chi2", "f_classif")
    ),
    "JsonNode": frozenset({"builtins.str"}),
    "ListNode": frozenset({"builtins.list"}),
    "LossNode": frozenset(
        {
            "sklearn._loss._loss.CyHalfBinomialLoss",
            "sklearn._loss._loss.CyHalfMultinomialLoss",
            # what scikit-learn 1.7 calls the same two
            "_loss.CyHalfBinomialLoss",
            "_loss.CyHalfMultinomialLoss",
            "sklearn.linear_model._sgd_fast.Hinge",
            "sklearn.linear_model._sgd_fast.ModifiedHuber",
            "sklearn.linear_model._sgd_fast.SquaredHinge",
        }
    ),
    "NdArrayNode": _ARRAY_TYPES | {"numpy.ndarray"},
    "ObjectNode": _full_names(_SKLEARN_HOMES) | _full_names(_HOMES),
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "SetNode": frozenset({"builtins.set"}),
    "SliceNode": frozenset({"builtins.slice"}),
    "SparseMatrixNode": frozenset({"scipy.sparse._csr.csr_matrix", "scipy.sparse._csr.csr_array"}),
    "TreeNode": frozenset({"sklearn.tree._tree.Tree"}),
    "TupleNode": _full_names(_TUPLE_HOMES) | {"builtins.tuple"},
    "TypeNode": _ARRAY_TYPES
    | {f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "str", "tuple")},
}

TRUSTED_TYPES: tuple[str, ...] = tuple(sorted(set().union(*_BY_LOADER.values())))
"""Fully qualified names that may be given to `skops.io.loads(..., trusted=...)`."""


def trusted_in(schema: str) -> list[str]:
    """Those whose class a schema names: skops goes through all that it is given for every node of a file."""
    return [name for name in TRUSTED_TYPES if f'"{name.rpartition(".")[2]}"' in schema]


def refused_nodes(schema: JSON) -> Iterator[tuple[str, str]]:
    """Walk a parsed `schema.json` and yield (place, type) of every node that is not on the list."""
    for place, node in json_objects(schema):
        if "__loader__" in node:
            loader, name = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
            if not (isinstance(loader, str) and name in _BY_LOADER.get(loader, ())):
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
            # skops wraps the attributes of an object in two levels called "content"; they say nothing to a reader. Most
            # values are plain, and hold no object.
            waiting += [
                (place if key == "content" else f"{place}.{key}", value)
                for key, value in part.items() if type(value) in (dict, list)
            ]  # fmt: skip
        elif isinstance(part, list):
            waiting += [
                (f"{place}[{number}]", value) for number, value in enumerate(part) if type(value) in (dict, list)
            ]


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
