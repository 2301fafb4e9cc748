"""Covertype and ijcnn1 from files of their form, and messages where there are none."""

import gzip

import numpy as np
import pytest

from widemargin.exceptions import MissingDataError
from widemargin_papers.data.two_classes import load_ijcnn1, load_spruce, synthetic_rows


def test_covtype_is_scaled_and_class_1_is_positive(tmp_path):
    rng = np.random.default_rng(0)
    X = np.hstack([rng.integers(-50, 5000, (20, 10)), rng.integers(0, 2, (20, 44))]).astype(np.int16)
    y = np.arange(20) % 7 + 1
    (tmp_path / "binary").mkdir()
    np.savez(tmp_path / "binary" / "covtype.npz", X=X, y=y)
    rows = load_spruce(tmp_path)
    assert (rows.y > 0).tolist() == (y == 1).tolist()
    np.testing.assert_array_equal(rows.X[:, :10].min(axis=0), 0.0)
    np.testing.assert_array_equal(rows.X[:, :10].max(axis=0), 1.0)
    np.testing.assert_array_equal(rows.X[:, 10:], X[:, 10:])


def test_ijcnn1_is_read_packed(tmp_path):
    with gzip.open(tmp_path / "ijcnn1.gz", "wt") as file:
        file.write("-1 1:0.5 22:-2\n+1 3:1\n")
    rows = load_ijcnn1(tmp_path)
    assert rows.X.shape == (2, 22)
    assert (rows.X[0, 0], rows.X[0, 21], rows.X[1, 2]) == (0.5, -2.0, 1.0)
    assert rows.y.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("load", [load_spruce, load_ijcnn1])
def test_missing_files_are_named(load, tmp_path):
    with pytest.raises(MissingDataError, match=r"(covtype.data.gz|ijcnn1) is not in .*Get .* from https"):
        load(tmp_path)
    with pytest.raises(MissingDataError, match="no folder of data was named"):
        load(None)


def test_synthetic_rows_are_of_both_classes_and_repeat():
    rows, again = synthetic_rows(200, 5), synthetic_rows(200, 5)
    np.testing.assert_array_equal(rows.X, again.X)
    assert 0.2 < (rows.y > 0).mean() < 0.6
    assert rows.X.min() >= 0.0
    assert rows.X.max() <= 1.0
