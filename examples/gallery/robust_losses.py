"""
Robust losses, and what they withstand
======================================

Losses of the margin differ in how hard a row far off may pull. That decides what wrong labels can do; where features
are extreme too, a convex loss gives way in the end.
"""

# %%
# A share of the training rows gets the wrong label and three times the length; the new rows are clean.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import widemargin as wm
from widemargin.losses import CatoniLoss
from widemargin_papers.baselines import CatoniRiskClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 10))
y = (X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=4000) > 0).astype(int)
shares = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]
methods = {
    "logistic regression": LogisticRegression(),
    "margin pursuit": wm.MarginPursuitClassifier(),
    "Catoni's risk (not convex)": CatoniRiskClassifier(random_state=0),
}
found = {}
for name, clf in methods.items():
    errors = []
    for share in shares:
        X_spoilt, y_spoilt = X[:2000].copy(), y[:2000].copy()
        n = int(share * 2000)
        X_spoilt[:n] *= 3.0
        y_spoilt[:n] = 1 - y_spoilt[:n]
        errors.append(1.0 - clf.fit(X_spoilt, y_spoilt).score(X[2000:], y[2000:]))
    print(f"{name}: error {errors[0]:.3f} clean, {errors[2]:.3f} with a tenth spoilt, {errors[-1]:.3f} with a quarter")
    found[name] = errors

# %%
# Left the loss of margin pursuit at three scales: half a square near the level, a straight line far from it. Right what
# the spoilt rows did.

margin = np.linspace(-4, 4, 200)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for scale in (0.3, 1.0, 3.0):
    left.plot(margin, CatoniLoss(scale=scale).value(margin), label=f"margin pursuit, scale {scale}")
left.plot(margin, np.maximum(0.0, 1.0 - margin), color="gray", linestyle="--", label="hinge")
left.plot(margin, np.log1p(np.exp(-margin)), color="gray", linestyle=":", label="logistic")
left.set(xlabel="margin", ylabel="loss", ylim=(0, 6))
left.legend()
for name, errors in found.items():
    right.plot(shares, errors, "o-", label=name)
right.set(xlabel="share of spoilt training rows", ylabel="error on clean new rows")
right.legend()
plt.show()
