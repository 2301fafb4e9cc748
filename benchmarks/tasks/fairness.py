"""Whole fits under a ratio of rates of two groups, beside fairlearn's reduction."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.svm import LinearSVC

from benchmarks.data.sources import OUTCOMES, People, encoded
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, grouped, ratios

KAPPAS, ROWS = (0.9, 1.0), 6000
"""fairlearn takes minutes for more of these rows."""

GROUPS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "credit-card by sex": ("credit-card", lambda table: np.asarray(table["SEX"]) == np.unique(table["SEX"])[0]),
    "credit-card by age": ("credit-card", lambda table: np.asarray(table["AGE"]) < 30),
    "german by age": ("german", lambda table: np.asarray(table["age"]) < 30),
}
OURS, PEER = "ours", "fairlearn"


def people(table: pa.Table, name: str, first: npt.NDArray[np.bool_]) -> People:
    """All rows of a table; the first group is that of fewer positive labels."""
    X, y = encoded(table, OUTCOMES[name])
    return People(X, y, first if y[first].mean() < y[~first].mean() else ~first)


def ours(data: People, kappa: float) -> Callable[[Any], Any]:
    """A fit with the defaults, as what it calls positive."""
    return data.asked(f"subject to positive_rate(w) >= {kappa} * positive_rate(m)").fit().predict


def fairlearn(reductions: Any, data: People, kappa: float) -> Callable[[Any], Any]:
    """fairlearn's reduction over LinearSVC under the same ratio; its rates are expectations over a mixture.

    fairlearn bounds each group against everyone, so the bound between the two groups is reached by
    `ratio_bound = 1 / (q / kappa + 1 - q)` with q the share of the second group. It takes no sparse matrices.
    """
    q = float((~data.first).mean())
    bound = min(1.0, 1.0 / (q / kappa + 1.0 - q))
    base = LinearSVC(loss="hinge", C=1.0, random_state=0)
    reduction = reductions.ExponentiatedGradient(base, reductions.DemographicParity(ratio_bound=bound))
    reduction.fit(data.X.toarray(), data.y, sensitive_features=~data.first)
    return lambda X: reduction._pmf_predict(X.toarray())[:, 1]


def reached(data: People, share: Callable[[Any], Any]) -> Row:
    """The second group's positive rate over the first's, and the error; expected ones of a mixture."""
    p = np.asarray(share(data.X), dtype=np.float64)
    rate = float(p[data.first].mean())
    return {
        "test_ratio": float(p[~data.first].mean()) / rate if rate else math.inf,
        "test_error": float(np.where(data.y == 1, 1.0 - p, p).mean()),
    }


def fits(ctx: Context) -> list[Row]:
    """Two thirds of the rows, or 6,000 of them, for training; every kappa by turns."""
    rows, reductions = [], ctx.peer("fairlearn.reductions")
    for title, (name, group) in GROUPS.items():
        table = ctx.load(name)
        data = people(table, name, group(table))
        order, n = np.random.default_rng(0).permutation(len(data.y)), 2 * len(data.y) // 3
        test, some = data.take(order[n:]), np.sort(np.random.default_rng(0).permutation(n)[:ROWS])
        train = data.take(order[:n][some])
        Timing.of(partial(ours, train.take(np.arange(500)), 1.0))  # compiles
        for kappa in ctx.pick(KAPPAS, KAPPAS[:1]):
            cases: dict[str, Callable[[], Any]] = {OURS: partial(ours, train, kappa)}
            if reductions is not None:
                cases[PEER] = partial(fairlearn, reductions, train, kappa)
            for what, timing in ctx.clock(cases, warm_up=False).items():
                row = {"data": title, "rows": len(train.y), "kappa": kappa, "what": what}
                rows.append(row | {"median_processor_s": timing.processor_median} | reached(test, timing.result))
    return rows


def _fits(content: Content) -> Iterable[Row]:
    """Ours and fairlearn's in one row, where that was there."""
    for _, (mine, *theirs) in grouped(content["people"], "data", "kappa"):
        times = [peer["median_processor_s"] / mine["median_processor_s"] for peer in theirs]
        yield mine | ({"peer": theirs[0], "times": times[0]} if theirs else {})


class fairness_people(Task, peers=("fairlearn",)):
    """One group is called positive at least kappa times as often as the other: whole fits with the defaults beside
    fairlearn's ExponentiatedGradient over LinearSVC with an equivalent bound, on at most 6,000 training rows.
    """

    parts = {"people": fits}
    few = Table("Whole fits with the defaults, processor seconds", _fits, """
        data | at least: {kappa} | widemargin: {median_processor_s:.2f} s | fairlearn: {peer[median_processor_s]:.2f} s
        | ratio: {times:.1f} | test error, widemargin: {test_error:.1%} | fairlearn: {peer[test_error]:.1%}
        | test ratio, widemargin: {test_ratio:.2f} | fairlearn: {peer[test_ratio]:.2f}
    """)  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        for row in _fits(content):
            if "times" in row:
                seconds = {OURS: row["median_processor_s"], PEER: row["peer"]["median_processor_s"]}
                yield from ratios(f"{row['data']}, {row['kappa']:g}, processor", seconds, OURS, {PEER: 6.0})

    def sentences(self, content: Content) -> Iterable[str]:
        if pairs := [row for row in _fits(content) if "times" in row]:
            times = [row["times"] for row in pairs]
            apart = 100 * max(row["test_error"] - row["peer"]["test_error"] for row in pairs)
            text = f"fairlearn takes {min(times):.1f} to {max(times):.1f} times as many processor seconds"
            yield f"{text}, and our test error is at most {apart:.1f} points above its own"
