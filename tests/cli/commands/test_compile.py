"""`widemargin compile`: the loops are there before the first fit."""

import json
import os
import subprocess
import sys

import pytest

from widemargin.cli.commands.compile import ESTIMATORS, made_estimator, made_rows
from widemargin.cli.main import main


def test_what_is_compiled_ahead_is_not_compiled_again(tmp_path):
    """In new processes, with a cache of their own: the second one only reads."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    files = []
    for _ in range(2):
        command = [sys.executable, "-m", "widemargin", "compile", "KernelPerceptron", "--json"]
        made = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
        assert made["folder"] == str(tmp_path) and [*made["seconds"]] == ["KernelPerceptron"]
        files.append({path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")})
    assert files[0] and files[0] == files[1]


def test_an_unknown_name_is_refused(capsys):
    assert main(["compile", "SVC"]) == 2
    assert "'SVC': no such estimator. Name some of RateConstrainedClassifier" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::widemargin.exceptions.MarginConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_are_of_the_kind_that_the_estimator_takes(name):
    """Every name is public, and none of the fits fails."""
    X, y = made_rows(name, 20)[0]
    model = made_estimator(name)
    assert len(model.fit(X, y).predict(X)) == len(y)
