"""Pairs of labels, drawn."""

import matplotlib as mpl
import numpy as np
import pytest

from widemargin import HierarchicalSVC, MultiLabelSVC
from widemargin.exceptions import DataError
from widemargin.plotting import HierarchyDisplay, LabelPairsDisplay

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


def test_nodes_and_their_rates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    low = (X + 0.5 * rng.normal(size=X.shape) > [0.0, 0.3, 1.5]).astype(int)
    Y = np.column_stack([low[:, 2], low[:, 1], low[:, :2].max(axis=1), low[:, 0]])
    clf = HierarchicalSVC(["tree", "pet/dog", "pet", "pet/cat"], C=0.1, random_state=0).fit(X, Y)
    shown = HierarchyDisplay.from_estimator(clf, X, Y, most=3)
    assert shown.names == ["pet", "dog", "cat"]  # below their parent, without the rarest node
    assert shown.parent.tolist() == [-1, 0, 0] and shown.depth.tolist() == [0, 1, 1]
    found = clf.predict(X)[:, [2, 1, 3]]
    np.testing.assert_array_equal(shown.count, Y[:, [2, 1, 3]].sum(axis=0))
    np.testing.assert_allclose(shown.precision, [Y[found[:, i] == 1, j].mean() for i, j in enumerate((2, 1, 3))])
    np.testing.assert_allclose(shown.recall, [found[Y[:, j] == 1, i].mean() for i, j in enumerate((2, 1, 3))])
    texts = [text.get_text() for text in shown.axes_[0].texts]
    assert texts == [f" {name} ({count})" for name, count in zip(shown.names, shown.count, strict=True)]
    with pytest.raises(DataError, match=r"y has the shape \(200, 3\) and the model 4 nodes"):
        HierarchyDisplay.from_estimator(clf, X, Y[:, :3])
    with pytest.raises(DataError, match="MultiLabelSVC has no hierarchy"):
        HierarchyDisplay.from_estimator(MultiLabelSVC(C=1.0).fit(X, Y), X, Y)
