"""The cards and the movable bounds say the same of the same rule; prices never claim what the path contradicts."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from testing.trade_offs import made_path

from widemargin import RateConstrainedClassifier, tradeoff_path
from widemargin.report import html_report
from widemargin.report.content import shown_rules
from widemargin.report.tradeoff import _shown_rates, price_sentence
from widemargin.report.words import Unit

NAMES = 'w = population(s == "w")\nm = population(s == "m")\nminimize error_rate()\nsubject to floor: recall() >= '
RULES = [
    ("fair: positive_rate(w) >= {} * positive_rate(m)", 0.8, 0.6),
    ("fair: {} * positive_rate(m) <= positive_rate(w)", 0.8, 0.6),
    ("fair: demographic_parity(s, ratio={})", 0.8, 0.6),
    ("fair: demographic_parity(s, difference={})", 0.05, 0.1),
    ("fair: {} >= false_positive_rate()", 0.4, 0.5),
    ("positive_rate(w) >= {} * positive_rate(m)", 0.8, 0.6),
]


@pytest.mark.parametrize(("rule", "asked", "promised"), RULES)
@pytest.mark.parametrize("sweeps_rule", [True, False])
def test_the_movable_bound_says_what_the_cards_say(rule, asked, promised, sweeps_rule):
    rng = np.random.default_rng(3)
    s = rng.choice(["w", "m"], 600)
    X = rng.normal(size=(600, 3)) + 0.5 * (s == "m")[:, None]
    y, table = (X[:, 0] + rng.normal(size=600) > 0.3).astype(int), pa.table({"s": s})
    trained = f"{NAMES}0.7\nsubject to {rule.format(asked)}"
    goal = f"{NAMES}0.6\nsubject to {rule.format(promised)}"
    train, held = np.arange(400), np.arange(400, 600)
    name = ("fair" if rule.startswith("fair") else rule.format(asked)) if sweeps_rule else "floor"
    path = tradeoff_path(
        RateConstrainedClassifier(trained, on_infeasible="warn"), X[train], y[train], constraint=name,
        values=[asked if sweeps_rule else 0.7], populations=table.take(train),
        validation=(X[held], y[held], table.take(held)),
    )  # fmt: skip
    page = html_report(
        path.model(0), goal, X[held], y[held], populations=table.take(held), trained_goal=trained, paths=[path]
    )
    lines, rules = _shown_rates(page.content, path), shown_rules(page.content, page.content.report)
    for (_, unit, rate, bound, kept, sign), card in zip(lines, rules, strict=True):
        item = card.worst
        assert (rate[0], bound[0]) == pytest.approx((item.rate, item.bound)), item.text
        assert (kept[0], unit, unit) == (item.met, card.unit, Unit.POINTS if " - " in item.text else Unit.SHARE)
        assert sign[0] == {">=": "≥", "<=": "≤"}[item.sense]


UNNAMED = [
    "demographic_parity(s, ratio={})",
    "demographic_parity(r, ratio={})",
    "positive_rate(w) >= {} * positive_rate(m)",
]


@pytest.mark.parametrize("swept", UNNAMED)
def test_every_rule_has_a_line_of_its_own_along_the_path_of_any(swept):
    """Rules without a name, two of them of one kind, and a path that does not begin at the bound that was asked for."""
    rng = np.random.default_rng(5)
    table = pa.table({"s": rng.choice(["w", "m"], 500), "r": rng.choice(["a", "b"], 500)})
    X = rng.normal(size=(500, 2))
    y = (X[:, 0] + rng.normal(size=500) > 0.0).astype(int)
    head = 'w = population(s == "w")\nm = population(s == "m")\nminimize error_rate()\n'
    trained, goal = (head + "".join(f"subject to {rule.format(k)}\n" for rule in UNNAMED) for k in (0.85, 0.8))
    train, held = np.arange(300), np.arange(300, 500)
    path = tradeoff_path(
        RateConstrainedClassifier(trained, on_infeasible="warn"), X[train], y[train], constraint=swept.format(0.85),
        values=[0.81, 0.85, 0.89], populations=table.take(train), validation=(X[held], y[held], table.take(held)),
    )  # fmt: skip
    assert path.name == swept.format(0.85)
    page = html_report(
        path.model(1), goal, X[held], y[held], populations=table.take(held), trained_goal=trained, paths=[path]
    )
    lines = _shown_rates(page.content, path)
    assert len(lines) == len(UNNAMED)
    assert all(bound is not None and 0.8 <= bound <= 0.89 for line in lines for bound in line.bound)
    assert "fewer than two points" not in page.text
    # Whether the page's model is the one of the path at its bound is told where both could be compared.
    other = html_report(np.ones(200, int), goal, y=y[held], populations=table.take(held), trained_goal=trained,
                        paths=[path])  # fmt: skip
    assert "trained by itself" in other.text and "trained by itself" not in page.text


def test_two_rates_compared_both_ways_round_have_one_line_the_worse_one():
    rng = np.random.default_rng(5)
    s = rng.choice(["w", "m"], 400)
    X = rng.normal(size=(400, 2)) + 0.3 * (s == "m")[:, None]
    y, table = (X[:, 0] + rng.normal(size=400) > 0.0).astype(int), pa.table({"s": s})
    goal = NAMES + (
        "0.5\nsubject to there: positive_rate(w) / positive_rate(m) >= 0.7\n"
        "subject to back: positive_rate(m) / positive_rate(w) >= 0.7"
    )
    path = tradeoff_path(
        RateConstrainedClassifier(goal), X, y, constraint="floor", values=[0.5, 0.6], populations=table,
        validation=(X, y, table),
    )  # fmt: skip
    page = html_report(path.model(0), goal, X, y, populations=table, paths=[path])
    lines = _shown_rates(page.content, path)
    cards = shown_rules(page.content, page.content.report)
    assert [line.label for line in lines] == ["floor", f"{cards[1].name}, the worse way round"]
    assert lines[1].rate[0] == pytest.approx(cards[1].worst.rate) and lines[1].rate[0] < 1.0


def prices_of(rule, **changes):
    """What the card of a swept rule says its price is."""
    rng = np.random.default_rng(0)
    y, table = rng.integers(0, 2, 80), pa.table({"s": rng.choice(["a", "b"], 80)})
    path = made_path(**changes)
    page = html_report(rng.integers(0, 2, 80), f"subject to parity: {rule}", y=y, populations=table, paths=[path])
    return [price_sentence(page.content, item, Unit.SHARE) for item in page.content.report.constraints]


def test_a_bound_with_slack_has_price_0():
    path = made_path()
    far = dataclasses.replace(path.training, reached=np.full(5, 1.5))
    assert [(price.price, price.standard_error) for price in made_path(training=far).prices()] == [(0.0, 0.0)] * 3
    partly = dataclasses.replace(path.training, reached=np.array([0.45, 0.45, 0.6, 0.8, 1.0]))
    assert [price.price == 0.0 for price in made_path(training=partly).prices()] == [True, False, False]
    ceiling = dataclasses.replace(path.training, reached=np.array([0.1, 0.25, 0.35, 0.4, 0.9]))
    assert [price.price == 0.0 for price in made_path(is_floor=False, training=ceiling).prices()] == [
        False,
        True,
        False,
    ]
    said = "one point more costs nothing: the bound has slack between 20\u00a0% and 100\u00a0%."
    assert prices_of("recall() >= 0.4", training=far) == [said]


@pytest.mark.parametrize("covariance", [1e-9, 1e-2])
def test_a_stricter_bound_is_never_said_to_save(covariance):
    """Held-out rows can show that by chance; a number with that sign would contradict what a bound is."""
    held = made_path().held_out
    falls = dataclasses.replace(held, objective=held.objective[::-1].copy(), covariance=covariance * np.eye(5))
    (text,) = prices_of("recall() >= 0.4", held_out=falls)
    assert "costs nothing that these rows can show" in text
    assert "−" not in text and "saves" not in text
