"""Warnings name the user's file, however deep they arise."""

import warnings

from widemargin.exceptions import GoalWarning
from widemargin.goals import Goal, precision
from widemargin.goals.binding import bind
from widemargin.goals.labels import positive_class
from widemargin.goals.sources import make_source


def test_warnings_point_at_the_first_frame_outside_the_package():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        positive_class(("A", "B"))
        bind(Goal(None, precision() >= 0.5), [make_source(None, y=[0, 1], classes=(0, 1))])
    assert [item.category for item in caught] == [GoalWarning, GoalWarning]
    assert {item.filename for item in caught} == {__file__}
