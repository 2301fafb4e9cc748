"""The choice of a kernel SVM solver: by name, by the problem, and with a reason."""

import numpy as np
import pytest

from widemargin.exceptions import CapabilityError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.automatic import NAMES, choose
from widemargin.solvers.kernel_svm.problem import KernelProblem


def chosen(name="auto", n_rows=1000, n_columns=10, **options):
    return choose(name, **({"n_rows": n_rows, "n_columns": n_columns, "reach": lambda: 0.25} | options))


@pytest.mark.parametrize(
    ("options", "name", "reason"),
    [
        ({}, "dual", "rows are few enough"),
        ({"n_rows": 10_000}, "spatial-dual", "10000 rows of 10 columns, and the kernel reaches 25% of the pairs"),
        ({"n_rows": 10_000, "hold_out": True}, "spatial-dual", "25%"),
        ({"n_rows": 9000, "reach": lambda: 0.9}, "dual", "rows are few enough"),
        ({"n_rows": 9000, "tol": 1e-3}, "dual", "rows are few enough"),
        ({"n_rows": 9000, "tol": 1e-3, "reach": lambda: 0.05}, "spatial-dual", "5%"),
        ({"n_rows": 9000, "tol": 1e-4, "reach": lambda: 0.05}, "dual", "rows are few enough"),
        ({"n_rows": 9000, "tol": 1e-3, "n_columns": 13, "reach": lambda: 0.05}, "dual", "rows are few enough"),
        ({"n_rows": 100_000, "n_columns": 100}, "nested-dual", "100000 rows: subsamples"),
        ({"n_rows": 100_000, "reach": None}, "nested-dual", "100000 rows"),
        ({"n_rows": 8000, "reach": None, "hold_out": True}, "nested-dual", "8000 rows: those held out tell"),
        ({"n_rows": 7999, "reach": None, "hold_out": True}, "dual", "rows are few enough"),
        ({"n_rows": 100_000, "stored": True, "hold_out": True}, "dual", "in memory"),
        ({"n_rows": 100_000, "stored": True}, "dual", "in memory"),
        ({"n_rows": 100_000, "device": True}, "dual", "on a device"),
        ({"device": True, "positive": False}, "smo", "not positive semi-definite"),
        ({"linear": True, "stored": True}, "interior-point", "linear, 10 columns"),
        ({"linear": True, "n_rows": 200, "n_columns": 256}, "interior-point", "linear, 256 columns"),
        ({"linear": True, "n_rows": 1000, "n_columns": 1000}, "interior-point", "linear, 1000 columns"),
        ({"linear": True, "n_rows": 1000, "n_columns": 1001}, "dual", "rows are few enough"),
        ({"linear": True, "n_rows": 5000, "n_columns": 4097}, "dual", "rows are few enough"),
        ({"linear": True, "hold_out": True}, "dual", "rows are few enough"),
    ],
)
def test_auto_follows_the_problem_and_says_why(options, name, reason):
    found = chosen(**options)
    assert found.name == name
    assert reason in found.reason


def test_names_are_obeyed_or_refused():
    for name in NAMES:
        assert chosen(name, linear=True)[:2] == (name, "as asked for")
    with pytest.raises(CapabilityError, match=r"solver='simplex' is unknown; use 'auto', 'dual'"):
        chosen("simplex")
    with pytest.raises(CapabilityError, match="needs kernel='rbf' and dense rows"):
        chosen("spatial-dual", reach=None)
    for options in ({"linear": False}, {"linear": True, "hold_out": True}):
        with pytest.raises(CapabilityError, match=r"'interior-point' needs kernel='linear' and a tol"):
            chosen("interior-point", **options)


@pytest.mark.parametrize("name", NAMES)
def test_every_solver_is_called_as_the_estimator_calls_it(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    bias = name not in ("sdca", "pegasos")
    linear = name == "interior-point"
    kernel = Kernel("linear") if linear else Kernel("rbf", 1.0)
    problem = KernelProblem(KernelRows(kernel, X), y, np.full(80, 3.0), bias)
    result = chosen(name, linear=linear).solve(
        problem, tol=1e-3, seed=3, shrinking=False, max_iter=3000 if name.startswith("sbp") else None
    )
    reference = chosen("dual").solve(problem, tol=1e-6)
    assert result.primal <= (1.2 if name == "pegasos" else 1.05) * reference.primal


def test_options_reach_the_solvers_that_know_them():
    assert {"shrinking", "max_iter"} <= chosen("smo").options
    assert "max_iter" not in chosen("dual").options
    assert "seed" in chosen("sbp").options
