"""
Deciding only where the model is sure
=====================================

Some rows may be left to a person. How many have to be, so that at most 10% of the model's own decisions are wrong?
The thresholds are chosen exactly, for women and men apart, on rows that the scorer did not learn from.
"""

# %%
# A logistic regression on the census table. Its goal: as few undecided rows as can be, and in both groups at most 10%
# of the decisions wrong.

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.csv
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin as wm
from widemargin.plotting import RiskCoverageDisplay

table = pyarrow.csv.read_csv("../data/adult.csv.gz").slice(0, 16_000)
X = np.column_stack([table[name] for name in ("age", "education_num", "capital_gain", "hours_per_week")]).astype(float)
X[:, 2] = np.log1p(X[:, 2])  # most capital gains are 0, some are enormous
y, sex = np.array(table["income"]), np.array(table["sex"])
groups = table.select(["sex"])
new = slice(8000, None)
goal = """
women = population(sex == "Female")
men = population(sex == "Male")
minimize abstention_rate()
subject to women: selective_error(women) <= 0.1
subject to men: selective_error(men) <= 0.1
"""
clf = wm.GoalThresholdClassifier(
    make_pipeline(StandardScaler(), LogisticRegression()),
    goal,
    abstain="ask",
    per_population="sex",
    confidence=0.95,
    random_state=0,
)
clf.fit(X[:8000], y[:8000], populations=groups.slice(0, 8000))
said = clf.predict(X[new], populations=groups.slice(8000))

# %%
# On 8,000 new rows: what is decided, and how much of it is wrong.

print(wm.audit(said, goal, y=y[new], populations=groups.slice(8000), abstain="ask"))

# %%
# The error of the rows that the scorer is surest of, by their share. The points are where the two pairs of thresholds
# stand, on the safe side of the line, because the goal was proved with 95% confidence: most women are decided, and less
# than half of the men. They need not lie on the curves: a pair of thresholds need not be symmetrical.

display = RiskCoverageDisplay.from_estimators(clf.estimator_, X[new], y[new], groups=sex[new])
for name in ("Female", "Male"):
    inside = sex[new] == name
    decided = said[inside] != "ask"
    wrong = (said[inside] != y[new][inside])[decided].mean()
    display.ax_.plot(100 * decided.mean(), 100 * wrong, "o", color=display.lines_[name].get_color())
display.ax_.axhline(10.0, color="0.5", linewidth=0.8)
plt.show()
