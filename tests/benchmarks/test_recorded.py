"""Result pages and the summary are those of the result files, of all machines, and say what is missed."""

import json

import pytest
from benchmarks import recorded
from benchmarks.machine import RESULTS
from benchmarks.task import Limit, Table, Task, all_tasks, made, ratios

TASKS = all_tasks()
ABOUT = {"processor": "P", "cores": 2, "threads": 1, "load_average_at_start": 0.5}


class speed(Task):  # noqa: N801
    """How fast?"""

    all = Table("All", lambda content: [content["times"]])

    def targets(self, content):
        yield from ratios("gradient", content["times"], "ours", {"LogisticRegression": 1.0, "SGD": 2.0})
        yield Limit("seconds", content["times"]["ours"], 3.0, "s")


class Tuned(speed):
    half = "tuning"


SPEED = speed()


@pytest.fixture
def two_machines(tmp_path):
    """Results of one task on two machines: the newer one is slower."""
    for place, ours, date in (("p-2-cores", 2.0, "2029-01-01"), ("q-2-cores", 4.0, "2030-01-01")):
        about = ABOUT | {"processor": place[0].upper(), "date": date, "code": "abc"}
        recorded.keep(tmp_path, place, "speed", {"machine": about, "times": {"ours": ours, "LogisticRegression": 3.0}})
    return tmp_path


def test_the_newest_is_first_and_undated_ones_are_older(two_machines):
    recorded.keep(two_machines, "r-2-cores", "speed", {"machine": ABOUT, "times": {}})
    assert list(recorded.machines("speed", two_machines)) == ["q-2-cores", "p-2-cores", "r-2-cores"]
    assert recorded.machines("speed", two_machines)["q-2-cores"]["times"]["ours"] == 4.0


def test_two_machines_stand_beside_each_other(two_machines):
    page = recorded.page(SPEED, two_machines)
    assert page.index("## Q, 2 cores") < page.index("## P, 2 cores")
    assert page.count("### All") == page.count("### Targets") == 2
    text = recorded.text(two_machines, {"speed": SPEED})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "gradient" in line]
    assert [[row[2], row[3], row[5]] for row in rows] == [["q-2-cores", "0.75", "NO"], ["p-2-cores", "1.5", "yes"]]


def test_tuning_data_stand_apart(two_machines):
    text = recorded.text(two_machines, {"speed": Tuned()})
    assert text.index("no evidence for other data") < text.index("gradient")


def test_a_quick_summary_judges_nothing(two_machines):
    text = recorded.text(two_machines, {"speed": SPEED}, quick=True)
    assert "NO" not in text and "yes" not in text
    assert "Its ratios mean nothing" in text


def test_a_part_that_was_not_measured_leaves_the_others(tmp_path):
    recorded.keep(tmp_path, "p", "speed", {"machine": ABOUT})
    (content,) = recorded.machines("speed", tmp_path).values()
    assert made(SPEED.targets, content) == [] and SPEED.all.markdown(content) == ""
    with pytest.raises(KeyError, match="nonsense"):
        made(lambda content: [content["machine"]["nonsense"]], content)


def test_targets_of_times_and_limits():
    seconds = {"ours": 2.0, "peer": 3.0, "other": 3.0}
    ours, none = (item.to_row() for item in ratios("a", seconds, "ours", {"peer": 1.0, "other": None, "gone": 1.0}))
    assert ours["reached"] is True and none["reached"] is None
    at_most, at_least = Limit("a", 3.0, 2.0, "s"), Limit("b", 3.0, 2.0, "%", at_least=True)
    assert (at_most.to_row()["reached"], at_least.to_row()["reached"]) == (False, True)


def test_the_stored_pages_and_summary_are_those_of_the_stored_results():
    assert (RESULTS / "summary.md").read_text() == recorded.text(RESULTS, TASKS), "python -m benchmarks --summary-only"
    assert (RESULTS / "summary.png").read_bytes().startswith(b"\x89PNG")
    stored = {path.stem for path in RESULTS.glob("*/*.json")}
    assert stored <= TASKS.keys()
    for name in stored:
        page = recorded.page(TASKS[name])
        assert (RESULTS / f"{name}.md").read_text() == page, f"{name}: python -m benchmarks --summary-only"
    assert {path.stem for path in RESULTS.glob("*.md")} == stored | {"summary"}


def test_every_stored_machine_says_what_it_is():
    for path in RESULTS.glob("*/*.json"):
        about = json.loads(path.read_text())["machine"]
        assert {"processor", "cores", "threads"} <= about.keys()
