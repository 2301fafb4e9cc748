"""PyTorch modules trained to a goal: `GoalNetwork`."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from widemargin._typing import Bools, Column, Features, Floats, Index, Ints, Table
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import asked_rows
from widemargin.estimators._options import Checked, SolverOptions, budget_of, cause_of, interrupted, parameters
from widemargin.estimators.networks.lagrangian import (
    Inputs,
    Part,
    Pricing,
    ProxyLagrangian,
    excesses,
    reproducible,
    scores_of,
)
from widemargin.estimators.thresholds.groups import group_numbers
from widemargin.estimators.thresholds.guarantee import refusal_text
from widemargin.estimators.thresholds.rule import JudgedRule, Rule
from widemargin.estimators.thresholds.scored_rows import ScoredRows
from widemargin.estimators.thresholds.scores import raw_scores, split_sources
from widemargin.estimators.thresholds.thresholded_model import ThresholdedModel
from widemargin.exceptions import DataError, MarginConvergenceWarning, warn
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.rows import External, Rows, is_asked
from widemargin.solvers.base import Budget

TRIES = 3
"""Thresholds that are looked for in each network, under bounds that are tightened until the rows of the training keep
them, too."""


@dataclass(frozen=True)
class NetworkOptions(SolverOptions):
    """The training of `GoalNetwork`.

    Attributes
    ----------
    rates : {"logistic", "sigmoid", "ramp"}
        What stands for a decision in the gradient: an upper bound that is convex in the score ("logistic"), or a number
        between 0 and 1. "logistic" had the lowest error at the bound on Adult and COMPAS under four goals; with the
        others, weights stay near 0 where prices rise slowly.
    price_rate : float
        What the price of a constraint (objective per unit of a rate) gains in an epoch for each unit by which it is
        missed. With .3, prices were still rising after 15 epochs on these tables.
    highest_price : float
        Largest price.
    plain_epochs : int
        Epochs before prices move: the rates of a network that has learned nothing would send them anywhere.
    steps : int
        Least number of batches in an epoch: few rows are passed over several times. Twenty single passes over a few
        hundred rows are fewer than a hundred steps, which leave most networks near where they began.
    trusted : float
        So many held-out rows count as much as all training rows when networks are compared. Dozens of networks with all
        their thresholds are compared, and on a few rows the luckiest would win.
    on_interrupt : {"raise", "return"}
        After Ctrl-C, when the best network so far is set: raise KeyboardInterrupt again, or return.
    """

    rates: Literal["logistic", "sigmoid", "ramp"] = "logistic"
    price_rate: kinds.Positive = 2.0
    highest_price: kinds.Positive = 10.0
    plain_epochs: int = 1
    steps: kinds.Count = 50
    trusted: kinds.Positive = 100.0
    on_interrupt: kinds.OnInterrupt = "raise"


@dataclass
class NetworkScorer:
    """A trained network as a scorer of rows.

    Attributes
    ----------
    network : torch.nn.Module
        In evaluation mode.
    classes_ : ndarray of shape (2,)
    direction : float
        +1 where the positive class is `classes_[1]`, else -1.
    batch_size : int
    device : torch.device
    shape : tuple of int
        Of one row.
    names : ndarray of str or None
        Of the columns, where the training rows were a data frame.
    """

    network: torch.nn.Module
    classes_: npt.NDArray[Any]
    direction: float
    batch_size: int
    device: torch.device
    shape: tuple[int, ...]
    names: npt.NDArray[Any] | None = None

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """Names of the columns, where the training rows were a data frame."""
        if self.names is None:
            raise AttributeError("feature_names_in_: the network was trained on rows whose columns have no names.")
        return self.names

    def decision_function(self, X: Any) -> Floats:
        """One score for each row, shape (n,); larger means rather `classes_[1]`.

        Raises
        ------
        DataError
            If rows have another shape than those of the training.
        ValueError
            If X names its columns, and not as the training rows.
        """
        inputs = X if isinstance(X, Inputs) else Inputs(X, self.device)
        if self.names is not None and inputs.names is not None:
            _check_feature_names(self, inputs.table, reset=False)
        if len(inputs) and inputs.shape != self.shape:
            raise DataError(
                f"X has rows of shape {inputs.shape}, and the network was trained on rows of shape {self.shape}."
            )
        return self.direction * scores_of(self.network, Part(inputs, np.arange(len(inputs))), self.batch_size)


@dataclass(frozen=True)
class Snapshot(JudgedRule[Rule]):
    """The weights of a network after one epoch, with the best rule for its scores of the held-out rows.

    Attributes
    ----------
    worth : float
        The objective on the held-out rows and on those that it learned from, and by how much bounds are missed there.
    """

    worth: float
    scores: list[Floats]
    weights: dict[str, torch.Tensor]

    @property
    def rank(self) -> tuple[float, float]:
        return super().rank[0], self.worth


class Judge(NamedTuple):
    """The goal on some rows, where a network reads them, and the group of each."""

    tied: TiedGoal
    rows: Sequence[Part]
    group: Sequence[Ints]
    n_groups: int

    def reached(self, rule: Rule, scores: Sequence[Floats], judging: TiedGoal) -> tuple[float, Floats]:
        """The objective of a rule on these rows, and by how much it misses each bound of `judging`, shape (m,).

        It misses none where these rows are not asked for the same constraints.
        """
        mass, tied = self.scored(scores).positive_mass(rule), self.tied
        objective, _ = tied.coefficients.totals(mass, tied.cell_weight - mass, tied.n_constraints)
        if not self._are_asked_for(judging):
            return objective, np.zeros(judging.n_constraints)
        return objective, np.maximum(-np.nan_to_num(tied.measure(mass).slack), 0.0)

    def misses(self, best: "Snapshot", learning: TiedGoal) -> Bools:
        """Whether a network misses each bound here, shape (m,); none, as above."""
        if best.rule.met or not self._are_asked_for(learning):
            return np.zeros(learning.n_constraints, dtype=bool)
        return excesses(self.tied, self.scored(best.scores).positive_mass(best.rule)) > 0.0

    def _are_asked_for(self, others: TiedGoal) -> bool:
        """Whether these rows are asked for the same constraints as others."""
        return [item.label for item in self.tied.constraints] == [item.label for item in others.constraints]

    def scored(self, scores: Sequence[Floats]) -> ScoredRows:
        """The rows with scores of a network."""
        return ScoredRows(self.tied, scores, self.group, self.n_groups)


def _part(inputs: Inputs, X: Features | None) -> Part:
    """Rows of one source after slicing: of a table the rows themselves, else their numbers (`Inputs.table`)."""
    if inputs.is_table:
        sliced = Inputs(X, inputs.device)
        return Part(sliced, np.arange(len(sliced)))
    return Part(inputs, np.asarray(X)[:, 0])


@parameters
class GoalNetwork(ThresholdedModel):
    """A PyTorch module trained to a goal.

    Gradient descent minimises a smooth stand-in for the Lagrangian of the goal, while the prices of the constraints
    follow the 0/1 rates (the proxy-Lagrangian of Cotter et al. 2019). After every epoch the network, and one with the
    running mean of its weights, are tried with every threshold on held-out rows. The best one that also keeps the
    bounds on the training rows is taken, or else the best of all.

    Parameters
    ----------
    estimator : torch.nn.Module
        Gives one score for each row, shape (n,) or (n, 1), larger for the positive class. A copy of it is trained,
        starting from the weights that it has.
    goal, per_population, pos_label, baselines
        As in `GoalThresholdClassifier`; `baselines` only where X is an array or a table.
    epochs : int, default=20
        Number of passes over the rows; where rows are few, an epoch passes over them several times (see
        `NetworkOptions.steps`).
    batch_size : int, default=256
    learning_rate : float, default=1e-3
        Of Adam; given to `optimizer` too.
    optimizer : callable, default=None
        `optimizer(parameters, lr=learning_rate)` makes the optimiser; None: `torch.optim.Adam`.
    validation_fraction : float in (0, 1), default=0.2
        Share of the rows, and of every external data set, held out to judge epochs and thresholds.
    randomize : bool, default=False
        Thresholds may be drawn at random; constraints then hold for the expected rates of `predict_randomized`.
    on_infeasible : {"raise", "warn"}, default="raise"
        Where no epoch and threshold meets the goal: raise `InfeasibleGoalError`, or warn and keep the nearest.
    device : str or torch.device, default=None
        None: the one that the module's parameters are on.
    time_budget : float, default=None
        Seconds after which no further epoch is begun.
    callbacks : sequence of callable, default=None
        Called with a `Progress` after every epoch; one that returns True ends the training.
    random_state : int, RandomState or None, default=None
        For the rows held out, the order of the rows, and PyTorch inside `fit`.
    n_jobs : int, default=None
        Threads of PyTorch inside `fit`; None: as they are.
    solver_options : NetworkOptions or dict, default=None
        What few users change.

    Attributes
    ----------
    estimator_ : NetworkScorer
        `estimator_.network` is the trained module.
    threshold_ : float, or ndarray of shape (n_groups,) with `per_population`
    groups_ : tuple of Population or None
    mixture_weights_, mixture_thresholds_ : ndarrays of shape (n_groups, s), or None
        With `randomize=True`.
    prices_ : ndarray of shape (n_constraints,)
        Of the constraints at the end, in objective per unit of a rate.
    n_epochs_ : int
    history_ : tuple of dict
        By epoch: the loss, and objective and violation of the best network so far on the held-out rows.
    classes_ : ndarray of shape (2,)
    positive_class_ : label
    goal_ : Goal
    goal_report_ : GoalReport
        The goal on the held-out rows.
    status_ : str
        "converged", "infeasible" or "interrupted".
    feature_names_in_ : ndarray of str
        Only where X was a data frame.

    See Also
    --------
    GoalReduction : Any classifier that takes weights, trained to a goal.
    RateConstrainedClassifier : Linear and kernel models, with a certificate of every convex step.

    Notes
    -----
    The problem is not convex, so "no network found" says nothing about other networks. The held-out rows choose among
    some dozens of networks with all their thresholds, so rates on new rows differ a little from the report's; `prove(X,
    y)` proves the goal for a fitted network on fresh rows, or refuses.

    References
    ----------
    A. Cotter, H. Jiang, M. Gupta, S. Wang, T. Narayan, S. You, K. Sridharan, "Optimization with Non-Differentiable
    Constraints with Applications to Fairness, Recall, Churn, and Other Goals", JMLR 20, 2019.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from widemargin.torch import GoalNetwork
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=3000) > 0.5).astype(int)
    >>> _ = torch.manual_seed(0)
    >>> module = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    >>> goal = "minimize error_rate()\\nsubject to recall() >= 0.9"
    >>> net = GoalNetwork(module, goal, epochs=10, learning_rate=0.02, random_state=0).fit(X, y)
    >>> net.goal_report_.passed
    True
    """

    estimator: Annotated[Any, torch.nn.Module] = field(kw_only=False)
    epochs: kinds.Count = 20
    batch_size: kinds.Count = 256
    learning_rate: kinds.Positive = 1e-3
    optimizer: Callable[..., torch.optim.Optimizer] | None = None
    validation_fraction: kinds.Share = 0.2
    device: Annotated[Any, str, torch.device, None] = None
    time_budget: kinds.Positive | None = None
    callbacks: kinds.Callbacks = None
    solver_options: NetworkOptions | Mapping[str, object] | None = None

    _options = Checked(NetworkOptions)

    def __sklearn_tags__(self) -> Any:
        tags = super(ThresholdedModel, self).__sklearn_tags__()  # those of the module, which has none, are not asked
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _only_binary(self) -> str:
        return "a network that gives one score a row is for two"

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Column,
        sample_weight: Column | None = None,
        populations: Table | None = None,
        external: Mapping[str, External] | None = None,
    ) -> Self:
        """Train to the goal.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d), tensor of shape (n, ...), map-style Dataset or DataLoader
            The input is the first part of a dataset's items if these are tuples; of a loader, the dataset and the
            `collate_fn` are used. CSR rows are made dense a batch at a time.
        y : array-like of shape (n,)
            Two classes, also beside a dataset that holds labels.
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
            If data are missing or of the wrong shape, or the loss is no finite number.
        InfeasibleGoalError
            If no network that meets the goal was found, unless `on_infeasible="warn"`.
        """
        budget = budget_of(self.time_budget, self.callbacks)
        rng, options, fraction = check_random_state(self.random_state), self._options, float(self.validation_fraction)
        network = copy.deepcopy(self.estimator)
        device = torch.device(self.device or next((value.device for value in network.parameters()), "cpu"))
        network.to(device)
        own = Inputs(X, device)
        others = {name: Inputs(asked_rows(Rows(external=external or {}), name).X, device) for name in external or {}}
        if not own.is_table and any(map(is_asked, (self.baselines or {}).values())):
            raise DataError(
                f"baselines are asked about the rows of a table, and X is a {type(X).__name__}: give their predictions "
                "as columns of populations."
            )
        beside = {name: data.replaced(X=others[name].table) for name, data in (external or {}).items()}
        rows, y, _ = self._checked(own.table, y, sample_weight, populations, beside)
        self._set_classes(y)
        self._set_groups(rows)
        learning, judging, train, held = split_sources(rows, y, fraction, rng, stratify=True)
        to_learn, to_judge = self._tie(learning), self._tie(judging)
        group, learners = self._group_numbers(judging, to_judge), self._groups_of_rows(learning, to_learn)
        n_groups = len(self.groups_ or ()) or 1

        def parts_of(rows: Rows, tied: TiedGoal, numbers: Index) -> list[Part]:
            beside = [(others[str(part.name)], rows.external[str(part.name)].X) for part in tied.sources[1:]]
            return [Part(own, np.asarray(numbers)), *(_part(inputs, X) for inputs, X in beside)]

        # The rows that are learned from never judge an epoch, and the held-out rows choose epoch and threshold.
        with reproducible(int(rng.randint(2**31 - 1)), device, self.n_jobs):
            make = self.optimizer or torch.optim.Adam
            learned = Judge(to_learn, parts_of(learning, to_learn, train), learners, n_groups)
            run = ProxyLagrangian(
                network, make(network.parameters(), lr=float(self.learning_rate)), to_learn, learned.rows,
                rates=options.rates,
                pricing=Pricing(float(options.price_rate), float(options.highest_price)),
                batch_size=int(self.batch_size), steps=int(options.steps), rng=rng,
            )  # fmt: skip
            judge = Judge(to_judge, parts_of(judging, to_judge, held), group, n_groups)
            best = self._train(run, judge, learned, budget)
            network.load_state_dict(best.weights)
        network.eval()
        self.prices_ = run.prices
        self.estimator_ = NetworkScorer(
            network, self.classes_, self._direction(), int(self.batch_size), device, own.shape, own.names
        )
        self._adopt(best, judge.scored(best.scores))
        if budget.interrupted:
            self.status_ = "interrupted"
        elif budget.exhausted:
            warn(f"{cause_of(budget)}; the best of {self.n_epochs_} epochs is kept.", MarginConvergenceWarning)
        interrupted(options, budget)
        return self

    def _train(self, run: ProxyLagrangian, held: Judge, learned: Judge, budget: Budget) -> Snapshot:
        """Epochs, each judged on the held-out rows; the best network of all."""
        best: Snapshot | None = None
        self.history_: tuple[dict[str, float], ...] = ()
        try:
            for number in range(int(self.epochs)):
                loss = run.epoch(priced=number >= self._options.plain_epochs)
                # The two players circle around their solution, so the mean of an epoch's weights is often better than
                # the last ones; but a mean of two good networks may be a bad one, so both are tried.
                for network in (run.network, run.average):
                    best = self._judged(network, held, learned, best, run.scale)
                assert best is not None
                run.raise_prices(held.misses(best, run.tied))
                facts = {"loss": loss, "objective": best.objective, "violation": best.violation}
                self.history_ = (*self.history_, facts)
                budget.tell("epoch", number + 1, best.objective, np.nan, best.violation)
                if budget.exhausted:
                    break
        except KeyboardInterrupt:
            budget.interrupted = True
            if best is None:
                raise
        assert best is not None
        self.n_epochs_ = len(self.history_)
        return best

    def _judged(
        self, network: torch.nn.Module, held: Judge, learned: Judge, best: Snapshot | None, scale: float
    ) -> Snapshot:
        """The better one of `best` and a network with its best thresholds.

        Of dozens of networks with all their thresholds some are good on a few held-out rows by chance. So the rows of
        the training, where a network flatters itself, have a say, too, which is the smaller the more rows are held
        out. What they miss of bounds counts in full, like so much more of the objective (whose range is `scale`).
        """
        scores, on_learned = self._scores(network, held), None
        margins, weights = np.zeros(held.tied.n_constraints), None
        weight = held.tied.sources[0].weights
        effective = float(weight.sum()) ** 2 / (float(weight @ weight) or 1.0)  # 0 where no row of the table counts
        few = float(self._options.trusted) / (float(self._options.trusted) + effective)
        coef = learned.tied.coefficients
        least = float(np.minimum(coef.alpha0, coef.beta0) @ learned.tied.cell_weight)
        for _ in range(TRIES):
            judged = held.scored(scores).judged(margins, randomize=self.randomize)
            own = (1.0 - few) * judged.objective
            # With the least objective that there can be on the rows of the training it must be the better one.
            if best is not None and (
                (margins.any() and not judged.rule.met) or not (judged.rank[0], own + few * least) < best.rank
            ):
                break
            on_learned = on_learned or self._scores(network, learned)
            objective, short = learned.reached(judged.rule, on_learned, held.tied)
            worth = own + few * objective + scale * float(short.sum())
            if best is None or (judged.rank[0], worth) < best.rank:
                weights = weights or {k: value.detach().cpu().clone() for k, value in network.state_dict().items()}
                best = Snapshot(judged.rule, judged.objective, judged.violation, worth, scores, weights)
            if not judged.rule.met or not short.any():
                break
            margins = margins + short
        assert best is not None
        return best

    def _scores(self, network: torch.nn.Module, rows: Judge) -> list[Floats]:
        return [scores_of(network, part, int(self.batch_size)) for part in rows.rows]

    def _adopt(self, best: Snapshot, rows: ScoredRows) -> None:
        """The threshold, the status and the report; refuse where the goal is not met."""
        rule, tied = best.rule, rows.tied
        self._adopt_rule(rule, met=rule.met)
        positive, shares = rows.decided(rule), rows.shares(rule)
        name = type(self.estimator).__name__
        self._report(
            tied, positive, shares, data_name="validation rows",
            certificate=f"heuristic inner solver ({name}), so nothing is proved of other networks",
            foretell=True,
        )  # fmt: skip
        if not rule.met:
            self._refuse(refusal_text(
                tied, shares, refused="no network found", better="train longer",
                tried=f"{self.n_epochs_} epochs of {name}, every one with all thresholds",
                doubt=f"{name} is trained by a local search",
            ))  # fmt: skip

    def _scores_and_groups(self, X: Any, populations: Table | None) -> tuple[Floats, Ints]:
        check_is_fitted(self, "threshold_")
        inputs = Inputs(X, self.estimator_.device)
        scores = raw_scores(self.estimator_, inputs)
        return scores, group_numbers(self.groups_, inputs.table, populations, len(scores))
