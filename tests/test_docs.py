"""The documents keep their word: the code they show runs and prints what they say."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from testing.sklearn_versions import FITS_AS_DOCUMENTED

from widemargin.cli.goals_file.reader import read_goals_file
from widemargin.goals.language.linear import METRICS

ROOT = Path(__file__).parents[1]


def blocks(name, language):
    """Code blocks of a document, and the plain block behind each (None where there is none)."""
    text = (ROOT / name).read_text()
    pattern = rf"```{language}\n(.*?)```(?:\n\n(?:[^\n#]+\n\n)?```(?:text)?\n(.*?)```)?"
    return re.findall(pattern, text, re.DOTALL)


DOCUMENTS = (
    "docs/bias-audit.md",
    "docs/extending.md",
    "docs/goal-language.md",
    "docs/ecosystem.md",
    "docs/guide/any-model.md",
    "docs/guide/audit.md",
    "docs/guide/churn.md",
    "docs/guide/embeddings.md",
    "docs/guide/look-at-margins.md",
    "docs/guide/networks.md",
    "docs/guide/recall-floor.md",
    "docs/guide/replace-svc.md",
    "docs/guide/several-classes.md",
    "docs/guide/structured-outputs.md",
    "docs/kernel-svm.md",
    "docs/limits.md",
    "docs/margins.md",
    "docs/report.md",
    "docs/scaling.md",
    "docs/structured.md",
    "docs/theory/batch-perceptron.md",
    "docs/theory/margin-pursuit.md",
    "docs/thresholds.md",
    "README.md",
)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_python_examples_run_and_print_what_is_shown(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    if name.endswith("networks.md"):
        pytest.importorskip("torch")
    found = blocks(name, "python")
    assert found
    for code, shown in found:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(code, name, "exec"), {})
        if shown and FITS_AS_DOCUMENTED:
            # Models are the same on every processor up to a tolerance, and so are the decimals that they print.
            decimals = r"(-?\d+\.\d+(?:e-?\d+)?)"
            parts, wanted = re.split(decimals, said.getvalue()), re.split(decimals, shown)
            assert parts[::2] == wanted[::2]
            np.testing.assert_allclose(np.float64(parts[1::2]), np.float64(wanted[1::2]), rtol=0.03, atol=0.01)


def test_every_metric_is_in_the_table_of_the_language():
    text = (ROOT / "docs/goal-language.md").read_text()
    missing = [name for name in METRICS if f"`{name}" not in text]
    assert not missing


def test_goals_file_of_the_example_is_the_documented_kind():
    keys = re.findall(r"^\| `([a-zA-Z.]+)` \|", (ROOT / "docs/goals-file.md").read_text(), re.MULTILINE)
    assert {"data.table", "goal.text", "model.C"} <= set(keys)
    assert read_goals_file(ROOT / "examples" / "adult.toml").audit_goal is not None
