"""
What a bound costs: a trade-off frontier
========================================

How much accuracy does it cost to select women at least so many times as often as men? One sweep trains a model for
every bound, each from the one before, and measures all of them on rows that training did not see.
"""

# %%
# The census table: numbers as thermometers of 0/1 columns, words one-hot. ``sex`` is no feature.

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.csv
from scipy.sparse import hstack
from sklearn.preprocessing import OneHotEncoder

import widemargin as wm
from widemargin.plotting import TradeoffDisplay

table = pyarrow.csv.read_csv("../data/adult.csv.gz")
numbers = np.column_stack([table[name] for name in ("age", "education_num", "capital_gain", "hours_per_week")])
words = np.column_stack([table[name] for name in ("marital_status", "occupation", "relationship")]).astype(str)
X = hstack([wm.ThermometerEncoder(15).fit_transform(numbers), OneHotEncoder().fit_transform(words)]).tocsr()
y = np.array(table["income"]) == ">50K"

# %%
# The path, and what the last points cost on the held-out rows.

goal = """
women = population(sex == "Female")
men = population(sex == "Male")
minimize error_rate()
subject to fair: positive_rate(women) >= 0.3 * positive_rate(men)
"""
clf = wm.RateConstrainedClassifier(goal, random_state=0)
path = wm.tradeoff_path(
    clf, X, y, constraint="fair", values=np.arange(0.3, 1.05, 0.1), populations=table.select(["sex"])
)
for value, error, spread in zip(path.values, path.held_out.objective, path.held_out.objective_error, strict=True):
    print(f"at least {value:.1f} times as often: error {error:.3f} ± {spread:.3f}")

# %%
# The bars are standard errors of the held-out rows, a fifth of the table. Two models of a path are wrong on mostly the
# same rows, so that their difference is known better than either error.

rise = path.held_out.objective[-1] - path.held_out.objective[0]
print(f"from the first to the last: {rise:+.3f} ± {path.held_out.difference_error(0, len(path.values) - 1):.3f}")

display = TradeoffDisplay.from_path(path)
display.ax_.set(xlabel="women selected, as a multiple of men (unseen rows)", ylabel="error")
plt.show()
