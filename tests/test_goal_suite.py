import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from testing.fresh import fresh_seed
from testing.goal_suite import Effort, breaches_of, judge_table, main, summary
from testing.goal_tables import FAMILIES, drawn_table

from widemargin import RateConstrainedClassifier

EXACT = ("plane-rare", "plane-noisy", "plane-grid", "plane-external", "space")
"""Families in which every linear classifier is tried: few positives, noise, duplicates, data sets beside, 3 columns."""


@pytest.fixture(scope="module")
def outcomes():
    seed = fresh_seed()
    judged = [o for name in EXACT for o in judge_table(drawn_table(name, seed, 500), Effort(1, {}), seed)]
    assert not any(o.raised for o in judged), [f"{o.table}: {o.goal} {o.raised}" for o in judged if o.raised]
    return judged


# The limits are about twice the worst of 44 fresh seeds: 2 false refusals, mean excess .0068, 2 breaches a run.


@pytest.mark.parametrize(("name", "seed"), [("plane-grid", 100), ("plane-rare", 107)])
def test_goals_that_a_model_selecting_nobody_nearly_meets_get_the_best_of_all_models(name, seed):
    """Refused once (its ratio was undefined at every threshold tried), and an error of .22 where .12 exists."""
    judged = judge_table(drawn_table(name, seed, 1000), Effort(1, {}), seed)
    assert all(o.error is not None or not np.isfinite(o.lower_bound) for o in judged)
    assert max(o.error - o.lower_bound for o in judged if o.error is not None) <= 0.01


def test_hardly_a_goal_is_refused_that_a_linear_classifier_meets(outcomes):
    false = [o for o in outcomes if o.error is None and np.isfinite(o.lower_bound)]
    assert len(false) <= 4, "".join(f"\n{o.table}: {o.goal} {o.raised}" for o in false)


def test_the_models_are_near_the_best_of_all_linear_classifiers(outcomes):
    excess = [o.error - o.lower_bound for o in outcomes if o.error is not None]
    assert len(excess) > len(outcomes) / 2
    assert min(excess) > -1e-9, "a model better than the best: the reference is wrong"
    assert np.mean(excess) <= 0.013, summary(outcomes)


def test_stricter_goals_hardly_ever_get_better_models(outcomes):
    assert len(breaches_of(outcomes)) <= 3, summary(outcomes)


def test_the_command_writes_every_outcome_and_compares_with_an_earlier_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(FAMILIES, "plane", replace(FAMILIES["plane"], n=80))
    asked = ["--seed", "5", "--quick", "--tables", "plane", "--out"]
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert main([*asked, str(first)]) == 0
    written = json.loads(first.read_text())
    assert len(written) == 13 and all(entry["table"] == "plane" for entry in written)
    # A model that only another run found is the best known of this one, too.
    for entry in written:
        entry["same_c"] = entry["any_model"] = 0.0
    first.write_text(json.dumps(written))
    assert main([*asked, str(second), "--known", str(first)]) == 0
    again = json.loads(second.read_text())
    assert {entry["any_model"] for entry in again} == {0.0}
    assert [entry["error"] for entry in again] == [entry["error"] for entry in written]
    assert "+0.0000 (0.0000)" in capsys.readouterr().out  # errors at the bound, paired with the run before


def test_few_positive_rows_do_not_end_at_ten_times_the_error_of_the_plain_svm():
    """The plain SVM is not far from meeting these bounds; the descents all end at models of another kind."""
    half = drawn_table("rare", 206).train[None]
    goal = """
        b = population(group == "b")
        a = population(group == "a")
        minimize error_rate()
        subject to recall(b) - recall(a) <= 0.05
        subject to positive_rate(b) >= 1.571 * positive_rate(a)
    """
    with warnings.catch_warnings(action="ignore"):
        model = RateConstrainedClassifier(goal).fit(half.X, half.y, populations=half.people)
    assert model.goal_report_.all_met()
    assert model.goal_report_.objective < 0.05
