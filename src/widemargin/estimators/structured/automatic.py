"""C, offset, units and kernel width of a ready-made structural SVM, chosen inside `fit` on rows held out.

A path over C from warm starts is scored on held-out rows, with every offset on every model of it. Where columns have
unlike scales, there are two paths: with a unit for each column, and with one for all. Where the rows are mapped and
gamma is None, twice the usual gamma is tried, and so on while that scores better, else half of it; each has a path of
its own that begins at the best C so far.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.utils import _safe_indexing, check_random_state

from widemargin._typing import ArrayLike, Matrix
from widemargin.estimators._options import budget_of
from widemargin.estimators.structured.structural_search import Folds, PathSearch, Scoring, StructuralCell
from widemargin.estimators.structured.training import Chosen, ReadyMadeSVM, Standard, mean_square
from widemargin.kernels.functions import resolve_kernel
from widemargin.rows import stacked
from widemargin.structured.learners.problem import check_examples, example_weights
from widemargin.structured.model import Examples, StructuredModel


@dataclass(frozen=True)
class Automatic:
    """How `C="auto"` chooses: quicker than `structural_search` by default, as it is a part of every `fit`.

    Attributes
    ----------
    fewest : int
        Rows below which nothing is chosen: their folds would have a handful each.
    many : int
        Rows from which a third of them, held out once, tells models apart; three folds take three times as long.
    most : int
        Rows that are looked at: of more, so many are drawn. A path over a hundred thousand rows of a thousand labels
        would take ten times as long as the training at the C chosen, which is the same for all rows: at four times the
        rows it was as good as or better than a half or a fourth of it on all six drawn problems that were looked at.
    tol : float
        Relative gap of the models of the path: on yeast and topics of RCV1 as good a choice as 5%, in half the passes.
    passes : int
        Most for each C. Where they do not reach the gap the path ends, at the C before.
    offsets : tuple of float
        Nearest to 0 first. Finer steps changed the scores by less than their standard errors.
    margin_offsets : tuple of float
        Tried after these for margin rescaling, whose models predict far too few labels. Their range was chosen on
        CAL500. On 11 other public sets the Jaccard index then rose on 10, on Corel5k from .092 to .118, and fell on
        birds from .585 to .577. Slack rescaling has no use for them, and they hide a width of the kernel that is wrong:
        all labels are predicted then.
    slack_from, margin_from : int
        Where the nine Cs begin, in half decades: where the regulariser is a tenth of the mean square of the rows, or
        less than that for margin rescaling, whose weights are too small to predict any label at such a C.
    worth : float
        What the next C, half a decade larger, must score more, of scores up to 1: it takes two to three times the
        passes.
    doublings : int
        Most steps from the usual width of a kernel, up or down.
    alike, alike_words : float
        Columns whose standard deviations, of sparse rows largest values, differ by no more than this factor share one
        unit. Words differ by 20 in rows of length 1, and gained nothing by units of their own.
    """

    fewest: int = 20
    many: int = 2000
    most: int = 10_000
    tol: float = 0.1
    passes: int = 100
    offsets: tuple[float, ...] = (0.0, 0.05, -0.05, 0.1, 0.2, 0.3)
    margin_offsets: tuple[float, ...] = (0.45, 0.6, 0.8)
    slack_from: int = 2
    margin_from: int = 5
    worth: float = 0.002
    doublings: int = 3
    alike: float = 2.0
    alike_words: float = 100.0


def choose(
    model: ReadyMadeSVM, C: float | str, offset: float | str, structure: StructuredModel, X: Examples,
    y: Examples, sample_weight: ArrayLike | None = None, scoring: Scoring = None, *,
    complete: Examples | None = None, by_class: bool = False, how: Automatic = Automatic(),
) -> Chosen:  # fmt: skip
    """C, offset and gamma of a ready-made model as its parameters say: as they are, or by validation.

    With `C="auto"` a path over C at the model's own rescaling is scored on rows held out, with every offset, if that is
    "auto", on every model of it; the best pair is taken. A number of C leaves an offset of "auto" at 0, and a gamma of
    None at "scale".

    Parameters
    ----------
    structure : StructuredModel
        Its model, which refuses examples that do not fit.
    X, y, sample_weight
        Checked examples, their labels and weights; those of weight 0 are left out.
    scoring : str or callable, default=None
        Where the options name none. None: the model's own `score`.
    complete : sequence or matrix, default=None
        The labels without what marks those that nobody has looked at.
    by_class : bool, default=False
        Whether every label is a class and every fold needs all of them, as a matrix of costs does.
    """
    started, gamma = time.perf_counter(), "scale" if model._options.gamma is None else model._options.gamma
    as_given = Chosen(1.0 if C == "auto" else float(C), 0.0 if offset == "auto" else float(offset), gamma)
    if C != "auto":
        return as_given
    # Before folds give the rows other numbers.
    n = check_examples(structure, X, y)
    structure.prepare(X, y if complete is None else complete)
    if sample_weight is not None:
        # A weight of 0 leaves an example out: here, too.
        weight = example_weights(sample_weight, n)
        there = np.flatnonzero(weight > 0.0)
        X, y, sample_weight, n = _safe_indexing(X, there), _safe_indexing(y, there), weight[there], there.shape[0]
    if n < how.fewest:
        return as_given
    rng = check_random_state(model.random_state)
    # A map has features of its own.
    standards = [None] if model.feature_map is not None else _standards(X, model._options.fit_intercept, how)
    if n > how.most:
        drawn = np.sort(rng.permutation(n)[: how.most])
        if by_class:
            drawn = np.union1d(drawn, np.unique(y, return_index=True)[1])
        X, y = _safe_indexing(X, drawn), _safe_indexing(y, drawn)
        sample_weight = None if sample_weight is None else weight[there][drawn]
        n = len(drawn)
    folds = _folds(y if by_class else None, n, rng, how)
    if folds is None:
        return as_given
    paths = _Paths(model, X, y, sample_weight, scoring, folds, rng, offset == "auto", how)
    return paths.chosen(standards, as_given)._replace(seconds=time.perf_counter() - started)


class _Paths:
    """The paths over C of one choice, which share rows, folds and the time."""

    def __init__(
        self, model: ReadyMadeSVM, X: Examples, y: Examples, weight: ArrayLike | None, scoring: Scoring, folds: Folds,
        rng: np.random.RandomState, any_offset: bool, how: Automatic,
    ) -> None:  # fmt: skip
        self.model, self.X, self.y, self.weight, self.folds, self.rng, self.how = model, X, y, weight, folds, rng, how
        self.options = model._options
        self.scoring = self.options.scoring or scoring
        self.plain = clone(model).set_params(C=1.0, max_iter=min(how.passes, model.max_iter), callbacks=None)
        if hasattr(self.plain, "calibration"):
            # Probabilities know no C, and sets by probability do not tell one C from another.
            decode = "best" if self.options.decode == "expected" else self.options.decode
            self.options = replace(self.options, decode=decode)
            self.plain.set_params(calibration=None, solver_options=self.options)
        self.rescaling = model._rescaling_of(y)
        self.offsets: Sequence[float | None] = [None]
        if any_offset:
            self.offsets = how.offsets + (how.margin_offsets if self.rescaling == "margin" else ())
            self.options = replace(self.options, offset=0.0)
            self.plain.set_params(solver_options=self.options)
        limit = None if model.time_budget is None else 0.5 * model.time_budget
        self.budget, self.told = budget_of(limit, model.callbacks, self.options.verbose), 0

    def chosen(self, standards: Sequence[Standard | None], as_given: Chosen) -> Chosen:
        """The best of a path in each of these units; of mapped rows the width is chosen, too, where it is not given."""
        best, standard, gamma, half = None, standards[0], as_given.gamma, self.how.margin_from
        if self.rescaling == "slack":
            half = self.how.slack_from
        for units in standards:
            rows = self.X
            if units is not None:
                rows = units.rows(rows) if hasattr(rows, "shape") else [units.rows(part) for part in rows]
            search = PathSearch(
                self.plain, rows, self.y, self.scoring, self.folds, self.rng, tol=self.how.tol, within=0.0,
                worth=self.how.worth,
            )  # fmt: skip
            if self.weight is not None:
                search.weight = np.asarray(self.weight)
                search.n_rows *= float(search.weight.mean())  # the losses of all rows weigh as much as those of so many
            Cs = [10.0 ** (some / 2.0) / search.n_rows for some in range(half, half + 9)]
            cell = self.best(search, Cs, gamma)
            if cell is not None and (best is None or cell.score > best.score):
                best, standard = cell, units
            if self.budget.exhausted:
                break
        if best is None:
            return as_given._replace(C=Cs[2], standard=standard, interrupted=self.budget.interrupted)
        if standards == [None] and self.options.gamma is None and self.options.kernel != "linear":
            best, gamma = self.width(search, Cs, best)
        offset = as_given.offset if best.offset is None else best.offset
        return Chosen(best.C, offset, gamma, 0.0, best.score, standard, self.budget.interrupted)

    def best(self, search: PathSearch, Cs: Sequence[float], gamma: float | str) -> StructuralCell | None:
        """The cell of the smallest C whose next one is not worth its time."""
        search.model = self.plain.set_params(solver_options=replace(self.options, gamma=gamma))
        best: StructuralCell | None = None
        try:
            for cell in search.path(self.rescaling, Cs, [None], self.offsets, 1, self.budget, None):
                # A C that the passes of the path do not solve would not be solved by the final training either.
                if best is not None and cell.gap > max(self.how.tol, self.model.tol):
                    break
                self.told += 1
                self.budget.tell(f"choice of C={cell.C:.4g}", self.told, cell.score, cell.gap, cell.standard_error)
                if best is None or cell.score > best.score + self.how.worth:
                    best = cell
        except KeyboardInterrupt:
            self.budget.interrupted = True
        return best

    def width(
        self, search: PathSearch, Cs: Sequence[float], best: StructuralCell
    ) -> tuple[StructuralCell, float | str]:
        """The best cell, and the width of its kernel: the usual one doubled while that scores better, else halved."""
        rows, options = self.X if hasattr(self.X, "shape") else stacked(self.X), self.options
        scale = resolve_kernel(options.kernel, rows, gamma="scale", degree=options.degree, coef0=options.coef0).gamma
        gamma: float | str = "scale"
        for factor in (2.0, 0.5):
            for step in range(1, self.how.doublings + 1):
                cell = self.best(search, Cs[Cs.index(best.C) :], scale * factor**step)
                if cell is None or cell.score <= best.score:
                    break
                best, gamma = cell, scale * factor**step
            if gamma != "scale":
                break
        return best, gamma


def _standards(X: Examples, centred: bool, how: Automatic) -> list[Standard]:
    """A unit for each column, where columns differ, and one unit for all."""
    rows: Matrix = X if hasattr(X, "shape") else stacked(X)
    centre, alike = np.zeros(rows.shape[1]), how.alike
    if isinstance(rows, np.ndarray) and centred:
        centre = rows.mean(axis=0, dtype=np.float64)
        rows = rows - centre
    found = [Standard(centre, np.ones_like(centre), mean_square(rows) ** 0.5)]
    if isinstance(rows, np.ndarray):
        scale = np.square(rows, dtype=np.float64).mean(axis=0) ** 0.5
    else:
        scale, alike = abs(rows).max(axis=0).toarray().ravel().astype(np.float64), how.alike_words
    # What is left of a constant column is the rounding of its mean.
    varies = scale > np.finfo(np.float64).eps * rows.shape[0] * np.abs(centre)
    if varies.any() and scale[varies].max() > alike * scale[varies].min():
        units = Standard(np.zeros_like(centre), np.where(varies, scale, 1.0), 1.0)
        found.insert(0, units._replace(centre=centre, size=mean_square(units.rows(rows)) ** 0.5))
    return found


def _folds(classes: Examples | None, n: int, rng: np.random.RandomState, how: Automatic) -> Folds | None:
    """A third of many rows, held out once, or three folds.

    With classes each fold learns from all of them: the rows of a class of fewer than three are in all folds, and held
    out in none. None where too few rows are left.
    """
    if classes is None:
        one = ShuffleSplit(1, test_size=1 / 3, random_state=rng)
        return list((one if n >= how.many else KFold(3, shuffle=True, random_state=rng)).split(np.zeros(n)))
    _, number, rows_of = np.unique(classes, return_inverse=True, return_counts=True)
    common, rare = (np.flatnonzero(part) for part in (rows_of[number] >= 3, rows_of[number] < 3))
    if len(common) < how.fewest or (rows_of >= 3).sum() < 2:
        return None
    folds = StratifiedKFold(3, shuffle=True, random_state=rng).split(common, number[common])
    splits = [(np.concatenate([common[train], rare]), common[test]) for train, test in folds]
    return splits[:1] if n >= how.many else splits
