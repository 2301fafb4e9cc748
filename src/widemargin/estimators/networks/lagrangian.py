"""Training a PyTorch module by the proxy-Lagrangian of Cotter et al. (2019): one player moves the weights, one prices.

The weights descend along a differentiable stand-in for the Lagrangian, in which each decision is replaced by a smooth
function of its score. The prices of the constraints ascend by the 0/1 rates, which are what the goal is about: a
stand-in that is too optimistic cannot talk them down.

A. Cotter et al., "Optimization with Non-Differentiable Constraints with Applications to Fairness, Recall, Churn, and
Other Goals", JMLR 20, 2019 (Algorithm 2, with projected ascent for the prices).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from sklearn.utils.validation import _get_feature_names
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from widemargin._typing import Bools, Features, Floats, Ints
from widemargin.estimators.thresholds.scores import row_wise
from widemargin.exceptions import DataError
from widemargin.goals.binding.tied_goal import TiedGoal


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
    names : ndarray of str or None
        Of the columns of a data frame.

    Raises
    ------
    DataError
        If the rows cannot be read by number, or are not finite numbers.
    """

    def __init__(self, X: Any, device: torch.device) -> None:
        self.device, self._collate, self.names = device, default_collate, None
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
        self.names = _get_feature_names(X)
        self._rows = self.table if sp.issparse(self.table) else _array_of(self.table)
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
            first = items[0] if isinstance(items, tuple | list) else items
            if not isinstance(first, torch.Tensor | np.ndarray):
                raise DataError(
                    f"items of {type(rows).__name__} are put together as a {type(first).__name__}, and the network "
                    "reads one tensor: give a DataLoader whose collate_fn makes one of them."
                )
            return torch.as_tensor(first).to(self.device)
        dense = rows[numbers].toarray() if sp.issparse(rows) else rows[numbers]
        return torch.as_tensor(dense.astype(np.float32)).to(self.device)


def _array_of(table: Any) -> npt.NDArray[Any]:
    """A table as an array; NumPy takes numbers that pandas keeps with a mask (`Float64`, `Int64`) for objects."""
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame) and all(
        kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values()
    ):
        return np.asarray(frame.select(nw.all().cast(nw.Float64)).to_numpy())
    return np.asarray(table)


class Part(NamedTuple):
    """Some rows of one source of a goal: where a network reads them, and their numbers there."""

    inputs: Inputs
    numbers: Ints


RATES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "logistic": lambda score: torch.nn.functional.softplus(score) / float(np.log(2.0)),
    "sigmoid": torch.sigmoid,
    "ramp": lambda score: torch.clamp(0.5 + 0.5 * score, 0.0, 1.0),
}
"""Stand-ins for the decision `score > 0`: an upper bound, convex in the score, and two that stay within 0 and 1."""


def scores_of(network: torch.nn.Module, part: Part, batch_size: int) -> Floats:
    """Scores of rows in evaluation mode, shape (n,)."""
    network.eval()
    scores = np.empty(len(part.numbers))
    with torch.no_grad():
        for place in in_batches(np.arange(len(scores)), batch_size):
            scores[place] = one_score(network, part.inputs.batch(part.numbers[place])).double().cpu().numpy()
    return scores


def one_score(network: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """The output of a network for n rows as a vector of n scores; floating numbers come in the network's precision.

    Raises
    ------
    DataError
        If it is not one number a row, or the network fails on such rows, as where its first layer has another width.
    """
    if inputs.is_floating_point():
        inputs = inputs.to(next((one.dtype for one in network.parameters() if one.is_floating_point()), inputs.dtype))
    try:
        output: torch.Tensor = network(inputs)
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise DataError(f"the network fails on inputs of shape {tuple(inputs.shape)}, rows first: {error}") from error
    if output.ndim == 2 and output.shape[1] == 1:
        output = output[:, 0]
    if output.ndim != 1:
        raise DataError(
            f"the network gives an output of shape {tuple(output.shape)}; it must give one score a row, shape (n,) or "
            "(n, 1), larger for the positive class: end it with Linear(..., 1)."
        )
    return output


def in_batches(numbers: Ints, size: int) -> Iterator[Ints]:
    """Runs of at most `size` numbers."""
    for first in range(0, len(numbers), size):
        yield numbers[first : first + size]


@dataclass(frozen=True)
class Pricing:
    """How the prices of constraints move.

    Attributes
    ----------
    rate : float
        What a price gains in one epoch for each unit of a rate by which its constraint is missed; the prices themselves
        are objective per unit of a rate.
    highest : float
        Where they end.
    growth : float
        By this factor a price rises after an epoch where the rows of the training keep its bound and others do not.
    """

    rate: float
    highest: float
    growth: float = 1.5


def excesses(tied: TiedGoal, mass: Floats) -> Floats:
    """By how much decisions miss each linear bound, in units of its scale, shape (m,); below 0 where they keep it."""
    _, values = tied.coefficients.totals(mass, tied.cell_weight - mass, tied.n_constraints)
    return np.asarray((values - tied.bound) / tied.scale)


class ProxyLagrangian:
    """The two players of one training run.

    Parameters
    ----------
    network : torch.nn.Module
        Changed in place.
    optimizer : torch.optim.Optimizer
        Over its parameters.
    tied : TiedGoal
        On the rows to learn from.
    rows : sequence of Part
        For each source of the goal.
    rates : str
        One of `RATES`.
    steps : int
        Batches of an epoch at least.

    Attributes
    ----------
    prices : ndarray of shape (m,)
        Of the constraints, in objective per unit of a rate.
    scale : float
        Of the objective: about its largest value.
    average : torch.nn.Module
        Running mean of the network's weights over about one epoch. The players circle around their solution, and the
        mean of a round lies nearer to it than any point of it.
    """

    def __init__(
        self, network: torch.nn.Module, optimizer: torch.optim.Optimizer, tied: TiedGoal,
        rows: Sequence[Part], *, rates: str, pricing: Pricing, batch_size: int,
        steps: int, rng: np.random.RandomState,
    ) -> None:  # fmt: skip
        self.network, self.optimizer, self.tied, self.rows = network, optimizer, tied, rows
        self.pricing, self.batch_size, self.steps, self.rng = pricing, batch_size, steps, rng
        self._rate = RATES[rates]
        self._cell = np.concatenate([part.cell for part in tied.sources]).astype(np.int64)
        self._weight = np.concatenate([part.weights for part in tied.sources])
        # Rows that neither the objective nor a constraint looks at teach nothing.
        touched = np.diff(tied.coefficients.indptr) > 0
        touched |= (tied.coefficients.alpha0 > 0.0) | (tied.coefficients.beta0 > 0.0)
        self._used = np.flatnonzero(touched[self._cell] & (self._weight > 0.0))
        self._first = np.cumsum([0, *(len(numbers) for _, numbers in rows)])
        self.scale = float(np.maximum(tied.coefficients.alpha0, tied.coefficients.beta0) @ tied.cell_weight) or 1.0
        self._positive: Bools = np.zeros(len(self._cell), dtype=bool)  # the latest decision on each row
        self._mass = np.zeros(len(tied.cell_weight))
        self.prices = np.zeros(tied.n_constraints)
        self.average = copy.deepcopy(network)

    def epoch(self, *, priced: bool) -> float:
        """Look at every row as often as gives the steps; the mean loss. Without `priced` the prices stay as they are.

        Raises
        ------
        DataError
            If the loss is no finite number.
        """
        n, total, tied = len(self._used), 0.0, self.tied
        looks = -(-self.steps // max(1, -(-n // self.batch_size)))
        orders = [self.rng.permutation(self._used) for _ in range(looks)]
        self.network.train()
        for batch in chain.from_iterable(in_batches(order, self.batch_size) for order in orders):
            # Batch normalisation cannot learn from a batch of one row, which may be left over at the end.
            if len(batch) == 1 and n > 1 and self.batch_size > 1:
                continue
            score = one_score(self.network, self._inputs(batch))
            loss = self._loss(score, batch, n / len(batch))
            if not torch.isfinite(loss):
                raise DataError(
                    f"the loss of a batch is {float(loss.detach())}: scale the inputs, or lower learning_rate."
                )
            self.optimizer.zero_grad()
            torch.autograd.backward(loss)
            self.optimizer.step()
            share = len(batch) / (n * looks)
            # The running mean moves towards the present weights by the share that the batch is of an epoch.
            with torch.no_grad():
                pairs = zip(self.average.state_dict().values(), self.network.state_dict().values(), strict=True)
                for mean, now in pairs:
                    if mean.is_floating_point():
                        mean.lerp_(now, share)
                    else:  # counters of batch normalisation
                        mean.copy_(now)
            total += float(loss.detach()) * share
            # The 0/1 rates are known cell by cell, so only the decisions that have turned need be added.
            positive = (score > 0.0).cpu().numpy()
            turned = self._weight[batch] * (positive.astype(np.float64) - self._positive[batch])
            self._mass += np.bincount(self._cell[batch], turned, len(self._mass))
            self._positive[batch] = positive
            if priced:
                # A step of projected ascent: a price rises as long as its constraint is missed by the 0/1 rates.
                step = self.pricing.rate * share * excesses(tied, self._mass)
                self.prices = np.clip(self.prices + step, 0.0, self.pricing.highest)
        return total

    def raise_prices(self, missed: Bools) -> None:
        """Raise the prices of constraints that other rows miss, shape (m,), and these rows keep.

        A network keeps bounds on rows that it knows by heart, so that these prices would stay as they are or fall.
        """
        grown = np.where(missed & (excesses(self.tied, self._mass) <= 0.0), self.pricing.growth, 1.0)
        self.prices = np.minimum(grown * self.prices, self.pricing.highest)

    def _inputs(self, batch: Ints) -> torch.Tensor:
        """Inputs of rows of any source, in this order."""
        if len(self.rows) == 1:
            return self.rows[0].inputs.batch(self.rows[0].numbers[batch])
        batch.sort()  # by source, in place: the caller's order follows
        cuts = np.searchsorted(batch, self._first)
        parts = [
            inputs.batch(numbers[batch[low:high] - first])
            for (inputs, numbers), first, low, high in zip(self.rows, self._first, cuts, cuts[1:], strict=False)
            if low < high
        ]
        return torch.cat(parts)

    def _loss(self, score: torch.Tensor, batch: Ints, share: float) -> torch.Tensor:
        """The Lagrangian at the present prices, decisions replaced by their stand-in, estimated from a batch."""
        positive, negative = self.tied.coefficients.per_cell(self.prices * self.scale / self.tied.scale)
        # Divided by the scale of the objective, so that learning rates mean the same for every goal, and multiplied by
        # `share`, the number of batches in an epoch, so that a batch estimates the sum over all rows.
        cell, weight = self._cell[batch], self._weight[batch] * share / self.scale
        cost = np.stack([positive[cell] * weight, negative[cell] * weight])
        costs = torch.as_tensor(cost, dtype=score.dtype, device=score.device)
        return (costs[0] * self._rate(score) + costs[1] * self._rate(-score)).sum()


@contextmanager
def reproducible(seed: int, device: torch.device, n_threads: int | None) -> Iterator[None]:
    """A seed and a number of threads of PyTorch inside; outside, both are as they were."""
    before = torch.get_num_threads()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        if n_threads is not None:
            torch.set_num_threads(n_threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
