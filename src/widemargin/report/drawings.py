"""Pictures of the report, drawn from numbers as SVG: intervals, the trade-off, margins. No colour without a shape."""

from collections.abc import Callable, Sequence

import numpy as np

from widemargin._typing import Floats
from widemargin.goals.measuring.goal_report import ConstraintReport
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.report.markup import Html, element, joined
from widemargin.report.words import Unit, shown

PLOT_SIDES = 48.0, 348.0
"""Left and right end of a plot's lower axis; the texts of the upright axis stand left of it."""


def _hatched(x: float, y: float, width: float, height: float) -> Html:
    """Oblique lines inside a rectangle (a pattern would be printed as many pictures)."""
    gap, right, bottom = 7.0, x + width, y + height
    parts = []
    for number in range(int(np.ceil((x + y) / gap)), int((right + bottom) / gap) + 1):
        c = gap * number  # on the line, x + y = c
        start, stop = max(x, c - bottom), min(right, c - y)
        parts.append(f"M{start:.1f} {c - start:.1f}L{stop:.1f} {c - stop:.1f}")
    return element("path", d="".join(parts) or "M0 0", class_="hatch")


def _line(x1: float, x2: float, y1: float, y2: float, class_: str, identifier: str | None = None) -> Html:
    return element("line", id=identifier, x1=x1, x2=x2, y1=y1, y2=y2, class_=class_)


def _interval(start: float, stop: float, y: float, half: float) -> list[Html]:
    """A level bar with an upright stroke of twice `half` at either end."""
    strokes = [_line(end, end, y - half, y + half, "interval") for end in (start, stop)]
    return [_line(start, stop, y, y, "interval"), *strokes]


def interval_bar(item: ConstraintReport, unit: Unit) -> Html | None:
    """The rate as a dot, its interval as a bar, the bound as a line, the allowed side hatched; None if undefined."""
    if item.rate is None or item.bound is None:
        return None
    width, middle, interval = 320.0, 30.0, item.interval
    sign = 1.0 if item.sense == ">=" else -1.0
    text = f"Measured {shown(item.rate, unit)}; the rule asks for {'at least' if sign > 0 else 'at most'} "
    text += f"{shown(item.bound, unit)}."
    ends: list[float | None] = [item.rate, item.rate]
    if interval is not None:
        slack = (interval.lower, interval.upper) if sign > 0 else (interval.upper, interval.lower)
        ends = [end if end is None else item.bound + sign * end for end in slack]
        text += f" {shown(interval.confidence, Unit.SHARE)} interval from {shown(ends[0], unit)} to "
        text += f"{shown(ends[1], unit)}."
    # `ends` are now those of the rate: the interval is that of the slack, sign * (rate - bound), so the rate is the
    # bound + sign * slack. An end that is None is open, and its bar runs to the edge of the picture.
    values = [value for value in (*ends, item.rate, item.bound) if value is not None]
    low, high = min(values), max(values)
    room = 0.22 * (high - low) or 0.05
    low, high = low - room, high + room
    bound, rate, start, stop = (
        otherwise if value is None else width * (value - low) / (high - low)
        for value, otherwise in ((item.bound, 0.0), (item.rate, 0.0), (ends[0], 0.0), (ends[1], width))
    )
    left, allowed = (bound, width - bound) if sign > 0 else (0.0, bound)
    parts = [
        element("rect", x=0.0, y=20.0, width=width, height=20.0, class_="track"),
        element("rect", x=left, y=20.0, width=allowed, height=20.0, class_="allowed"),
        _hatched(left, 20.0, allowed, 20.0),
    ]
    if interval is not None:
        parts += _interval(start, stop, middle, 6.0)
    parts.append(_line(bound, bound, 14.0, 46.0, "bound"))
    parts.append(element("circle", cx=rate, cy=middle, r=5.0, class_="estimate"))
    for x, y, label in (
        (bound, 11.0, f"bound {shown(item.bound, unit)}"),
        (rate, 56.0, f"measured {shown(item.rate, unit)}"),
    ):
        anchor = "start" if x < 60 else "end" if x > width - 60 else "middle"  # so that it stays inside the picture
        parts.append(element("text", label, x=min(max(x, 2.0), width - 2.0), y=y, text_anchor=anchor))
    return _picture(text, parts, "0 0 320 58", "bar")


def rates_by_group(
    rows: Sequence[tuple[str, float | None, float | None, float | None]], unit: Unit, text: str,
    *, mark: float | None = None,
) -> Html:  # fmt: skip
    """A dot for the rate of each group, and its interval as a bar, all on one axis that includes 0.

    Parameters
    ----------
    rows : sequence of (name, rate, lower, upper)
        None is not drawn.
    text : str
        The description that screen readers speak.
    mark : float, default=None
        Where an upright line is drawn.
    """
    width, height, top = 320.0, 34.0, 4.0
    values = [value for _, *rates in rows for value in rates if value is not None]
    across, ticks = _axis([0.0, *values, *([] if mark is None else [mark])], 6.0, width - 6.0)
    floor = top + height * len(rows)
    parts = []
    for value in ticks:
        parts.append(_line(across(value), across(value), top, floor, "grid"))
        x = across(value)
        anchor = "start" if x < 20.0 else "end" if x > width - 20.0 else "middle"  # so that it stays inside
        parts.append(element("text", shown(value, unit), x=x, y=floor + 14.0, text_anchor=anchor))
    parts.append(_line(6.0, width - 6.0, floor, floor, "axis"))
    if mark is not None:
        parts.append(_line(across(mark), across(mark), top, floor, "bound"))
    for number, (name, rate, lower, upper) in enumerate(rows):
        y = top + height * number + 24.0
        short = name if len(name) <= 48 else name[:47] + "…"
        parts.append(element("text", f"{short}: {shown(rate, unit)}", x=6.0, y=y - 11.0))
        if lower is not None and upper is not None:
            parts += _interval(across(lower), across(upper), y, 4.0)
        if rate is not None:
            parts.append(element("circle", cx=across(rate), cy=y, r=4.5, class_="estimate"))
    return _picture(text, parts, f"0 0 320 {floor + 18.0:g}", "bar")


def frontier(
    path: TradeoffPath, *, chosen: int, trained: float | None, units: tuple[Unit, Unit], identifier: str, name: str
) -> tuple[Html, list[float], list[float | None]]:
    """Objective on held-out rows against the bound asked for, with one standard error to either side.

    Parameters
    ----------
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

    Returns
    -------
    picture : Html
    x, y : list of float
        Where the points stand in it; None where the objective is not finite.
    """
    left, right = PLOT_SIDES
    top, floor = 12.0, 198.0
    part = path.training if path.held_out is None else path.held_out
    objective, error = part.objective, np.nan_to_num(part.objective_error)
    across, x_ticks = _axis([*path.values, *([] if trained is None else [trained])], left, right)
    up, y_ticks = _axis([*(objective - error), *(objective + error), *path.training.objective], floor, top)
    xs = [across(value) for value in path.values]
    ys = [up(value) if np.isfinite(value) else None for value in objective]
    parts = _grid(
        [(across(value), shown(value, units[0])) for value in x_ticks],
        [(up(value), shown(value, units[1])) for value in y_ticks], floor, "bound that training asks for",
    )  # fmt: skip
    order = np.argsort(path.values, kind="stable").tolist()
    training = [up(value) if np.isfinite(value) else None for value in path.training.objective]
    curves = {"training-line": training, "held-line": ys} if path.held_out is not None else {"held-line": ys}
    for class_, heights in curves.items():
        points = " ".join(f"{xs[i]:.1f},{y:.1f}" for i in order if (y := heights[i]) is not None)
        if class_ == "held-line" and trained is not None:
            parts.append(_line(across(trained), across(trained), top, floor, "trained"))
        parts.append(element("polyline", points=points, class_=class_, fill="none"))
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if y is None:
            continue
        if error[i] > 0.0:
            parts.append(_line(x, x, up(objective[i] - error[i]), up(objective[i] + error[i]), "whisker"))
        if path.met[i]:
            parts.append(element("circle", cx=x, cy=y, r=4.0, class_="point"))
        else:  # a cross where the goal was not met on the training rows
            parts.append(element("path", d=f"M{x - 4:.1f} {y - 4:.1f} l8 8 m0 -8 l-8 8", class_="missed"))
    x, y = xs[chosen], ys[chosen]
    parts.append(_line(x, x, top, floor, "chosen-line", f"{identifier}-line"))
    ring = {"cx": x, "cy": floor if y is None else y, "r": 8.0}
    parts.append(element("circle", id=f"{identifier}-ring", **ring, class_="ring"))
    rows = "training rows" if path.held_out is None else "held-out rows"
    first, last = (
        f"{shown(float(path.values[i]), units[0])} ({shown(float(objective[i]), units[1])})"
        for i in (order[0], order[-1])
    )
    text = (
        f"{name} on {rows} for {len(path)} values of the bound, from {first} to {last}. "
        "The table of all points holds every number."
    )
    picture = _picture(text, parts, "0 0 360 236", "plot")
    return picture, [round(x, 1) for x in xs], [None if y is None else round(y, 1) for y in ys]


def margin_histogram(edges: Floats, shares: Floats, highest: float, text: str) -> Html:
    """Shares of rows by margin, those on the wrong side of 0 hatched."""
    width, base = 320.0, 58.0
    places = 4.0 + (width - 8.0) * (np.append(edges, 0.0) - edges[0]) / (edges[-1] - edges[0])
    *places, zero = places.tolist()
    parts = []
    for j, share in enumerate(shares.tolist()):
        if share > 0.0:
            height = (base - 4.0) * share / highest
            box = {"x": places[j], "y": base - height, "width": places[j + 1] - places[j], "height": height}
            is_wrong = edges[j + 1] <= 1e-12  # the edge at 0 may be off by rounding
            parts.append(element("rect", **box, class_="wrong" if is_wrong else "right"))
            if is_wrong:
                parts.append(_hatched(**box))
    parts.append(_line(0.0, width, base, base, "axis"))
    parts.append(_line(zero, zero, 2.0, base + 4.0, "bound"))
    between = min(max(zero, 42.0), width - 42.0)  # where 0 is near an end, so that no word leaves a narrow page
    parts.append(element("text", "wrong", x=between - 6.0, y=71.0, text_anchor="end"))
    parts.append(element("text", "right", x=between + 6.0, y=71.0, text_anchor="start"))
    return _picture(text, parts, "0 0 320 74", "bar")


def error_by_coverage(coverages: Sequence[float], errors: Sequence[float], decided: float | None, text: str) -> Html:
    """The error of the surest rows by their share, and a line where the model decides so many."""
    left, right = PLOT_SIDES
    top, floor = 12.0, 128.0

    def across(share: float) -> float:
        return left + (right - left) * share

    up, ticks = _axis([0.0, *errors], floor, top)
    parts = _grid(
        [(across(value), shown(value, Unit.SHARE)) for value in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)],
        [(up(value), shown(value, Unit.SHARE)) for value in ticks if value >= 0.0], floor,
        "rows decided, the surest first",
    )  # fmt: skip
    points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(coverages, errors, strict=True))
    if decided is not None:
        parts.append(_line(across(decided), across(decided), top, floor, "trained"))
    parts.append(element("polyline", points=points, class_="held-line", fill="none"))
    for x, y in zip(coverages, errors, strict=True):
        parts.append(element("circle", cx=across(x), cy=up(y), r=3.0, class_="point"))
    return _picture(text, parts, "0 0 360 166", "plot")


def _grid(
    x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]], floor: float, x_name: str
) -> list[Html]:
    """The lower axis at `floor` with its name, its ticks, and level grid lines; of each tick its place and its text."""
    left, right = PLOT_SIDES
    parts = []
    for y, text in y_ticks:
        parts.append(_line(left, right, y, y, "grid"))
        parts.append(element("text", text, x=left - 5.0, y=y + 4.0, text_anchor="end"))
    for x, text in x_ticks:
        parts.append(_line(x, x, floor, floor + 4.0, "axis"))
        parts.append(element("text", text, x=x, y=floor + 17.0, text_anchor="middle"))
    parts.append(_line(left, right, floor, floor, "axis"))
    parts.append(element("text", x_name, x=(left + right) / 2, y=floor + 34.0, text_anchor="middle"))
    return parts


def _axis(values: Sequence[float], start: float, stop: float) -> tuple[Callable[[float], float], list[float]]:
    """From numbers to places, with a little room around the finite values; and about five round numbers."""
    finite = [float(value) for value in values if np.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    room = 0.06 * (high - low) or max(0.01, 0.01 * abs(high))
    low, high = low - room, high + room
    # The smallest step of 1, 2 or 5 times a power of ten that cuts the range into at most five parts.
    rough = (high - low) / 5
    size = 10.0 ** np.floor(np.log10(rough))
    step = float(size * next(factor for factor in (1.0, 2.0, 5.0, 10.0) if factor * size >= rough))
    first = int(np.ceil(low / step))
    ticks = [step * number for number in range(first, first + 10) if step * number <= high]
    return lambda value: start + (stop - start) * (value - low) / (high - low), ticks


def _picture(text: str, parts: Sequence[Html], view_box: str, class_: str) -> Html:
    return element(
        "svg", joined(*parts), view_box=view_box, role="img", aria_label=text, class_=class_,
        preserveAspectRatio="xMidYMid meet",
    )  # fmt: skip
