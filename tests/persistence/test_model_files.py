"""Save and load: the same predictions, a refusal with a reason for anything else, and never any code from a file."""

import io
import json
import os
import pickle
import re
import stat
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import widemargin
from widemargin import GoalThresholdClassifier, MarginPursuitClassifier
from widemargin.exceptions import ModelFileError, ModelFileWarning
from widemargin.goals import Goal, error_rate, recall
from widemargin.persistence import FORMAT, load_model, model_info, save_model
from widemargin.persistence.container import pack, unpack
from widemargin.preprocessing import make_preprocessor


def rewritten(path, change):
    """Change the parts of a model file and give it a right checksum again: what a hostile writer would do."""
    parts = unpack(path.read_bytes(), "test")
    change(parts)
    path.write_bytes(pack(parts))
    return path


def changed_info(**values):
    def change(parts):
        parts["widemargin.json"] = json.dumps({**json.loads(parts["widemargin.json"]), **values}).encode()

    return change


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 60, 60)
    age[3] = np.nan
    work = [None if i == 5 else ["own", "state", "private"][i % 3] for i in range(60)]
    return pa.table({"age": age, "work": work, "citizen": rng.random(60) > 0.5})


@pytest.fixture(scope="module")
def labels(table):
    return np.where(np.nan_to_num(table["age"].to_numpy()) > 40, ">50K", "<=50K")


@pytest.fixture
def model(table, labels):
    return Pipeline([("table", make_preprocessor()), ("model", LinearSVC())]).fit(table, labels)


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "model.skops"
    save_model(model, path, metadata={"note": "ü", "rows": 60})
    return path


@pytest.mark.parametrize("numbers", ["scale", "bins"])
@pytest.mark.parametrize(
    "last", [LinearSVC(), LogisticRegression(), DummyClassifier()], ids=lambda last: type(last).__name__
)
def test_a_loaded_pipeline_decides_the_same(table, labels, numbers, last, tmp_path):
    model = Pipeline([("table", make_preprocessor(words=(), numbers=numbers)), ("model", last)]).fit(table, labels)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    if hasattr(model, "decision_function"):
        np.testing.assert_array_equal(loaded.decision_function(table), model.decision_function(table))
    assert loaded[0].schema_ == model[0].schema_
    assert loaded[0].get_feature_names_out().tolist() == model[0].get_feature_names_out().tolist()


def test_pipelines_of_scikit_learns_own_steps_are_files_too(tmp_path):
    X = np.array([[0, 1.5, 2, 3], [1, np.nan, 4, 1], [0, 2.5, 0, 2], [2, 0.5, 1, 0]] * 5)
    y = np.array([0, 1, 0, 1] * 5)
    steps = ColumnTransformer(
        [
            ("word", OneHotEncoder(handle_unknown="ignore"), [0]),
            ("number", Pipeline([("fill", SimpleImputer(add_indicator=True)), ("scale", StandardScaler())]), [1]),
            ("range", MinMaxScaler(), [2]),
            ("size", MaxAbsScaler(), [3]),
        ]
    )
    model = Pipeline([("columns", steps), ("model", LogisticRegression(random_state=np.random.RandomState(0)))]).fit(
        X, y
    )
    save_model(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "m.skops").predict_proba(X), model.predict_proba(X))


def test_the_public_names_are_these():
    assert widemargin.save_model is save_model
    assert widemargin.load_model is load_model


def test_the_file_describes_itself(saved, model):
    info = model_info(saved)
    assert info.format == FORMAT == 1
    assert info.model == "Pipeline(TablePreprocessor, LinearSVC)"
    assert info.classes == ["<=50K", ">50K"]
    assert info.features == ["age", "work", "citizen"]
    assert info.goal is None
    assert info.metadata == {"note": "ü", "rows": 60}
    assert set(info.libraries) == {"python", "widemargin", "numpy", "scipy", "scikit-learn", "skops"}


def test_goals_are_stored_as_text_and_come_back_equal(table, labels, tmp_path):
    goal = Goal(error_rate(), [(recall() >= 0.6).named("floor")])
    model = LinearSVC().fit(np.eye(2), [0, 1])
    model.goal = goal
    model.seen_ = {"goals": [goal, (goal, "text")]}
    save_model(model, tmp_path / "m.skops")
    assert model.goal is goal  # the model itself is left alone
    assert model_info(tmp_path / "m.skops").goal == str(goal)
    loaded = load_model(tmp_path / "m.skops")
    assert loaded.goal == goal
    assert loaded.seen_ == model.seen_
    assert b"widemargin.goals" not in unpack((tmp_path / "m.skops").read_bytes(), "test")["schema.json"]


def test_files_name_classes_by_their_public_home(saved):
    schema = json.loads(unpack(saved.read_bytes(), "test")["schema.json"])
    names = re.findall(r'"__module__": "(widemargin[^"]*)"', json.dumps(schema))
    assert set(names) == {"widemargin"}


def test_classes_that_have_moved_since_are_found(saved, model, table):
    def change(parts):
        schema = parts["schema.json"]
        assert b'"widemargin"' in schema
        parts["schema.json"] = schema.replace(b'"widemargin"', b'"widemargin.where.it.was"')

    loaded = load_model(rewritten(saved, change))
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))


def test_parameters_that_have_moved_or_are_new_are_filled_in(tmp_path):
    model = MarginPursuitClassifier().fit(np.eye(4), [0, 1, 0, 1])
    del model.tol
    vars(model).update(delta=0.1, degree=2)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    assert loaded.solver_options == {"delta": 0.1, "degree": 2}
    assert loaded.tol == MarginPursuitClassifier().tol
    assert not hasattr(loaded, "delta") and not hasattr(loaded, "degree")


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(LinearSVC(), tmp_path / "m.skops")
    assert not list(tmp_path.iterdir())


def test_what_a_file_may_not_hold_is_refused_when_saving(table, labels, tmp_path):
    step = FunctionTransformer(np.log1p).fit(np.eye(2))
    model = Pipeline([("log", step), ("model", LinearSVC())]).fit(np.eye(2), [0, 1])
    with pytest.raises(ModelFileError, match=r"m\.skops: model.*FunctionTransformer.*may not hold"):
        save_model(model, tmp_path / "m.skops")
    model = LinearSVC().fit(np.eye(2), [0, 1])
    model.extra = open
    with pytest.raises(ModelFileError, match=r"open"):
        save_model(model, tmp_path / "m.skops")
    assert not list(tmp_path.iterdir())


def test_metadata_must_be_plain(model, tmp_path):
    with pytest.raises(ModelFileError, match="cannot be stored as JSON"):
        save_model(model, tmp_path / "m.skops", metadata={"x": object()})


def test_a_file_is_written_whole_or_not_at_all(model, tmp_path, monkeypatch):
    path = tmp_path / "m.skops"
    path.write_bytes(b"older")

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ModelFileError, match=r"m\.skops: the file cannot be written \(No space left"):
        save_model(model, path)
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


def test_an_older_file_is_replaced_and_rights_follow_the_umask(model, tmp_path):
    path = tmp_path / "m.skops"
    path.write_bytes(b"older")
    save_model(model, path)
    assert load_model(path).classes_.tolist() == ["<=50K", ">50K"]
    other = tmp_path / "plain"
    other.write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_folder_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(ModelFileError, match=r"absent.*cannot be written \(No such file"):
        save_model(model, tmp_path / "absent" / "m.skops")


# What is no model file


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"none\.skops: the file cannot be read \(No such file"):
        load_model(tmp_path / "none.skops")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"PK", pickle.dumps({"a": 1}), bytes(range(256)) * 10],
    ids=["empty", "text", "two bytes", "pickle", "noise"],
)
def test_foreign_files_are_refused(content, tmp_path):
    path = tmp_path / "m.skops"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"m\.skops: (no widemargin model file|the file is cut off)"):
        load_model(path)
    with pytest.raises(ModelFileError):
        model_info(path)


def test_files_of_skops_and_plain_archives_are_refused(model, tmp_path):
    path = tmp_path / "m.skops"
    skops.io.dump(LinearSVC().fit(np.eye(2), [0, 1]), path)
    with pytest.raises(ModelFileError, match="no widemargin model file"):
        load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(ModelFileError, match="no widemargin model file"):
        load_model(path)


def test_a_file_that_is_cut_off_is_refused_wherever_the_cut_is(saved):
    data = saved.read_bytes()
    for length in [*range(0, len(data), max(1, len(data) // 60)), len(data) - 1]:
        saved.write_bytes(data[:length])
        with pytest.raises(
            ModelFileError, match=r"model\.skops: (the file is cut off|no widemargin|the file is damaged)"
        ):
            load_model(saved)


def test_any_changed_byte_is_noticed(saved):
    data = saved.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(data), 200):
        damaged = bytearray(data)
        damaged[place] ^= 1 << (place % 8)
        saved.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            load_model(saved)


def test_a_newer_format_is_named(saved):
    rewritten(saved, changed_info(format=2))
    with pytest.raises(ModelFileError, match=r"format 2 is newer than 1.*Upgrade widemargin"):
        load_model(saved)
    with pytest.raises(ModelFileError, match="format 2 is newer"):
        model_info(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: parts.pop("widemargin.json"),
        lambda parts: parts.pop("schema.json"),
        lambda parts: parts.update({"widemargin.json": b"{}"}),
        lambda parts: parts.update({"widemargin.json": b"[1]"}),
        lambda parts: parts.update({"widemargin.json": b"\xff"}),
        lambda parts: parts.update({"widemargin.json": b"[" * 100_000}),
        lambda parts: parts.update({"schema.json": b"[" * 100_000}),
        lambda parts: parts.update({"schema.json": b"{}"}),
        lambda parts: parts.update({"schema.json": b"[]"}),
        lambda parts: parts.update({name: b"" for name in parts if name.endswith(".npy")}),
        changed_info(format="1"),
        changed_info(format=0),
        changed_info(format=True),
        changed_info(libraries=3),
        changed_info(goal=["recall"]),
        changed_info(more=1),
    ],
)
def test_wrong_parts_under_a_right_checksum_are_refused(saved, change):
    with pytest.raises(ModelFileError, match=r"model\.skops: "):
        load_model(rewritten(saved, change))


def test_a_file_without_a_model_is_refused(saved):
    def change(parts):
        with zipfile.ZipFile(io.BytesIO(skops.io.dumps({"a": 1}))) as archive:
            parts["schema.json"] = archive.read("schema.json")

    with pytest.raises(ModelFileError, match="holds a dict, no model"):
        load_model(rewritten(saved, change))


# Hostile files: everything is well-formed, the checksum is right, and nothing of it may run


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch evil-was-here",)


def hostile_nodes():
    """Nodes by which skops can be made to import, call or build things."""
    string = {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": '"touch evil-was-here"',
    }
    arguments = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": [string]}
    nothing = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": {}}
    nothing["key_types"] = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": []}
    system = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}
    yield "function", system
    yield "type", {"__class__": "Popen", "__module__": "subprocess", "__loader__": "TypeNode"}
    yield "ufunc", {"__class__": "exp", "__module__": "numpy", "__loader__": "FunctionNode"}
    yield "constructor", {
        "__class__": "system", "__module__": "os", "__loader__": "ConstructorFromReduceNode", "content": arguments,
    }  # fmt: skip
    yield "partial", {
        "__class__": "partial", "__module__": "functools", "__loader__": "PartialNode",
        "content": {"func": system, "args": arguments, "kwds": nothing, "namespace": nothing},
    }  # fmt: skip
    yield (
        "operator",
        {"__class__": "methodcaller", "__module__": "operator", "__loader__": "OperatorFuncNode", "attrs": arguments},
    )
    yield "object", {"__class__": "Popen", "__module__": "subprocess", "__loader__": "ObjectNode", "content": nothing}
    yield "module", {"__class__": "x", "__module__": "evil_module", "__loader__": "ObjectNode", "content": nothing}
    yield "estimator", {
        "__class__": "SVC", "__module__": "sklearn.svm._classes", "__loader__": "ObjectNode", "content": nothing,
    }  # fmt: skip
    yield "method", {
        "__class__": "LinearSVC", "__module__": "sklearn.svm._classes", "__loader__": "MethodNode",
        "content": {"func": "fit", "obj": {**nothing, "__loader__": "ObjectNode", "__class__": "LinearSVC",
                                           "__module__": "sklearn.svm._classes"}},
    }  # fmt: skip
    yield "namedtuple", {"__class__": "system", "__module__": "os", "__loader__": "TupleNode", "content": [string]}
    yield "list type", {"__class__": "system", "__module__": "os", "__loader__": "ListNode", "content": [string]}
    yield "dict type", {**nothing, "__class__": "system", "__module__": "os"}
    yield "array type", {
        "__class__": "system", "__module__": "os", "__loader__": "NdArrayNode", "type": "json", "content": [],
        "shape": arguments,
    }  # fmt: skip
    yield "unknown loader", {"__class__": "str", "__module__": "builtins", "__loader__": "EvalNode", "content": "1"}
    yield (
        "loader that is no text",
        {"__class__": "str", "__module__": "builtins", "__loader__": ["JsonNode"], "content": "1"},
    )


@pytest.mark.parametrize("node", [pytest.param(node, id=name) for name, node in hostile_nodes()])
def test_nothing_in_a_hostile_file_is_imported_or_called(saved, node, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_module.py").write_text("open('evil-was-here', 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)

    def change(parts):
        schema = json.loads(parts["schema.json"])
        schema["content"]["content"]["steps"] = node
        parts["schema.json"] = json.dumps(schema).encode()

    with pytest.raises(ModelFileError, match=r"model\.steps is a .*which a model file may not hold"):
        load_model(rewritten(saved, change))
    assert not Path("evil-was-here").exists()


def test_a_pickled_array_is_not_unpickled(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.array([Evil()], dtype=object), allow_pickle=True)

    def change(parts):
        parts.update({name: buffer.getvalue() for name in parts if name.endswith(".npy")})

    with pytest.raises(ModelFileError, match="cannot be built"):
        load_model(rewritten(saved, change))
    assert not Path("evil-was-here").exists()


def test_hostile_nodes_are_found_at_any_depth(saved):
    node = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}
    for _ in range(300):
        node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [node]}

    def change(parts):
        schema = json.loads(parts["schema.json"])
        schema["content"]["content"]["steps"] = node
        parts["schema.json"] = json.dumps(schema).encode()

    with pytest.raises(ModelFileError, match=r"os\.system"):
        load_model(rewritten(saved, change))


def test_too_much_is_refused_before_it_is_unpacked(saved, monkeypatch):
    rewritten(saved, lambda parts: parts.update({"big.npy": b"0" * 3_000_000}))  # packs into some thousand bytes
    assert saved.stat().st_size < 200_000
    monkeypatch.setattr("widemargin.persistence.container.MAX_BYTES", 200_000)
    with pytest.raises(ModelFileError, match=r"at most 10000 parts and 200000 bytes"):
        load_model(saved)
    monkeypatch.setattr("widemargin.persistence.container.MAX_BYTES", 1000)
    with pytest.raises(ModelFileError, match="larger than 1000 bytes"):
        load_model(saved)


def test_an_array_that_claims_to_be_huge_is_refused(saved):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)})

    def change(parts):
        parts.update({name: buffer.getvalue() for name in parts if name.endswith(".npy")})

    with pytest.raises(ModelFileError, match="cannot be built"):
        load_model(rewritten(saved, change))


def test_mutated_parts_under_a_right_checksum_end_in_the_documented_error_or_load(saved):
    parts = unpack(saved.read_bytes(), "test")
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        name = str(rng.choice(list(parts)))
        content = bytearray(parts[name])
        for _ in range(int(rng.integers(1, 4))):
            content[int(rng.integers(len(content)))] = int(rng.integers(256))
        saved.write_bytes(pack({**parts, name: bytes(content)}))
        try:
            load_model(saved)
        except ModelFileError:
            refused += 1
    assert refused > 50


def test_another_version_of_scikit_learn_is_told(saved):
    def change(parts):
        schema = parts["schema.json"].decode()
        info = json.loads(parts["widemargin.json"])
        now = info["libraries"]["scikit-learn"]
        assert now in schema
        parts["schema.json"] = schema.replace(now, "1.0.0").encode()
        parts["widemargin.json"] = json.dumps(info).encode()

    with pytest.warns(ModelFileWarning, match=r"was written with .*scikit-learn") as caught:
        load_model(rewritten(saved, change))
    assert len(caught) == 1


def test_a_model_that_a_file_may_not_hold_is_named(tmp_path):
    voting = VotingClassifier([("nb", GaussianNB())], voting="soft")
    model = GoalThresholdClassifier(voting, "minimize error_rate()", cv=2).fit([[0.0], [1.0]] * 9, [0, 1] * 9)
    with pytest.raises(ModelFileError, match="VotingClassifier by ObjectNode, which a model file may not hold"):
        save_model(model, tmp_path / "m.skops")
