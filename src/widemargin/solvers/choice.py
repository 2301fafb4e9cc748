"""Which convex solver: by name, or chosen by the size of the problem and by how the first one does."""

from collections.abc import Callable
from functools import partial

from widemargin.exceptions import CapabilityError
from widemargin.solvers import cutting_plane, interior_point, pmm_newton
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status

__all__ = ["SOLVERS", "ConvexChoice"]

_WIDE = 1500  # features from which factors of d x d matrices cost more than coordinate ascent
_LARGEST = 10_000  # features: the Newton matrix takes 8 d^2 bytes, and its factor as much again
_PATIENCE = 100  # Newton steps; problems that need more were measured to be quicker by the interior point

_BY_NAME: dict[str, Callable[..., ConvexResult]] = {
    "newton": pmm_newton.solve,
    "interior-point": interior_point.solve,
    "cutting-plane": cutting_plane.solve,
    "cutting-plane-maximisation": partial(cutting_plane.solve, chooser="maximisation"),
    "cutting-plane-centre-of-mass": partial(
        cutting_plane.solve, chooser="centre_of_mass", bias_chooser="centre_of_mass"
    ),
}

SOLVERS = ("auto", *_BY_NAME)
"""Names; "cutting-plane" is the nest of the paper (Algorithms 2 and 3 over SDCA) with the cut chooser that was measured
to be the quickest, the other two are with the paper's own (appendices E.1 with F.2.1, and E.2 with F.2.2)."""


class ConvexChoice:
    """A convex solver to call, which remembers what it used.

    "auto" is Newton, which hands over to the interior point for good where it needs too many steps; with many features
    it is the cutting plane over coordinate ascent, whose cost is linear in them.

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
        If the name is unknown, or the solver needs a d x d matrix that is too large.
    """

    def __init__(self, name: str, n_features: int) -> None:
        if name not in SOLVERS:
            raise CapabilityError(f"solver={name!r} is unknown; use one of {', '.join(map(repr, SOLVERS))}.")
        if name in ("newton", "interior-point") and n_features > _LARGEST:
            raise CapabilityError(
                f"solver={name!r} factors a matrix of {n_features} x {n_features} numbers "
                f"({8e-9 * n_features**2:.1f} GB); above {_LARGEST} features use 'auto' or 'cutting-plane'."
            )
        self.name = name
        if name == "auto" and n_features > _WIDE:
            self.name = "cutting-plane"
        self.used: list[str] = []

    def __call__(
        self, sub: ConstrainedHinge, *, tol: float, start: ConvexState | None, rho: float, budget: Budget
    ) -> ConvexResult:
        """Solve a subproblem."""
        if self.name != "auto":
            return self._solve(self.name, sub, tol=tol, start=start, rho=rho, budget=budget)
        first = self._solve("newton", sub, tol=tol, start=start, rho=rho, budget=budget, max_iter=_PATIENCE)
        if first.status != Status.MAX_ITER:
            return first
        second = self._solve("interior-point", sub, tol=tol, start=first.state, rho=rho, budget=budget)
        if second.gap >= first.gap:
            return first
        self.name = "interior-point"
        return second

    def _solve(self, name: str, sub: ConstrainedHinge, **options: object) -> ConvexResult:
        if name not in self.used:
            self.used.append(name)
        return _BY_NAME[name](sub, **options)
