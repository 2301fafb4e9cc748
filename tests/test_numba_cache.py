"""The cache of compiled code: keyed by the sources, inside the environment, private."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from widemargin import _numba


@pytest.fixture
def fresh(monkeypatch):
    """`cache_folder` and `source_hash` without what they remember."""
    for function in (_numba.cache_folder, _numba.source_hash):
        function.cache_clear()
    yield _numba
    for function in (_numba.cache_folder, _numba.source_hash):
        function.cache_clear()


@pytest.fixture
def package(tmp_path):
    """A folder that stands for the package: one file with compiled code, one without."""
    (tmp_path / "loops.py").write_text("from widemargin._numba import kernel\n")
    (tmp_path / "plain.py").write_text("x = 1\n")
    return tmp_path


def hash_of(folder, fresh, monkeypatch):
    monkeypatch.setattr(fresh, "__file__", str(folder / "_numba.py"))
    fresh.source_hash.cache_clear()
    return fresh.source_hash()


def test_an_edit_of_compiled_code_changes_the_key(package, fresh, monkeypatch):
    before = hash_of(package, fresh, monkeypatch)
    assert before == hash_of(package, fresh, monkeypatch)
    (package / "loops.py").write_text("from widemargin._numba import kernel\n# changed\n")
    assert hash_of(package, fresh, monkeypatch) != before


def test_a_new_or_renamed_file_changes_the_key(package, fresh, monkeypatch):
    before = hash_of(package, fresh, monkeypatch)
    (package / "loops.py").rename(package / "other.py")
    assert hash_of(package, fresh, monkeypatch) != before


def test_an_edit_elsewhere_keeps_the_key(package, fresh, monkeypatch):
    before = hash_of(package, fresh, monkeypatch)
    (package / "plain.py").write_text("x = 2\n")
    assert hash_of(package, fresh, monkeypatch) == before


def test_the_folder_lies_in_the_environment_and_is_private(tmp_path, fresh, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    folder = Path(fresh.cache_folder())
    assert folder.is_relative_to(tmp_path) and folder.name == fresh.source_hash()
    for part in (folder, folder.parent):
        assert stat.S_IMODE(part.stat().st_mode) == 0o700


def test_the_users_own_choice_is_kept(fresh, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/somewhere")
    assert fresh.cache_folder() is None


def test_outside_an_environment_numba_chooses(fresh, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert fresh.cache_folder() is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, fresh, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(sys, "prefix", str(blocked))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert fresh.cache_folder() is None


def test_a_kernel_is_cached_between_processes(tmp_path):
    """The second process loads what the first has compiled; the plain function stays reachable."""
    (tmp_path / "doubling.py").write_text(
        "from widemargin._numba import kernel\n"
        "@kernel\n"
        "def double(x):\n"
        '    """Double x in place."""\n'
        "    for i in range(x.shape[0]):\n"
        "        x[i] *= 2.0\n"
    )
    code = (
        "import numpy as np, doubling\n"
        "x = np.ones(3)\n"
        "doubling.double(x)\n"
        "y = np.ones(3)\n"
        "doubling.double.py_func(y)\n"
        "print(x.tolist() == y.tolist() == [2.0] * 3, sum(doubling.double.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    printed = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
        ).stdout.split()
        for _ in range(2)
    ]
    assert printed == [["True", "0"], ["True", "1"]]
