"""Where a network's inputs come from: rows that are read in batches, by their numbers."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from widemargin._typing import Features, Ints
from widemargin.estimators.thresholds.scores import row_wise
from widemargin.exceptions import DataError


class Inputs:
    """Rows that a network reads: array, table of numbers, CSR matrix, tensor, map-style dataset or its loader.

    Parameters
    ----------
    X : array-like, data frame or CSR matrix of shape (n, ...), tensor of shape (n, ...), Dataset or DataLoader
        Of a dataset whose items are tuples the first part is the input. A loader is asked for its dataset and for how
        it puts items together; its order and its batches are left to the training.
    device : torch.device
        Where batches are sent; the rows stay where they are.

    Attributes
    ----------
    table : array, CSR matrix or data frame of shape (n, ...)
        The rows where NumPy can slice them; in place of a tensor or dataset a column of the numbers of its rows.

    Raises
    ------
    DataError
        If the rows cannot be read by number, or are not finite numbers.
    """

    def __init__(self, X: Any, device: torch.device) -> None:
        self.device, self._collate = device, default_collate
        if isinstance(X, DataLoader):
            self._collate, X = X.collate_fn, X.dataset
        if isinstance(X, IterableDataset) or (isinstance(X, Dataset) and not hasattr(X, "__len__")):
            raise DataError(
                f"{type(X).__name__} has no length, and a goal needs every row by its number: give a map-style Dataset."
            )
        self._rows: Any = X
        self.table: Features
        if isinstance(X, Dataset | torch.Tensor):
            self.table = np.arange(len(X))[:, None]
            return
        self.table = row_wise(X)
        self._rows = self.table if sp.issparse(self.table) else np.asarray(self.table)
        values = self._rows.data if sp.issparse(self._rows) else self._rows
        if values.dtype.kind not in "fiub":
            raise DataError(f"a network reads numbers, and X holds {values.dtype}: encode its columns first.")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise DataError(f"X holds {np.count_nonzero(~np.isfinite(values))} numbers that are NaN or infinite.")

    @property
    def is_table(self) -> bool:
        """Whether NumPy can slice the rows."""
        return not isinstance(self._rows, Dataset | torch.Tensor)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row as the network sees it."""
        return tuple(self.batch(np.arange(1)).shape[1:])

    def __len__(self) -> int:
        return int(self._rows.shape[0]) if hasattr(self._rows, "shape") else len(self._rows)

    def batch(self, numbers: Ints) -> torch.Tensor:
        """The inputs of the rows with these numbers, in single precision where they are a table."""
        rows = self._rows
        if isinstance(rows, torch.Tensor):
            return rows[torch.as_tensor(numbers, device=rows.device)].to(self.device)
        if isinstance(rows, Dataset):
            items = self._collate([rows[int(number)] for number in numbers])
            return torch.as_tensor(items[0] if isinstance(items, tuple | list) else items).to(self.device)
        dense = rows[numbers].toarray() if sp.issparse(rows) else rows[numbers]
        return torch.as_tensor(dense.astype(np.float32)).to(self.device)
