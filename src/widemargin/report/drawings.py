"""Pictures of the report, drawn from numbers as SVG: intervals, the trade-off, margins. No colour without a shape."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from widemargin._typing import Floats
from widemargin.goals.measuring.goal_report import ConstraintReport
from widemargin.goals.measuring.tradeoff_path import Measures, TradeoffPath
from widemargin.report.markup import Html, element, joined
from widemargin.report.words import Unit, shown

__all__ = ["Frontier", "frontier", "interval_bar", "margin_histogram"]


BAR_WIDTH, BAR_HEIGHT = 320.0, 58.0
PLOT_WIDTH, PLOT_HEIGHT = 360.0, 236.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 12.0, 12.0, 38.0
MARGIN_WIDTH, MARGIN_HEIGHT = 320.0, 74.0
TICKS = 5
HATCH = 7.0


def _hatched(x: float, y: float, width: float, height: float) -> Html:
    """Oblique lines inside a rectangle (a pattern would be printed as many pictures)."""
    right, bottom = x + width, y + height
    first = int(np.ceil((x + y) / HATCH))
    parts = []
    for number in range(first, int((right + bottom) / HATCH) + 1):
        c = HATCH * number  # on the line, x + y = c
        start, stop = max(x, c - bottom), min(right, c - y)
        parts.append(f"M{start:.1f} {c - start:.1f}L{stop:.1f} {c - stop:.1f}")
    return element("path", d="".join(parts) or "M0 0", class_="hatch")


def interval_bar(item: ConstraintReport, unit: Unit) -> Html | None:
    """The rate as a dot, its interval as a bar, the bound as a line, the allowed side hatched; None if undefined."""
    if item.rate is None or item.bound is None:
        return None
    sign = 1.0 if item.sense == ">=" else -1.0
    ends: list[float | None] = [item.rate, item.rate]
    if item.interval is not None:
        slack = (item.interval.lower, item.interval.upper) if sign > 0 else (item.interval.upper, item.interval.lower)
        ends = [end if end is None else item.bound + sign * end for end in slack]
    known = [value for value in (*ends, item.rate, item.bound) if value is not None]
    low, high = min(known), max(known)
    room = 0.22 * (high - low) or 0.05
    low, high = low - room, high + room

    def x(value: float | None, otherwise: float) -> float:
        return otherwise if value is None else BAR_WIDTH * (value - low) / (high - low)

    bound, rate = x(item.bound, 0.0), x(item.rate, 0.0)
    allowed = (bound, BAR_WIDTH) if sign > 0 else (0.0, bound)
    start, stop = x(ends[0], 0.0), x(ends[1], BAR_WIDTH)
    middle = 30.0
    parts = [
        element("rect", x=0.0, y=20.0, width=BAR_WIDTH, height=20.0, class_="track"),
        element("rect", x=allowed[0], y=20.0, width=allowed[1] - allowed[0], height=20.0, class_="allowed"),
        _hatched(allowed[0], 20.0, allowed[1] - allowed[0], 20.0),
    ]
    if item.interval is not None:
        parts += [
            element("line", x1=start, x2=stop, y1=middle, y2=middle, class_="interval"),
            *(
                element("line", x1=end, x2=end, y1=middle - 6, y2=middle + 6, class_="interval")
                for end in (start, stop)
            ),
        ]
    parts += [
        element("line", x1=bound, x2=bound, y1=14.0, y2=46.0, class_="bound"),
        element("circle", cx=rate, cy=middle, r=5.0, class_="estimate"),
        _label(bound, 11.0, f"bound {shown(item.bound, unit)}"),
        _label(rate, 56.0, f"measured {shown(item.rate, unit)}"),
    ]
    return _picture(_bar_text(item, unit, ends), *parts, size=(BAR_WIDTH, BAR_HEIGHT), class_="bar")


def _bar_text(item: ConstraintReport, unit: Unit, ends: Sequence[float | None]) -> str:
    """What the picture says, for those who cannot see it."""
    word = "at least" if item.sense == ">=" else "at most"
    text = f"Measured {shown(item.rate, unit)}; the rule asks for {word} {shown(item.bound, unit)}."
    if item.interval is None:
        return text
    confidence = shown(item.interval.confidence, Unit.SHARE)
    return f"{text} {confidence} interval from {shown(ends[0], unit)} to {shown(ends[1], unit)}."


def _label(x: float, y: float, text: str) -> Html:
    """A text that stays inside the picture."""
    anchor = "start" if x < 60 else "end" if x > BAR_WIDTH - 60 else "middle"
    return element("text", text, x=min(max(x, 2.0), BAR_WIDTH - 2.0), y=y, text_anchor=anchor)


@dataclass(frozen=True)
class Frontier:
    """The picture of a path, and where its points stand in it."""

    picture: Html
    x: list[float]
    y: list[float | None]


def frontier(
    path: TradeoffPath, *, chosen: int, trained: float | None, units: tuple[Unit, Unit], identifier: str, name: str
) -> Frontier:
    """Objective on held-out rows against the bound asked for, with one standard error to either side.

    Parameters
    ----------
    path : TradeoffPath
    chosen : int
        The point that is highlighted at first.
    trained : float or None
        The bound that the model was trained with.
    units : (Unit, Unit)
        Of the bound and of the objective.
    identifier : str
        Of the highlight, which scripts move.
    name : str
        Of the objective.
    """
    part = path.training if path.held_out is None else path.held_out
    error = np.nan_to_num(part.objective_error)
    across = _Axis.over([*path.values, *([] if trained is None else [trained])], LEFT, PLOT_WIDTH - RIGHT)
    shown_values = [*(part.objective - error), *(part.objective + error), *path.training.objective]
    up = _Axis.over(shown_values, PLOT_HEIGHT - BOTTOM, TOP)
    xs = [across.place(value) for value in path.values]
    ys = [up.place(value) if np.isfinite(value) else None for value in part.objective]
    parts = [*_axes(across, up, units)]
    order = np.argsort(path.values, kind="stable")
    training = [(xs[i], up.place(path.training.objective[i])) for i in order if np.isfinite(path.training.objective[i])]
    if path.held_out is not None:
        parts.append(_line(training, "training-line"))
    if trained is not None:
        at = across.place(trained)
        parts.append(element("line", x1=at, x2=at, y1=TOP, y2=PLOT_HEIGHT - BOTTOM, class_="trained"))
    parts.append(_line([(xs[i], y) for i in order if (y := ys[i]) is not None], "held-line"))
    parts += _points(path, part, xs, up, error)
    y = ys[chosen]
    inner = PLOT_HEIGHT - BOTTOM
    parts.append(
        element("line", id=f"{identifier}-line", x1=xs[chosen], x2=xs[chosen], y1=TOP, y2=inner, class_="chosen-line")
    )
    parts.append(
        element("circle", id=f"{identifier}-ring", cx=xs[chosen], cy=inner if y is None else y, r=8.0, class_="ring")
    )
    rows = "training rows" if path.held_out is None else "held-out rows"
    text = (
        f"{name} on {rows} for {len(path)} values of the bound, from {shown(min(path.values), units[0])} "
        f"({shown(float(part.objective[int(order[0])]), units[1])}) to {shown(max(path.values), units[0])} "
        f"({shown(float(part.objective[int(order[-1])]), units[1])}). The table of all points holds every number."
    )
    picture = _picture(text, *parts, size=(PLOT_WIDTH, PLOT_HEIGHT), class_="plot")
    return Frontier(picture, [round(x, 1) for x in xs], [None if y is None else round(y, 1) for y in ys])


def _points(path: TradeoffPath, part: Measures, xs: Sequence[float], up: "_Axis", error: Floats) -> list[Html]:
    """Dots with whiskers; a cross where the goal was not met on the training rows."""
    found = []
    for i, x in enumerate(xs):
        value = float(part.objective[i])
        if not np.isfinite(value):
            continue
        y, low, high = (up.place(value + move * float(error[i])) for move in (0.0, -1.0, 1.0))
        if error[i] > 0.0:
            found.append(element("line", x1=x, x2=x, y1=low, y2=high, class_="whisker"))
        if path.met[i]:
            found.append(element("circle", cx=x, cy=y, r=4.0, class_="point"))
        else:
            cross = f"M{x - 4:.1f} {y - 4:.1f} l8 8 m0 -8 l-8 8"
            found.append(element("path", d=cross, class_="missed"))
    return found


def margin_histogram(edges: Floats, shares: Floats, highest: float, text: str) -> Html:
    """Shares of rows by margin, those on the wrong side of 0 hatched."""
    base = MARGIN_HEIGHT - 16.0
    axis = _Axis(float(edges[0]), float(edges[-1]), 4.0, MARGIN_WIDTH - 4.0, ())
    parts = []
    for left, right, share in zip(edges[:-1], edges[1:], shares, strict=True):
        if share <= 0.0:
            continue
        height = (base - 4.0) * float(share) / highest
        x = axis.place(float(left))
        box = {"x": x, "y": base - height, "width": axis.place(float(right)) - x, "height": height}
        wrong = right <= 1e-12
        parts.append(element("rect", **box, class_="wrong" if wrong else "right"))
        if wrong:
            parts.append(_hatched(**box))
    zero = axis.place(0.0)
    parts += [
        element("line", x1=0.0, x2=MARGIN_WIDTH, y1=base, y2=base, class_="axis"),
        element("line", x1=zero, x2=zero, y1=2.0, y2=base + 4.0, class_="bound"),
        element("text", "wrong", x=zero - 6.0, y=MARGIN_HEIGHT - 3.0, text_anchor="end"),
        element("text", "right", x=zero + 6.0, y=MARGIN_HEIGHT - 3.0, text_anchor="start"),
    ]
    return _picture(text, *parts, size=(MARGIN_WIDTH, MARGIN_HEIGHT), class_="bar")


@dataclass(frozen=True)
class _Axis:
    """From numbers to places in a picture."""

    low: float
    high: float
    start: float
    stop: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, values: Sequence[float], start: float, stop: float) -> "_Axis":
        """An axis over all finite values with a little room."""
        known = [float(value) for value in values if np.isfinite(value)] or [0.0]
        low, high = min(known), max(known)
        room = 0.06 * (high - low) or max(0.01, 0.01 * abs(high))
        low, high = low - room, high + room
        return cls(low, high, start, stop, _ticks(low, high))

    def place(self, value: float) -> float:
        """Where a number stands."""
        return self.start + (self.stop - self.start) * (value - self.low) / (self.high - self.low)


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """Round numbers inside a range, about `TICKS` of them."""
    rough = (high - low) / TICKS
    size = 10.0 ** np.floor(np.log10(rough))
    step = float(size * next(factor for factor in (1.0, 2.0, 5.0, 10.0) if factor * size >= rough))
    first = int(np.ceil(low / step))
    return tuple(step * number for number in range(first, first + 2 * TICKS) if step * number <= high)


def _axes(across: _Axis, up: _Axis, units: tuple[Unit, Unit]) -> list[Html]:
    """Grid, ticks and their numbers."""
    parts = []
    floor = PLOT_HEIGHT - BOTTOM
    for value in up.ticks:
        y = up.place(value)
        parts.append(element("line", x1=LEFT, x2=PLOT_WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(element("text", shown(value, units[1]), x=LEFT - 5.0, y=y + 4.0, text_anchor="end"))
    for value in across.ticks:
        x = across.place(value)
        parts.append(element("line", x1=x, x2=x, y1=floor, y2=floor + 4.0, class_="axis"))
        parts.append(element("text", shown(value, units[0]), x=x, y=floor + 17.0, text_anchor="middle"))
    parts.append(element("line", x1=LEFT, x2=PLOT_WIDTH - RIGHT, y1=floor, y2=floor, class_="axis"))
    parts.append(
        element("text", "bound asked for", x=(LEFT + PLOT_WIDTH - RIGHT) / 2, y=PLOT_HEIGHT - 4.0, text_anchor="middle")
    )
    return parts


def _line(points: Sequence[tuple[float, float]], class_: str) -> Html:
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_, fill="none")


def _picture(text: str, *parts: Html, size: tuple[float, float], class_: str) -> Html:
    width, height = size
    return element(
        "svg", joined(*parts), view_box=f"0 0 {width:g} {height:g}", role="img", aria_label=text, class_=class_,
        preserveAspectRatio="xMidYMid meet",
    )  # fmt: skip
