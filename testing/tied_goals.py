"""Small data with everything in it, and the same data for the naive evaluator; comparison of tied goals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from naive_rates import NaiveSource
from widemargin.goals import Population, col, negative_label
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.linear import METRICS, Rate, Ratio
from widemargin.goals.language.rates import f_beta, precision, win_change_ratio, win_loss_ratio

__all__ = ["POOL", "assert_same_tied", "make_data", "predictions", "rate", "rates", "ratios"]

A = Population("a", where=col("g") == "a")
B = Population("b", where=col("g") == "b")
POOL = [
    Population.everyone(),
    A,
    B,
    Population("warm", where=col("x") > 0.0),
    Population("odd", where=~((col("g") == "a") | (col("x") > 0.5))),
    A.positives(),
    Population(None, where=negative_label() | (col("x") <= 0.2)),
    B.predicted_positive("h"),
    Population.external("ext"),
    A & Population.external("ext"),
    Population("nobody knows", where=col("g").is_null()),
]
"""Populations of the main rows and of an external data set `ext`, overlapping."""


def make_data(
    seed: int, n: int = 25, n_external: int = 15, *, weighted: bool = False, external_labels: bool = True
) -> tuple[tuple[Source, Source], dict[str | None, NaiveSource]]:
    """Two sources with missing values, a baseline and labels (some missing outside the main rows)."""
    rng = np.random.default_rng(seed)
    sources, naive = [], {}
    for name, rows in ((None, n), ("ext", n_external)):
        columns: dict[Any, list[Any]] = {
            "g": rng.choice(np.array(["a", "b", "c", None], dtype=object), rows).tolist(),
            "x": [None if value < -1.3 else value for value in rng.normal(size=rows).tolist()],
        }
        columns["g"][:3] = ["a", "b", "c"]  # so that a value asked for is always known
        labels = rng.choice([-1, 1], rows).astype(np.int8)
        if name is not None:
            labels[rng.random(rows) < 0.3] = 0
        said = rng.choice([-1, 1], rows).astype(np.int8)
        weight = rng.integers(0, 4, rows).astype(np.float64) if weighted else None
        table = PopulationTable.build(pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()}))
        given = labels if name is None or external_labels else None
        sources.append(Source(name, given, weight, table, {"h": said}, rows, classes=(0, 1)))
        naive[name] = NaiveSource(
            columns,
            None if given is None else [None if label == 0 else int(label) for label in given],
            None if weight is None else weight.tolist(),
            {"h": said.tolist()},
            rows,
            (0, 1),
        )
    return (sources[0], sources[1]), naive


def predictions(seed: int, sources: Sequence[Source], *, soft: bool) -> list[np.ndarray[Any, Any]]:
    """Random predictions for each source: probabilities, or 0 and 1."""
    rng = np.random.default_rng(seed)
    return [rng.random(s.n_rows) if soft else rng.integers(0, 2, s.n_rows).astype(np.float64) for s in sources]


def rate(metric: str, population: Population, of: int | None = None, actual: int = 1) -> Rate:
    """A rate with a baseline or classes where it needs them."""
    named = {"of": of} if METRICS[metric].names_class else {}
    if metric == "confusion":
        named = {"of": of or 0, "actual": actual}
    return Rate(metric, population, "h" if METRICS[metric].needs_baseline else None, **named)


# Facts about scores are baselines to a tied goal.
rates: st.SearchStrategy[Rate] = st.builds(
    rate, st.sampled_from(sorted(METRICS)), st.sampled_from(POOL), st.sampled_from([None, 0, 1]), st.integers(0, 1)
)
"""Any rate or count on any population of the pool."""

ratios: st.SearchStrategy[Ratio] = st.one_of(
    st.sampled_from(POOL).map(precision),
    st.sampled_from(POOL).map(lambda on: precision(on, of=0)),
    st.sampled_from(POOL).map(lambda on: f_beta(2.0, on)),
    st.sampled_from(POOL).map(lambda on: win_loss_ratio("h", on)),
    st.sampled_from(POOL).map(lambda on: win_change_ratio("h", on)),
).map(lambda expression: expression.form.ratios[0])
"""Any named ratio."""


def assert_same_tied(one: TiedGoal, other: TiedGoal, *, exact: bool = True) -> None:
    """Two tied goals agree in every array; up to rounding if not `exact`."""
    same = np.array_equal if exact else (lambda a, b: np.allclose(a, b, rtol=1e-12, atol=1e-14))
    for name in ("cell_weight", "bound", "scale"):
        assert same(getattr(one, name), getattr(other, name)), name
    for name, a, b in zip(one.coefficients._fields, one.coefficients, other.coefficients, strict=True):
        assert same(a, b), name
    assert same(np.array([one.objective_constant]), np.array([other.objective_constant]))
    if exact:
        assert np.array_equal(one.cell_count, other.cell_count)
        for cell, match in zip(one.sources, other.sources, strict=True):
            assert np.array_equal(cell.cell, match.cell)
        assert [(c.constraint.text, c.n_missing, c.n_rows) for c in one.constraints] == [
            (c.constraint.text, c.n_missing, c.n_rows) for c in other.constraints
        ]
