"""Oracles over a list of points (h, g): every question by looking at all of them."""

import math

import numpy as np

from widemargin.structured.oracle import Answer


class PointOracle:
    """Labels are the numbers of the points; `asked` counts the questions."""

    def __init__(self, points, capabilities=("free", "cone", "level", "levels", "direct")):
        self.h = np.array([h for h, _ in points], dtype=float)
        self.g = np.array([g for _, g in points], dtype=float)
        self.capabilities = frozenset(capabilities)
        positive = self.g[self.g > 0.0]
        self.smallest_loss = float(positive.min()) if positive.shape[0] else math.inf
        self.largest_loss = float(self.g.max())
        self.asked = 0

    def answer(self, chosen):
        self.asked += 1
        return Answer(int(chosen), float(self.h[chosen]), float(self.g[chosen]))

    def free(self, lam):
        return self.answer(np.argmax(self.h + lam * self.g))

    def cone(self, lam, alpha, beta):
        inside = (beta * self.h <= self.g) & (self.g <= alpha * self.h) & (self.h >= 0.0)
        if not inside.any():
            self.asked += 1
            return None
        return self.answer(np.argmax(np.where(inside, self.h + lam * self.g, -np.inf)))

    def level(self, c):
        inside = self.g == c
        if not inside.any():
            self.asked += 1
            return None
        return self.answer(np.argmax(np.where(inside, self.h, -np.inf)))

    def levels(self):
        H = np.full(round(self.largest_loss) + 1, -np.inf)
        np.maximum.at(H, self.g.round().astype(int), self.h)
        return H

    def direct(self):
        return self.answer(np.argmax(np.where(self.h > 0.0, self.h * self.g, 0.0)))

    @property
    def optimum(self):
        """The largest `h g`, at least 0."""
        return max(0.0, float((np.maximum(self.h, 0.0) * self.g).max()))


def hull_optimum(oracle):
    """The largest `h g` over the convex hull of the points: on the segments between all pairs."""
    best = oracle.optimum
    for a in range(oracle.h.shape[0]):
        for b in range(a):
            dh, dg = oracle.h[b] - oracle.h[a], oracle.g[b] - oracle.g[a]
            if dh * dg < 0.0:
                s = min(max(-(oracle.h[a] * dg + oracle.g[a] * dh) / (2.0 * dh * dg), 0.0), 1.0)
                best = max(best, (oracle.h[a] + s * dh) * (oracle.g[a] + s * dg))
    return best
