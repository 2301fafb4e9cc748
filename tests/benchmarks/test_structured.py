"""The benchmarks of structural SVMs compute what they say: data, choices, paired differences."""

import numpy as np
import pytest
from benchmarks.data.sources import hold_outs, ocr, paths, shuffled, standardised
from benchmarks.tasks.structured import (
    Method,
    OneVsRest,
    apart,
    compare_methods,
    letter_errors,
    mean_jaccard,
    one_path,
    scores,
)

from widemargin.exceptions import MissingDataError
from widemargin_papers.data import LabelSets, synthetic_label_sets


def test_missing_words_are_named(tmp_path):
    with pytest.raises(MissingDataError, match=str(tmp_path)):
        ocr(tmp_path)


def test_rows_held_out_are_other_training_rows():
    task = paths()
    (held,) = hold_outs(task)
    assert held.X_test.shape[0] == -(-len(task.X) // 5)
    np.testing.assert_array_equal(np.unique(np.concatenate([held.X, held.X_test]), axis=0), np.unique(task.X, axis=0))
    folds = hold_outs(task, 3)
    assert sum(part.X_test.shape[0] for part in folds) == len(task.X) and len(folds) == 3
    np.testing.assert_array_equal(
        np.unique(np.concatenate([part.X_test for part in folds]), axis=0), np.unique(task.X, axis=0)
    )
    one, other = shuffled(task, 0), shuffled(task, 1)
    assert one.X.shape == task.X.shape
    assert not np.array_equal(one.X, other.X)


def test_jaccards_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    Y, predicted = rng.integers(0, 2, (2, 30, 3))
    assert mean_jaccard(Y, predicted) == pytest.approx(scores(Y, predicted)["jaccard"])


def test_best_path_is_the_best_of_all_paths_that_rows_end():
    rng = np.random.default_rng(1)
    task = paths()
    assert one_path(task.Y, task.paths)
    allowed = np.unique(task.Y, axis=0)
    U = rng.normal(size=(20, len(task.paths)))
    peer = OneVsRest(1.0).fit(task.X, task.Y)
    peer.decisions = lambda X: U
    np.testing.assert_array_equal(peer.predict(task.X, best_path=True), allowed[np.argmax(U @ allowed.T, axis=1)])


def test_sets_of_two_paths_are_no_path():
    names = ("a", "a/b", "a/c")
    assert one_path(np.array([[1, 1, 0], [1, 0, 0]]), names)
    assert not one_path(np.array([[1, 1, 1]]), names)
    assert not one_path(np.array([[0, 0, 0]]), names)


def test_every_variant_is_chosen_by_the_rows_held_out():
    task = synthetic_label_sets(80, 20)
    asked = []

    class Told:
        def __init__(self, C):
            self.C = C

        def fit(self, X, Y):
            self.Y = Y
            return self

        def predict(self, X, right=0.0):
            asked.append((self.C, right, X.shape[0]))
            found = np.zeros((X.shape[0], self.Y.shape[1]), dtype=int)
            found[:, : int(10 * right * self.C)] = 1
            return found

    method = Method("told", Told, (1.0, 2.0), {"": [{}], ", right": [{"right": share} for share in (0.0, 1.0)]})
    plain, right = compare_methods(task, [method])
    assert (plain["method"], right["method"]) == ("told", "told, right")
    assert (right["C"], right["setting"]) == (2.0, {"right": 1.0})
    assert [call for call in asked if call[2] == task.Y_test.shape[0]] == [(1.0, 0.0, 80), (2.0, 1.0, 80)]


def test_standardised_columns_know_the_training_rows_only():
    X = np.array([[1.0, np.nan], [3.0, 2.0]])
    made = standardised(LabelSets(X, np.ones((2, 1), dtype=int), X + 2.0, np.ones((2, 1), dtype=int), "some"))
    np.testing.assert_allclose(made.X, np.array([[-1.0, 0.0], [1.0, 0.0]]) / 2**0.5)
    np.testing.assert_allclose(made.X_test[:, 0], np.array([1.0, 3.0]) / 2**0.5)


def test_differences_are_paired_by_split():
    ours, theirs = (
        [{"split": split, "jaccard": value} for split, value in enumerate(values)]
        for values in ((0.5, 0.7), (0.4, 0.5, 0.9))
    )
    assert apart(ours, theirs) == (pytest.approx(0.15), pytest.approx(0.05))


def test_errors_of_letters_and_words():
    Y = [np.array([0, 1]), np.array([2, 2, 2])]
    found = [np.array([0, 1]), np.array([2, 0, 0])]
    assert letter_errors(Y, found) == {"character": 0.4, "word": 0.5}
