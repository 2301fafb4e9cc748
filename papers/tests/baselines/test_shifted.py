"""The shifted SVM: the SVM's direction, and of all biases the best one that meets the goal."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.svm import LinearSVC
from testing.contract import parametrize_with_fitting_checks

from widemargin import External
from widemargin.exceptions import InfeasibleGoalError
from widemargin.solvers.convex import convex_step as choice
from widemargin_papers.baselines import ShiftedSVC


def data(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=n) > 0.8).astype(int)
    return X, y, pa.table({"group": rng.integers(0, 2, n)})


def test_the_direction_is_that_of_the_svm():
    X, y, _ = data()
    clf = ShiftedSVC("subject to recall() >= 0.7", C=0.5).fit(X, y)
    # margin 1/2 here, 1 there; LinearSVC regularises its bias, hardly where it is large
    peer = LinearSVC(loss="hinge", C=0.5, intercept_scaling=100.0, tol=1e-5, max_iter=1_000_000, random_state=0)
    peer.fit(X, y)
    np.testing.assert_allclose(2.0 * clf.coef_, peer.coef_, atol=2e-2)


def test_no_other_bias_meets_the_goal_at_a_lower_objective():
    X, y, table = data(1)
    goal = """a = population(group == 1)
    b = population(group == 0)
    minimize error_rate()
    subject to recall(a) >= 0.75
    subject to positive_rate(b) <= 0.5"""
    clf = ShiftedSVC(goal).fit(X, y, populations=table)
    z, group = clf.decision_function(X), np.asarray(table["group"])

    def judge(positive):
        met = positive[(group == 1) & (y == 1)].mean() >= 0.75 and positive[group == 0].mean() <= 0.5
        return (positive != (y == 1)).mean() if met else np.inf

    best = min(judge(z > t) for t in [*z, z.min() - 1.0])
    assert judge(clf.predict(X) == 1) == best < np.inf
    assert clf.goal_report_.all_met() and "training rows" in str(clf.goal_report_)
    np.testing.assert_allclose(z, X @ clf.coef_[0] + clf.intercept_[0], atol=1e-12)


def test_churn_on_an_external_data_set_counts():
    X, y, _ = data(2)
    rng = np.random.default_rng(5)
    traffic = rng.normal(size=(200, 3))
    deployed = (traffic[:, 0] > 0.9).astype(int)
    goal = 'traffic = external()\nminimize error_rate()\nsubject to churn("deployed", on=traffic) <= 0.2'
    clf = ShiftedSVC(goal).fit(X, y, external={"traffic": External(traffic, deployed=deployed)})
    assert (clf.predict(traffic) != deployed).mean() <= 0.2


def test_what_no_bias_reaches_is_refused_or_warned_of():
    X, y, _ = data()
    goal = "subject to recall() >= 0.95\nsubject to positive_rate() <= 0.2"
    with pytest.raises(InfeasibleGoalError):
        ShiftedSVC(goal).fit(X, y)
    with pytest.warns(UserWarning):
        clf = ShiftedSVC(goal, on_infeasible="warn").fit(X, y)
    assert clf.status_ == "infeasible"


def test_the_other_class_may_be_the_positive_one():
    X, y, _ = data()
    clf = ShiftedSVC("subject to recall() >= 0.97", pos_label=0).fit(X, y)
    assert (clf.predict(X)[y == 0] == 0).mean() >= 0.97


def test_an_interrupt_leaves_a_model_that_was_shifted(monkeypatch):
    X, y, _ = data()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setitem(choice._SOLVE, "newton", interrupted)
    clf = ShiftedSVC("subject to recall() >= 0.7")
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert clf.status_ == "interrupted"
    assert clf.goal_report_.all_met()


@parametrize_with_fitting_checks([ShiftedSVC()], [ShiftedSVC("subject to recall() >= 0.3")])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)
