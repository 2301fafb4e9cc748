"""Runs that are killed and go on: the same bits, and no file that is not what it says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from testing.blocked import ForgetfulMap, StoppedError, blocked
from testing.ramp_problems import random_ramp_problem

from widemargin.exceptions import CheckpointError
from widemargin.problems.rate_constrained import RateConstrainedProblem
from widemargin.solvers.convex.checkpoints import Remembered
from widemargin.solvers.convex.newton import solve
from widemargin.solvers.ramp.majorization import RampResult, minimise_ramp


def run(over: RateConstrainedProblem, path: Path | None, **options: Any) -> RampResult:
    return minimise_ramp(over, Remembered(solve, path, **options))


def test_a_run_killed_anywhere_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    problem, _, _ = random_ramp_problem(4, 150, 4, 2)
    whole = blocked(problem, 40, ForgetfulMap)
    expected = run(whole, None)
    path, kills, found = tmp_path / "run.json", 0, None
    while found is None:
        over = blocked(problem, 40, ForgetfulMap)
        over.rows.blocks.stop_after = 30 + 40 * kills
        try:
            found = run(over, path, resume=True)
        except StoppedError:
            kills += 1
    assert kills >= 2
    assert np.array_equal(found.w, expected.w)
    assert (found.b, found.n_iter, found.subproblem.gap) == (expected.b, expected.n_iter, expected.subproblem.gap)
    assert over.rows.blocks.n_calls < whole.rows.blocks.n_calls  # it did not begin anew


def test_without_resume_the_file_is_written_anew(tmp_path: Path) -> None:
    problem, _, _ = random_ramp_problem(4, 80, 3, 1)
    path = tmp_path / "run.json"
    path.write_text("nonsense")
    run(blocked(problem, 40), path)
    again = blocked(problem, 40)
    run(again, path, resume=True)
    assert again.rows.n_passes < 10


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    problem, _, _ = random_ramp_problem(4, 80, 3, 1)
    path = tmp_path / "run.json"
    run(blocked(problem, 40), path)
    with pytest.raises(CheckpointError, match=r"convex step 1 of .* was one of other rows"):
        run(blocked(replace(problem, lam=1.0), 40), path, resume=True)
    text = path.read_text()
    for damaged in (text[:-20], "", "[]", json.dumps(json.loads(text) | {"run": "[]"}), '{"format": 7}'):
        path.write_text(damaged)
        with pytest.raises(CheckpointError, match="without resume"):
            run(blocked(problem, 40), path, resume=True)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    problem, _, _ = random_ramp_problem(4, 80, 3, 1)
    with pytest.raises(CheckpointError, match="Check the folder"):
        run(blocked(problem, 40), tmp_path / "nowhere" / "run.json")


def test_problems_in_memory_pass_through(tmp_path: Path) -> None:
    problem, _, _ = random_ramp_problem(4, 80, 3, 1)
    convex = Remembered(solve, tmp_path / "run.json")
    assert minimise_ramp(problem, convex).objective == minimise_ramp(problem, solve).objective
    assert not (tmp_path / "run.json").exists()
