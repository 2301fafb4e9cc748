"""Which solver is taken, and when it is handed over."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from testing.exact import solve_exact
from testing.problems import random_subproblem

from widemargin.exceptions import CapabilityError
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.convex import convex_step as choice
from widemargin.solvers.convex.convex_step import ConvexChoice


def call(convex: ConvexChoice, sub: Any) -> Any:
    return convex(sub, tol=1e-4, start=None, rho=30.0, budget=Budget())


@pytest.mark.parametrize(
    ("d", "m", "name"), [(50, 2, "newton"), (1501, 5, "cutting-plane"), (1501, 6, "newton"), (30_000, 9, "newton")]
)
def test_auto_chooses_by_features_and_constraints(d: int, m: int, name: str) -> None:
    sub = random_subproblem(1, 60, 5, m)
    convex = ConvexChoice("auto", d)
    result = call(convex, sub)
    assert convex.used == [name]
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(solve_exact(sub).objective, rel=1e-3)


def test_one_column_that_outweighs_the_others_is_not_for_coordinate_ascent() -> None:
    sub = random_subproblem(1, 60, 5, 2)
    heavy = np.vstack([block.X[block.row_of] for block in sub.rows.blocks])
    heavy[:, 2] *= 5e4
    convex = ConvexChoice("auto", 2000)
    assert call(convex, replace(sub, rows=RowBlocks([(heavy, None)]))).status is Status.CONVERGED
    assert convex.used == ["newton"]


def test_a_hand_over_is_remembered_for_problems_of_that_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_PATIENCE", 1)
    convex = ConvexChoice("auto", 4)
    hard, other = random_subproblem(1, 60, 4, 2), random_subproblem(2, 90, 4, 2)
    assert call(convex, hard).status is Status.CONVERGED
    assert convex.used == ["newton", "interior-point"]
    calls: list[str] = []
    solve = ConvexChoice._solve
    monkeypatch.setattr(
        ConvexChoice, "_solve", lambda self, name, sub, **rest: (calls.append(name), solve(self, name, sub, **rest))[1]
    )
    call(convex, hard)
    assert calls == ["interior-point"]
    call(convex, other)
    assert calls[1] == "newton"


def test_coordinate_ascent_that_takes_too_long_hands_over_to_newton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_EPOCHS", 1)
    convex = ConvexChoice("auto", 2000)
    sub = random_subproblem(1, 60, 4, 2)
    result = call(convex, sub)
    assert result.status is Status.CONVERGED
    assert convex.used == ["cutting-plane", "newton"]
    assert result.primal == pytest.approx(solve_exact(sub).objective, rel=1e-3)
    monkeypatch.setattr(choice.cutting_plane, "solve", None)  # not asked again
    assert call(convex, sub).status is Status.CONVERGED


def test_what_cannot_be_is_refused_with_the_cure() -> None:
    with pytest.raises(CapabilityError, match=r"solver='simplex' is unknown; use one of 'auto', 'newton'"):
        ConvexChoice("simplex", 5)
    with pytest.raises(CapabilityError, match=r"10001 x 10001 numbers \(0\.8 GB\); above 10000 features use 'auto'"):
        ConvexChoice("interior-point", 10_001)
    assert ConvexChoice("newton", 10_001).used == []
