"""The figures of margin pursuit on small synthetic rows: the runs are what they are called, and can be drawn."""

import numpy as np
import pytest
from scipy.stats import skew

from widemargin import MarginPursuitClassifier
from widemargin.losses import psi_transform
from widemargin_papers.baselines import LinearPegasosClassifier
from widemargin_papers.reproductions import margin_pursuit_fig2, margin_pursuit_fig3, margin_pursuit_fig5
from widemargin_papers.reproductions import margin_pursuit_study as study

FIGURES = {"fig3": margin_pursuit_fig3, "fig5": margin_pursuit_fig5}


@pytest.fixture(scope="module")
def data():
    return study.load(None, True)


@pytest.fixture(scope="module")
def results(data):
    """Settings and two runs of every data set."""
    found = {}
    for name, figure in FIGURES.items():
        settings = figure.settings(True) | {"lambdas": [1e-2, 1e-1], "rows_per_feature": 4}
        found[name] = settings, {key: figure.run(data, settings, key) for key in figure.keys(2)}
    return found


@pytest.fixture(scope="module")
def trial(data):
    return study.draw_trial(data.tasks["cov"], 4, 400, 3)


def test_trials_are_balanced_and_disjoint(data, trial):
    assert trial.X.shape == (4 * 54, 54)
    assert (trial.y > 0).mean() == (trial.y_test > 0).mean() == 0.5
    both = np.concatenate((trial.X, trial.X_test))
    assert np.unique(both, axis=0).shape == both.shape
    other = study.draw_trial(data.tasks["cov"], 4, 400, 4)
    assert not np.array_equal(other.X, trial.X)
    np.testing.assert_array_equal(study.draw_trial(data.tasks["cov"], 4, 400, 3).X, trial.X)


@pytest.mark.parametrize("method", ["pursuit", "pegasos"])
def test_long_runs_end_at_the_solution_of_the_classifier(method, trial):
    n, lam = trial.y.shape[0], 0.05
    found = study.curves(method, trial, lam, [400 * n], 0)["test"]
    models = {
        "pursuit": MarginPursuitClassifier(scale=1.0, C=1.0 / (lam * n), fit_intercept=False),
        "pegasos": LinearPegasosClassifier(1.0 / (lam * n), fit_intercept=False, max_iter=400, random_state=0),
    }
    margins = trial.y_test * models[method].fit(trial.X, trial.y).decision_function(trial.X_test)
    expected = {
        "error": (margins <= 0).mean(),
        "mean": margins.mean(),
        "sd": margins.std(),
        "q95": np.quantile(margins, 0.95),
    }
    for name, value in expected.items():
        assert found[name][0] == pytest.approx(value, abs=0.03)
    assert found["skewness"][0] == pytest.approx(skew(margins), abs=0.05)


def test_rescaling_changes_what_follows_only(trial):
    n = trial.y.shape[0]
    looks = [10, n, n + 1, 3 * n]
    courses = [
        study.curves("pursuit", trial, 1e-4, looks, 0, **options)["train"]["sd"]
        for options in ({}, {"rescale_after": n}, {"rescale_after": n, "squared": False})
    ]
    fixed, squared, plain = courses
    assert fixed[:2] == squared[:2] == plain[:2]
    assert fixed[3] < squared[3]  # a larger scale makes longer steps
    assert plain[3] < fixed[3]


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_seed_gives_the_same_numbers(data, results, name):
    settings, runs = results[name]
    again = FIGURES[name].run(data, settings, "ijcnn1, seed 1")
    found = runs["ijcnn1, seed 1"]
    assert {key: value for key, value in again.items() if key != "seconds"} == {
        key: value for key, value in found.items() if key != "seconds"
    }
    assert again != runs["ijcnn1, seed 0"]


@pytest.mark.parametrize("name", FIGURES)
def test_summary_table_and_figure(results, name):
    figure, (settings, runs) = FIGURES[name], results[name]
    summary = figure.summarise(settings, runs)
    text = figure.table(summary)
    for task, title in study.TITLES.items():
        content = summary[task]
        assert content["title"] == f"synthetic rows for {title}"
        assert content["title"] in text
        for method, label in figure.METHODS.items():
            assert label in text
            assert len(content[method]["test"]["error"]["mean"]) == len(content["cost"])
    drawn = figure.draw(summary)
    assert len(drawn.axes) == 4 * (4 if name == "fig3" else 3)
    assert drawn.axes[0].get_xlabel().startswith("gradients")
    labels = [text.get_text() for text in drawn.axes[0].get_legend().get_texts()]
    assert [label.split(", lambda")[0] if name == "fig3" else label for label in labels] == list(
        figure.METHODS.values()
    )


def test_the_best_lambda_has_the_lowest_mean_error_on_the_way(results):
    settings, runs = results["fig3"]
    several = [run for key, run in runs.items() if key.startswith("cov")]
    lowest = {
        lam: np.mean([run["pegasos"][str(lam)]["test"]["error"] for run in several], axis=0).min()
        for lam in settings["lambdas"]
    }
    assert study.best_lambda(several, "pegasos", settings["lambdas"]) == min(lowest, key=lowest.get)


def test_the_transform_is_drawn_with_its_inverse():
    settings = margin_pursuit_fig2.settings(True)
    data = margin_pursuit_fig2.load(None, True)
    runs = {key: margin_pursuit_fig2.run(data, settings, key) for key in margin_pursuit_fig2.keys(1)}
    summary = margin_pursuit_fig2.summarise(settings, runs)
    for gamma, (value, theta) in zip(summary["margin_levels"], summary["inverse"], strict=True):
        np.testing.assert_allclose(psi_transform(np.array(theta), gamma), value, atol=1e-4)
    grown = np.array(summary["grown"])
    assert (grown[:, -1] > 0.02).all()  # it bottoms out above 0
    np.testing.assert_allclose(grown[:, -1], grown[:, -2], rtol=0.02)
    assert "Psi(0.5)" in margin_pursuit_fig2.table(summary)
    assert len(margin_pursuit_fig2.draw(summary).axes) == 5  # with the bar of colours
