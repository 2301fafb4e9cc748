"""The benchmark scripts run (on small synthetic data), and what they compute is what they say."""

import importlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import (
    audit_stream,
    common,
    convex_step,
    cut_choosers,
    fairness_a9a,
    first_call,
    footprint,
    group_thresholds,
    guarantees,
    kernel_svc_accuracy,
    margin_robustness,
    memory,
    recall_churn,
    recall_task,
    runner,
    thermometer_adult,
    threads,
)
from joblib import cpu_count
from testing import exact

SCRIPTS = [importlib.import_module(f"benchmarks.{name}") for name in runner.SCRIPTS]


LONG = ("kernel_choices", "kernel_problems", "first_report", "first_call", "threads")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=name, marks=[pytest.mark.slow] if name in LONG else [])
        for name, script in zip(runner.SCRIPTS, SCRIPTS, strict=True)
    ],
)
def test_a_quick_run_writes_its_results(script, tmp_path, capsys):
    assert script.main(["--quick", "--no-peers", "--out", str(tmp_path)]) == 0
    name = script.__name__.rpartition(".")[2]
    results = json.loads((tmp_path / f"{name}.json").read_text())
    assert results["machine"]["threads"] == (cpu_count() if name == "threads" else 1)
    table = (tmp_path / f"{name}.md").read_text()
    assert f"python -m benchmarks.{name}" in table
    assert table.count("|") > 20
    assert "###" in capsys.readouterr().out


OWN_DATA = (audit_stream, first_call, footprint, group_thresholds, memory, thermometer_adult, threads)
"""Scripts that generate their data, or bring them: nothing can be missing."""


@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if script not in OWN_DATA], ids=lambda script: script.__name__
)
def test_missing_data_skip_with_a_message(script, tmp_path, capsys):
    assert script.main(["--data", str(tmp_path)]) == 0
    message = capsys.readouterr().err
    assert "skipped" in message
    assert str(tmp_path) in message


def test_quick_runs_leave_the_tracked_results_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    common.write(common.parser("").parse_args(["--quick"]), "some", {"machine": common.machine()}, ["text"])
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("how", ["not installed", "not wanted"])
def test_what_is_recorded_beside_peers_is_not_replaced_by_a_run_without(how, monkeypatch, tmp_path, capsys):
    results = tmp_path / "results"
    results.mkdir()
    (results / "fairness_a9a.json").write_text("recorded")
    monkeypatch.setattr(common, "RESULTS", results)
    monkeypatch.setattr(common, "ROOT", tmp_path)
    monkeypatch.setattr(common, "lacking", lambda script: ["fairlearn"] if how == "not installed" else [])
    options = common.parser("").parse_args(["--no-peers"] if how == "not wanted" else [])
    for folder in None, results:  # told by the runner, too
        options.out = folder
        common.write(options, "fairness_a9a", {"machine": common.machine()}, ["text"])
        assert (results / "fairness_a9a.json").read_text() == "recorded"
        assert "benchmarks/results/fairness_a9a.json stays as it is" in capsys.readouterr().err
    assert (tmp_path / "out" / "without-peers" / "fairness_a9a.md").is_file()
    options.out = tmp_path / "mine"
    common.write(options, "fairness_a9a", {"machine": common.machine()}, ["text"])
    assert (tmp_path / "mine" / "fairness_a9a.json").is_file()


def test_the_machine_is_described():
    about = common.machine(processes=2)
    assert about["memory_gb"] > 0 and about["blas"] and about["versions"]["numpy"] == np.__version__
    line = common.describe(about)
    assert "1 thread used in each of 2 processes" in line
    assert f"code {about['code']}, {about['date'][:10]}" in line
    old = {"processor": "P", "cores": 2, "threads": 1, "load_average_at_start": 0.5}
    assert common.describe(old) == "P, 2 cores, 1 thread used, load 0.5 at the start"


def test_a_convex_step_beside_clarabel():
    adult = common.synthetic_adult(300)
    sub = convex_step.step(adult, 300, 4)
    row = convex_step.row_of(sub, 300, 4, convex_step.compared(sub, exact, 1))
    assert row["m"] == 4 and sub.n_constraints == 5  # one more keeps a denominator above zero
    assert row["rows"] == 300
    assert row["inside"] and abs(row["above"]) < 1e-6
    assert row["ratio"]["1e-06"] == pytest.approx(row["clarabel"]["median_s"] / row["1e-06"]["median_s"], rel=0.01)


def test_interleave_runs_the_cases_in_turn():
    order = []
    cases = {name: lambda name=name: order.append(name) or name for name in "ab"}
    timings = common.interleave(cases, 2)
    assert order == ["a", "b"] * 3  # a warm-up and two repeats
    assert len(timings["a"].wall) == 2
    assert timings["b"].result == "b"


def test_ratio_is_of_the_medians():
    slow, fast = common.Timing(wall=[4.0, 9.0, 6.0]), common.Timing(wall=[1.0, 2.0, 50.0])
    assert common.compare(slow, fast) == 3.0


@pytest.mark.parametrize(
    ("ratio", "error"), [(1.28, 0.1640), (2.05, 0.1565), (1.03, 0.1702), (2.42, 0.1540), (0.78, 0.1764)]
)
def test_frontier_is_linear_between_its_points_and_beyond(ratio, error):
    assert fairness_a9a.frontier_error(ratio) == pytest.approx(error, abs=1e-12)


def test_same_seed_draws_the_same_task():
    adult = common.synthetic_adult(1500)
    first, again, other = (recall_task.draw(adult, seed) for seed in (0, 0, 1))
    assert (first.X != again.X).nnz == 0
    assert (first.deployed3 == again.deployed3).all()
    assert first.X.shape != other.X.shape or (first.X != other.X).nnz > 0


def test_recall_task_counts_errors_as_the_goal_does():
    adult = common.synthetic_adult(1500)
    task = recall_task.draw(adult, 0)
    model = recall_churn.fit(task, (0.491, 0.04), C=1.0)
    reached = recall_churn.reached(task, model, (0.491, 0.04))
    report = model.goal_report_
    assert reached["objective"] == report.objective
    assert [reached["recall"], reached["churn"]] == pytest.approx([item.rate for item in report.constraints])
    assert reached["met"] == report.all_met()


def test_synthetic_rows_are_of_one_sex():
    adult = common.synthetic_adult(200)
    assert (adult.women != (np.asarray(adult.X[:, [common.MALE]].todense()).ravel() > 0)).all()


def test_cases_of_the_memory_benchmark_touch_as_many_constraints_as_they_say():
    n = 5000
    X = memory.features("csr", n)
    y = memory.labels(X)
    share = float((y > 0).mean())
    expected = {"2": 1 + share, "50 groups": share, "50 nested": 25.5 * share, "50 overlapping": 25 * share}
    for name, touch in expected.items():
        goal, table = memory.goal_and_table(name, n)
        assert memory.touched(goal, X, y, table)[0] == pytest.approx(touch, rel=0.05)


def test_gaps_are_read_from_the_history():
    entries = [
        {"primal": 1.0, "dual": 1.0 - gap, "epochs": 10.0 * k, "seconds": 0.1 * k} for k, gap in [(1, 0.5), (2, 0.01)]
    ]
    result = SimpleNamespace(history=tuple(entries))
    assert cut_choosers.reached(result, 0.02) == (2, 20, 0.2)
    assert cut_choosers.reached(result, 0.6) == (1, 10, 0.1)
    assert cut_choosers.reached(result, 1e-3) is None


def test_raw_adult_is_the_table_of_the_examples_in_three_codings():
    data = {coding: thermometer_adult.load(coding, 300) for coding in thermometer_adult.CODINGS}
    for some in data.values():
        assert some.X.shape[0] == some.X_test.shape[0] == 300
        assert 0.2 < some.women.mean() < 0.5
    scaled, bins, thermometers = data.values()
    assert scaled.X.shape[1] < thermometers.X.shape[1] <= bins.X.shape[1]
    assert set(np.unique(thermometers.X.toarray())) == {0.0, 1.0}
    share = (thermometers.y > 0).astype(float)
    quality = thermometer_adult.quality(thermometers, share, (thermometers.y_test > 0).astype(float))
    assert quality["train_error"] == quality["test_error"] == 0.0
    assert quality["train_ratio"] == pytest.approx(share[~thermometers.women].mean() / share[thermometers.women].mean())


def test_true_slacks_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    world = guarantees.flat(rng, 400)
    for threshold in (-1.0, 0.0, 1.0):
        said = (world.X[:, 0] > threshold).astype(float)
        assert guarantees.SCENARIOS["flat precision"].slacks(world, said) == [pytest.approx(-0.02)]
    world = guarantees.shifted(rng, 400)
    nobody = np.zeros(400)
    assert guarantees.SCENARIOS["recall floor"].slacks(world, nobody) == [-0.8]
    assert guarantees.SCENARIOS["churn"].slacks(world, world.deployed.astype(float))[0] == pytest.approx(0.3)
    assert guarantees.SCENARIOS["difference of groups"].slacks(world, nobody)[2] == pytest.approx(0.28)


def test_differences_of_errors_are_paired_by_split():
    errors = {"LIBSVM": (0.10, 0.20, 0.30), "KernelSVC": (0.101, 0.199, 0.303)}
    runs = [
        {"case": "adult", "split": k, "solver": solver, "wall_s": k + 1.0, "processor_s": 1.0, "test_error": error,
         "support": 10}
        for solver, values in errors.items() for k, error in enumerate(values)
    ]  # fmt: skip
    ours = kernel_svc_accuracy.summary(runs)[1]
    assert ours["difference"] == pytest.approx(0.001)
    assert ours["difference_se"] == pytest.approx(np.std([0.001, -0.001, 0.003], ddof=1) / 3**0.5)
    assert ours["wall_s"] == 2.0


def test_splits_keep_every_row_once():
    options = SimpleNamespace(quick=True, data=None)
    first, second = (kernel_svc_accuracy.split("adult", seed, options) for seed in (0, 1))
    rows = [np.unique(np.concatenate((task.X, task.X_test)), axis=0) for task in (first, second)]
    np.testing.assert_array_equal(*rows)
    assert not np.array_equal(first.X, second.X)


def test_most_false_is_delta_and_what_chance_adds():
    assert 0.1 < guarantees.most_false(2000) < 0.125


def test_spoiled_rows_are_as_many_and_as_they_are_called():
    X = np.random.default_rng(0).normal(size=(200, 3))
    split = margin_robustness.Split(X, (X[:, 0] > 0).astype(int), X, (X[:, 0] > 0).astype(int))
    for kind, factor in {"labels": 1.0, "times 3": 3.0, "times 20": 20.0}.items():
        bad = margin_robustness.spoil(split, kind, 0.2, 1)
        wrong = bad.y != split.y
        assert wrong.sum() == 40
        np.testing.assert_allclose(bad.X, X * np.where(wrong, factor, 1.0)[:, None])
    tails = margin_robustness.spoil(split, "tails", 0.2, 1)
    assert (tails.y == split.y).all()
    assert (tails.X != X).any(axis=1).sum() == 40
    assert tails.X_test is split.X_test


def test_clipped_rows_keep_their_direction():
    clipped = margin_robustness.clip_rows(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), 1.0)
    np.testing.assert_allclose(clipped, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
