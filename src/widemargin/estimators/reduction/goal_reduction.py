"""Any classifier that takes weights, trained to a goal: `GoalReduction`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import Column, Features, Floats, Ints, Table
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import Checked, budget_of, cause_of, interrupted, parameters
from widemargin.estimators.reduction.cost_sensitive import AveragedScorer, CostLearner, CrossFitter, last_step, prepared
from widemargin.estimators.reduction.one_run import (
    BoostingLearner,
    continued_fitter,
    gains_by_one_run,
    number_of_rounds,
)
from widemargin.estimators.reduction.visits import Average, ClassVisits, Placed, ReductionOptions, Visits
from widemargin.estimators.thresholds.groups import group_numbers
from widemargin.estimators.thresholds.guarantee import (
    Found,
    Judged,
    fixed_sequence,
    guarantee_text,
    refusal_text,
    safest_first,
    unproved_text,
)
from widemargin.estimators.thresholds.rule import between, by_heart, fixed_rule
from widemargin.estimators.thresholds.scores import (
    fold_of_rows,
    label_and_cell,
    make_splits,
    split_sources,
    weight_parameter,
)
from widemargin.estimators.thresholds.thresholded_model import ThresholdedModel, features_of, randomizes
from widemargin.exceptions import CapabilityError, MarginConvergenceWarning, warn
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.rows import External, Rows, length_of
from widemargin.solvers.thresholds.model_mixture import MixedModels, ModelMixture


@parameters
class GoalReduction(ThresholdedModel):
    """Any classifier whose `fit` takes weights, trained to a goal.

    Prices on the constraints turn a goal into a cost for each decision on each row. The learner then solves a weighted
    classification: the label of a row is the cheaper decision, its weight the difference of the costs. A few such fits,
    with every threshold of each, find the prices (Algorithm 2 of Goh et al. 2016 with an off-the-shelf learner as in
    its Appendix F.3). Rates are measured on cross-fitted scores: each row is scored by a model that did not learn from
    it.

    Parameters
    ----------
    estimator : classifier
        With `decision_function` or `predict_proba`, and with `sample_weight` in `fit`; also a pipeline or a search
        around one. Clones of it are fitted.
    goal, per_population, pos_label, baselines
        As in `GoalThresholdClassifier`.
    max_models : int, default=4
        How many sets of prices to try at most. Each costs as many fits as there are folds; more than four rarely gain.
    one_run : bool or "auto", default="auto"
        For boosted trees of scikit-learn, LightGBM and XGBoost with two classes: change the prices while the trees
        grow, in place of a new model for each. As many trees are grown as by a fit for each fold, `max_models` is
        ignored, early stopping is switched off, and the model is the mean of the boosters of all folds. "auto": with
        LightGBM and XGBoost, where this takes half the time and the models are as good or better. With scikit-learn it
        saves no time.
    cv : int, splitter or iterable of (train, test), default=3
        Folds of the rows; with a number they are stratified by label and population. External data sets are split in as
        many parts.
    confidence : float in [0.5, 1), default=None
        None: constraints are met by estimate on the cross-fitted rows. Else, on *new* rows with this confidence, or
        refused: rows are held out and prove a model and its threshold, as in `GoalThresholdClassifier`.
    validation_fraction : float in (0, 1), default=0.2
        With a confidence: share of the rows, and of every external data set, held out.
    randomize : bool, default=False
        Draw model and threshold for each row by fixed probabilities. The best such mixture of the models visited is
        found exactly; none of them alone is better. Constraints then hold for the expected rates of
        `predict_randomized`.
    on_infeasible : {"raise", "warn"}, default="raise"
        Where no model is found that meets the goal: raise `InfeasibleGoalError`, or warn and keep the nearest.
    time_budget : float, default=None
        Seconds after which no further prices are tried.
    callbacks : sequence of callable, default=None
        Called with a `Progress` after every price; one that returns True ends the search.
    random_state : int, RandomState or None, default=None
        For the folds, and the default of `predict_randomized`. The estimator keeps its own.
    n_jobs : int, default=None
        Folds that are fitted at a time, in processes; None: as `joblib.parallel_config` says, else one.
    solver_options : ReductionOptions or dict, default=None
        What few users change.

    Attributes
    ----------
    estimator_ : AveragedScorer
        The fitted models (on all rows) and their shares: one or a few, with `randomize=True` all that may be drawn.
    threshold_ : float, or ndarray of shape (n_groups,) with `per_population`
        Of the averaged scores.
    offsets_ : ndarray of shape (K,) or (n_groups, K), or None
        With K > 2 classes, as in `GoalThresholdClassifier`; `threshold_` is then None.
    groups_ : tuple of Population or None
    mixture_weights_ : ndarray of shape (s,) or None
        With `randomize=True`: the probability of each pair of a model and thresholds that may be drawn.
    mixture_models_ : ndarray of shape (s, number of models) or None
        The shares of the trained models in the score of each pair.
    mixture_thresholds_ : ndarray of shape (s, n_groups) or None
        The thresholds of each pair.
    lagrangian_gap_ : float
        Upper bound on how far the objective on the cross-fitted rows is from that of the best mixture of all models
        visited and all their thresholds (it says nothing about models that were not trained); NaN where no model met
        the goal, or its thresholds were chosen anew.
    n_models_ : int
        Number of sets of prices tried.
    classes_ : ndarray of shape (K,)
    positive_class_ : label or None
    goal_ : Goal
    goal_report_ : GoalReport
        The goal on the cross-fitted rows; with a confidence, on the held-out rows; where the thresholds were chosen
        anew (see Notes), on the training rows.
    guarantee_ : str or None
        What is proved about new rows, and under which assumptions; None without a confidence.
    status_ : str
        "converged", "time_limit", "stopped" (by a callback), "infeasible" or "interrupted".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Both only where the estimator has them.

    See Also
    --------
    RateConstrainedClassifier : Linear and kernel models, with a certificate of every convex step.
    GoalThresholdClassifier : Moves the threshold of a model that you have.

    Notes
    -----
    The candidates for the deterministic model are all thresholds of every model visited and of averages of two of them
    (of more where none of these comes near the best mixture); rates on cross-fitted scores choose among them. The
    chosen models are then fitted to all rows, and the threshold is carried over as the share of training rows above it
    (as it is, with `randomize`, external rows or several classes). Rates of the final model therefore differ a little
    from the report's, and may differ much for models with few different scores, such as small trees. If such a model
    misses the goal on the rows that it was fitted to, or no threshold calls this share of them positive, the thresholds
    are chosen anew on these rows, unless it knows them by heart (`ReductionOptions.by_heart`).

    "No model found" is no proof, because the search is heuristic. On small data sets, averages over more than four sets
    of prices overfit the noise of the rates.

    References
    ----------
    G. Goh, A. Cotter, M. Gupta, M. Friedlander, "Satisfying Real-world Goals with Dataset Constraints", NIPS 2016.
    A. Agarwal, A. Beygelzimer, M. Dudik, J. Langford, H. Wallach, "A Reductions Approach to Fair Classification",
    ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from widemargin import GoalReduction
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = (X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=2000) > 0.5).astype(int)
    >>> goal = "minimize error_rate()\\nsubject to recall() >= 0.8"
    >>> clf = GoalReduction(DecisionTreeClassifier(max_depth=5, random_state=0), goal, random_state=0).fit(X, y)
    >>> clf.goal_report_.passed
    True
    """

    max_models: kinds.Count = 4
    one_run: Annotated[bool | str, "boolean", StrOptions({"auto"})] = "auto"
    cv: Annotated[Any, "cv_object"] = 3
    confidence: kinds.Confidence | None = None
    validation_fraction: kinds.Share = 0.2
    time_budget: kinds.Positive | None = None
    callbacks: kinds.Callbacks = None
    solver_options: ReductionOptions | Mapping[str, object] | None = None

    _options = Checked(ReductionOptions)

    _stored_arrays: ClassVar[Mapping[str, str]] = {
        "classes_": "label k", "threshold_": "scalar | any-float g", "offsets_": "float k | float g k",
        "mixture_models_": "float s m",
        "mixture_thresholds_": "any-float s g", "mixture_weights_": "float s",
    }  # fmt: skip

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Features,
        y: Column,
        sample_weight: Column | None = None,
        populations: Table | None = None,
        external: Mapping[str, External] | None = None,
    ) -> Self:
        """Train to the goal.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
            Handed to the estimator as it is; rows are only taken out of it.
        y : array-like of shape (n,)
            Two classes or more.
        sample_weight, populations, external
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
            If the estimator's `fit` takes no weights, or a confidence is given for a goal that no test can prove.
        InfeasibleGoalError
            If no model that meets the goal was found, or can be shown to, unless `on_infeasible="warn"`.
        """
        budget = budget_of(self.time_budget, self.callbacks)
        rows, y, _ = self._checked(X, y, sample_weight, populations, external)
        self._set_classes(y)
        self._set_groups(rows)
        self.guarantee_: str | None = None
        aside = None
        if self.confidence is not None:
            rng, fraction = check_random_state(self.random_state), float(self.validation_fraction)
            rows, aside, train, _ = split_sources(rows, y, fraction, rng)
            y = y[train]
        tied = self._tie(rows)
        mass = [part.weights for part in tied.given]
        matrices = prepared(self.estimator, features_of(rows, tied))
        fold, n_folds = self._folds(tied, y)
        most, about = int(self.max_models), (self.estimator, self.classes_, self._direction())
        # Thresholds are carried over from the cross-fitted models to the final one, by the rows of each.
        carries = aside is None and not self.randomize and len(matrices) == 1 and not self._several()
        rows_of = matrices, mass, fold, n_folds, self.n_jobs, carries
        if self.one_run is True or (
            self.one_run == "auto" and not self._several() and gains_by_one_run(self.estimator)
        ):
            if self._several():
                raise CapabilityError(
                    f"one_run=True is for two classes, and there are {len(self.classes_)}; use one_run=False."
                )
            rounds = number_of_rounds(self.estimator)
            most = min(self._options.stages, rounds)
            learner = BoostingLearner(*about, rounds=-(-rounds // most))
            fitter = continued_fitter(learner, *rows_of)
        else:
            fitter = CrossFitter(CostLearner(*about), *rows_of)
        group = self._group_numbers(rows, tied)
        visits = (ClassVisits if self._several() else Visits)(
            tied, fitter, group, len(self.groups_ or ()) or 1, most, self._options
        )  # fmt: skip
        best = visits.run(budget)
        cut_short = budget.exhausted  # the fits that follow take what they take
        # With a confidence the held-out rows choose among the models; else the cross-fitted scores do.
        if aside is not None:
            self._adopt_proved(visits, aside)
        elif self.randomize:
            self._adopt_lottery(visits)
        else:
            self._adopt_average(visits, visits.nearest(best))
        if budget.interrupted:
            self.status_ = "interrupted"
        elif cut_short:
            warn(f"{cause_of(budget)}; the best of {self.n_models_} models is kept.", MarginConvergenceWarning)
            if self.status_ == "converged":
                self.status_ = str(budget.status(converged=False))
        interrupted(self._options, budget)
        return self

    def _checked(
        self, X: Features, y: Column, sample_weight: Column | None, populations: Table | None,
        external: Mapping[str, Rows] | None,
    ) -> tuple[Rows, npt.NDArray[Any], Floats | None]:  # fmt: skip
        """The rows, labels and weights; refuses estimators that take no weights, and a proof of drawn predictions."""
        if weight_parameter(self.estimator) is None:
            raise CapabilityError(
                f"{type(last_step(self.estimator)).__name__}.fit has no parameter sample_weight, and costs are told to "
                "a learner by weights. Use an estimator that has one, or GoalThresholdClassifier, which moves the "
                "threshold of any scorer."
            )
        if self.confidence is not None and self.randomize:
            raise CapabilityError(
                "a confidence covers the rates of predict, and randomize=True is about those of predict_randomized. "
                "Use randomize=False, or confidence=None and then prove(X, y) on fresh rows."
            )
        return super()._checked(X, y, sample_weight, populations, external)

    def _folds(self, tied: TiedGoal, y: npt.NDArray[Any]) -> tuple[list[Ints], int]:
        """The part of each row of each source that holds it out."""
        rng = check_random_state(self.random_state)
        splits = make_splits(self.cv, y, rng, partial(label_and_cell, y, tied.sources[0].cell))
        beside = [rng.permutation(len(part.cell)) % len(splits) for part in tied.given[1:]]
        return [fold_of_rows(splits, len(y)), *beside], len(splits)

    def _adopt_average(self, visits: Visits, best: Placed) -> None:
        """The best model, or average, with its threshold."""
        met = best.met
        self._set_average(visits, best, met=met)
        self.lagrangian_gap_ = max(best.objective - visits.lottery.value, 0.0) if met else np.nan
        scores = [self._direction() * self.estimator_.decision_function(X) for X in visits.fitter.X]
        carried = visits.carried(best, scores)
        self._adopt_rule((carried or best).rule, met=met)
        placed = (self._placed_anew(visits, best, carried, scores) if met else None) or best
        if placed is not best:
            self._adopt_rule(placed.rule, met=True)
            self.lagrangian_gap_ = np.nan
        decisions = visits.decisions(placed)
        positive = decisions if self._several() else [share > 0.5 for share in decisions]
        self._conclude(visits, positive, decisions, met=met, cross_fitted=placed is best)

    def _placed_anew(self, visits: Visits, best: Placed, carried: Placed | None, scores: list[Floats]) -> Placed | None:
        """The thresholds by the scores of the models of all rows, where those that are carried over miss the goal.

        A model of few scores, such as a small tree, may have others after a fit to all rows, so that the threshold
        lies elsewhere among them, or none can be carried over. On its own rows a model looks better than on new ones,
        so a bound missed there will be missed. None where none is, and where the models know these rows by heart.
        """
        own = replace(carried or best, average=replace(best.average, scores=scores))
        said, of_folds = visits.decisions(own), visits.decisions(best)
        # A model that decides alike for all rows is to be reported as such, where those of the folds tell them apart.
        alike = np.ptp(np.concatenate(said)) == 0.0 < np.ptp(np.concatenate(of_folds))
        if carried and not alike and visits.tied.measure(visits.tied.positive_mass(said)).met.all():
            return None
        if by_heart(visits.least_cost(own.average), visits.least_cost(best.average), visits.options.by_heart):
            return None
        anew = visits.placed(own.average)
        return anew if anew.rule.met else None

    def _set_average(self, visits: Visits, chosen: Placed, *, met: bool) -> None:
        """The attributes of one model, or average, with its threshold."""
        self._set_chosen(visits, chosen.average.shares[None])
        self.offsets_ = self.mixture_thresholds_ = self.mixture_weights_ = None
        self.mixture_models_: Floats | None = None
        self._adopt_rule(chosen.rule, met=met)

    def _adopt_proved(self, visits: Visits, aside: Rows) -> None:
        """The best of the averages and thresholds that the held-out rows prove; the cross-fitted rows order them."""
        tied, proving, confidence = visits.tied, self._tie(aside), float(self.confidence or 0.0)
        matrices, group = features_of(aside, proving), self._group_numbers(aside, proving)

        def search(margins: Floats) -> Found[Placed]:
            best = min((visits.placed(average, margins) for average in visits.averages), key=lambda one: one.rank)
            scores = best.average.scores
            rule = best.rule.with_constants(np.concatenate(scores), np.concatenate(list(visits.group)))
            found = replace(best, rule=rule)
            return Found(found, rule.met, tied.positive_mass(visits.decisions(found)))

        def said(placed: Placed) -> Predictions:
            scorer, _ = self._chosen(visits, placed.average.shares[None])
            scores = [self._direction() * scorer.decision_function(X) for X in matrices]
            return [placed.rule.shares(z, g) for z, g in zip(scores, group, strict=True)]

        def test(placed: Placed) -> Judged[Placed]:
            return Judged.of(placed, proving, proving.positive_mass(said(placed)), self._possible(placed.rule))

        path = safest_first(search, tied, proving)
        constants = [] if self._several() else [
            replace(path[0], rule=fixed_rule([value] * visits.n_groups)) for value in (-np.inf, np.inf)
        ]  # fmt: skip
        proof = fixed_sequence(path, constants, test, confidence)
        self._set_average(visits, proof.chosen.candidate, met=proof.met)
        self.lagrangian_gap_ = np.nan
        if proof.met and proving.n_constraints:
            self.guarantee_ = guarantee_text(proving, proof, confidence)
        shares = said(proof.chosen.candidate)
        positive = shares if self._several() else [share > 0.5 for share in shares]
        self._report(
            proving, positive, shares, data_name="validation rows",
            certificate=self.guarantee_, foretell=False,
        )  # fmt: skip
        if not proof.met:
            refused = f"none of {self.n_models_} models of {type(self.estimator).__name__} at any threshold can"
            self._refuse(unproved_text(proving, proof, confidence, refused=refused, keeping="the safest"))

    def _adopt_lottery(self, visits: Visits) -> None:
        """The best lottery over averages and thresholds."""
        lottery, mixture = visits.lottery, visits.mixture
        averages = [visits.averages[k] for k in lottery.model]
        positive, met = self._set_lottery(visits, mixture, lottery, averages), lottery.violation == 0.0
        self.threshold_, self.status_ = 0.0, "converged" if met else "infeasible"
        self.lagrangian_gap_ = 0.0 if met else np.nan
        anew = self._drawn_anew(visits, averages) if met else None
        if anew is not None:
            positive, self.lagrangian_gap_ = self._set_lottery(visits, *anew), np.nan
        self._conclude(visits, [share > 0.5 for share in positive], positive, met=met, cross_fitted=anew is None)

    def _set_lottery(
        self, visits: Visits, mixture: ModelMixture, lottery: MixedModels, averages: Sequence[Average]
    ) -> list[Floats]:
        """Adopt a lottery whose tickets are averages; for each source the probability that a row is called positive."""
        self.mixture_models_ = self._set_chosen(visits, np.array([average.shares for average in averages]))
        self.mixture_weights_ = lottery.probability
        candidates = [mixture.models[k] for k in lottery.model]
        self.mixture_thresholds_ = np.array(
            [
                [between(of.scores_of(g), int(of.count[number]), 0.0) for g, number in enumerate(numbers)]
                for of, numbers in zip(candidates, lottery.numbers, strict=True)
            ]
        )
        return [
            self._share_drawn(np.array([average.scores[source] for average in averages]), group)
            for source, group in enumerate(visits.group)
        ]

    def _drawn_anew(
        self, visits: Visits, averages: Sequence[Average]
    ) -> tuple[ModelMixture, MixedModels, list[Average]] | None:
        """The best lottery by the scores of the models of all rows, where the one that is carried over misses the goal.

        As `_placed_anew`.
        """
        of_sources = [np.asarray(self.mixture_models_) @ self.estimator_.of_each(X) for X in visits.fitter.X]
        drawn = [self._share_drawn(scores, group) for scores, group in zip(of_sources, visits.group, strict=True)]
        if visits.tied.measure(visits.tied.positive_mass(drawn)).met.all():
            return None
        own = [replace(one, scores=[scores[k] for scores in of_sources]) for k, one in enumerate(averages)]
        now, before = (self.mixture_weights_ @ [visits.least_cost(one) for one in some] for some in (own, averages))
        if by_heart(now, before, visits.options.by_heart):
            return None
        mixture, lottery = visits.mixed(own)
        return (mixture, lottery, [own[k] for k in lottery.model]) if lottery.violation == 0.0 else None

    def _chosen(self, visits: Visits, shares: Floats) -> tuple[AveragedScorer, Floats]:
        """Every model that has a share, fitted to all rows, and the shares of these, shape (s, number of them)."""
        chosen = np.flatnonzero(shares.any(axis=0))
        used: Floats = shares[:, chosen]
        models = [visits.model(int(k)) for k in chosen]
        return AveragedScorer(self.classes_, models, used.mean(axis=0), self._direction()), used

    def _set_chosen(self, visits: Visits, shares: Floats) -> Floats:
        """Adopt the models that have a share; their shares, shape (s, number of them)."""
        self.estimator_, used = self._chosen(visits, shares)
        self.n_models_ = len(visits.cost)
        return used

    def _conclude(
        self, visits: Visits, positive: Predictions, shares: Predictions, *, met: bool, cross_fitted: bool = True
    ) -> None:
        """Report; refuse where the goal is not met."""
        tied, name = visits.tied, type(self.estimator).__name__
        certificate = f"heuristic inner solver ({name}), so nothing is proved of other models"
        if met and cross_fitted:
            certificate += (
                f"; at most {self.lagrangian_gap_:.2g} above the best lottery over the {self.n_models_} models visited"
            )
        data_name = "training rows (cross-validated)" if cross_fitted else "training rows"
        self._report(tied, positive, shares, data_name=data_name, certificate=certificate, foretell=True)
        if not met:
            self._refuse(refusal_text(
                tied, shares, refused="no model found", better="use a better estimator",
                rows="training rows, by cross-validated scores",
                tried=f"{self.n_models_} models of {name} with every threshold, and averages",
                doubt=f"{name} is a heuristic here",
            ))  # fmt: skip

    def _share_drawn(self, scores: Floats, group: Ints) -> Floats:
        """Probability that a row is called positive, shape (n,), from the scores of each ticket, shape (s, n)."""
        above = scores > np.asarray(self.mixture_thresholds_)[:, group]
        share: Floats = np.clip(np.asarray(self.mixture_weights_) @ above, 0.0, 1.0)
        return share

    def decision_function(self, X: Features, populations: Table | None = None) -> Floats:
        """The averaged score minus `threshold_`, shape (n,); positive means `classes_[1]`.

        With `randomize=True`: by how much the probability of drawing `classes_[1]` exceeds one half.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        populations : table with n rows, default=None
            With `per_population`: the columns that say which population a row belongs to.
        """
        if self.randomize:
            return np.asarray(self.randomized_proba(X, populations)[:, 1] - 0.5)
        return super().decision_function(X, populations)

    @available_if(randomizes)  # type: ignore[untyped-decorator]
    def randomized_proba(self, X: Features, populations: Table | None = None) -> Floats:
        """Probabilities with which `predict_randomized` names each class, shape (n, 2), columns as `classes_`."""
        check_is_fitted(self)
        X = X if hasattr(X, "shape") else np.asarray(X)
        group = group_numbers(self.groups_, X, populations, length_of(X))
        scores = np.asarray(self.mixture_models_) @ self.estimator_.of_each(X)
        return self._class_columns(self._share_drawn(scores, group))
