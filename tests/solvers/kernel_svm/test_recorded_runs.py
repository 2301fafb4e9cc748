"""Looks on a schedule of kernel evaluations."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from testing.kernel_svms import data, exact, problem

from widemargin.exceptions import CapabilityError
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm import smo
from widemargin.solvers.kernel_svm.certificate import KernelRecorder, Schedule
from widemargin.solvers.kernel_svm.dual import nested as nested_dual
from widemargin.solvers.kernel_svm.dual import spatial as spatial_dual
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.dual.nested import NestedOptions
from widemargin.solvers.kernel_svm.dual.spatial import SpatialOptions
from widemargin.solvers.kernel_svm.dual.working_set import WorkingSetOptions
from widemargin_papers.solvers import kernel_sdca


def test_looks_are_due_as_the_work_grows_by_the_ratio():
    p = problem(*data(0, 50))
    p.rows.block(slice(0, 7))  # work of others does not count
    told = []
    recorder = KernelRecorder(p, "name", Budget(callbacks=(told.append,)), 1e-3)
    scores, looks = np.zeros(50), []
    for _ in range(60):
        if recorder.due(len(looks)):
            looks.append(recorder.work)
            assert not recorder.watch(len(looks), scores, scores, 0.0, {"primal": 4.0, "dual": 3.0, "violation": 0.5})
        p.rows.block(slice(0, 1))
    assert looks[:2] == [0, 50]
    assert all(later >= Schedule.ratio * before for before, later in pairwise(looks))
    assert len(looks) < 40
    assert recorder.history[-1] == {
        "iteration": len(looks), "evaluations": looks[-1] + 350.0, "primal": 4.0, "dual": 3.0, "violation": 0.5,
        "seconds": recorder.history[-1]["seconds"],
    }  # fmt: skip
    assert (told[-1].stage, told[-1].gap, told[-1].violation) == ("name", 0.25, 0.5)


def test_looks_are_due_by_iterations_where_nothing_is_computed():
    p = problem(*data(0, 50))
    recorder, looks = KernelRecorder(p, "name", Budget(), 1e-3), []
    recorder.watch(0, np.zeros(50), np.zeros(50), 0.0, {})
    for iteration in range(1000):
        p.rows.block(slice(0, 1), slice(0, 0))
        if iteration > 0 and recorder.work == 0 and recorder.due(iteration):
            recorder.watch(iteration, np.zeros(50), np.zeros(50), 0.0, {})
            looks.append(iteration)
    assert looks[0] == 1  # no work is not less than the ratio times no work
    assert len(looks) > 5


def test_rows_held_out_are_judged_in_every_look_and_end_the_run_only_without_a_tolerance():
    X, y = data(1, 90)
    p = problem(X, y, np.where(np.arange(90) < 30, 0.0, 1.0))
    scores = np.where(np.arange(90) % 3 == 0, -y, y).astype(float)
    for tol in (1e-3, None):
        recorder, ends = KernelRecorder(p, "name", Budget(), tol), []
        for _ in range(200):
            ends.append(recorder.watch(0, scores, scores, 0.0, {}))
            p.rows.block(slice(0, 1))
        assert recorder.history[-1]["held_out_error"] == pytest.approx(1 / 3)
        assert any(ends) == (tol is None)
    assert not any(ends[:60])  # the head start
    with pytest.raises(CapabilityError, match="hold some out"):
        KernelRecorder(problem(X, y), "name", Budget(), None)


@pytest.mark.parametrize(("fit_intercept", "rough"), [(True, 1.0), (False, 0.5)])
def test_rough_iterates_are_not_judged(fit_intercept, rough):
    X, y = data(1, 90)
    p = problem(X, y, np.where(np.arange(90) < 30, 0.0, 1.0), fit_intercept=fit_intercept)
    recorder = KernelRecorder(p, "name", Budget(), None)
    for _ in range(200):
        assert not recorder.watch(0, y, y, 0.0, {"violation": 1.01 * rough})
        p.rows.block(slice(0, 1))
    assert recorder.rule.best is None and "held_out_error" in recorder.history[-1]
    recorder.watch(0, y, y, 0.0, {"violation": rough})
    assert recorder.rule.best is not None


def test_steps_from_cached_rows_are_work_too():
    """Two steps for every one before, and not a row is computed."""
    X, y = data(1, 90)
    p = problem(X, y, np.where(np.arange(90) < 30, 0.0, 1.0))
    recorder = KernelRecorder(p, "name", Budget(), None)
    ends = [recorder.watch(iteration, y, y, 0.0, {}) for iteration in (0, 10, 100, 1000, 2000)]
    assert ends == [False, False, False, True, True]


def test_the_best_iterate_is_kept_as_a_copy_and_replaces_worse_ones_only():
    best = KernelRecorder(problem(*data(0, 50)), "name", Budget(), 1e-3)
    coef, scores = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert not best.restore(7.0, coef, scores)  # nothing was looked at
    best.note(coef, scores, {"primal": 5.0, "dual": 1.0})
    best.note(9.0 * coef, scores, {"dual": 2.0})  # no primal
    best.note(9.0 * coef, scores, {"primal": 6.0, "dual": float("nan")})
    assert (best.primal, best.dual) == (5.0, 2.0)
    coef *= 3.0
    assert not best.restore(5.0, coef, scores)
    assert best.restore(5.1, coef, scores)
    np.testing.assert_array_equal(coef, [1.0, 2.0])


SOLVERS = {
    "dual": partial(working_set.solve, options=WorkingSetOptions(size=16)),
    "nested": partial(nested_dual.solve, options=NestedOptions(blocks=WorkingSetOptions(size=16))),
    "spatial": partial(spatial_dual.solve, options=SpatialOptions(cell=32, worst=8, every=1, first=1000)),
    "smo": partial(smo.solve, shrinking=False),
    "sdca": kernel_sdca.solve,
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("how", ["stopped", "interrupted"])
def test_a_run_that_is_cut_short_returns_the_best_model_that_was_looked_at(name, how):
    """At a large C the primal value leaps while the dual one rises."""
    X, y = data(2, 200)
    fit_intercept = name != "sdca"
    optimum, rose = exact(problem(X, y, 1e4, fit_intercept=fit_intercept)), 0
    for last in range(1, 30, 3):
        seen = []

        def end(progress, seen=seen, last=last):
            seen.append(progress)
            if len(seen) == last and how == "interrupted":
                raise KeyboardInterrupt
            return len(seen) >= last

        p = problem(X, y, 1e4, fit_intercept=fit_intercept)
        found = SOLVERS[name](p, tol=1e-6, budget=Budget(callbacks=(end,)))
        assert found.status is (Status.STOPPED if how == "stopped" else Status.INTERRUPTED)
        looks = [entry["primal"] for entry in found.history]
        assert found.primal <= min(looks) * (1 + 1e-12)
        rose += looks[last - 1] > 1.01 * min(looks)
        scores = p.rows.block(slice(None)) @ found.coef
        at = p.values(found.coef, scores, found.intercept)
        assert found.primal == pytest.approx(at.primal, rel=1e-4)
        assert found.violation == pytest.approx(at.violation, rel=1e-3, abs=1e-6)
        assert at.dual * (1 - 1e-4) <= found.dual <= optimum * (1 + 1e-6) <= found.primal * (1 + 1e-5)
    assert rose > 0  # else the last one would have passed
