"""`widemargin tradeoff`: table, picture, stored path; what was stored already is not trained again."""

import json

import numpy as np
import pytest

from widemargin.cli.commands import tradeoff as paths
from widemargin.cli.main import main
from widemargin.cli.training import Prepared, sha256_of
from widemargin.goals import Goal
from widemargin.goals.measuring.tradeoff_path import TradeoffPath


def sweep(project, *more, points=3):
    return main(
        ["tradeoff", str(project / "goals.toml"), "--constraint", "recall", "--from", "0.5", "--to", "0.7",
         "--points", str(points), *map(str, more)]
    )  # fmt: skip


def test_a_path_is_shown_drawn_and_stored(project, capsys):
    out, plot = project / "new" / "path.json", project / "new" / "frontier.png"
    assert sweep(project, "--out", out, "--plot", plot, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    stored = json.loads(out.read_text())
    assert printed["path"] == stored["path"] and printed["out"] == str(out) and printed["plot"] == str(plot)
    path = TradeoffPath.from_dict(stored["path"])
    assert path.values.tolist() == [0.5, 0.6, 0.7] and path.name == "recall" and path.met.all()
    assert path.training.n_rows == 400 and path.held_out.n_rows == 200  # those of data.split
    assert (path.training.reached >= path.values - 1e-9).all()
    assert stored["table"]["sha256"] == sha256_of(project / "people.csv") and stored["goals_file"] == "goals.toml"
    assert Goal.parse(stored["goal"]).constraints[1].label == "recall"
    assert [price["start"] for price in printed["prices"]] == [0.5, 0.6]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_whole_path_is_not_trained_again_and_another_one_is(project, capsys, monkeypatch):
    out = project / "path.json"
    assert sweep(project, "--out", out) == 0
    first = out.read_text()
    monkeypatch.setattr("widemargin.cli.commands.tradeoff.sweep", None)  # calling it would fail
    assert sweep(project, "--out", out) == 0
    assert "Nothing was trained" in capsys.readouterr().out
    monkeypatch.undo()
    assert sweep(project, "--out", out, points=2) == 0
    assert json.loads(out.read_text())["path"]["values"] == [0.5, 0.7]
    out.write_text(first)
    with (project / "people.csv").open("a") as file:
        file.write("40,own,F,train,high,low\n")
    assert sweep(project, "--out", out) == 0
    assert json.loads(out.read_text())["table"]["rows"] == {"train": 401, "test": 200}


class EndsAfter:
    """A callback that ends a sweep once so many points are done."""

    def __init__(self, points):
        self.points = points

    def __call__(self, progress):
        return progress.stage == "path" and progress.iteration >= self.points


@pytest.mark.parametrize("model", ["", 'kernel = "rbf"', 'kernel = "rbf"\nfeature_map = "fourier"\nn_components = 20'])
def test_a_path_that_ended_early_goes_on_from_its_points(project, capsys, monkeypatch, model):
    text = (project / "goals.toml").read_text().replace("[output]\nmodel", f"[model]\n{model}\n[output]\nmodel")
    (project / "goals.toml").write_text(text)
    whole, part = project / "whole.json", project / "part.json"
    assert sweep(project, "--out", whole, points=4) in (0, 1)

    def early(self, *arguments, **options):
        made = real(self, *arguments, **options)
        return made.set_params(callbacks=[*made.callbacks, EndsAfter(2)])

    real = Prepared.svm
    monkeypatch.setattr(Prepared, "svm", early)
    assert sweep(project, "--out", part, points=4) == 130
    assert "2 of 4 points" in " ".join(capsys.readouterr().out.split())
    stored = json.loads(part.read_text())
    assert stored["path"]["n_asked"] == 4 and len(stored["models"]) == 2
    monkeypatch.undo()
    sweep(project, "--out", part, points=4)
    assert f"Went on from the 2 points that {part} held already" in capsys.readouterr().out
    found, wanted = (json.loads(file.read_text()) for file in (part, whole))
    assert "models" not in found and len(found["path"]["values"]) == 4
    for name in ("objective", "reached"):
        ended, uninterrupted = (np.array(item["path"]["held_out"][name])[:2] for item in (found, wanted))
        np.testing.assert_allclose(ended, uninterrupted, atol=1e-12)
    np.testing.assert_allclose(
        np.array(found["path"]["training"]["objective"]), wanted["path"]["training"]["objective"], atol=0.02
    )
    assert found["path"]["met"] == wanted["path"]["met"]


def test_points_that_do_not_fit_are_trained_again(project, capsys, monkeypatch):
    def early(self, *arguments, **options):
        made = real(self, *arguments, **options)
        return made.set_params(callbacks=[*made.callbacks, EndsAfter(2)])

    real, part = Prepared.svm, project / "part.json"
    monkeypatch.setattr(Prepared, "svm", early)
    assert sweep(project, "--out", part) == 130
    monkeypatch.undo()
    stored = json.loads(part.read_text())
    stored["models"][1]["intercept"] += 1.0
    part.write_text(json.dumps(stored))
    assert sweep(project, "--out", part) == 0
    said = capsys.readouterr()
    assert "the numbers were changed. Train all points" in said.err and "Went on" not in said.out
    assert len(json.loads(part.read_text())["path"]["values"]) == 3


def test_time_ends_a_sweep(project, capsys):
    assert sweep(project, "--time-budget", "1e-9", points=4) == 1
    said = capsys.readouterr()
    assert "1 of 4 points" in " ".join(said.out.split()) and "time budget is spent" in said.err


def test_without_a_split_a_fifth_is_held_out(project, capsys):
    text = (
        (project / "goals.toml").read_text().replace('split = { column = "split", train = "train", test = "test" }', "")
    )
    (project / "goals.toml").write_text(text.replace('protected = ["sex"]', 'protected = ["sex"]\nignore = ["split"]'))
    assert sweep(project, "--json", points=2) == 0
    path = json.loads(capsys.readouterr().out)["path"]
    assert (path["training"]["n_rows"], path["held_out"]["n_rows"]) == (480, 120)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--constraint", "recal"], "'recal' names 0 of the goal's 3 constraints; there are"),
        (["--to", "1.7"], "'recall' cannot have the bound 1.7 (it is 0.6 now)"),
        (["--to", "0.5"], "give two different bounds"),
        (["--points", "1"], "--points is 1; at least 2"),
        (["--plot", "frontier.xyz"], "the picture cannot be written"),
    ],
)
def test_bad_questions_are_answered_clearly(project, capsys, monkeypatch, more, message):
    monkeypatch.chdir(project)
    assert sweep(project, *more, points=2) == 2
    said = capsys.readouterr().err
    assert message in said and "defect" not in said


@pytest.mark.parametrize("more", [["--from", "nan"], ["--time-budget", "-1"], ["--time-budget", "x"]])
def test_numbers_that_are_none_are_refused_at_once(project, capsys, more):
    with pytest.raises(SystemExit) as stopped:
        sweep(project, *more)
    assert stopped.value.code == 2 and more[0] in capsys.readouterr().err


def test_short_values_stay_possible_and_go_from_loose_to_strict():
    goal = Goal.parse(
        'subject to a: recall() >= 0.99\nsubject to b: churn("old") <= 0.01\nsubject to c: errors() <= 200\n'
        "subject to d: demographic_parity(sex, ratio=0.8)\nsubject to e: recall() + precision() * 0 >= 0.5\n"
        "subject to f: recall() + accuracy() >= 0.5 * positive_rate()\n"
    )
    assert paths.short_values(goal, "a") == [0.95, 0.97, 0.99]
    assert paths.short_values(goal, "b") == [0.05, 0.03, 0.01]
    assert paths.short_values(goal, "c") == [220.0, 210.0, 200.0, 190.0, 180.0]
    assert paths.short_values(goal, "d") == pytest.approx([0.76, 0.78, 0.8, 0.82, 0.84])
    assert paths.short_values(goal, "f") is None  # no single bound
    assert np.isfinite(paths.short_values(goal, "e")).all()


def test_trees_are_fitted_anew_at_every_value(project, capsys):
    goals, out = project / "goals.toml", project / "path.json"
    assert sweep(project, "--out", out, points=2) == 0
    goals.write_text(goals.read_text().replace("[output]", '[model]\nlearner = "trees"\n[output]'))
    capsys.readouterr()
    assert sweep(project, "--out", out, "--json", points=2) == 0  # the path of another model is not taken for this one
    path = TradeoffPath.from_dict(json.loads(capsys.readouterr().out)["path"])
    assert path.met.all() and np.isnan(path.gap).all() and (path.n_iter > 0).all()
    out.unlink()
    assert sweep(project, "--out", out, "--time-budget", "0.001", points=2) == 1
    printed = capsys.readouterr()
    assert "1 of 2 points" in printed.err and "goes on from these points" not in printed.out
    assert "models" not in json.loads(out.read_text())
