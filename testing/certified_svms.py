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
from widemargin.exceptions import MarginConvergenceWarning

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


def true_certificate(svc, X, y):
    """(violation, gap) of a fitted binary `KernelSVC` with the kernel "rbf", from scratch in double precision."""
    X, y, C = X.astype(np.float64), np.asarray(y, dtype=float), svc.C
    coef = np.zeros(y.shape[0])
    coef[svc.support_] = svc.dual_coef_.ravel()
    scores = np.concatenate(
        [
            rbf_kernel(X[low : low + 1000], X[svc.support_], gamma=svc.gamma_) @ coef[svc.support_]
            for low in range(0, X.shape[0], 1000)
        ]
    )
    gradient, a = y - scores, coef * y
    up, down = np.where(y > 0, a < C, a > 0), np.where(y > 0, a > 0, a < C)
    violation = max(0.0, gradient[up].max(initial=-np.inf) - gradient[down].min(initial=np.inf))
    square, hinge = coef @ scores, np.maximum(0.0, 1.0 - y * (scores + svc.intercept_[0]))
    primal, dual = 0.5 * square + C * hinge.sum(), a.sum() - 0.5 * square
    return violation, (primal - dual) / abs(primal)


def check(rng, seconds, **sizes):
    """Fit one problem for so many seconds at most; a record with what was reported and what is true."""
    X, y, C, gamma, family = draw(rng, **sizes)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MarginConvergenceWarning)
        svc = wm.KernelSVC(C=C, gamma=gamma, solver_options={"time_budget": seconds}).fit(X, y)
    spent = time.perf_counter() - start
    violation, gap = true_certificate(svc, X, y)
    return {
        "n": X.shape[0], "C": C, "gamma": gamma, "family": family, "dtype": str(X.dtype), "solver": svc.solver_,
        "status": svc.status_, "reported": svc.violation_, "true": violation, "gap": svc.gap_, "true_gap": gap,
        "seconds": spent,
    }  # fmt: skip


def holds(record):
    """Whether neither the true violation nor the true gap is above twice the reported one, up to double rounding."""
    room = 1e-9 * (1.0 + record["C"] ** 0.5)
    return record["true"] <= 2.0 * record["reported"] + room and record["true_gap"] <= 2.0 * record["gap"] + 1e-9


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
    late = [r for r in records if r["status"] == "converged" and r["true"] > 1e-3]
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
