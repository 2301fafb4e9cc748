"""Rates and constraints over all ways to fill in unknown groups, against trying every way."""

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from widemargin.diagnostics import GoalReport, audit
from widemargin.exceptions import DataError
from widemargin.goals.measuring import missing_groups as module

GROUPS = 'women = population(sex == "F")\nmen = population(sex == "M")\nold = population(sex == "F" and age >= 40)\n'
CONSTRAINTS = [
    "positive_rate(women) >= 0.5", "positive_rate(women) / positive_rate(men) >= 0.8",
    "recall(women) >= recall(men) - 0.1", "precision(women) >= 0.5", "error_rate(women) <= 1.2 * error_rate(men)",
    "positive_rate(old) / positive_rate(women) >= 0.5", "recall(old) - false_positive_rate(women) >= -0.5",
    "errors(women) <= 3", "f_beta(2, on=old) >= 0.4", "positive_rate(women) >= 0.8 * positive_rate()",
    "positive_rate(old) >= 0.7 * positive_rate(men)", "negative_rate(men) <= 0.9",
]  # fmt: skip

people = st.tuples(
    st.sampled_from(["F", "M", None]), st.sampled_from([30, 50, None]), st.sampled_from([0, 1]), st.sampled_from([0, 1])
)
# So that every population has rows of both labels, as the goal asks for.
SURE = [("F", 50, 1, 1), ("F", 50, 0, 0), ("F", 30, 1, 0), ("M", 30, 1, 1), ("M", 30, 0, 0)]


def audited(goal: str, rows: list[tuple[object, object, int, int]], *, with_spans: bool) -> GoalReport:
    sex, age, y, predicted = zip(*rows, strict=True)
    table = pa.table({"sex": pa.array(sex, pa.string()), "age": pa.array(age, pa.int64())})
    return audit(predicted, goal, y=y, populations=table, confidence=None, missing_groups=with_spans)


def all_ways(rows: list[tuple[object, object, int, int]]) -> Iterator[list[tuple[object, object, int, int]]]:
    choices = [
        [(s, a, y, p) for s in (["F", "M"] if sex is None else [sex]) for a in ([30, 50] if age is None else [age])]
        for sex, age, y, p in rows
    ]
    yield from ([*way] for way in itertools.product(*choices))


def slacks_of(reports: list[GoalReport], label: str) -> list[float | None]:
    """Those of the ratio where two rates are compared by a factor, unless it is undefined in one way to fill in."""
    ratios = [report[label].as_ratio() for report in reports]
    as_sides = any(item.rate is None for item in ratios)
    return [(report[label] if as_sides else item).slack for report, item in zip(reports, ratios, strict=True)]


@settings(max_examples=12)
@given(rows=st.lists(people, min_size=1, max_size=4))
@example(rows=[(None, None, 1, 1), (None, 50, 0, 1), ("F", None, 1, 1), (None, 30, 0, 0), (None, None, 0, 0)])
def test_the_spans_are_those_of_trying_every_way(rows):
    rules = "\n".join(f"subject to rule{number}: {text}" for number, text in enumerate(CONSTRAINTS))
    goal = f"{GROUPS}{rules}\nsubject to all: recall() >= 0.01"
    rows = SURE + rows
    *spans, of_all = audited(goal, rows, with_spans=True).missing_groups.constraints
    reports = [audited(goal, way, with_spans=False) for way in all_ways(rows)]
    assert of_all.least == of_all.largest == pytest.approx(reports[0]["all"].slack)  # no group in it, all rows count
    for span, text in zip(spans, CONSTRAINTS, strict=True):
        slacks = slacks_of(reports, span.label)
        defined = [slack for slack in slacks if slack is not None]
        assert span.is_exact, text
        assert (span.least is None) == (not defined), text
        if defined:
            assert [span.least, span.largest] == pytest.approx([min(defined), max(defined)], abs=1e-12), text
        met = {report[span.label].met for report in reports}
        assert span.holds == {(True,): "yes", (False,): "no"}.get(tuple(met), "open"), text


def test_rates_of_which_one_needs_labels_are_compared_by_their_slack():
    goal, rows = f"{GROUPS}subject to rule: recall(women) >= 0.5 * negative_rate(men)", [*SURE, (None, 50, 1, 1)]
    (span,) = audited(goal, rows, with_spans=True).missing_groups.constraints
    slacks = [audited(goal, way, with_spans=False)["rule"].slack for way in all_ways(rows)]
    assert [span.least, span.largest] == pytest.approx([min(slacks), max(slacks)])


def test_rows_without_a_decision_count_as_in_the_audit():
    """Of a classifier that abstains (2 stands for no decision), against trying every way."""
    rows = [*SURE, ("F", 30, 1, 2), (None, 50, 1, 2), (None, 30, 0, 1), (None, 50, 1, 0)]
    goal = (
        f"{GROUPS}subject to a: negative_rate(women) <= 0.9\nsubject to b: error_rate(women) <= 1.2 * error_rate(men)"
    )

    def report(people: list[tuple[object, object, int, int]], **more: bool) -> GoalReport:
        sex, age, y, predicted = zip(*people, strict=True)
        table = pa.table({"sex": pa.array(sex, pa.string()), "age": list(age)})
        return audit(predicted, goal, y=y, populations=table, confidence=None, abstain=2, **more)

    reports = [report(way) for way in all_ways(rows)]
    for span in report(rows, missing_groups=True).missing_groups.constraints:
        slacks = slacks_of(reports, span.label)
        assert [span.least, span.largest] == pytest.approx([min(slacks), max(slacks)])


def test_single_rates_are_those_of_trying_every_way():
    rows = [*SURE, (None, 50, 1, 1), (None, None, 0, 1), ("F", None, 1, 0)]
    goal = f"{GROUPS}subject to a: recall(old) >= 0.1\nsubject to b: positive_rate(men) >= 0.1"
    spans = audited(goal, rows, with_spans=True).missing_groups
    assert spans.n_rows == 3
    reports = [audited(goal, way, with_spans=False) for way in all_ways(rows)]
    for rate, label in zip(spans.rates, ("a", "b"), strict=True):
        values = [report[label].rate for report in reports]
        assert [rate.least, rate.largest] == pytest.approx([min(values), max(values)])


def test_many_rows_are_filled_in_at_once():
    """Many people, a tenth of unknown sex: the range by hand, and every value of a bundle."""
    n = 200_000
    rng = np.random.default_rng(0)
    sex = np.where(rng.random(n) < 0.5, "F", "M").astype(object)
    sex[rng.random(n) < 0.1] = None
    predicted = (rng.random(n) < 0.4).astype(int)
    goal = "subject to demographic_parity(sex, ratio=0.8)"
    report = audit(predicted, goal, populations=pa.table({"sex": pa.array(sex.tolist())}), pos_label=1,
                   confidence=None, missing_groups=True)  # fmt: skip
    f, m, unknown = sex == "F", sex == "M", sex == None  # noqa: E711
    least = predicted[f].sum() / (f | (unknown & (predicted == 0))).sum()
    largest = predicted[m | unknown].sum() / (m | (unknown & (predicted == 1))).sum()
    of_women, _ = sorted(report.missing_groups.constraints, key=lambda span: span.label.index("F"))
    assert of_women.least == pytest.approx(least / largest - 0.8)
    assert of_women.is_exact


def test_ways_beyond_count_are_bounded_and_said_to_be(monkeypatch):
    """One row that is best in one group and worst in the other: the widest span is given, and called so."""
    monkeypatch.setattr(module, "TRIED", 0)
    rows = [*SURE, (None, None, 1, 1)]
    goal = f"{GROUPS}subject to rule: positive_rate(old) / positive_rate(women) >= 0.5"
    (span,) = audited(goal, rows, with_spans=True).missing_groups.constraints
    slacks = [audited(goal, way, with_spans=False)["rule"].slack for way in all_ways(rows)]
    assert not span.is_exact
    assert span.least <= min(slacks)
    assert span.largest >= max(slacks)


@pytest.mark.parametrize("tried", [0, module.TRIED])
@pytest.mark.parametrize("rule", ["positive_rate(women) / positive_rate(men)", "precision(women)"])
def test_a_denominator_that_may_be_zero_leaves_the_verdict_open(rule, tried, monkeypatch):
    """No man of known sex is selected, so the ratio may be undefined, and may be met."""
    monkeypatch.setattr(module, "TRIED", tried)
    rows = [("F", 30, 1, 0), ("F", 30, 0, 0), ("M", 30, 1, 0), ("M", 30, 0, 0), *3 * [(None, 30, 1, 1)]]
    goal = f"{GROUPS.partition('old')[0]}subject to rule: {rule} >= 0.8"
    report = audited(goal, rows, with_spans=True)
    (span,) = report.missing_groups.constraints
    slacks = slacks_of([audited(goal, way, with_spans=False) for way in all_ways(rows)], "rule")
    defined = [slack for slack in slacks if slack is not None]
    assert span.holds == "open" and max(defined) > 0.0 and None in slacks
    assert span.is_exact == (tried > 0 or rule.startswith("precision"))
    if span.is_exact:
        assert [span.least, span.largest] == pytest.approx([min(defined), max(defined)])
    else:
        assert span.least is None or span.least <= min(defined)
        assert span.largest is None or span.largest >= max(defined)
    assert "rule" in str(report.missing_groups) and "OPEN" in str(report.missing_groups)


def test_the_verdict_with_confidence_heeds_unknown_groups():
    rows = [(sex, 30, 1, 1) for sex in ["F", "M"] * 200] + [(None, 30, 1, 0)] * 100
    sex, age, y, predicted = zip(*rows, strict=True)
    table = pa.table({"sex": list(sex), "age": list(age)})
    goal = "women = population(sex == 'F')\nsubject to floor: positive_rate(women) >= 0.9".replace("'", '"')
    given = {"y": y, "populations": table, "pos_label": 1, "decide": "confident"}
    assert audit(predicted, goal, **given).passed
    report = audit(predicted, goal, **given, missing_groups=True)
    assert not report.passed
    assert "OPEN" in str(report)
    assert GoalReport.from_dict(report.to_dict()) == report
    assert "OPEN" in report._repr_html_()


def test_too_many_ways_are_refused(monkeypatch):
    monkeypatch.setattr(module, "WAYS", 8)
    with pytest.raises(DataError, match=r"a row without sex, age can be filled in in 4 ways, .*Name fewer values"):
        audited(f"{GROUPS}subject to rule: recall(old) >= 0.1", [*SURE, *[(None, None, 1, 1)] * 3], with_spans=True)
