"""ONNX files decide like the models they were made from."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from widemargin import (
    GoalReduction,
    GoalThresholdClassifier,
    KernelSVC,
    MarginPursuitClassifier,
    MulticlassSVC,
    MultiLabelSVC,
    RateConstrainedClassifier,
    RiskClassifier,
    SBPClassifier,
)
from widemargin.cli.onnx_model import OnnxModel
from widemargin.cli.tables.table_files import Block
from widemargin.exceptions import CapabilityError, ModelFileError
from widemargin.persistence import to_onnx
from widemargin.preprocessing import make_preprocessor

onnxruntime = pytest.importorskip("onnxruntime")

FLOOR = "subject to recall() >= 0.8"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 4)) * [1.0, 2.0, 0.5, 1.0] + [0.0, 3.0, 0.0, 0.0]
    score = X[:, 0] + X[:, 2] ** 2 + 0.3 * rng.normal(size=160)
    return X, np.where(score > 0.5, "yes", "no"), np.digitize(score, [0.0, 0.7])


def run(path, X):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    return session.run(["label", "scores"], {"X": X})


MODELS = {
    "linear": RateConstrainedClassifier(FLOOR),
    "other side": RateConstrainedClassifier(FLOOR, pos_label="no"),
    "rbf": RateConstrainedClassifier(FLOOR, kernel="rbf"),
    "pursuit": MarginPursuitClassifier(),
    "risk": RiskClassifier("cvar"),
    "pursuit rbf": MarginPursuitClassifier(kernel="rbf"),
    "svc rbf": KernelSVC(gamma=0.4),
    "svc poly": KernelSVC(kernel="poly", coef0=1.0),
    "svc sigmoid": KernelSVC(kernel="sigmoid", gamma=0.05),
    "svc linear": KernelSVC(kernel="linear"),
    "sbp": SBPClassifier(nu=0.05, gamma=0.4, random_state=0),
    "score of each class": MulticlassSVC(),
    "threshold": GoalThresholdClassifier(LogisticRegression(), FLOOR, random_state=0),
    "threshold of ours": GoalThresholdClassifier(MarginPursuitClassifier(), FLOOR, pos_label="no", random_state=0),
    "fourier": RateConstrainedClassifier(
        FLOOR, kernel="rbf", feature_map="fourier", solver_options={"n_components": 40}, random_state=0
    ),
    "nystroem": RateConstrainedClassifier(
        FLOOR, kernel="rbf", feature_map="nystroem", solver_options={"n_components": 30}, random_state=0
    ),
    "nystroem poly": MarginPursuitClassifier(
        kernel="poly",
        feature_map="nystroem",
        n_components=15,
        random_state=0,
        solver_options={"degree": 2, "coef0": 1.0},
    ),
    "threshold of features": GoalThresholdClassifier(
        MarginPursuitClassifier(kernel="rbf", feature_map="nystroem", n_components=20, random_state=0),
        FLOOR,
        random_state=0,
    ),
    "pipeline": make_pipeline(StandardScaler(), PCA(3), RateConstrainedClassifier(FLOOR)),
}


@pytest.mark.filterwarnings("ignore::widemargin.exceptions.GoalWarning", "ignore::widemargin.exceptions.KernelWarning")
@pytest.mark.parametrize("name", MODELS)
def test_two_classes(data, name, tmp_path):
    X, y, _ = data
    model = MODELS[name].fit(X, y)
    to_onnx(model, tmp_path / "m.onnx")
    new = np.random.default_rng(1).normal(size=(300, 4)) * 2
    label, scores = run(tmp_path / "m.onnx", new)
    wanted = model.decision_function(new)
    assert np.allclose(scores, wanted, rtol=1e-7, atol=1e-7 * np.abs(wanted).max())
    sure = np.abs(wanted) > 1e-6
    assert label[sure].tolist() == model.predict(new)[sure].tolist()
    assert len(set(label)) == 2


@pytest.mark.parametrize(
    "model",
    [KernelSVC(solver_options={"multi_class": "ovr"}), MarginPursuitClassifier(), KernelSVC(),
     KernelSVC(break_ties=True), KernelSVC(kernel="poly", decision_function_shape="ovo")],
)  # fmt: skip
def test_several_classes(data, model, tmp_path):
    X, _, y = data
    model.fit(X, y)
    to_onnx(model, tmp_path / "m.onnx")
    label, scores = run(tmp_path / "m.onnx", X)
    assert np.allclose(scores, model.decision_function(X), rtol=1e-7, atol=1e-7)
    assert label.dtype == np.int64 and label.tolist() == model.predict(X).tolist()


def test_a_score_of_zero_is_decided_as_by_predict(tmp_path):
    X = np.array([[-1.0], [1.0]])
    for pos_label in (0, 1):
        model = RateConstrainedClassifier(pos_label=pos_label).fit(X, [0, 1])
        model.intercept_ = np.zeros(1)
        to_onnx(model, tmp_path / "m.onnx")
        assert run(tmp_path / "m.onnx", np.zeros((1, 1)))[0].tolist() == model.predict(np.zeros((1, 1))).tolist()


def test_sparse_support_vectors(data, tmp_path):
    X, y, _ = data
    model = KernelSVC(gamma=0.4).fit(sparse.csr_matrix(X), y)
    to_onnx(model, tmp_path / "m.onnx")
    assert np.allclose(run(tmp_path / "m.onnx", X)[1], model.decision_function(sparse.csr_matrix(X)), atol=1e-7)


REFUSED = {
    "feature map": (
        lambda X, y, z: RateConstrainedClassifier(
            FLOOR, kernel="laplacian", feature_map="nystroem", solver_options={"n_components": 20}).fit(X, y),
        "the kernel 'laplacian' of a feature map",
    ),
    "kernel": (lambda X, y, z: KernelSVC(kernel="laplacian").fit(X, y), "the kernel 'laplacian' cannot be"),
    "groups": (
        lambda X, y, z: GoalThresholdClassifier(
            LogisticRegression(), "subject to positive_rate() <= 0.9", per_population="g", pos_label="yes",
            random_state=0,
        ).fit(X, y, populations=_groups(len(X))), "thresholds of several populations",
    ),
    "abstention": (
        lambda X, y, z: GoalThresholdClassifier(
            LogisticRegression(), "minimize coverage(abstain=True)\nsubject to selective_error() <= 0.5",
            abstain="unsure", random_state=0,
        ).fit(X, y), "rows left undecided \\(abstain='unsure'\\)",
    ),
    "label sets": (
        lambda X, y, z: MultiLabelSVC().fit(X, np.column_stack([z > 0, z > 1]).astype(int)), "MultiLabelSVC cannot be",
    ),
    "averaged kernel models": (
        lambda X, y, z: GoalReduction(KernelSVC(), FLOOR, random_state=0).fit(X, y), "KernelSVC cannot be written",
    ),
    "tree": (lambda X, y, z: DecisionTreeClassifier().fit(X, y), "DecisionTreeClassifier cannot be"),
    "behind a table": (
        lambda X, y, z: make_pipeline(make_preprocessor(), PCA(1), RateConstrainedClassifier()).fit(_groups(len(X)), y),
        "steps between table and model",
    ),
    "column called label": (
        lambda X, y, z: make_pipeline(make_preprocessor(), RateConstrainedClassifier()).fit(
            _groups(len(X)).rename(columns={"g": "label"}), y), "column 'label' has a name that the graph needs",
    ),
    "empty word": (
        lambda X, y, z: make_pipeline(make_preprocessor(), RateConstrainedClassifier()).fit(
            _groups(len(X)).replace("a", ""), y), "an empty text is one of its words",
    ),
}  # fmt: skip


def _groups(n):
    import pandas as pd

    return pd.DataFrame({"g": ["a", "b"] * (n // 2)})


@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_counterpart_is_named(data, kind, tmp_path):
    make, text = REFUSED[kind]
    model = make(*data)
    with pytest.raises(CapabilityError, match=text):
        to_onnx(model, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_flags_are_labels_too(data, tmp_path):
    model = KernelSVC().fit(data[0], data[1] == "yes")
    to_onnx(model, tmp_path / "m.onnx")
    assert run(tmp_path / "m.onnx", data[0])[0].tolist() == model.predict(data[0]).tolist()


def test_refused_before_the_file(data, tmp_path):
    with pytest.raises(NotFittedError):
        to_onnx(KernelSVC(), tmp_path / "m.onnx")
    with pytest.raises(ModelFileError, match="cannot be written"):
        to_onnx(KernelSVC().fit(data[0], data[1]), tmp_path / "no" / "m.onnx")


def table(n, seed=0):
    """Numbers, words and flags, some missing, with values that later tables do not know."""
    rng = np.random.default_rng(seed)
    columns = {
        "age": [None if rng.random() < 0.1 else float(value) for value in rng.integers(18, 70, n)],
        "gain": np.where(rng.random(n) < 0.8, 0.0, rng.exponential(1000.0, n)).tolist(),
        "work of": [None if rng.random() < 0.1 else str(word) for word in rng.choice(["own", "state", "a,b"], n)],
        "rare": rng.choice(["x", "y", "z1", "z2"], n, p=[0.6, 0.36, 0.02, 0.02]).tolist(),
        "code": rng.integers(1, 5, n).tolist(),
        "flag": (rng.random(n) < 0.5).tolist(),
    }
    score = np.array([40.0 if age is None else age for age in columns["age"]]) / 10 + np.array(columns["code"])
    return pa.table(columns), np.where(score + rng.normal(size=n) > 6.5, "yes", "no")


@pytest.mark.filterwarnings("ignore::widemargin.exceptions.TableWarning")
@pytest.mark.parametrize("numbers", ["scale", "bins"])
@pytest.mark.parametrize("last", [RateConstrainedClassifier(FLOOR), KernelSVC(gamma=0.1)], ids=["linear", "rbf"])
@pytest.mark.parametrize("word_codes", [False, True])
def test_pipelines_of_tables(tmp_path, numbers, word_codes, last):
    rows, y = table(400)
    step = make_preprocessor(words=["code"], numbers=numbers, n_bins=5, rare_words=20, word_codes=word_codes)
    model = make_pipeline(step, last).fit(rows, y)
    to_onnx(model, tmp_path / "m.onnx")
    new, _ = table(200, seed=1)
    strange = new["rare"].to_pylist()
    strange[:3] = ["never seen", None, "z1"]
    new = new.set_column(3, "rare", pa.array(strange))
    code = new["code"].to_pylist()
    code[0] = 99
    new = new.set_column(4, "code", pa.array(code))
    said = OnnxModel(tmp_path / "m.onnx", None).answer(Block.whole(new), everything=True)
    wanted = model.decision_function(new)
    assert np.allclose(said.scores, wanted, rtol=1e-9, atol=1e-9)
    assert said.labels.tolist() == model.predict(new).tolist() and len(set(said.labels)) == 2


def test_a_table_without_missing_values_or_edges(tmp_path):
    rows = pa.table({"one": [1.0, 1.0, 1.0, 1.0], "word": ["a", "b", "a", "b"]})
    model = make_pipeline(make_preprocessor(numbers="bins"), RateConstrainedClassifier()).fit(rows, [1, 0, 1, 0])
    to_onnx(model, tmp_path / "m.onnx")
    said = OnnxModel(tmp_path / "m.onnx", None).answer(Block.whole(rows), everything=True)
    assert np.allclose(said.scores, model.decision_function(rows)) and said.labels.tolist() == [1, 0, 1, 0]


def people(n, seed=0):
    """Numbers, some missing, and words as a data frame, and labels that follow them."""
    import pandas as pd

    rows, y = table(n, seed)
    frame = pd.DataFrame({"age": rows["age"].to_numpy(), "gain": rows["gain"].to_numpy(),
                          "code": rows["code"].to_numpy().astype(float), "rare": rows["rare"].to_pylist()})  # fmt: skip
    return frame, y


BEFORE = make_column_transformer(
    (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["age", "gain"]),
    (OneHotEncoder(handle_unknown="ignore"), ["rare"]), ("passthrough", ["code"]),
)  # fmt: skip
LASTS = {
    "constrained": RateConstrainedClassifier(FLOOR),
    "kernel": KernelSVC(gamma=0.1),
    "threshold over linear": GoalThresholdClassifier(LogisticRegression(), FLOOR, random_state=0),
    "threshold over forest": GoalThresholdClassifier(RandomForestClassifier(20, random_state=0), FLOOR, random_state=0),
    "threshold over boosting": GoalThresholdClassifier(
        HistGradientBoostingClassifier(max_iter=20), FLOOR, pos_label="no", random_state=0
    ),
    "threshold over svc": GoalThresholdClassifier(SVC(), FLOOR, random_state=0),
    "threshold over network": GoalThresholdClassifier(
        MLPClassifier((8,), max_iter=50, random_state=0), FLOOR, random_state=0
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inside", [False, True], ids=["pipeline of a threshold", "threshold of a pipeline"])
@pytest.mark.parametrize("name", LASTS)
def test_whole_pipelines_of_scikit_learn(tmp_path, name, inside):
    rows, y = people(300)
    model, last = make_pipeline(clone(BEFORE), clone(LASTS[name])), LASTS[name]
    if inside:
        if not isinstance(last, GoalThresholdClassifier):
            pytest.skip("nothing stands over a pipeline here")
        model = clone(last).set_params(estimator=make_pipeline(clone(BEFORE), clone(last.estimator)))
    model.fit(rows, y)
    to_onnx(model, tmp_path / "m.onnx")
    new, _ = people(400, seed=1)
    new.loc[:2, "rare"] = "never seen"
    said = OnnxModel(tmp_path / "m.onnx", None).answer(Block.whole(pa.table(new)), everything=True)
    assert said.labels.tolist() == model.predict(new).tolist()
    assert len(set(said.labels)) == 2
    wanted = model.decision_function(new)
    assert np.allclose(said.scores, wanted, atol=1e-5 * np.abs(wanted).max())


def test_a_threshold_over_a_pipeline_of_numbers_takes_a_matrix(data, tmp_path):
    X, y, _ = data
    scorer = make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=10)).fit(X, y)
    model = GoalThresholdClassifier(scorer, FLOOR, cv="prefit").fit(X, y)
    to_onnx(model, tmp_path / "m.onnx")
    assert run(tmp_path / "m.onnx", X)[0].tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    "imputer", [SimpleImputer(strategy="most_frequent"), SimpleImputer(strategy="constant", fill_value="none"),
                SimpleImputer(missing_values="z1", strategy="most_frequent")],
)  # fmt: skip
def test_missing_words_are_filled_in(tmp_path, imputer):
    rows, y = people(300)
    rows["rare"] = rows["rare"].where(rows["rare"].notna(), np.nan if imputer.missing_values != "z1" else "z1")
    rows["more"] = np.where(y == "yes", "a", "b")
    before = make_column_transformer(
        (make_pipeline(imputer, OneHotEncoder(handle_unknown="ignore")), ["rare", "more"]), ("passthrough", ["code"])
    )
    model = GoalThresholdClassifier(make_pipeline(before, LogisticRegression()), FLOOR, random_state=0).fit(rows, y)
    to_onnx(model, tmp_path / "m.onnx")
    new = rows.assign(more=np.where(np.arange(300) % 3 == 0, "a", "b"))
    if imputer.missing_values != "z1":
        new.loc[:40, "rare"] = np.nan
    said = OnnxModel(tmp_path / "m.onnx", None).answer(Block.whole(pa.table(new)), everything=True)
    assert said.labels.tolist() == model.predict(new).tolist() and len(set(said.labels)) == 2
    assert np.allclose(said.scores, model.decision_function(new), atol=1e-9)


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder(encoded_missing_value=-1)])
def test_a_missing_word_that_an_encoder_has_learned(tmp_path, encoder):
    import pandas as pd

    rows, y = people(300)
    rows["word"] = pd.Series(np.where(y == "yes", "a", "b"), dtype=object).mask(np.arange(300) % 3 == 0)
    before = make_column_transformer((encoder, ["word"]), ("passthrough", ["code"]))
    model = GoalThresholdClassifier(make_pipeline(before, LogisticRegression()), FLOOR, random_state=0).fit(rows, y)
    to_onnx(model, tmp_path / "m.onnx")
    said = OnnxModel(tmp_path / "m.onnx", None).answer(Block.whole(pa.table(rows)), everything=True)
    assert np.allclose(said.scores, model.decision_function(rows), atol=1e-9)


@pytest.mark.parametrize("inside", [False, True], ids=["pipeline of a threshold", "threshold of a pipeline"])
def test_a_threshold_over_a_forest_of_a_table(tmp_path, inside):
    rows, y = table(400)
    step, forest = make_preprocessor(words=["code"]), RandomForestClassifier(20, random_state=0)
    if inside:
        model = GoalThresholdClassifier(make_pipeline(step, forest), FLOOR, random_state=0).fit(rows, y)
    else:
        model = make_pipeline(step, GoalThresholdClassifier(forest, FLOOR, random_state=0)).fit(rows, y)
    to_onnx(model, tmp_path / "m.onnx")
    said = OnnxModel(tmp_path / "m.onnx", None).answer(Block.whole(table(200, seed=1)[0]))
    assert said.labels.tolist() == model.predict(table(200, seed=1)[0]).tolist() and len(set(said.labels)) == 2


MADE_OF_TREES = {
    "tree": DecisionTreeClassifier(max_depth=5, random_state=0),
    "forest": RandomForestClassifier(10, random_state=0),
    "bag": BaggingClassifier(DecisionTreeClassifier(max_depth=5), 5, random_state=0),
    "calibrated": CalibratedClassifierCV(RandomForestClassifier(10, random_state=0), cv=2),
    "boosted": HistGradientBoostingClassifier(max_iter=10),
}


@pytest.mark.parametrize("name", MADE_OF_TREES)
@pytest.mark.parametrize("learned", [True, False], ids=["gaps learned", "gaps new"])
def test_missing_values_go_where_trees_send_them(data, name, learned, tmp_path):
    X, y, _ = data
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X).astype(np.float32).astype(np.float64)
    inner = MADE_OF_TREES[name]
    model = GoalThresholdClassifier(inner, FLOOR, random_state=0).fit(gaps if learned else X, y)
    to_onnx(model, tmp_path / "m.onnx")
    labels, scores = run(tmp_path / "m.onnx", gaps)
    np.testing.assert_allclose(scores, model.decision_function(gaps), atol=1e-5)
    np.testing.assert_array_equal(labels, model.predict(gaps))


AVERAGED = {
    "linear": make_pipeline(StandardScaler(), LogisticRegression()),
    "boosted in one run": HistGradientBoostingClassifier(max_iter=20),
    "forest": RandomForestClassifier(10, random_state=0),
    "bayes": GaussianNB(),
}


@pytest.mark.parametrize("name", AVERAGED)
def test_means_of_models_of_a_reduction(data, name, tmp_path):
    X, y, _ = data
    goal = f"minimize error_rate()\n{FLOOR}\nsubject to positive_rate() <= 0.5"
    model = GoalReduction(AVERAGED[name], goal, random_state=0, on_infeasible="warn").fit(X, y)
    model.estimator_.models = [*model.estimator_.models, model.estimator_.models[0], None]  # a mean, whatever was found
    n = len(model.estimator_.models)
    model.estimator_.shares = np.full(n, 1.0 / n)
    to_onnx(model, tmp_path / "m.onnx")
    labels, scores = run(tmp_path / "m.onnx", X)
    # Older versions of skl2onnx take a probability of 0 for one of 1e-7, whose log odds are flattened.
    np.testing.assert_allclose(scores, model.decision_function(X), atol=0.04 if name == "forest" else 1e-5)
    np.testing.assert_array_equal(labels, model.predict(X))


@pytest.mark.parametrize("kind", ["table of the library", "columns of scikit-learn"])
def test_means_of_models_of_a_table(tmp_path, kind):
    rows, y = table(300)
    if kind == "table of the library":
        model = make_pipeline(make_preprocessor(words=["code"]), GoalReduction(LogisticRegression(), FLOOR)).fit(
            rows, y
        )
    else:
        rows = rows.to_pandas()[["rare", "code"]].astype({"code": float})
        steps = make_column_transformer((OneHotEncoder(), ["rare"]), (StandardScaler(), ["code"]))
        model = GoalReduction(make_pipeline(steps, LogisticRegression()), FLOOR, random_state=0).fit(rows, y)
    to_onnx(model, tmp_path / "m.onnx")
    asked = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows)
    said = OnnxModel(tmp_path / "m.onnx", None).answer(Block.whole(asked), everything=True)
    assert np.allclose(said.scores, model.decision_function(rows), atol=1e-9)
    assert said.labels.tolist() == model.predict(rows).tolist()


WITHOUT_COUNTERPART = {
    "codes": (
        HistGradientBoostingClassifier(max_iter=5, categorical_features=[3]),
        "gives other numbers than the model",
    ),
    "steps": (CalibratedClassifierCV(LogisticRegression(), method="isotonic"), "gives other numbers than the model"),
    "powers": (make_pipeline(PolynomialFeatures(), LogisticRegression()), "onnxruntime cannot read"),
}


@pytest.mark.parametrize("name", WITHOUT_COUNTERPART)
def test_what_skl2onnx_makes_wrong_is_refused(data, name, tmp_path):
    X, y, _ = data
    X = np.column_stack([X[:, :3], np.arange(len(X)) % 5])
    inner, why = WITHOUT_COUNTERPART[name]
    with pytest.raises(CapabilityError, match=why):
        to_onnx(GoalThresholdClassifier(inner, FLOOR, random_state=0).fit(X, y), tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_columns_that_pandas_calls_categories_are_refused(data, tmp_path):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcd")).assign(d=pd.Categorical(np.where(X[:, 3] > 0, "u", "v")))
    model = GoalThresholdClassifier(HistGradientBoostingClassifier(max_iter=5), FLOOR, random_state=0).fit(frame, y)
    with pytest.raises(CapabilityError, match="takes no rows of 4 numbers alone"):
        to_onnx(model, tmp_path / "m.onnx")
