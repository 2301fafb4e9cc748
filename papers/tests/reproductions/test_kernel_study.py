"""The rows that are counted, the reference, and curves on a grid."""

import numpy as np
import pytest
from sklearn.svm import SVC

from widemargin.solvers.kernel_svm import smo
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin_papers.reproductions import kernel_study as study
from widemargin_papers.solvers import kernel_sdca


@pytest.fixture(scope="module")
def task():
    return study.drawn_rows(study.load(None, True).tasks["mnist"], 150, 0)


@pytest.fixture(scope="module")
def rows(task):
    return study.kernel_rows(task, 25.0)


def test_values_are_the_kernel(task, rows):
    values = rows.block(np.arange(150))
    assert values.shape == (150, 150 + task.y_test.shape[0])
    apart = ((task.X[3] - task.X_test[7]) ** 2).sum()
    assert values[3, 157] == pytest.approx(np.exp(-apart / 50.0), rel=1e-4)
    assert task.y.shape == (150,) and set(task.y) == {-1.0, 1.0}


def test_rows_count_as_computed_and_columns_of_test_rows_do_not_count(rows):
    values = rows.block(np.arange(150))
    plain, kept = study.CountedRows(rows, 150), study.CountedRows(rows, 150, free=True)
    for made in (plain, kept):
        made.cached(np.array([1, 2]))
        buffer, place = made.cached(np.array([2, 5]))
        np.testing.assert_allclose(buffer[place[1]], values[5], rtol=1e-6)
    assert (plain.evaluations, kept.evaluations) == (4 * 150, 3 * 150)
    sums = np.zeros(values.shape[1])
    plain.add(np.array([4]), np.array([2.0]), sums)
    np.testing.assert_allclose(sums, 2.0 * values[4], rtol=1e-6)
    assert plain.evaluations == 5 * 150
    part = plain.subset(np.array([3, 9]))
    np.testing.assert_allclose(part.block(slice(None)), values[np.ix_([3, 9], [3, 9])], rtol=1e-6)
    assert (part.evaluations, plain.evaluations) == (4, 5 * 150)


@pytest.mark.parametrize("solve", [smo.solve, kernel_sdca.solve, working_set.solve])
def test_solvers_find_the_optimum_and_its_test_error_with_it(task, rows, solve):
    best = study.reference(task, rows, 1.0)
    problem = study.CountedRows(rows, 150).problem(task, 1.0)
    result = solve(problem, tol=1e-4, **({"shrinking": False} if solve is smo.solve else {}))
    assert result.primal == pytest.approx(best.objective, rel=1e-2)  # within the tolerances of both
    assert (result.coef[150:] == 0.0).all()
    if solve is not working_set.solve:
        assert result.history[-1]["held_out_error"] == pytest.approx(best.error, abs=0.01)


def test_the_reference_with_a_bias_is_libsvms(task, rows):
    best = study.reference(task, rows, 0.1, fit_intercept=True)
    peer = SVC(C=0.1, gamma=0.02).fit(task.X, task.y)
    assert best.error == pytest.approx((peer.predict(task.X_test) != task.y_test).mean(), abs=0.005)
    scores = peer.decision_function(task.X)
    square = peer.dual_coef_[0] @ (scores[peer.support_] - peer.intercept_[0])
    assert best.nu == pytest.approx(np.maximum(0.0, 1.0 - task.y * scores).mean() / np.sqrt(square), rel=0.02)


def test_a_curve_holds_its_last_value():
    history = [{"evaluations": at, "held_out_error": error} for at, error in ((10.0, 0.5), (30.0, 0.2), (31.0, 0.1))]
    assert study.steps(history, [1.0, 10.0, 29.0, 30.5, 1000.0]) == [None, 0.5, 0.5, 0.2, 0.1]


def test_rows_are_drawn_by_the_seed_and_all_taken_where_there_are_fewer():
    task = study.load(None, True).tasks["adult"]
    one, same, other = (study.drawn_rows(task, 50, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.X, same.X)
    assert not np.array_equal(one.X, other.X)
    assert study.drawn_rows(task, None, 0).y.shape == task.y.shape
    assert np.array_equal(one.X_test, task.X_test)
