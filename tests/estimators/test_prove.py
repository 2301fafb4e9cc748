"""The verb `prove`: fitted classifiers against rows that nothing was chosen on."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from widemargin import GoalReduction, GoalThresholdClassifier, RateConstrainedClassifier
from widemargin.exceptions import CapabilityError, DataError, InfeasibleGoalError
from widemargin.rows import External

GOAL = "subject to recall() >= 0.6\nsubject to demographic_parity(sex, difference=0.4)"


def draw(n, seed=0):
    rng = np.random.default_rng(seed)
    woman = rng.random(n) < 0.4
    X = rng.normal(size=(n, 3))
    X[:, 0] -= 0.6 * woman
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=n) > 0.2).astype(int)
    return X, y, pd.DataFrame({"sex": np.where(woman, "F", "M")})


MODELS = [
    RateConstrainedClassifier(GOAL),
    RateConstrainedClassifier(GOAL, enforce="randomized", random_state=0),
    GoalThresholdClassifier(LogisticRegression(), GOAL, per_population="sex", random_state=0),
    GoalThresholdClassifier(LogisticRegression(), GOAL, randomize=True, random_state=0),
    GoalReduction(LogisticRegression(), GOAL, max_models=1, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_fresh_rows_prove_what_was_fitted(model):
    X, y, table = draw(1500)
    model.fit(X, y, populations=table)
    report = model.prove(*draw(3000, seed=1), confidence=0.9)
    assert report.n_rows == 3000
    assert report.certificate.startswith("With probability >= 0.9 over the draw of the validation rows, all 3")
    assert "exact unconditional test" in report.certificate
    with pytest.raises(InfeasibleGoalError, match=r"this classifier cannot be shown to meet the goal on the 30 "):
        model.prove(*draw(30, seed=2), confidence=0.999)


def test_one_rate_is_proved_exactly_where_the_binomial_says_so():
    X, y, _ = draw(2000)
    clf = RateConstrainedClassifier("minimize false_positive_rate()\nsubject to recall() >= 0.8").fit(X, y)
    seen = set()
    for seed in range(30):
        X, y, _ = draw(300, seed)
        missed = int((clf.predict(X)[y == 1] == 0).sum())
        proved = bool(binom.cdf(missed, int(y.sum()), 0.2) <= 0.3)
        seen.add(proved)
        if proved:
            clf.prove(X, y, confidence=0.7)
        else:
            with pytest.raises(InfeasibleGoalError, match=r"short by|could be chance"):
                clf.prove(X, y, confidence=0.7)
    assert seen == {True, False}


def test_external_rows_are_proved_too():
    X, y, _ = draw(1000)
    goal = "t = external()\nsubject to positive_rate(t) <= 0.6"
    clf = RateConstrainedClassifier(goal).fit(X, y, external={"t": External(draw(500, 1)[0])})
    report = clf.prove(*draw(50, seed=2)[:2], external={"t": External(draw(700, 3)[0])})
    assert "by exact binomial test on 700 rows" in report.certificate


def test_what_cannot_be_proved_is_refused():
    X, y, _ = draw(300)
    clf = RateConstrainedClassifier("subject to errors() <= 200")
    with pytest.raises(NotFittedError):
        clf.prove(X, y)
    clf.fit(X, y)
    with pytest.raises(CapabilityError, match="numbers of rows"):
        clf.prove(X, y)
    with pytest.raises(DataError, match=r"confidence=1.5 must be"):
        clf.prove(X, y, confidence=1.5)
