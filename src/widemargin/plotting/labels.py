"""Pairs of labels that occur together, in the data and in a model: `LabelPairsDisplay`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import Features, Floats
from widemargin.exceptions import DataError
from widemargin.plotting._canvas import axes_for
from widemargin.rows import as_csr

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def label_columns(y: Features, k: int, what: str) -> npt.NDArray[Any]:
    """Labels of rows as a dense matrix with the k columns of a model, which are called `what` in the message.

    Raises
    ------
    DataError
        If y has other columns.
    """
    Y = as_csr(y, "y").toarray() if sparse.issparse(y) else np.asarray(y)
    if Y.ndim != 2 or Y.shape[1] != k:
        raise DataError(f"y has the shape {Y.shape} and the model {k} {what}.")
    return Y


@dataclass(kw_only=True, eq=False, repr=False)
class LabelPairsDisplay:
    """How much more often two labels occur together than by chance, and the weights that a model gives to pairs.

    Made by `from_estimator`; the constructor takes the computed arrays.

    Parameters
    ----------
    lift : ndarray of shape (m, m)
        Logarithm to base 2 of the number of rows with both labels over the number expected if labels were independent,
        with 0.5 added to both, so that it is finite for labels that never occur together; 0 on the diagonal.
    weight : ndarray of shape (m, m)
        Weights of pairs, NaN for pairs that the model has no weight for.
    names : list of str
        Of the labels.

    Attributes
    ----------
    images_ : list of matplotlib AxesImage
    axes_ : list of matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from widemargin.plotting import LabelPairsDisplay
    >>> LabelPairsDisplay.from_estimator(clf, Y)  # doctest: +SKIP
    """

    lift: Floats
    weight: Floats
    names: list[str]

    @classmethod
    def from_estimator(
        cls, estimator: Any, y: Features, *, most: int = 30, axes: "list[Axes] | None" = None
    ) -> "LabelPairsDisplay":
        """Plot the pairs of labels of a fitted `MultiLabelSVC` beside those of some rows.

        Parameters
        ----------
        estimator : fitted MultiLabelSVC
        y : array-like or sparse matrix of shape (n, k)
            0 or 1.
        most : int, default=30
            At most this many labels are shown, the most frequent ones of y.
        axes : list of two matplotlib Axes, optional

        Returns
        -------
        LabelPairsDisplay

        Raises
        ------
        DataError
            If the estimator has no pairs of labels, or y other labels.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "edges_"):
            raise DataError(f"{type(estimator).__name__} has no weights of pairs of labels; give a MultiLabelSVC.")
        k = len(estimator.classes_)
        Y = label_columns(y, k, "labels")
        weight = np.full((k, k), np.nan)
        first, second = estimator.edges_.T
        weight[first, second] = weight[second, first] = estimator.theta_
        shown = np.sort(np.argsort(-Y.sum(axis=0), kind="stable")[:most])
        on, n = Y[:, shown].astype(np.float64), Y.shape[0]
        alone = on.sum(axis=0)
        lift = np.log2((on.T @ on + 0.5) / (np.outer(alone, alone) / n + 0.5))
        np.fill_diagonal(lift, 0.0)
        names = [str(name) for name in estimator.classes_[shown]]
        return cls(lift=lift, weight=weight[np.ix_(shown, shown)], names=names).plot(axes=axes)

    def plot(self, axes: "list[Axes] | None" = None) -> "LabelPairsDisplay":
        """Draw two squares: rows and columns are labels.

        Parameters
        ----------
        axes : list of two matplotlib Axes, optional

        Returns
        -------
        self

        Raises
        ------
        MissingLibraryError
            If matplotlib is not installed.
        """
        self.axes_ = axes_for(axes, 2, figsize=(9.0, 4.6))
        self.figure_, self.images_ = self.axes_[0].figure, []
        places = np.arange(len(self.names))
        titles = ("rows with both labels beside chance (log2)", "weights of pairs")
        for part, values, title in zip(self.axes_, (self.lift, self.weight), titles, strict=True):
            # Symmetric about 0, so that white is neither for nor against; pairs without a weight stay grey.
            top = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
            part.set_facecolor("0.9")
            self.images_.append(part.imshow(values, cmap="RdBu", vmin=-top, vmax=top))
            part.set_title(title, fontsize=10, loc="left")
            part.set_xticks(places, self.names, rotation=90, fontsize=7)
            part.set_yticks(places, self.names, fontsize=7)
            self.figure_.colorbar(self.images_[-1], ax=part, shrink=0.8)
        return self
