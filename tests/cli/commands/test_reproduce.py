"""`widemargin reproduce` as a user meets it."""

import json
import os
import sys

import pytest
from testing.hidden_papers import hide_papers

from command_line import widemargin_here
from widemargin.cli.main import main
from widemargin.exceptions import DataError
from widemargin_papers.reproductions import FIGURES, runner, sbp_fig3
from widemargin_papers.reproductions.experiment import Record
from widemargin_papers.reproductions.runner import Outcome

FIGURE, QUICKEST = "dataset-constraints-fig3", "margin-pursuit-fig2"


@pytest.mark.parametrize("name", FIGURES)
def test_a_quick_run_saves_numbers_tables_and_the_figure(name, tmp_path, capsys, monkeypatch):
    if name != QUICKEST:  # most of the time of a large figure: it is drawn once more, to look for room for its labels
        monkeypatch.setattr("matplotlib.figure.Figure.get_layout_engine", lambda _: None)
        monkeypatch.setattr("matplotlib.axis.Axis.get_minor_ticks", lambda *_: [])  # and half of the rest
    done = widemargin_here(capsys, "reproduce", name, "--quick", "--out", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no terminal: no progress; nothing to warn of
    assert FIGURES[name].title in done.stdout
    assert "Data: synthetic rows" in done.stdout
    record = json.loads((tmp_path / "new" / f"{name}-quick.json").read_text())
    assert record["figure"] == name
    assert record["settings"]["data"] == "synthetic"
    assert record["summary"] and record["runs"] and record["versions"]
    assert (tmp_path / "new" / f"{name}-quick.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "new" / f"{name}-quick.md").read_text().startswith(f"# {FIGURES[name].title}")


def test_the_list_says_what_each_figure_takes(capsys):
    assert main(["reproduce", "--list"]) == 0
    text = capsys.readouterr().out
    for name, entry in FIGURES.items():
        assert name in text and entry.title in text
    assert "needs a9a" in text
    assert main(["reproduce", "--list", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["figures"]) == set(FIGURES)


def test_missing_data_end_with_2_and_the_place_to_get_them(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("WIDEMARGIN_DATA", raising=False)
    assert main(["reproduce", FIGURE, "--out", str(tmp_path)]) == 2
    assert "libsvmtools/datasets/binary.html" in capsys.readouterr().err
    assert main(["reproduce", FIGURE, "--out", str(tmp_path), "--data", str(tmp_path), "--json"]) == 2
    assert "a9a is not in" in json.loads(capsys.readouterr().out)["error"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no figure was named"),
        ([FIGURE, "--runs", "0"], "--runs is 0"),
        (["fig9"], "invalid choice: 'fig9'"),
        ([FIGURE, "--all"], f"leave out {FIGURE}"),
        (["--all", "--rows", "9"], "leave out --rows"),
    ],
)
def test_bad_usage_ends_with_2(arguments, message, capsys):
    try:
        code = main(["reproduce", *arguments])
    except SystemExit as stop:  # argparse
        code = stop.code
    assert code == 2
    assert message in capsys.readouterr().err


def test_without_matplotlib_nothing_is_begun(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["reproduce", FIGURE, "--quick", "--out", str(tmp_path)]) == 2
    assert "widemargin[plot]" in capsys.readouterr().err


def test_after_an_interrupt_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    command = ["reproduce", "sbp-fig3", "--quick", "--rows", "60", "--out", str(tmp_path)]
    real, done, found = sbp_fig3.run, [], []

    def stops_in_the_second(study, settings, key):
        done.append(key)
        if len(done) == 2:
            raise KeyboardInterrupt
        if not found:  # one task stands for the other, too
            found.append(real(study, settings, key))
        return found[0]

    monkeypatch.setattr(sbp_fig3, "run", stops_in_the_second)
    assert main(command) == 130
    assert "1 of 2 runs are kept in" in capsys.readouterr().err
    assert main(command) == 0
    assert [key.partition(",")[0] for key in done] == ["adult", "mnist", "mnist"]  # the first one is not done again


def test_a_record_with_other_settings_is_not_touched(tmp_path, capsys):
    path = tmp_path / f"{FIGURE}-quick.json"
    path.write_text(json.dumps({"figure": FIGURE, "settings": {"C": 7.0}, "runs": {"draw 0": {}}}))
    before = path.read_text()
    assert main(["reproduce", FIGURE, "--quick", "--out", str(tmp_path)]) == 2
    assert "other settings" in capsys.readouterr().err
    assert path.read_text() == before


def test_all_figures_and_what_failed(tmp_path, monkeypatch, capsys):
    def not_this_one(figure, asked, step, check, *, keep=False, **more):
        if figure != FIGURE:
            raise DataError(f"no data for {figure}")
        return Outcome(figure, "done", 1, 2.0, "as in the paper")

    monkeypatch.setattr(runner, "reproduce", not_this_one)
    monkeypatch.setattr(
        "widemargin_papers.reproductions.command.write_page", lambda outcomes, asked: asked.out / "index.md"
    )
    assert main(["reproduce", "--all", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().out
    assert f"{FIGURE}: done, 2 processor s, as in the paper" in said
    assert "| sbp-fig2 | failed | 0 | 0 | DataError: no data for sbp-fig2 |" in said
    assert main(["reproduce", "--all", "--out", str(tmp_path), "--json"]) == 2
    content = json.loads(capsys.readouterr().out)
    assert content["figures"][FIGURE]["processor_seconds"] == 2.0
    assert content["figures"]["sbp-fig2"]["status"] == "failed"
    assert content["page"] == str(tmp_path / "index.md")


def test_training_rows_can_be_fewer_where_a_figure_takes_a_part(tmp_path, capsys):
    command = ["reproduce", "sbp-fig3", "--quick", "--out", str(tmp_path), "--rows"]
    assert main([*command, "60"]) == 0
    record = json.loads((tmp_path / "sbp-fig3-quick.json").read_text())
    assert record["settings"]["train_rows"] == 60
    assert record["runs"]["adult, seed 0"]["n"] == 60
    assert main([*command, "0"]) == 2
    assert main(["reproduce", FIGURE, "--quick", "--out", str(tmp_path), "--rows", "9"]) == 2
    assert "leave the option out" in capsys.readouterr().err


class Squares:
    """An experiment whose runs say where they were done."""

    @staticmethod
    def run(data, settings, key):
        return {"square": int(key) ** 2 + settings["more"], "process": os.getpid()}


def test_runs_side_by_side_are_those_of_one_process(tmp_path):
    keys = [str(k) for k in range(5)]
    record = Record(tmp_path / "squares.json", "squares", {"more": 1})
    record.add("3", {"square": 10, "process": 0})
    runner._do(Squares, None, {"more": 1}, record, keys, str, lambda done, total: None, 2)
    again = Record(tmp_path / "squares.json", "squares", {"more": 1})
    assert {key: run["square"] for key, run in again.runs.items()} == {key: int(key) ** 2 + 1 for key in keys}
    assert os.getpid() not in {run["process"] for run in again.runs.values()}


def test_without_the_papers_one_sentence_says_how_to_get_them(tmp_path, monkeypatch, capsys):
    hide_papers(monkeypatch)
    assert main(["reproduce", FIGURE, "--quick", "--out", str(tmp_path)]) == 2
    (told,) = capsys.readouterr().err.strip().splitlines()
    assert "lives in widemargin-papers, which is not installed: run `pip install ./papers`" in told
    assert main(["reproduce", "--list", "--json"]) == 2
    assert "pip install ./papers" in json.loads(capsys.readouterr().out)["error"]
    assert list(tmp_path.iterdir()) == []
