"""SIMBA and descent in a norm ball as estimators: scikit-learn's contract, and the solvers behind them."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import KernelSVC, SBPClassifier
from widemargin_papers.baselines import NormBallSVC, SimbaClassifier

DRAWN = "rows are drawn at random: a row of weight 2 is drawn as often as one that is there twice, at other steps"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


@pytest.mark.filterwarnings("ignore::widemargin.exceptions.MarginConvergenceWarning")
@parametrize_with_checks(
    [NormBallSVC(), SimbaClassifier(tol=0.3, max_iter=30, random_state=0)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_sklearn_contract(estimator, check):
    check(estimator)


def test_descent_in_the_ball_comes_near_the_svm_of_that_norm():
    X, y = make_moons(200, noise=0.2, random_state=0)
    peer = KernelSVC(C=1.0, gamma=1.0, solver_options={"fit_intercept": False}).fit(X, y)
    clf = NormBallSVC(C=1.0, gamma=1.0, max_iter=200, random_state=0).fit(X, y)
    assert (clf.predict(X) == peer.predict(X)).mean() > 0.95
    assert clf.n_iter_ == 200 * 200 and clf.support_vectors_.shape[1] == 2
    assert np.array_equal(NormBallSVC(radius=0.0).fit(X, y).decision_function(X), np.zeros(200))


def test_simba_comes_near_the_margin_of_the_batch_perceptron():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * rng.normal(size=300) > 0.0
    clf = SimbaClassifier(0.2, tol=0.1, random_state=0).fit(X, y)
    peer = SBPClassifier(nu=0.2, kernel="linear").fit(X, y)
    assert clf.status_ == "converged" and clf.gap_ <= 0.1 and clf.reads_ < 20 * clf.n_iter_ * 300
    assert (clf.predict(X) == peer.predict(X)).mean() > 0.95
