"""The tasks run (on small synthetic data), read the half that they say, and compute what they say."""

import importlib
import json
import os
import sys

import numpy as np
import pytest
from benchmarks import runner
from benchmarks.data.families import GoalRows
from benchmarks.data.halves import HALVES, BlindDataError, check
from benchmarks.data.sources import SOURCES, Split
from benchmarks.machine import describe, machine, slug
from benchmarks.task import Context, Table, Task, Timing, all_tasks, mean_and_error
from benchmarks.tasks import fairness, guarantees, kernel_speed, scaling, spoilt_rows
from joblib import cpu_count

from widemargin import GoalThresholdClassifier, audit
from widemargin.exceptions import MissingDataError
from widemargin_papers.data import MALE, synthetic_a9a

TASKS = all_tasks()
SHORT = {
    "audit_stream", "fairness_people", "kernel_svc_accuracy",
    "label_suspects", "margin_robustness", "scaling_blind", "structured_ocr",
}  # fmt: skip
"""Each kind of task and of data; `make bench-quick` runs all of them, and so do the slow tests."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SHORT else [pytest.mark.slow]) for name in TASKS]
)
def test_a_quick_run_writes_its_results(name, tmp_path):
    task = TASKS[name]
    context = Context(task, quick=True)
    runner.measure(context, tmp_path, list(task.parts))
    (path,) = tmp_path.glob(f"*/{name}.json")
    results = json.loads(path.read_text())
    assert results.keys() >= task.parts.keys()
    assert path.parent.name == slug(results["machine"])
    assert results["machine"]["threads"] == (cpu_count() if task.threads else 1)
    page = (tmp_path / f"{name}.md").read_text()
    assert f"python -m benchmarks {name}" in page
    assert page.count("|") > 10


def test_missing_data_are_named(tmp_path):
    with pytest.raises(MissingDataError, match=str(tmp_path)):
        runner.measure(Context(TASKS["margin_robustness"], data=tmp_path), tmp_path, ["test_error"])
    assert not list(tmp_path.glob("*/*.json"))


# --- halves -----------------------------------------------------------------------------------------------------------


def test_halves_share_nothing_and_every_member_can_be_read():
    for subject, halves in HALVES.items():
        tuning, reporting = (set(members) for members in halves.values())
        assert not tuning & reporting, subject
        assert tuning | reporting <= SOURCES.keys(), subject


def test_a_task_cannot_read_the_other_half():
    tuned, blind = (
        Context(type("some", (Task,), {"subject": "kernels", "half": half})(), quick=True)
        for half in ("tuning", "reporting")
    )
    tuned.load("a9a")
    blind.load("letter")
    with pytest.raises(BlindDataError, match="'letter' is of the reporting half of 'kernels', and this"):
        tuned.load("letter")
    with pytest.raises(BlindDataError, match="Choose constants on the tuning half"):
        blind.load("a9a")
    with pytest.raises(BlindDataError, match="in neither half"):
        check("yeast", "kernels", "tuning")


def test_tasks_say_which_half_they_read():
    assert {task.half for task in TASKS.values()} == {"tuning", "reporting", "neutral"}
    for name in ("kernel_ablations", "goal_ablations"):  # devices are judged on reporting data
        assert TASKS[name].half == "reporting"


def test_a_task_has_the_settings_of_the_one_it_inherits_from_and_no_others():
    class some(Task, repeats=2, half="tuning"):  # noqa: N801
        shown = Table("Shown", "rows")

    class other(some, half="neutral"):  # noqa: N801
        """On other
        data.
        """

    assert (other.name, other.repeats, other.half, some.half) == ("other", 2, "neutral", "tuning")
    assert list(other().tables()) == ["shown", "targets"] and other().question == "On other data."
    with pytest.raises(TypeError, match="a task has no setting 'repeat'"):
        type("wrong", (Task,), {}, repeat=2)


# --- what tasks are handed --------------------------------------------------------------------------------------------


def test_clock_runs_the_cases_in_turn():
    order = []
    cases = {name: lambda name=name: order.append(name) or name for name in "ab"}
    timings = Context(type("some", (Task,), {"repeats": 2})()).clock(cases)
    assert order == ["a", "b"] * 3  # a warm-up and two repeats
    assert len(timings["a"].wall) == 2
    assert timings["b"].result == "b"
    assert Timing(wall=[4.0, 9.0, 6.0]).median == 6.0


def test_a_fit_tells_its_size_and_memory():
    row = scaling.whole_fit(Context(scaling.scaling_blind(), quick=True), *scaling.CASES[-1])
    assert row["n"] == 500 and row["peak_gb"] > 0


TOY = '''
import os
from benchmarks.task import Task

def answers(ctx, word):
    return os.getpid(), word, ctx.repeats

def fails(ctx, word):
    raise ValueError(f"it broke at {word}")

class toy(Task):
    """It answers or fails."""
    parts = {"rows": answers, "more": fails}
'''


def test_a_function_answers_from_a_process_of_its_own_or_says_why_it_fails(tmp_path, monkeypatch):
    """Of a module that imports little, for the process imports it."""
    (tmp_path / "toy_task.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    toy = importlib.import_module("toy_task")
    ctx = Context(toy.toy())
    process, *told = ctx.fresh(toy.answers, "sense")
    assert process != os.getpid() and told == ["sense", 5]
    with pytest.raises(ValueError, match="it broke at nonsense"):
        ctx.fresh(toy.fails, "nonsense")
    del sys.modules["toy_task"]


def test_cells_of_tables():
    rows = [{"a": 1.234, "b": {"c": True}, "d": (0.5, 0.01), "e": [1, 2], "0.1": None, "wall_s": 2.0}]
    columns = "a: {a:.1f} | truth: {b[c]} | mean: {d:±.2f} | two: {e} | second: {e[1]} | none: {0.1} | e"
    columns += " | gone: {x[y]:.2f} | wall_s:.1f"
    text = Table("", lambda _: rows, columns).markdown({})
    cells = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    assert cells == ["1.2", "yes", "0.50 ± 0.01", "1, 2", "2", "-", "1, 2", "-", "2.0"]
    assert "| wall s |" in text.splitlines()[0]
    assert Table("", "part").markdown({"part": [{"x": 0.12345, "y": "z"}]}).splitlines()[2] == "| 0.1235 | z |"
    assert Table("", "part").markdown({}) == ""
    assert mean_and_error([1.0, 3.0]) == (2.0, 1.0)


def test_the_machine_is_described():
    about = machine(processes=2)
    assert about["memory_gb"] > 0 and about["versions"]["numpy"] == np.__version__ and about["cores_allowed"] >= 1
    assert any("openblas" in library and len(library.split()) == 3 for library in about["blas"])
    line = describe(about)
    assert "1 thread used in each of 2 processes" in line
    assert f"code {about['code']}, {about['date'][:10]}" in line
    old = {"processor": "AMD EPYC (family 26, model 2)", "cores": 2, "threads": 1, "load_average_at_start": 0.5}
    assert describe(old) == "AMD EPYC (family 26, model 2), 2 cores, 1 thread used, load 0.5 at the start"
    assert slug(old) == "amd-epyc-26-2-2-cores"
    assert slug(old | {"processor": "Intel(R) Xeon(R) Processor (family 6, model 167)"}) == "intel-xeon-6-167-2-cores"


# --- what they compute ------------------------------------------------------------------------------------------------


def test_synthetic_rows_are_of_one_sex():
    adult = synthetic_a9a(200)
    assert (adult.women != adult.has(MALE)).all()


def test_ratios_and_errors_are_those_of_the_predictions():
    table = SOURCES["german"][1]()
    data = fairness.people(table, "german", np.asarray(table["sex"]) == "Female")
    found, rate = fairness.reached(data, lambda _: data.y), [data.y[rows].mean() for rows in (data.first, ~data.first)]
    assert found["test_error"] == 0.0
    assert rate[0] <= rate[1] and found["test_ratio"] == pytest.approx(rate[1] / rate[0])


def test_truth_is_the_distribution_itself():
    world = GoalRows(*guarantees.flat(np.random.default_rng(0), 400), guarantees.SCENARIOS["flat precision"][1])
    for share in (0.2, 0.8):
        model = GoalThresholdClassifier(guarantees.FIRST_COLUMN, f"subject to positive_rate() <= {share}", cv="prefit")
        report = guarantees.measured(model, world._replace(goal=model.goal), np.arange(400))
        assert report.all_met()
        report = audit(model, world.goal, world.X, world.y, populations=world.populations)
        assert report.constraints[0].rate == pytest.approx(0.5) and not report.all_met()


def test_differences_of_errors_are_paired_by_split():
    errors = {"LIBSVM": (0.10, 0.20, 0.30), "KernelSVC": (0.101, 0.199, 0.303)}
    runs = [
        {"case": "a9a", "split": k, "solver": solver, "wall_s": k + 1.0, "processor_s": 1.0, "test_error": error,
         "support": 10, "rows": 5}
        for solver, values in errors.items() for k, error in enumerate(values)
    ]  # fmt: skip
    ours = kernel_speed.by_solver({"runs": runs})[1]
    assert ours["apart"][0] == pytest.approx(0.1)
    assert ours["apart"][1] == pytest.approx(100 * np.std([0.001, -0.001, 0.003], ddof=1) / 3**0.5)
    assert ours["wall_s"] == 2.0


def test_splits_keep_every_row_once():
    ctx = Context(kernel_speed.kernel_svc_accuracy(), quick=True)
    first, second = (kernel_speed.split(ctx, "a9a", seed) for seed in (0, 1))
    rows = [np.unique(np.concatenate((task.X, task.X_test)), axis=0) for task in (first, second)]
    np.testing.assert_array_equal(*rows)
    assert not np.array_equal(first.X, second.X)


def test_most_false_is_delta_and_what_chance_adds():
    assert 0.1 < guarantees.most_false(2000) < 0.125


def test_spoiled_rows_are_as_many_and_as_they_are_called():
    X = np.random.default_rng(0).normal(size=(200, 3))
    split = Split(X, (X[:, 0] > 0).astype(int), X, (X[:, 0] > 0).astype(int))
    for kind, factor in {"labels": 1.0, "times 3": 3.0, "times 20": 20.0}.items():
        bad = spoilt_rows.spoil(split, kind, 0.2, 1)
        wrong = bad.y != split.y
        assert wrong.sum() == 40
        np.testing.assert_allclose(bad.X, X * np.where(wrong, factor, 1.0)[:, None])
    tails = spoilt_rows.spoil(split, "tails", 0.2, 1)
    assert (tails.y == split.y).all()
    assert (tails.X != X).any(axis=1).sum() == 40
    assert tails.X_test is split.X_test


def test_clipped_rows_keep_their_direction():
    clipped = spoilt_rows.clip_rows(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), 1.0)
    np.testing.assert_allclose(clipped, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
