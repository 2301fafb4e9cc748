"""Numbers as they are read."""

import pytest

from widemargin.goals import Goal
from widemargin.report.words import Unit, decimals, plain_number, shown, unit_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.6, "60\u00a0%"), (0.641, "64.1\u00a0%"), (0.0064, "0.64\u00a0%"), (0.0, "0\u00a0%"), (-0.05, "−5\u00a0%"),
        (1.25, "125\u00a0%"), (-1e-9, "0.00\u00a0%"), (None, "–"), (float("nan"), "–"), (float("inf"), "–"),
    ],
)  # fmt: skip
def test_shares(value, text):
    assert shown(value, Unit.SHARE) == text


def test_points_signs_and_plain_numbers():
    assert shown(0.012, Unit.SHARE, points=True, sign=True) == "+1.2 points"
    assert shown(-0.012, Unit.SHARE, points=True, sign=True) == "−1.2 points"
    assert shown(-2.5, Unit.NUMBER) == "−2.5"
    assert plain_number(16281) == "16\u202f281"
    assert (decimals(-1.018), decimals(-0.001), decimals(0.5, sign=True)) == ("−1.02", "0.00", "+0.50")


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("recall() >= 0.5", Unit.SHARE),
        ("precision() >= 0.5", Unit.SHARE),
        ("positive_rate() / recall() >= 0.5", Unit.SHARE),
        ("errors() <= 10", Unit.NUMBER),
        ('win_loss_ratio("old") >= 2', Unit.NUMBER),
        ("true_positives() / errors() >= 2", Unit.NUMBER),
        ("demographic_parity(sex, ratio=0.8)", Unit.SHARE),
        ("demographic_parity(sex, difference=0.1)", Unit.POINTS),
        ("recall() - accuracy() <= 0.1", Unit.POINTS),
        ("0.5 * recall() + 0.5 * accuracy() >= 0.1", Unit.SHARE),
        ("recall() >= accuracy() - 0.1", Unit.SHARE),
    ],
)
def test_units_of_constraints(text, unit):
    assert unit_of(Goal.parse(f"subject to {text}").constraints[0]) is unit
