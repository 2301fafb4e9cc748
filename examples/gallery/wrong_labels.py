"""
Labels that are probably wrong
==============================

A tenth of the labels of the digits is replaced by another digit. ``label_suspects`` ranks the rows by how clearly
models that did not see them speak against their labels; the first ones are worth a look.
"""

# %%
# Any classifier will do, here a kernel machine.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import widemargin as wm

X, right = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
planted = rng.random(len(right)) < 0.1
y = np.where(planted, (right + rng.integers(1, 10, len(right))) % 10, right)
found = wm.label_suspects(wm.KernelSVC(), X, y, repeats=1, random_state=0)
print(found)

# %%
# How many of the first rows were planted?

for first in (50, 100, planted.sum()):
    print(f"of the first {first}, {planted[found.ranking[:first]].mean():.0%} were planted")

# %%
# The first 24: the label that each row has, and the one that the other rows give it. A row with a line around it was
# planted.

figure, axes = plt.subplots(1, 1, figsize=(7.2, 3.2), layout="constrained")
picture = np.zeros((3 * 11, 8 * 11))
axes.set_xticks([]), axes.set_yticks([])
for place, suspect in enumerate(found.suspects[:24]):
    top, left = 11 * (place // 8), 11 * (place % 8)
    picture[top + 2 : top + 10, left + 1 : left + 9] = X[suspect.row].reshape(8, 8)
    axes.text(left + 4.5, top + 0.9, f"{suspect.label}: a {suspect.other}?", ha="center", va="center", fontsize=7)
    if planted[suspect.row]:
        axes.add_patch(plt.Rectangle((left + 0.6, top + 1.6), 8.0, 8.0, fill=False, edgecolor="#D55E00"))
axes.imshow(picture, cmap="gray_r")
axes.set_xlabel("labels as they are, and what the other rows say")
axes.set_ylabel("the surest suspects first")
plt.show()
