"""The examples run and show what they promise."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

SHOWN = {
    "audit_logistic_regression": (None, ("Measured on the test rows (16281 rows)", "Female", "precision()")),
    "audit_xgboost": ("xgboost", ("xgboost against deployed", "labels to prove it")),
    "network_on_adult": ("torch", ("Measured on the test rows (16281 rows)", "fair", "recall")),
    "audit_lightgbm": ("lightgbm", ("Measured on the test rows (16281 rows)", "churn")),
}


@pytest.mark.parametrize("name", SHOWN)
def test_examples_run(name, capsys):
    library, texts = SHOWN[name]
    if library is not None:
        pytest.importorskip(library)
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    said = capsys.readouterr().out
    assert all(text in said for text in texts)


@pytest.mark.parametrize("name", [name for name, (library, _) in SHOWN.items() if library])
def test_without_its_library_an_example_says_so(name, monkeypatch, capsys):
    library = SHOWN[name][0]
    monkeypatch.setitem(__import__("sys").modules, library, None)
    monkeypatch.delitem(__import__("sys").modules, "widemargin.torch", raising=False)
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    assert capsys.readouterr().out == f"This example needs {library}: pip install {library}\n"
