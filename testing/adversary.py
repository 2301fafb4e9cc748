"""The game of Theorem 3 (appendix H of Choi, Meshi and Srebro 2016): labels that are made up while a search asks.

The adversary keeps an open box of the plane in which the best label still may lie anywhere: every point of it is better
than all labels shown so far, and would not have been the answer to any question so far. (In the published Algorithm 3
the first condition stands for its opposite.)
"""

import math
from typing import NamedTuple

from point_oracles import PointOracle
from widemargin.structured.oracle import Answer

_CORNER = 0.05  # of the box: how near its corner a new label lies


class Box(NamedTuple):
    """Open: from (h, g) to (H, G)."""

    h: float
    g: float
    H: float
    G: float

    def below(self, a, b, c):
        """The largest box at a corner of it where `a h + b g < c`, after its share of the width; None without one."""
        left, low = a > 0.0, b > 0.0  # where a h + b g is least
        room = c - a * (self.h if left else self.H) - b * (self.g if low else self.G)
        if not room > 0.0:
            return 0.0, None
        span = abs(a) * (self.H - self.h) + abs(b) * (self.G - self.g)
        share = min(1.0, 0.9 * room / span) if span > 0.0 else 1.0
        wide, high = share * (self.H - self.h), share * (self.G - self.g)
        h, g = (self.h if left else self.H - wide), (self.g if low else self.G - high)
        return share, Box(h, g, h + wide, g + high)


class AdversaryOracle:
    """Answers any search consistently, and shows a label only where it must."""

    capabilities = frozenset({"free", "cone"})
    smallest_loss, largest_loss = 0.25, 4.0

    def __init__(self):
        self.box = Box(0.5, 0.5, 2.0, 2.0)
        self.shown = []

    def free(self, lam):
        return self.cone(lam, math.inf, 0.0)

    def cone(self, lam, alpha, beta):
        inside = [i for i, (h, g) in enumerate(self.shown) if beta * h <= g <= alpha * h]
        best = max(inside, key=lambda i: self.shown[i][0] + lam * self.shown[i][1], default=None)
        ways = [self.box.below(-beta, 1.0, 0.0)]  # g < beta h
        if alpha < math.inf:
            ways.append(self.box.below(alpha, -1.0, 0.0))  # g > alpha h
        if best is not None:
            ways.append(self.box.below(1.0, lam, self.shown[best][0] + lam * self.shown[best][1]))
        _, left = max(ways, key=lambda way: way[0])
        if left is None:  # the whole box is in the cone and above the line: a new label
            best, left = len(self.shown), self._show(lam)
        self.box = left
        return None if best is None else Answer(best, *self.shown[best])

    def _show(self, lam):
        """A new label near a corner of the box; what is better, and below its line, is a wedge that is left."""
        wide, high = self.box.H - self.box.h, self.box.G - self.box.g
        corners = [
            (self.box.h + at * wide, self.box.g + up * high)
            for at, up in ((_CORNER, 1 - _CORNER), (1 - _CORNER, _CORNER))
        ]
        h, g = max(corners, key=lambda y: abs(math.log(lam * y[1] / y[0])) if lam > 0.0 else y[0])
        self.shown.append((h, g))
        # Along (+1, -1 / slope) or its opposite, with the slope between those of line and hyperbola, h / g and lam.
        slope = math.sqrt(lam * h / g) if lam > 0.0 else 0.05 * h / g
        sign = 1.0 if lam * g > h else -1.0
        step = min(wide, slope * high) * 0.5
        middle_h, middle_g = h + sign * step, g - sign * step / slope
        better, under = middle_h * middle_g - h * g, h + lam * g - middle_h - lam * middle_g
        half_h = 0.4 * min(better / (2 * middle_g), under / 2, wide * _CORNER)
        half_g = 0.4 * min(better / (2 * middle_h), under / (2 * lam) if lam > 0.0 else math.inf, high * _CORNER)
        assert min(half_h, half_g) > 1e-11, "the box is too small for floating point"
        return Box(middle_h - half_h, middle_g - half_g, middle_h + half_h, middle_g + half_g)

    def revealed(self):
        """The labels shown and one of the box, as an oracle that hides nothing."""
        oracle = PointOracle([*self.shown, ((self.box.h + self.box.H) / 2, (self.box.g + self.box.G) / 2)])
        oracle.smallest_loss, oracle.largest_loss = self.smallest_loss, self.largest_loss
        return oracle
