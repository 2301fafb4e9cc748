"""Whether an ONNX graph that skl2onnx made gives what its model gives: both are asked about made rows.

skl2onnx knows most models, but not all of their options: some graphs answer otherwise than the model (trees that have
learned where missing values go, columns of categories, calibration by steps), others no runtime can read.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.exceptions import CapabilityError


def refuse_other_answers(made: Any, ask: Callable[[Floats], npt.NDArray[Any]] | None, width: int, name: str) -> None:
    """Compare a graph of the input X, or only read it. Nothing is done where onnxruntime is missing.

    Parameters
    ----------
    made : onnx.ModelProto
        Its first output is compared.
    ask : callable (rows of shape (n, width)) -> array of n rows, or None
        What the model gives; None: the graph takes no matrix of numbers, and is only read.
    name : str
        Of the model, for the message.

    Raises
    ------
    CapabilityError
        If the graph cannot be read, or gives something else in more than one row of a hundred: in single precision a
        few rows may lie at the threshold of a tree.
    """
    try:
        import onnxruntime
    except ImportError:
        return
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class for each of its codes
        why = str(error).partition("\n")[0][:200]
        raise CapabilityError(
            f"{name} cannot be written as ONNX: onnxruntime cannot read what skl2onnx makes of it ({why}). "
            "Use save_model."
        ) from error
    if ask is None:
        return
    for rows in _made_rows(width):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of names that these rows have not, and of numbers that are too large
                expected = np.asarray(ask(rows), dtype=np.float64).reshape(len(rows), -1)
        except Exception:  # a model refuses rows in its own words
            continue
        found = np.asarray(session.run(None, {"X": rows})[0], dtype=np.float64).reshape(len(rows), -1)
        differ = ~np.isclose(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True).all(axis=1)
        if differ.mean() > 0.01:
            raise CapabilityError(
                f"{name} cannot be written as ONNX: what skl2onnx makes of it gives other numbers than the model on "
                f"{np.count_nonzero(differ)} of {len(rows)} rows made to try it. Use save_model."
            )
        return
    raise CapabilityError(
        f"{name} cannot be written as ONNX: it takes no rows of {width} numbers alone, as the graph would. "
        "Use save_model."
    )


def _made_rows(width: int) -> Iterator[Floats]:
    """Rows of numbers and codes; with missing values, without, and of 0 and 1 for models that refuse the former.

    All are exact in single precision, in which graphs of trees compute.
    """
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(400, width)) * np.repeat([1.0, 10.0], 200)[:, None]
    rows = np.vstack([normal, rng.integers(0, 10, size=(200, width))]).astype(np.float32).astype(np.float64)
    absent = (rng.random(rows.shape) < 0.2) & (np.arange(len(rows)) % 2 == 0)[:, None]
    yield np.where(absent, np.nan, rows)
    yield rows
    yield (rows > 0.0).astype(np.float64)
