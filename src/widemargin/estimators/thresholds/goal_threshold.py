"""Any scorer with the threshold that meets a goal: `GoalThresholdClassifier`."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import _fit_context
from sklearn.utils import check_random_state, validation
from sklearn.utils._param_validation import HasMethods, StrOptions

from widemargin._threads import limit_threads
from widemargin._typing import Column, Features, Floats, Index, Signs, Table
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import asked_rows
from widemargin.estimators._options import parameters
from widemargin.estimators.thresholds.by_rank import Ranks, chosen_ranks
from widemargin.estimators.thresholds.class_offsets import OffsetRule
from widemargin.estimators.thresholds.groups import group_numbers
from widemargin.estimators.thresholds.guarantee import (
    Found,
    Judged,
    fixed_sequence,
    guarantee_text,
    one_sided_margins,
    refusal_text,
    safest_first,
    unproved_text,
    ways,
)
from widemargin.estimators.thresholds.predicted_groups import best_mixed_thresholds, group_shares, learn_groups
from widemargin.estimators.thresholds.rule import Rule, fixed_rule, told_apart, told_back
from widemargin.estimators.thresholds.scored_rows import ScoredRows
from widemargin.estimators.thresholds.scores import (
    FOLDS,
    cross_scores,
    fit_scorer,
    raw_scores,
    row_wise,
    settled_cv,
    split_external,
    split_rows,
    weight_parameter,
)
from widemargin.estimators.thresholds.thresholded_model import ThresholdedModel, features_of
from widemargin.exceptions import CapabilityError, DataError, GoalWarning, warn
from widemargin.goals.binding.sources import Source, refuse_class_for_no_decision
from widemargin.goals.binding.tied_goal import Predictions
from widemargin.rows import External, Rows, take

ORDERING = 0.3
"""Share of the rows that put the candidates of a proof in order, where there are no training rows for that."""


@parameters
class GoalThresholdClassifier(ThresholdedModel):
    """Any scorer, with the threshold (or one per population) that meets a goal at the best objective.

    With more than two classes each has an offset, which is added to its score before the largest score wins.

    Rates are step functions of the threshold, so every different threshold is tried on validation rows. Among those
    that meet all constraints, the one of best objective is taken. If there is none, the goal is refused. This is the
    bias-shifting of Goh et al. (2016, Section 5) for any scorer and any number of constraints.

    Thresholds for each population (`per_population`), and thresholds drawn at random (`randomize=True`), are optimal as
    well, or their gap is stated (see Notes).

    Parameters
    ----------
    estimator : classifier
        With `decision_function` or `predict_proba`. A clone of it is fitted, unless `cv="prefit"`.
    goal : Goal or str, default=None
        What to minimise and what must hold, as an object or in the text language. None: the error rate, unconstrained.
    confidence : float in [0.5, 1), default=None
        None: constraints are met by estimate on the validation rows. Else a threshold is taken only if all constraints
        together are proved for *new* rows at this confidence (see Notes); if none is, the goal is refused.
    per_population : str, int or list of Population, default=None
        None: one threshold. A column (of `populations`, or of a data frame X): one for each of its values. Populations:
        one for each; together they must hold every row once, by conditions on columns alone. `fit` and `predict` refuse
        rows of another or a missing value, because no threshold was chosen for them; to accept them, list a population
        for the rest. `predict` then needs `populations` too, unless X is a data frame with the columns.
    group_estimator : classifier, default=None
        None: `predict` looks up which population a row belongs to. A classifier with `predict_proba`: populations need
        only be known in `fit`, and may be unknown for some rows there. A clone of it learns them from X, and the
        threshold of a row is `P(population | x) @ threshold_` (see Notes). Without `confidence`, `randomize`,
        `abstain`.
    randomize : bool, default=False
        Draw the threshold for each row from a few with fixed probabilities. The best mixture is at least as good as the
        best fixed thresholds, and meets goals that these cannot. Constraints then hold for the expected rates of
        `predict_randomized`, not for those of `predict`.
    abstain : label, default=None
        None: every row is decided. Else `predict` answers this label (no class, such as "unsure" or -1) where a row's
        score lies between two thresholds on either side of the estimator's own (two for each population); all other
        rows keep the estimator's decision. Rates then count decisions; a goal may be `minimize abstention_rate()`
        subject to `selective_error() <= 0.02`. Not with `randomize`.
    cv : "auto", None, "prefit", int, splitter or iterable of (train, test), default="auto"
        None: fit on one part of the rows and choose the threshold on the other. "prefit": `estimator` is fitted
        already, and all rows given to `fit` are validation rows (a clone, as in cross-validation, forgets the fit,
        unless `estimator` is wrapped in `sklearn.frozen.FrozenEstimator`). Folds: the threshold is chosen on
        cross-validated scores of all rows, and the estimator is then fitted on all of them; no confidence can be
        claimed for that. A model with few different scores (a small tree), to which thresholds of the folds do not
        carry over, gets the threshold that suits its own scores of all rows, unless it knows these rows by heart.
        "auto": five folds (or as many as the smaller class has rows) for up to 10,000 rows, and None for more rows or
        with a confidence.
    validation_fraction : float in (0, 1), default=0.2
        Share of the rows held out without folds; stratified by label, except with a confidence, where the proof needs
        a draw that does not look at the labels.
    pos_label : label, default=None
        The class that rates call positive; None means `classes_[1]`.
    baselines : dict of str to fitted classifier, default=None
        Models that `churn`, `win_rate`, ... may name; a column of `populations` of that name comes first.
    on_infeasible : {"raise", "warn"}, default="raise"
        Where no threshold meets the goal: raise `InfeasibleGoalError`, or warn and keep the one of least violation.
    random_state : int, RandomState or None, default=None
        Of the split or the folds, and the default of `predict_randomized`.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.

    Attributes
    ----------
    estimator_ : classifier
    threshold_ : float, or ndarray of shape (n_groups,) with `per_population`
        In the unit of the scores: `classes_[1]` is predicted where the score is larger; infinite for a constant. With
        `randomize=True` the one above which the positive class is the more probable one, which decides `predict`.
        With `abstain` two in place of each, shape (2,) or (n_groups, 2): rows above the second are `classes_[1]`, rows
        up to the first `classes_[0]`, and the others undecided.
    offsets_ : ndarray of shape (K,) or (n_groups, K), or None
        With K > 2 classes: what is added to the scores, which are logarithms of the probabilities where the estimator
        has no `decision_function`. `threshold_` is then None.
    groups_ : tuple of Population or None
        The groups of rows with a threshold of their own, in the order of `threshold_`.
    group_estimator_ : classifier
        With `group_estimator`: fitted to the numbers of the groups.
    known_groups_objective_ : float
        With `group_estimator`: the objective on the same rows if all populations were known at prediction; compare it
        with `goal_report_.objective` to see what guessing them costs. NaN where the population of some row is unknown,
        the goal names external rows, or no thresholds for known populations meet it.
    mixture_thresholds_, mixture_weights_ : ndarray of shape (n_groups, s) or None
        With `randomize=True`: thresholds of each group (one row without `per_population`) and their probabilities.
    optimality_gap_ : float
        Upper bound on how far the objective is from the best that such thresholds reach on the validation rows: 0, up
        to rounding, unless a search over several populations or classes was cut short; NaN where the goal is not met,
        and with a confidence.
    classes_ : ndarray of shape (K,)
    positive_class_ : label or None
        None where there are more than two classes.
    goal_ : Goal
    goal_report_ : GoalReport
        The goal on the validation rows, by estimate; its `certificate` is `guarantee_`.
    status_ : str
        "converged", or "infeasible" where `on_infeasible="warn"` kept a threshold that does not meet the goal (with a
        confidence: that is not shown to meet it).
    guarantee_ : str or None
        What is proved about new rows, and under which assumptions; None without a confidence.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Both only where `estimator_` has them.

    See Also
    --------
    RateConstrainedClassifier : Trains the scores to the goal as well, not only their threshold.
    sklearn.model_selection.TunedThresholdClassifierCV : Maximises one score, without constraints.

    Notes
    -----
    **What a confidence means.** Assume that the validation rows (and the rows of every external data set that the goal
    uses) are independent, unweighted draws from their distribution, and that none of them has served to fit or choose
    the estimator, a baseline model or the goal. Then, with probability >= `confidence` over their draw, the fitted rule
    meets every constraint in that distribution, or `fit` has refused. Populations absent from the rows, constraints
    dropped for lack of rows, and rows that `predict` refuses are not covered. Constraints on numbers of rows cannot be
    guaranteed. With "prefit", 30% of the rows given, and of each external data set, put the candidates in the order in
    which the others test them. `docs/thresholds.md` says how candidates are proved, and why choosing among them does
    not spoil the proof.

    **How the optimum is found.** For one threshold, all are tried. For mixtures, a linear programme is solved by column
    generation; its vertices draw from at most one threshold more in all than there are binding constraints (two in one
    population where one binds). One threshold in each population, or two around the estimator's own, are found by
    branch and bound over thresholds and over common values of the rates that are compared, exactly or to a stated gap.
    Offsets of several classes are found by branch and bound over their differences: exactly for three classes and tens
    of thousands of rows, else to a stated gap. Offsets cannot be combined with `randomize` or `abstain`.

    **Groups unknown at prediction.** With `group_estimator` the threshold of a row is the mean of the populations'
    thresholds, weighted by the row's probabilities; the best classifier that may not see the group has this form [1]_.
    This threshold is compared with the probability of the class, if the estimator gives one. A local search chooses the
    thresholds by 0/1 rates; a single threshold, and those for known populations, are candidates too.

    Nothing is claimed about the objective on new rows. There is no `predict_proba`, because that of `estimator` does
    not know the threshold.

    References
    ----------
    .. [1] Z. Lipton, A. Chouldechova, J. McAuley, "Does mitigating ML's impact disparity require treatment disparity?",
       NeurIPS 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from widemargin import GoalThresholdClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = (X[:, 0] + rng.normal(size=2000) > 0.8).astype(int)
    >>> goal = "minimize false_positive_rate()\\nsubject to recall() >= 0.8"
    >>> clf = GoalThresholdClassifier(LogisticRegression(), goal, confidence=0.95, random_state=0).fit(X, y)
    >>> clf.goal_report_["#1"].rate >= 0.8  # a little more than needed, to be sure on new rows
    True
    """

    group_estimator: Annotated[Any, HasMethods(["fit", "predict_proba"]), None] = None
    confidence: kinds.Confidence | None = None
    abstain: Any = None
    cv: Annotated[Any, "cv_object", StrOptions({"auto", "prefit"})] = "auto"
    validation_fraction: kinds.Share = 0.2

    _stored_arrays: ClassVar[Mapping[str, str]] = {
        "classes_": "label k", "threshold_": "scalar | any-float * | any-float g 2", "offsets_": "float k | float g k",
        "mixture_thresholds_": "any-float g m", "mixture_weights_": "float g m",
    }  # fmt: skip

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        populations: Any = None,
        external: Mapping[str, External] | None = None,
    ) -> "GoalThresholdClassifier":
        """Fit the estimator (unless it is fitted) and choose the threshold.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
            Handed to the estimator as it is; rows are only taken out of it.
        y : array-like of shape (n,)
            Two classes or more.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0, for the rates, and for the estimator where it takes them, also in a pipeline.
        populations, external
            As in `RateConstrainedClassifier.fit`.

        Returns
        -------
        self

        Raises
        ------
        GoalError
            If the goal does not fit the data.
        DataError
            If data are missing or of the wrong shape.
        CapabilityError
            If a confidence is given for a goal that no test can prove.
        InfeasibleGoalError
            If no threshold meets the goal, unless `on_infeasible="warn"`.
        """
        rows, y, weight = self._checked(X, y, sample_weight, populations, external)
        X = rows.X
        if weight is not None and self._fits() and weight_parameter(self.estimator) is None:
            warn(
                f"{type(self.estimator).__name__}.fit has no parameter sample_weight; the weights count in the "
                "goal's rates only.",
                GoalWarning,
            )
        if self._fits():
            self._set_classes(y)
        else:
            validation.check_is_fitted(self.estimator, "classes_")
            self._set_classes(y, np.asarray(self.estimator.classes_))
        self._set_groups(rows)
        self.guarantee_: str | None = None
        self.offsets_ = self.mixture_thresholds_ = self.mixture_weights_ = None
        with limit_threads(self.n_jobs):
            rng = check_random_state(self.random_state)
            # The threshold is chosen on scores of rows that the estimator (or its fold's clone) did not learn from.
            train: Index | None = None
            scores: Floats | None = None
            if not self._fits():
                self.estimator_ = self.estimator
            elif (cv := settled_cv(self.cv, y, confident=self.confidence is not None)) is None:
                stratify, cure = self.confidence is None, ', or a fitted estimator and cv="prefit"'
                train, held = split_rows(y, self.validation_fraction, rng, stratify=stratify, cure=cure)
                self.estimator_ = fit_scorer(self.estimator, take(X, train), y[train], take(weight, train))
            else:
                scores = self._cross_scores(X, y, weight, cv, rng)
                self.estimator_ = fit_scorer(self.estimator, X, y, weight)
            own = rows if train is None else rows.take(held)
            if self.group_estimator is not None:
                self._fit_predicted_groups(own, None if train is None else rows.take(train), scores, rng)
            elif self.confidence is None:
                self._fit_by_estimate(self._scored(own, scores), None if scores is None else own)
            else:
                self._fit_proved(own, None if train is None else rows.take(train), float(self.confidence), rng)
        return self

    def _abstains(self) -> bool:
        return self.abstain is not None

    def _only_binary(self) -> str | None:
        """Why there may be two classes only."""
        if self.group_estimator is not None:
            return super()._only_binary() or "group_estimator is for two"
        return super()._only_binary() or (f"abstain={self.abstain!r} is for two" if self._abstains() else None)

    def _checked(
        self, X: Features, y: Column, sample_weight: Column | None, populations: Table | None,
        external: Mapping[str, Rows] | None,
    ) -> tuple[Rows, npt.NDArray[Any], Floats | None]:  # fmt: skip
        """The rows, labels and weights; refuses parameters that do not go together: with a proof, with a decision that
        may be left out, and with predicted groups."""
        if self.confidence is not None and not (self.cv is None or isinstance(self.cv, str)):
            raise CapabilityError(
                f"confidence={self.confidence}: nothing can be proved from cross-validated scores, because models "
                'other than the returned one made them. Use cv=None or "prefit", or confidence=None.'
            )
        rows, labels, weight = super()._checked(X, y, sample_weight, populations, external)
        if self._abstains():
            refuse_class_for_no_decision(self.abstain, np.unique(labels).tolist())
            if self.goal is None:
                raise DataError(
                    f"abstain={self.abstain!r} without a goal decides no row, for none is then wrong. Ask for "
                    '"minimize abstention_rate()\\nsubject to selective_error() <= 0.02", say.'
                )
            if self.randomize:
                raise CapabilityError("abstain goes with fixed thresholds only; leave out randomize=True.")
        if self.group_estimator is None:
            return rows, labels, weight
        others = {"randomize": self.randomize, "abstain": self._abstains(), "confidence": self.confidence is not None}
        if asked := [name for name, is_asked in others.items() if is_asked]:
            raise CapabilityError(
                f"group_estimator goes without {', '.join(asked)}: leave one of them out. Fresh rows can prove the "
                "goal afterwards: prove(X, y, populations)."
            )
        if self.per_population is None:
            raise DataError("group_estimator learns the groups of per_population, which is None; name a column.")
        return rows, labels, weight

    def _natural(self) -> float:
        """The scorer's own threshold."""
        likely = self.group_estimator is not None and hasattr(self.estimator_, "predict_proba")
        return 0.0 if hasattr(self.estimator_, "decision_function") and not likely else 0.5

    def _fits(self) -> bool:
        """Whether the estimator is to be fitted."""
        return not (isinstance(self.cv, str) and self.cv == "prefit")

    def _cross_scores(self, X: Any, y: Any, weight: Any, cv: Any, rng: np.random.RandomState) -> Floats:
        """Scores of every row by models that did not see it."""
        return cross_scores(self.estimator, X, y, weight, cv=cv, random_state=rng, scores_of=self._scores_by)

    def _scores_by(self, estimator: Any, X: Any) -> Floats:
        """What thresholds or offsets are chosen on: mixtures of thresholds by probabilities want probabilities."""
        if self.group_estimator is not None:
            return raw_scores(estimator, X, probable=True)
        return super()._scores_by(estimator, X)

    def _scored(self, rows: Rows, own_scores: Floats | None = None) -> ScoredRows:
        """Rows as the searches see them; scores of the rows themselves are computed only where they are not given."""
        raw: dict[str | None, Floats] = {None: own_scores} if own_scores is not None else {}

        def scores_of(name: str | None) -> Floats:
            if name not in raw:
                raw[name] = self._scores_by(self.estimator_, row_wise(asked_rows(rows, name).X))
            return raw[name]

        def said(source: Source) -> Signs:
            above = np.where(scores_of(source.name) > self._natural(), 1, -1).astype(np.int8)
            return np.asarray(self._direction() * above, dtype=np.int8)

        tied = self._tie(rows, said if self._abstains() else None)
        of_sources = [scores_of(part.name) for part in tied.given]
        if self.group_estimator is None:
            group, n_groups = self._group_numbers(rows, tied), len(self.groups_ or ()) or 1
        else:
            # Groups are predicted then, so no row has one.
            group, n_groups = [np.zeros(len(z), np.int64) for z in of_sources], 1
        if self._several():
            return ScoredRows(tied, of_sources, group, n_groups)
        direction, own = self._direction(), self._natural()
        if not self._abstains():
            return ScoredRows(tied, [direction * z for z in of_sources], group, n_groups, direction * own)
        # A row is decided where its score is far enough from the scorer's own threshold. Either side of that has a
        # threshold of its own on the distance, so sides are groups to the search, and "positive" means decided.
        sides = [2 * number + (z > own) for number, z in zip(group, of_sources, strict=True)]
        return ScoredRows(tied, [np.abs(told_apart(z, own) - own) for z in of_sources], sides, 2 * n_groups, -1.0)

    def _fit_by_estimate(self, rows: ScoredRows, crossed: Rows | None) -> None:
        """The best rule on the validation rows: all rows, `crossed`, where their scores are cross-validated."""
        rule = rows.best(np.zeros(rows.tied.n_constraints), self.randomize)
        data_name = f"validation rows{'' if crossed is None else ' (cross-validated)'}"
        if crossed is not None and not (self.randomize or self._abstains()):
            own = self._scored(crossed)
            if (anew := own.placed_anew(rule, rows, np.asarray(crossed.y) == self.positive_class_)) is not None:
                rule, rows, data_name = anew, own, "training rows"
        rule = rows.nearest(rule, self.randomize)
        self.optimality_gap_ = rule.gap
        medians, shares = self._adopt(rule, rows, met=rule.met, data_name=data_name)
        if not rule.met:
            listed = ", ".join(f"{value:.6g}" for value in medians[:5]) + (", ..." if len(medians) > 5 else "")
            tried = "every one was tried" if rule.proved else "not all combinations could be tried"
            if isinstance(rule, OffsetRule) and rule.proved:
                tried = f"all miss its constraints by {rule.least_violation:.2g} or more together, which is proved"
            self._refuse(refusal_text(
                rows.tied, shares, refused=self._none_of(), tried=tried, better="use a better estimator",
                nearest=f"the nearest, {listed},", keeping=self._kept(),
            ))  # fmt: skip

    def _fit_predicted_groups(
        self, own: Rows, train: Rows | None, raw: Floats | None, rng: np.random.RandomState
    ) -> None:
        """A threshold for each population, mixed by the probabilities that the group estimator gives."""
        groups, rows = self.groups_ or (), self._scored(own, raw)
        matrices = features_of(own, rows.tied)
        learnt = own if train is None else train
        self.group_estimator_, shares = learn_groups(self.group_estimator, groups, learnt, matrices, rng)
        no_margins = np.zeros(rows.tied.n_constraints)
        candidates = [np.full(len(groups), rows.thresholds(no_margins).medians[0])]
        self.known_groups_objective_ = float("nan")
        here = group_numbers(groups, own.X, own.populations, own.n_rows, may_lack=True)
        if len(matrices) == 1 and (here >= 0).all():
            by_group = rows._replace(group=[here], n_groups=len(groups))
            rule = by_group.thresholds(no_margins)
            if rule.met:
                self.known_groups_objective_ = rows.tied.measure(by_group.positive_mass(rule)).objective
                candidates.append(rule.medians)
        mixed = best_mixed_thresholds(rows.tied, rows.scores, shares, candidates)
        self.optimality_gap_ = mixed.gap
        self._adopt_rule(mixed, met=mixed.met)
        positive = [z > p @ mixed.medians for z, p in zip(rows.scores, shares, strict=True)]
        found = "a local search found the thresholds"
        if np.isfinite(self.known_groups_objective_):
            found += f"; with the groups of all rows known they would reach {self.known_groups_objective_:.4g}"
        data_name = f"validation rows{'' if raw is None else ' (cross-validated)'}"
        self._report(rows.tied, positive, positive, data_name=data_name, certificate=found, foretell=True)
        if not mixed.met:
            self._refuse(refusal_text(
                rows.tied, positive, refused="no thresholds mixed by predicted populations",
                tried="by a local search, which is no proof", better="use better estimators",
            ))  # fmt: skip

    def _fit_proved(self, own: Rows, train: Rows | None, confidence: float, rng: np.random.RandomState) -> None:
        """The best rule of those that the validation rows prove, in an order that other rows give."""
        proving = self._scored(own)
        plain = not (self.randomize or self._abstains() or self._several())
        number = len(ways(proving.tied)) if plain and not self.groups_ else 0
        ranks: Ranks | None = None
        ranked: Rule | None = None
        # One threshold under one-sided rates is proved at all thresholds at once; all else is a fixed sequence (see
        # `guarantee.py`).
        if number:
            level = 1.0 - (1.0 - confidence) / number
            path = [proving.best(one_sided_margins(proving.tied, level), randomize=False)]
        else:
            level = confidence
            if train is None:
                first, second = split_rows(np.asarray(own.y), 1.0 - ORDERING, rng, stratify=False)
                train, own, scores = own.take(first), own.take(second), None
            else:
                y, weight = np.asarray(train.y), None
                scores = self._cross_scores(train.X, y, weight, FOLDS, rng)
            beside = split_external(own.external, 1.0 - ORDERING, rng)
            ordering = self._scored(train.replaced(external=beside[0]), scores)
            proving = self._scored(own.replaced(external=beside[1]))
            search = partial(self._found, ordering)
            if plain and self.groups_:
                alike = ordering if scores is None else self._scored(train.replaced(external=beside[0]))
                ranks = chosen_ranks(ordering, alike, proving, self.groups_, 1.0 - confidence, search)
                if ranks is not None and ((ranked := ranks.rule(proving)) is None or ranks.tested):
                    level += ranks.risk  # tests have the rest: beside ranks, or where ties leave no place for these
            path = [ranked] if ranked else safest_first(search, ordering.tied, proving.tied)
        drawn = check_random_state(rng.randint(2**31 - 1))

        def test(rule: Rule | OffsetRule) -> Judged[Rule | OffsetRule]:
            shares = proving.shares(rule)
            if self.randomize:  # of a rule that draws its decisions, what is drawn is what is tested
                shares = [(drawn.random_sample(len(share)) < share).astype(np.float64) for share in shares]
            if ranks is not None and rule is ranked:
                return ranks.judged(rule, proving.tied, proving.tied.positive_mass(shares))
            return Judged.of(rule, proving.tied, proving.tied.positive_mass(shares), self._possible(rule))

        constants: list[Rule | OffsetRule] = []
        if not self._several():
            constants = [fixed_rule([value] * proving.n_groups) for value in (-np.inf, np.inf)]
        proof = fixed_sequence(path, constants, test, level)
        rule, some = proof.chosen.candidate, proving.tied.n_constraints > 0
        self.optimality_gap_ = np.nan if some else rule.gap
        more = " Rows of other populations are refused and not covered." if self.groups_ else ""
        self.guarantee_ = guarantee_text(proving.tied, proof, confidence, more=more) if proof.met and some else None
        self._adopt(rule, proving, met=proof.met)
        if not proof.met:
            tied, kept = proving.tied, self._kept()
            self._refuse(unproved_text(tied, proof, level, refused=f"{self._none_of()} can", keeping=kept))

    def _found(self, ordering: ScoredRows, margins: Floats) -> Found[Rule | OffsetRule]:
        """The best rule on the rows that order the sequence; one that decides alike for them all becomes a constant."""
        rule = ordering.best(margins, self.randomize)
        rule = rule.with_constants(np.concatenate(ordering.scores), np.concatenate(ordering.group))
        return Found(rule, rule.met, ordering.positive_mass(rule))

    def _adopt(
        self, rule: Rule | OffsetRule, rows: ScoredRows, *, met: bool, data_name: str = "validation rows"
    ) -> tuple[Floats, Predictions]:
        """Set the fitted attributes and the report; the thresholds, and shares of the positive class."""
        self._adopt_rule(rule, met=met)
        told: dict[str, Any] = {"certificate": self.guarantee_, "foretell": self.confidence is None}
        if isinstance(rule, OffsetRule):
            numbers = rows.shares(rule)
            self._report(rows.tied, numbers, numbers, data_name=data_name, **told)
            return np.ravel(rule.offsets), numbers
        medians, shares = np.atleast_1d(self.threshold_), rows.shares(rule)
        if self._abstains():
            below, above = np.maximum(rule.medians.reshape(-1, 2), 0.0).T
            # `predict` decides a row whose score is at most the first threshold, while a rule decides where a distance
            # is larger than its threshold: the next smaller number makes both the same.
            edges = told_back(np.column_stack([self._natural() - below, self._natural() + above]), self._natural())
            edges[below > 0.0, 0] = np.nextafter(edges[below > 0.0, 0], -np.inf)
            self.threshold_ = medians = edges if self.groups_ else edges[0]
        self._report(rows.tied, rows.decided(rule), shares, data_name=data_name, **told)
        return np.ravel(medians), shares

    def decision_function(self, X: Any, populations: Any = None) -> Floats:
        """The estimator's score minus `threshold_` (of the row's population), shape (n,); positive means `classes_[1]`.

        With `abstain`: minus the estimator's own threshold, whether a row is decided or not.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        populations : table with n rows, default=None
            With `per_population`, as in `predict`.
        """
        if self.group_estimator is not None:
            validation.check_is_fitted(self, "group_estimator_")
            X = X if hasattr(X, "shape") else np.asarray(X)
            mixed = group_shares(self.group_estimator_, X) @ self.threshold_
            return np.asarray(self._scores_by(self.estimator_, X) - mixed, dtype=np.float64)
        if not self._abstains():
            return super().decision_function(X, populations)
        return self._scores_and_groups(X, populations)[0] - self._natural()

    def predict(self, X: Any, populations: Any = None) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,), of objects where `abstain` is of another type than the classes.

        With `randomize=True`: the class that `predict_randomized` names more often; the goal is not enforced on its
        rates.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        populations : table with n rows, default=None
            With `per_population`: the columns that say which population a row belongs to; those not found there are
            looked up in X where it is a data frame.

        Raises
        ------
        DataError
            If a row belongs to no population that has thresholds.
        """
        if not self._abstains():
            return super().predict(X, populations)
        scores, group = self._scores_and_groups(X, populations)
        below, above = self.threshold_.reshape(-1, 2)[group].T
        labels, abstained = self.classes_[(scores > self._natural()).astype(np.intp)], np.asarray(self.abstain)
        if abstained.dtype.kind != labels.dtype.kind:
            labels, abstained = labels.astype(object), abstained.astype(object)
        return np.where((scores > above) | (scores <= below), labels, abstained)

    def score(self, X: Any, y: Any, sample_weight: Any = None, populations: Any = None) -> float:
        """Accuracy of `predict`; with `abstain` the share of rows that are decided, and rightly."""
        if not self._abstains():
            return super().score(X, y, sample_weight, populations)
        right = [one == other for one, other in zip(self.predict(X, populations), np.asarray(y), strict=True)]
        return float(np.average(right, weights=sample_weight))

    def _none_of(self) -> str:
        """The subject of a refusal."""
        if self._several():
            return "no offsets of these scores"
        kind = "mixture of thresholds" if self.randomize else "pair of thresholds" if self._abstains() else "threshold"
        return f"no {kind} {f'for each of {len(self.groups_)} populations' if self.groups_ else 'of these scores'}"

    def _kept(self) -> str:
        """The thresholds of a fit that did not meet the goal and only warns."""
        if self._several():
            return "these offsets"
        return "these thresholds" if self.groups_ or self.randomize or self._abstains() else "this threshold"
