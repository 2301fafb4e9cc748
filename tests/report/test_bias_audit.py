"""The page and the model card of a bias audit: the numbers of the audit, and no text that breaks out."""

import json

import pytest
from testing.report_pages import HOSTILE, PageReader

from widemargin.diagnostics import local_law_144
from widemargin.report import bias_audit_card, bias_audit_page

ORDINARY = ("F", "M")


def audit(names=ORDINARY):
    sex = [names[0]] * 50 + [names[1]] * 60 + [None] * 10
    return local_law_144([1, 0] * 25 + [1, 1, 0] * 20 + [1] * 10, sex, ["A", "B", "C"] * 40, source=names[0])


def test_the_page_shows_the_numbers_of_the_audit():
    found = audit()
    page = PageReader(bias_audit_page(found).text)
    texts = [text.strip() for _, text in page.texts]
    for item in found.with_ratio:
        assert f"{item.impact_ratio:.3f}" in texts
        assert f"{item.least:.3f} to {item.largest:.3f}" in texts
    assert len(page.of("svg")) == 6 and all(attributes["aria-label"] for attributes in page.of("svg"))
    assert "Not every impact ratio is at least four fifths." in bias_audit_page(found).text


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_break_out(name):
    ordinary, hostile = (bias_audit_page(audit(names)) for names in (ORDINARY, (name, "M")))
    tags = [[tag for tag, _ in PageReader(page.text).elements] for page in (ordinary, hostile)]
    assert tags[0] == tags[1]
    head, _, text = bias_audit_card(audit((name, "M")), model_name=name).partition("\n---\n")
    assert json.loads(head.removeprefix("---\nmodel-index: "))[0]["name"] == name
    assert "<img" not in text.replace("\\<", "") and "<script" not in text.replace("\\<", "")
