"""
Few changed decisions: error against churn
==========================================

A retrained model is allowed to decide differently from the deployed one on a given share of the rows. The more it may
change, the better it can be, and past some point it does not help any more.
"""

# %%
# The column ``deployed`` of the census table holds the decisions of the model in use. It was trained on 1,000 rows.

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.csv
from scipy.sparse import hstack
from sklearn.preprocessing import OneHotEncoder

import widemargin as wm

table = pyarrow.csv.read_csv("../data/adult.csv.gz").slice(0, 16_000)
numbers = np.column_stack([table[name] for name in ("age", "education_num", "capital_gain", "capital_loss")])
words = np.column_stack([table[name] for name in ("marital_status", "occupation", "education")]).astype(str)
X = hstack([wm.ThermometerEncoder(15).fit_transform(numbers), OneHotEncoder().fit_transform(words)]).tocsr()
y, deployed = (np.array(table[name]) == ">50K" for name in ("income", "deployed"))
train, test = slice(0, 8000), slice(8000, 16_000)
said = pa.table({"deployed": deployed})

# %%
# One model for each ceiling, warm-started along the path.

goal = 'minimize error_rate()\nsubject to steady: churn("deployed") <= 0.05'
ceilings = np.array([0.04, 0.05, 0.06, 0.08, 0.1])
path = wm.tradeoff_path(
    wm.RateConstrainedClassifier(goal, random_state=0), X[train], y[train], constraint="steady", values=ceilings,
    populations=said.slice(0, 8000), validation=(X[test], y[test], said.slice(8000)),
)  # fmt: skip

# %%
# The dots are new rows; the ceiling holds there up to the noise of 8,000 rows.

before = np.mean(deployed[test] != y[test])
for ceiling, churn, error in zip(ceilings, path.held_out.reached, path.held_out.objective, strict=True):
    print(f"at most {ceiling:.3f}: churn {churn:.3f}, error {error:.4f} (deployed {before:.4f})")

_, ax = plt.subplots(layout="constrained")
ax.axhline(before, color="gray", linestyle=":", label="deployed model")
ax.errorbar(path.held_out.reached, path.held_out.objective, yerr=path.held_out.objective_error, fmt="o-", capsize=2,
            label="retrained under a ceiling")  # fmt: skip
ax.set(xlabel="churn on new rows", ylabel="error on new rows")
ax.legend()
plt.show()
