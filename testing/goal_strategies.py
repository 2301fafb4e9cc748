"""Hypothesis strategies for everything in the language of goals, hostile names included.

Whatever they draw is a valid object: bounds lie inside the attainable range, one name means one population.
"""

import math
from collections.abc import Callable
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from testing.goal_reference import rate_of

from widemargin.goals import Bundle, Constraint, Expression, Goal, Population
from widemargin.goals.language.bundles import BUNDLE_KINDS
from widemargin.goals.language.linear import METRICS, Linear, Rate
from widemargin.goals.language.predicates import BaselineSays, Compare, IsIn, IsNull, IsTrue, LabelIs, Not, Predicate
from widemargin.goals.language.rates import f_beta, precision, win_change_ratio, win_loss_ratio

__all__ = [
    "baselines",
    "bundles",
    "columns",
    "constraints",
    "expressions",
    "goals",
    "literals",
    "mutated",
    "names",
    "numbers",
    "population_pools",
    "populations",
    "predicates",
    "ratios",
]

HOSTILE_NAMES = (
    "women", "a b", 'a"b', "a'b", "back\\slash", "\\", '"', "minimize", "minimise", "subject", "to", "min_rows",
    "on_small", "population", "external", "col", "recall", "True", "None", "lambda", "not", "ﬁ", "Ⅷ", "a·b", "数",
    "😀", "_", "__", "#", "a;b", "a:b", "a=b", "x)", "(", "0", "1e9", "inf", "f'x'", "positive_label", "a" * 200,
)  # fmt: skip
HOSTILE_COLUMNS = (*HOSTILE_NAMES, "a\nb", "\r\n", "\t", "\0", "\x7f", "\ud800", "\u2028", "is_null", "age", " ")

_printable = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8).filter(str.isprintable)

names: st.SearchStrategy[str] = st.sampled_from(HOSTILE_NAMES) | _printable
"""Names of populations, sources, baselines, and labels."""

columns: st.SearchStrategy[Any] = (
    st.sampled_from(HOSTILE_COLUMNS) | st.text(min_size=1, max_size=8) | st.integers(0, 99)
)
"""Columns by any name, or by position."""

baselines: st.SearchStrategy[str] = st.sampled_from(["deployed", "old model", 'h"1'])

_whole = st.integers(-(2**63) + 1, 2**63 - 1)
_real = st.floats(allow_nan=False, allow_infinity=False)
literals: st.SearchStrategy[Any] = (
    st.sampled_from(HOSTILE_COLUMNS) | st.text(max_size=8) | _whole | _real | st.booleans()
)
"""Values that columns are compared with."""

numbers: st.SearchStrategy[float] = st.floats(-1e6, 1e6, allow_nan=False) | st.integers(-5, 5).map(float)


def _comparisons() -> st.SearchStrategy[Predicate]:
    ordered = st.builds(
        Compare, columns, st.sampled_from(["<", "<=", ">", ">="]), literals.filter(lambda v: not isinstance(v, bool))
    )
    equal = st.builds(Compare, columns, st.sampled_from(["==", "!="]), literals)
    return ordered | equal


_leaves: st.SearchStrategy[Predicate] = st.one_of(
    _comparisons(),
    st.builds(IsIn, columns, st.lists(literals, min_size=1, max_size=4).map(tuple)),
    st.builds(IsNull, columns),
    st.builds(IsTrue, columns),
    st.builds(LabelIs, st.booleans(), st.none() | literals),
    st.builds(BaselineSays, baselines, st.booleans(), st.none() | literals),
)


def _combined(parts: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    pairs = st.tuples(parts, parts)
    return st.one_of(pairs.map(lambda p: p[0] & p[1]), pairs.map(lambda p: p[0] | p[1]), parts.map(Not))


predicates: st.SearchStrategy[Predicate] = st.recursive(_leaves, _combined, max_leaves=5)

_sources = st.none() | st.sampled_from(["traffic", "old data", "t2"])
_conditions = st.none() | predicates


def populations(name: st.SearchStrategy[str | None] = st.none() | names) -> st.SearchStrategy[Population]:  # noqa: B008
    """Populations with names drawn from `name`."""
    return st.builds(Population, name, _sources, _conditions)


@st.composite
def population_pools(draw: st.DrawFn) -> list[Population]:
    """A few populations in which one name means one population; some have no name."""
    named = draw(st.lists(names, max_size=3, unique=True))
    pool = [Population(name, draw(_sources), draw(_conditions)) for name in [*named, None]]
    return [*pool, Population.everyone()]


def rates(pool: list[Population], *, counts: bool | None = None) -> st.SearchStrategy[Rate]:
    """A rate or a count (one of the two if `counts` says so) on a population of the pool."""
    chosen = [name for name, metric in METRICS.items() if counts is None or metric.is_count == counts]

    plain = st.builds(rate_of, st.sampled_from(chosen), st.sampled_from(pool), baselines)
    of_class = [name for name in chosen if METRICS[name].names_class and name != "confusion"]
    named = st.builds(rate_of, st.sampled_from(of_class), st.sampled_from(pool), baselines, of=literals)
    pairs = st.just("confusion"), st.sampled_from(pool), baselines
    confused = st.nothing() if counts else st.builds(rate_of, *pairs, of=literals, actual=literals)
    return plain | named | confused


def expressions(pool: list[Population], *, constant: bool = True) -> st.SearchStrategy[Expression]:
    """Sums of rates with one to three terms."""
    terms = st.lists(st.tuples(numbers, rates(pool)), min_size=1, max_size=3).map(tuple)
    built = st.builds(Linear, terms, numbers if constant else st.just(0.0))
    return built.filter(lambda form: bool(form.terms)).map(Expression)


@st.composite
def ratios(draw: st.DrawFn, pool: list[Population]) -> Expression:
    """A named ratio, or a ratio of two sums of counts of the user's own."""
    on, baseline = draw(st.sampled_from(pool)), draw(baselines)
    named: list[Callable[[], Expression]] = [
        lambda: precision(on),
        lambda: precision(on, of=draw(literals)),
        lambda: f_beta(draw(st.floats(0.01, 100.0)), on),
        lambda: win_loss_ratio(baseline, on),
        lambda: win_change_ratio(baseline, on),
    ]
    if draw(st.booleans()):
        return draw(st.sampled_from(named))()
    above, below = draw(expressions(pool)), draw(st.lists(rates(pool, counts=True), min_size=1, max_size=2))
    factors = st.floats(0.01, 100.0)
    return above / Expression(Linear(tuple((draw(factors), rate) for rate in below), draw(st.sampled_from([0.0, 1.5]))))


def _inside(draw: st.DrawFn, interval: tuple[float, float]) -> float:
    low, high = (max(-1e9, min(1e9, end)) for end in interval)
    return low + draw(st.floats(0.0, 1.0)) * (high - low)


@st.composite
def constraints(draw: st.DrawFn, pool: list[Population]) -> Constraint:
    """A constraint whose bound is attainable, with or without a ratio, label, and options."""
    if draw(st.integers(0, 3)):
        left = draw(expressions(pool, constant=False))
        right = draw(st.none() | expressions(pool, constant=False))
        difference = left if right is None else left - right
        assume(difference.form.terms)
        bound = _inside(draw, difference.range)
        other: Any = bound if right is None else right + bound
    else:
        ratio, factor, shift = draw(ratios(pool)), draw(st.sampled_from([1.0, -1.0, 2.5])), draw(st.integers(-2, 2))
        interval = ratio.range
        target = draw(st.floats(0.0, 1.0)) if math.isinf(interval[1] - interval[0]) else _inside(draw, interval)
        assume(interval[0] <= target <= interval[1])
        atom = ratio.form.ratios[0]
        assume(atom.numerator.plus(atom.denominator, -target).terms)
        left, other = factor * ratio + shift, factor * target + shift
    made = left >= other if draw(st.booleans()) else left <= other
    return _with_options(draw, made)


@st.composite
def bundles(draw: st.DrawFn, pool: list[Population]) -> Bundle:
    """A bundle of any kind."""
    values = draw(st.none() | st.lists(literals, min_size=2, max_size=4, unique_by=repr))
    if values is not None:
        assume(len({(isinstance(value, bool), value) for value in values}) >= 2)
    reference = draw(st.none() | (literals if values is None else st.sampled_from(values)))
    by_ratio = draw(st.booleans())
    made = Bundle(
        draw(st.sampled_from(sorted(BUNDLE_KINDS))),
        draw(columns),
        ratio=draw(st.floats(1e-9, 1.0)) if by_ratio else None,
        difference=None if by_ratio else draw(st.floats(0.0, 1.0)),
        reference=reference,
        values=None if values is None else tuple(values),
        population=draw(st.none() | st.sampled_from(pool)),
        of=draw(st.none() | literals),
    )
    return _with_options(draw, made)


def _with_options(draw: st.DrawFn, made: Any) -> Any:
    rows, small = draw(st.none() | st.integers(1, 10**6)), draw(st.sampled_from([None, "error", "drop"]))
    return made.with_options(min_rows=rows, on_small=small)


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    """A goal with up to three constraints or bundles; labels differ."""
    pool = draw(population_pools())
    several = draw(st.lists(constraints(pool) | bundles(pool), max_size=3))
    labels = draw(st.lists(st.none() | names, min_size=len(several), max_size=len(several)))
    given = [label for label in labels if label is not None]
    assume(len(set(given)) == len(given))
    entries = [made if label is None else made.named(label) for made, label in zip(several, labels, strict=True)]
    return Goal(
        draw(st.none() | expressions(pool)),
        entries,
        min_rows=draw(st.none() | st.integers(1, 1000)),
        on_small=draw(st.sampled_from(["error", "drop"])),
    )


FRAGMENTS = (
    "(", ")", "[", "]", "'", '"', "\\", "\n", ";", "#", ",", ":", "=", "==", "<", ">=", "*", "**", "/", "//", "-", "~",
    "not ", "and", "in", "lambda x: ", "if", "for a in b", "f'", "{", "}", "@", "1e999", "9" * 80, "0x1", "1_0", ".5",
    "True", "None", "__import__('os')", ".__class__", "recall()", "population(", "external()", "minimize ",
    "subject to ", "col(", "\0", "\ud800", "\u202e", "😀", ":=", "...", "await ", "\t", "\x0c", "\r",
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, text: st.SearchStrategy[str]) -> str:
    """A text with a few pieces cut out, repeated, or replaced by fragments of Python and of the goal language."""
    result = draw(text)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(result)))
        stop = min(len(result), start + draw(st.integers(0, 10)))
        piece = draw(st.sampled_from([*FRAGMENTS, "", result[start:stop] * 2]))
        result = result[:start] + piece + result[stop:]
    return result
