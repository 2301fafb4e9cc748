"""MNIST's files, read as they are published."""

import gzip
import struct

import numpy as np
import pytest

from widemargin.exceptions import MissingDataError
from widemargin_papers.data import load_mnist, synthetic_digits


@pytest.fixture
def folder(tmp_path):
    """Five training and three test images, one half of the files packed."""
    for name, n in (("train", 5), ("t10k", 3)):
        images = (np.arange(n * 784) % 256).astype(np.uint8)
        labels = (np.arange(n) + 7).astype(np.uint8)
        (tmp_path / f"{name}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(struct.pack(">iiii", 2051, n, 28, 28) + images.tobytes())
        )
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">ii", 2049, n) + labels.tobytes())
    return tmp_path


def test_images_and_labels_are_those_of_the_files(folder):
    digits = load_mnist(folder)
    assert digits.X.shape == (5, 784) and digits.X_test.shape == (3, 784)
    assert digits.X.dtype == np.float32
    np.testing.assert_allclose(digits.X[0, :257], (np.arange(257) % 256) / 255, rtol=1e-6)
    assert digits.digit.tolist() == [7, 8, 9, 10, 11]
    assert digits.digit_test.tolist() == [7, 8, 9]
    moved = folder / "mnist"
    moved.mkdir()
    for path in list(folder.glob("*ubyte*")):
        path.rename(moved / path.name)
    np.testing.assert_array_equal(load_mnist(folder).X, digits.X)


def test_what_is_missing_or_foreign_is_named(folder):
    with pytest.raises(MissingDataError, match="no folder of data"):
        load_mnist(None)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"12345678")
    with pytest.raises(MissingDataError, match="holds 8 bytes"):
        load_mnist(folder)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"12345678\1\2")
    with pytest.raises(MissingDataError, match="images and"):
        load_mnist(folder)
    (folder / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(MissingDataError, match="train-images-idx3-ubyte is not in"):
        load_mnist(folder)


def test_synthetic_digits_can_be_told_apart_and_depend_on_the_seed():
    one, same, other = (synthetic_digits(200, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.X, same.X)
    assert not np.array_equal(one.X, other.X)
    assert one.X.min() >= 0.0 and one.X.max() <= 1.0
    centre = np.array([one.X[one.digit == k].mean(axis=0) for k in range(10)])
    nearest = ((one.X_test[:, None] - centre[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == one.digit_test).mean() > 0.8
