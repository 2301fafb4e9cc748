"""Sweeps give the same results wherever their parts are done."""

import os
import threading
import time

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import make_moons

from clusters import kill_a_worker
from widemargin import (
    KernelSVC,
    MultiLabelSVC,
    RateConstrainedClassifier,
    RateConstrainedClassifierCV,
    kernel_search,
    structural_search,
    tradeoff_path,
)
from widemargin.distributed import side_by_side
from widemargin.distributed.workers import Deadline, is_serial
from widemargin.exceptions import DataError

X, Y = make_moons(300, noise=0.25, random_state=0)


def slow_square(x):
    time.sleep(0.05)
    return x * x


def broken(x):
    return 1 // x


def where(_):
    return os.getpid()


def test_joblib_says_where(dask_client):
    assert is_serial()
    with parallel_config(backend="loky", n_jobs=2):
        assert not is_serial()
        assert os.getpid() not in set(side_by_side(where, range(3)))
    with parallel_config(backend="dask"):
        assert set(side_by_side(where, range(3))) <= set(dask_client.run(os.getpid).values())
    with pytest.raises(DataError, match="workers is 0"):
        list(side_by_side(where, range(3), 0))


def marked(path):
    path.touch()
    time.sleep(0.2)


def test_who_stops_asking_spares_the_rest(dask_client, tmp_path):
    results = side_by_side(marked, [tmp_path / str(i) for i in range(600)], dask_client)
    next(results)
    results.close()
    assert list(side_by_side(slow_square, [3], dask_client)) == [9]
    assert len(list(tmp_path.iterdir())) < 500  # on a busy machine workers go on for seconds until they hear of it


def test_a_killed_worker_changes_nothing(dask_client):
    killer = threading.Timer(0.3, kill_a_worker, (dask_client,))
    killer.start()
    assert list(side_by_side(slow_square, range(30), dask_client)) == [x * x for x in range(30)]
    killer.join()
    dask_client.wait_for_workers(2)


def test_deadlines_are_clock_times():
    assert Deadline.after(None).left is None
    assert 9.0 < Deadline.after(10.0).left <= 10.0
    assert Deadline(0.0).left == 1e-3


def test_kernel_search(dask_client):
    def run(workers=None):
        seen = []
        found = kernel_search(
            KernelSVC(solver_options={"callbacks": [seen.append]}), X, Y, Cs=[0.1, 1.0, 10.0], gammas=[0.5, 2.0],
            n_rows=200, callbacks=[seen.append], workers=workers, random_state=0,
        )  # fmt: skip
        assert len(seen) >= 6
        return found.cells, found.best_params, found.evaluations

    alone = run()
    assert run(dask_client) == alone
    with parallel_config(backend="loky", n_jobs=2):
        assert run() == alone


def test_structural_search(dask_client):
    features = np.random.default_rng(0).normal(size=(60, 4))
    labels = (features[:, :3] + features[:, 1:] > 0).astype(int)

    def run(workers=None):
        model = MultiLabelSVC(random_state=0)
        found = structural_search(model, features, labels, Cs=[0.01, 0.1], workers=workers, random_state=0)
        return found.cells, found.best_params

    alone = run()
    assert run(2) == alone
    assert run(dask_client) == alone


@pytest.mark.parametrize("workers", [None, 1, 2, "dask"])
def test_results_come_in_order(workers, request):
    workers = request.getfixturevalue("dask_client") if workers == "dask" else workers
    assert list(side_by_side(slow_square, range(7), workers)) == [x * x for x in range(7)]
    with pytest.raises(ZeroDivisionError):  # it ends joblib's processes, so the tests that use them come before
        list(side_by_side(broken, [1, 0], workers))
    assert list(side_by_side(slow_square, [], workers)) == []


def test_cross_validation_under_a_goal(dask_client):
    goal = "minimize error_rate(); subject to floor: recall() >= 0.9"

    def run(seen):
        clf = RateConstrainedClassifierCV(
            goal, Cs=[0.01, 1.0], max_steps=2, cv=3, random_state=0, callbacks=[seen.append]
        )
        clf.fit(X, Y)
        results = {name: value for name, value in clf.cv_results_.items() if name != "mean_fit_time"}
        return results, clf.coef_

    told, told_elsewhere = [], []
    alone, elsewhere = run(told), None
    with parallel_config(backend="dask"):
        elsewhere = run(told_elsewhere)
    for name, values in alone[0].items():
        np.testing.assert_array_equal(elsewhere[0][name], values)
    np.testing.assert_array_equal(elsewhere[1], alone[1])
    in_folds = [[item.iteration for item in seen if item.stage == "validate"] for seen in (told, told_elsewhere)]
    assert in_folds[0] == in_folds[1] == [1, 2, 3, 4, 5, 6]


def test_pieces_of_a_path(dask_client):
    clf = RateConstrainedClassifier(
        "minimize error_rate(); subject to floor: recall() >= 0.5", max_steps=2, random_state=0, time_budget=600.0
    )
    values = [0.9, 0.95, 0.98]

    def run(workers, pieces=2):
        told = []
        path = tradeoff_path(
            clone(clf).set_params(callbacks=[told.append]), X, Y, values=values, pieces=pieces, workers=workers
        )
        assert [item.iteration for item in told if item.stage == "path"] == [1, 2, 3]
        plain = path.to_dict()
        del plain["seconds"]
        return path, plain

    path, alone = run(1)
    assert path.model(2).time_budget == 600.0
    assert run(dask_client)[1] == alone
    first = tradeoff_path(clf, X, Y, values=values[:2])
    np.testing.assert_array_equal(path.held_out.objective[:2], first.held_out.objective)
    np.testing.assert_array_equal(path.held_out.covariance[:2, :2], first.held_out.covariance)
    with pytest.raises(DataError, match="pieces is 4; give a whole number from 1 to the 3 values"):
        tradeoff_path(clf, X, Y, values=values, pieces=4)


def has_client(_):
    from widemargin.distributed.workers import client_in_force

    return client_in_force() is not None


def test_tasks_do_not_hand_out_tasks(dask_client):
    """They would wait for each other on workers that both keep busy."""
    assert has_client(0)
    assert list(side_by_side(has_client, range(3), dask_client)) == [False] * 3
