"""
Slack against margin rescaling
==============================

Two ways to put a loss into a structural SVM. Margin rescaling asks for a larger distance from labels that are more
wrong; slack rescaling multiplies what a violation costs, and leaves labels alone that are far enough away.
"""

# %%
# Label sets: the two largest of five noisy scores are on. A tenth of the training rows has a label set at random.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import jaccard_score

import widemargin as wm

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 5))
noisy = X + 0.3 * rng.normal(size=X.shape)
Y = (noisy >= np.sort(noisy, axis=1)[:, [-2]]).astype(int)
spoilt = rng.random(300) < 0.1
Y[:300][spoilt] = rng.integers(0, 2, size=(spoilt.sum(), 5))

# %%
# Each goes through its own path of C, warm-started. At their best they are equally good here, at values of C that
# differ by a factor: comparing the two at one C would be unfair to one of them.

Cs = np.logspace(-3, 0.5, 6)
_, ax = plt.subplots(layout="constrained")
for rescaling in ("slack", "margin"):
    model = wm.MultiLabelSVC("full", rescaling=rescaling, tol=0.1, max_iter=100, random_state=0)
    scores = []
    for clf in wm.structural_path(model, X[:300], Y[:300], Cs=Cs):
        scores.append(jaccard_score(Y[300:], clf.predict(X[300:]), average="samples", zero_division=1.0))
    best = int(np.argmax(scores))
    print(f"{rescaling}: best at C={Cs[best]:.2g}, Jaccard {scores[best]:.3f}; gap of the last model {clf.gap_:.3f}")
    ax.plot(Cs, scores, "o-", label=f"{rescaling} rescaling")
ax.set(xlabel="C", ylabel="Jaccard of new rows", xscale="log")
ax.legend()
plt.show()
