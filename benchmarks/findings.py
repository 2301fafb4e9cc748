"""What the result files say about peers and targets: ratios of times, and measurements beside their limits.

Read from `results/NAME.json` alone, for the summary, the history and the test of the README's numbers. What a quick run
or a missing peer leaves out is left out here as well.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["READERS", "Findings", "Limit", "Ratio", "read"]

Content = Mapping[str, Any]


@dataclass(frozen=True)
class Ratio:
    """A peer's seconds over ours, medians of one run; above 1 ours is the quicker one. `target`: at least."""

    case: str
    ours: str
    peer: str
    value: float
    target: float | None = None

    @property
    def reached(self) -> bool | None:
        """None without a target."""
        return None if self.target is None else self.value >= self.target


@dataclass(frozen=True)
class Limit:
    """A measurement beside its target: at most, or at least."""

    what: str
    measured: float
    limit: float
    unit: str
    at_least: bool = False

    @property
    def share(self) -> float:
        """Of the limit that is used: at most 1 where the target is reached."""
        return self.limit / self.measured if self.at_least and self.measured else self.measured / self.limit

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


@dataclass(frozen=True)
class Findings:
    """Of one script."""

    ratios: tuple[Ratio, ...] = ()
    limits: tuple[Limit, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For the history."""
        return {"ratios": [asdict(item) for item in self.ratios], "limits": [asdict(item) for item in self.limits]}


def read(folder: Path, script: str) -> Findings:
    """What `folder/SCRIPT.json` says; nothing where there is no such file."""
    path = folder / f"{script}.json"
    if script not in READERS or not path.is_file():
        return Findings()
    ratios, limits = [], []
    for item in READERS[script](json.loads(path.read_text())):
        (ratios if isinstance(item, Ratio) else limits).append(item)
    return Findings(tuple(ratios), tuple(limits))


def _ratios(
    case: str, seconds: Mapping[str, float | None], ours: str, peers: Mapping[str, float | None]
) -> Iterable[Ratio]:
    """Of every peer (with its target) that was measured."""
    for peer, target in peers.items():
        if seconds.get(ours) and seconds.get(peer):
            yield Ratio(case, ours, peer, float(seconds[peer] or 0) / float(seconds[ours] or 1), target)


def _fairness(found: Content) -> Iterable[Ratio | Limit]:
    ours = "ours, lambda = 10/n, deterministic"
    for kappa in sorted({row["kappa"] for row in found["times"]}):
        seconds = {row["what"]: row["median_s"] for row in found["times"] if row["kappa"] == kappa}
        yield from _ratios(f"80% rule at {kappa:g}, a9a", seconds, ours, {"fairlearn": 6.0})
    if found["data"] == "a9a":
        own = [row["median_s"] for row in found["times"] if row["what"].startswith("ours")]
        yield Limit("slowest setting of a whole fit", max(own), 0.5, "s")
        yield Limit("slowest of the paper's nest", max(row["median_s"] for row in found["nest"]), 5.0, "s")
        gaps = [row["largest_gap"] for row in _default_steps(found)]
        yield Limit("largest gap of a convex step, lambda = 1/n and 2/n", max(gaps), 1e-3, "")
        below = sum(row["test_error"] <= row["frontier_error"] for row in _default_steps(found))
        yield Limit("test points on or below the frontier", below, len(_default_steps(found)), "", at_least=True)


def _convex_step(found: Content) -> Iterable[Ratio | Limit]:
    for row in found["rows"]:
        names = {"ours, gap 1e-4": "0.0001", "clarabel": "clarabel"}
        seconds = {name: row[key]["median_s"] for name, key in names.items() if key in row}
        case = f"a convex step, {row['rows']:,} rows, {row['m']} constraints"
        yield from _ratios(case, seconds, "ours, gap 1e-4", {"clarabel": None})
    above = [abs(row["above"]) for row in found["rows"] if "above" in row]
    if above and found["data"] == "a9a":
        yield Limit("convex steps: our optimum beside clarabel's, relative", max(above), 1e-6, "")


def _default_steps(found: Content) -> list[Content]:
    return [row for row in found["quality"] if row["lambda"] != "10/n" and row.get("steps", "default") == "default"]


def _frontier(found: Content) -> Iterable[Limit]:
    if found["data"] == "a9a":
        for row in found["paths"]:
            yield Limit(f"32 points, {row['grouping']}, {row['enforce']}", row["path"]["median_s"], 2.0, "s")
        chosen = [row for row in found["frontier"] if row["rule"] == "best"]
        level = sum(row["test_error"] <= row["known_error_at_ratio"] for row in chosen)
        yield Limit("test points no worse than the best known", level, len(chosen), "", at_least=True)


def _recall_churn(found: Content) -> Iterable[Ratio | Limit]:
    points = sorted({(row["r"], row["c"]) for row in found["rows"] if row["seed"] == 0})
    for r, c in points:
        seconds = {
            row["what"]: row.get("median_s") for row in found["rows"] if (row["seed"], row["r"], row["c"]) == (0, r, c)
        }
        case = f"recall >= {r:g}, churn <= {c:g}"
        yield from _ratios(case, seconds, "ours, C=2", {"fairlearn": None})
        yield from _ratios(case, seconds, "ours, C=400", {"Cooper": None})
    if found["data"] != "a9a":
        return
    for ours, peer in (("ours, C=2", "fairlearn"), ("ours, C=400", "Cooper")):
        below = [
            100 * (1 - row["objective"] / other["objective"])
            for row in found["rows"] for other in found["rows"]
            if row["what"] == ours and other["what"] == peer and row["seed"] == other["seed"] == 0
            and (row["r"], row["c"]) == (other["r"], other["c"])
        ]  # fmt: skip
        if below:
            yield Limit(f"objective below {peer}'s, least, {ours}, first draw", min(below), 4.0, "%", at_least=True)
    for ours in ("ours, C=2", "ours, C=400"):
        seconds = [row["median_s"] for row in found["rows"] if row["what"] == ours and row["seed"] == 0]
        if seconds:
            yield Limit(f"slowest point, {ours}", max(seconds), 0.5, "s")
    yield Limit("slowest refusal", max(row["median_s"] for row in found["refusals"]), 3.0, "s")


_KERNEL_TARGETS = {
    "adult": {"LIBSVM": 15.0, "scikit-learn-intelex": 4.0},
    "mnist": {"LIBSVM": 40.0, "scikit-learn-intelex": 6.0},
}


def _kernel_accuracy(found: Content) -> Iterable[Ratio | Limit]:
    for row in found["summary"]:
        if row["solver"] in ("KernelSVC, tol=None", "sbp, tol=None") and row["case"] in _KERNEL_TARGETS:
            what = f"{row['case']}, {row['solver']}: test error above LIBSVM's"
            yield Limit(what, max(100 * row["difference"], 0.0), 0.1, "%")
    for case, targets in _KERNEL_TARGETS.items():
        seconds = {row["solver"]: row["wall_s"] for row in found["summary"] if row["case"] == case}
        yield from _ratios(f"{case}, to LIBSVM's error", seconds, "KernelSVC, tol=None", targets)
        yield from _ratios(f"{case}, default tolerance", seconds, "KernelSVC", dict.fromkeys(targets))


def _kernel_svm(found: Content) -> Iterable[Ratio | Limit]:
    for case, target in {"adult": 3.0, "mnist": 2.0}.items():
        seconds = {row["solver"]: row["to_1e-3_s"] for row in found["runs"] if row["case"] == case}
        yield from _ratios(
            f"{case}, gap of 1e-3", seconds, "nested", {"LIBSVM": None, "scikit-learn-intelex": target}
        )  # fmt: skip
    for row in found["runs"]:
        if row["case"] == "covtype" and row["rows"] > 500_000:
            yield Limit("Forest, 522,910 rows", row["wall_s"], 90.0, "s")
            yield Limit("Forest, test error", 100 * row["test_error"], 1.75, "%")
            yield Limit("Forest, memory", row["peak_mb"], 1000.0, "MB")


def _margin_speed(found: Content) -> Iterable[Ratio]:
    ours, peer = "margin pursuit", "LogisticRegression"
    yield from _ratios("gradient, a9a", found["gradients_ms"], ours, {peer: 1.0})
    fits = {name: row["ms"] for name, row in found["to_the_optimum"].items()}
    yield from _ratios("fit to 1e-6, a9a", fits, ours, {peer: 1.0})
    each = {name: 1 / per_second for name, per_second in found["stochastic_per_s"].items()}
    yield from _ratios("stochastic gradient, a9a", each, ours, {"SGDClassifier, hinge": 1.0})


def _risk_speed(found: Content) -> Iterable[Ratio | Limit]:
    seconds = {name: row["processor_s"] for name, row in found["mean"].items()}
    yield from _ratios("the same objective to 1e-6, a9a", seconds, "RiskClassifier, mean", {"LogisticRegression": 2.0})
    for name, row in found["risks"].items():
        yield Limit(f"a9a, risk {name}, a fit", row["processor_s"], 1.0, "s")
    if found["dro"]:
        apart = max(row["apart"] for row in found["dro"])
        yield Limit("least values of chi-square, CVaR, Wasserstein beside dro's", apart, 1e-6, "")


def _risk_choice(found: Content) -> Iterable[Limit]:
    errors = found["test_error"]
    lost, spoilt = [], []
    for cases in errors.values():
        clean = {name: sum(each) / len(each) for name, each in cases["clean"].items()}
        lost.append(clean["auto"] - min(clean["LogisticRegression"], clean["LinearSVC"]))
        spoilt += [sum(of["auto"]) / len(of["auto"]) - clean["auto"] for case, of in cases.items() if case != "clean"]
    yield Limit("risk auto on clean rows above the best peer, worst task", max(lost), 0.2, "points")
    yield Limit("risk auto on spoilt rows above clean ones, mean", sum(spoilt) / len(spoilt), 1.0, "points")
    share = 100.0 * sum(each <= 1.0 for each in spoilt) / len(spoilt)
    yield Limit("risk auto, cases within a point of clean rows", share, 100.0, "%", at_least=True)


def _label_suspects(found: Content) -> Iterable[Limit]:
    for task, rankings in found["rankings"].items():
        mean = {name: sum(row["average_precision"]) / len(row["average_precision"]) for name, row in rankings.items()}
        peers = [value for name, value in mean.items() if name.startswith("cleanlab")]
        if peers:
            best = max(peers)
            yield Limit(f"{task}, average precision beside cleanlab's", mean["label_suspects"], best, "", at_least=True)


def _thermometer(found: Content) -> Iterable[Ratio]:
    ours = "ours, lambda = 3/n"
    for kappa in sorted({row["kappa"] for row in found["frontier"]}):
        seconds = {row["what"]: row["median_s"] for row in found["frontier"] if row["kappa"] == kappa}
        peers = {"fairlearn, LR": None, "fairlearn, LinearSVC": None}
        yield from _ratios(f"80% rule at {kappa:g}, thermometers", seconds, ours, peers)


def _yeast(found: Content) -> Iterable[Limit]:
    slack = [row for row in found["runs"] if row["rescaling"] == "slack"]
    for row in slack[:1]:
        yield Limit("yeast, slack, 20 passes", row["passes_20"]["median_processor_s"], 1.0, "s")
        yield Limit("yeast, slack, 100 passes", row["passes_100"]["median_processor_s"], 5.0, "s")
        yield Limit("yeast, slack, an example", row["us_per_step"], 30.0, "us")
        yield Limit("yeast, slack, gap after 100 passes", 100 * row["gap"], 2.0, "%")
        yield Limit("yeast, slack, Jaccard", row["jaccard"], 0.525, "", at_least=True)
        yield Limit("yeast, slack, Hamming loss", row["hamming"], 0.202, "")


def _rcv1(found: Content) -> Iterable[Ratio | Limit]:
    seconds = {row["method"]: row["fit_s"] for row in found["summary"]}
    peers = dict.fromkeys(("OneVsRest", "ClassifierChain"))
    yield from _ratios("rcv1, 50 topics, a fit at the C chosen", seconds, "MultiLabelSVC slack, full edges", peers)
    for row in found["timed"]:
        if row["edges"] == "tree":
            yield Limit(f"rcv1, tree, {row['rescaling']}, an argmax", row["us_argmax"], 8.0, "us")
            if row["to_1"]:
                yield Limit(f"rcv1, tree, {row['rescaling']}, gap of 1%", row["to_1"][0], 20.0, "s")


_HIERARCHY_SECONDS = {("ImCLEF07A", "margin"): 17.0, ("Enron_corr", "margin"): 0.25}


def _hierarchies(found: Content) -> Iterable[Ratio | Limit]:
    for name in dict.fromkeys(row["data"] for row in found["runs"]):
        seconds = {row["method"]: row["fit_s"] for row in found["runs"] if row["data"] == name}
        ours = "HierarchicalSVC margin, one path"
        ours = ours if ours in seconds else "HierarchicalSVC margin"
        peers = dict.fromkeys(("OneVsRest", "ClassifierChain", "hiclass, per parent"))
        yield from _ratios(f"{name}, a fit at the C chosen", seconds, ours, peers)
    for row in found["to_a_gap"]:
        limit = _HIERARCHY_SECONDS.get((row["data"], row["rescaling"]))
        if limit and row["to_1"]:
            yield Limit(f"{row['data']}, {row['rescaling']}, gap of 1%", row["to_1"][0], limit, "s")


def _ocr(found: Content) -> Iterable[Ratio]:
    for large, name in ((False, "one fold"), (True, "nine folds")):
        seconds = {row["method"]: row["fit_s"] for row in found["summary"] if row["large"] == large}
        peers = dict.fromkeys(("LinearSVC, a letter", "LinearSVC, neighbours"))
        yield from _ratios(f"OCR words, {name}, a fit at the C chosen", seconds, "ChainSVC margin", peers)


def _memory(found: Content) -> Iterable[Limit]:
    if max(row["n"] for row in found["rows"]) < 200_000:
        return
    for how, name in (("traced_per_row", "traced"), ("resident_per_row", "resident")):
        shares = [row[how] / row["allowed"] for row in found["rows"] if row.get(how) is not None]
        yield Limit(f"memory of a fit, {name}, largest share of what is allowed", max(shares), 1.0, "")


def _scaling(found: Content) -> Iterable[Limit]:
    every = [row for rows in found["cases"].values() for row in rows]
    limits = (
        (lambda row: row["n"] == 500_000 and row["m"] <= 10, "500,000 rows, 4 constraints", 5.0),
        (lambda row: row["n"] == 1_000_000 and row["m"] == 50, "1,000,000 rows, 50 constraints", 30.0),
        (lambda row: row["rows"] == "dense" and (row["n"], row["d"]) == (32_000, 1000), "dense, 32,000 x 1,000", 10.0),
    )
    for chosen, what, limit in limits:
        for row in [row for row in every if chosen(row)][:1]:
            yield Limit(what, row["median_s"], limit, "s")
            if what.startswith("1,000,000"):
                yield Limit(f"{what}, memory", row["peak_gb"], 3.0, "GB")


def _audit_stream(found: Content) -> Iterable[Limit]:
    rows = [row for row in found["rows"] if row["rows"] >= 1_000_000]
    if rows:
        yield Limit("audit of a million rows, processor", max(row["processor"] for row in rows), 20.0, "s")


def _distributed(found: Content) -> Iterable[Limit]:
    for row in found.get("same", []):
        gap = max(row["gap"], row["gap in memory"])
        if not row["brackets apart"]:
            yield Limit(f"{row['data']}, {row['where']}: gap of overlapping brackets", gap, 1e-6, "")
    for row in found.get("overhead", []):
        yield Limit(f"a fit by two workers over one in memory, {row['data']}", row["ratio"], 2.0, "")
    for row in found.get("large", []):
        used, limit = row["private"] / 2**30, row["limit"] / 2**30
        yield Limit(f"{row['n']:,} rows out of core, private memory", used, limit, "GiB")
    if "kills" in found:
        same = sum(row["kills"] for row in found["kills"] if row["same"])
        yield Limit("workers killed in fits that end with the same bits", same, 50, "", at_least=True)


def _guarantees(found: Content) -> Iterable[Limit]:
    from scipy.stats import binom

    rows = [row for row in found["simulations"] if row["confidence"] is not None]
    if rows and min(row["draws"] for row in rows) >= 1000:
        draws = rows[0]["draws"]
        most = float(binom.ppf(0.999, draws, found["delta"])) / draws
        yield Limit(f"false guarantees, largest rate in {draws} draws", max(row["false"] for row in rows), most, "")


READERS: dict[str, Callable[[Content], Iterable[Ratio | Limit]]] = {
    "audit_stream": _audit_stream,
    "convex_step": _convex_step,
    "distributed": _distributed,
    "fairness_a9a": _fairness,
    "frontier_a9a": _frontier,
    "guarantees": _guarantees,
    "kernel_svc_accuracy": _kernel_accuracy,
    "kernel_svm": _kernel_svm,
    "label_suspects": _label_suspects,
    "margin_speed": _margin_speed,
    "memory": _memory,
    "recall_churn": _recall_churn,
    "risk_choice": _risk_choice,
    "risk_speed": _risk_speed,
    "scaling": _scaling,
    "structured_hierarchies": _hierarchies,
    "structured_ocr": _ocr,
    "structured_rcv1": _rcv1,
    "structured_yeast": _yeast,
    "thermometer_adult": _thermometer,
}
