"""Settings of the whole suite: how hypothesis searches, what a test may cost in plain Python, a Dask cluster."""

import contextlib
import functools
import gc
import importlib
import os
import signal
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler import LoadFileScheduling

from clusters import small_cluster

# No deadline: the first example of a test may compile. Derandomised: a change is judged by the change, not by luck;
# `HYPOTHESIS_PROFILE=search` looks for new examples, many of them.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(  # `make mutation` only asks whether something fails
    "mutation",
    settings.get_profile("suite"),
    max_examples=100,
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# Networks are written in PyTorch, which is an extra: without it their sources cannot be imported for their doctests.
collect_ignore = ["src/widemargin/kernels/gpu_sums.py"] if find_spec("triton") is None else []
if find_spec("torch") is None:
    collect_ignore += ["src/widemargin/torch.py", "src/widemargin/estimators/networks"]

SECONDS = float(os.environ.get("WIDEMARGIN_TEST_SECONDS", "0"))


@pytest.fixture(autouse=SECONDS > 0)
def limited():
    """`make coverage` runs loops in plain Python: a test ends after some processor time, its lines count until then."""

    def stop(*_):
        pytest.skip(f"more than {SECONDS:g} s of processor time in plain Python")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.fixture(autouse=True)
def seeded():
    """Estimators without `random_state` draw from NumPy's global generator: every test begins with the same one.

    A rare draw of hold-out rows without a positive row of a group would fail a test for no fault of the change.
    """
    np.random.seed(0)  # noqa: NPY002, it is the legacy generator that scikit-learn's check_random_state(None) returns


def pytest_collection_finish(session):
    """The collector of garbage leaves out what stays until the end: the libraries and ten thousand tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Nothing of what is imported and collected is garbage.

    Every second process first imports the files of the tests from the last one on. What pytest makes of a file is kept
    on disk, and takes longer to make than all imports: so each process finds what the others have made.
    """
    gc.disable()
    if int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2:
        for folder in filter(os.path.isdir, session.config.args):
            for path in sorted(Path(folder).resolve().rglob("test_*.py"), reverse=True):
                with contextlib.suppress(Exception, pytest.skip.Exception):  # it is told when the file is collected
                    importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))
    collected = yield
    gc.enable()
    return collected


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Examples are in the sources: files of tests are not searched for them."""
    found = yield
    return [one for one in found if type(one) is pytest.Module] if file_path.name.startswith("test_") else found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """After each file the collector of garbage also leaves out what it has left behind, such as compiled loops."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    """An expected failure shows its message alone: for the lines, scikit-learn's checks would be parsed, 0.4 s."""
    if call.excinfo is not None and item.get_closest_marker("xfail"):
        call.excinfo.traceback = call.excinfo.traceback[:1]
        call.excinfo.value.__cause__, call.excinfo.value.__suppress_context__ = None, True


@pytest.fixture(scope="session")
def dask_client():
    """A client of a small cluster; the same for all tests that ask for it."""
    with small_cluster() as client:
        yield client


# Files of few tests begin last. One of these, alone at the end, would let the other processes wait: together they are
# many tests, and begin earlier.
LONG = {"test_docs.py", "test_gallery.py", "test_goal_suite.py", "test_notebooks.py", "test_plain_oracle.py"}


class OneCluster(LoadFileScheduling):
    """A file stays in one process, and the files that ask for the cluster in the same: it takes seconds to start."""

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        if os.path.basename(file) in LONG:
            return "few tests that take long"
        return "the cluster" if "dask_client" in text_of(self.config.rootpath / file) else file


@functools.cache
def text_of(path):
    """The text of a file, which every test in it asks for."""
    return path.read_text()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """That of `--dist loadfile`."""
    return OneCluster(config, log) if config.getvalue("dist") == "loadfile" else None
