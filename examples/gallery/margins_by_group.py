"""
Margins by group
================

Two groups can have the same error and still be treated differently: in one of them the classifier may be sure, in the
other close to a coin's toss on many rows. The margin distribution shows it, for any classifier.
"""

# %%
# A logistic regression on the census table, looked at on 8,000 rows that it did not see.

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.csv
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin as wm
from widemargin.diagnostics.margins import margins_of
from widemargin.plotting import MarginDistributionDisplay

table = pyarrow.csv.read_csv("../data/adult.csv.gz").slice(0, 16_000)
X = np.column_stack([table[name] for name in ("age", "education_num", "capital_gain", "hours_per_week")]).astype(float)
X[:, 2] = np.log1p(X[:, 2])  # most capital gains are 0, some are enormous
y, sex = np.array(table["income"]), np.array(table["sex"])
new = slice(8000, None)
clf = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:8000], y[:8000])

# %%
# The report by group: rows below 0 are wrong, rows below 1/2 are nearly undecided.

print(wm.margin_report(clf, X[new], y[new], groups=sex[new], level=0.5, data_name="new rows"))

# %%
# Most women are below the income limit and far from the boundary. The mean hides the rows that count: those with a
# positive label. Their margins are drawn apart.

margins = margins_of(clf, X[new], y[new]).values
groups = {
    f"{name}, {label}": margins[(sex[new] == name) & (y[new] == label)]
    for name in ("Female", "Male")
    for label in ("<=50K", ">50K")
}
MarginDistributionDisplay.from_margins(groups)
plt.show()
