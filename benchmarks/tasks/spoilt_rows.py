"""Spoilt training rows: which linear methods withstand them, and who finds the wrong labels."""

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, RobustScaler
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state

import widemargin as wm
from benchmarks.data.sources import Split, drawn, two_classes
from benchmarks.task import Content, Context, Limit, Row, Table, Task, mean_and_error, paired, quietly
from widemargin.losses.risks import RISKS
from widemargin_papers import baselines

# --- which method withstands what -------------------------------------------------------------------------------------

LOGISTIC = "LogisticRegression"
TRAIN_ROWS, TEST_ROWS = 4000, 20_000
FEW = (LOGISTIC, "logistic, rows clipped", "MarginPursuit", "LDM", "CatoniRisk", "MedianOfMeans")
"""Methods of the short table."""
SHARES = (0.1, 0.2)
ROBUST_CASES = {"clean 0": ("clean", 0.0)} | {
    f"{kind} {share:g}": (kind, share) for kind in ("labels", "tails", "times 3", "times 20") for share in SHARES
}


def spoil(split: Split, kind: str, share: float, seed: int) -> Split:
    """The split with a share of its training rows spoiled; of "fewer" some rows are left out instead.

    "tails" is Cauchy noise on every feature, the label stays; the others have the other label.
    """
    rng = np.random.default_rng((seed, 1))
    order = rng.permutation(len(split.y))
    rows = order[: round(share * len(order))]
    if kind == "fewer":
        # Near the boundary the Fisher information of a label that is wrong with probability p is (1 - 2p)^2 times that
        # of a right one; farther away it is less.
        kept = order[: round((1.0 - 2.0 * share) ** 2 * len(order))]
        return split._replace(X=split.X[kept], y=split.y[kept])
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


def _robust_methods(split: Split, seed: int, kind: str, share: float) -> dict[str, Any]:
    """The classifiers, and logistic regression behind two remedies; those see the spoiled training rows, too."""
    limit = float(np.median(np.linalg.norm(split.X, axis=1)))
    rows = FunctionTransformer(clip_rows, kw_args={"limit": limit})
    plain = LogisticRegression(max_iter=1000)
    return {
        LOGISTIC: plain,
        "LinearSVC": LinearSVC(random_state=seed),
        "logistic, RobustScaler": make_pipeline(RobustScaler(), plain),
        "logistic, rows clipped": make_pipeline(rows, plain),
        "MarginPursuit": wm.MarginPursuitClassifier(),
        "MarginPursuit, rows clipped": make_pipeline(rows, wm.MarginPursuitClassifier()),
        "LDM": baselines.LDMClassifier(max_iter=200, random_state=seed),
        "CatoniRisk": baselines.CatoniRiskClassifier(),
        "MedianOfMeans": baselines.MedianOfMeansClassifier(random_state=seed),
    }


Errors = dict[str, dict[str, dict[str, list[float]]]]
"""By task, case and method: test errors of the draws."""


def errors(
    ctx: Context, cases: Mapping[str, tuple[str, float]], unit: float,
    methods: Callable[[Split, int, str, float], Mapping[str, Any]], *sizes: int,
) -> Errors:  # fmt: skip
    """Test errors in a unit, of every method on the draws of every data set of the half, spoilt in every way."""
    found: Errors = {}
    for name, data in ctx.every(slice(1, 3)):
        draw = data if name.startswith("drawn") else drawn(*two_classes(name, data), *sizes)
        for seed in range(ctx.repeats):
            split = draw(seed)
            for case, (kind, share) in cases.items():
                bad = spoil(split, kind, share, seed) if share else split
                into = found.setdefault(name, {}).setdefault(case, {})
                for method, clf in methods(bad, seed, kind, share).items():
                    with quietly():  # LIBLINEAR on rows of different lengths
                        clf.fit(bad.X, bad.y)
                    error = float((clf.predict(split.X_test) != split.y_test).mean())
                    into.setdefault(method, []).append(round(unit * error, 5))
    return found


def _error_rows(content: Content) -> Iterable[Row]:
    for name, cases in content["test_error"].items():
        for method in cases["clean 0"]:
            yield {"data": name, "method": method} | {
                case: mean_and_error([100 * error for error in of[method]]) for case, of in cases.items()
            }


class margin_robustness(Task, subject="margins"):
    """Linear classifiers on 4,000 training rows of which 10% or 20% are spoiled, clean test rows, C = 1:
    ijcnn1, letters A to M against N to Z, and mushrooms, columns standardised; five draws.
    """

    parts = {"test_error": lambda ctx: errors(ctx, ROBUST_CASES, 1.0, _robust_methods, TRAIN_ROWS, TEST_ROWS)}
    few = Table(
        "Test errors: clean rows, a fifth of the labels wrong, a fifth of the rows tripled and mislabelled",
        lambda content: [row for row in _error_rows(content) if row["method"] in FEW],
        "data | method | clean, %: {clean 0:±.1f} | wrong labels, %: {labels 0.2:±.1f} "
        "| tripled, wrong label, %: {times 3 0.2:±.1f}",
    )  # fmt: skip
    errors = Table(
        "Test error in %", _error_rows,
        "data | method | " + " | ".join(f"{case}: {{{case}:±.1f}}" for case in ROBUST_CASES),
    )  # fmt: skip

    def sentences(self, content: Content) -> Iterable[str]:
        """Points above its own clean error where rows are tripled and mislabelled, the largest of all data sets."""
        every = content["test_error"].values()
        plain, clipped, catoni = (
            max(100 * paired(cases["times 3 0.2"][method], cases["clean 0"][method])[0] for cases in every)
            for method in (LOGISTIC, "logistic, rows clipped", "CatoniRisk")
        )
        yield (
            f"logistic regression loses up to {plain:.1f} points, logistic regression on rows of clipped norm up to "
            f"{clipped:.1f}, and `baselines.CatoniRiskClassifier` up to {catoni:.1f}"
        )


# --- which risk when --------------------------------------------------------------------------------------------------

RISK_CASES = {"clean": ("clean", 0.0)} | {
    f"{kind}, {share:.0%}": (kind, share) for kind in ("labels", "times 3", "fewer") for share in SHARES
}
_SPOILT = tuple(case for case, (kind, _) in RISK_CASES.items() if kind in ("labels", "times 3"))
HINDSIGHT = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Values of C for wrong labels whose share is known."""


def _risk_methods(split: Split, seed: int, kind: str, share: float) -> dict[str, Any]:
    """Two peers, and every risk at its default level; of wrong labels also the likelihood with their true share, at
    many C; of fewer rows only "auto", which they are to be compared with.
    """
    if kind == "fewer":
        return {"auto": wm.RiskClassifier("auto", random_state=0)}
    made: dict[str, Any] = {LOGISTIC: LogisticRegression(max_iter=2000)}
    if kind == "clean":  # LIBLINEAR takes minutes on rows of very different lengths
        made["LinearSVC"] = LinearSVC(random_state=0)
    if kind == "labels":
        made |= {f"true share, C={C}": wm.RiskClassifier("label-noise", level=share, C=C) for C in HINDSIGHT}
    every = (name for name in (*RISKS, "pursuit", "auto") if name != "mean")
    return made | {name: wm.RiskClassifier(name, random_state=0) for name in every}


def _overview(content: Content) -> Iterable[Row]:
    """By method and case: the mean over the tasks of the error above that of logistic regression on clean rows."""
    errors = content["test_error"].values()
    cases = next(iter(errors))
    for name in cases["clean"]:
        yield {"method": name} | {
            case: mean_and_error([paired(of[case][name], of["clean"][LOGISTIC])[0] for of in errors])
            for case in cases if name in cases[case]
        }  # fmt: skip


def _auto(content: Content) -> Iterable[Row]:
    """The two targets of "auto", by task."""
    for task, cases in content["test_error"].items():
        clean = cases["clean"]
        peer = min((LOGISTIC, "LinearSVC"), key=lambda name: statistics.mean(clean[name]))
        lost = paired(clean["auto"], clean[peer])
        changes = {case: paired(of["auto"], clean["auto"]) for case, of in cases.items() if case != "clean"}
        yield {"task": task, "peer": statistics.mean(clean[peer]), "lost": lost, "near": lost[0] <= 0.2} | changes


class risk_choice(Task, subject="risks", document="docs/which-risk.md"):
    """Which risk when: test errors of every risk at its default level, LogisticRegression and LinearSVC on data sets
    and drawn families that nothing was chosen on. A share of the training rows has the other label, or that and
    features times 3.
    """

    parts = {"test_error": lambda ctx: errors(ctx, RISK_CASES, 100.0, _risk_methods)}
    overview = Table(
        "Points above LogisticRegression on clean rows, means over all tasks", _overview,
        "method | clean: {clean:±+.2f} | " + " | ".join(f"{case}: {{{case}:±+.2f}}" for case in _SPOILT),
    )  # fmt: skip
    auto = Table(
        'risk="auto": test error in %, differences in points', _auto,
        "task | best peer, clean: {peer:.1f} | auto - best peer, clean: {lost:±+.2f} | "
        + " | ".join(f"{case} - clean: {{{case}:±+.2f}}" for case in tuple(RISK_CASES)[1:])
        + " | clean <= 0.2: {near}",
    )  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        rows = list(_auto(content))
        spoilt = [row[case][0] for row in rows for case in _SPOILT]
        worst = max(row["lost"][0] for row in rows)
        yield Limit("risk auto on clean rows above the best peer, worst task", worst, 0.2, "points")
        yield Limit("risk auto on spoilt rows above clean ones, mean", statistics.fmean(spoilt), 1.0, "points")
        share = 100.0 * statistics.fmean(each <= 1.0 for each in spoilt)
        yield Limit("risk auto, cases within a point of clean rows", share, 100.0, "%", at_least=True)

    def sentences(self, content: Content) -> Iterable[str]:
        rows, errors = list(_auto(content)), content["test_error"]
        beyond = [(row, case) for row in rows for case in _SPOILT if row[case][0] > 1.0]
        # Of those the ones where the best of all other methods, chosen with the test rows in hand, does not end there.
        others = [
            row[case] for row, case in beyond
            if min(
                paired(mine, errors[row["task"]]["clean"]["auto"])[0]
                for name, mine in errors[row["task"]][case].items() if name != "auto"
            ) <= 1.0
        ]  # fmt: skip
        sure = sum(mean - 2.0 * error > 1.0 for mean, error in others)
        all_cases = len(rows) * len(_SPOILT)
        pairs = [(row[f"labels, {share:.0%}"][0], row[f"fewer, {share:.0%}"][0]) for row in rows for share in SHARES]
        worth = [fewer > 1.0 for wrong, fewer in pairs if wrong > 1.0]
        yield (
            f'on {sum(row["near"] for row in rows)} of {len(rows)} tasks "auto" is at most .2 points behind the better '
            f"of the two on clean rows, and in {all_cases - len(beyond)} of {all_cases} spoilt cases at most a point "
            "above its own error on clean ones"
        )
        yield (
            f"in {len(beyond) - len(others)} of the {len(beyond)} cases that end more than a point above, so does the "
            "best of all other risks and of the likelihood that is told how many labels are wrong, at nine values of "
            "C, chosen on the test rows"
        )
        yield f"of the other {len(others)}, {sure or 'none'} is more than two standard errors above a point"
        yield (
            f"in {sum(worth)} of the {len(worth)} cases of wrong labels that end more than a point above, so do clean "
            "rows of the same worth"
        )


# --- wrong labels found -----------------------------------------------------------------------------------------------

FOLDS, FOLD_DRAWS, PLANTED = 5, 3, 0.1
OURS = "label_suspects"
PEERS = {
    "cleanlab, self confidence": "self_confidence",
    "cleanlab, normalized margin": "normalized_margin",
    "cleanlab, confidence-weighted entropy": "confidence_weighted_entropy",
}
"""Its name here, and cleanlab's."""


def plant(y: npt.NDArray[np.int64], share: float, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Labels of which a share is another class, and which ones."""
    rng = np.random.default_rng((seed, 2))
    planted = np.zeros(len(y), dtype=np.bool_)
    planted[rng.permutation(len(y))[: round(share * len(y))]] = True
    n_classes = int(y.max()) + 1
    return np.where(planted, (y + rng.integers(1, n_classes, len(y))) % n_classes, y), planted


def _probabilities(estimator: Any, X: Any, y: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """Those that `label_suspects` with this seed judges by."""
    rng = check_random_state(seed)
    cuts = [StratifiedKFold(FOLDS, shuffle=True, random_state=rng.randint(2**31 - 1)) for _ in range(FOLD_DRAWS)]
    return np.mean([cross_val_predict(estimator, X, y, cv=cut, method="predict_proba") for cut in cuts], axis=0)


def rankings(ctx: Context) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Average precision of every ranking, by data set and seed."""
    cleanlab, found = ctx.peer("cleanlab.rank"), {}
    for name, data in ctx.every(slice(3)):
        rows = (data.X, data.digit) if name == "mnist" else data if name == "letter" else two_classes(name, data)
        split, of = drawn(*rows), {}
        for seed in range(ctx.repeats):
            X, right, _, _ = split(seed)
            y, planted = plant(right, PLANTED, seed)
            estimator = LogisticRegression(C=0.1, max_iter=500)
            settings: Row = {"folds": FOLDS, "repeats": FOLD_DRAWS, "random_state": seed}
            with quietly():
                suspicion = {OURS: -wm.label_suspects(estimator, X, y, **settings).margin}
                if cleanlab is not None:
                    shares = _probabilities(estimator, X, y, seed)
                    for peer, method in PEERS.items():
                        suspicion[peer] = -cleanlab.get_label_quality_scores(y, shares, method=method)
            for ranking, suspected in suspicion.items():
                precision = round(float(average_precision_score(planted, suspected)), 5)
                of.setdefault(ranking, {"average_precision": []})["average_precision"].append(precision)
        found[name] = of
    return found


def _compared(content: Content) -> Iterable[Row]:
    for data, of in content["rankings"].items():
        precision = {name: one["average_precision"] for name, one in of.items()}
        row: Row = {"data": data} | {name: mean_and_error(values) for name, values in precision.items()}
        if peers := [precision[name] for name in PEERS if name in precision]:
            best = max(peers, key=statistics.fmean)
            row |= {"best": statistics.fmean(best), "gain": paired(precision[OURS], best)}
        yield row


class label_suspects(Task, subject="suspects", peers=("cleanlab",)):
    """Average precision of planted wrong labels (a tenth of 3,000 rows, five seeds), `label_suspects` beside cleanlab's
    three rankings over the probabilities of the same folds. The data sets have wrong labels of their own: no ranking
    reaches 1.
    """

    parts = {"rankings": rankings}
    few = Table("Average precision beside the best of cleanlab's rankings", _compared, """
        data | `label_suspects`: {label_suspects:±.3f} | best of cleanlab: {best:.3f} | minus it: {gain:±+.3f}
    """)  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        for row in _compared(content):
            if "best" in row:
                what = f"{row['data']}, average precision beside cleanlab's"
                yield Limit(what, row[OURS][0], row["best"], at_least=True)
