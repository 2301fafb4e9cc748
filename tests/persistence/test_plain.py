"""Files of plain skops: scikit-learn's own estimators load and decide the same, everything else is refused unrun."""

import importlib.util
import io
import json
import os
import warnings
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pyarrow as pa
import pytest
import skops.io
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from any_models import GOALS, frame, linear_pipeline, onnx_bytes
from command_line import write_csv
from widemargin.cli.main import main
from widemargin.cli.models_and_rows import load_candidate
from widemargin.cli.tables.table_files import Block
from widemargin.exceptions import ModelFileError, ModelFileWarning, WidemarginError
from widemargin.persistence import load_plain_model, save_model
from widemargin.persistence.array_check import check_arrays

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
Y = np.where(X[:, 0] + 0.5 * rng.normal(size=120) > 0, "yes", "no")

# What LogisticRegressionCV warns about if it is not said, where it is known (scikit-learn 1.8 and newer).
SAID = {"l1_ratios": (0,), "use_legacy_attributes": False}
SAID = SAID if SAID.keys() <= LogisticRegressionCV().get_params().keys() else {}

GOOD = [
    DecisionTreeClassifier(max_depth=4), ExtraTreeClassifier(max_depth=4), RandomForestClassifier(4, random_state=0),
    ExtraTreesClassifier(4, random_state=0), BaggingClassifier(DecisionTreeClassifier(max_depth=2), 3),
    AdaBoostClassifier(n_estimators=3), CalibratedClassifierCV(LinearSVC(), cv=3), LinearDiscriminantAnalysis(),
    LogisticRegressionCV(cv=3, scoring="accuracy", **SAID), RidgeClassifier(),
    SGDClassifier(random_state=0), GaussianNB(), MLPClassifier((3,), max_iter=500, tol=0.1, random_state=0),
    make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), SelectKBest(k=3), GaussianNB()),
]  # fmt: skip


@pytest.mark.parametrize("model", GOOD, ids=lambda model: type(model).__name__)
def test_listed_models_decide_the_same(model, tmp_path):
    model.fit(X, Y)
    skops.io.dump(model, tmp_path / "m.skops")
    assert load_plain_model(tmp_path / "m.skops").predict(X).tolist() == model.predict(X).tolist()


def test_our_own_files_keep_their_checks(tmp_path):
    save_model(LinearSVC().fit(X, Y), tmp_path / "m.skops")
    assert load_plain_model(tmp_path / "m.skops").predict(X).shape == (120,)
    data = bytearray((tmp_path / "m.skops").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "m.skops").write_bytes(data)
    with pytest.raises(ModelFileError, match="the file is damaged"):
        load_plain_model(tmp_path / "m.skops")


@pytest.mark.parametrize("lost", [1, 2, 63, 64, 65, 80])
def test_a_file_of_ours_that_lost_its_end_is_not_taken_for_another(lost, tmp_path, capsys):
    save_model(LinearSVC().fit(X, Y), tmp_path / "m.skops")
    (tmp_path / "m.skops").write_bytes((tmp_path / "m.skops").read_bytes()[:-lost])
    with pytest.raises(ModelFileError, match="the file is cut off or damaged"):
        load_plain_model(tmp_path / "m.skops")
    with pytest.raises(WidemarginError, match="the file is cut off or damaged"):
        load_candidate(tmp_path / "m.skops", features=[])


UNLISTED = [
    SVC(), KNeighborsClassifier(), GradientBoostingClassifier(n_estimators=2),
    make_pipeline(FunctionTransformer(np.exp), GaussianNB()),
]  # fmt: skip


@pytest.mark.parametrize("model", UNLISTED, ids=lambda model: type(model).__name__)
def test_models_that_are_not_on_the_list_are_refused(model, tmp_path):
    skops.io.dump(model.fit(X, Y), tmp_path / "m.skops")
    with pytest.raises(ModelFileError, match=r"not on the list of types .* ONNX"):
        load_plain_model(tmp_path / "m.skops")


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch evil-was-here",)

    def predict(self, X):
        return X


def rewritten(path, change):
    """The same archive with other parts."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("ending", [".skops", ".onnx", ".joblib", ".pkl", ".pickle", ""])
def test_a_hostile_pickle_is_not_opened_under_any_name(ending, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    joblib.dump(Evil(), tmp_path / f"m{ending}")
    write_csv(tmp_path / "people.csv", {name: frame(20)[name].tolist() for name in frame(20)})
    (tmp_path / "goals.toml").write_text(GOALS)
    for command in ("audit", "predict", "compare"):
        models = ["--models", f"m{ending}", f"m{ending}"] if command == "compare" else ["--model", f"m{ending}"]
        more = ["--data", "people.csv", "--out", "p.csv"] if command == "predict" else []
        assert main([command, "goals.toml", *models, *more]) == 2
        assert "defect" not in capsys.readouterr().err
    assert not Path("evil-was-here").exists() and not Path("p.csv").exists()


@pytest.mark.parametrize(
    "loader", ["FunctionNode", "OperatorFuncNode", "ObjectNode", "TypeNode", "ReduceNode", "TreeNode"]
)
def test_nothing_of_a_hostile_skops_file_is_run(loader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    skops.io.dump(DecisionTreeClassifier(max_depth=2).fit(X, Y), tmp_path / "m.skops")
    node = {"__class__": "system", "__module__": "os", "__loader__": loader, "content": '"touch evil-was-here"'}

    def change(parts):
        schema = json.loads(parts["schema.json"])
        schema["content"]["content"]["criterion"] = node
        parts["schema.json"] = json.dumps(schema).encode()

    with pytest.raises(ModelFileError, match=f"os.system by {loader}"):
        load_plain_model(rewritten(tmp_path / "m.skops", change))
    assert not Path("evil-was-here").exists()


def tree_nodes(parts):
    """Name of the part that holds the nodes of the first tree."""
    for name, content in parts.items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(content), allow_pickle=False)
            if array.dtype.names and "left_child" in array.dtype.names:
                return name, array
    raise AssertionError("no tree")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("left_child", 10**9),
        ("left_child", -7),
        ("right_child", 0),
        ("feature", 10**6),
        ("feature", -3),
        ("left_child", -1),
    ],
)
@pytest.mark.parametrize("model", [DecisionTreeClassifier(max_depth=3), RandomForestClassifier(3, max_depth=3)])
def test_a_tree_that_leaves_its_bounds_is_refused(model, field, value, tmp_path):
    skops.io.dump(model.fit(X, Y), tmp_path / "m.skops")

    def change(parts):
        name, nodes = tree_nodes(parts)
        nodes[field][0] = value
        buffer = io.BytesIO()
        np.save(buffer, nodes)
        parts[name] = buffer.getvalue()

    with pytest.raises(ModelFileError, match="tree in it is damaged"):
        load_plain_model(rewritten(tmp_path / "m.skops", change))


def test_trees_of_other_widths_are_refused(tmp_path):
    forest = RandomForestClassifier(3, max_depth=3).fit(X, Y)
    forest.estimators_[1] = DecisionTreeClassifier(max_depth=3).fit(rng.normal(size=(50, 9)), Y[:50])
    with pytest.raises(ModelFileError, match="trees of a forest"):
        check_arrays(forest, "m")
    tree = DecisionTreeClassifier(max_depth=3).fit(X, Y)
    del tree.n_features_in_
    with pytest.raises(ModelFileError, match="tree in it is damaged"):
        check_arrays(tree, "m")
    with pytest.raises(ModelFileError, match="tree in it is damaged"):
        check_arrays([DecisionTreeClassifier().fit(X, Y).tree_], "m")


@pytest.mark.parametrize("change", ["outputs", "classes"])
def test_the_arguments_of_a_tree_must_fit(change, tmp_path):
    skops.io.dump(DecisionTreeClassifier(max_depth=2).fit(X, Y), tmp_path / "m.skops")

    def spoil(parts):
        schema = json.loads(parts["schema.json"])
        arguments = schema["content"]["content"]["tree_"]["__reduce__"]["args"]["content"]
        if change == "outputs":
            arguments[2]["content"] = "500"
        else:
            arguments[1] = arguments[2]
        parts["schema.json"] = json.dumps(schema).encode()

    with pytest.raises(ModelFileError, match="description of a tree is wrong"):
        load_plain_model(rewritten(tmp_path / "m.skops", spoil))


def test_another_version_of_scikit_learn_is_told(tmp_path):
    import sklearn

    skops.io.dump(GaussianNB().fit(X, Y), tmp_path / "m.skops")

    def change(parts):
        assert sklearn.__version__.encode() in parts["schema.json"]
        parts["schema.json"] = parts["schema.json"].replace(sklearn.__version__.encode(), b"1.0.0")

    with pytest.warns(ModelFileWarning, match="another version of scikit-learn"):
        load_plain_model(rewritten(tmp_path / "m.skops", change))


def test_a_file_without_a_model_is_refused(tmp_path):
    skops.io.dump({"a": 1}, tmp_path / "m.skops")
    with pytest.raises(ModelFileError, match="holds a dict, no model"):
        load_plain_model(tmp_path / "m.skops")
    rewritten(tmp_path / "m.skops", lambda parts: parts.pop("schema.json"))
    with pytest.raises(ModelFileError, match="no model file of widemargin or skops"):
        load_plain_model(tmp_path / "m.skops")


# Mutated files: whatever the change, the end is a model or the documented error


def mutated(content, draw):
    """Some bytes changed, cut out, or repeated."""
    found = bytearray(content)
    for _ in range(int(draw.integers(1, 6))):
        place, length = int(draw.integers(len(found))), int(draw.integers(1, 20))
        kind = draw.integers(3)
        if kind == 0:
            found[place] = int(draw.integers(256))
        elif kind == 1:
            del found[place : place + length]
        else:
            found[place:place] = found[place : place + length]
        if not found:
            return b""
    return bytes(found)


def spoiled(folder, number):
    """Spoil a part of a skops file (or the whole of it), or an ONNX file; load it and ask it."""
    draw = np.random.default_rng(number)
    rows = frame(40)
    kinds = ("skops", "tree", *(["onnx"] if importlib.util.find_spec("onnxruntime") else []))
    kind = kinds[number % len(kinds)]
    if kind == "onnx":
        path = folder / "m.onnx"
        path.write_bytes(mutated(onnx_model(), draw))
    else:
        path = folder / f"{kind}.skops"
        path.write_bytes(skops_model(kind))
        if draw.integers(4):

            def change(parts):
                name = str(draw.choice(sorted(parts)))
                parts[name] = mutated(parts[name], draw)

            rewritten(path, change)
        else:
            path.write_bytes(mutated(path.read_bytes(), draw))
    block = Block(pa.Table.from_pandas(rows, preserve_index=False), np.arange(len(rows)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            load_candidate(path, features=["age", "hours", "work"]).answer(block, everything=True)
        except WidemarginError:
            return True
    return False


_MODELS = {}


def skops_model(kind):
    if kind not in _MODELS:
        last = RandomForestClassifier(3, max_depth=3, random_state=0) if kind == "tree" else None
        _MODELS[kind] = skops.io.dumps(linear_pipeline(frame(200), last))
    return _MODELS[kind]


def onnx_model():
    if "onnx" not in _MODELS:
        pytest.importorskip("onnxruntime")
        _MODELS["onnx"] = onnx_bytes(linear_pipeline(frame(200)))
    return _MODELS["onnx"]


def test_mutated_model_files_end_in_the_documented_error_or_an_answer(tmp_path):
    refused = [spoiled(tmp_path, number) for number in range(42)]
    assert sum(refused) > 10


@pytest.mark.slow
def test_five_hundred_mutated_model_files(tmp_path):
    refused = [spoiled(tmp_path, number) for number in range(42, 542)]
    assert sum(refused) > 100
