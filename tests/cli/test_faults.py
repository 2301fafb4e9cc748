"""Every command that writes, on disks and memories that fail: the old file or the new one, and a message."""

import contextlib
import errno
import importlib
import itertools
import json
import os
import shutil
import signal
import tempfile
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from command_line import GERMAN_LOAN, GOALS, people, write_csv
from faults import DISK_FAULTS, FaultyMemory, faulty_disk
from widemargin import _files
from widemargin.cli.checks import proposals
from widemargin.cli.commands import tradeoff
from widemargin.cli.main import main
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.persistence import load_model

READ_ONLY = OSError(errno.EROFS, "Read-only file system")
FIGURE = "margin-pursuit-fig2"
COMMANDS = {
    "init": ("people.csv --out new.toml --force", "new.toml"),
    "train": ("goals.toml --model m.skops --junit t.xml", "m.skops t.xml"),
    "predict": ("--model people.skops --data people.csv --out p.csv", "p.csv"),
    "predict, Parquet": ("--model people.skops --data people.csv --out p.parquet", "p.parquet"),
    "audit": ("goals.toml --model people.skops --report-json a.json --junit a.xml", "a.json a.xml"),
    "compare": ("goals.toml --models people.skops people.skops --report-json c.json", "c.json"),
    "tradeoff": (
        "goals.toml --constraint recall --from .5 --to .6 --points 2 --out t.json --plot t.png",
        "t.json t.png",
    ),
    "report": (
        "goals.toml --model people.skops --no-tradeoff --out r.html --report-json r.json",
        "r.html r.json",
    ),
    "reproduce": (
        f"{FIGURE} --quick --again --out figures",
        " ".join(f"figures/{FIGURE}-quick.{ending}" for ending in ("json", "md", "png")),
    ),
    "data": ("german --data . --out german.csv --force", "german.csv"),
}
"""Name: what is asked, and the files that are written."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    (folder / "goals.toml").write_text(GOALS.replace("out/people", "people"))
    write_csv(folder / "people.csv", people(120))
    (folder / "german.data").write_text(120 * GERMAN_LOAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "goals.toml"]) == 0
        for name in COMMANDS:  # the second time everything is compiled, and imported
            assert ask(name) == 0, name
    return folder


def first_setting(rows, guesses):
    """What `init` would choose among by folds."""
    return 0.2, "scale", proposals._first_step(guesses, "scale").fit_transform(rows)


def fits_once(patch):
    """Every model is fitted once: that touches no file, and a disk may fail only before it or later."""
    fit, known = RateConstrainedClassifier.fit, {}

    def fit_once(model, X, y, *given, **more):
        what = str(model.goal), np.asarray(y).tobytes()
        if what not in known:
            fit(model, X, y, *given, **more)
            known[what] = {name: value for name, value in vars(model).items() if name not in model.get_params()}
        vars(model).update(known[what])
        return model

    def once(what, made):
        return lambda *given, **more: known[what] if what in known else known.setdefault(what, made(*given, **more))

    patch.setattr(RateConstrainedClassifier, "fit", fit_once)
    patch.setattr(tradeoff, "sweep", once("path", tradeoff.sweep))
    if find_spec("widemargin_papers"):
        figure = importlib.import_module("widemargin_papers.reproductions.margin_pursuit_fig2")
        patch.setattr(figure, "run", once("curves", figure.run))


def ask(name):
    return main([name.partition(",")[0], *COMMANDS[name][0].split()])


def is_whole(path):
    """Whether a file ends where its maker ended it."""
    data, kind = path.read_bytes(), path.suffix
    if kind in (".json", ".xml"):
        return json.loads(data) is not None if kind == ".json" else ET.fromstring(data) is not None
    if kind == ".skops":
        return hasattr(load_model(path), "predict")
    if kind == ".parquet":
        return pq.read_table(path).num_rows == 120
    if kind == ".csv":
        return data.count(b"\n") == 121 and data.endswith(b"\n")
    ends = {".png": b"IEND\xaeB`\x82", ".html": b"</html>\n", ".toml": b'predictions.csv"\n', ".md": b"|\n"}
    return data.endswith(ends[kind])


@pytest.fixture(params=COMMANDS)
def command(request, project, tmp_path, monkeypatch, capsys):
    """Ask for it with a fault: (exit code, what was said), after it has been seen that every file is old or new."""
    if request.param == "reproduce":
        pytest.importorskip("widemargin_papers")
        monkeypatch.setattr("widemargin_papers.reproductions.margin_pursuit_fig2.draw", lambda _: Figure())
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    # What takes the time and touches no file: what is in a figure, the search for room for it, and the choice of a
    # setting by folds.
    monkeypatch.setattr(proposals, "_best_setting", first_setting)
    monkeypatch.setattr("matplotlib.figure.Figure.get_layout_engine", lambda _: None)
    if "memory" not in request.node.name:
        fits_once(monkeypatch)
    outputs = [tmp_path / name for name in COMMANDS[request.param][1].split()]
    there = set(tmp_path.rglob("*")) - {*outputs}

    def asked(fault, older=b"older"):
        for path in outputs:
            path.write_bytes(older)
            if not older:
                path.unlink()
        capsys.readouterr()
        with fault as faulty:
            code = ask(request.param)
        said = capsys.readouterr().err
        assert "defect" not in said and "Traceback" not in said, said
        assert set(tmp_path.rglob("*")) - {*outputs} == there
        assert code in (0, 2), said
        is_old = [(path.read_bytes() if path.exists() else b"") == older for path in outputs]
        assert all(old or is_whole(path) for old, path in zip(is_old, outputs, strict=True)), said
        assert code == 2 or not any(is_old)
        return code, said, faulty.count

    return asked


def test_a_disk_that_fails(command):
    code, _, count = command(faulty_disk())
    assert code == 0 and count >= 4  # opened, written, forced to the disk and renamed
    codes, faults, older = [], itertools.cycle([*DISK_FAULTS, READ_ONLY]), itertools.cycle([b"older", b"", b"older"])
    for place in range(0, count, 1 + count // 16):
        fault = next(faults)
        code, said, _ = command(faulty_disk(place, fault), next(older))
        assert code == 0 or "memory" in said or fault.strerror in said, (place, said)
        codes.append(code)
    assert codes.count(2) > len(codes) / 2  # only forcing the folder to the disk may fail without a word


def test_a_memory_that_fails(command):
    memory = FaultyMemory()
    code, _, count = command(memory.failing())
    assert code == 0
    for place in np.linspace(0, count - 1, 12).astype(int).tolist():
        code, said, _ = command(memory.failing(place))
        assert code == 0 or "memory" in said.lower(), (place, said)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "reproduce"], indirect=True)
def test_a_disk_that_is_full(command, request):
    resource = pytest.importorskip("resource")

    @contextlib.contextmanager
    def full():
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            yield SimpleNamespace(count=0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    code, said, _ = command(full())
    assert code == 2 and "File too large" in said
    # told before the work begins
    assert "cannot be written: nothing can be made in" in said or request.node.callspec.params["command"] == "data"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "reproduce"])
def test_a_place_that_cannot_be(name, project, monkeypatch, capsys):
    """The folder asked for is a file."""
    monkeypatch.chdir(project)
    asked, output = COMMANDS[name][0].split(), COMMANDS[name][1].split()[0]
    asked[asked.index(output)] = f"people.csv/{output}"
    assert main([name.partition(",")[0], *asked]) == 2
    said = capsys.readouterr().err
    assert "people.csv" in said and "defect" not in said and said.startswith("widemargin: ")


@contextlib.contextmanager
def somebody_else():
    """Whom a folder can be closed to: the administrator, as whom containers run, may write everywhere."""
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(os.getuid())


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="only on Unix can a process go on as somebody else")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "reproduce"])
def test_a_folder_that_is_read_only(name, project, monkeypatch, capsys):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "closed")
        shutil.copytree(project, folder)
        before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        for path, mode in ((place, 0o755), (folder, 0o555)):
            os.chmod(path, mode)
        monkeypatch.chdir(folder)
        with somebody_else():
            assert ask(name) == 2
        said = capsys.readouterr().err
        assert said.startswith("widemargin: ") and "Permission denied" in said and "defect" not in said
        os.chmod(folder, 0o755)
        assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("form", ["--json", "--no-json"])
def test_output_that_nobody_can_write(form, project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    asked = ["audit", "goals.toml", "--model", "people.skops", *(["--json"] if form == "--json" else [])]
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        assert main(asked) == 2
    said = capsys.readouterr().err
    assert said.count("the output cannot be written (No space left on device)") == 1 and "Traceback" not in said
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", None)  # so Python begins where the caller closed it
        assert main(asked) == 0


@pytest.mark.parametrize("name", ["train", "tradeoff", "report", "predict"])
def test_sigterm_in_the_middle(name, project, tmp_path, monkeypatch, capsys):
    """As Ctrl-C: exit code 130, the best model so far beside the earlier one, and no half file."""
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.skops").write_bytes(b"older")
    steps, last = itertools.count(), 1 if name == "predict" else 2

    def ended(*_):
        if next(steps) == last:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("widemargin.cli.console.Progress.watch", ended)
    if name == "predict":  # which has no steps of a solver, but blocks of rows
        monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 16)
        monkeypatch.setattr("widemargin.cli.console.Progress.step", ended)
    there = {path for path in tmp_path.iterdir() if path.name not in COMMANDS[name][1].split()}
    for path in COMMANDS[name][1].split()[name == "train" :]:
        (tmp_path / path).unlink()
    assert ask(name) == 130
    assert "Traceback" not in capsys.readouterr().err
    new = set(tmp_path.iterdir()) - there
    assert all(map(is_whole, new - {tmp_path / "m.skops", tmp_path / "p.partial.csv"}))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if name == "train":
        assert (tmp_path / "m.skops").read_bytes() == b"older" and tmp_path / "m.interrupted.skops" in new


def test_two_commands_write_one_file(project, tmp_path, monkeypatch):
    """Whoever ends last has the file; nobody sees a part of it."""
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    write, other = _files.UnfinishedFile.keep, [True]

    def keep(self, path=None):
        if other and other.pop():  # before the first has given its file the name, another command has done it all
            assert ask("predict") == 0 and is_whole(tmp_path / "p.csv")
        write(self, path)

    monkeypatch.setattr(_files.UnfinishedFile, "keep", keep)
    assert ask("predict") == 0 and is_whole(tmp_path / "p.csv")
    assert not list(tmp_path.glob(".*.tmp"))
