"""Which solver solves a convex step: by name, or by the size of the problem and by how the first one does.

Who works on what, and who hands over to whom where the solver is "auto":

| rows                                           | first         | hands over                        | to            |
|------------------------------------------------|---------------|-----------------------------------|---------------|
| linear                                         | newton        |                                   |               |
| kernel, more than 500 rows, from nothing       | cutting-plane | at a gap of 3e-2                  | newton        |
| kernel, few rows or from a warm start          | newton        | when its steps run out            | cutting-plane |
| kernel, matrix not in memory                   | cutting-plane |                                   |               |
| fewer rows than features, sparse: at most half | as a problem in the span of the rows (see below)                  |
| in blocks                                      | newton        |                                   |               |
| in blocks, many features, up to 50 constraints | bundle        |                                   |               |

In the span of its rows a problem has as many features as rows: 1,000 rows of 20,000 features with a recall of 0.9 took
5.3 s in place of 67.

Blocks of many features with so few numbers that one process holds them are gathered, and solved as rows in memory.

"bundle" is the public name of the level method. A whole fit of a9a with 2000 and 5000 kernel rows
(`python -m benchmarks kernelised`) took 2.1 to 3.1 times as long by Newton alone, which spends its time on bands that
hold nearly every row, and 1.6 to 3.1 times as long by the cutting plane alone, which crawls at its end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from widemargin._papers import papers_module
from widemargin.distributed.blocks import BlockedRows
from widemargin.exceptions import CapabilityError
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.linalg.row_span import RowSpan
from widemargin.solvers.base import Budget, CertifiedRecorder, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.convex import level_method, newton
from widemargin.solvers.paper_nest import cutting_plane

__all__ = ["BLOCK_SOLVERS", "SOLVERS", "BlockStep", "ConvexStep", "KernelStep", "StepOptions"]

_SOLVE: dict[str, Callable[..., ConvexResult]] = {
    "newton": newton.solve,
    "cutting-plane": cutting_plane.solve,
    "bundle": level_method.solve,
}

_TO_COMPARE_WITH = {
    "interior-point": ("interior_point", "solve"),
    "cutting-plane-maximisation": ("cut_choosers", "solve_by_maximisation"),
    "cutting-plane-centre-of-mass": ("cut_choosers", "solve_by_centre_of_mass"),
}
"""Solvers of widemargin-papers: module and function. The interior point was measured to take longer than Newton."""

SOLVERS = ("auto", "newton", "cutting-plane", *_TO_COMPARE_WITH)
"""Names; "cutting-plane" is the nest of the paper (Algorithms 2 and 3 over SDCA) with the cut chooser that was measured
to be the quickest, the last two are that nest with the paper's own choosers."""

BLOCK_SOLVERS = ("auto", "newton", "bundle")
"""Names for rows in blocks."""


@dataclass(frozen=True)
class StepOptions:
    """Where one solver of a convex step is left for another.

    Attributes
    ----------
    largest : int
        Features that the interior point takes: its matrix has 8 d^2 bytes, and its factor as many again.
    rough : float
        Relative gap at which the nest hands kernel rows over to Newton; see above.
    small : int
        Kernel rows up to which Newton begins at once, because their bands cost nothing.
    most_cut : int
        Constraints beyond which the programme over the cuts of the level method takes seconds a look.
    """

    largest: int = 10_000
    rough: float = 3e-2
    small: int = 500
    most_cut: int = 50


class Stage(NamedTuple):
    """A solver, and the relative gap at which the next one takes over; where it is 0, when the steps run out."""

    solver: str
    rough: float = 0.0


@dataclass
class ConvexStep:
    """A convex solver to call, for linear rows in memory, which remembers what it used.

    A solver that had to hand over is not asked again for as many rows and a penalty as large or larger.

    Parameters
    ----------
    name : str
        One of `SOLVERS`.

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

    name: str
    n_features: int
    options: StepOptions = StepOptions()
    used: list[str] = field(default_factory=list)
    _solve_with: dict[str, Callable[..., ConvexResult]] = field(default_factory=_SOLVE.copy)
    _handed_over: dict[int, float] = field(default_factory=dict)  # by number of rows, the smallest penalty
    _span: RowSpan | None = None
    _inside: "ConvexStep | None" = None  # the solver in the span

    def __post_init__(self) -> None:
        if self.name == "bundle":
            raise CapabilityError("solver='bundle' is for rows in blocks: use fit_blocks, or solver='auto'.")
        if self.name not in SOLVERS:
            raise CapabilityError(f"solver={self.name!r} is unknown; use one of {', '.join(map(repr, SOLVERS))}.")
        d, largest = self.n_features, self.options.largest
        if self.name == "interior-point" and d > largest:
            raise CapabilityError(
                f"solver={self.name!r} factors a matrix of {d} x {d} numbers ({8e-9 * d**2:.1f} GB); above {largest} "
                "features use 'auto' or 'cutting-plane'."
            )
        if self.name in _TO_COMPARE_WITH:
            module, function = _TO_COMPARE_WITH[self.name]
            self._solve_with[self.name] = getattr(papers_module(f"solvers.{module}", f"solver={self.name!r}"), function)

    def stages(self, sub: ConstrainedHinge, start: ConvexState | None) -> tuple[Stage, ...]:
        """The solvers to try in turn, see the module's head."""
        return (Stage("newton" if self.name == "auto" else self.name),)

    def __call__(
        self, sub: ConstrainedHinge, *, tol: float, start: ConvexState | None, rho: float, budget: Budget
    ) -> ConvexResult:
        """Solve a subproblem."""
        if self.name == "auto" and isinstance(sub.rows, RowBlocks):
            if self._span is None or not self._span.knows(sub.rows):
                self._span = RowSpan.of(sub.rows, share=1.0)
                d = 0 if self._span is None else self._span.n_features
                self._inside = ConvexStep("auto", d, self.options, self.used)
            # There is a span where there are fewer rows than features.
            if self._span is not None:
                return self._solve_in_span(self._span, sub, tol, start, rho, budget)
        stages, n, best = self.stages(sub, start), sub.rows.n_rows, None
        # A larger penalty makes a problem harder, never easier.
        if rho >= self._handed_over.get(n, np.inf):
            # The first solver has failed on an easier problem of this size.
            stages = stages[-1:]
        for stage in stages:
            if stage.solver not in self.used:
                self.used.append(stage.solver)
            solve, stage_tol = self._solve_with[stage.solver], max(tol, stage.rough)
            result = solve(sub, tol=stage_tol, start=start, rho=rho, budget=budget)
            start = result.state
            # A rough stage only warms up the next one; whatever it reached, that one goes on.
            if stage.rough > 0.0:
                if result.gap <= tol or budget.exhausted:
                    return result
                continue
            if best is None or result.gap < best.gap:
                # The stage before has come less far, and is skipped on problems as hard as this one from now on.
                if best is not None:
                    self._handed_over[n] = min(rho, self._handed_over.get(n, np.inf))
                best = result
            # Solved, or stopped from outside: there is nothing to hand over.
            if result.status != Status.MAX_ITER:
                break
        assert best is not None
        return best

    def _solve_in_span(
        self, span: RowSpan, sub: Any, tol: float, start: ConvexState | None, rho: float, budget: Budget
    ) -> ConvexResult:
        """Solve in the span of the rows; the primal value is that of the weights of all features."""
        assert self._inside is not None
        inside = None if start is None else start._replace(w=span.into(start.w))
        narrow = replace(sub, rows=span.coordinates(sub.rows))
        found = self._inside(narrow, tol=tol, start=inside, rho=rho, budget=budget)
        w, state = span.back(found.w), found.state._replace(w=span.back(found.state.w))
        loss, excess = sub.values(sub.scores(w, found.b))
        measured = CertifiedRecorder(rho, budget, tol)
        measured.add_dual(found.dual, found.multipliers)
        measured.add_point(w, found.b, loss + 0.5 * sub.lam * sub.rows.square(w), excess)
        return replace(found, w=w, primal=measured.primal, gap=measured.gap, violation=excess, state=state)


class KernelStep(ConvexStep):
    """The same for kernel rows.

    Parameters
    ----------
    name : {"auto", "newton", "cutting-plane"}

    Raises
    ------
    CapabilityError
        If the solver cannot work on these rows.
    """

    def __init__(self, name: str, rows: GramRows, options: StepOptions = StepOptions()) -> None:
        if name not in ("auto", "newton", "cutting-plane"):
            raise CapabilityError(f"solver={name!r} cannot train kernels; use 'auto', 'newton' or 'cutting-plane'.")
        super().__init__("cutting-plane" if name == "auto" and rows.matrix is None else name, rows.n_rows, options)

    def stages(self, sub: ConstrainedHinge, start: ConvexState | None) -> tuple[Stage, ...]:
        """See `ConvexStep`."""
        if self.name != "auto":
            return (Stage(self.name),)
        to_the_end = Stage("newton"), Stage("cutting-plane")
        if start is None and sub.rows.n_rows > self.options.small:
            # From nothing every row is in the band, which Newton would have to factor.
            return Stage("cutting-plane", rough=self.options.rough), *to_the_end
        return to_the_end


class BlockStep(ConvexStep):
    """The same for rows in blocks, and for samples of them in memory.

    By the level method a convex step was measured to take a fifth of Newton's looks or less where Newton would iterate
    its systems, and a fit a quarter to a third (`docs/scaling.md`).

    Parameters
    ----------
    name : {"auto", "newton", "bundle"}
    """

    def __init__(self, name: str, rows: BlockedRows, n_constraints: int, options: StepOptions = StepOptions()) -> None:
        # Where Newton would iterate its systems each product is a look at all blocks.
        by_cuts = newton.is_wide(rows) and n_constraints <= options.most_cut
        super().__init__("newton", rows.n_features, options)
        self.name = name if name != "auto" else "bundle" if by_cuts else "newton"

    def stages(self, sub: ConstrainedHinge, start: ConvexState | None) -> tuple[Stage, ...]:
        """See `ConvexStep`."""
        # The level method is for looks that are dear; a sample that lies in this process has a quicker solver.
        return (Stage(self.name if isinstance(sub.rows, BlockedRows) else "newton"),)
