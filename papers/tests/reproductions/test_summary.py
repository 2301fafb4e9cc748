import pytest

from widemargin_papers.reproductions.summary import markdown, mean_and_sd, number, percent


def test_mean_and_sd_leave_out_what_is_not_defined():
    found = mean_and_sd([[1.0, None, 2.0], [3.0, None, None]])
    assert found["mean"] == [2.0, None, 2.0]
    assert found["sd"][0] == pytest.approx(2**0.5, abs=1e-6)
    assert found["sd"][2] == 0.0


def test_numbers_for_json_are_finite():
    assert number(float("inf")) is None
    assert number(1 / 3) == 0.333333


def test_markdown_table():
    assert markdown(["a", "b"], [[1, "x"]]) == "| a | b |\n|---|---|\n| 1 | x |\n"


def test_a_point_in_percent():
    content = mean_and_sd([[0.1, None], [0.12, None]])
    assert percent(content, 0) == "11.00 ± 1.41"
    assert percent(content, 0, runs=1) == "11.00"
    assert percent(content, 1) == "-"
