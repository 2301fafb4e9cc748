"""Audits in blocks: the numbers of the audit in memory, whatever the blocks, their order and their merging."""

import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.goal_reference import FACTS, text_of

from widemargin.diagnostics import AuditBlock, AuditCounts, audit, audit_stream
from widemargin.exceptions import DataError, GoalError
from widemargin.goals import External, Goal
from widemargin.goals.language.linear import METRICS
from widemargin.goals.measuring.counting import CountedRows, CountingLimits
from widemargin.goals.measuring.group_table import HEADS

TEXT = """
a = population(g == "a")
warm = population(x > 0.0 and x <= 1.5)
odd = population(not (g in ["a", "c"] or x > 0.5))
nobody = population(g.is_null() and flag)
late = population(day >= "2024-02-10")
early = population(g < "b")
zero = population(bit)
traffic = external()
traffic_a = external("traffic", g == "a")
minimize error_rate() + 0.5 * false_positive_rate(on=a)
subject to fair: positive_rate(a) >= 0.8 * positive_rate(warm)
subject to precision: precision(on=odd) >= 0.4
subject to floor: recall() >= 0.5
subject to few: true_positives(on=late) >= 3
subject to sum: 2 * recall(on=early) - churn("h", on=zero) >= -0.3
subject to right: positive_rate(on=population(predicted_positive("h"))) >= 0.1
subject to traffic: churn("h", on=traffic) <= 0.6
subject to calm: positive_rate(on=traffic_a) <= 0.9
subject to demographic_parity(g, ratio=0.1), min_rows=3, on_small="drop"
subject to equalized_odds(c, difference=0.99, values=["p", "q"])
subject to equal_opportunity(x2, ratio=0.01, reference=1, population=warm), min_rows=2, on_small="drop"
"""
ALL_RATES = "\n".join(
    f"subject to {name}: {text_of(name, 'h')} "
    + ("<= 1e6" if metric.is_count else ">= 0.7" if name == "decision_rate" else "<= 0.7")
    for name, metric in METRICS.items()
)


def rows(seed, n, weights="none"):
    """A frame with every kind of column, labels, predictions, weights."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "g": pd.Series(rng.choice(np.array(["a", "b", "c", None], dtype=object), n), dtype=object),
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n).round(1)).astype(np.float32),
            "x2": rng.integers(0, 3, n),
            "bit": rng.integers(0, 2, n),
            "flag": rng.random(n) < 0.5,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 80, n), unit="D"),
            "c": pd.Categorical(rng.choice(["p", "q"], n), categories=["p", "q", "unused"]),
        }
    )
    frame.loc[:3, "g"] = ["a", "b", "c", "a"][: min(4, n)]
    given = {
        "few": rng.integers(0, 4, n).astype(float),
        "many": rng.uniform(0.0, 3.0, n) * (rng.random(n) < 0.9),
    }
    y, said, old = (rng.integers(0, 2, n) for _ in range(3))
    return frame, y, said, old, given.get(weights)


def same(one, other):
    """Reports equal up to the rounding of sums."""
    left, right = one.to_dict(), other.to_dict()
    for item in (left, right):
        for entry in item["constraints"]:
            interval = entry.pop("interval") or {}
            entry |= {f"interval_{key}": value for key, value in interval.items()}
        groups = item.pop("groups")
        item["constraints"] += [group.pop(name) or {} for group in groups for name in HEADS] + groups
    lines = zip(left.pop("constraints"), right.pop("constraints"), strict=True)
    for a, b in [(left, right), *lines]:
        assert a.keys() == b.keys()
        for key, value in a.items():
            assert b[key] == (pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value), key


def as_baselines(old):
    """Facts about scores are baselines to whoever has them already."""
    return dict.fromkeys(["h", *FACTS.values()], old)


def blocks_of(data, cuts, source=None, ramp=None):
    frame, y, said, old, weight = data
    edges = [0, *sorted(cuts), len(frame)]
    for low, high in itertools.pairwise(edges):
        part = slice(low, high)
        yield AuditBlock(
            said[part], y[part], populations=frame.iloc[part], baselines=as_baselines(old[part]), source=source,
            sample_weight=None if weight is None else weight[part], ramp=None if ramp is None else ramp[part],
        )  # fmt: skip


def in_memory(goal, main, traffic, **more):
    frame, y, said, old, weight = main
    other = External(None, traffic[1], sample_weight=traffic[4], populations=traffic[0], h=traffic[3])
    return audit(
        {None: said, "traffic": traffic[2]}, goal, y=y, populations=frame, external={"traffic": other},
        baselines=as_baselines(old), sample_weight=weight, pos_label=1, **more,
    )  # fmt: skip


@settings(max_examples=5)
@given(
    st.integers(0, 10**6), st.sampled_from(["none", "few", "many"]), st.lists(st.integers(0, 300), max_size=6),
    st.randoms(use_true_random=False), st.sampled_from([TEXT, TEXT + ALL_RATES]),
)  # fmt: skip
def test_any_blocks_merged_in_any_order_give_the_report_in_memory(seed, weights, cuts, random, text):
    goal = Goal.parse(text)
    main, traffic = rows(seed, 300, weights), rows(seed + 1, 60, weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = in_memory(goal, main, traffic)
        except GoalError as error:
            wanted = error
        parts = []
        for block in [*blocks_of(main, cuts), *blocks_of(traffic, [c // 5 for c in cuts], "traffic")]:
            part = AuditCounts(goal, pos_label=1)
            part.add(block)
            parts.append(pickle.loads(pickle.dumps(part)))
        random.shuffle(parts)
        while len(parts) > 1:  # any tree of merges
            parts.append(parts.pop(0).merge(parts.pop(random.randrange(len(parts)))))
        if isinstance(wanted, GoalError):
            with pytest.raises(type(wanted)):
                parts[0].report()
        else:
            same(wanted, parts[0].report())


@pytest.mark.parametrize("weights", ["few", "many"])
def test_intervals_of_weighted_rows_are_those_in_memory_with_single_rows_as_blocks(weights):
    main = rows(3, 500, weights)
    text = 'a = population(g == "a")\nsubject to positive_rate(a) >= 0.7 * positive_rate()\nsubject to recall() >= 0.4'
    frame, y, said, _, weight = main
    wanted = audit(said, text, y=y, populations=frame, sample_weight=weight, pos_label=1)
    assert wanted.constraints[0].interval.method == "bootstrap"
    same(wanted, audit_stream(blocks_of(main, range(1, 500)), text, pos_label=1))


def test_the_ramp_is_measured_too():
    class Ramp:
        classes_ = np.array([0, 1])

        def __init__(self, said, share):
            self.said, self.share = said, share

        def predict(self, X):
            return self.said

        def randomized_proba(self, X):
            return np.column_stack([1 - self.share, self.share])

    main = rows(5, 200, "many")
    frame, y, said, _, weight = main
    share = np.random.default_rng(0).random(200)
    text = 'a = population(g == "a")\nsubject to positive_rate(a) >= 0.3\nsubject to precision() >= 0.2'
    wanted = audit(Ramp(said, share), text, X=frame, y=y, populations=frame, sample_weight=weight)
    assert wanted.constraints[0].ramp_rate is not None
    same(wanted, audit_stream(blocks_of(main, [7, 50, 51], ramp=share), text, classes=(0, 1)))


def test_categories_do_not_depend_on_the_block():
    """A value that one block lacks, codes that differ, a block of nothing but missing values."""
    blocks = [
        AuditBlock([1, 0], [1, 1], populations=pa.table({"g": pa.array(["b", "c"]).dictionary_encode()})),
        AuditBlock([1, 1], [1, 0], populations=pa.table({"g": pa.array(["a", "b"]).dictionary_encode()})),
        AuditBlock([1, 1], [1, 0], populations=pa.table({"g": pa.array([None, None], pa.string())})),
    ]
    report = audit_stream(blocks, 'subject to positive_rate(population(g == "a")) >= 0.5', classes=(0, 1))
    assert (report.constraints[0].rate, report.constraints[0].n_rows, report.constraints[0].n_missing) == (1.0, 1, 2)
    with pytest.raises(GoalError, match=r"column 'g' has no value 'A'.*'a', 'b', 'c'.* Did you mean 'a'"):
        audit_stream(blocks, 'subject to positive_rate(population(g == "A")) >= 0.5', classes=(0, 1))


def test_the_negative_class_is_learned_from_any_block():
    blocks = [AuditBlock(["yes"], ["yes"]), AuditBlock(["yes"], ["no"]), AuditBlock(["no"], ["no"])]
    report = audit_stream(blocks, "subject to recall() >= 0.5\nsubject to precision() >= 0.1", pos_label="yes")
    assert (report.constraints[0].rate, report.constraints[1].rate) == (1.0, 0.5)
    with pytest.raises(DataError, match="neither class"):
        audit_stream([*blocks, AuditBlock(["maybe"], ["no"])], "subject to recall() >= 0.5", pos_label="yes")
    with pytest.raises(DataError, match="mix strings and numbers"):
        audit_stream([AuditBlock([1], ["yes"])], "subject to recall() >= 0.5", pos_label="yes")
    with pytest.raises(DataError, match="scores or probabilities"):
        audit_stream([AuditBlock([0.3, 0.9], [1, 0])], "subject to recall() >= 0.5", pos_label=1)


def test_memory_does_not_grow_with_the_rows():
    counts = AuditCounts("subject to positive_rate(population(x > 0.5)) >= 0.1", classes=(0, 1))
    sizes = []
    for seed in range(6):
        x = np.random.default_rng(seed).random(20_000)
        counts.update((x > 0.3).astype(int), populations=pa.table({"x": x}))
        sizes.append(len(pickle.dumps(counts)))
    assert counts.n_rows == 120_000 and sizes[-1] < sizes[0] + 50 < 3000


def block(**more):
    return AuditBlock(**{"predictions": [1, 0], "y": [1, 0], **more})


G = 'subject to positive_rate(population(g == "a")) >= 0.1'
BAD = {
    "no classes": (lambda: AuditCounts("subject to recall() >= 0.5"), "give classes="),
    "no goal": (lambda: AuditCounts(3, pos_label=1), "give a Goal or its text"),
    "no rows": (lambda: audit_stream([], "subject to recall() >= 0.5", pos_label=1), "the data have no rows"),
    "unknown source": (
        lambda: audit_stream([block(source="x")], "subject to recall() >= 0.5", pos_label=1), "rows of 'x' were given",
    ),
    "labels in one block only": (
        lambda: audit_stream([block(), block(y=None)], "subject to recall() >= 0.5", pos_label=1), "have labels",
    ),
    "ramp in one block only": (
        lambda: audit_stream([block(), block(ramp=[0.5, 0.5])], "subject to recall() >= 0.5", pos_label=1), "have ramp",
    ),
    "wrong ramp": (lambda: audit_stream([block(ramp=[0.5, 2])], "subject to recall() >= 0.5", pos_label=1), "ramp has"),
    "other type": (
        lambda: audit_stream(
            [block(populations=pd.DataFrame({"g": ["a", "b"]})), block(populations=pd.DataFrame({"g": [1, 2]}))],
            G, pos_label=1,
        ), "'g' holds string values .* number values",
    ),
    "no table": (lambda: audit_stream([block()], G, pos_label=1), "has no table"),
    "no column": (
        lambda: audit_stream([block(populations=pd.DataFrame({"h": ["a", "b"]}))], G, pos_label=1), "is in no table",
    ),
    "missing label": (
        lambda: audit_stream([block(y=[1, None])], "subject to recall() >= 0.5", pos_label=1), "1 missing values of 2",
    ),
    "other lengths": (
        lambda: audit_stream([block(y=[1, 0, 1])], "subject to recall() >= 0.5", pos_label=1), "length 3",
    ),
    "negative weight": (
        lambda: audit_stream([block(sample_weight=[1, -1])], "subject to recall() >= 0.5", pos_label=1), "negative",
    ),
    "goals differ": (
        lambda: AuditCounts("subject to recall() >= 0.5", pos_label=1).merge(
            AuditCounts("subject to recall() >= 0.6", pos_label=1)
        ), "two different goals",
    ),
    "classes differ": (
        lambda: AuditCounts("subject to recall() >= 0.5", classes=(0, 1)).merge(
            AuditCounts("subject to recall() >= 0.5", classes=(2, 1))
        ), "classes 0, 1 and 2, 1",
    ),
    "too many values": (
        lambda: audit_stream(
            [AuditBlock(np.arange(20_000) % 2, populations=pa.table({"x": np.arange(20_000.0)}))],
            "subject to demographic_parity(x, ratio=0.8)", pos_label=1,
        ), "more than 10000 distinct values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_counted_is_named(kind):
    call, text = BAD[kind]
    with pytest.raises((DataError, GoalError), match=text):
        call()


def test_too_many_kinds_are_named(monkeypatch):
    monkeypatch.setattr("widemargin.goals.measuring.counting.COUNTED", CountingLimits(kinds=3))
    with pytest.raises(DataError, match="more than 3 kinds of rows"):
        audit_stream(blocks_of(rows(0, 50), []), TEXT, pos_label=1)


def test_counts_of_different_sources_do_not_join():
    one, other = CountedRows(None, {}, ()), CountedRows("traffic", {}, ())
    other.n_rows = 1
    with pytest.raises(DataError, match="different goals or sources"):
        one.join(other)
