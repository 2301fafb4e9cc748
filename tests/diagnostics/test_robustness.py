"""Certified radii: exact for linear scores, lower bounds for kernels, and what a search for smaller changes finds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

import widemargin as wm
from widemargin.diagnostics import certified_radii
from widemargin.exceptions import DataError
from widemargin.preprocessing import make_preprocessor


def draw(n=200, d=3, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 10.0, 0.1][:d]
    score = X[:, 0] + 0.1 * X[:, 1] + rng.normal(size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, k) / k))


def moved(clf, X, radii, norm, factor, rng):
    """Whether any of many changes of `factor` times the radius overturns a decision; the steepest ones among them."""
    said, turned = clf.predict(X), np.zeros(len(X), dtype=bool)
    tried = [rng.normal(size=X.shape) for _ in range(30)]
    step = 1e-6 * X.std(axis=0)
    score = clf.decision_function(X)
    if score.ndim == 1:
        slopes = np.column_stack([
            (clf.decision_function(X + step * (np.arange(X.shape[1]) == j)) - score) / step[j]
            for j in range(X.shape[1])
        ])  # fmt: skip
        tried += [-np.sign(score)[:, None] * (slopes if norm == "l2" else np.sign(slopes))]
    for change in tried:
        size = np.linalg.norm(change, axis=1) if norm == "l2" else np.abs(change).max(axis=1)
        finite = np.where(np.isfinite(radii), radii, 0.0)
        turned |= clf.predict(X + change / size[:, None] * (factor * finite)[:, None]) != said
    return turned


SCALERS = [None, StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()]


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("scaler", SCALERS, ids=lambda step: type(step).__name__)
def test_of_linear_models_the_radius_is_the_distance(norm, scaler):
    X, y = draw()
    clf = make_pipeline(scaler, LogisticRegression()).fit(X, y) if scaler else LogisticRegression().fit(X, y)
    radii = certified_radii(clf, X, norm=norm)
    assert radii.exact and radii.method == "distance to the boundary"
    rng = np.random.default_rng(1)
    assert not moved(clf, X, radii.values, norm, 0.999, rng).any()
    assert moved(clf, X, radii.values, norm, 1.001, rng).all()  # the steepest change does it


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize(
    "clf",
    [
        wm.KernelSVC(gamma=0.3),
        wm.RiskClassifier(kernel="rbf", gamma=0.5),
        wm.RiskClassifier(kernel="laplacian", gamma=0.5),
        wm.RiskClassifier(kernel="rbf", gamma=0.2, feature_map="nystroem", n_components=40, random_state=0),
        wm.RiskClassifier(kernel="rbf", gamma=0.2, feature_map="fourier", n_components=60, random_state=0),
        SVC(gamma=0.4),
    ],
    ids=lambda clf: f"{type(clf).__name__} {getattr(clf, 'kernel', '')} {getattr(clf, 'feature_map', '')}",
)
def test_of_kernels_no_smaller_change_is_found(clf, norm):
    X, y = draw(150)
    clf = make_pipeline(StandardScaler(), clf).fit(X, y)
    radii = certified_radii(clf, X, norm=norm)
    assert not radii.exact and radii.values.min() >= 0 and np.median(radii.values) > 1e-4
    assert not moved(clf, X, radii.values, norm, 1.0, np.random.default_rng(1)).any()


@pytest.mark.parametrize("kernel", ["linear", None])
def test_a_linear_kernel_is_exact(kernel):
    X, y = draw(100)
    linear = wm.RiskClassifier(tol=1e-10).fit(X, y)
    other = wm.RiskClassifier(kernel=kernel, tol=1e-10).fit(X, y)
    found = certified_radii(other, X)
    assert found.exact
    assert found.values == pytest.approx(certified_radii(linear, X).values, rel=1e-3)


@pytest.mark.parametrize("clf", [LogisticRegression(max_iter=1000), LinearSVC(), wm.RiskClassifier()],
                         ids=lambda clf: type(clf).__name__)  # fmt: skip
def test_of_more_classes_the_nearest_rival_decides(clf):
    X, y = draw(300, k=3)
    clf = make_pipeline(StandardScaler(), clf).fit(X, y)
    radii = certified_radii(clf, X)
    scores, weights = clf.decision_function(X), clf[-1].coef_ / clf[0].scale_
    best = scores.argmax(axis=1)
    wanted = [
        min((s[b] - s[k]) / np.linalg.norm(weights[b] - weights[k]) for k in range(3) if k != b)
        for s, b in zip(scores, best, strict=True)
    ]
    assert radii.values == pytest.approx(wanted)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("feature_map", [None, "nystroem", "fourier"])
def test_two_classes_with_a_score_each_are_parted_by_the_difference(norm, feature_map):
    X, y = draw()
    options = {"gamma": 0.3, "n_components": 40}
    svc = wm.MulticlassSVC(C=1.0, feature_map=feature_map, solver_options=options, random_state=0)
    clf = make_pipeline(StandardScaler(), svc).fit(X, y)
    radii, rng = certified_radii(clf, X, norm=norm), np.random.default_rng(1)
    assert radii.exact == (feature_map is None) and np.median(radii.values) > 1e-4
    assert not moved(clf, X, radii.values, norm, 0.999, rng).any()
    assert not radii.exact or moved(clf, X, radii.values, norm, 1.001, rng).all()


def test_classes_that_only_rounding_parts_are_not_certified():
    X = np.random.default_rng(0).normal(size=(50, 2))
    clf = LogisticRegression().fit(X, np.arange(50) % 3)
    # Two classes that were told apart by nothing: their scores are equal but for the last digit.
    clf.coef_, clf.intercept_ = np.array([[0.3, 0.1], [0.3, np.nextafter(0.1, 1)], [-0.6, -0.2]]), np.zeros(3)
    radii = certified_radii(clf, X)
    said = clf.predict(X)
    assert (radii.values[said != 2] == 0.0).all() and (radii.values[said == 2] > 0.0).all()


def test_thresholds_searches_and_the_preprocessor_of_tables():
    X, y = draw()
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}).fit(X, y)
    plain = certified_radii(search, X).values
    assert plain == pytest.approx(certified_radii(search.best_estimator_, X).values)
    goal = "minimize false_positive_rate()\nsubject to recall() >= 0.9"
    clf = wm.GoalThresholdClassifier(search.best_estimator_, goal, cv="prefit").fit(X, y)
    shifted = certified_radii(clf, X)
    distance = np.abs(search.decision_function(X) - clf.threshold_) / np.linalg.norm(search.best_estimator_.coef_)
    assert shifted.exact and shifted.values == pytest.approx(distance)
    goal = "minimize abstention_rate()\nsubject to selective_error() <= 0.1"
    clf = wm.GoalThresholdClassifier(search.best_estimator_, goal, cv="prefit", abstain="?").fit(X, y)
    radii = certified_radii(clf, X).values
    assert ((radii > 0) == (clf.predict(X) != "?")).all()
    assert (certified_radii(make_pipeline("passthrough", clf), X).values == radii).all()
    # A margin is counted where there is a decision; the share of rows without one is added to count these as below.
    below = np.where(y == 1, 1, -1) * clf.decision_function(X) < 0.3
    decided = clf.predict(X) != "?"
    for text, share in {"": (below & decided), " + abstention_rate()": (below | ~decided)}.items():
        report = wm.audit(clf, f"subject to margin_below(0.3){text} <= 0.5", X, y)
        assert report["#1"].rate == pytest.approx(share.mean())
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": X[:, 0], "pay": X[:, 1], "work": rng.choice(["a", "b"], len(y))})
    model = make_pipeline(make_preprocessor(), LogisticRegression()).fit(frame, y)
    radii = certified_radii(model, frame, norm="linf").values
    weights = model[-1].coef_[0, :2] / frame[["age", "pay"]].std(ddof=0).to_numpy()
    assert radii == pytest.approx(np.abs(model.decision_function(frame)) / np.abs(weights).sum())
    binned = make_pipeline(make_preprocessor(numbers="bins"), LogisticRegression()).fit(frame, y)
    with pytest.raises(DataError, match="does more than scale"):
        certified_radii(binned, frame)


def test_as_a_rate_of_a_goal():
    X, y = draw(400)
    clf = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    women = pd.DataFrame({"sex": np.where(np.arange(400) % 3, "f", "m")})
    goal = """f = population(sex == "f")
subject to certified_rate(0.1) >= 0.5
subject to certified_rate(0.05, f, norm="linf") >= 0.5
subject to margin_quantile(0.2, f) >= -0.5"""
    report = wm.audit(clf, goal, X, y, populations=women, confidence=0.9)
    f = women["sex"] == "f"
    margins = np.where(y == 1, 1, -1) * clf.decision_function(X)
    assert [item.rate for item in report.constraints] == pytest.approx([
        (certified_radii(clf, X).values > 0.1).mean(), (certified_radii(clf, X, norm="linf").values[f] > 0.05).mean(),
        (margins[f] < -0.5).mean(),
    ])  # fmt: skip
    assert {item.interval.method for item in report.constraints} == {"clopper-pearson"}
    assert wm.audit(clf, "subject to certified_rate(0.1) >= 0.5", X[:50], pos_label=1).constraints[0].n_rows == 50


@pytest.mark.parametrize("rate", ["margin_quantile(0.05) >= -5", "certified_rate(0.001) >= 0.1"])
def test_of_a_goal_about_scores_no_constant_is_said_to_meet_it(rate):
    """A constant has none: the scores are those of the model that is audited."""
    X, y = draw()
    clf = LogisticRegression().fit(X, y)
    report = wm.audit(clf, f"minimize errors()\nsubject to {rate}", X, y)
    assert report.passed
    assert "constant" not in str(report)


def test_a_rate_that_is_a_lower_bound_is_marked():
    X, y = draw(100)
    goal = "subject to certified_rate(0.1) >= 0.1"
    linear, kernel = LogisticRegression().fit(X, y), SVC().fit(X, y)
    assert not any("lower bounds" in text for text in wm.audit(linear, goal, X, y).cautions)
    report = wm.audit(kernel, goal, X, y)
    assert report.cautions[-1].startswith(
        "certified rates are lower bounds here, by the norm in the space of the kernel"
    )
    assert "Caution: certified rates are lower bounds" in str(report)


def test_what_is_not_known_is_refused():
    X, y = draw()
    for clf in (RandomForestClassifier(10), CalibratedClassifierCV(LogisticRegression())):
        with pytest.raises(DataError, match="nothing can be certified"):
            certified_radii(clf.fit(X, y), X)
    with pytest.raises(DataError, match="does more than scale columns"):
        certified_radii(
            make_pipeline(PolynomialFeatures(), LogisticRegression(max_iter=5000)).fit(X[:, :1], y), X[:, :1]
        )
    with pytest.raises(DataError, match="kernel='poly' is not certified"):
        certified_radii(SVC(kernel="poly").fit(X, y), X)
    with pytest.raises(DataError, match="pairs of classes"):
        certified_radii(SVC().fit(*draw(k=3)), X)
    with pytest.raises(DataError, match="norm is 'l1'"):
        certified_radii(LogisticRegression().fit(X, y), X, norm="l1")
