"""`solver_options=`: a record or a dict, checked, cloned, searched over, stored, and read from older files."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from widemargin import RateConstrainedClassifier, RateConstrainedClassifierCV, TrainingOptions, load_model, save_model
from widemargin.exceptions import DataError


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=200) > 0).astype(int)


def test_a_dict_and_a_record_train_the_same_model(data):
    record = RateConstrainedClassifier(solver_options=TrainingOptions(tol=1e-6, fit_intercept=False)).fit(*data)
    plain = RateConstrainedClassifier(solver_options={"tol": 1e-6, "fit_intercept": False}).fit(*data)
    np.testing.assert_array_equal(record.coef_, plain.coef_)
    assert record.intercept_[0] == plain.intercept_[0] == 0.0
    assert record.subproblem_gap_ <= 1e-6


@pytest.mark.parametrize("made", [RateConstrainedClassifier, RateConstrainedClassifierCV])
def test_unknown_options_and_wrong_values_are_refused(data, made):
    with pytest.raises(DataError, match=r"no option 'tolerance'; there are solver, tol, "):
        made(solver_options={"tolerance": 1.0}).fit(*data)
    with pytest.raises(ValueError, match="'tol' parameter of TrainingOptions must be a float in the range"):
        made(solver_options={"tol": -1.0}).fit(*data)
    with pytest.raises(ValueError, match="'solver' parameter of TrainingOptions must be a str among"):
        TrainingOptions(solver="magic")


def test_options_are_cloned_searched_over_and_shown(data):
    options = TrainingOptions(step_tol=1e-2)
    assert clone(RateConstrainedClassifier(solver_options=options)).solver_options == options
    search = GridSearchCV(RateConstrainedClassifier(), {"solver_options": [{"tol": 1e-3}, options]}, cv=2).fit(*data)
    assert search.best_params_["solver_options"] in ({"tol": 1e-3}, options)
    assert repr(options) == "TrainingOptions(step_tol=0.01)"
    assert TrainingOptions.of(None) == TrainingOptions()


def test_options_are_stored_with_the_model(data, tmp_path):
    model = RateConstrainedClassifier(solver_options=TrainingOptions(tol=1e-3, solver="newton")).fit(*data)
    save_model(model, tmp_path / "model.skops")
    assert load_model(tmp_path / "model.skops").get_params() == model.get_params()


def test_models_stored_when_options_were_parameters_are_read():
    model = RateConstrainedClassifier.__new__(RateConstrainedClassifier)
    model.__setstate__({"C": 0.5, "tol": 1e-5, "degree": 2, "verbose": 0})
    assert (model.C, model.max_steps) == (0.5, 5)
    assert TrainingOptions.of(model.solver_options) == TrainingOptions(tol=1e-5, degree=2)
