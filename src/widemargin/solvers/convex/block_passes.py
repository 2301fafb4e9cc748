"""The Newton passes of `newton` over rows in blocks: what `NewtonRows` computes for each block, added up.

What a block remembers is either its state or a note. The *state* is the proximal point: the shares of its hinges and
which of them count. It changes once an outer iteration, by that iteration's (w, b) and width alone, so the state of a
block that is lost can be computed again from its rows and this short list. All else (scores, slopes, the Gram matrix of
the band) are *notes*: every message holds the calls of its outer iteration so far, and a block that has no notes, or
those of another outer iteration, repeats these calls. What it computes again is the same to the last bit.

A Newton step looks at the features twice: for the change of the scores, and for slopes and curvature together.
"""

import uuid
from typing import Any, NamedTuple

import numpy as np

from widemargin._typing import Flags, Floats, Ints
from widemargin.distributed.blocks import Block, BlockedPoint, BlockedRows, Variant, block_scores
from widemargin.solvers.base import ConstrainedHinge, Shares
from widemargin.solvers.convex.linear_system import BandRows, Moments, SystemOptions
from widemargin.solvers.convex.smoothed_hinges import NewtonRows, Width, move_dual
from widemargin.solvers.convex.subsample_start import spread_shares

__all__ = ["BlockPasses", "Opening", "block_problem", "open_hinges"]


class _Shares(NamedTuple):
    """State of a block: which hinges count, and their proximal points."""

    keep: Flags
    up: Shares
    um: Shares


class Opening(NamedTuple):
    """From where a convex problem starts: its majorisation, and the model whose scores give the shares, if any."""

    at: BlockedPoint
    warm: BlockedPoint | None


class _Call(NamedTuple):
    name: str
    arguments: tuple[Any, ...] = ()


class _Pass(NamedTuple):
    """A message to every block.

    Attributes
    ----------
    serial : str
        Name of the outer iteration, by which a block knows notes of an earlier one.
    begin : BlockedPoint
        Where the outer iteration began.
    journal : tuple of _Call
        Calls of this outer iteration so far that leave notes.
    """

    serial: str
    variant: Variant
    begin: BlockedPoint
    options: SystemOptions
    iterative: bool
    journal: tuple[_Call, ...]
    call: _Call


class BlockPasses:
    """The passes of one convex problem; methods and returns as in `NewtonRows`.

    Parameters
    ----------
    sub : ConstrainedHinge
        Its rows are in blocks.
    w : ndarray of shape (d,)
    warm : bool
        Whether the shares start at the sides that the scores of (w, b) are on, or at zero.
    """

    def __init__(
        self, sub: ConstrainedHinge, w: Floats, b: float, options: SystemOptions, *, warm: bool, iterative: bool
    ) -> None:
        assert isinstance(sub.rows, BlockedRows) and sub.at is not None
        self._sub, self._rows, self._blocks = sub, sub.rows, sub.rows.blocks
        self._options, self._iterative = options, iterative
        self._begin = BlockedPoint(w, b, self._rows.n_rows)
        self._blocks.advance(open_hinges, Opening(sub.at, self._begin if warm else None), restart=True)
        self._rows.n_passes += 1
        self._next()

    def _next(self) -> None:
        """Begin an outer iteration."""
        self._serial, self._journal = uuid.uuid4().hex, list[_Call]()
        self._full: tuple[float, Floats] | None = None
        self._moments: Moments | None = None

    def _message(self, call: _Call) -> _Pass:
        variant, journal = self._sub.variant, tuple(self._journal)
        return _Pass(self._serial, variant, self._begin, self._options, self._iterative, journal, call)

    def ask(self, name: str, *arguments: object, note: bool = False, reads: bool = True) -> Any:
        """What all blocks answer, added up. `note`: they go on from there; `reads`: it looks at features."""
        call = _Call(name, arguments)
        total = self._blocks.sum(_answer, self._message(call))
        if note:
            # Every later message holds this call, so that a block without notes can repeat it.
            self._journal.append(call)
        self._rows.n_passes += reads
        return total

    @property
    def centre(self) -> Floats:
        """Mean of the rows, shape (d,)."""
        return self._rows.centre

    def smooth(self, step: float, delta: float) -> Floats:
        """See `NewtonRows`; the full step was asked for with the move itself."""
        # A line search nearly always begins with the full step, so a move brings its sums along.
        if self._full is not None and self._full[0] == delta and step == 1.0:
            return self._full[1]
        return np.asarray(self.ask("smooth", step, delta, reads=False))

    def slopes(self, step: float, multipliers: Floats, active: Ints, width: Width) -> Floats:
        """See `NewtonRows`; the sums over the band come with them."""
        # A block compares the regulariser with its own sums to decide whether float32 is exact enough, so it has to
        # compare with the part of the regulariser that its rows stand for.
        share = self._sub.lam / self._rows.n_rows
        sums, self._moments = self.ask("slopes", step, multipliers, active, width, share, note=True)
        return np.asarray(sums)

    def moments(self, lam: float, *, exact: bool = False) -> Moments:
        """See `NewtonRows`."""
        if exact or self._moments is None:
            self._moments = self.ask("moments", lam / self._rows.n_rows, exact, note=True)
        return self._moments

    def band(self) -> "BlockPasses":
        """See `NewtonRows`: the blocks themselves, who answer for their bands."""
        return self

    def diagonal(self) -> tuple[Floats, Floats, float]:
        """See `BandProducts`."""
        squares, sums, total = self.ask("diagonal")
        return squares, sums, total

    def product(self, x: Floats, shift: float) -> tuple[Floats, float]:
        """See `BandProducts`."""
        sums, total = self.ask("product", x, shift)
        return sums, total

    def move(self, dw: Floats, db: float, delta: float) -> float:
        """See `NewtonRows`; always in double precision."""
        square, totals = self.ask("move", dw, db, delta, note=True)
        self._full = delta, totals
        return float(square)

    def extent(self) -> tuple[float, float]:
        """See `NewtonRows`."""
        # The one answer of the blocks that is combined by a maximum and not by a sum.
        reach, spread = np.max(self._blocks.map(_answer, self._message(_Call("extent"))), axis=0)
        return float(reach), float(spread)

    def settle(self, w: Floats, b: float) -> tuple[float, Floats]:
        """See `NewtonRows`; the scores are always computed afresh."""
        # The scores that many small moves have led to have drifted by rounding, and a certificate needs exact ones.
        # Besides, the next shares then depend on (w, b) alone, so that a block that is lost can compute them again.
        self._settled = BlockedPoint(w, b, self._rows.n_rows)
        loss, constraints = self.ask("settle", self._settled, note=True)
        return loss + self._sub.constant, constraints - self._sub.gamma

    def adopt(self, delta: float) -> None:
        """See `NewtonRows`."""
        self._blocks.advance(_adopted, (self._settled, delta))
        self._begin = self._settled
        self._next()

    def shares(self, delta: float) -> tuple[Shares, Shares]:
        """Empty arrays: the shares stay with the blocks, and the next problem computes its own from (w, b)."""
        return np.zeros(0, np.float32), np.zeros(0, np.float32)


# What runs where a block is.


def block_problem(block: Block, variant: Variant) -> ConstrainedHinge:
    """The hinges of the block that count in the problem that is solved."""
    problem = block.data
    for name, arguments in variant:
        problem = getattr(problem, name)(*arguments)
    hinges: ConstrainedHinge = problem.hinges(block.state.keep)
    return hinges


def open_hinges(block: Block, opening: Opening) -> _Shares:
    """First state of a convex problem."""
    # The majorisation itself: which hinges of each row are kept at the point where it is tight.
    keep, _, _ = block.data.sides(block_scores(block, opening.at.w, opening.at.b))
    if opening.warm is None:
        nothing = np.zeros(keep.shape[0], np.float32)
        return _Shares(keep, nothing, nothing)
    return _Shares(keep, *spread_shares(block_scores(block, opening.warm.w, opening.warm.b)))


def _adopted(block: Block, message: tuple[BlockedPoint, float]) -> _Shares:
    """The state after an outer iteration that ended at a point, by its width."""
    point, delta = message
    keep, up, um = block.state
    # Copies, because the state before has to survive: a block that is lost is advanced from it once more.
    up, um = up.copy(), um.copy()
    move_dual(block_scores(block, point.w, point.b), keep, up, um, delta)
    return _Shares(keep, up, um)


class _Notes:
    """What a block has done in an outer iteration: the iterate, and how many calls of the journal led to it."""

    def __init__(self, serial: str, live: NewtonRows) -> None:
        self.serial, self.live, self.done = serial, live, 0
        self.band: BandRows | None = None


def _answer(block: Block, message: _Pass) -> Any:
    """Do the last call, and the ones before it where the notes do not hold them."""
    sub = block_problem(block, message.variant)
    notes: _Notes | None = block.scratch.get("newton")
    # No notes, or those of another outer iteration: begin again where this one began.
    if notes is None or notes.serial != message.serial or notes.done > len(message.journal):
        block.scratch.pop("newton", None)
        # The iterate begins at the scores of the point that the outer iteration began with.
        z = block_scores(block, message.begin.w, message.begin.b)
        shares = block.state.up, block.state.um
        live = NewtonRows(sub, z, *shares, message.options, iterative=message.iterative)
        notes = block.scratch["newton"] = _Notes(message.serial, live)
    notes.live.bind(sub)
    # What the notes do not hold yet is repeated, in order, with the same numbers.
    for call in message.journal[notes.done :]:
        _do(block, notes, call)
    return _do(block, notes, message.call)


def _do(block: Block, notes: _Notes, call: _Call) -> Any:
    """One call; those that change the notes count."""
    live, arguments = notes.live, call.arguments
    if call.name == "smooth":
        return live.smooth(*arguments)
    if call.name == "extent":
        return live.extent()
    if call.name in ("diagonal", "product"):
        notes.band = notes.band or live.band()
        return getattr(notes.band, call.name)(*arguments)
    notes.done += 1
    if call.name == "move":
        dw, db, delta = arguments
        return live.move(dw, db, delta), live.smooth(1.0, delta)
    n = live.sub.rows.n_rows
    if call.name == "slopes":
        step, multipliers, active, width, share = arguments
        if step != 0.0:
            block.scratch.pop("scores", None)  # `block_scores` stores them there, and the iterate moves on.
        # The curvatures change with the slopes, and with them the rows of the band.
        notes.band = None
        sums = live.slopes(step, multipliers, active, width)
        return sums, None if live.iterative else live.moments(n * share)
    if call.name == "moments":
        share, exact = arguments
        return live.moments(n * share, exact=exact)
    (point,) = arguments  # of "settle"
    live.z = block_scores(block, point.w, point.b)
    return live.sub.values(live.z)
