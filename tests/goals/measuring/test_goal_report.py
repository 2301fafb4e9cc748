"""Reports: verdicts, text within 100 columns, round trip through JSON, escaping of hostile names."""

import dataclasses
import html
import json
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin import audit
from widemargin.exceptions import DataError, GoalWarning
from widemargin.goals import External, Goal, Population, churn, col, error_rate, positive_rate, precision, recall
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.goals.binding.tied_goal import Dropped
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport, both_ways_round, worst_pairs
from widemargin.goals.measuring.intervals import Interval
from widemargin.goals.measuring.measured_report import make_report, verdict_of
from widemargin.rows import Rows

HOSTILE = ["<script>alert(1)</script>", "a & b", "\"quoted\" 'name'", "x" * 180, "größe 数 😀", "|", "<b>", "&lt;"]


def tied_goal_of(goal, n=200, external=None):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"g": rng.choice(np.array(["a", "b", None], dtype=object), n), "old": rng.integers(0, 2, n)})
    y = rng.integers(0, 2, n)
    sources = make_sources(baselines_used(goal), Rows(y=y, populations=table, external=external or {}), classes=(0, 1))
    return bind(goal, sources, warn_trivial=False), y


GOAL = Goal(
    error_rate(),
    [
        (positive_rate(Population("a", where=col("g") == "a")) >= 0.5 * positive_rate()).named("fair"),
        recall() >= 0.9,
        (precision() >= 0.5).named("p"),
    ],
)


def full_report(**options):
    tied, y = tied_goal_of(GOAL)
    said = np.where(np.random.default_rng(1).random(len(y)) < 0.8, y, 1 - y)
    ramp = [np.clip(said * 0.8 + 0.1, 0, 1)]
    arguments = {
        "confidence": 0.95,
        "soft": tied.measure(tied.positive_mass(ramp)),
        "multipliers": np.array([0.0, 0.25, 1.5]),
        "with_groups": True,
    } | options
    return make_report(tied, [said], positive_class=">50K", status="converged", certificate="gap 1e-4", **arguments)


@pytest.mark.parametrize(
    ("slack", "met", "interval", "expected"),
    [
        (None, False, None, "undefined"),
        (0.1, True, Interval(0.05, 0.2, 0.95, "bootstrap"), "met"),
        (0.1, True, Interval(0.0, 0.2, 0.95, "bootstrap"), "met"),
        (0.1, True, Interval(-0.05, 0.2, 0.95, "bootstrap"), "undecided"),
        (-0.1, False, Interval(-0.2, 0.05, 0.95, "bootstrap"), "undecided"),
        (-0.1, False, Interval(-0.2, 0.0, 0.95, "bootstrap"), "undecided"),
        (-0.1, False, Interval(-0.2, -0.05, 0.95, "bootstrap"), "not met"),
        (0.1, True, Interval(None, 0.2, 0.95, "bootstrap"), "undecided"),
        (-0.1, False, Interval(-0.2, None, 0.95, "bootstrap"), "undecided"),
        (0.1, True, None, "undecided"),
    ],
)
def test_verdicts(slack, met, interval, expected):
    assert verdict_of(slack, met, interval, with_intervals=True) == expected
    if slack is not None:
        assert verdict_of(slack, met, interval, with_intervals=False) == ("met" if met else "not met")


def test_first_line_names_the_positive_class():
    assert (
        full_report().__str__().splitlines()[0]
        == "Goal report. Positive class: '>50K'. Measured on the data (200 rows)."
    )
    assert "Measured on test rows" in str(full_report(data_name="test rows")).splitlines()[0]


def test_the_text_explains_itself():
    text = str(full_report())
    for word in (
        "rate:",
        "ramp rate:",
        "slack:",
        "multiplier:",
        "undecided",
        "Bonferroni",
        "gap 1e-4",
        "Status: converged",
    ):
        assert word in text
    plain = str(full_report(soft=None, multipliers=None, confidence=None))
    for word in ("ramp rate", "multiplier", "Bonferroni"):
        assert word not in plain
    assert "#2: recall() >= 0.9" in plain
    assert "fair: positive_rate(a) >= 0.5 * positive_rate()" in plain


def test_the_table_is_aligned_and_narrow():
    lines = str(dataclasses.replace(full_report(), groups=())).splitlines()
    assert max(map(len, lines)) <= 100
    start = next(i for i, line in enumerate(lines) if line.startswith("constraint"))
    rows = lines[start : start + 4]
    assert len({row.index("  ", 40) >= 0 for row in rows}) == 1
    ends = [[match.end() for match in re.finditer(r"\S(?=\s\s|$)", row)][:-1] for row in rows[1:]]
    assert len({tuple(end[1:]) for end in ends}) == 1  # numbers end in the same columns


def test_numbers_are_those_measured():
    report = full_report()
    tied, y = tied_goal_of(GOAL)
    said = np.where(np.random.default_rng(1).random(len(y)) < 0.8, y, 1 - y)
    measured = tied.measure(tied.positive_mass([said]))
    assert report.objective == pytest.approx(np.mean(said != y))
    assert report.ramp_objective == pytest.approx(np.mean(np.abs((said * 0.8 + 0.1) - y)))
    for j, item in enumerate(report.constraints):
        assert (item.rate, item.bound, item.slack) == (measured.value[j], measured.bound[j], measured.slack[j])
        assert item.met == bool(measured.met[j])
        assert item.verdict == verdict_of(item.slack, item.met, item.interval, with_intervals=True)
    assert report["p"].rate == pytest.approx((said & y).sum() / said.sum())
    assert report["p"].multiplier == 1.5
    assert report["fair"].n_missing > 0
    assert report["#2"].ramp_rate == pytest.approx((0.1 + 0.8 * said[y == 1]).mean())
    assert Goal.parse(report.goal_text) == GOAL
    with pytest.raises(KeyError, match="no constraint 'x'; there are 'fair', '#2', 'p'"):
        report["x"]


def test_undefined_ratios_are_undefined_and_never_met():
    tied, y = tied_goal_of(Goal(None, precision() >= 0.1))
    report = make_report(tied, [np.zeros(len(y))], positive_class=1, confidence=0.9)
    item = report.constraints[0]
    assert (item.rate, item.slack, item.met, item.verdict, item.interval) == (None, None, False, "undefined", None)
    assert not report.passed
    assert "undefined" in str(report)
    assert report == GoalReport.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False)))


def test_deciding_by_estimate_or_with_confidence():
    tied, y = tied_goal_of(Goal(None, [recall() >= 0.5]))
    said = y.copy()
    positives = np.flatnonzero(y)
    said[positives[: int(0.45 * len(positives))]] = 0  # recall 0.55: above the bound, but not surely
    estimate = make_report(tied, [said], positive_class=1, confidence=0.95)
    assert estimate.constraints[0].verdict == "undecided"
    assert estimate.passed
    assert estimate.exit_code == 0
    assert not estimate.all_met(decide="confident")
    confident = make_report(tied, [said], positive_class=1, confidence=0.95, decide="confident")
    assert confident.exit_code == 1
    assert "NOT PASSED" in str(confident)
    assert "undecided, est. met" in str(confident)
    with pytest.raises(DataError, match='decide must be "estimate" or "confident"'):
        make_report(tied, [said], positive_class=1, decide="maybe")
    with pytest.raises(DataError, match="needs a confidence"):
        make_report(tied, [said], positive_class=1, decide="confident")
    with pytest.raises(DataError, match="has no intervals"):
        make_report(tied, [said], positive_class=1).all_met(decide="confident")


def test_simultaneous_level():
    report = full_report()
    assert report.simultaneous_confidence == pytest.approx(0.85)
    assert "all hold together with 85%" in str(report)
    assert full_report(confidence=None).simultaneous_confidence is None


def test_dropped_constraints_and_notes_are_listed():
    goal = Goal(
        None, [recall() >= 0.1, (positive_rate() >= 0.1).with_options(min_rows=201, on_small="drop").named("tiny")]
    )
    with pytest.warns(GoalWarning):
        tied, y = tied_goal_of(goal)
    report = make_report(tied, [y], positive_class=1, notes=["a note"])
    assert "Dropped: tiny: positive_rate() is measured on 200 rows" in str(report)
    assert "Note: a note" in str(report)
    assert "1 rule is not measured, as all constraints of it were dropped: 'tiny'. Give" in report.cautions[-1]
    assert report == GoalReport.from_dict(json.loads(json.dumps(report.to_dict())))


def test_external_rows_are_in_the_headline():
    traffic = Population.external("traffic")
    tied, y = tied_goal_of(
        Goal(None, churn("old", on=traffic) <= 0.9), external={"traffic": External(None, old=[0, 1])}
    )
    report = make_report(tied, [y, np.array([0, 1])], positive_class=1)
    assert "(200 rows, external traffic: 2)" in str(report)


def test_round_trip():
    report = full_report()
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert GoalReport.from_dict(plain) == report
    with pytest.raises(DataError, match="format 99 cannot be read; this version reads format 3"):
        GoalReport.from_dict({**plain, "format": 99})
    for broken in ({}, {"format": 1}, {**plain, "extra": 1}, {**plain, "constraints": [{"label": "x"}]}):
        with pytest.raises(DataError):
            GoalReport.from_dict(broken)


def test_frame():
    frame = full_report().to_frame()
    assert list(frame.index) == ["fair", "#2", "p"]
    assert {"rate", "bound", "slack", "verdict", "lower", "upper", "multiplier", "ramp_rate"} <= set(frame.columns)
    assert frame.loc["p", "rate"] == full_report()["p"].rate
    empty = make_report(tied_goal_of(Goal())[0], [np.zeros(200)], positive_class=1)
    assert len(empty.to_frame()) == 0
    assert "No constraints." in str(empty)
    assert empty.passed
    assert "<table" not in empty._repr_html_()


def test_a_frame_without_pandas_is_a_clear_error(monkeypatch):
    report = full_report()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'widemargin\[frame\]'"):
        report.to_frame()


def named_report(name, verdict="met"):
    item = ConstraintReport(name, name, ">=", 0.5, 0.4, 0.1, True, verdict, 10, 1)
    return GoalReport(
        name, name, 10, name, name, 0.25, (item,), external_rows=((name, 3),), status=name, certificate=name,
        dropped=(Dropped(name, name, name),), notes=(name,),
    )  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_html_escapes_every_name(name):
    page = named_report(name)._repr_html_()
    texts = re.sub(r"</?(div|p|strong|table|thead|tbody|tr|th|td)( [^<>]*)?>", "", page)
    assert "<" not in texts
    assert ">" not in texts
    assert "title=" not in page
    assert "<p></p>" not in page


@given(st.text(min_size=1, max_size=300), st.sampled_from(["met", "not met", "undecided", "undefined"]))
def test_any_name_keeps_the_text_in_shape_and_round_trips(name, verdict):
    report = named_report(name, verdict)
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 100
    assert all(line.isprintable() for line in lines)
    assert "<script" not in report._repr_html_().lower()
    assert GoalReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_a_full_html_table():
    report = full_report()
    assert report._repr_html_().count("<tr") == 4 + 1 + len(report.groups)
    page = dataclasses.replace(report, groups=())._repr_html_()
    assert page.count("<tr") == 4
    assert page.count("<th>") == page.count("<td>") / 3
    assert "Positive class: &#x27;&gt;50K&#x27;" in page
    assert "<th>definition</th>" in page
    for item in full_report().constraints:  # on paper there are no tooltips
        assert f"<td>{html.escape(item.text)}  [" in page
    assert "<p></p>" not in page


def test_numpy_labels_become_plain():
    tied, y = tied_goal_of(Goal())
    assert make_report(tied, [y], positive_class=np.int64(1)).positive_class == 1
    assert type(make_report(tied, [y], positive_class=np.str_("a")).positive_class) is str
    assert make_report(tied, [y], positive_class=None).positive_class == "None"


def bundle_items(number, **changes):
    """Pairs of one bundle with slack 0.01, 0.02, ..., the largest first."""
    plain = {"sense": ">=", "rate": 0.5, "bound": 0.4, "met": True, "verdict": "met", "n_rows": 9, "n_missing": 0}
    return [
        ConstraintReport(
            **{
                "label": f'equal_opportunity(race): "African-American" >= 0.8 * "one of many values {j}"',
                "text": f"recall(a) >= 0.8 * recall(v{j})",
                "slack": 0.01 * (number - j),
                "n_populations": 2,
                "bundle": "equal_opportunity(race, ratio=0.8)",
                **plain,
                **changes.get(f"item{j}", {}),
            }
        )
        for j in range(number)
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [("positive_rate(a) / positive_rate(b) >= 0.8", "positive_rate(b) / positive_rate(a) >= 0.8"),
     ("recall(a) >= 0.8 * recall(b)", "recall(b) >= 0.8 * recall(a)")],
)  # fmt: skip
def test_two_rates_compared_both_ways_round_are_one_rule_shown_by_the_worse_way(one, other):
    table = pa.table({"g": ["a", "b"] * 100})
    rng = np.random.default_rng(0)
    y, said = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    text = f'a = population(g == "a")\nb = population(g == "b")\nsubject to x: {one}\nsubject to y: {other}\n'
    report = audit(said, text + "subject to z: recall() >= 0.1", y=y, populations=table, pos_label=1)
    worse, better = sorted("xy", key=lambda label: report[label].as_ratio().slack)
    shown, (line,) = worst_pairs(report.constraints)
    assert [item.label for item in shown.values()] == [worse, "z"]
    assert line.startswith(f"... {better}, the same the other way round: {report[better].as_ratio().rate:.4f}, ")
    assert "(1 of 2 rules)" in str(report) or "(2 of 2 rules)" in str(report)
    assert both_ways_round(one) == both_ways_round(other) != both_ways_round(one.replace("0.8", "0.9"))
    assert both_ways_round("recall(a) - recall(b) <= 0.1") is None


def of_items(items, **options):
    return GoalReport(1, "the data", 99, "", "error_rate()", 0.25, tuple(items), **options)


def test_long_labels_are_numbers_explained_below():
    report = of_items(
        [*bundle_items(3), ConstraintReport("floor", "recall() >= 0.1", ">=", 0.5, 0.1, 0.4, True, "met", 9, 0)]
    )
    lines = str(report).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("constraint"))
    assert [line.split()[0] for line in lines[start + 1 : start + 3]] == ["#3", "floor"]
    text = " ".join(str(report).split())
    label = 'equal_opportunity(race): "African-American" >= 0.8 * "one of many values 2"'
    assert f"#3 {label}: recall(a) >= 0.8 * recall(v2) [smallest population: 9 rows]" in text
    assert "floor: recall() >= 0.1 [9 rows]" in text


@pytest.mark.parametrize("asked", ["difference=0.3", "ratio=0.2"])
def test_two_groups_both_ways_are_one_row_that_names_the_worse(asked):
    y, table = np.arange(400) % 2, pd.DataFrame({"g": np.repeat(["a", "b"], 200)})
    said = np.concatenate([np.arange(200) < 120, np.arange(200) < 100]).astype(int)
    report = audit(said, f"subject to demographic_parity(g, {asked})", y=y, populations=table)
    one, other = report.constraints
    worse, better = (one, other) if one.slack < other.slack else (other, one)
    text = " ".join(str(report).split())
    assert worse.text in text and better.text not in text and "more pair" not in text
    assert "2 of 2 constraints (1 of 1 rules) met" in text and len(report.to_frame()) == 2
    assert ('demographic_parity(g): "b" / "a"' in text) == ("ratio" in asked)


def test_ratio_rules_are_shown_as_ratios_whichever_side_they_stand_on():
    y, table = np.arange(400) % 2, pd.DataFrame({"g": np.repeat(["a", "b"], 200)})
    said = np.concatenate([np.arange(200) < 100, np.arange(200) < 80]).astype(int)
    text = """
    a = population(g == "a")
    b = population(g == "b")
    subject to fair: positive_rate(b) >= 0.7 * positive_rate(a)
    subject to turned: 0.7 * positive_rate(a) <= positive_rate(b)
    subject to cap: positive_rate(a) <= 1.5 * positive_rate(b)
    subject to quotient: positive_rate(b) / positive_rate(a) >= 0.7
    subject to plain: recall() >= 0.1
    """
    report = audit(said, text, y=y, populations=table)
    lines = str(report).splitlines()
    for name, numbers in {
        "fair": ["0.8000", ">=", "0.7000", "+0.1000"], "turned": ["0.8000", ">=", "0.7000", "+0.1000"],
        "cap": ["1.2500", "<=", "1.5000", "+0.2500"], "quotient": ["0.8000", ">=", "0.7000", "+0.1000"],
    }.items():  # fmt: skip
        assert next(line for line in lines if line.startswith(f"{name} ")).split()[1:5] == numbers
        kept = report[name].as_ratio()
        assert kept.interval.lower < kept.slack < kept.interval.upper and kept.met
        # The interval of a quotient is found otherwise; those of factors must lie close to it.
        if name in ("fair", "turned"):
            other = report["quotient"].interval
            np.testing.assert_allclose(
                [kept.interval.lower, kept.interval.upper], [other.lower, other.upper], atol=0.03
            )
    assert "fair: positive_rate(b) >= 0.7 * positive_rate(a) [0.4 / 0.5; smallest population: 200 rows]" in " ".join(
        str(report).split()
    )
    assert report["plain"].as_ratio() == report["plain"] and report["quotient"].as_ratio() == report["quotient"]
    assert GoalReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_ramp_and_multiplier_of_a_ratio_rule_are_in_its_units():
    plain = ConstraintReport(
        "fair", "", ">=", 0.4, 0.35, 0.05, True, "met", 9, 0, 0.2, -0.08, 2.0, factor=0.7, factor_sense=">="
    )
    shown = plain.as_ratio()  # of 0.4 / 0.5, and 0.2 / 0.4 for the ramp
    found = (shown.rate, shown.slack, shown.ramp_rate, shown.ramp_slack, shown.multiplier)
    np.testing.assert_allclose(found, [0.8, 0.1, 0.5, -0.2, 1.0])
    nobody = dataclasses.replace(plain, rate=0.0, bound=0.0, slack=0.0).as_ratio()
    assert nobody.rate is None and nobody.bound == 0.7 and nobody.met


def test_few_rows_are_said_with_what_to_do():
    y, sex = np.tile([0, 1], 100), np.repeat(["f", "m"], [20, 180])
    goal = 'subject to recall(population(sex == "{}")) >= 0.1'
    few = audit(y, goal.format("f"), y=y, populations=pd.DataFrame({"sex": sex}))
    assert few.cautions[-1].startswith("1 constraint is measured on fewer than 30 rows, '#1' on 10:")
    assert "min_rows = 30" in str(few)
    assert audit(y, goal.format("m"), y=y, populations=pd.DataFrame({"sex": sex})).cautions == ()


def test_large_bundles_show_the_worst_pair_first_and_count_the_others():
    report = of_items(bundle_items(15))
    lines = str(report).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("constraint"))
    assert lines[start + 1].startswith("#15")
    assert lines[start + 2].startswith("... 14 more pairs of equal_opportunity(race, ratio=0.8): 14 met; all in ")
    assert "recall(v0)" not in str(report)
    assert len(report.to_frame()) == 15
    assert report._repr_html_().count("<tr style") == 1
    assert "more pair" not in str(of_items(bundle_items(1)))
    assert "1 more pair of " in str(of_items(bundle_items(2)))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"met": False, "verdict": "not met", "slack": -0.1}, "not met"),
        ({"verdict": "undecided"}, "undecided"),
        ({"met": False, "verdict": "undefined", "slack": None, "rate": None}, "undefined"),
        ({"ramp_rate": 0.3, "ramp_slack": -0.01}, "missed by the ramp"),
    ],
)
def test_of_pairs_that_are_not_met_three_are_shown_and_the_others_counted(change, word):
    text = " ".join(str(of_items(bundle_items(15, **{f"item{j}": change for j in range(8)}))).split())
    assert text.count("[smallest population") == 3
    assert f"8 {word}" in text or f"7 {word}" in text or f"6 {word}" in text or f"5 {word}" in text
    assert "12 more pairs" in text
    one = str(of_items(bundle_items(15, item0=change)))
    assert "recall(v0)" in one and word not in one.partition("...")[2].splitlines()[0]


def test_of_two_groups_both_ways_the_one_that_the_ramp_misses_is_shown():
    plain = ConstraintReport("b: x <= 0.2 + y", "", "<=", 0.0, 0.2, 0.2, True, "met", 9, 0, 0.0, 0.2, bundle="b")
    turned = dataclasses.replace(plain, label="b: y <= 0.2 + x", slack=0.3, ramp_slack=-0.1, ramp_rate=0.3)
    shown, left_out = worst_pairs([plain, turned])
    assert [*shown] == [1] and left_out == []


def test_no_simultaneous_level_without_an_interval():
    tied, y = tied_goal_of(Goal(None, precision() >= 0.1))
    assert "Bonferroni" not in str(make_report(tied, [np.zeros(len(y))], positive_class=1, confidence=0.9))
    assert "Bonferroni" in str(make_report(tied, [np.ones(len(y))], positive_class=1, confidence=0.9))


def test_multipliers_hold_for_small_changes_only():
    assert "small changes only" in " ".join(str(full_report()).split())


def test_drops_are_joined_by_population():
    items = tuple(Dropped(f"l{j}", "t", "a sentence", "race == 'Asian' (9 rows < min_rows 30)") for j in range(10))
    text = str(of_items([], dropped=(*items, Dropped("tiny", "t", "a sentence"))))
    assert text.count("Dropped:") == 2
    assert "Dropped: race == 'Asian' (9 rows < min_rows 30): 10 constraints dropped." in text
    assert "Dropped: tiny: a sentence." in text
    old = {**of_items([]).to_dict(), "dropped": [{"label": "l", "text": "t", "reason": "r"}]}
    assert GoalReport.from_dict(old).dropped == (Dropped("l", "t", "r"),)
