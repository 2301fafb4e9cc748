"""Which solver is taken for kernel rows."""

from dataclasses import replace

import numpy as np
import pytest
from testing.kernel_problems import kernel_pair

from widemargin.exceptions import CapabilityError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.linalg.gram import GramRows
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.convex import kernel_step as kernel_choice
from widemargin.solvers.convex.kernel_step import KernelChoice


def run(choice, sub, tol=1e-4, start=None):
    return choice(sub, tol=tol, start=start, rho=10.0, budget=Budget())


def test_auto_begins_with_the_nest_and_ends_with_newton(monkeypatch):
    monkeypatch.setattr(kernel_choice, "_SMALL", 30)
    sub = kernel_pair(Kernel("rbf", 0.5), 1, 60, m=1).sub
    choice = KernelChoice("auto", sub.rows)
    first = run(choice, sub)
    assert choice.used == ["cutting-plane", "newton"]
    assert first.gap <= 1e-4
    warm = KernelChoice("auto", sub.rows)
    assert run(warm, sub, start=first.state).gap <= 1e-4
    assert warm.used == ["newton"]


def test_small_problems_go_to_newton_at_once():
    sub = kernel_pair(Kernel("rbf", 0.5), 1, 50, m=1).sub
    choice = KernelChoice("auto", sub.rows)
    run(choice, sub)
    assert choice.used == ["newton"]


def test_the_nest_takes_over_where_newton_does_not_end(monkeypatch):
    sub = kernel_pair(Kernel("rbf", 0.5), 1, 50, m=1).sub
    newton = kernel_choice._BY_NAME["newton"]
    monkeypatch.setitem(kernel_choice._BY_NAME, "newton", lambda *a, **k: newton(*a, **k, max_iter=1))
    choice = KernelChoice("auto", sub.rows)
    found = run(choice, sub, tol=1e-3)
    assert choice.used == ["newton", "cutting-plane"]
    assert found.status is Status.CONVERGED


def test_rows_through_the_cache_are_for_the_nest():
    pair = kernel_pair(Kernel("rbf", 0.5), 1, 50, m=1)
    rows = GramRows(KernelRows(Kernel("rbf", 0.5), pair.X, dtype=np.float64))
    choice = KernelChoice("auto", rows)
    assert run(choice, replace(pair.sub, rows=rows), tol=1e-3).gap <= 1e-3
    assert choice.used == ["cutting-plane"]


def test_solvers_of_linear_models_are_refused():
    with pytest.raises(CapabilityError, match="'interior-point' cannot train kernels"):
        KernelChoice("interior-point", GramRows(np.eye(2)))
