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

from faults import DISK_FAULTS, faulty_disk
from widemargin import _files
from widemargin._files import replace_file
from widemargin.cli.main import _ended_like_ctrl_c
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


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_the_old_one_or_the_new_one_whatever_fails(name, tmp_path):
    path, write = tmp_path / name, WRITERS[name]
    write(path)
    new = path.read_bytes()

    def is_new():  # the parts of a model are called after the addresses of its arrays
        return path.read_bytes() == new if path.suffix != ".skops" else load_model(path).coef_.shape == (1, 4)

    with faulty_disk() as points:
        write(path)
    assert points.count >= 4  # it is opened, written, forced to the disk and renamed, all by the one door
    for place, fault in itertools.product(range(points.count), DISK_FAULTS):
        path.write_bytes(b"older")
        with faulty_disk(place, fault):
            try:
                write(path)
            except (WidemarginError, MemoryError):
                pass
            else:
                assert is_new()  # only forcing the folder to the disk may fail without a word
        assert path.read_bytes() == b"older" or is_new(), (place, fault)
        assert list(tmp_path.iterdir()) == [path], (place, fault)


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
    with faulty_disk(1, DISK_FAULTS[0]), pytest.raises(WidemarginError, match="No space left"):
        save_model(MODEL, tmp_path / "m.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "m.skops").coef_, MODEL.coef_)
    with pytest.raises(OSError, match="No such file"):
        replace_file(tmp_path / "absent" / "x", b"")


def test_a_system_that_opens_no_folders(tmp_path, monkeypatch):
    """As Windows: the file is written all the same, only its name is not forced to the disk."""

    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(_files.os, "open", refused)
    replace_file(tmp_path / "x", b"whole")
    assert (tmp_path / "x").read_bytes() == b"whole"


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
