"""The README of this package: its examples run, and it names every system."""

import contextlib
import io
import re
import warnings
from pathlib import Path

from widemargin.exceptions import MarginConvergenceWarning
from widemargin_papers import baselines
from widemargin_papers.solvers.label_searches import SEARCHES

README = Path(__file__).parents[1] / "README.md"


def test_every_example_runs_and_prints_what_it_shows():
    names, printed = {}, ""
    for language, text in re.findall(r"^```(python|text)\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL):
        if language == "text":
            assert printed == text
            continue
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), warnings.catch_warnings():
            warnings.simplefilter("ignore", MarginConvergenceWarning)  # few passes, on purpose
            exec(text, names)
        printed = shown.getvalue()


def test_every_system_has_an_example():
    text = README.read_text()
    classes = [name for name in baselines.__all__ if isinstance(getattr(baselines, name), type)]
    assert [name for name in classes if name not in text] == []
    assert [name for name in SEARCHES if f'"{name}"' not in text] == []
