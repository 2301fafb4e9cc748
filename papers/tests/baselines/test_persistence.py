"""Model files of the baselines: each is saved, read back, and decides and describes itself as before."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from testing.linear_baselines import classes
from testing.mutated_arrays import fates

from widemargin import load_model, save_model
from widemargin.goals import Population, col
from widemargin_papers import baselines

ONE, OTHER = (Population(f"group_{number}", where=col("group") == number) for number in (0, 1))

MODELS = [
    baselines.LinearPegasosClassifier(random_state=0),
    baselines.LDMClassifier(random_state=0),
    baselines.MarginDistributionClassifier(random_state=0),
    baselines.CatoniRiskClassifier(),
    baselines.MedianOfMeansClassifier(max_iter=50, random_state=0),
    baselines.FourierSVC(gamma=0.5, n_pairs=20, max_iter=1000, random_state=0),
    baselines.NormBallSVC(gamma=0.5, random_state=0),
    baselines.SimbaClassifier(tol=0.6, max_iter=5000, random_state=0),
    baselines.ShiftedSVC("minimize false_positive_rate()\nsubject to recall() >= 0.6"),
    baselines.ZafarClassifier(ONE, OTHER),
]


def test_every_baseline_is_tried():
    listed = {name for name in baselines.__all__ if isinstance(getattr(baselines, name), type)}
    assert {type(model).__name__ for model in MODELS} == listed


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_loaded_baseline_decides_the_same(model, kind, tmp_path):
    X, y = classes(120)
    words, X = np.where(y == 1, "yes", "no"), kind(X)
    extra = {}
    if type(model).__name__ == "ZafarClassifier":
        extra = {"populations": pa.table({"group": np.arange(120) % 3})}
    if type(model).__name__ in ("ZafarClassifier", "ShiftedSVC"):
        model = clone(model).set_params(pos_label="yes")
    clf = clone(model).fit(X, words, **extra)
    save_model(clf, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), clf.decision_function(X))
    assert type(loaded) is type(clf)
    assert {name for name in vars(loaded) if name.endswith("_")} == {name for name in vars(clf) if name.endswith("_")}
    assert str(loaded.get_params()) == str(clf.get_params())
    assert clone(loaded).fit(X, words, **extra).predict(X).shape == (120,)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_no_change_of_an_array_ends_a_process(model, tmp_path):
    X, y = classes(60)
    extra = {"populations": pa.table({"group": np.arange(60) % 3})} if hasattr(model, "first") else {}
    found = fates(clone(model).fit(sp.csr_matrix(X), y, **extra), sp.csr_matrix(X), tmp_path)
    assert [fate for fate in found if fate.end.startswith(("signal", "error"))] == []


def test_a_baseline_of_more_classes(tmp_path):
    X, y = classes(200, n_classes=3)
    clf = make_pipeline(StandardScaler(), baselines.CatoniRiskClassifier()).fit(X, y)
    save_model(clf, tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").decision_function(X), clf.decision_function(X))
