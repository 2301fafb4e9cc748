"""Tokens and statements, and what never gets past them."""

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.exceptions import GoalParseError
from widemargin.goals.language.values import LIMITS
from widemargin.goals.text.parser import excerpt, statements


def test_statements_lines_and_comments():
    parts = statements("a = 1 # one ; not two\n\n  b == 'x;#'; c(\n1,\n\n2)\n# end")
    assert [(statement.text, statement.line) for statement in parts] == [
        ("a = 1", 1),
        ("b == 'x;#'", 3),
        ("c(\n1,\n\n2)", 3),
    ]
    assert [token.text for token in parts[1].tokens] == ["b", "==", "'x;#'"]
    assert parts[0].after(2) == " 1"
    assert parts[0].after(0) == "a = 1"


@pytest.mark.parametrize("text", ["", " ", "\n\n", ";", " ;;\n# nothing", "\t"])
def test_nothing(text):
    assert statements(text) == []


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a<=-1.5e-3", ["name", "operator", "operator", "number"]),
        ("é_1 != 'it\\'s'", ["name", "operator", "string"]),
        (".5 + 5. + 5", ["number", "operator", "number", "operator", "number"]),
        ("a:b", ["name", "operator", "name"]),
        ("'\\x41\\u0041\\U00000041\\n'", ["string"]),
    ],
)
def test_tokens(text, kinds):
    (statement,) = statements(text)
    assert [token.kind for token in statement.tokens] == kinds
    assert all(text[token.start : token.stop] == token.text for token in statement.tokens)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n(\n", "line 2: .*'.' is never closed"),
        ("a\n)", "line 2: .*closes nothing"),
        ("(]", "closes nothing"),
        ("([)]", "closes nothing"),
        ("(;)", "inside brackets"),
        ("'a\nb'", "never closed on its line"),
        ("'\\q'", "escape"),
        ("'\\07'", "escape"),
        ("a\\", "unexpected character"),
        ("a ? b", r"unexpected character '\?'"),
        ("{1}", "unexpected character"),
        ("a ! b", "unexpected character"),
        ("a >= 60%", r"unexpected character '%'\. Write shares as numbers: 0\.6 for 60%"),
        ("\ud800", r"unexpected character '\\ud800'"),
        ("\0", "unexpected character"),
        ("1a", "plain decimal number"),
        ("1if", "plain decimal number"),
        ("1.2.3", "plain decimal number"),
        ("a ** b", r"\*\* is not part"),
        ("a // b", "// is not part"),
        ("a << b", "<< is not part"),
        ("a <> b", "<> is not part"),
        ("a := b", ":= is not part"),
        ("lambda", "'lambda' is not part"),
        ("a if b else c", "'if' is not part"),
        ("yield", "'yield' is not part"),
        ("r'a'", "prefixed"),
        ("'a''b'", "joined"),
        ("'a' \n'b'; 'a' 'b'", "joined"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(GoalParseError, match=message):
        statements(text)


@pytest.mark.parametrize("opened", ["(", "[", "-", "+", "~", "not ", "-(", "[-", "not (", "f(", "1+(", "a*-("])
def test_depth_is_counted_in_brackets_and_prefixes(opened):
    each = sum(character in "([-~" for character in opened) + ("not" in opened) + (opened == "+")
    closing = "".join({"(": ")", "[": "]"}[c] for c in reversed(opened) if c in "([")
    allowed = LIMITS.depth // each
    assert statements(opened * allowed + "a" + closing * allowed)
    with pytest.raises(GoalParseError, match="nested more than 100 deep"):
        statements(opened * (allowed + 1) + "a" + closing * (allowed + 1))


@pytest.mark.parametrize(
    "text", ["a" + " + a" * 500, "a" + " - -a" * 500, "f(a)" + " and not f(-a)" * 300, "f(" + "-1, " * 500 + "1)"]
)
def test_long_is_not_deep(text):
    (statement,) = statements(text)
    assert statement.text == text


def test_errors_are_short_and_on_one_line():
    assert excerpt("a\n  b") == "'a b'"
    assert len(excerpt("x" * 10_000)) <= 122
    with pytest.raises(GoalParseError) as caught:
        statements("a " * 4_000 + "?")
    assert len(str(caught.value)) < 250


_pieces = st.sampled_from(
    [
        "a",
        "1",
        ".5",
        "'s'",
        "(",
        ")",
        "[",
        "]",
        "-",
        "not ",
        "in ",
        "and ",
        "<",
        "<=",
        "==",
        ",",
        ".",
        "=",
        ":",
        "*",
        " ",
        "\n",
        ";",
        "#",
        "&",
        "~",
    ]
)


@given(st.lists(_pieces, max_size=30).map("".join) | st.text(max_size=40))
def test_what_passes_cannot_surprise_pythons_parser(text):
    """Brackets match in every statement, so it cannot leave the call it is wrapped into; and nothing is warned of."""
    try:
        parts = statements(text)
    except GoalParseError:
        return
    for statement in parts:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                tree = ast.parse(f"_({statement.text}\n)", mode="eval").body
            except SyntaxError as error:
                assert not isinstance(error.__context__, Warning)
                continue
        assert isinstance(tree, ast.Call)
        assert isinstance(tree.func, ast.Name)
        assert tree.func.id == "_"
