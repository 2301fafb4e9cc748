"""Figure 2 on small synthetic rows: what is measured is what it is called, and it can be drawn."""

import numpy as np
import pytest

from widemargin_papers.data import EDUCATION, MALE, synthetic_a9a
from widemargin_papers.reproductions import dataset_constraints_fig2 as figure


@pytest.fixture(scope="module")
def adult():
    return synthetic_a9a(900)


@pytest.fixture(scope="module")
def result(adult):
    settings = figure.settings(True) | {"inverse_kappa": [1.0, 1.4], "zafar_points": 2}
    return settings, {key: figure.run(adult, settings, key) for key in figure.keys(1)}


def test_the_randomised_rule_keeps_the_ratio_on_the_rows_it_was_trained_on(result):
    settings, runs = result
    assert set(runs) == {
        f"{group}, {rows}" for group in ("gender", "education") for rows in ("all rows", "bootstrap 0")
    }
    for found in runs.values():
        for asked, ratio in zip(settings["inverse_kappa"], found["randomised"]["train"]["ratio"], strict=True):
            assert ratio <= asked + 2e-3


def test_the_same_seed_gives_the_same_numbers(adult, result):
    settings, runs = result
    again = figure.run(adult, settings, "gender, bootstrap 0")
    again["seconds"] = runs["gender, bootstrap 0"]["seconds"]
    assert again == runs["gender, bootstrap 0"]
    assert runs["gender, all rows"]["svm"] != runs["gender, bootstrap 0"]["svm"]


def test_rates_are_those_of_the_rows(adult):
    w = np.zeros(123)
    w[3] = 1.0
    for column in (MALE, EDUCATION):
        rows = figure._Rows(adult, column, np.ones(900))
        store = {part: {"ratio": [], "error": []} for part in ("train", "test")}
        rows.measure(w, store, lambda z: (z > 0).astype(float))
        said, inside = adult.X_test.toarray()[:, 3] > 0, adult.X_test.toarray()[:, column] > 0
        assert store["test"]["ratio"][0] == pytest.approx(said[inside].mean() / said[~inside].mean(), abs=1e-6)
        assert store["test"]["error"][0] == pytest.approx((said != (adult.y_test > 0)).mean(), abs=1e-6)


def test_zafars_smallest_c_nearly_equals_the_mean_scores_and_the_largest_is_the_plain_svm(result):
    _, runs = result
    found = runs["gender, all rows"]
    assert found["zafar_c"] == [1.0, 450.0]  # from 1 to n/2
    assert found["zafar_c"][1] > found["zafar_free_c"]
    assert found["zafar"]["test"]["error"][1] == found["svm"]["test"]["error"][0]
    assert found["zafar"]["train"]["ratio"][0] < found["zafar"]["train"]["ratio"][1]


def test_summary_table_and_figure(result):
    settings, runs = result
    summary = figure.summarise(settings, runs)
    assert summary["gender"]["runs"] == 1
    expected = runs["gender, bootstrap 0"]["thresholded"]["test"]["error"]
    assert summary["gender"]["thresholded"]["test"]["error"]["mean"] == expected
    text = figure.table(summary)
    assert "men (A) against women (B)" in text and "as in the published code" in text
    drawn = figure.draw(summary)
    titles = [part.get_suptitle() for part in drawn.subfigs]
    assert titles[0].startswith("Gender") and titles[1].startswith("Education")
    assert all(len(part.axes) == 3 for part in drawn.subfigs)
