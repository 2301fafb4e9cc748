"""The cache of compiled code: keyed by the sources, inside the environment, private."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
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


DOUBLING = """
import sys, warnings
import numba.core.caching as caching
{before}
warnings.simplefilter("always")
from widemargin._numba import kernel
@kernel
def double(x):
    for i in range(x.shape[0]):
        x[i] *= 2.0
@kernel
def triple(x):
    for i in range(x.shape[0]):
        x[i] *= 3.0
import numpy as np
x, y = np.ones(2), np.ones(2)
double(x)
double.py_func(y)
assert x.tolist() == y.tolist()
triple(x)
print(x.tolist(), sum(double.stats.cache_hits.values()) if double._cache is not None else None)
"""
NO_FOLDER = """
def nowhere(self):
    raise OSError("no")
caching._CacheLocator.ensure_cache_path = nowhere
"""
FULL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
"""


def doubled(tmp_path, before=""):
    """(what was printed, warnings) of a process that compiles two loops, its cache in `tmp_path`."""
    script = tmp_path / "doubling.py"
    if not script.exists():  # older numba keeps nothing for a file that was written again
        script.write_text(DOUBLING.format(before=before))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(("before", "why"), [(NO_FOLDER, "no folder can be written"), (FULL_DISK, "File too large")])
def test_where_nothing_can_be_kept_the_loops_run_all_the_same(before, why, tmp_path):
    if before == FULL_DISK:
        pytest.importorskip("resource")
    printed, warned = doubled(tmp_path, before)
    assert printed.startswith("[6.0, 6.0]")
    assert warned.count("RuntimeWarning") == 1 and f"not kept on disk ({why})" in warned


def test_a_kernel_is_cached_between_processes_and_a_damaged_cache_is_made_anew(tmp_path):
    """The second process loads what the first has compiled; the plain function stays reachable."""
    assert doubled(tmp_path) == ("[6.0, 6.0] 0", "")
    assert doubled(tmp_path) == ("[6.0, 6.0] 1", "")
    for index in (tmp_path / "cache").rglob("*.nbi"):
        index.write_bytes(b"")
    assert doubled(tmp_path) == ("[6.0, 6.0] 0", "")
    assert doubled(tmp_path) == ("[6.0, 6.0] 1", "")


class Plain(NamedTuple):
    """A named tuple that loops are called with."""

    size: float


class Special(Plain):
    """One of another class, with the same fields."""

    __slots__ = ()


@_numba.kernel
def reduced(x, options):
    """The form of the special class."""
    return x - options.size


@_numba.kernel_by_class("options", {Special: reduced})
def changed(x, options):
    """The form of all others."""
    return x + options.size


@_numba.kernel
def changed_twice(x, options):
    """A loop that calls the two."""
    return changed(changed(x, options), options)


def test_the_class_of_a_named_tuple_chooses_the_form_that_is_compiled():
    for run, times in ((changed, 1), (changed.py_func, 1), (changed_twice, 2)):
        assert run(5.0, Plain(1.0)) == 5.0 + times
    assert not getattr(reduced, "signatures", [])
    for run, times in ((changed, 1), (changed.py_func, 1), (changed_twice, 2)):
        assert run(5.0, Special(1.0)) == 5.0 - times


@pytest.mark.parametrize("known", [True, False], ids=["taken in", "another numba"])
def test_loops_call_loops_also_where_they_cannot_be_taken_in_as_written(known, monkeypatch):
    monkeypatch.setattr(_numba._Loop, "_takes_in", True)
    if not known:

        def part(self, args):
            raise AttributeError("numba has changed inside")

        monkeypatch.setattr(_numba._Loop, "_part", part)

    @_numba.kernel
    def inner(x, by):
        return x * by

    @_numba.kernel
    def outer(values, by):
        total = 0.0
        for value in values:
            total += inner(value, by)
        return total

    assert outer(np.arange(4.0), 2.0) == 12.0
    assert bool(inner._parts) == known
    assert inner(3.0, 2.0) == 6.0


def test_none_is_a_type_so_one_loop_has_two_forms():
    """A branch that the type of an argument rules out is not compiled: here it would not even be possible."""

    @_numba.kernel
    def weighed(x, factor):
        return x if factor is None else x * factor

    @_numba.kernel
    def both(x):
        return weighed(x, None) + weighed(x, 0.5)

    assert both(2.0) == both.py_func(2.0) == 3.0


def test_arrays_that_must_not_be_written_need_no_code_of_their_own():
    """Columns of data frames are such arrays, and rows that joblib maps into the memory of its workers."""

    @_numba.array_kernel
    def scores(x, parts):
        return x @ parts.weights + parts.offset

    class Parts(NamedTuple):
        weights: np.ndarray
        offset: float

    def kept(values):
        values.flags.writeable = False
        return values

    x, weights = np.eye(2), np.array([3.0, 4.0])
    for rows, column in ((kept(x.copy()), kept(weights.copy())), (x, weights), (kept(x.copy()), weights)):
        assert scores(rows, Parts(column, 1.0)).tolist() == [4.0, 5.0]
    assert len(scores.overloads) == 1


def test_loops_that_make_arrays_are_called_by_those_that_count_their_users():
    @_numba.array_kernel
    def doubled(x):
        return 2.0 * x

    @_numba.array_kernel
    def fourfold(x):
        return doubled(doubled(x))

    @_numba.kernel
    def total(x):
        return doubled(x)[0]

    @_numba.kernel
    def given(x, y):
        return x

    @_numba.array_kernel
    def chosen(x, y):
        return given(x, y)

    x, doubles = np.ones(3), [fourfold(np.ones(3)) for _ in range(100)]
    assert np.array_equal(doubles, np.full((100, 3), 4.0))
    users = sys.getrefcount(x)
    assert given(x, x) is x
    assert sys.getrefcount(x) == users
    for caller, arguments in ((total, (x,)), (chosen, (x, x))):
        with pytest.raises(TypeError, match="are for `array_kernel`"):
            caller(*arguments)
