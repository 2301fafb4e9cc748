"""Kernel SVMs whose violation is computed anew in double precision: the check of what `KernelSVC` reports.

    python testing/certified_svms.py [number of problems, 200] [seed]

prints the worst of each kind; the suite checks some small ones.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

import widemargin as wm
from fresh import fresh_seed

FAMILIES = ("waves", "clouds", "binary", "rare", "far")


def draw(rng, *, least=200, most=20_000):
    """(X, y, C, gamma, family): rows and a problem on them; n and C are uniform by their logarithm."""
    n, d = int(np.exp(rng.uniform(np.log(least), np.log(most)))), int(rng.integers(2, 30))
    family, noise = str(rng.choice(FAMILIES)), float(rng.choice([0.0, 0.3, 1.0]))
    X = rng.normal(size=(n, d)) * np.geomspace(0.2, 3.0, d)
    gamma = float(0.5 / d * 10.0 ** rng.uniform(-1.0, 1.0))
    score = np.sin(X[:, : max(1, d // 2)]).sum(axis=1)
    if family == "clouds":
        score = rng.choice([-1.0, 1.0], n)
        X[:, 0] += 4.0 * score
    if family == "binary":
        X = (rng.random((n, 3 * d)) < 0.2).astype(float)
        score = X @ rng.normal(size=3 * d)
    if family == "far":
        X += 3.0
    score = score + noise * rng.normal(size=n)
    y = np.where(score > np.quantile(score, 0.97 if family == "rare" else 0.5), 1, -1)
    y[:2] = 1, -1
    return X.astype(rng.choice([np.float32, np.float64])), y, 10.0 ** rng.uniform(-2.0, 5.0), gamma, family


ROUTES = (
    *("auto", "auto", "dual", "smo", "nested-dual", "sdca", "sbp", "pegasos"),
    *("linear", "poly", "precomputed", "ovo", "ovr"),
)
"""Algorithms named, other kernels, and several classes."""
NO_BIAS = ("sdca", "sbp", "pegasos")
GAP_ONLY = ("sbp", "pegasos")
"""Algorithms that know no violation, and whose lower bound is not that of their coefficients."""


def kernel_values(svc, X, Z):
    """K(x, z) of a fitted `KernelSVC`, from scratch in double precision."""
    if svc.kernel == "rbf":
        return rbf_kernel(X, Z, gamma=svc.gamma_)
    if svc.kernel == "poly":
        return (svc.gamma_ * (X @ Z.T) + svc.coef0) ** svc.degree
    return X @ Z.T


def scores_of(svc, X, coef, support):
    """`K coef` of rows (of a precomputed kernel: X is the matrix), in double precision."""
    if svc.kernel == "precomputed":
        return X[:, support] @ coef[support]
    if not support.shape[0]:  # the time was over before there was a better model than none
        return np.zeros(len(X))
    parts = [kernel_values(svc, X[low : low + 1000], X[support]) @ coef[support] for low in range(0, len(X), 1000)]
    return np.concatenate(parts)


def binary_problems(svc, X, y):
    """The problems that were solved: rows, labels -1 and 1, signed coefficients and intercept of each."""
    k, support = len(svc.classes_), svc.support_
    rows, dual = np.arange(len(y)), np.asarray(svc.dual_coef_)
    codes = np.searchsorted(svc.classes_, y)
    pairs = [(1, 0)] if k == 2 else [(i, j) for i in range(k) for j in range(i + 1, k)]
    if k > 2 and dual.shape[0] == k:  # one against the rest
        pairs = [(i, None) for i in range(k)]
    for number, (i, j) in enumerate(pairs):
        coef = np.zeros(len(y))
        if k == 2 or j is None:
            coef[support] = dual[number]
        else:  # as scikit-learn keeps them
            of = codes[support]
            coef[support[of == i]] = dual[j - 1][of == i]
            coef[support[of == j]] = dual[i][of == j]
        used = rows if j is None else rows[(codes == i) | (codes == j)]
        yield used, np.where(codes[used] == i, 1.0, -1.0), coef[used], svc.intercept_[number]


def true_certificate(svc, X, y, *, least=None):
    """(violation, gap) of a fitted `KernelSVC`, the worst of its binary problems, from scratch in double precision.

    `least`: a value of the objective that some model has, to measure the gap by where no lower bound is known.
    """
    X, found = X.astype(np.float64), []
    for rows, labels, coef, intercept in binary_problems(svc, X, y):
        part = X[np.ix_(rows, rows)] if svc.kernel == "precomputed" else X[rows]
        support = np.flatnonzero(coef)
        scores = scores_of(svc, part, coef, support)
        gradient, a = labels - scores, coef * labels
        up, down = np.where(labels > 0, a < svc.C, a > 0), np.where(labels > 0, a > 0, a < svc.C)
        if svc.solver_ in NO_BIAS:
            violation = max(gradient[up].max(initial=0.0), -gradient[down].min(initial=0.0))
        else:
            violation = max(0.0, gradient[up].max(initial=-np.inf) - gradient[down].min(initial=np.inf))
        square, hinge = coef @ scores, np.maximum(0.0, 1.0 - labels * (scores + intercept))
        primal, dual = 0.5 * square + svc.C * hinge.sum(), a.sum() - 0.5 * square
        found.append((violation, (primal - (dual if least is None else least)) / abs(primal)))
    return tuple(max(column) for column in zip(*found, strict=True))


def objective(svc, X, y):
    """The value of a fitted binary `KernelSVC`."""
    ((_, labels, coef, intercept),) = binary_problems(svc, X, y)
    scores = scores_of(svc, X.astype(np.float64), coef, svc.support_)
    return 0.5 * coef @ scores + svc.C * np.maximum(0.0, 1.0 - labels * (scores + intercept)).sum()


def fitted(route, X, y, C, gamma, seconds):
    """(svc, X, y) of a route: what it was fitted to, and the model."""
    options, more = {"time_budget": seconds}, {}
    if route in ("linear", "poly"):
        more = {"kernel": route, "coef0": 1.0 if route == "poly" else 0.0, "degree": 2}
    elif route == "precomputed":
        X = X[:2000]
        y, X = y[:2000], rbf_kernel(X, gamma=gamma).astype(X.dtype)
        X, more = np.maximum(X, X.T), {"kernel": "precomputed"}
    elif route in ("ovo", "ovr"):
        y = y + 2 * (X[:, 0] > np.median(X[:, 0]))
        options["multi_class"] = route
    elif route != "auto":
        more = {"solver": route}
        if route in NO_BIAS:
            options["fit_intercept"] = False
            more["tol"] = 1e-3 if route == "sdca" else 0.05
    return wm.KernelSVC(C=C, gamma=gamma, solver_options=options, **more).fit(X, y), X, y


def check(rng, seconds, *, routes=ROUTES, **sizes):
    """Fit one problem for so many seconds at most; a record with what was reported and what is true."""
    X, y, C, gamma, family = draw(rng, **sizes)
    route, start = str(rng.choice(routes)), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svc, X, y = fitted(route, X, y, C, gamma, seconds)
        spent, least = time.perf_counter() - start, None
        if route in GAP_ONLY:
            options = {"time_budget": seconds, "fit_intercept": False, "precision": "double"}
            least = objective(wm.KernelSVC(C=C, gamma=gamma, solver="dual", solver_options=options).fit(X, y), X, y)
    violation, gap = true_certificate(svc, X, y, least=least)
    if svc.status_ == "time_limit" and gap > 2.0 * svc.gap_ and len(svc.classes_) == 2 and svc.kernel != "precomputed":
        # A fit that was stopped returns its best model, and its gap is to the best lower bound, which may be that of
        # another point on the way: so it is compared with what a longer fit comes to.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            longer, _, _ = fitted(route, X, y, C, gamma, 20.0 * seconds)
        _, gap = true_certificate(svc, X, y, least=objective(longer, X, y))
    return {
        "route": route, "n": X.shape[0], "C": C, "gamma": gamma, "family": family, "dtype": str(X.dtype),
        "solver": svc.solver_, "status": svc.status_, "reported": svc.violation_, "true": violation, "gap": svc.gap_,
        "true_gap": gap, "seconds": spent,
    }  # fmt: skip


def holds(record):
    """Whether neither the true violation nor the true gap is above twice the reported one, up to double rounding."""
    room = 1e-9 * (1.0 + record["C"] ** 0.5)
    known = record["route"] not in GAP_ONLY
    holds_violation = not known or record["true"] <= 2.0 * record["reported"] + room
    return holds_violation and record["true_gap"] <= 2.0 * record["gap"] + 1e-9


def main(count=200, seed=None):
    """Check `count` problems and print what fails and the largest ratios."""
    rng = np.random.default_rng(fresh_seed() if seed is None else seed)
    records = []
    for _ in range(count):
        records.append(check(rng, 10.0))
        if not holds(records[-1]):
            sys.stdout.write(f"FAILS {records[-1]}\n")
    ratio = [r["true"] / r["reported"] for r in records if r["reported"] > 0.0]
    gaps = [r["true_gap"] / r["gap"] for r in records if r["gap"] > 0.0]
    status = {s: sum(r["status"] == s for r in records) for s in {r["status"] for r in records}}
    late = [r for r in records if r["route"] not in NO_BIAS and r["status"] == "converged" and r["true"] > 1e-3]
    single = sum(r["dtype"] == "float32" for r in records)
    sys.stdout.write(
        f"{sum(map(holds, records))} of {count} hold; {status}; float32: {single}; "
        f"{sum(r['seconds'] for r in records):.0f} s\n"
        f"true / reported violation: median {np.median(ratio):.3f}, largest {max(ratio):.3f}; "
        f"gap: median {np.median(gaps):.3f}, largest {max(gaps):.3f}\n"
        f"converged with a true violation above tol: {late}\n"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
