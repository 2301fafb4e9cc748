"""MNIST, the handwritten digits, from its four files, and synthetic images of its shape."""

import gzip
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin.datasets.files import CATALOGUE, Folder, get_it
from widemargin.exceptions import MissingDataError


@dataclass(frozen=True)
class Digits:
    """Images as rows.

    Attributes
    ----------
    X, X_test : ndarray of float32, shape (n, 784) and (n_test, 784)
        Pixels in [0, 1].
    digit, digit_test : ndarray of uint8
        0 to 9.
    name : str
    """

    X: npt.NDArray[np.float32]
    digit: npt.NDArray[np.uint8]
    X_test: npt.NDArray[np.float32]
    digit_test: npt.NDArray[np.uint8]
    name: str


def load_mnist(folder: Folder) -> Digits:
    """Read MNIST from a folder that holds its four files, or from its subfolder `mnist`.

    Parameters
    ----------
    folder : path-like or None
        The files may be packed (`.gz`).

    Raises
    ------
    MissingDataError
        If a file is not there, or is none of MNIST's.
    """
    cure = get_it("it", CATALOGUE["mnist"].source)
    parts: list[Any] = []
    for path in CATALOGUE["mnist"].paths(folder, "MNIST"):
        is_images = "images" in path.name
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        skip = 16 if is_images else 8
        values = np.frombuffer(content, dtype=np.uint8, offset=min(skip, len(content)))
        if values.size == 0 or (is_images and values.size % 784):
            raise MissingDataError(f"{path} holds {len(content)} bytes, which is no file of MNIST. {cure}")
        parts.append(values.reshape(-1, 784).astype(np.float32) / np.float32(255) if is_images else values)
    X, digit, X_test, digit_test = parts
    if X.shape[0] != digit.shape[0] or X_test.shape[0] != digit_test.shape[0]:
        raise MissingDataError(f"{folder} holds {X.shape[0]} images and {digit.shape[0]} labels. {cure}")
    return Digits(X, digit, X_test, digit_test, "MNIST")


def synthetic_digits(n: int, seed: int = 0) -> Digits:
    """Ten blurred prototypes of 784 pixels with noise, n training and n test rows.

    Parameters
    ----------
    n : int
    seed : int
    """
    rng = np.random.default_rng(seed)
    prototype = (rng.random((10, 784)) < 0.2) * rng.random((10, 784))
    parts: list[Any] = []
    for _ in range(2):
        digit = rng.integers(10, size=n).astype(np.uint8)
        ink = prototype[digit] * rng.uniform(0.3, 1.0, (n, 1)) + 0.25 * rng.normal(size=(n, 784))
        parts += [np.clip(ink, 0.0, 1.0).astype(np.float32), digit]
    return Digits(*[*parts, f"synthetic rows (n={n})"])
