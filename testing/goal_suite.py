"""How good is the search under a goal? Some hundred goals on tables of many kinds, half of them drawn fresh.

    python -m testing.goal_suite --seed 7                          # `make goal-suite`; without --seed a new one
    python -m testing.goal_suite --seed 7 --quick --jobs 2         # few goals, small tables
    python -m testing.goal_suite --seed 7 --out b.json --known a.json  # beside an earlier run of the same seed

On every table goals come in chains, each stricter than the one before. Bounds are what some other model (logistic
regression at some threshold) reaches, a little less, or a little more; so most goals are known to have a model. For
each goal: our fit, and the best model known, from all linear classifiers where they can be tried, from a mixed-integer
program, and from all that any route found on the table, each at its best threshold for this goal. Told are goals
refused though a model is known, training error above the best known (with the same C, and with any model), goals that
got a better model than a looser one, seconds, and the error on rows not used, at the best threshold that meets the
bounds there.
"""

import argparse
import base64
import json
import multiprocessing
import secrets
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from testing.exact_models import ROUNDING, Bools, CountedGoal, RowCounter, best_of, dichotomies, milp_best
from testing.goal_tables import FAMILIES, Part, Table, drawn_table, published_tables

from widemargin import RateConstrainedClassifier
from widemargin.exceptions import GoalError
from widemargin.goals import Constraint, Expression, External, Goal, Population, col, error_rate
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.goals.language import rates
from widemargin.rows import Rows

__all__ = ["Outcome", "judge_table", "main", "summary"]

Floats: TypeAlias = npt.NDArray[np.float64]

BETTER = 0.002
"""By how much a stricter goal may lower the training error before it counts as a breach, as is asked of the search."""


@dataclass(frozen=True)
class Outcome:
    """What became of a goal. Errors are training errors in 0/1 terms, counted naively.

    Attributes
    ----------
    table, goal : str
    looser : int
        Place on the table of the goal that this one is stricter than; -1: none.
    error : float or None
        Of our fit; None where it misses a bound.
    missed : float
        By how much it misses one; 0 where none.
    raised : str
        Of an error of the library other than that a goal is not met.
    same_c, any_model : float or None
        Best known with the same C, and of all models; None where none meets the goal.
    lower_bound : float
        No linear classifier goes below; inf: none meets the goal; -inf: nothing is known.
    seconds : float
        Processor time of the fit.
    at_bound : float or None
        Error on rows not used at the best threshold there; None where no threshold meets the bounds there.
    wrong : str
        Which of these rows are wrong there: packed bits in base 64.
    """

    table: str
    goal: str
    looser: int
    error: float | None
    missed: float
    raised: str
    same_c: float | None
    any_model: float | None
    lower_bound: float
    seconds: float
    at_bound: float | None
    wrong: str


class _Ask(NamedTuple):
    """One side of a constraint: `left sense level`, or `left sense level * right`."""

    left: Expression
    sense: str
    right: Expression | None = None

    def at(self, level: float) -> Constraint:
        bound: Any = level if self.right is None else level * self.right
        return self.left >= bound if self.sense == ">=" else self.left <= bound


def _asks(table: Table) -> list[_Ask]:
    """What goals of this table may ask for."""
    few, many = (Population(name, where=col("group") == name) for name in table.groups)
    asks = [
        _Ask(rates.recall(), ">="),
        _Ask(rates.precision(), ">="),
        _Ask(rates.false_positive_rate(), "<="),
        _Ask(rates.positive_rate(), "<="),
        _Ask(rates.positive_rate(), ">="),
        _Ask(rates.churn("deployed"), "<="),
        _Ask(rates.f_beta(2.0), ">="),
        _Ask(rates.win_loss_ratio("deployed"), ">="),
        _Ask(rates.recall(few), ">="),
        _Ask(rates.error_rate(few), "<="),
        _Ask(rates.positive_rate(few), ">=", rates.positive_rate(many)),
        _Ask(rates.positive_rate(many), ">=", rates.positive_rate(few)),
        _Ask(rates.recall(few), ">=", rates.recall(many)),
        _Ask(rates.false_positive_rate(few) - rates.false_positive_rate(many), "<="),
        _Ask(rates.recall(many) - rates.recall(few), "<="),
    ]
    for name, part in table.train.items():
        if name is not None:
            there = Population.external(name)
            asks += [_Ask(rates.positive_rate(there), "<="), _Ask(rates.churn("deployed", there), "<=")]
            asks += [] if part.y is None else [_Ask(rates.recall(there), ">="), _Ask(rates.precision(there), ">=")]
    return asks


class _Half:
    """The training or the judging rows of a table, counted."""

    def __init__(self, parts: Mapping[str | None, Part]) -> None:
        main, self.parts = parts[None], parts
        self.external = {
            name: External(part.X, part.y, sample_weight=part.weight, populations=part.people)
            for name, part in parts.items()
            if name is not None
        }
        self.rows = Rows(main.X, main.y, main.weight, main.people, external=self.external)
        self._counter = RowCounter({name: part.naive() for name, part in parts.items()})

    def count(self, goal: Goal) -> CountedGoal:
        """The goal over all rows, those of the external data sets after the main ones."""
        sources = make_sources(baselines_used(goal), self.rows, classes=(0, 1))
        return self._counter.count(bind(goal, sources, warn_trivial=False))

    def scores(self, model: Any) -> Floats:
        """Scores of all rows."""
        return np.concatenate([np.asarray(model.decision_function(part.X), float) for part in self.parts.values()])


class _Wanted(NamedTuple):
    goal: Goal
    looser: int
    counted: CountedGoal


def _goals(table: Table, half: _Half, others: list[Floats], n_chains: int, rng: np.random.Generator) -> list[_Wanted]:
    """The goal without constraints, then chains of six: a bound, tighter, a second, tighter, a third, all beyond."""
    wanted = [_Wanted(Goal(error_rate()), -1, half.count(Goal(error_rate())))]
    asks = _asks(table)
    while len(wanted) < 1 + 6 * n_chains:
        scores = others[rng.integers(len(others))]
        threshold = np.quantile(scores, rng.uniform(0.2, 0.95))
        chosen = [asks[i] for i in rng.permutation(len(asks))[:3]]
        values = [_value(half, ask, scores > threshold) for ask in chosen]
        if not np.isfinite(values).all():
            continue
        beyond = rng.uniform(0.01, 0.15)
        steps = [[0.04], [0.0], [0.0, 0.04], [0.0, 0.0], [0.0, 0.0, 0.0], [-beyond, -beyond, 0.0]]
        looser = 0
        try:
            chain = []
            for slack in steps:
                some = [
                    ask.at(_rounded(value - by if ask.sense == ">=" else value + by, ask.sense))
                    for ask, value, by in zip(chosen, values, slack, strict=False)
                ]
                goal = Goal(error_rate(), some)
                chain.append((goal, half.count(goal)))
        except GoalError:  # a bound outside what can be reached, or an empty population
            continue
        for goal, counted in chain:
            wanted.append(_Wanted(goal, looser, counted))
            looser = len(wanted) - 1
    return wanted


def _rounded(level: float, sense: str) -> float:
    """To three digits, on the loose side."""
    return float((np.floor if sense == ">=" else np.ceil)(1000.0 * level) / 1000.0)


def _value(half: _Half, ask: _Ask, positive: Bools) -> float:
    """What a model reaches: of a quotient of rates, the quotient."""
    try:
        if ask.right is not None:
            above, below = (half.count(Goal(side)).measure(positive[:, None])[0][0] for side in (ask.left, ask.right))
            return float(above / below) if below > 0.0 else float("nan")
        if not ask.left.form.ratios:
            return float(half.count(Goal(ask.left)).measure(positive[:, None])[0][0])
        level = 0.5
        slack = half.count(Goal(error_rate(), [ask.at(level)])).measure(positive[:, None])[1][0, 0]
        return float(level + slack if ask.sense == ">=" else level - slack)
    except GoalError:
        return float("nan")


def _fit(half: _Half, goal: Goal, **options: Any) -> tuple[Any, float, str]:
    """A model, its processor seconds, and what was raised instead."""
    main, began = half.parts[None], time.process_time()
    model = RateConstrainedClassifier(goal, on_infeasible="warn", **options)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(main.X, main.y, sample_weight=main.weight, populations=main.people, external=half.external)
    except Exception as error:  # whatever a fit raises is told as its outcome, and the suite goes on
        return None, time.process_time() - began, f"{type(error).__name__}: {error}"
    return model, time.process_time() - began, ""


def _logistic(table: Table, rng: np.random.Generator) -> list[Any]:
    """Models by another route, some of which weigh the classes."""
    main = table.train[None]
    models = []
    for C in (0.02, 1.0, 100.0):
        for balanced in (None, "balanced"):
            model = LogisticRegression(C=C, class_weight=balanced, max_iter=300, random_state=int(rng.integers(2**31)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                models.append(model.fit(main.X, main.y, sample_weight=main.weight))
    return models


@dataclass(frozen=True)
class Effort:
    """How much is done for each table.

    Attributes
    ----------
    chains : int
        Of six goals each.
    routes : mapping of str to options
        Further fits of every goal, whose models are known to all goals of the table.
    milp_seconds : float
        Of the mixed-integer program, for each goal.
    """

    chains: int
    routes: Mapping[str, Mapping[str, Any]]
    milp_seconds: float = 10.0


def judge_table(table: Table, effort: Effort, seed: int) -> list[Outcome]:
    """Fit every goal of a table, and compare with all that is known there."""
    rng = np.random.default_rng([seed, len(table.train[None].people)])
    half, unused = _Half(table.train), _Half(table.test)
    logistic = [half.scores(model) for model in _logistic(table, rng)]
    wanted = _goals(table, half, logistic, effort.chains, rng)
    _fit(half, wanted[0].goal)  # what is compiled or read at first is nobody's time
    fits = [_fit(half, item.goal) for item in wanted]
    ours = [half.scores(model) for model, _, _ in fits if model is not None]
    same, other = list(ours), list(logistic)
    for options in effort.routes.values():
        found = [_fit(half, item.goal, **options)[0] for item in wanted]
        (other if "C" in options else same).extend(half.scores(model) for model in found if model is not None)
    points, point, tried = _points(table), None, None
    if points is not None:
        points, point = np.unique(points, axis=0, return_inverse=True)
        tried = dichotomies(points) if table.reference == "all" else None
    outcomes = []
    for item, (model, seconds, raised) in zip(wanted, fits, strict=True):
        same_c = _best(item.counted, same)
        known = [value for value in (same_c, _best(item.counted, other)) if value is not None]
        lower = -np.inf
        if points is not None and point is not None:
            merged = item.counted.merged(point.ravel())
            if tried is not None:
                exact = best_of(merged, tried)
                lower = np.inf if exact is None else exact
                known += [] if exact is None else [exact]
            else:
                start = None if model is None else (model.coef_[0], -float(model.intercept_[0]))
                answer = milp_best(merged, points, effort.milp_seconds, start)
                lower = answer.lower_bound
                known += [] if answer.objective is None else [answer.objective]
        error, missed, at_bound, wrong = None, np.inf, None, ""
        if model is not None:
            objective, slack = item.counted.measure((half.scores(model) > 0.0)[:, None])
            missed = float(max(0.0, -slack.min(initial=0.0)))
            missed = 0.0 if missed <= ROUNDING else missed
            error = float(objective[0]) if missed == 0.0 else None
            at_bound, wrong = _at_bound(unused, item.goal, model)
        any_model = min(known, default=None)
        outcomes.append(
            Outcome(table.name, str(item.goal), item.looser, error, missed, raised, same_c, any_model, float(lower),
                    seconds, at_bound, wrong)
        )  # fmt: skip
    return outcomes


def _points(table: Table) -> Floats | None:
    """All training rows of every source, where all classifiers or a program are asked."""
    if table.reference == "none":
        return None
    return np.concatenate([np.asarray(part.X, float) for part in table.train.values()])


def _best(goal: CountedGoal, known: Iterable[Floats]) -> float | None:
    """Least objective that a model reaches at its best threshold that meets every bound."""
    standing = [goal.best_threshold(scores) for scores in known]
    return min((objective for objective, slack, _ in standing if slack >= -ROUNDING), default=None)


def _at_bound(half: _Half, goal: Goal, model: Any) -> tuple[float | None, str]:
    """Error on rows not used at the best threshold there, and which of the main rows are wrong."""
    try:
        counted = half.count(goal)
    except GoalError:
        return None, ""
    scores = half.scores(model)
    objective, slack, threshold = counted.best_threshold(scores)
    if slack < -ROUNDING:
        return None, ""
    main = half.parts[None]
    wrong = (scores[: len(main.people)] > threshold) != (main.y == 1)
    return objective, base64.b64encode(np.packbits(wrong)).decode()


def summary(outcomes: list[Outcome], known: Mapping[tuple[str, str], Mapping[str, Any]] | None = None) -> str:
    """A line for every table, and one for all."""
    head = (
        "table             goals  met refused(false) raised | above any model: mean worst (n) | above same C: mean "
        "worst (n) | breaches worst | at the bound (n) change (2 se) | seconds"
    )
    names = list(dict.fromkeys(outcome.table for outcome in outcomes))
    lines = [head]
    for name in [*names, "all"]:
        some = [outcome for outcome in outcomes if name in ("all", outcome.table)]
        lines.append(f"{name:17s} {_line(some, known or {})}")
    return "\n".join(lines)


def _line(some: list[Outcome], known: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    met = [o for o in some if o.error is not None]
    refused = [o for o in some if o.error is None]
    false = [o for o in refused if o.any_model is not None]
    breaches = [by for _, by in breaches_of(some)]
    at_bound = [o.at_bound for o in some if o.at_bound is not None]
    change, error = _change(some, known)
    return (
        f"{len(some):5d} {len(met):4d} {len(refused):5d} ({len(false):3d})  {sum(bool(o.raised) for o in some):5d}   | "
        f"{_excess([o.error - o.any_model for o in met if o.any_model is not None])} | "
        f"{_excess([o.error - o.same_c for o in met if o.same_c is not None])} | "
        f"{len(breaches):4d} {max(breaches, default=0.0):.4f} | "
        f"{np.mean(at_bound) if at_bound else np.nan:.4f} ({len(at_bound):3d}) {change:+.4f} ({2 * error:.4f}) | "
        f"{sum(o.seconds for o in some):7.2f}"
    )


def _excess(values: list[float]) -> str:
    return f"{np.mean(values) if values else np.nan:.4f} {max(values, default=np.nan):.4f} ({len(values):3d})"


def breaches_of(outcomes: list[Outcome]) -> list[tuple[Outcome, float]]:
    """Goals that got a better model than a looser goal, or one where that got none, and by how much (1 for none)."""
    found, first = [], dict[str, int]()
    for place, outcome in enumerate(outcomes):
        start = first.setdefault(outcome.table, place)
        if outcome.looser < 0 or outcome.error is None:
            continue
        looser = outcomes[start + outcome.looser].error
        by = 1.0 if looser is None else looser - outcome.error
        if by > BETTER:
            found.append((outcome, by))
    return found


def _change(some: list[Outcome], known: Mapping[tuple[str, str], Mapping[str, Any]]) -> tuple[float, float]:
    """Change of the error at the bound since an earlier run, and its standard error over rows, paired."""
    by_table: dict[str, list[Floats]] = {}
    for outcome in some:
        before = known.get((outcome.table, outcome.goal), {}).get("wrong", "")
        if before and outcome.wrong:
            now, then = (np.unpackbits(np.frombuffer(base64.b64decode(w), np.uint8)) for w in (outcome.wrong, before))
            by_table.setdefault(outcome.table, []).append(now.astype(float) - then)
    if not by_table:
        return float("nan"), float("nan")
    means = [np.mean(rows, axis=0) for rows in by_table.values()]  # over goals, which share the rows
    errors = [float(mean.std() / np.sqrt(len(mean))) for mean in means]
    return float(np.mean([mean.mean() for mean in means])), float(np.sqrt(np.sum(np.square(errors))) / len(errors))


def with_known(outcomes: list[Outcome], known: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[Outcome]:
    """The outcomes, beside what another run found for the same goals."""
    for outcome in outcomes:
        before, fields = known.get((outcome.table, outcome.goal), {}), asdict(outcome)
        for name in ("same_c", "any_model"):
            values = [value for value in (fields[name], before.get(name)) if value is not None]
            fields[name] = min(values, default=None)
        yield Outcome(**fields)


def _judge(task: tuple[Table, Effort, int]) -> list[Outcome]:
    return judge_table(*task)


def main(arguments: list[str] | None = None) -> int:
    """Run the suite, print the table, and write what every goal came to."""
    parser = argparse.ArgumentParser(prog="python -m testing.goal_suite", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=secrets.randbits(31), help="of tables and goals; default: a new one"
    )
    parser.add_argument("--quick", action="store_true", help="two chains of goals on each table, of few rows")
    parser.add_argument("--tables", nargs="*", help="only these")
    parser.add_argument("--data", help="folder of published data; default: $WIDEMARGIN_DATA")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="file for what every goal came to")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="such files of earlier runs of the same seed")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    asked = set(options.tables or ())
    tables = [drawn_table(name, options.seed) for name in FAMILIES if not asked or name in asked]
    if not asked or not asked <= set(FAMILIES):  # reading the published ones takes a second
        published = published_tables(options.data, 3000 if options.quick else 30_000, options.seed)
        tables += [table for table in published if not asked or table.name in asked]
    routes: dict[str, dict[str, Any]] = {"20 steps": {"max_steps": 20}, "C = 2": {"C": 2.0}}
    effort = Effort(2, {}, 2.0) if options.quick else Effort(4, routes)
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for path in options.known:
        for entry in json.loads(path.read_text()):
            known[entry["table"], entry["goal"]] = entry
    outcomes = []
    with ExitStack() as stack:
        tasks = [(table, effort, options.seed) for table in tables]
        judged: Iterator[list[Outcome]] = map(_judge, tasks)
        if options.jobs > 1:
            judged = stack.enter_context(multiprocessing.get_context("spawn").Pool(options.jobs)).imap(_judge, tasks)
        for some in judged:
            outcomes += with_known(some, known)
            print(summary(outcomes[-len(some) :], known).split("\n")[1], flush=True)
    if options.out:
        options.out.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=0))
    print(summary(outcomes, known))
    for outcome, by in sorted(breaches_of(outcomes), key=lambda pair: -pair[1])[:10]:
        print(f"breach by {by:.4f}: {outcome.table}: {outcome.goal!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
