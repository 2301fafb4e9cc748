"""scikit-learn's own tests of SVC, run on KernelSVC in its place: `make test-svc`.

The installed `sklearn/svm/tests/test_svm.py` and `test_sparse.py` are copied to a folder of their own and run with
`sklearn.svm.SVC` replaced. A test may fail only if it is listed here with its reason; one that is listed and passes is
an error too, so that the list (and `docs/kernel-svm.md`, which shows it) stays true.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import sklearn.svm

DIFFERENT: dict[str, str] = {
    "test_svm.py::test_precomputed": "solutions within `tol` may differ in the fourth digit of a dual coefficient",
    "test_svm.py::test_svc_clone_with_callable_kernel": "the same",
    "test_svm.py::test_tweak_params": "writes to LIBSVM's private copy of the coefficients",
    "test_svm.py::test_svc_raises_error_internal_representation": "the same",
    "test_svm.py::test_gamma_scale": "reads the private `_gamma`; here it is the public `gamma_`",
    "test_svm.py::test_bad_input": "a model of dense rows predicts sparse ones, where SVC refuses them",
    "test_svm.py::test_sparse_precomputed": "takes sparse precomputed kernels, where SVC refuses them",
    "test_svm.py::test_svc_nonfinite_params": "refuses features that overflow with another message",
    "test_svm.py::test_unfitted": "the message names KernelSVC",
    "test_svm.py::test_custom_kernel_not_array_input": "rows are numbers, also for a function as kernel",
    "test_svm.py::test_svc_nusvc_probA_probB_deprecated": "has not the deprecated attributes `probA_` and `probB_`",
    "test_svm.py::test_libsvm_convergence_warnings": "two steps, each of a working set of rows, solve these six rows",
    "test_sparse.py::test_timeout": "the same",
}
"""Tests of the installed scikit-learn (by name, without parameters) that KernelSVC does not pass, and why."""

BY_ROUNDING = frozenset({"test_svm.py::test_precomputed", "test_svm.py::test_svc_clone_with_callable_kernel"})
"""Those that pass where rounding, and so the processor, tells rows of equal distance apart as LIBSVM does."""

PLUGIN = """
import numpy as np
import pytest
import sklearn.svm
import widemargin

sklearn.svm.SVC = widemargin.KernelSVC

@pytest.fixture
def global_random_seed():
    return 42

@pytest.fixture
def global_dtype():
    return np.float64
"""


def failed_tests() -> tuple[set[str], int]:
    """Names of the tests that fail, without parameters, and how many were run in all."""
    theirs = Path(sklearn.svm.__file__).parent / "tests"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for test in ("test_svm.py", "test_sparse.py"):
            shutil.copy(theirs / test, folder / test)
        (folder / "kernel_svc_for_svc.py").write_text(PLUGIN)
        (folder / "pytest.ini").write_text("[pytest]\n")  # none of the settings of this project
        command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "kernel_svc_for_svc"]
        said = subprocess.run(
            [*command, "-p", "no:cacheprovider", "--tb=no", "-rfE"], cwd=folder, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([name, os.environ.get("PYTHONPATH", "")])}, check=False,
        )  # fmt: skip
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+?::\w+)", said.stdout, re.MULTILINE))
    number = sum(map(int, re.findall(r"(\d+) (?:passed|failed|errors?)", said.stdout)))
    if not number:
        raise RuntimeError(f"scikit-learn's tests did not run:\n{said.stdout}\n{said.stderr}")
    return failed, number


def main() -> int:
    """Print what differs from the list; 1 where something does."""
    failed, number = failed_tests()
    lines = [f"fails, and is not listed: {name}" for name in sorted(failed - DIFFERENT.keys())]
    passed = DIFFERENT.keys() - failed - BY_ROUNDING
    lines += [f"is listed, and passes (or is gone): {name}" for name in sorted(passed)]
    shown = (Path(__file__).parents[1] / "docs" / "kernel-svm.md").read_text()
    missing = sorted(name for name in DIFFERENT if f"`{name.partition('::')[2]}`" not in shown)
    lines += [f"is listed, and not in docs/kernel-svm.md: {name}" for name in missing]
    lines.append(f"{number} tests of SVC: {len(failed)} functions fail, {len(DIFFERENT)} are listed with a reason.")
    sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(failed - DIFFERENT.keys() or passed or missing))


if __name__ == "__main__":
    sys.exit(main())
