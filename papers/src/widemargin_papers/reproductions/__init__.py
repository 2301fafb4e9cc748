"""The papers' experiments, one file a figure; `widemargin reproduce FIGURE` runs them."""

from widemargin_papers.reproductions.figures import FIGURES, FigureEntry

__all__ = ["FIGURES", "FigureEntry"]
