"""What an import costs: processor time, the modules it loads, and that nothing is compiled."""

import json
import statistics
import subprocess
import sys

import pytest

OPTIONAL = (
    "matplotlib", "skops", "torch", "dask", "distributed", "polars", "onnx", "onnxruntime", "skl2onnx", "IPython",
)  # fmt: skip


def run(code):
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return json.loads(printed)


def seconds(imports, repeats=3):
    """Processor time of imports in a fresh interpreter, the median."""
    code = f"import json, time\nt = time.process_time()\n{imports}\nprint(json.dumps(time.process_time() - t))"
    return statistics.median(run(code) for _ in range(repeats))


def test_the_package_alone_costs_less_than_numpy_and_half_a_second():
    own = seconds("import widemargin")
    assert own < 0.5
    assert own < seconds("import numpy")


def test_the_package_alone_loads_the_standard_library_only():
    loaded = run(
        "import json, sys\nbefore = set(sys.modules)\nimport widemargin\n"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names)))"
    )
    assert loaded == ["widemargin"]


@pytest.fixture(scope="module")
def all_names():
    """What a process has to say that first loads what is below, and then every public name; imports take seconds."""
    return run(
        "import gc, json, sys, time\nt = time.process_time()\n"
        "import numba, highspy, narwhals, scipy.optimize, scipy.sparse.linalg, sklearn.svm, sklearn.model_selection\n"
        "import pyarrow.csv\nbelow = time.process_time() - t\n"
        "import widemargin as wm\nnames = [wm.exceptions.GoalError.__name__, wm.persistence.to_onnx.__name__]\n"
        "from widemargin import *\nall_names = time.process_time() - t\n"
        "import widemargin.plotting, widemargin_papers.reproductions.pictures.slack_rescaling_pictures\n"
        "from numba.core.dispatcher import Dispatcher\n"
        "kernels = [o for o in gc.get_objects() if isinstance(o, Dispatcher)]\n"
        "kernels = [k for k in kernels if k.py_func.__module__.startswith('widemargin')]\n"
        f"loaded = [m for m in {OPTIONAL!r} if m in sys.modules]\n"
        "told = {'seconds': [below, all_names], 'names': [*names, load_model.__module__], 'kernels': len(kernels)}\n"
        "told |= {'compiled': [k.__name__ for k in kernels if k.signatures], 'loaded': loaded}\n"
        "print(json.dumps(told))"
    )


def test_every_public_name_is_there_and_costs_little_more_than_the_libraries_below(all_names):
    """Ratio, not seconds: a busy machine slows both sides. scikit-learn, numba and highspy are most of it.

    Both sides in one process: what is below is loaded first, and the names add to it. Packages are reached without an
    import of their own.
    """
    below, together = all_names["seconds"]
    assert together < 2.0 * below
    assert all_names["names"][:2] == ["GoalError", "to_onnx"]
    assert all_names["names"][2].startswith("widemargin.persistence")


def test_every_public_name_compiles_nothing_and_loads_nothing_optional(all_names):
    """Modules that draw figures load no matplotlib either. skops itself imports torch and dask where it finds them."""
    assert all_names["kernels"] > 50
    assert all_names["compiled"] == []
    assert all_names["loaded"] == []


def test_audits_by_a_standard_load_no_models():
    """Of the two seconds that a million people may take, these alone would be one."""
    slow = ("sklearn", "scipy.stats", "scipy.optimize", "pandas", "skops", "highspy")
    code = f"import json, sys, widemargin.cli.standards\nprint(json.dumps([m for m in {slow!r} if m in sys.modules]))"
    assert run(code) == []
