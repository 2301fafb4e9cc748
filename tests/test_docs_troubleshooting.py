"""The page of messages knows every class of error and warning, and quotes messages that exist."""

import re
from pathlib import Path

from widemargin import exceptions

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text()


def heads():
    """The quoted messages of the page: what stands in backquotes in the bold lines that name a class."""
    for line in re.findall(r"^\*\*`.*`\*\*.*\(`\w+`.*\)$", TEXT, re.MULTILINE):
        yield from re.findall(r"`([^`]*)`", line.rpartition("**")[0])


def test_every_class_is_on_the_page():
    named = set(re.findall(r"`(\w+)`", TEXT))
    assert set(exceptions.__all__) - named == set()


def test_no_class_is_on_the_page_that_is_gone():
    named = set(re.findall(r"`(\w+(?:Error|Warning))`", TEXT))
    assert named - set(exceptions.__all__) - {"ValueError"} == set()


def test_quoted_messages_are_in_the_sources():
    sources = "\n".join(path.read_text() for path in sorted((ROOT / "src" / "widemargin").rglob("*.py")))
    joined = re.sub(r'"\s*\n\s*f?"', "", sources)  # strings that go on in the next line
    found = list(heads())
    assert len(found) > 15
    missing = []
    for head in found:
        # Between what is filled in: dots, numbers, and names in quotes.
        parts = re.split(r"\.\.\.|\d[\d.e+%]*|'[^']*'", head)
        longest = max((part.strip(" :;,()") for part in parts), key=len)
        assert len(longest) > 6, head
        missing.append(head) if longest not in joined else None
    assert missing == []
