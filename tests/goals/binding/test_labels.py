"""Labels: both classes become +1 and -1 in every type, and nothing that is no label passes."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from widemargin.exceptions import DataError, GoalWarning
from widemargin.goals import Goal, recall
from widemargin.goals.binding.labels import encode_labels, find_classes, ordered_classes, positive_class


@pytest.mark.parametrize(
    "make",
    [
        list, tuple, np.array, pd.Series, pl.Series, pa.array, lambda v: pa.chunked_array([v]),
        lambda v: np.array(v, object),
    ],
)  # fmt: skip
@pytest.mark.parametrize("pair", [("no", "yes"), (0, 1), (-1, 1), (0.0, 1.0), (False, True), (3, 7)])
def test_every_container_and_type(make, pair):
    y = make([pair[1], pair[0], pair[1]])
    codes = encode_labels(y, pair)
    assert codes.dtype == np.int8
    assert codes.tolist() == [1, -1, 1]
    assert encode_labels(y, pair[::-1]).tolist() == [-1, 1, -1]


def test_equal_numbers_of_another_type_are_the_same_label():
    assert encode_labels(np.array([1.0, 0.0]), (0, 1)).tolist() == [1, -1]
    assert encode_labels(np.array([True, False]), np.array([0, 1])).tolist() == [1, -1]
    assert encode_labels(pd.Series(["a", "b"], dtype="category"), ("a", "b")).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("y", "pair", "words"),
    [
        ([0.2, 0.9, 1.0], (0, 1), ["2 values", "0.2, 0.9", "look like scores or probabilities"]),
        ([0, 1, 2], (0, 1), ["1 values", "2", "Use the labels of y"]),
        (["yes", "No"], ("no", "yes"), ["'No'", "('no', 'yes')"]),
        (["0", "1"], (0, 1), ["'0', '1'"]),
        ([0, 1], ("0", "1"), ["'0', '1'", "0, 1"]),
        ([-1, 1], (0, 1), ["-1"]),
    ],
)
def test_strange_values_are_named(y, pair, words):
    with pytest.raises(DataError) as caught:
        encode_labels(y, pair, what="predictions")
    assert str(caught.value).startswith("predictions has ")
    for word in words:
        assert word in str(caught.value)


def test_missing_labels_are_refused_or_zero():
    y = [1, None, 0]
    with pytest.raises(DataError, match="y has 1 missing values of 3"):
        encode_labels(y, (0, 1))
    assert encode_labels(y, (0, 1), allow_missing=True).tolist() == [1, 0, -1]
    assert encode_labels(np.array([1.0, np.nan]), (0, 1), allow_missing=True).tolist() == [1, 0]
    assert encode_labels(["b", None], ("a", "b"), allow_missing=True).tolist() == [1, 0]
    assert encode_labels([None, None], (0, 1), allow_missing=True).tolist() == [0, 0]


@pytest.mark.parametrize("y", [np.zeros((3, 1)), np.zeros((3, 2)), np.array(1)])
def test_only_vectors(y):
    with pytest.raises(DataError, match="give a vector"):
        encode_labels(y, (0, 1))


def test_a_mixed_list_does_not_become_strings():
    with pytest.raises(DataError, match="mixes types"):
        encode_labels([1, "1"], ("0", "1"))


def test_find_classes():
    assert find_classes({"y": [1, 1], "predictions": [0, 1]}) == (0, 1)
    assert find_classes({"y": np.array(["b", "a"])}) == ("a", "b")
    assert find_classes({"y": [1, 1]}, pos_label=2) == (1, 2)
    assert find_classes({"y": [2, 0, 1]}) == (0, 1, 2)
    with pytest.raises(DataError, match=r"hold only the class 1; give y with both classes"):
        find_classes({"y": [1, 1]})
    with pytest.raises(DataError, match="mix strings and numbers as labels: 0, '1'"):
        find_classes({"y": [0], "predictions": ["1"]})
    with pytest.raises(DataError, match=r"Unknown label type: continuous. predictions holds 0.25, 0.5"):
        find_classes({"predictions": [0.25, 0.5]})


def test_several_classes_are_numbered_and_none_is_the_positive_one():
    assert ordered_classes(np.array(["a", "b", "c"])) == ("a", "b", "c")
    codes = encode_labels(["b", None, "c"], ("a", "b", "c"), allow_missing=True)
    assert codes.tolist() == [2, 0, 3]
    with pytest.raises(DataError, match="y has 1 values that are none of the classes 'a', 'b', 'c': 'd'"):
        encode_labels(["a", "d"], ("a", "b", "c"))
    with pytest.raises(DataError, match=r"pos_label='a' is for two classes, and there are 3.*recall\(of='a'\)"):
        ordered_classes(["a", "b", "c"], "a")


def test_a_goal_that_names_its_classes_asks_for_no_positive_one():
    named = Goal(subject_to=recall(of="default") >= 0.5)
    assert ordered_classes(["default", "repaid"], goal=named) == ("default", "repaid")
    with pytest.warns(GoalWarning, match="'repaid' is taken as the positive class"):
        ordered_classes(["default", "repaid"], goal=Goal(subject_to=recall() >= 0.5))


def test_positive_class():
    assert positive_class(np.array([0, 1])) == (0, 1)
    assert positive_class([0, 1], 0) == (1, 0)
    assert type(positive_class(np.array([0, 1]))[1]) is int
    assert positive_class(("a", "b"), np.str_("a")) == ("b", "a")
    with pytest.raises(DataError, match=r"pos_label='b' is none of the classes 0, 1\. Votes, .* number the classes"):
        positive_class([0, 1], "b")
    with pytest.raises(DataError, match=r"pos_label='b' is none of the classes 'a', 'c'\.$"):
        positive_class(["a", "c"], "b")
    with pytest.raises(DataError, match="multiclass"):
        positive_class([0, 1, 2])
    with pytest.raises(DataError, match="two classes are needed and there is 1"):
        positive_class([0])


@pytest.mark.parametrize("pair", [("A", "B"), ("default", "repaid"), ("pos", "zzz")])
def test_strings_without_an_order_warn(pair):
    with pytest.warns(GoalWarning, match=rf"'{pair[1]}' is taken as the positive class"):
        positive_class(pair)


@pytest.mark.parametrize(
    "pair", [("no", "yes"), ("False", "True"), ("<=50K", ">50K"), ("0", "1"), ("neg", "pos"), (0, 1)]
)
def test_clear_orders_and_chosen_labels_do_not(pair):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert positive_class(pair) == pair
        assert positive_class(("A", "B"), "A") == ("B", "A")
        assert positive_class(("A", "B"), "B") == ("A", "B")
