"""Every array of a model file is checked before compiled code sees it."""

import copy
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn._loss._loss import CyHalfBinomialLoss
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import widemargin as wm
from mutated_arrays import fates
from widemargin.exceptions import ModelFileError
from widemargin.persistence import load_model, save_model
from widemargin.persistence.array_check import check_arrays, contracts_of, parts_of
from widemargin.persistence.model_file_check import _HOMES
from widemargin.preprocessing import make_preprocessor
from widemargin.structured.models import MulticlassModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
SPARSE = sp.csr_matrix(np.where(RNG.random(X.shape) < 0.5, X, 0.0))
TWO, THREE = (X[:, 0] > 0).astype(int), np.digitize(X[:, 0], [-0.4, 0.4])
SETS = (X[:, :3] > 0).astype(int)
BOOSTING = HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=4)
FOREST = RandomForestClassifier(3, max_depth=3, random_state=0)
SEQUENCES = [RNG.normal(size=(length, 2)) for length in (3, 5, 4, 6, 1)]
STATES = [np.where(x[:, 0] > 0, "up", "down") for x in SEQUENCES]
TABLE = pa.table({"age": X[:, 0], "work": ["a", "b", "c"] * 20, "citizen": X[:, 1] > 0})
GOAL = "subject to recall() >= 0.7"
FEW = {"C": 0.3, "tol": 0.5, "max_iter": 1000, "random_state": 0}


CASES = {
    "KernelSVC": (wm.KernelSVC(), X, TWO),
    "KernelSVC, linear, sparse, three classes": (wm.KernelSVC(kernel="linear"), SPARSE, THREE),
    "KernelSVC, one against the rest": (wm.KernelSVC(solver_options={"multi_class": "ovr"}), X, THREE),
    "KernelSVC, precomputed": (wm.KernelSVC(kernel="precomputed"), X @ X.T, TWO),
    "SBPClassifier": (wm.SBPClassifier(nu=0.1, random_state=0), SPARSE, TWO),
    "KernelPerceptron": (wm.KernelPerceptron(), X, THREE),
    "RiskClassifier": (wm.RiskClassifier("cvar"), X, THREE),
    "MarginPursuitClassifier": (wm.MarginPursuitClassifier(), X, THREE),
    "MarginPursuitClassifier, kernel": (wm.MarginPursuitClassifier(kernel="rbf"), SPARSE, THREE),
    "RateConstrainedClassifier": (wm.RateConstrainedClassifier(GOAL), SPARSE, TWO),
    "RateConstrainedClassifier, kernel": (wm.RateConstrainedClassifier(kernel="rbf"), X, TWO),
    "RateConstrainedClassifier, fourier": (
        wm.RateConstrainedClassifier(kernel="rbf", feature_map="fourier", random_state=0), X, TWO,
    ),
    "RateConstrainedClassifier, nystroem": (
        wm.RateConstrainedClassifier(kernel="rbf", feature_map="nystroem", calibration="isotonic", random_state=0),
        X, TWO,
    ),
    "RateConstrainedClassifierCV": (wm.RateConstrainedClassifierCV(GOAL, Cs=[0.1], cv=2, random_state=0), X, TWO),
    "GoalReduction": (wm.GoalReduction(LogisticRegression(), GOAL, max_models=1, cv=2, random_state=0), X, TWO),
    "GoalReduction, boosting": (
        wm.GoalReduction(BOOSTING, GOAL, one_run=True, cv=2, random_state=0), X.round(1), TWO,
    ),
    "GoalThresholdClassifier, forest": (wm.GoalThresholdClassifier(FOREST, GOAL, random_state=0), X, TWO),
    "GoalThresholdClassifier": (wm.GoalThresholdClassifier(LogisticRegression(), GOAL, random_state=0), X, TWO),
    "GoalThresholdClassifier, three classes": (
        wm.GoalThresholdClassifier(LogisticRegression(), "subject to recall(of=1) >= 0.5", random_state=0), X, THREE,
    ),
    "GoalReduction, three classes": (
        wm.GoalReduction(LogisticRegression(), max_models=1, cv=2, random_state=0), X, THREE,
    ),
    "MultiLabelSVC": (wm.MultiLabelSVC(**FEW), X, SETS),
    "MultiLabelSVC, tree": (wm.MultiLabelSVC("tree", warm_start=True, **FEW), X, SETS),
    "MultiLabelSVC, greedy": (wm.MultiLabelSVC(**FEW), X, np.hstack([SETS] * 7)),
    "MultiLabelSVC, powerset": (wm.MultiLabelSVC(powerset=True, **FEW), X, SETS),
    "HierarchicalSVC": (wm.HierarchicalSVC(["a", "a/b", "c"], **FEW), X, SETS * [[1, 0, 1]]),
    "HierarchicalSVC, paths": (
        wm.HierarchicalSVC(["a", "a/b", "c"], labels="path", loss="leaves", **FEW), X,
        np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]])[X[:, :3].argmax(axis=1)],
    ),
    "ChainSVC": (wm.ChainSVC(weights={"up": 2.0}, **FEW), SEQUENCES, STATES),
    "MulticlassSVC": (wm.MulticlassSVC(**FEW), X, THREE),
    "MultiLabelSVC, nystroem": (wm.MultiLabelSVC(feature_map="nystroem", **FEW), X, SETS),
    "MulticlassSVC, fourier": (wm.MulticlassSVC(feature_map="fourier", **FEW), X, THREE),
    "StructuralSVM": (wm.StructuralSVM(MulticlassModel(), **FEW), X, THREE),
    "ThermometerEncoder": (make_pipeline(wm.ThermometerEncoder(4), LinearSVC()), X, TWO),
    "TablePreprocessor, QuantileBins": (make_pipeline(make_preprocessor(numbers="bins"), LinearSVC()), TABLE, TWO),
    "TablePreprocessor": (make_pipeline(make_preprocessor(), wm.RateConstrainedClassifier(GOAL)), TABLE, TWO),
    "DecisionTreeClassifier": (DecisionTreeClassifier(max_depth=3, random_state=0), X, THREE),
}  # fmt: skip
if CyHalfBinomialLoss.__module__ == "_loss":  # scikit-learn 1.7: no module of that name, and no file may ask for one
    del CASES["GoalReduction, boosting"]


@pytest.fixture(scope="module")
def fitted():
    known = {}

    def fit(case):
        if case not in known:
            model, rows, labels = CASES[case]
            known[case] = clone(model).fit(rows, labels)
        return known[case], CASES[case][1]

    return fit


@pytest.mark.parametrize(
    ("field", "value"),
    [("left", 0), ("right", 10**6), ("feature_idx", 99), ("feature_idx", -1), ("is_categorical", 1)],
)
def test_a_boosted_tree_that_leaves_its_bounds_is_refused(field, value):
    boosting = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=4).fit(X, THREE)
    check_arrays(boosting, "m")
    boosting._predictors[1][2].nodes[field][0] = value
    with pytest.raises(ModelFileError, match="a tree in it is damaged"):
        check_arrays(boosting, "m")


def test_rounds_and_bins_of_boosting_must_fit():
    boosting = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=4).fit(X, THREE)
    del boosting._predictors[1][2]
    with pytest.raises(ModelFileError, match="a round has 2 trees, not 3"):
        check_arrays(boosting, "m")
    boosting._bin_mapper.is_categorical_[0] = 1
    with pytest.raises(ModelFileError, match="its bins"):
        check_arrays(boosting, "m")


def test_every_estimator_that_can_be_saved_is_tried():
    names = {word for case in CASES for word in case.replace(",", "").split()}
    listed = {
        name for home, names in _HOMES.items() if home.startswith("widemargin") and "papers" not in home
        for name in names if issubclass(getattr(importlib.import_module(home), name), BaseEstimator)
    }  # fmt: skip
    assert listed <= names


@pytest.mark.parametrize("case", CASES)
def test_no_change_of_an_array_ends_a_process(case, fitted, tmp_path):
    model, rows = fitted(case)
    forms = sum(type(other) is type(CASES[case][0]) for other, *_ in CASES.values())  # which share the 50 changes
    found = fates(model, rows, tmp_path, n=-(-50 // forms))
    assert [fate for fate in found if fate.end.startswith("signal")] == []
    theirs = (".steps", "estimator_", "feature_map_") if hasattr(type(model), "_stored_arrays") else ("",)
    ours = [fate for fate in found if not any(part in fate.change for part in theirs)]
    assert [fate for fate in ours if fate.end.startswith("error")] == []  # whatever is read can be asked
    assert [fate for fate in ours if fate.end == "other" and ": shape" in fate.change] == []


@pytest.mark.parametrize("case", CASES)
def test_every_array_of_our_classes_has_a_contract(case, fitted, tmp_path):
    save_model(fitted(case)[0], tmp_path / "m.skops") if "Tree" not in case else pytest.skip("none of ours")
    for place, part, _ in parts_of(load_model(tmp_path / "m.skops")):
        if type(part).__module__.partition(".")[0] == "widemargin" and not isinstance(part, type):
            held = part._asdict() if isinstance(part, tuple) else getattr(part, "__dict__", {})
            arrays = {name for name, value in held.items() if isinstance(value, np.ndarray) or sp.issparse(value)}
            # Names of columns are texts that no compiled code sees.
            assert arrays - {"feature_names_in_"} <= contracts_of(type(part)).keys(), place


class Hostile(NamedTuple):
    """A change of a model by which its parts do not fit each other."""

    case: str
    change: Callable[[Any], object]
    message: str


def _replaced(model, **values):
    vars(model).update(values)


def _restructured(model, **values):
    model.model_.structure = model.model_.structure._replace(**values)


HOSTILE = [
    Hostile("KernelSVC", lambda m: vars(m).pop("n_features_in_"), "support_vectors_ has the shape"),
    Hostile("KernelSVC", lambda m: _replaced(m, kernel="precomputed"), "support_vectors_ has the shape"),
    Hostile("KernelSVC", lambda m: m.n_support_.__setitem__(0, 7), "n_support_ counts"),
    Hostile("KernelSVC", lambda m: _replaced(m, _refuse_arrays=list, classes_=m.classes_[:1]), "class_weight_"),
    Hostile("KernelSVC, precomputed", lambda m: m.support_.__setitem__(-1, 60), "support_ names row 60 of 60"),
    Hostile(
        "KernelSVC, linear, sparse, three classes",
        lambda m: _replaced(m, support_vectors_=m.support_vectors_.tocsc()), "a CSC matrix",
    ),
    Hostile(
        "KernelSVC, linear, sparse, three classes", lambda m: m.support_vectors_.indices.__setitem__(0, 10**8),
        r"model\.support_vectors_ is damaged, or its parts do not fit each other: indices must be < 4",
    ),
    Hostile("MultiLabelSVC, tree", lambda m: _restructured(m, kind=3), "not .4, 3. and 9"),
    Hostile(
        "MultiLabelSVC, tree", lambda m: _restructured(m, order=m.model_.structure.order[::-1].copy()),
        "order does not follow",
    ),
    Hostile("MultiLabelSVC, powerset", lambda m: _replaced(m.model_, sets=m.model_.sets[:-1]), "not those of the str"),
    Hostile(
        "MultiLabelSVC, powerset", lambda m: _replaced(m, classes_=m.classes_[:2]), "2 labels are named"
    ),
    Hostile("ThermometerEncoder", lambda m: _replaced(m[0], has_missing_=np.full(4, 7)), "has_missing_ holds int64"),
    Hostile("TablePreprocessor", lambda m: _replaced(m[0].word_step_, _n_features_outs=[1, 1]), r"it makes \[3, 2\]"),
]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda one: f"{one.case}: {one.message}")
def test_parts_that_do_not_fit_each_other_are_named(hostile, fitted):
    model = copy.deepcopy(fitted(hostile.case)[0])
    check_arrays(model, "m.skops")
    hostile.change(model)
    with pytest.raises(ModelFileError, match=hostile.message):
        check_arrays(model, "m.skops")
