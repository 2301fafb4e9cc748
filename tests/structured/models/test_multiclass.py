"""Classes: features, cost matrices, unknown labels."""

import numpy as np
import pytest

from widemargin.exceptions import DataError
from widemargin.structured.models import MulticlassModel

X = np.ones((3, 2))


def test_features_losses_and_decoding():
    model = MulticlassModel([[0, 1, 5], [2, 0, 1], [1, 1, 0]])
    assert model.prepare(X, ["b", "c", "a"]) == (2, 3, 0)
    assert model.features(None, "b").A.tolist() == [[0.0, 1.0, 0.0]]
    assert model.loss("c", "a") == 5.0
    assert model.loss("a", "c") == 1.0
    assert model.decode(None, np.array([[1.0, 3.0, 2.0]]), np.zeros(0)) == "b"
    answer = model.oracle(None, "a", np.zeros((1, 3)), np.zeros(0)).direct()
    assert answer == ("c", 1.0, 5.0)


@pytest.mark.parametrize(
    ("cost", "Y", "message"),
    [
        (None, [1, 1, 1], "Y has 1 class"),
        (np.zeros((2, 2)), [0, 1, 1], "not all 0"),
        (np.eye(2), [0, 1, 1], "0 on the diagonal"),
        ([[0, -1], [1, 0]], [0, 1, 1], ">= 0"),
        (np.ones((3, 3)), [0, 1, 1], r"give a matrix of shape \(2, 2\)"),
    ],
)
def test_bad_input(cost, Y, message):
    with pytest.raises(DataError, match=message):
        MulticlassModel(cost).prepare(X, Y)


def test_unknown_class():
    model = MulticlassModel()
    model.prepare(X, [3, 5, 5])
    for y in (4, 9):
        with pytest.raises(DataError, match="not one of the 2 classes"):
            model.encode(y)
