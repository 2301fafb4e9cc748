"""Warnings name the user's file, however deep they arise."""

import warnings

from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import cross_val_score

from widemargin.exceptions import GoalWarning, warn
from widemargin.goals import Goal, precision
from widemargin.goals.binding.bind import bind
from widemargin.goals.binding.labels import positive_class
from widemargin.goals.binding.sources import make_source
from widemargin.rows import Rows


def test_warnings_point_at_the_first_frame_outside_the_package():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        positive_class(("A", "B"))
        bind(Goal(None, precision() >= 0.5), [make_source(Rows(y=[0, 1]), classes=(0, 1))])
    assert [item.category for item in caught] == [GoalWarning, GoalWarning]
    assert {item.filename for item in caught} == {__file__}


class Warns(BaseEstimator):
    """Stands for an estimator of ours that scikit-learn calls."""

    __module__ = "widemargin.test"

    def fit(self, X, y):
        return self

    score = eval(  # a frame that belongs to this package
        "lambda self, X, y: warn('careful', GoalWarning) or 0.5",
        {"__name__": "widemargin.test", "warn": warn, "GoalWarning": GoalWarning},
    )


def test_frames_of_scikit_learn_are_passed_over():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(clone(Warns()), [[0], [1], [0], [1]], [0, 1, 0, 1], cv=2)
    assert [item.category for item in caught] == [GoalWarning] * 2
    assert {item.filename for item in caught} == {__file__}
