"""Sets of labels: pairs that occur together, `LabelPairsDisplay`, and the tree of a hierarchy, `HierarchyDisplay`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import Features, Floats, Ints
from widemargin.exceptions import DataError
from widemargin.plotting._canvas import COLOURS, axes_for, tidy
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
    """How much more often two labels occur together than by chance, and a model's weights of these pairs.

    Made by `from_estimator`; the constructor takes the computed arrays.

    Parameters
    ----------
    lift : ndarray of shape (m, m)
        Logarithm to base 2 of the number of rows with both labels over the number expected of independent labels, with
        0.5 added to both numbers, so that it is finite; 0 on the diagonal.
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


@dataclass(kw_only=True, eq=False, repr=False)
class HierarchyDisplay:
    """A tree of nodes, one on each line, with the precision and recall of each beside it.

    Made by `from_estimator`; the constructor takes the computed arrays.

    Parameters
    ----------
    names : list of str
        Of the nodes, each below its parent.
    parent : ndarray of shape (m,)
        Line of the parent of each node, -1 for roots.
    depth : ndarray of shape (m,)
    count : ndarray of shape (m,)
        Rows that have the node.
    precision, recall : ndarray of shape (m,)
        NaN where the node is never predicted, or never there.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from widemargin.plotting import HierarchyDisplay
    >>> HierarchyDisplay.from_estimator(clf, X, Y)  # doctest: +SKIP
    """

    names: list[str]
    parent: Ints
    depth: Ints
    count: Ints
    precision: Floats
    recall: Floats

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Features, y: Features, *, most: int = 40, axes: "list[Axes] | None" = None
    ) -> "HierarchyDisplay":
        """Plot the nodes of a fitted `HierarchicalSVC` with its rates on some rows, preferably test rows.

        Parameters
        ----------
        estimator : fitted HierarchicalSVC
        X : array-like or sparse matrix of shape (n, d)
        y : array-like or sparse matrix of shape (n, k)
            0 or 1.
        most : int, default=40
            At most this many nodes are shown, the most frequent ones of y. A node with several parents is below one.
        axes : list of two matplotlib Axes, optional

        Returns
        -------
        HierarchyDisplay

        Raises
        ------
        DataError
            If the estimator has no hierarchy, or y other nodes.
        """
        check_is_fitted(estimator)
        graph = getattr(estimator.model_, "graph", None)
        if graph is None:
            raise DataError(f"{type(estimator).__name__} has no hierarchy; give a HierarchicalSVC.")
        Y = label_columns(y, len(graph.names), "nodes")
        found, count = estimator.predict(X), Y.sum(axis=0)
        right, predicted = (found * Y).sum(axis=0), found.sum(axis=0)
        shown = set(np.argsort(-count, kind="stable")[:most].tolist())
        below: dict[int, list[int]] = {node: [] for node in (-1, *shown)}
        above = dict.fromkeys(shown, -1) | {q: p for p, q in graph.arcs.tolist() if p in shown and q in shown}
        for node in sorted(shown):
            below[above[node]].append(node)
        # Depth first, so that the nodes of a branch are lines one below the other.
        lines, stack, depth = list[int](), list(reversed(below[-1])), {-1: -1}
        while stack:
            node = stack.pop()
            depth[node] = depth[above[node]] + 1
            lines.append(node)
            stack.extend(reversed(below[node]))
        place = {-1: -1} | {node: line for line, node in enumerate(lines)}
        with np.errstate(invalid="ignore", divide="ignore"):
            precision, recall = right / predicted, right / count
        # A path says again what the line above says.
        ahead = {-1: ""} | {node: f"{graph.names[node]}{estimator._options.separator}" for node in lines}
        names = [str(graph.names[node]).removeprefix(ahead[above[node]]) for node in lines]
        return cls(
            names=names, parent=np.array([place[above[node]] for node in lines]),
            depth=np.array([depth[node] for node in lines]), count=count[lines], precision=precision[lines],
            recall=recall[lines],
        ).plot(axes=axes)  # fmt: skip

    def plot(self, axes: "list[Axes] | None" = None) -> "HierarchyDisplay":
        """Draw the tree, and beside it precision and recall.

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
        lines = np.arange(len(self.names))
        self.axes_ = axes_for(axes, 2, figsize=(8.0, 1.2 + 0.2 * len(self.names)), sharey=True)
        tree, rates = self.axes_
        self.figure_ = tree.figure
        for line, (name, above, depth, count) in enumerate(
            zip(self.names, self.parent, self.depth, self.count, strict=True)
        ):
            if above >= 0:
                tree.plot([depth - 1, depth - 1, depth - 0.15], [above + 0.4, line, line], color="0.6", linewidth=0.8)
            tree.text(depth, line, f" {name} ({count})", fontsize=8, va="center", ha="left")
        # The names of the deepest nodes need room to the right.
        tree.set_xlim(-0.2, self.depth.max(initial=0) + 2.0)
        tree.set_ylim(len(self.names) - 0.5, -0.5)
        tree.set_axis_off()
        tree.set_title("nodes (rows that have them)", fontsize=10, loc="left")
        rates.hlines(lines, self.precision, self.recall, color="0.8", linewidth=2.0, zorder=0)
        for values, name, marker, colour in (
            (self.precision, "precision", "o", "blue"), (self.recall, "recall", "s", "red"),
        ):  # fmt: skip
            rates.plot(values, lines, marker, color=COLOURS[colour], markersize=5, label=name)
        rates.set_xlim(-0.03, 1.03)
        rates.tick_params(left=False, labelleft=False)
        tidy(rates, x="share of the rows", y="")
        rates.legend(fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return self
