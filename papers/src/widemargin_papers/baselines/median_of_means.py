"""Median-of-means training (Lecue, Lerasle and Mathieu 2020; Prasad et al. 2020): `MedianOfMeansClassifier`."""

from dataclasses import field
from numbers import Real
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval

from widemargin.extending import Floats, kinds, parameters
from widemargin_papers.baselines.linear_classifier import (
    LinearBaseline,
    LinearModel,
    Task,
    ended,
    norms2,
)
from widemargin_papers.baselines.robust_start import clipped_start, logistic, margins, row_gradient, weights_of

__all__ = ["MedianOfMeansClassifier"]

_START_TOL = 1e-5
_LATE = 50.0
"""Steps after which the step size begins to fall."""


@parameters
class MedianOfMeansClassifier(LinearBaseline):
    """Linear classifier whose gradient steps look at medians of the means of small random blocks of rows.

    Logistic losses with `1/(2 C sum s) |w|^2`. Each step draws a new partition of the rows into blocks. With
    `method="blocks"` (Lecue, Lerasle and Mathieu 2020, Algorithm 1) the blocks are ordered by their mean loss, and the
    step follows the mean gradient of those around the median; with `method="gradient"` it follows the median over the
    blocks of the mean gradient, coordinate by coordinate (as in Prasad, Suggala, Balakrishnan and Ravikumar 2020). The
    mean of the iterates of the second half is kept. More than half of the blocks should have no outlier: with a share e
    of outliers `(1 - e)^block_size > 1/2`.

    It resists leverage, heavy tails and wrong labels. Features should have similar scales, for the step size is the
    same for all. There is no certificate, because the blocks change and so no fixed function is minimised. That is also
    why it is not a risk of `widemargin.RiskClassifier`, which minimises one function of the losses.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regulariser, as in `sklearn.linear_model.LogisticRegression`.
    block_size : int, default=3
        Rows in a block. Raising it makes steps steadier, but tolerates fewer outliers; with all rows in one block the
        model is a logistic regression.
    method : {"blocks", "gradient"}, default="blocks"
        "gradient" cannot learn a feature that is 0 in most rows: its median gradient is 0.
    central : float, default=0.1
        Share of the blocks around the median that "blocks" follows; 0 is the paper's single block. Raising it makes
        steps steadier, but tolerates fewer outliers.
    start : {"clipped", "zero"}, default="clipped"
        "clipped": a logistic regression on rows whose norms are clipped to the median one.
    fit_intercept : bool, default=True
        The intercept is not regularised.
    max_iter : int, default=300
        Steps; each looks at all rows.
    random_state : int, RandomState or None, default=None
        The partitions.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning. Classes share it equally.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.

    Attributes
    ----------
    coef_ : ndarray of shape (n_problems, n_features)
        One row for two classes, else one a class.
    intercept_ : ndarray of shape (n_problems,)
    classes_ : ndarray of shape (n_classes,)
    risk_ : float
        Median over blocks of the mean loss at the last step, the largest of all classes.
    n_iter_ : int
    status_ : str
        "converged" (all steps were made), "time_limit" or "interrupted".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin_papers.baselines import MedianOfMeansClassifier
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = X @ [1.0, -2.0] > 0.0
    >>> X[:40] *= 10.0; y[:40] = ~y[:40]
    >>> MedianOfMeansClassifier(random_state=0).fit(X, y).score(X[40:], y[40:]) > 0.95
    True
    """

    C: kinds.Positive = field(default=1.0, kw_only=False)
    block_size: kinds.Count = 3
    method: Literal["blocks", "gradient"] = "blocks"
    central: Annotated[float, Interval(Real, 0.0, 1.0, closed="both")] = 0.1
    start: Literal["clipped", "zero"] = "clipped"
    fit_intercept: bool = True
    max_iter: kinds.Count = 300

    def _fit_task(self, task: Task) -> LinearModel:
        lam = 1.0 / (self.C * float(task.weight.sum()))
        rng, steps, risk = np.random.default_rng(task.seed), 0, np.inf
        w, total, counted = np.zeros(task.X.shape[1] + 1), np.zeros(task.X.shape[1] + 1), 0
        # 1 / the curvature of the mean loss on a row of median size
        rate = 1.0 / (0.25 * (float(np.median(norms2(task.X))) + self.fit_intercept) + lam)
        try:
            if self.start == "clipped":
                w = weights_of(clipped_start(task, self.C, self.fit_intercept, _START_TOL, self.max_iter))
            while steps < self.max_iter:
                gradient, risk = self._look(task, w, self._blocks(task, rng))
                gradient[:-1] += lam * w[:-1]
                w = w - rate / np.sqrt(1.0 + steps / _LATE) * gradient
                steps += 1
                if 2 * steps > self.max_iter:
                    total, counted = total + w, counted + 1
                if task.budget.exhausted:
                    break
        except KeyboardInterrupt:
            task.budget.interrupted = True
        w = total / counted if counted else w
        status = ended(task.budget, converged=steps == self.max_iter)
        return LinearModel(w[:-1], float(w[-1]), steps, status, {"risk": risk})

    def _blocks(self, task: Task, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Numbers of the rows of each block, shape (n_blocks, block_size); rows that are left over are not used."""
        n = task.y.shape[0]
        size = min(self.block_size, n)
        return rng.permutation(n)[: n // size * size].reshape(-1, size)

    def _look(self, task: Task, w: Floats, blocks: npt.NDArray[np.int64]) -> tuple[Floats, float]:
        """The robust gradient of the mean loss, and the median of the blocks' mean losses."""
        loss, slope = logistic(margins(task, w))
        weight = task.share * blocks.size  # 1 for equal weights
        means = (weight * loss)[blocks].mean(axis=1)
        if self.method == "gradient":
            return self._median_gradient(task, weight * slope, blocks), float(np.median(means))
        count = blocks.shape[0]
        used = max(1, round(self.central * count))
        first = (count - used) // 2
        order = np.argpartition(means, (first, first + used - 1))
        by_row = np.zeros(loss.shape[0])
        rows = blocks[order[first : first + used]].ravel()
        by_row[rows] = (weight * slope)[rows] / rows.shape[0]
        return row_gradient(task, by_row, self.fit_intercept), float(np.median(means))

    def _median_gradient(self, task: Task, slope: Floats, blocks: npt.NDArray[np.int64]) -> Floats:
        """Median over the blocks, in each coordinate, of their mean gradients."""
        count, size = blocks.shape
        signed = (slope * task.y)[blocks.ravel()] / size
        mix = sp.csr_array((signed, blocks.ravel(), np.arange(0, count * size + 1, size)), (count, task.y.shape[0]))
        product = mix @ task.X
        means = product.toarray() if sp.issparse(product) else product
        bias = np.median(signed.reshape(count, size).sum(axis=1)) if self.fit_intercept else 0.0
        return np.append(np.median(means, axis=0), bias)
