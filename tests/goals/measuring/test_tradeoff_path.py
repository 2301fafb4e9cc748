"""What a path says: prices, table, data frame, page."""

import dataclasses
import json
import re
import sys

import numpy as np
import pytest
from testing.trade_offs import made_path

from widemargin.exceptions import DataError
from widemargin.goals.measuring.tradeoff_path import TradeoffPath


def test_prices_are_differences_over_stretches_of_points_that_meet_the_goal() -> None:
    path = made_path()
    assert path.held_out is not None
    prices = path.prices()
    assert [(price.start, price.stop) for price in prices] == [(0.2, 0.4), (0.4, 0.6), (0.6, 1.0)]
    assert [price.price for price in prices] == pytest.approx([0.05, 0.1, 0.175])
    c = path.held_out.covariance
    error = np.sqrt(c[2, 2] + c[4, 4] - 2 * c[2, 4]) / 0.4
    assert prices[2].standard_error == pytest.approx(error)
    (whole,) = path.prices(1)
    assert (whole.start, whole.stop, whole.price) == (0.2, 1.0, pytest.approx(0.125))
    assert path.held_out.difference_error(1, 1) == 0.0


def test_prices_do_not_depend_on_the_order_of_the_sweep() -> None:
    path = made_path()
    assert path.held_out is not None
    same = made_path(values=np.array([0.4, 0.4, 0.6, 0.8, 1.0]))  # a value twice counts once
    assert [(price.start, price.stop) for price in same.prices()] == [(0.4, 0.6), (0.6, 1.0)]
    assert made_path(met=np.array([False, False, True, False, False])).prices() == ()


def test_prices_need_held_out_rows() -> None:
    path = made_path(held_out=False)
    with pytest.raises(DataError, match="validation_fraction"):
        path.prices()
    assert "Price" not in str(path)


def test_table_shows_every_point_and_its_standing() -> None:
    text = str(made_path())
    lines = text.splitlines()
    assert (
        lines[0]
        == "Trade-off of error_rate() against parity: 5 points in 0.25 s, 800 training rows, 200 held-out rows."
    )
    assert sum(bool(re.match(r" *[01]\.?\d* ", line)) for line in lines) == 5
    assert "NOT MET" in text
    assert "met (max_iter)" in text
    assert "0.1100 +- " in text
    assert "0.6 to 1: +0.1750 +- " in text.replace("\n  ", " ")
    assert repr(made_path()) == text
    assert "5 of 9 points" in str(made_path(n_asked=9))


def test_page_escapes_and_colours() -> None:
    page = made_path(name="<b>parity</b>")._repr_html_()
    assert "&lt;b&gt;parity&lt;/b&gt;" in page
    assert "<b>" not in page
    assert page.count("#fce8e6") == 1
    assert page.count("#e6f4ea") == 4


def test_frame_has_a_row_for_each_point() -> None:
    path = made_path()
    frame = path.to_frame()
    assert frame.index.name == "parity"
    np.testing.assert_array_equal(frame.index, path.values)
    np.testing.assert_array_equal(frame["held_out_slack: <floor>"], path.held_out.slack[:, 1])  # type: ignore[union-attr]
    np.testing.assert_array_equal(frame["training_objective"], path.training.objective)
    assert frame["met"].tolist() == path.met.tolist()


def test_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"widemargin\[frame\]"):
        made_path().to_frame()


def test_models_and_length() -> None:
    path = made_path()
    assert len(path) == 5
    assert path.model(2) == "c"


def test_a_path_survives_json_but_for_its_models():
    for held_out in (True, False):
        path = made_path(held_out=held_out)
        plain = json.loads(json.dumps(path.to_dict(), allow_nan=False))
        again = TradeoffPath.from_dict(plain)
        assert again.to_dict() == path.to_dict()
        assert str(again) == str(path)
        if held_out:
            assert again.prices() == path.prices()
            np.testing.assert_array_equal(again.held_out.covariance, path.held_out.covariance)
        with pytest.raises(DataError, match="holds no models"):
            again.model(0)


def test_a_path_without_constraints_survives_json():
    part = made_path().held_out
    names = ("rate", "bound", "slack", "ramp_rate", "ramp_slack", "compared_with", "slack_error")
    empty = {name: np.empty((5, 0)) for name in names}
    part = dataclasses.replace(part, **empty)
    made = made_path(labels=(), floors=np.empty(0, bool), training=part, multipliers=np.empty((5, 0)))
    path = dataclasses.replace(made, held_out=part)
    again = TradeoffPath.from_dict(json.loads(json.dumps(path.to_dict())))
    assert again.held_out.rate.shape == (5, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "something"}, "no stored trade-off path"),
        ({"format": 2}, "format 2 cannot be read"),
        ({"format": True}, "format True cannot be read"),
        ({"values": [0.1, 0.2, 0.3, 0.4]}, "damaged"),
        ({"values": [0.1, 0.2, 0.3, 0.4, None]}, "not all finite"),
        ({"gap": [0.1, 0.2, 0.3, 0.4, "x"]}, "gap holds 'x'"),
        ({"gap": [0.1, 0.2, 0.3, 0.4, 1e400]}, "gap holds inf"),
        ({"met": [1, 0, 1, 1, 1]}, "met is no list"),
        ({"labels": ["a", 3]}, "labels holds"),
        ({"labels": ["a"]}, "damaged"),
        ({"n_asked": 3}, "n_asked is 3"),
        ({"training": None}, "damaged"),
        ({"multipliers": [[1.0, 2.0]] * 4}, "multipliers has the shape"),
    ],
)
def test_damaged_paths_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        TradeoffPath.from_dict(made_path().to_dict() | change)


def test_a_missing_part_is_named_and_a_negative_variance_refused():
    plain = made_path().to_dict()
    del plain["gap"]
    with pytest.raises(DataError, match="has no 'gap'"):
        TradeoffPath.from_dict(plain)
    plain = made_path().to_dict()
    plain["held_out"]["covariance"][1][1] = -1.0
    with pytest.raises(DataError, match="negative variance"):
        TradeoffPath.from_dict(plain)
    with pytest.raises(DataError, match="no stored"):
        TradeoffPath.from_dict([1, 2])
