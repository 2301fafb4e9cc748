"""Wrong labels found: `label_suspects` beside cleanlab's rankings, by the labels that were planted.

Six data sets of two to 26 classes, 3000 rows drawn for every seed, columns standardised; a tenth of the labels
(`--share`) is replaced by another class at random. None of them was used to choose anything of `label_suspects`. A
ranking's score is its average precision: how well it puts the planted rows before the others. The data sets have
wrong labels of their own, so no ranking can reach 1.

The classifier is logistic regression. cleanlab ranks by the probabilities of the models that `label_suspects` judges
its first round by: the same folds, three times five, averaged. Ours without a second round sees exactly these scores.
Run as `python -m benchmarks.label_suspects`; see README.md here.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils import check_random_state

import widemargin as wm
from benchmarks.common import (
    ROOT,
    MissingDataError,
    load_adult,
    load_peers,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    verdict,
    write,
)
from benchmarks.margin_robustness import mean_and_error
from benchmarks.risk_tasks import people, svmlight
from widemargin.datasets import data_folder, load_mnist
from widemargin_papers.data.two_classes import load_ijcnn1, load_spruce

ROWS, FOLDS, REPEATS = 3000, 5, 3
OURS, ONE_ROUND = "label_suspects", "label_suspects, one round"
PEERS = {
    "cleanlab, self confidence": "self_confidence",
    "cleanlab, normalized margin": "normalized_margin",
    "cleanlab, confidence-weighted entropy": "confidence_weighted_entropy",
}
"""Its name here, and cleanlab's."""

Table = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


def tables(options: Any) -> dict[str, Callable[[int], Table]]:
    """Rows and labels, by seed."""
    if options.quick:
        return {
            f"drawn, {k} classes": lambda seed, k=k: some(
                *make_classification(400, 8, n_informative=5, n_classes=k, random_state=0), seed
            )
            for k in (2, 3, 4, 5)
        }
    folder = data_folder(options.data) or ROOT.parent / "shared" / "data"
    adult, ijcnn, cover, mnist = load_adult(options), load_ijcnn1(folder), load_spruce(folder), load_mnist(folder)
    letters = svmlight(folder, "multiclass/letter.libsvm.gz")

    def clients(seed: int) -> Table:
        split = people(folder, "credit-card")(seed)
        return split.X, split.y

    return {
        "a9a": lambda seed: some(adult.X.toarray(), adult.y, seed),
        "ijcnn1": lambda seed: some(np.asarray(ijcnn.X), ijcnn.y, seed),
        "covtype": lambda seed: some(cover.X, cover.y, seed),
        "credit-card": clients,
        "letter, 26 classes": lambda seed: some(*letters, seed),
        "mnist, 10 classes": lambda seed: some(np.asarray(mnist.X), mnist.digit, seed),
    }


def some(X: npt.NDArray[Any], y: npt.NDArray[Any], seed: int) -> Table:
    """Rows of a table, standardised, with their classes counted from 0."""
    rows = np.random.default_rng(seed).permutation(len(y))[:ROWS]
    part = X[rows].astype(np.float64)
    spread = part.std(axis=0)
    part = (part - part.mean(axis=0))[:, spread > 1e-9] / spread[spread > 1e-9]
    return part, np.unique(y[rows], return_inverse=True)[1].astype(np.int64)


def plant(y: npt.NDArray[np.int64], share: float, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Labels of which a share is another class, and which ones."""
    rng = np.random.default_rng((seed, 2))
    planted = np.zeros(len(y), dtype=np.bool_)
    planted[rng.permutation(len(y))[: round(share * len(y))]] = True
    n_classes = int(y.max()) + 1
    return np.where(planted, (y + rng.integers(1, n_classes, len(y))) % n_classes, y), planted


def probabilities(
    estimator: Any, X: npt.NDArray[np.float64], y: npt.NDArray[np.int64], seed: int
) -> npt.NDArray[np.float64]:
    """Those that `label_suspects` with this seed judges its first round by."""
    rng = check_random_state(seed)
    cuts = [StratifiedKFold(FOLDS, shuffle=True, random_state=rng.randint(2**31 - 1)) for _ in range(REPEATS)]
    return np.mean([cross_val_predict(estimator, X, y, cv=cut, method="predict_proba") for cut in cuts], axis=0)


def measure(make: Callable[[int], Table], share: float, seeds: int, cleanlab: Any) -> dict[str, dict[str, list[float]]]:
    """Average precision and processor seconds of every ranking, by seed."""
    found: dict[str, dict[str, list[float]]] = {}
    for seed in range(seeds):
        X, right = make(seed)
        y, planted = plant(right, share, seed)
        estimator = LogisticRegression(C=0.1, max_iter=500)

        def note(
            name: str, suspicion: npt.NDArray[Any], began: float, planted: npt.NDArray[np.bool_] = planted
        ) -> None:
            of = found.setdefault(name, {"average_precision": [], "processor_s": []})
            of["processor_s"].append(round(time.process_time() - began, 3))
            of["average_precision"].append(round(float(average_precision_score(planted, suspicion)), 5))

        for name, refit in ((OURS, True), (ONE_ROUND, False)):
            began = time.process_time()
            margin = wm.label_suspects(
                estimator, X, y, folds=FOLDS, repeats=REPEATS, refit=refit, random_state=seed
            ).margin
            note(name, -margin, began)
        if cleanlab is None:
            continue
        began = time.process_time()
        chance = probabilities(estimator, X, y, seed)
        for name, method in PEERS.items():
            note(name, -cleanlab.get_label_quality_scores(y, chance, method=method), began)
    return found


def sections(found: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]], share: float) -> list[str]:
    """Average precision of all, and ours against the best of cleanlab's."""
    names = list(next(iter(found.values())))
    precision = {
        (task, name): rankings[name]["average_precision"] for task, rankings in found.items() for name in names
    }
    rows = [
        [task, *("{:.3f} ± {:.3f}".format(*mean_and_error(precision[task, name])) for name in names)] for task in found
    ]
    made = [show(f"Average precision of {share:.0%} wrong labels", ["data set", *names], rows)]
    peers = [name for name in names if name in PEERS]
    if peers:
        rows = []
        for task in found:
            best = max(peers, key=lambda name: sum(precision[task, name]))
            gain, error = mean_and_error(np.subtract(precision[task, OURS], precision[task, best]).tolist())
            alike = mean_and_error(np.subtract(precision[task, ONE_ROUND], precision[task, best]).tolist())[0]
            rows.append([task, best, f"{gain:+.3f} ± {error:.3f}", f"{alike:+.3f}", verdict(gain >= 0.0)])
        columns = ["data set", "best of cleanlab", "label_suspects minus it", "in one round", "at least as good"]
        made.append(show("Beside the best of cleanlab's rankings", columns, rows))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--seeds", type=int, default=5, help="draws of the rows (default 5, at least 2)")
    made.add_argument("--share", type=float, default=0.1, help="of the labels, wrong (default .1)")
    options = made.parse_args(arguments)
    about, cleanlab = machine(), load_peers(options, "cleanlab.rank")
    try:
        with one_thread():
            found = {
                name: measure(make, options.share, 2 if options.quick else options.seeds, cleanlab)
                for name, make in tables(options).items()
            }
    except MissingDataError as error:
        return skipped(error)
    results = {"machine": about, "share": options.share, "rankings": found}
    write(options, "label_suspects", results, sections(found, options.share))
    return 0


if __name__ == "__main__":
    sys.exit(main())
