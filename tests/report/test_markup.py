"""Nothing that data say becomes markup."""

import json

import pytest

from widemargin.report.markup import Html, element, embedded_json, fingerprint, joined


def test_texts_and_values_are_escaped_and_html_is_kept():
    made = element("p", "<b>&\"'", element("b", 1), None, class_='a"><b>', hidden=True, title=None, for_=False)
    assert made == ('<p class="a&quot;&gt;&lt;b&gt;" hidden>&lt;b&gt;&amp;&quot;&#x27;<b>1</b></p>')
    assert isinstance(made, Html)
    assert joined("<", Html("<br>")) == "&lt;<br>"


def test_void_elements_and_names_of_attributes():
    assert element("input", type="range", aria_label="x", max=3) == '<input type="range" aria-label="x" max="3">'
    assert element("line", x1=0.123456789, stroke_width=2) == '<line x1="0.123457" stroke-width="2"/>'
    assert element("svg", view_box="0 0 1 1") == '<svg viewBox="0 0 1 1"></svg>'


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\u202e", "\u2066", "\u2028", "\ud800"])
def test_control_characters_are_replaced(character):
    assert element("p", f"a{character}b", title=character) == '<p title="\ufffd">a\ufffdb</p>'


def test_spaces_stay_and_lines_become_spaces():
    assert element("p", "a\nb\tc\u00a0d\u202fe") == "<p>a b c\u00a0d\u202fe</p>"


def test_data_cannot_leave_their_block():
    hostile = {"</script><!--": ["<script>", "&lt;", "\u2028\u2029", 'x"y', None, 1.5]}
    block = embedded_json(hostile, "d")
    inside = block.removeprefix('<script type="application/json" id="d">').removesuffix("</script>")
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == hostile
    with pytest.raises(ValueError, match="JSON"):
        embedded_json(float("nan"), "d")


def test_a_fingerprint_is_that_of_browsers():
    # from the W3C's Content Security Policy Level 2, section 7.17.1
    assert fingerprint("alert('Hello, world.');") == "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
