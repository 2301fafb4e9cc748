"""Which convex solver: by name, or chosen by the size of the problem and by how the first one does."""

from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin._papers import papers_module
from widemargin.exceptions import CapabilityError
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.convex import interior_point, pmm_newton
from widemargin.solvers.paper_nest import cutting_plane

__all__ = ["SOLVERS", "ConvexChoice"]

_WIDE = 1500  # features from which factors of d x d matrices cost more than coordinate ascent
_FEW = 5  # constraints up to which the nest over coordinate ascent beats Newton with conjugate gradients there
_LOPSIDED = 0.5  # share of one column in the squares of all, from which coordinate ascent crawls
_LARGEST = 10_000  # features: the matrix of the interior point takes 8 d^2 bytes, and its factor as much again
_PATIENCE = 100  # Newton steps; problems that need more were measured to be quicker by the interior point
_EPOCHS = 5000  # of coordinate ascent; problems that suit it need a few hundred

_BY_NAME: dict[str, Callable[..., ConvexResult]] = {
    "newton": pmm_newton.solve,
    "interior-point": interior_point.solve,
    "cutting-plane": cutting_plane.solve,
}

_OF_THE_PAPER = {
    "cutting-plane-maximisation": "solve_by_maximisation",
    "cutting-plane-centre-of-mass": "solve_by_centre_of_mass",
}

SOLVERS = ("auto", *_BY_NAME, *_OF_THE_PAPER)
"""Names; "cutting-plane" is the nest of the paper (Algorithms 2 and 3 over SDCA) with the cut chooser that was measured
to be the quickest. The last two, with the paper's own choosers, are in widemargin-papers."""


class ConvexChoice:
    """A convex solver to call, which remembers what it used.

    "auto" is Newton, which hands over to the interior point where it needs too many steps, from then on for problems of
    that penalty and larger ones. With more than 1500 features there is no interior point; with up to 5 constraints
    "auto" is the cutting plane over coordinate ascent there, unless one column outweighs all others, and that hands
    over to Newton where it needs too many epochs.

    Parameters
    ----------
    name : str
        One of `SOLVERS`.
    n_features : int

    Attributes
    ----------
    used : list of str
        The solvers called so far, in order of first use.

    Raises
    ------
    CapabilityError
        If the name is unknown, that of a solver over blocks, or of one in widemargin-papers where that package is
        missing; or if the solver needs a d x d matrix that is too large.
    """

    def __init__(self, name: str, n_features: int) -> None:
        if name == "bundle":
            raise CapabilityError("solver='bundle' is for rows in blocks: use fit_blocks, or solver='auto'.")
        if name not in SOLVERS:
            raise CapabilityError(f"solver={name!r} is unknown; use one of {', '.join(map(repr, SOLVERS))}.")
        if name == "interior-point" and n_features > _LARGEST:
            raise CapabilityError(
                f"solver={name!r} factors a matrix of {n_features} x {n_features} numbers "
                f"({8e-9 * n_features**2:.1f} GB); above {_LARGEST} features use 'auto' or 'cutting-plane'."
            )
        self.name = name
        self._by_name = dict(_BY_NAME)
        if name in _OF_THE_PAPER:
            choosers = papers_module("solvers.cut_choosers", f"solver={name!r}")
            self._by_name[name] = getattr(choosers, _OF_THE_PAPER[name])
        self._wide = n_features > _WIDE
        self._lopsided: dict[int, bool] = {}  # by number of rows: a sample of them may differ from all
        self._handed_over: dict[int, float] = {}  # by number of rows, too, the smallest penalty it was hard at
        self.used: list[str] = []

    def __call__(
        self, sub: ConstrainedHinge, *, tol: float, start: ConvexState | None, rho: float, budget: Budget
    ) -> ConvexResult:
        """Solve a subproblem."""
        options: dict[str, Any] = {"tol": tol, "start": start, "rho": rho, "budget": budget}
        if self.name != "auto":
            return self._solve(self.name, sub, **options)
        first_name, second_name, limit = self._plan(sub)
        n = sub.rows.n_rows
        if rho >= self._handed_over.get(n, np.inf):
            return self._solve(second_name, sub, **options)
        first = self._solve(first_name, sub, **options | limit)
        if first.status != Status.MAX_ITER or first_name == second_name:
            return first
        second = self._solve(second_name, sub, **options | {"start": first.state})
        if second.gap >= first.gap:
            return first
        self._handed_over[n] = min(rho, self._handed_over.get(n, np.inf))
        return second

    def _plan(self, sub: ConstrainedHinge) -> tuple[str, str, dict[str, int]]:
        """The first solver, the one it hands over to (itself: nobody), and how long it may take."""
        if not self._wide:
            return "newton", "interior-point", {"max_iter": _PATIENCE}
        n = sub.rows.n_rows
        if sub.n_constraints <= _FEW and n not in self._lopsided:
            self._lopsided[n] = _lopsided(sub.rows)
        if sub.n_constraints > _FEW or self._lopsided[n]:
            return "newton", "newton", {}
        return "cutting-plane", "newton", {"max_epochs": _EPOCHS}

    def _solve(self, name: str, sub: ConstrainedHinge, **options: object) -> ConvexResult:
        if name not in self.used:
            self.used.append(name)
        return self._by_name[name](sub, **options)


def _lopsided(rows: RowBlocks) -> bool:
    """Whether one column is much larger than the others: coordinate ascent then takes two to three times as long."""
    squares, _ = rows.diagonal(np.ones(rows.n_rows))
    return float(squares.max(initial=0.0)) > _LOPSIDED * float(squares.sum())
