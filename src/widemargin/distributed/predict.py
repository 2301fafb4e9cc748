"""Predictions for rows in blocks: lazily for Dask collections, from Parquet files into Parquet files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from widemargin._files import replace_file
from widemargin.distributed.blocks import Block
from widemargin.distributed.recipes import frame_partitions, parquet_rows, rows_of
from widemargin.distributed.tables import as_frame
from widemargin.distributed.workers import block_map
from widemargin.exceptions import CapabilityError, DataError
from widemargin.rows import is_collection

_METHODS = {
    "predict": "prediction", "decision_function": "score", "predict_proba": "predict_proba",
    "randomized_proba": "randomized_proba",
}  # fmt: skip
"""The methods that can be called, and the names of the columns that their results are written to."""


def predict_in_blocks(model: Any, X: Any, *, method: str = "predict") -> Any:
    """Call a method of a model on a Dask array or data frame, lazily.

    Parameters
    ----------
    model : fitted classifier
        It is sent to every worker once.
    X : Dask array or data frame of shape (n, d)
        An array must be whole along its columns. Of a data frame the model gets the columns that it was fitted to.
    method : {"predict", "decision_function", "predict_proba", "randomized_proba"}, default="predict"

    Returns
    -------
    dask.array.Array of shape (n,) or (n, n_classes)
        Not computed yet, in the partitions of X. Scores of two classes are of shape (n,), as without Dask.

    Raises
    ------
    CapabilityError
        If the model has no such method.
    DataError
        If X is no Dask collection, or an array cut along its columns.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import KernelSVC
    >>> from widemargin.distributed import predict_in_blocks
    >>> X, y = make_moons(100, random_state=0)
    >>> clf = KernelSVC().fit(X, y)
    >>> scores = predict_in_blocks(clf, da.from_array(X, chunks=(30, 2)), method="decision_function")
    >>> bool(abs(scores.compute() - clf.decision_function(X)).max() < 1e-12)
    True
    """
    if not is_collection(X):
        raise DataError(f"X is a {type(X).__name__}; give a Dask array or data frame, or call model.{method}(X).")
    _check_method(model, method)
    from dask import array as da
    from dask import delayed

    held = delayed(_Answers(model, method), pure=True)
    lengths = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * X.npartitions
    nothing = _Answers(model, method).nothing()
    parts = [
        da.from_delayed(held(recipe.delayed), (length, *nothing.shape[1:]), dtype=nothing.dtype)
        for recipe, length in zip(frame_partitions(X), lengths, strict=True)
    ]
    return da.concatenate(parts)


def predict_files(
    model: Any,
    data: str | Path,
    out: str | Path,
    *,
    methods: Sequence[str] = ("predict", "decision_function"),
    keep: Sequence[str] = (),
    workers: Any = None,
) -> list[Path]:
    """Predict the rows of Parquet files into a folder of Parquet files, a block of rows at a time.

    Parameters
    ----------
    model : fitted classifier
        One that takes data frames.
    data : path of a Parquet file or folder
    out : path of a folder
        Created if it does not exist; must be empty. Part k holds the rows of block k (a row group), in order. A part
        appears when it is complete, so a lost worker or an interrupt leaves no partial file.
    methods : sequence of str, default=("predict", "decision_function")
        "predict" makes the column "prediction", "decision_function" the column "score" (with more than two classes one
        for each, "score CLASS"), "predict_proba" and "randomized_proba" one for each class, "predict_proba CLASS".
    keep : sequence of str, default=()
        Columns of the data to copy beside the predictions.
    workers : None, int or distributed.Client, default=None
        As in `block_map`.

    Returns
    -------
    list of Path
        The parts.

    Raises
    ------
    CapabilityError
        If the model has no such method.
    DataError
        If the data cannot be read, a column is missing, or the folder is not empty.
    """
    for method in methods:
        _check_method(model, method)
    place = Path(out).absolute()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise DataError(f"{place} exists and is no empty folder. Name another one, or empty it.")
    features = getattr(model, "feature_names_in_", None)
    columns = None if features is None else [*map(str, features), *(name for name in keep if name not in features)]
    recipes = parquet_rows(data, columns=columns)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{place}: the folder cannot be made ({error.strerror}). Name another one.") from error
    blocks = block_map(recipes, workers, hold=False)
    try:
        parts = blocks.map(_write_part, (model, place, tuple(methods), tuple(keep)))
    finally:
        blocks.close()
        for begun in place.glob(".part-*.tmp"):  # by a worker that was killed while it wrote
            begun.unlink(missing_ok=True)
    return [Path(part) for part in parts]


class _Answers(NamedTuple):
    """A model and the method to call, as a function of rows."""

    model: Any
    method: str

    def __call__(self, rows: Any) -> Any:
        if not rows_of(rows):  # a partition that a filter has emptied
            return self.nothing()
        found = np.asarray(getattr(self.model, self.method)(fitted_columns(self.model, as_frame(rows))))
        return found if self.method == "predict" else found.astype(np.float64, copy=False)

    def nothing(self) -> Any:
        """The result for no rows; Dask needs its shape and type before anything is computed."""
        classes = np.asarray(self.model.classes_)
        flat = self.method == "predict" or (self.method == "decision_function" and len(classes) == 2)
        dtype = classes.dtype if self.method == "predict" else np.dtype(np.float64)
        return np.empty((0,) if flat else (0, len(classes)), dtype)


def fitted_columns(model: Any, X: Any) -> Any:
    """The columns of a frame that a model was fitted to, where it knows them; anything else as it is.

    Raises
    ------
    DataError
        If some are missing.
    """
    names = getattr(model, "feature_names_in_", None)
    if names is None or not hasattr(X, "columns"):
        return X
    absent = [str(name) for name in names if name not in X.columns]
    if absent:
        raise DataError(f"X lacks {len(absent)} column(s) of the model: {', '.join(map(repr, absent[:5]))}. Add them.")
    return X[list(names)]


def _check_method(model: Any, method: str) -> None:
    if method not in _METHODS or not hasattr(model, method):
        able = [name for name in _METHODS if hasattr(model, name)]
        raise CapabilityError(f"{type(model).__name__} cannot be asked by {method!r}; it offers {', '.join(able)}.")


def _write_part(block: Block, message: tuple[Any, Path, tuple[str, ...], tuple[str, ...]]) -> str:
    """Write what the methods of a model say of a block, beside the columns to keep, into a folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (model, folder, methods, keep), table = message, block.data
    absent = [name for name in keep if name not in table.column_names]
    if absent:
        raise DataError(f"the data have no column {absent[0]!r} to keep. Correct the name.")
    columns = {name: table[name] for name in keep}
    for method in methods:
        found, name = _Answers(model, method)(table), _METHODS[method]
        if found.ndim == 1:
            columns[name] = pa.array(found.tolist() if found.dtype == object else found)
        else:
            columns |= {f"{name} {label}": pa.array(found[:, j]) for j, label in enumerate(model.classes_)}
    part = folder / f"part-{block.index:06d}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    try:
        replace_file(part, sink.getvalue().to_pybytes())
    except OSError as error:
        raise DataError(
            f"{part}: the part cannot be written ({error.strerror}). Make room, or name another folder."
        ) from error
    return str(part)
