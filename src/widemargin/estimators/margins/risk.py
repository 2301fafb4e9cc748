"""A classifier that makes a risk of its margin losses small: `RiskClassifier`."""

from collections.abc import Sequence
from dataclasses import field, fields
from typing import Annotated, Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from widemargin._typing import Floats
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import parameters
from widemargin.estimators.margins import automatic
from widemargin.estimators.margins.margin_model import MarginModel
from widemargin.estimators.margins.pursuit import Pursuit, Recipe, Start, pursue
from widemargin.exceptions import DoubtfulModelWarning, warn
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import SURROGATES, CatoniLoss
from widemargin.losses.risks import RISKS, level_between, make_risk
from widemargin.problems.margin_pursuit import MarginPursuitProblem
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.smooth import risk_newton
from widemargin.solvers.smooth.risk_problem import RiskProblem


@parameters
class RiskClassifier(MarginModel):
    """Classifier that minimises a risk, a function of all rows' losses: their mean, the mean of the worst, and others.

    Minimises `1/2 |w|^2 + C n R(phi(y_1 f(x_1)), ..., phi(y_n f(x_n)))`, n the sum of the weights. With the mean for R
    it is logistic regression or `LinearSVC`. Risks that stress the largest losses suit a model that must not fail on an
    unknown minority of the rows; they trust every label. Risks that forgive large losses suit labels that may be wrong;
    `docs/which-risk.md` compares them. With more than two classes each is learned against the rest.

    Parameters
    ----------
    risk : str, default="mean"
        R, and what its `level` is. Convex, and solved to a proved gap:

        - "mean".
        - "cvar": the mean of the worst losses (superquantile; Rockafellar and Uryasev 2000). Level: their share of the
          rows, .8. At a small share weights of 0 may be optimal; a warning says so.
        - "spectral": a mixture of such means (Acerbi 2002). Level: pairs of a share and its weight,
          `[(.2, .2), (1, .8)]`.
        - "tilted": `log(mean(exp(t l))) / t` (Li et al. 2021). Level: t, 1. With t < 0 it forgives, and is not convex.
        - "chi-square": the largest mean over all reweightings within a chi-square distance: about the mean plus a
          multiple of the standard deviation (Duchi and Namkoong 2019). Level: the radius, .05.
        - "wasserstein": the largest mean over all shifts of the rows by the radius on average; for the logistic loss
          the mean plus `radius |w|` (Shafieezadeh-Abadeh et al. 2015). Level: the radius, .01, in units of the
          features.
        - "pursuit": the margins gather around a level (`MarginPursuitClassifier`, with its scale "auto"; `loss` is not
          used). Level: that margin, 1.

        Forgiving, not convex, and solved to a stationary point:

        - "trimmed": the mean of all losses but the worst. Level: the share left out, .1. A class of fewer rows may be
          left out whole.
        - "catoni": Catoni's robust mean of the losses (2012). Level: its scale, 1; a row whose loss is 1.41 scales or
          more off the robust mean does not count.
        - "label-noise": the likelihood of labels of which a share is wrong at random (Natarajan et al. 2013). Level:
          that share, .2.
        - "m-location": `min_theta theta + eta mean(log cosh(l - theta))` (Holland 2020). Level: eta > 1, 2.

        And "auto", where some of the data may be wrong. It tries the mean of either loss, and "label-noise" at .2 on
        tempered rows, each with C and with smaller ones, and takes what makes the labels of rows held out in five folds
        likeliest (but the plain mean at C unless another is ahead by half a standard error). Among tempered rows, one k
        times as far from the mean as the median row counts as 1/k, or 1/k^3, of a row. "auto" has no level and does not
        use `loss`.
    level : float or sequence of pairs, default=None
        The number that the risk takes; None is the default named above.
    loss : {"logistic", "squared-hinge"}, default="logistic"
        phi. "squared-hinge" is 0 from the margin 1 on, and grows faster for wrong rows.
    C : float, default=1.0
        Inverse strength of the regulariser, as in `LogisticRegression`.
    fit_intercept : bool, default=True
    kernel, gamma, feature_map, n_components
        As in `MarginPursuitClassifier`.
    tol : float, default=1e-6
        Largest relative gap of a convex risk: by how much the objective may exceed its least value. For the others:
        what a Newton step may still promise.
    max_iter : int, default=1000
    warm_start : bool, default=False
        Begin at the weights of the last fit. A fit with other classes or features, another feature map or an exact
        kernel starts afresh. A risk that is not convex may end elsewhere.
    random_state : int, RandomState or None, default=None
        Of the feature map, and the folds of "auto".
    time_budget, callbacks, n_jobs
        As in `MarginPursuitClassifier`.
    solver_options : PursuitOptions or dict, default=None
        `degree`, `coef0`, `cache_size` and `on_interrupt`; the others are of the risk "pursuit".

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_, intercept_, support_, support_vectors_, dual_coef_, gamma_, feature_map_
        As in `MarginPursuitClassifier`.
    chosen_ : tuple of dict
        Only with "auto"; one for each problem, the same for all classes: `risk`, `level`, `tempered` (the power, 0 for
        plain rows), `C` (the multiple of the parameter), `loss`, and `losses`, those in folds of the plain mean and of
        what was chosen (empty where there are too few rows or too little time).
    gap_ : ndarray of shape (n_problems,)
        Proved: the objective exceeds its least value by at most this, relative to it. NaN for risks that are not
        convex.
    objective_ : ndarray of shape (n_problems,)
        Objective over `C n`: the risk plus `|w|^2 / (2 C n)`.
    n_iter_ : int
        Newton steps; the largest number of all classes.
    n_gradients_ : int
        Gradients of single rows, of all classes.
    status_ : str
        "converged", "max_iter", "time_limit", "stopped" (by a callback) or "interrupted".
    history_ : tuple of dict
        `class`, `iteration`, `gradients`, `value`, `gap` and `seconds` of the iterations.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    MarginPursuitClassifier : Margin pursuit with all of its scales and solvers.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import RiskClassifier
    >>> X, y = make_classification(400, random_state=0)
    >>> clf = RiskClassifier("cvar", level=0.5).fit(X, y)
    >>> clf.status_, bool(clf.gap_[0] <= 1e-6), round(clf.score(X, y), 2)
    ('converged', True, 0.86)
    """

    risk: Annotated[str, StrOptions({*RISKS, "pursuit", "auto"})] = field(default="mean", kw_only=False)
    level: Any = None
    loss: Annotated[str, StrOptions(set(SURROGATES))] = "logistic"
    max_iter: kinds.Count = 1000

    def _problem(self, rows: RowBlocks, share: Floats, total: float) -> RiskProblem | MarginPursuitProblem:
        if self.risk == "pursuit":
            level = level_between(self.risk, 1.0 if self.level is None else self.level, 0.0, np.inf, "the margin level")
            loss = CatoniLoss(level, level)
            return MarginPursuitProblem(
                rows, np.ones(rows.n_rows), share, total, 1.0 / (total * self.C), loss, self.fit_intercept
            )
        risk, radius = make_risk(self.risk, self.level)
        return RiskProblem(
            rows, np.ones(rows.n_rows), share, 1.0 / (total * self.C), radius, risk, SURROGATES[self.loss],
            self.fit_intercept,
        )  # fmt: skip

    def _choose(
        self, problem: RiskProblem | MarginPursuitProblem, signs: Sequence[Floats], seed: int, budget: Budget
    ) -> None:
        self.__dict__.pop("chosen_", None)  # of an earlier fit
        if self.risk == "auto" and isinstance(problem, RiskProblem):
            chosen, losses = automatic.choose(problem, signs, budget, self.max_iter, seed)
            known = {"losses": tuple(losses[each] for each in (automatic.CANDIDATES[0], chosen) if losses)}
            self.chosen_ = (vars(chosen) | known,) * len(signs)

    def _solve(
        self, problem: RiskProblem | MarginPursuitProblem, start: Start | None, seed: int, budget: Budget
    ) -> Pursuit:
        if isinstance(problem, MarginPursuitProblem):
            return pursue(Recipe("auto", "lbfgs", self.tol, self.max_iter, self._options, seed), problem, start, budget)
        if self.risk == "auto":
            chosen = automatic.Candidate(*(self.chosen_[0][item.name] for item in fields(automatic.Candidate)))
            result = automatic.train(problem, chosen, self.tol, budget, self.max_iter)
            return Pursuit(result, np.nan, result.n_iter, result.n_gradients, 0, result.history)
        point = None if start is None else start.point
        result = risk_newton.solve(problem, tol=self.tol, start=point, budget=budget, max_iter=self.max_iter)
        left_out, scores = 0.0, problem.scores(result.point)
        flat = np.where(np.arange(problem.n_unknowns) < problem.rows.n_features, 0.0, result.point)
        alike = problem.value(flat, problem.scores(flat)) <= (1.0 + self.tol) * result.value
        if not problem.risk.certified:
            losses = problem.loss.derivatives(problem.y * scores)[0]
            left_out = problem.left_out(problem.risk.weighed(losses, problem.share, 0.0).slopes)
            # One of several points where the steps end may be worse than weights of 0, and tell the classes apart. What
            # changes a risk by tol about such a point changes scores by its root.
            alike = alike and bool(np.ptp(scores) <= np.sqrt(self.tol))
        if left_out > 0.0:
            level = RISKS[self.risk][0] if self.level is None else self.level
            warn(
                f"risk={self.risk!r} leaves out every row of a class, {left_out:.1%} of all rows: there is no "
                f"least value, and the steps ended there. Give a level that forgives less than {level}, or use "
                "risk='auto'.",
                DoubtfulModelWarning,
            )
        elif alike and result.status == Status.CONVERGED:
            why = "the features tell nothing of the classes. Give others"
            if self.risk != "mean":
                why = (
                    "what is gained on some rows is lost on others. Let more rows count (a larger share of 'cvar' and "
                    "'spectral', a larger scale of 'catoni', a level of the others nearer to 0)"
                )
            warn(
                f"all scores are as good as equal, as weights of 0 have the same risk up to tol={self.tol:g}: {why}, "
                "or raise C.",
                DoubtfulModelWarning,
            )
        return Pursuit(result, np.nan, result.n_iter, result.n_gradients, 0, result.history)

    def _report(self, runs: Sequence[Pursuit], budget: Budget) -> None:
        super()._report(runs, budget)
        self._warn_of_iterations(runs, self.max_iter)
