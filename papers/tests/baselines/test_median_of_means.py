"""Medians of means: one block is the logistic regression, the median gradient, and outliers that are borne."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from testing.linear_baselines import classes, signs, spoiled

from widemargin.solvers.base import Budget
from widemargin_papers.baselines import MedianOfMeansClassifier
from widemargin_papers.baselines.linear_classifier import Task


@pytest.mark.parametrize("method", ["blocks", "gradient"])
@pytest.mark.parametrize("start", ["zero", "clipped"])
def test_one_block_is_the_logistic_regression(method, start):
    X, y = classes()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    peer = LogisticRegression(C=0.05, tol=1e-10, max_iter=1000).fit(X, y, sample_weight=weight)
    clf = MedianOfMeansClassifier(0.05, block_size=300, method=method, start=start, max_iter=2000)
    clf.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(clf.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(clf.intercept_, peer.intercept_, atol=1e-4)


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_matrix])
def test_what_a_step_follows(rows):
    X, y = classes(60)
    task = Task(rows(X), signs(y), np.ones(60), 0, Budget())
    w = np.random.default_rng(0).normal(size=7)
    blocks = np.random.default_rng(1).permutation(60).reshape(20, 3)
    margins = signs(y) * (X @ w[:-1] + w[-1])
    gradients = (-expit(-margins) * signs(y))[:, None] * np.column_stack((X, np.ones(60)))
    losses = np.log1p(np.exp(-margins))[blocks].mean(axis=1)
    found, risk = MedianOfMeansClassifier(method="gradient")._look(task, w, blocks)
    np.testing.assert_allclose(found, np.median([gradients[b].mean(axis=0) for b in blocks], axis=0), atol=1e-12)
    assert risk == pytest.approx(np.median(losses))
    middle = np.argsort(losses)[8:12]
    found, risk = MedianOfMeansClassifier(central=0.2)._look(task, w, blocks)
    np.testing.assert_allclose(found, gradients[blocks[middle].ravel()].mean(axis=0), atol=1e-12)
    one = np.argsort(losses)[9]
    found, _ = MedianOfMeansClassifier(central=0.0)._look(task, w, blocks)
    np.testing.assert_allclose(found, gradients[blocks[one]].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("method", ["blocks", "gradient"])
@pytest.mark.parametrize("factor", [3.0, 20.0])
def test_outliers_with_wrong_labels_are_borne(method, factor):
    X, y = classes(900, flip=0.0)
    bad_X, bad_y = spoiled(X[:600], y[:600], 0.1, factor)
    clean = LogisticRegression().fit(X[:600], y[:600]).score(X[600:], y[600:])
    peer = LogisticRegression().fit(bad_X, bad_y).score(X[600:], y[600:])
    clf = MedianOfMeansClassifier(method=method, random_state=0).fit(bad_X, bad_y)
    assert clf.score(X[600:], y[600:]) > clean - 0.03
    assert clf.score(X[600:], y[600:]) > peer


def test_seeds_draw_the_partitions():
    X, y = classes()
    one, two = (MedianOfMeansClassifier(max_iter=20, random_state=seed).fit(X, y) for seed in (0, 1))
    assert not np.array_equal(one.coef_, two.coef_)
