"""
From margins to probabilities
=============================

Scores of a kernel SVM are no probabilities. ``calibration="sigmoid"`` or ``"isotonic"`` holds rows out and fits them.
"""

# %%
# Labels of which a tenth is wrong, so that no honest probability is 0 or 1.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

import widemargin as wm

X, y = make_moons(6000, noise=0.35, random_state=0)
y = np.where(np.random.default_rng(0).random(6000) < 0.1, 1 - y, y)
train, new = slice(0, 2000), slice(2000, None)

# %%
# Beside them what one might be tempted to do: the score, squeezed into (0, 1).

plain = wm.KernelSVC(gamma=1.0).fit(X[train], y[train])
chances = {"score through a sigmoid, unfitted": 1.0 / (1.0 + np.exp(-3.0 * plain.decision_function(X[new])))}
for calibration in ("sigmoid", "isotonic"):
    clf = wm.KernelSVC(gamma=1.0, calibration=calibration, random_state=0).fit(X[train], y[train])
    chances[calibration] = clf.predict_proba(X[new])[:, 1]

# %%
# Reliability: of the rows said to be positive with chance p, a share of p should be. Steps of "isotonic" that say 0 or
# 1 cost it dearly in log loss where a single new row contradicts; with as few rows held out the sigmoid is safer.

_, ax = plt.subplots(layout="constrained")
ax.plot([0, 1], [0, 1], color="gray", linestyle=":")
for name, p in chances.items():
    print(f"{name}: log loss {log_loss(y[new], p):.3f}")
    share, said = calibration_curve(y[new], p, n_bins=10, strategy="quantile")
    ax.plot(said, share, "o-", markersize=4, label=name)
ax.set(xlabel="chance that is said", ylabel="share that is positive")
ax.legend()
plt.show()
