"""The one door of writing: whatever fails, and whenever, a file is the old one or the new one."""

import errno
import itertools
import os
import re
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.svm import LinearSVC

from command_line import people, write_csv
from widemargin import _files
from widemargin._files import replace_file
from widemargin.cli.main import _ended_like_ctrl_c, main
from widemargin.cli.reports import write_text
from widemargin.cli.tables.table_writing import TableWriter, write_table
from widemargin.exceptions import WidemarginError
from widemargin.persistence import load_model, save_model

ROOT = Path(__file__).parents[1]
MODEL = LinearSVC().fit(np.eye(4), [0, 1, 0, 1])
TABLE = pa.table({"a": np.arange(500), "b": [f"word {i}" for i in range(500)]})


def append(path):
    with TableWriter(path) as writer:
        for _ in range(5):
            writer.write(TABLE)


WRITERS = {
    "text.json": lambda path: write_text("text" * 100, path),
    "model.skops": lambda path: save_model(MODEL, path),
    "table.csv": lambda path: write_table(TABLE, path),
    "table.csv.gz": lambda path: write_table(TABLE, path),
    "table.parquet": lambda path: write_table(TABLE, path),
    "pieces.csv": append,
    "pieces.parquet": append,
}
FAULTS = [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "Input/output error"), MemoryError()]


class Faulty:
    """Counts what is asked of the disk, and fails at one point (none: counts only)."""

    def __init__(self, monkeypatch, place, fault):
        self.count, self._place, self._fault = itertools.count(), place, fault
        self.points = 0
        opened, fsync, replace = Path.open, os.fsync, Path.replace

        def open_(path, mode="r", *more, **named):
            if mode != "xb":
                return opened(path, mode, *more, **named)
            self.point()
            stream, outer = opened(path, mode, *more, **named), self

            class Stream:
                def __getattr__(self, name):
                    return getattr(stream, name)

                def write(self, data):
                    outer.point()
                    return stream.write(data)

            return Stream()

        monkeypatch.setattr(Path, "open", open_)
        monkeypatch.setattr(_files.os, "fsync", lambda number: (self.point(), fsync(number))[1])
        monkeypatch.setattr(Path, "replace", lambda path, target: (self.point(), replace(path, target))[1])

    def point(self):
        self.points = next(self.count) + 1
        if self.points - 1 == self._place:
            raise self._fault


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_the_old_one_or_the_new_one_whatever_fails(name, tmp_path):
    path, write = tmp_path / name, WRITERS[name]
    write(path)
    new = path.read_bytes()

    def is_new():  # the parts of a model are called after the addresses of its arrays
        return path.read_bytes() == new if path.suffix != ".skops" else load_model(path).coef_.shape == (1, 4)

    with pytest.MonkeyPatch.context() as patch:
        counter = Faulty(patch, None, None)
        write(path)
    assert counter.points >= 4  # it is opened, written, forced to the disk and renamed, all by the one door
    for place, fault in itertools.product(range(counter.points), FAULTS):
        path.write_bytes(b"older")
        with pytest.MonkeyPatch.context() as patch:
            Faulty(patch, place, fault)
            try:
                write(path)
            except (WidemarginError, MemoryError):
                pass
            else:
                assert is_new()  # only forcing the folder to the disk may fail without a word
        assert path.read_bytes() == b"older" or is_new(), (place, fault)
        assert list(tmp_path.iterdir()) == [path], (place, fault)


def test_the_command_line_names_what_failed(tmp_path, capsys):
    write_csv(tmp_path / "people.csv", people())
    out = tmp_path / "goals.toml"
    asked = ["init", str(tmp_path / "people.csv"), "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        counter = Faulty(patch, None, None)
        assert main(asked) == 0
    out.unlink()
    for place, fault in itertools.product(range(counter.points - 1), FAULTS):
        with pytest.MonkeyPatch.context() as patch:
            Faulty(patch, place, fault)
            assert main(asked) == 2
        said = capsys.readouterr().err
        assert "No space left" in said or "Input/output error" in said or "memory" in said
        assert "defect" not in said and not out.exists()


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    first, second = _files.UnfinishedFile(tmp_path / "a"), _files.UnfinishedFile(tmp_path / "a")
    first.stream.write(b"first")
    second.stream.write(b"second")
    first.keep()
    assert (tmp_path / "a").read_bytes() == b"first"
    second.keep()
    assert (tmp_path / "a").read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_model_is_read_again_after_a_failed_save(tmp_path):
    save_model(MODEL, tmp_path / "m.skops")
    with pytest.MonkeyPatch.context() as patch:
        Faulty(patch, 1, FAULTS[0])
        with pytest.raises(WidemarginError, match="No space left"):
            save_model(MODEL, tmp_path / "m.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "m.skops").coef_, MODEL.coef_)
    with pytest.raises(OSError, match="No such file"):
        replace_file(tmp_path / "absent" / "x", b"")


def test_sigterm_ends_like_ctrl_c():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), _ended_like_ctrl_c():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_files_are_written_by_the_one_door():
    other = re.compile(r"\.write_(text|bytes)\(|savefig\((?!drawn)|parquet\.write_table\(table, path\)")
    sources = sorted((ROOT / "src").rglob("*.py"))
    lines = [(path.name, line) for path in sources for line in path.read_text().splitlines() if ">>>" not in line]
    assert [(name, line) for name, line in lines if other.search(line) and "def " not in line] == []
