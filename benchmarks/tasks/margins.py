"""Margin pursuit and risks: how fast beside scikit-learn, and which linear method withstands what."""

import statistics
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn._loss import HalfBinomialLoss
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.linear_model._linear_loss import LinearModelLoss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, RobustScaler
from sklearn.svm import LinearSVC

import widemargin as wm
from benchmarks.data.halves import names
from benchmarks.data.sources import Draw, Split, drawn
from benchmarks.task import Content, Context, Limit, Ratio, Row, Table, Task, mean_and_error, ratios
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import CatoniLoss
from widemargin.losses.risks import RISKS
from widemargin.problems.margin_pursuit import MarginPursuitProblem
from widemargin.solvers.smooth import lbfgs
from widemargin_papers.baselines import (
    CatoniRiskClassifier,
    LDMClassifier,
    MarginDistributionClassifier,
    MedianOfMeansClassifier,
)

Floats = npt.NDArray[np.float64]
PURSUIT, LOGISTIC = "margin pursuit", "LogisticRegression"

# --- speed ------------------------------------------------------------------------------------------------------------

TOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""Of either library; the loosest fit that comes within `NEAR` of the optimum counts."""

NEAR = 1e-6
EVALUATIONS, PASSES = 50, 20
PEER_LOSSES = ("hinge", "modified_huber", "log_loss")


def _a9a(ctx: Context) -> tuple[Any, Floats]:
    data = ctx.load("a9a")
    return data.X.astype(np.float64), np.where(data.y > 0, 1.0, -1.0)


def _problem(X: Any, y: Floats) -> MarginPursuitProblem:
    """The problem of C = 1 at scale 1."""
    n = len(y)
    return MarginPursuitProblem(RowBlocks([(X, None)]), y, np.full(n, 1.0 / n), float(n), 1.0 / n, CatoniLoss(), True)


def _logistic_value(model: Any, X: Any, y: Floats) -> float:
    """`1/2 |w|^2 + sum log(1 + exp(-m))`."""
    margins = y * model.decision_function(X)
    return float(0.5 * np.sum(model.coef_**2) - np.sum(np.log(np.maximum(expit(margins), 1e-300))))


def gradients(ctx: Context) -> dict[str, float]:
    """Processor milliseconds of a value with its gradient, ours and LogisticRegression's, at the same weights."""
    (X, y), peer = _a9a(ctx), LinearModelLoss(base_loss=HalfBinomialLoss(), fit_intercept=True)
    ours, labels = _problem(X, y), (y > 0).astype(np.float64)
    weights = 0.1 * np.random.default_rng(0).standard_normal(X.shape[1] + 1)
    calls: dict[str, Callable[[], Any]] = {
        PURSUIT: lambda: ours.value_gradient(weights),
        LOGISTIC: lambda: peer.loss_gradient(weights, X, labels, l2_reg_strength=1.0 / len(y)),
    }
    timings = ctx.clock({name: lambda call=call: [call() for _ in range(EVALUATIONS)] for name, call in calls.items()})  # type: ignore[misc]
    return {name: 1e3 * timing.processor_median / EVALUATIONS for name, timing in timings.items()}


def _to_the_optimum(
    ctx: Context, makes: Mapping[str, Callable[[float], Any]], above: Mapping[str, Callable[[Any], float]]
) -> dict[str, Row]:
    """The loosest tolerance of each fit that comes within `NEAR` of the least value, what is left, and its time."""
    found: dict[str, Row] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, make in makes.items():
            for tol in TOLS:
                found[name] = {"tol": tol, "excess": above[name](make(tol))}
                if found[name]["excess"] <= NEAR:
                    break
        timings = ctx.clock({name: partial(makes[name], row["tol"]) for name, row in found.items()})
    return {name: row | {"processor_s": timings[name].processor_median} for name, row in found.items()}


def fits(ctx: Context) -> dict[str, Row]:
    """Whole fits of margin pursuit and logistic regression, each to its own optimum."""
    X, y = _a9a(ctx)
    least = lbfgs.solve(_problem(X, y), tol=1e-13).value
    exact = _logistic_value(LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, y), X, y)
    found = _to_the_optimum(
        ctx,
        {
            PURSUIT: lambda tol: wm.MarginPursuitClassifier(scale=1.0, tol=tol).fit(X, y),
            LOGISTIC: lambda tol: LogisticRegression(tol=tol, max_iter=5000).fit(X, y),
        },
        {
            PURSUIT: lambda model: float(model.objective_[0]) / least - 1.0,
            LOGISTIC: lambda model: _logistic_value(model, X, y) / exact - 1.0,
        },
    )
    return {name: row | {"ms": 1e3 * row["processor_s"]} for name, row in found.items()}


def stochastic(ctx: Context) -> dict[str, float]:
    """Gradients a second: what `PASSES` more passes take, from fits of 1 and of 1 + PASSES passes."""
    X, y = _a9a(ctx)
    shared: Row = {"alpha": 1.0 / len(y), "tol": None, "random_state": 0}
    ours: Row = {"scale": 1.0, "solver": "sgd", "random_state": 0}
    makes: dict[str, Callable[[int], Any]] = {
        PURSUIT: lambda k: wm.MarginPursuitClassifier(max_iter=k, **ours),
        f"{PURSUIT}, averaged": lambda k: wm.MarginPursuitClassifier(
            max_iter=k, solver_options={"average": True}, **ours
        ),
    }
    for loss in PEER_LOSSES:
        makes[f"SGDClassifier, {loss}"] = lambda k, loss=loss: SGDClassifier(loss=loss, max_iter=k, **shared)  # type: ignore[misc]
    cases = {
        f"{name}|{k}": lambda make=make, k=k: make(k).fit(X, y)  # type: ignore[misc]
        for name, make in makes.items()
        for k in (1, 1 + PASSES)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        timings = ctx.clock(cases)
    rates = {}
    for name in makes:
        longer, shorter = (timings[f"{name}|{k}"].processor_median for k in (1 + PASSES, 1))
        rates[name] = PASSES * len(y) / max(longer - shorter, 1e-9)
    return rates


def certified(ctx: Context) -> Row:
    """Objective at tol 1e-8 above the one at 1e-14, and the gap that was proved."""
    X, y = _a9a(ctx)
    found, best = (lbfgs.solve(_problem(X, y), tol=tol) for tol in (1e-8, 1e-14))
    return {"excess": found.value / best.value - 1.0, "gap": found.gap, "iterations": found.n_iter}


def _named(part: str) -> Callable[[Content], Iterable[Row]]:
    """Rows of a mapping of names to rows, or to numbers."""
    return lambda content: [
        {"name": name} | (row if isinstance(row, dict) else {"value": row})
        for name, row in (content.get(part) or {}).items()
    ]


def _speed_targets(content: Content) -> Iterable[Ratio]:
    yield from ratios("gradient, a9a", content["gradients_ms"], PURSUIT, {LOGISTIC: 1.0})
    seconds = {name: row["ms"] for name, row in content["to_the_optimum"].items()}
    yield from ratios("fit to 1e-6, a9a", seconds, PURSUIT, {LOGISTIC: 1.0})
    each = {name: 1 / rate for name, rate in content["stochastic_per_s"].items()}
    yield from ratios("stochastic gradient, a9a", each, PURSUIT, {"SGDClassifier, hinge": 1.0})


# --- what each risk costs ---------------------------------------------------------------------------------------------

NO_RIDGE = 1e7
"""A C at which the ridge adds less than 1e-8 to these values: `dro` has none."""

ALL_RISKS = (*RISKS, "pursuit", "auto")


def risks(ctx: Context) -> dict[str, Row]:
    """Processor seconds, iterations and the proved gap (None where there is none) of a fit of every risk."""
    X, y = _a9a(ctx)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        timed = ctx.clock({name: partial(wm.RiskClassifier(name, random_state=0).fit, X, y) for name in ALL_RISKS})
    found = {}
    for name, timing in timed.items():
        clf = timing.result
        gap = None if np.isnan(clf.gap_[0]) else float(clf.gap_[0])
        found[name] = {"processor_s": timing.processor_median, "iterations": clf.n_iter_, "gap": gap}
    return found


def mean_risk(ctx: Context) -> dict[str, Row]:
    """The mean beside LogisticRegression, which minimises the same objective."""
    X, y = _a9a(ctx)
    least = _logistic_value(LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, y), X, y)
    makes: dict[str, Callable[[float], Any]] = {
        "RiskClassifier, mean": lambda tol: wm.RiskClassifier(tol=tol).fit(X, y),
        LOGISTIC: lambda tol: LogisticRegression(tol=tol, max_iter=5000).fit(X, y),
    }
    return _to_the_optimum(ctx, makes, dict.fromkeys(makes, lambda model: _logistic_value(model, X, y) / least - 1.0))


def beside_dro(ctx: Context) -> list[Row]:
    """The least values of `dro`, which states these problems for a conic solver, and ours, on 60 rows drawn twice."""
    dro, found = ctx.peer("dro.linear_model"), []
    for seed in (0, 1) if dro is not None else ():
        X, y = make_classification(60, 4, n_informative=3, n_redundant=0, flip_y=0.1, class_sep=1.5, random_state=seed)
        for risk, level, name, settings in (
            ("chi-square", 0.02, "Chi2DRO", {"eps": 0.04}),  # its ball has no half: eps is twice our radius
            ("chi-square", 0.1, "Chi2DRO", {"eps": 0.2}),
            ("cvar", 0.7, "CVaRDRO", {"alpha": 0.7}),
            ("cvar", 0.9, "CVaRDRO", {"alpha": 0.9}),
            ("wasserstein", 0.01, "WassersteinDRO", {"eps": 0.01, "p": 2}),
            ("wasserstein", 0.1, "WassersteinDRO", {"eps": 0.1, "p": 2}),
        ):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")  # of the conic solver
                peer = getattr(dro, name)(4, model_type="logistic")
                peer.update(settings)
                peer.fit(X, 2.0 * y - 1.0)
            clf = wm.RiskClassifier(risk, level=level, C=NO_RIDGE, tol=1e-9).fit(X, y)
            ours, theirs = float(clf.objective_[0]), float(peer.robust_obj)
            apart = abs(ours / theirs - 1.0)
            found.append({"risk": risk, "level": level, "seed": seed, "ours": ours, "dro": theirs, "apart": apart})
    return found


def _risk_targets(content: Content) -> Iterable[Ratio | Limit]:
    seconds = {name: row["processor_s"] for name, row in content["mean"].items()}
    yield from ratios("the same objective to 1e-6, a9a", seconds, "RiskClassifier, mean", {LOGISTIC: 2.0})
    for name, row in content["risks"].items():
        yield Limit(f"a9a, risk {name}, a fit", row["processor_s"], 1.0, "s")
    if content["dro"]:
        apart = max(row["apart"] for row in content["dro"])
        yield Limit("least values of chi-square, CVaR, Wasserstein beside dro's", apart, 1e-6)


# --- which method withstands what -------------------------------------------------------------------------------------

TRAIN_ROWS, TEST_ROWS = 4000, 20_000
SEEDS = 5
SHARES = (0.1, 0.2)
KINDS = ("labels", "tails", "times 3", "times 20")
PEERS, ROBUST = (LOGISTIC, "LinearSVC", "SGD modified Huber"), ("CatoniRisk", "MedianOfMeans")


def _splits(ctx: Context, name: str) -> Draw:
    """Rows of a data set of two classes, standardised by the training rows; those of a9a stay 0 and 1."""
    data = ctx.load(name)
    if name == "a9a":
        X, y, X_test, y_test = data.X.toarray(), data.y > 0, data.X_test.toarray(), data.y_test > 0

        def split(seed: int) -> Split:
            rows = np.random.default_rng(seed).permutation(len(y))[:TRAIN_ROWS]
            return Split(X[rows], y[rows].astype(int), X_test, y_test.astype(int))

        return split
    if name == "covtype":
        X, y = data[0][:, :10], data[1] == 1
    else:
        X, y = data
        y = y > 13 if name == "letter" and not ctx.quick else y == y.max()
    return drawn(X, y, TRAIN_ROWS, TEST_ROWS)


def spoil(split: Split, kind: str, share: float, seed: int) -> Split:
    """The split with a share of its training rows spoiled.

    "labels": the other label; "tails": Cauchy noise on every feature, the label stays; "times 3", "times 20": all
    features multiplied, and the other label.
    """
    rng = np.random.default_rng((seed, 1))
    rows = rng.permutation(len(split.y))[: round(share * len(split.y))]
    X, y = split.X.copy(), split.y.copy()
    if kind == "tails":
        X[rows] += rng.standard_cauchy((len(rows), X.shape[1]))
    else:
        y[rows] = 1 - y[rows]
        X[rows] *= {"labels": 1.0, "times 3": 3.0, "times 20": 20.0}[kind]
    return split._replace(X=X, y=y)


def clip_rows(X: Any, limit: float) -> Any:
    """Rows of norm at most `limit`."""
    return X * np.minimum(1.0, limit / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300))


def _robust_methods(split: Split, seed: int) -> dict[str, Any]:
    """The classifiers, and logistic regression behind three remedies; those see the spoiled training rows, too."""
    limit = float(np.median(np.linalg.norm(split.X, axis=1)))
    low, high = np.quantile(split.X, [0.05, 0.95], axis=0)
    rows = FunctionTransformer(clip_rows, kw_args={"limit": limit})
    columns = FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high})
    plain = LogisticRegression(max_iter=1000)
    return {
        LOGISTIC: plain,
        "LinearSVC": LinearSVC(random_state=seed),
        "SGD modified Huber": SGDClassifier(loss="modified_huber", random_state=seed),
        "logistic, RobustScaler": make_pipeline(RobustScaler(), plain),
        "logistic, rows clipped": make_pipeline(rows, plain),
        "logistic, columns clipped": make_pipeline(columns, plain),
        "MarginPursuit": wm.MarginPursuitClassifier(),
        "MarginPursuit, rows clipped": make_pipeline(rows, wm.MarginPursuitClassifier()),
        "LDM": LDMClassifier(max_iter=200, random_state=seed),
        "MarginDistribution": MarginDistributionClassifier(random_state=seed),
        "CatoniRisk": CatoniRiskClassifier(),
        "MedianOfMeans": MedianOfMeansClassifier(random_state=seed),
        "MedianOfMeans, gradient": MedianOfMeansClassifier(method="gradient", random_state=seed),
    }


Errors = dict[str, dict[str, dict[str, list[float]]]]
"""By task, case and method: test errors of the draws."""


def robustness(ctx: Context) -> Errors:
    """Test errors of every method, for every data set of the half, kind, share and seed."""
    found: Errors = {}
    every = [("clean", 0.0), *((kind, share) for kind in KINDS for share in SHARES)]
    for name in names("margins", ctx.task.half)[: ctx.pick(None, 2)]:  # type: ignore[arg-type]
        task = _splits(ctx, name)
        for seed in range(ctx.pick(SEEDS, 2)):
            split = task(seed)
            for kind, share in ctx.pick(every, [every[0], *every[5:7]]):
                bad = split if kind == "clean" else spoil(split, kind, share, seed)
                into = found.setdefault(name, {}).setdefault(f"{kind} {share:g}", {})
                for method, clf in _robust_methods(bad, seed).items():
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ConvergenceWarning)  # LIBLINEAR on rows of different lengths
                        clf.fit(bad.X, bad.y)
                    error = float((clf.predict(split.X_test) != split.y_test).mean())
                    into.setdefault(method, []).append(round(error, 5))
    return found


def _percent(values: Iterable[float]) -> tuple[float, float]:
    return mean_and_error([100 * value for value in values])


def _error_rows(content: Content) -> Iterable[Row]:
    for name, cases in content["test_error"].items():
        for method in cases["clean 0"]:
            yield {"data": name, "method": method} | {case: _percent(of[method]) for case, of in cases.items()}


def _lead_rows(content: Content) -> Iterable[Row]:
    """By how much the robust methods beat each peer where rows are multiplied by 3; paired by seed."""
    for name, cases in content["test_error"].items():
        for case in [case for case in cases if case.startswith("times 3")]:
            for robust in ROBUST:
                for peer in PEERS:
                    pairs = zip(cases[case][peer], cases[case][robust], strict=True)
                    gain = _percent(theirs - ours for theirs, ours in pairs)
                    yield {"data": name, "spoiled": case, "method": robust, "peer": peer, "gain": gain,
                           "sure": gain[0] > 2 * gain[1]}  # fmt: skip


_CASES = ("clean 0", *(f"{kind} {share:g}" for kind in KINDS for share in SHARES))
_ROBUSTNESS = {
    "few": Table(
        "Test errors: clean rows, a fifth of the labels wrong, a fifth of the rows tripled and mislabelled",
        lambda content: [
            row for row in _error_rows(content) if row["method"] in
            (LOGISTIC, "logistic, rows clipped", "MarginPursuit", "LDM", "CatoniRisk", "MedianOfMeans")
        ],
        "data | method | clean, %: {clean 0:±.1f} | wrong labels, %: {labels 0.2:±.1f} "
        "| tripled, wrong label, %: {times 3 0.2:±.1f}",
    ),
    "errors": Table(
        "Test error in %", _error_rows, "data | method | " + " | ".join(f"{case}: {{{case}:±.1f}}" for case in _CASES)
    ),
    "leads": Table(
        "Rows multiplied by 3, with the other label", _lead_rows,
        "data | spoiled | method | peer | peer's error minus this one: {gain:±+.1f} | more than 2 standard errors: "
        "{sure}",
    ),
}  # fmt: skip


def _robust_sentences(content: Content) -> Iterable[tuple[str, str]]:
    """The verdict over all data sets of the half."""
    errors = content["test_error"]

    def worst(method: str) -> float:
        """Points above its own clean error, the largest of all data sets."""
        return max(
            100 * (statistics.fmean(cases["times 3 0.2"][method]) - statistics.fmean(cases["clean 0"][method]))
            for cases in errors.values()
        )

    names_of = ("LogisticRegression", "logistic, rows clipped", "CatoniRisk")
    plain, clipped, catoni = (f"{worst(name):.1f}" for name in names_of)
    yield (
        "docs/comparison.md",
        (
            f"logistic regression loses up to {plain} points, logistic regression on rows of clipped norm up to "
            f"{clipped}, and "
            f"`baselines.CatoniRiskClassifier` up to {catoni}"
        ),
    )


# --- which risk when --------------------------------------------------------------------------------------------------

RISK_CASES = (("clean", 0.0), ("labels", 0.1), ("labels", 0.2), ("times 3", 0.1), ("times 3", 0.2))


def _risk_task(ctx: Context, name: str) -> Draw:
    """The split of every seed, at most 3,000 training rows."""
    from benchmarks.data.sources import OUTCOMES, encoded

    data = ctx.load(name)
    if name.startswith("drawn"):
        return data  # type: ignore[no-any-return]
    if name in OUTCOMES:
        X, y = encoded(data, OUTCOMES[name])
        return drawn(X.toarray(), y)
    if name == "a9a":
        return drawn(data.X.toarray(), data.y > 0)
    if name == "mnist":
        chosen = np.isin(data.digit, (3, 8))
        return drawn(data.X[chosen].astype(np.float64), data.digit[chosen] == 8)
    X, y = data
    split_at: dict[str, Callable[[Any], Any]] = {
        "covtype": lambda kind: kind == 1, "letter": lambda letter: letter > 13, "digits": lambda digit: digit % 2,
    }  # fmt: skip
    return drawn(np.asarray(X, dtype=np.float64), split_at.get(name, lambda label: label == label.max())(y))


def risk_errors(ctx: Context) -> Errors:
    """Test errors in percent of two peers and every risk at its default level, by task and case."""
    methods: dict[str, Any] = {LOGISTIC: LogisticRegression(max_iter=2000), "LinearSVC": LinearSVC(random_state=0)}
    methods |= {name: wm.RiskClassifier(name, random_state=0) for name in ALL_RISKS if name != "mean"}
    errors: Errors = {}
    every = names("risks", ctx.task.half)  # type: ignore[arg-type]
    for task in every if not ctx.quick else every[-2:]:
        draw = _risk_task(ctx, task)
        for seed in range(ctx.pick(SEEDS, 2)):
            split = draw(seed)
            for kind, share in RISK_CASES:
                bad = split if kind == "clean" else spoil(split, kind, share, seed)
                case = kind if share == 0.0 else f"{kind}, {share:.0%}"
                into = errors.setdefault(task, {}).setdefault(case, {})
                for name, clf in methods.items():
                    if name == "LinearSVC" and kind != "clean":
                        continue  # LIBLINEAR takes minutes on rows of very different lengths
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ConvergenceWarning)
                        clf.fit(bad.X, bad.y)
                    error = 100.0 * float((clf.predict(split.X_test) != split.y_test).mean())
                    into.setdefault(name, []).append(round(error, 3))
    return errors


def _above(some: Iterable[float], others: Iterable[float]) -> tuple[float, float]:
    """By how much errors lie above others, paired, and the standard error of that."""
    return mean_and_error([ours - theirs for ours, theirs in zip(some, others, strict=True)])


def _overview(content: Content) -> Iterable[Row]:
    """By method and case: the mean over the tasks of the error above that of logistic regression on clean rows."""
    errors = content["test_error"]
    for name in next(iter(errors.values()))["clean"]:
        row: Row = {"method": name}
        for case, found in next(iter(errors.values())).items():
            if name in found:
                by_task = [_above(cases[case][name], cases["clean"][LOGISTIC])[0] for cases in errors.values()]
                row[case] = mean_and_error(by_task)
        yield row


def _auto(content: Content) -> Iterable[Row]:
    """The two targets of "auto", by task."""
    for task, cases in content["test_error"].items():
        clean = cases["clean"]
        peer = min((LOGISTIC, "LinearSVC"), key=lambda name: statistics.mean(clean[name]))
        lost = _above(clean["auto"], clean[peer])
        changes = {case: _above(of["auto"], clean["auto"]) for case, of in cases.items() if case != "clean"}
        yield {"task": task, "peer": statistics.mean(clean[peer]), "lost": lost, "near": lost[0] <= 0.2,
               "kept": [change[0] for change in changes.values()], **changes}  # fmt: skip


def _choice_targets(content: Content) -> Iterable[Limit]:
    rows = list(_auto(content))
    spoilt = [change for row in rows for change in row["kept"]]
    yield Limit(
        "risk auto on clean rows above the best peer, worst task", max(row["lost"][0] for row in rows), 0.2, "points"
    )
    yield Limit("risk auto on spoilt rows above clean ones, mean", sum(spoilt) / len(spoilt), 1.0, "points")
    share = 100.0 * sum(each <= 1.0 for each in spoilt) / len(spoilt)
    yield Limit("risk auto, cases within a point of clean rows", share, 100.0, "%", at_least=True)


def _choice_sentences(content: Content) -> Iterable[tuple[str, str]]:
    rows = list(_auto(content))
    spoilt = [change for row in rows for change in row["kept"]]
    near, kept = sum(row["near"] for row in rows), sum(each <= 1.0 for each in spoilt)
    yield (
        "docs/which-risk.md",
        (
            f'on {near} of {len(rows)} tasks "auto" is at most .2 points behind the better of the two on clean rows, '
            f"and in {kept} of {len(spoilt)} spoilt cases at most a point above its own error on clean ones"
        ),
    )


_SPOILT = tuple(f"{kind}, {share:.0%}" for kind, share in RISK_CASES[1:])
_CHOICE = {
    "overview": Table(
        "Points above LogisticRegression on clean rows, means over all tasks", _overview,
        "method | clean: {clean:±+.2f} | " + " | ".join(f"{case}: {{{case}:±+.2f}}" for case in _SPOILT),
    ),
    "auto": Table(
        'risk="auto": test error in %, differences in points', _auto,
        "task | best peer, clean: {peer:.1f} | auto - best peer, clean: {lost:±+.2f} | "
        + " | ".join(f"{case} - clean: {{{case}:±+.2f}}" for case in _SPOILT) + " | clean <= 0.2: {near}",
    ),
}  # fmt: skip

TASKS = {
    "margin_speed": Task(
        "Margin pursuit beside scikit-learn on a9a, C = 1, scale 1: a value with its gradient over all rows, whole "
        "fits to\n"
        "within 1e-6 of their own optimum, stochastic gradients a second with everything that a pass brings along.",
        {"gradients_ms": gradients, "to_the_optimum": fits, "stochastic_per_s": stochastic, "certified": certified},
        {
            "gradients": Table("Value and gradient of all rows (processor ms)", _named("gradients_ms"),
                "method: {name} | ms: {value:.3f}"),
            "fits": Table(
                f"Whole fits to within {NEAR:g} of their own optimum (processor ms)", _named("to_the_optimum"),
                "estimator: {name} | tol: {tol:g} | excess: {excess:.1e} | ms: {ms:.1f}",
            ),
            "stochastic": Table(
                "Stochastic gradients a second (whole passes, bias and looks included)", _named("stochastic_per_s"),
                "method: {name} | a second: {value:.3g}",
            ),
            "certified": Table(
                "L-BFGS at tol 1e-8, scale 1", lambda content: [content["certified"]] if "certified" in content else [],
                "objective above the best (relative): {excess:.1e} | gap proved: {gap:.1e} | iterations",
            ),
        },
        _speed_targets, subject="margins", half="tuning",
    ),
    "risk_speed": Task(
        "What each risk of `RiskClassifier` costs on a9a (C = 1, default tolerances, processor seconds), the mean "
        "beside\n"
        "LogisticRegression to 1e-6 of the objective that both minimise, and least values beside those of the package "
        "`dro`.",
        {"risks": risks, "mean": mean_risk, "dro": beside_dro},
        {
            "risks": Table("Whole fits", _named("risks"),
                "risk: {name} | s: {processor_s:.3f} | iterations | gap proved: {gap:.1e}"),
            "mean": Table(
                f"The same objective to within {NEAR:g}", _named("mean"),
                "estimator: {name} | tol: {tol:g} | excess: {excess:.1e} | s: {processor_s:.3f}",
            ),
            "dro": Table(
                "Least values, 60 rows, logistic loss", "dro",
                "risk | level | seed | ours: {ours:.9f} | dro: {dro:.9f} | apart (relative): {apart:.1e}",
            ),
        },
        _risk_targets, subject="margins", half="tuning", peers=("dro",),
    ),
    "margin_robustness": Task(
        "Thirteen linear classifiers on 4,000 training rows of which 10% or 20% are spoiled, clean test rows, C = 1:\n"
        "ijcnn1, letters A to M against N to Z, and mushrooms, columns standardised; five draws.",
        {"test_error": robustness}, _ROBUSTNESS, sentences=_robust_sentences, subject="margins",
    ),
    "margin_robustness_tuned": Task(
        "The same on a9a and on covtype's ten numeric columns (class 1 against the rest), which defaults were looked "
        "at on.",
        {"test_error": robustness}, _ROBUSTNESS, subject="margins", half="tuning",
    ),
    "risk_choice": Task(
        "Which risk when: test errors of every risk at its default level, LogisticRegression and LinearSVC on data "
        "sets and drawn\n"
        "families that nothing was chosen on. A share of the training rows has the other label, or that and features "
        "times 3.",
        {"test_error": risk_errors}, _CHOICE, _choice_targets, _choice_sentences, subject="risks",
    ),
    "risk_choice_tuning": Task(
        "The same on the data that the candidates and the rule of `risk=\"auto\"` were chosen on.",
        {"test_error": risk_errors}, _CHOICE, _choice_targets, subject="risks", half="tuning",
    ),
}  # fmt: skip
