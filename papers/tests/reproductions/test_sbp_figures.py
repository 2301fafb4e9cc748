"""The batch perceptron's figures on small synthetic rows: what is measured is what it is called, and can be drawn."""

import numpy as np
import pytest
from sklearn.svm import SVC

from widemargin.exceptions import MissingDataError
from widemargin_papers.reproductions import kernel_study as study
from widemargin_papers.reproductions import sbp_fig2, sbp_fig3, sbp_table

FIGURES = {"fig2": sbp_fig2, "fig3": sbp_fig3, "table": sbp_table}


@pytest.fixture(scope="module")
def data():
    return study.load_with_forest(None, True)


@pytest.fixture(scope="module")
def results(data):
    """Settings and runs of every figure, two seeds of each task."""
    found = {}
    for name, figure in FIGURES.items():
        settings = figure.settings(True) | {"train_rows": 120}
        found[name] = settings, {key: figure.run(data, settings, key) for key in figure.keys(2)}
    return found


def without_seconds(run):
    return {key: value for key, value in run.items() if key != "seconds"}


@pytest.mark.parametrize("name", ["fig2", "fig3"])
def test_the_same_seed_gives_the_same_numbers(data, results, name):
    settings, runs = results[name]
    again = FIGURES[name].run(data, settings, "mnist, seed 1")
    assert without_seconds(again) == without_seconds(runs["mnist, seed 1"])
    assert without_seconds(again) != without_seconds(runs["mnist, seed 0"])


def test_exact_methods_end_at_the_optimum(results):
    _, runs = results["fig2"]
    for found in runs.values():
        for method in ("smo", "dual"):
            assert found["error"][method][-1] == pytest.approx(found["optimum"], abs=0.004)
        assert set(found["error"]) == set(sbp_fig2.METHODS)


def test_both_averages_of_a_method_are_shown(results):
    _, runs = results["fig2"]
    for found in runs.values():
        for method in sbp_fig2.AVERAGED:
            assert found["error"][method] != found["error"][f"{method} weighted"]


def test_fourier_features_cost_k_n_and_the_batch_perceptron_n_a_step(results):
    settings, runs = results["fig3"]
    summary = sbp_fig3.summarise(settings, runs)
    assert summary["adult"]["rows"]["fourier"] == [1, 2, 4, 8, 16, 32, 64]
    assert summary["adult"]["rows"]["sbp"][0] == 1.0
    assert summary["adult"]["rows"]["sbp"][-1] == 120.0 * settings["epochs"]
    for name in study.TITLES:
        error = summary[name]["error"]["fourier"]["mean"]
        assert error[-1] < error[0]


def test_the_table_has_libsvms_error_and_a_quarter_of_its_time(data, results):
    _, runs = results["table"]
    task = study.drawn_rows(data.tasks["adult"], 120, 1)
    peer = SVC(C=100.0, gamma=0.005).fit(task.X, task.y)
    expected = (peer.predict(task.X_test) != task.y_test).mean()
    methods = runs["adult, seed 1"]["methods"]
    assert methods["libsvm"]["error"] == pytest.approx(expected, abs=1e-3)
    assert methods["dual"]["error"] == pytest.approx(expected, abs=0.01)
    assert all(method["seconds"] > 0.0 for method in methods.values())


@pytest.mark.parametrize("name", FIGURES)
def test_summary_table_and_figure(results, name):
    figure = FIGURES[name]
    settings, runs = results[name]
    summary = figure.summarise(settings, runs)
    text = figure.table(summary)
    wanted = study.TITLES | (study.FOREST if name == "table" else {})
    for task, title in wanted.items():
        assert summary[task]["runs"] == (1 if task == "whole forest" else 2)
        assert f"synthetic rows like {title}" in text
    assert "1980 s" not in text  # the paper's numbers are not of these rows
    for label in figure.METHODS.values():
        assert label in text
    if name == "table":  # which takes days there
        assert "libsvm" not in summary["whole forest"]["methods"] and "libsvm" in summary["forest"]["methods"]
    drawn = figure.draw(summary)
    heads = [axes.get_title(loc="left").split(",")[0] for axes in drawn.axes]
    assert heads == [f"synthetic rows like {title.split(',')[0]}" for title in wanted.values()]
    real = figure.summarise(settings | {"data": "real"}, runs)
    assert "synthetic" not in figure.table(real) and all(title in figure.table(real) for title in wanted.values())
    assert "synthetic" not in figure.draw(real).axes[0].get_title(loc="left")
    labels = [text.get_text() for text in drawn.axes[0].get_legend().get_texts()]
    assert set(figure.METHODS.values()) <= set(labels)


def test_means_are_those_of_the_runs(results):
    settings, runs = results["fig2"]
    content = sbp_fig2.summarise(settings, runs)["adult"]
    errors = [runs[f"adult, seed {seed}"]["error"]["sbp"][-1] for seed in range(2)]
    assert content["error"]["sbp"]["mean"][-1] == pytest.approx(np.mean(errors), abs=1e-6)
    assert content["rows"][-1] == 120.0 * settings["perceptron_epochs"]["adult"]


def test_forest_is_left_out_where_its_data_are_not_there(data, results, monkeypatch):
    settings, runs = results["table"]
    few = study.Study({name: task for name, task in data.tasks.items() if name not in study.FOREST}, "few")
    assert sbp_table.run(few, settings, "forest, seed 0") == {}
    left = {key: {} if "forest" in key else found for key, found in runs.items()}
    summary = sbp_table.summarise(settings, left)
    assert list(summary) == ["adult", "mnist"]
    assert "Forest" not in sbp_table.table(summary) and len(sbp_table.draw(summary).axes) == 2

    def missing(folder):
        raise MissingDataError("not here")

    monkeypatch.setattr(study, "load_covtype", missing)
    monkeypatch.setattr(study, "load", lambda folder, quick: few)
    assert study.load_with_forest(None, False) is few
