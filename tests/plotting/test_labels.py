"""Pairs of labels, drawn."""

import matplotlib as mpl
import numpy as np
import pytest

from widemargin import HierarchicalSVC, MultiLabelSVC
from widemargin.exceptions import DataError
from widemargin.plotting import LabelPairsDisplay

mpl.use("Agg")


def test_pairs_of_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    Y = np.stack([X[:, 0] > 0, X[:, 0] > 0.1, X[:, 0] < 0, X[:, 1] > 2.5], axis=1).astype(int)
    clf = MultiLabelSVC([(0, 1), (0, 2)], C=0.1, random_state=0).fit(X, Y)
    shown = LabelPairsDisplay.from_estimator(clf, Y, most=3)
    assert shown.names == ["0", "1", "2"]  # the fourth is seldom there
    assert shown.lift[0, 1] > 0.5 and shown.lift[0, 2] < -3.0
    np.testing.assert_array_equal(shown.lift, shown.lift.T)
    np.testing.assert_array_equal(shown.weight[0, 1:], clf.theta_)
    assert np.isnan(shown.weight[1, 2])
    np.testing.assert_array_equal(shown.images_[0].get_array(), shown.lift)
    with pytest.raises(DataError, match=r"y has the shape \(200, 3\) and the model 4 labels"):
        LabelPairsDisplay.from_estimator(clf, Y[:, :3])
    with pytest.raises(DataError, match="HierarchicalSVC has no weights of pairs"):
        LabelPairsDisplay.from_estimator(HierarchicalSVC([-1], C=1.0).fit(X, Y[:, :1]), Y[:, :1])
