"""Rules on the page: one line each, ratios as ratios, of a bundle the worst pair; the goal stands there once."""

import json

import numpy as np
import pandas as pd
import pytest
from testing.report_pages import PageReader

from widemargin import audit
from widemargin.goals import Goal
from widemargin.report import html_report
from widemargin.report.content import shown_rules
from widemargin.report.words import Unit

GROUPS = {"a": 0.5, "b": 0.4, "c": 0.25}
TEXT = """
a = population(g == "a")
b = population(g == "b")
minimize error_rate()
subject to fair: positive_rate(b) >= 0.7 * positive_rate(a)
subject to turned: 0.7 * positive_rate(a) <= positive_rate(b)
subject to quotient: positive_rate(b) / positive_rate(a) >= 0.7
subject to parity: demographic_parity(g, ratio=0.6)
subject to close: demographic_parity(g, difference=0.1)
subject to floor: recall() >= 0.1
"""


def page(text=TEXT):
    table = pd.DataFrame({"g": np.repeat([*GROUPS], 100)})
    said = np.concatenate([np.arange(100) < 100 * share for share in GROUPS.values()]).astype(int)
    return html_report(said, text, y=1 - said, populations=table)


def test_every_rule_has_one_line_in_its_own_units():
    content = page().content
    rules = {rule.name: rule for rule in shown_rules(content, content.report)}
    assert [*rules] == ["fair", "turned", "quotient", "parity", "close", "floor"]
    for name in ("fair", "turned", "quotient"):
        worst = rules[name].worst
        assert (worst.rate, worst.bound, worst.sense) == (pytest.approx(0.8), pytest.approx(0.7), ">=")
        assert (worst.slack, worst.met) == (pytest.approx(0.1), True)
        assert rules[name].sides == "40\xa0% / 50\xa0%"
    parity, close = rules["parity"], rules["close"]
    assert (parity.worst.rate, parity.sides) == (pytest.approx(0.5), "25\xa0% / 50\xa0%")
    assert (parity.n_pairs, parity.pair, parity.passes) == (3, "“c” beside “a”", False)
    assert (close.worst.rate, close.worst.bound, close.sides) == (pytest.approx(0.25), pytest.approx(0.1), "")
    assert {name: rule.unit for name, rule in rules.items() if rule.unit is not Unit.SHARE} == {"close": Unit.POINTS}


def test_the_interval_is_on_the_same_side_as_that_of_the_audit():
    content = page().content
    by_label = {item.label: item for item in content.report.constraints}
    for rule in shown_rules(content, content.report):
        if rule.name in by_label:
            shown, measured = rule.worst.interval, by_label[rule.name].interval
            assert (shown.lower >= 0.0, shown.upper >= 0.0) == (measured.lower >= 0.0, measured.upper >= 0.0)


def test_rules_are_counted_not_their_pairs_and_said_once():
    report = page()
    text = PageReader(report.text).text
    assert "Goal NOT met: 3 of 6 rules are kept by the estimate." in text
    assert "The worst of 3 pairs: “c” beside “a”." in text
    assert text.count("must be at least 70\xa0% of the share of “a”") == 1 + 1  # of `fair` and of `quotient`


def test_a_rate_of_zero_is_undefined_as_a_ratio():
    table = pd.DataFrame({"g": np.repeat([*GROUPS], 100)})
    report = html_report(np.zeros(300, int), TEXT, y=np.arange(300) % 2, populations=table, pos_label=1)
    rules = {rule.name: rule for rule in shown_rules(report.content, report.content.report)}
    assert rules["fair"].worst.rate is None and not rules["fair"].passes
    assert "Undefined on these rows" in report.text


@pytest.mark.parametrize(("rule", "factor"), [
    ("recall() >= 0.5", None), ("2 * recall() >= 3 * error_rate()", None), ("recall() >= error_rate() + 0.1", None),
    ("recall() - error_rate() >= 0.1", None), ("recall() <= 1.5 * error_rate()", (1.5, True, False)),
])  # fmt: skip
def test_which_rules_compare_two_rates_by_a_factor(rule, factor):
    (entry,) = Goal.parse(f"subject to {rule}").constraints
    assert entry.factor == factor


def test_a_group_is_called_as_the_user_calls_it():
    table = pd.DataFrame({"g": np.repeat([*GROUPS], 100)})
    report = audit(np.arange(300) % 2, TEXT, y=np.arange(300) % 2, populations=table)
    assert [item.name for item in report.groups][1:3] == ["a", "b"]
    assert json.loads(json.dumps(report.to_dict()))["groups"][1]["name"] == "a"
