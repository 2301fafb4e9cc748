"""
The stochastic batch perceptron against the dual
================================================

Both solve the same kernel SVM. What they pay for is kernel values: how many does each need until the error on rows held
out is down?
"""

# %%
# Kernel rows are counted when they are computed, as in the paper's figure 2, and held in a cache here. A third of the
# rows is held out by giving them C = 0.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm import smo
from widemargin.solvers.kernel_svm.batch_perceptron import c_form as sbp_c_form
from widemargin.solvers.kernel_svm.problem import KernelProblem
from widemargin_papers.solvers import kernel_pegasos, kernel_sdca

n = 6000
X, y = make_moons(n, noise=0.3, random_state=0)
upper = np.where(np.arange(n) < 4000, 1.0, 0.0)
solvers = {"batch perceptron": sbp_c_form, "SMO": smo, "SDCA": kernel_sdca, "Pegasos": kernel_pegasos}
histories = {}
for name, solver in solvers.items():
    problem = KernelProblem(KernelRows(Kernel("rbf", 1.0), X), 2.0 * y - 1.0, upper, fit_intercept=False)
    histories[name] = solver.solve(problem, tol=None).history
    last = histories[name][-1]
    print(f"{name}: {last['evaluations'] / n**2:.2f} n^2 kernel values, error {last['held_out_error']:.3f}")

# %%
# Each run ends when the error of the 2,000 rows held out does not improve by more than its noise. The batch perceptron
# pays for 256 kernel rows at once, where its line begins, and its error is down after steps on these alone.

_, ax = plt.subplots(layout="constrained")
for name, history in histories.items():
    seen = [entry for entry in history if "held_out_error" in entry and entry["evaluations"] > 0]
    ax.plot([e["evaluations"] / n**2 for e in seen], [e["held_out_error"] for e in seen], label=name)
ax.set(xlabel="kernel values / n²", ylabel="error of rows held out", xscale="log")
ax.legend()
plt.show()
