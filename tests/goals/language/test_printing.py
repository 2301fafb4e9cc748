"""Names, literals and numbers as they stand in texts."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing.goal_strategies import names

from widemargin.goals.language.values import (
    column_text,
    interval_text,
    is_plain_name,
    list_text,
    literal_text,
    name_text,
    number_text,
    quoted,
)


@given(st.text(st.characters()))
def test_quoted_text_is_one_printable_line_and_reads_back(text):
    written = quoted(text)
    assert written.isprintable()
    assert ast.literal_eval(written) == text


@given(st.text(st.characters()))
def test_single_quotes_leave_double_ones_alone(text):
    written = quoted(text, mark="'")
    assert ast.literal_eval(written) == text
    assert written.count('"') == text.count('"')


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('a"b', r'"a\"b"'),
        ("a\\", r'"a\\"'),
        ("a\nb\tc\rd", r'"a\nb\tc\rd"'),
        ("\0\x7f", r'"\x00\x7f"'),
        ("\u2028", r'"\u2028"'),
        ("\ud800", r'"\ud800"'),
        ("\U000e0001", r'"\U000e0001"'),
        ("é数😀", '"é数😀"'),
    ],
)
def test_escapes(text, written):
    assert quoted(text) == written


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("women", True),
        ("größe", True),
        ("_", True),
        ("ﬁ", False),  # Python would read it as "fi"
        ("a·b", False),  # an identifier, but not one word for the scanner
        ("a²", False),
        ("a b", False),
        ("True", False),
        ("lambda", False),
        ("3a", False),
        ("", False),
    ],
)
def test_plain_names(name, plain):
    assert is_plain_name(name) is plain
    assert column_text(name) == (name if plain else f"col({quoted(name)})")


def test_words_of_the_grammar_are_quoted():
    assert name_text("women") == "women"
    assert name_text("minimize") == '"minimize"'
    assert name_text("white women") == '"white women"'
    assert column_text(3) == "col(3)"


@given(names)
def test_plain_names_are_what_python_reads(name):
    if is_plain_name(name):
        node = ast.parse(name, mode="eval").body
        assert isinstance(node, ast.Name)
        assert node.id == name


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back_exactly(value):
    assert float(number_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (0.8, "0.8"), (-2.0, "-2"), (1e16, "1e+16"), (0.1 + 0.2, "0.30000000000000004")]
)
def test_numbers_are_short(value, text):
    assert number_text(value) == text


def test_literals():
    assert list_text(["a", 1, 1.0, True, -0.5]) == '["a", 1, 1.0, True, -0.5]'
    assert literal_text("1") == '"1"'


def test_intervals():
    inf = float("inf")
    assert interval_text(0.0, 1.0) == "[0, 1]"
    assert interval_text(0.0, inf) == "[0, inf)"
    assert interval_text(-inf, inf) == "(-inf, inf)"
    assert interval_text(-0.30000000000000004, 1 / 3) == "[-0.3, 0.333333]"
