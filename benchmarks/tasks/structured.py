"""Label sets, hierarchies and handwritten words: our estimators beside peers, and how the C of each is chosen.

Every method is chosen the same way: for each C of its grid it is trained on four fifths of the training rows; the C,
and the settings of its predictions where it has some, of largest example Jaccard on the other fifth (or on all folds in
turn) are taken; then it is trained on all training rows. Test rows are looked at once.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.metrics import f1_score, hamming_loss, jaccard_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.svm import SVC, LinearSVC

from benchmarks.data.halves import Half, half_of
from benchmarks.data.sources import Array, hold_outs, shuffled, standardised
from benchmarks.task import Content, Context, Row, Table, Task, Timing, grouped, mean_and_error
from widemargin import ChainSVC, HierarchicalSVC, MultiLabelSVC
from widemargin.estimators.structured.label_names import au_prc
from widemargin.structured.models.label_graph import LabelGraph
from widemargin_papers.data import Hierarchy, LabelSets

SCORES = ("jaccard", "hamming", "micro_f1")


def scores(Y: Array, predicted: Array) -> dict[str, float]:
    """Scores of predicted label sets, by scikit-learn's functions."""
    return {
        "jaccard": jaccard_score(Y, predicted, average="samples", zero_division=1.0),
        "hamming": hamming_loss(Y, predicted),
        "micro_f1": f1_score(Y, predicted, average="micro", zero_division=0.0),
    }


def mean_jaccard(Y: Array, predicted: Array) -> float:
    """The same Jaccard index where many thresholds are tried: scikit-learn's takes much longer."""
    right, said = Y > 0, predicted > 0
    both, either = (right & said).sum(axis=1), (right | said).sum(axis=1)
    return float(np.where(either > 0, both / np.maximum(either, 1), 1.0).mean())


class OneVsRest:
    """scikit-learn's OneVsRestClassifier, by default over LinearSVC, by its `decision_function`."""

    def __init__(self, C: float, base: Any = None) -> None:
        self.model = OneVsRestClassifier(base or LinearSVC(C=C, random_state=0))

    def fit(self, X: Any, Y: Array) -> "OneVsRest":
        self.Y, self._seen = Y, None
        self.model.fit(X, Y)
        return self

    def decisions(self, X: Any) -> Array:
        """A score of every label."""
        return np.asarray(self.model.decision_function(X))

    def predict(self, X: Any, threshold: float = 0.0, best_path: bool = False) -> Array:
        """Labels above the threshold; or the label set of a training row, these being paths, with the largest sum."""
        if self._seen is not X:  # many thresholds are tried on the same rows
            self._seen, self._decisions = X, self.decisions(X)
        if best_path:
            sets = np.unique(self.Y, axis=0)
            return np.asarray(sets[np.argmax(self._decisions @ sets.T, axis=1)])
        return (self._decisions > threshold).astype(int)


class Forest(OneVsRest):
    """Votes of extremely randomised trees, of all labels together."""

    def __init__(self, leaf: int, trees: int = 300) -> None:
        # Trees that regress on 0 and 1 are those that classify: the variance is half the Gini index. Their answers are
        # one array, where classifiers keep two numbers for every label in a list.
        self.model = ExtraTreesRegressor(trees, min_samples_leaf=leaf, max_features="sqrt", random_state=0)

    def decisions(self, X: Any) -> Array:
        """Shares of the trees."""
        return np.asarray(self.model.predict(X))


class Powerset:
    """One class for every label set of the training rows, by an RBF SVC."""

    def __init__(self, C: float, gamma: float) -> None:
        self.svc = SVC(C=C, gamma=gamma)

    def fit(self, X: Any, Y: Array) -> "Powerset":
        self.sets, number = np.unique(Y, axis=0, return_inverse=True)
        self.svc.fit(X, number.ravel())
        return self

    def predict(self, X: Any) -> Array:
        return np.asarray(self.sets[self.svc.predict(X)])


def one_path(Y: Array, paths: Sequence[str]) -> bool:
    """Whether every closed label set is one path from a root: it has as many nodes as its deepest one lies deep."""
    depth = np.array([path.count("/") + 1 for path in paths])
    size = Y.sum(axis=1)
    return bool((size > 0).all() and (size == (Y * depth).max(axis=1)).all())


@dataclass(frozen=True)
class Method:
    """A method with its grid."""

    name: str
    # With `fit(X, Y)` and `predict(X, **setting)`; made of C, or of whatever the grid holds, where there is one.
    make: Any
    # Where there is nothing to choose, no rows are held out.
    grid: Sequence[Any] = ()
    # Settings of `predict` to choose from, by a name that is added to that of the method. Each has a C of its own.
    variants: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=lambda: {"": ({},)})

    def made(self, C: Any) -> Any:
        """To be fitted."""
        return self.make(C) if self.grid else self.make


def compare_methods(
    task: LabelSets, methods: Sequence[Method], folds: int = 1, *,
    merit: Callable[[Any, Any], float] = mean_jaccard, judge: Callable[[Any, Any], Mapping[str, Any]] = scores,
) -> list[Row]:  # fmt: skip
    """Choose every variant of every method by its merit on rows held out, train, and judge it on the test rows."""
    rows: list[Row] = []
    for method in methods:
        choice = Timing.of(partial(_choose, task, method, folds, merit))
        fits: dict[Any, Timing] = {}
        for variant, (C, setting) in choice.result.items():
            if C not in fits:
                fits[C] = Timing.of(partial(method.made(C).fit, task.X, task.Y))
            model, fit_s = fits[C].result, fits[C].processor_median
            rows.append({
                "method": method.name + variant, "C": C, "setting": setting, "fit_s": fit_s,
                "seconds": choice.processor_median + fit_s, "gap": getattr(model, "gap_", None),
                **judge(task.Y_test, model.predict(task.X_test, **setting)),
            })  # fmt: skip
    return rows


def _choose(
    task: LabelSets, method: Method, folds: int, merit: Callable[[Any, Any], float]
) -> dict[str, tuple[Any, Mapping[str, Any]]]:
    """For each variant the C and the setting of most merit on the rows held out."""
    if not method.grid:
        return {variant: (None, settings[0]) for variant, settings in method.variants.items()}
    values: dict[tuple[str, Any, int], float] = defaultdict(float)
    for held, C in product(hold_outs(task, folds), method.grid):
        model = method.made(C).fit(held.X, held.Y)
        for variant, settings in method.variants.items():
            for index, setting in enumerate(settings):
                values[variant, C, index] += merit(held.Y_test, model.predict(held.X_test, **setting))
    best = [max((key for key in values if key[0] == variant), key=values.__getitem__) for variant in method.variants]
    return {variant: (C, method.variants[variant][index]) for variant, C, index in best}


LINEAR = (0.1, 1.0, 10.0, 100.0)
RBF = tuple((C, gamma) for C in (1.0, 10.0, 100.0) for gamma in (0.1, 1.0, 3.0))
"""On rows of mean square 1."""
THRESHOLDS = tuple(np.round(np.arange(-1.0, 0.61, 0.05), 2).tolist())
PUBLISHED = {
    "ImCLEF07A": 0.956, "Enron_corr": 0.756, "Diatoms": 0.758, "cellcycle_FUN+valid": 0.255, "cellcycle_GO": 0.413,
}  # fmt: skip
ONE_PASS: Row = {"rescaling": "margin", "C": 1.0, "max_iter": 1, "time_budget": 10.0}
"""Where only probabilities are wanted, which do not depend on the SVM."""
TOPS = ("GO0003674", "GO0005575", "GO0008150")


LIKELY: Row = {"calibration": "sigmoid", "solver_options": {"decode": "expected"}}
OURS: dict[str, Row] = {
    "MultiLabelSVC()": {},
    "MultiLabelSVC(loss='f1')": {"loss": "f1"},
    "MultiLabelSVC(feature_map='nystroem')": {"feature_map": "nystroem"},
    "MultiLabelSVC(likely sets)": LIKELY,
    "MultiLabelSVC(powerset=True)": {"powerset": True},
    "MultiLabelSVC(powerset=True, feature_map='nystroem')": {"powerset": True, "feature_map": "nystroem"},
    "HierarchicalSVC(paths, calibration=None)": {"calibration": None},
    "HierarchicalSVC(paths, likely sets)": LIKELY,
    "HierarchicalSVC(paths, one pass, likely sets)": ONE_PASS | LIKELY,
    "HierarchicalSVC(paths, likely paths)": {"labels": "path"} | LIKELY,
    "HierarchicalSVC(paths, labels='path', calibration=None)": {"labels": "path", "calibration": None},
}
"""Options of the estimators."""

PLAIN, F1, MAPPED, LIKELY_SETS, POWERSET, MAPPED_POWERSET, UNCALIBRATED, LIKELY_NODES, FIRST_PASS, *PATHS = OURS
NODES = (UNCALIBRATED, LIKELY_NODES)
LINEAR_PEERS = ("OneVsRest LinearSVC", "ClassifierChain LinearSVC")
KERNEL_PEERS = ("OneVsRest RBF SVC", "label powerset RBF SVC", "ExtraTrees")
COMPARED: dict[str, dict[str, tuple[str, ...]]] = {
    "runs": {
        "yeast": (PLAIN, F1, MAPPED, LIKELY_SETS, *LINEAR_PEERS, *KERNEL_PEERS),
        "Enron_corr": (PLAIN, F1, *NODES, MAPPED, LIKELY_SETS, *LINEAR_PEERS, *KERNEL_PEERS),
        "cellcycle_FUN": (*NODES, *LINEAR_PEERS),
    },
    "rcv1": {"rcv1": (PLAIN, LIKELY_SETS, *LINEAR_PEERS, "100 ExtraTrees")},
    "Diatoms": {"Diatoms": (*PATHS, "label powerset RBF SVC", "100 ExtraTrees")},
    "ImCLEF07A": {"ImCLEF07A": (*PATHS, "OneVsRest LinearSVC", "label powerset RBF SVC", "100 ExtraTrees")},
    "cellcycle_FUN": {"cellcycle_FUN": ("100 ExtraTrees",)},
    "cellcycle_GO": {"cellcycle_GO": (FIRST_PASS, "100 ExtraTrees")},
    "without calibration": {"cellcycle_GO": (UNCALIBRATED,)},
    "powersets": {"yeast": (PLAIN, POWERSET, MAPPED, MAPPED_POWERSET), "rcv1": (PLAIN, POWERSET)},
    "all topics": {"rcv1, all topics": (PLAIN, "OneVsRest LinearSVC")},
}
"""By part and data set the methods that are compared. The parts beside "runs" have a hundred nodes, or thousands of
columns, and the last two are a task of their own. Peers are left out where choice and training take ten minutes or so:
RBF SVCs and boosted trees (2.4 s each) for the 398 nodes of Diatoms, any RBF SVC for the words of rcv1, linear SVCs for
the 4125 nodes of cellcycle_GO."""


def known(task: Hierarchy) -> Any:
    """The hierarchy, as `HierarchicalSVC` takes it."""
    return task.paths if task.arcs is None else LabelGraph(task.paths, np.array(task.arcs))


def methods(task: LabelSets) -> dict[str, Method]:
    """All that may be compared, by name: ours, with nothing to choose, and peers with C, widths and thresholds."""
    kinds, sets = {"MultiLabelSVC": MultiLabelSVC}, {", tuned threshold": [{"threshold": at} for at in THRESHOLDS]}
    if isinstance(task, Hierarchy):
        kinds["HierarchicalSVC"] = partial(HierarchicalSVC, known(task))
        if task.arcs is None and one_path(task.Y, task.paths):
            sets[", best path"] = [{"best_path": True}]
    ours = [(name, name.partition("(")[0], options) for name, options in OURS.items()]
    made = [Method(name, kinds[kind](random_state=0, **options)) for name, kind, options in ours if kind in kinds]
    few = task.Y.shape[1] < 1000
    made += [
        Method("OneVsRest LinearSVC", OneVsRest, LINEAR, sets),
        # Labels in the order of the columns; one may be constant, which a chain over LinearSVC alone does not take.
        Method("ClassifierChain LinearSVC", lambda C: ClassifierChain(OneVsRest(C).model), LINEAR),
        Method("OneVsRest RBF SVC", lambda at: OneVsRest(1.0, SVC(C=at[0], gamma=at[1])), RBF, sets),
        Method("label powerset RBF SVC", lambda at: Powerset(*at), RBF),
        Method("ExtraTrees", Forest, (1, 2, 5), sets),
        # Trees of thousands of labels with fewer rows a leaf take more memory than there is.
        Method("100 ExtraTrees", partial(Forest, trees=100), (1, 2, 5) if few else (5,), sets),
    ]
    return {method.name: method for method in made}


def data_of(part: str, half: str) -> list[str]:
    """Those of a part's data sets that are in a half."""
    return [name for name in COMPARED[part] if half_of(name, "structures") == half]


def runs(ctx: Context, part: str) -> list[Row]:
    """All methods on some splits of all rows, seconds of the choice and the last training together."""
    made, (splits, folds) = [], (5, 3) if part == "runs" else (3, 1)
    for name in data_of(part, ctx.task.half):
        task = ctx.load(name)
        task = standardised(task) if name == "yeast" else task
        there = methods(task)
        every = [there[method] for method in COMPARED[part][name]]
        for method in every:
            if not method.grid:  # compiles
                Timing.of(partial(method.make.fit, task.X[:60], task.Y[:60]))
        for split in range(min(splits, ctx.repeats)):
            made += [
                {"data": name, "split": split, **run} for run in compare_methods(shuffled(task, split), every, folds)
            ]
    return made


def ranks(ctx: Context) -> list[Row]:
    """AU(PRC) of the file's own test rows, by probabilities; they do not depend on the SVM, which makes one pass."""
    made, names = [], [name for name in PUBLISHED if half_of(name, ctx.task.subject) == ctx.task.half]
    for name in ctx.pick(names, names[:1]):
        task = ctx.load(name)
        model = HierarchicalSVC(known(task), calibration="sigmoid", random_state=0, **ONE_PASS)
        timing = Timing.of(lambda model=model, task=task: model.fit(task.X, task.Y).predict_proba(task.X_test))
        # As C-HMCNN counts, without the three nodes that stand above all others of GO.
        counted = [node not in TOPS for node in task.paths]
        found = au_prc(task.Y_test[:, counted], timing.result[:, counted])
        expected = model.set_params(solver_options={"decode": "expected"}).predict(task.X_test)
        made.append({"data": name, "au_prc": found, "published": PUBLISHED[name], "seconds": timing.processor[0],
                     "jaccard": mean_jaccard(task.Y_test, expected)})  # fmt: skip
    return made


def apart(own: Sequence[Row], others: Sequence[Row]) -> tuple[float, float]:
    """Mean difference of Jaccard on the splits that both have, and its standard error."""
    its = {run["split"]: run["jaccard"] for run in others}
    return mean_and_error([run["jaccard"] - its[run["split"]] for run in own if run["split"] in its])


def _by_data(content: Content) -> Iterable[tuple[str, dict[str, list[Row]]]]:
    """The runs of every data set, by method."""
    for name, here in grouped([run for part in COMPARED for run in content.get(part, [])], "data"):
        yield name, dict(grouped(here, "method"))


def _means(content: Content) -> Iterable[Row]:
    """Means over the splits, and differences of Jaccard to the first method, paired by split."""
    for name, methods in _by_data(content):
        first = next(iter(methods))
        for method, own in methods.items():
            gaps = [run["gap"] for run in own if run["gap"] is not None]
            beside = None if method == first else apart(own, methods[first])
            yield {"data": name, "method": method, "beside": beside, "gap": max(gaps, default=None),
                   "seconds": statistics.fmean(run["seconds"] for run in own),
                   **{score: mean_and_error([run[score] for run in own]) for score in SCORES}}  # fmt: skip


def _parts(half: Half) -> dict[str, Any]:
    """The comparisons that have data of a half, but the last two, and the ranking."""
    return {part: partial(runs, part=part) for part in tuple(COMPARED)[:-2] if data_of(part, half)} | {"ranks": ranks}


_SCORES = " | ".join(f"{score.replace('_', ' ')}: {{{score}:±.4f}}" for score in SCORES)


class structured_defaults(Task, subject="structures"):
    """`MultiLabelSVC()` and `HierarchicalSVC(hierarchy)` as they are beside tuned peers: Jaccard and seconds of whole
    fits. Every method is handed training rows and looks for C, thresholds or widths in them, ours by `C="auto"`, the
    peers in three folds (on five splits), or, with a hundred nodes or thousands of columns, on a fifth of the rows (on
    three splits). Then the ranking of nodes by `predict_proba` (AU(PRC) of the test rows) beside C-HMCNN(h) as
    published (Giunchiglia and Lukasiewicz 2020, Table 2), which trains on the same rows. Constants of these
    probabilities were looked at on training rows held out, of Enron_corr, Diatoms and cellcycle_FUN, too, and the test
    rows were ranked twice: before and after the last one was changed.
    """

    parts = _parts("reporting")
    means = Table("Means over splits of all rows, ± standard errors", _means, f"""
        data | method | {_SCORES} | Jaccard beside the first: {{beside:±+.4f}} | s: {{seconds:.1f}}
        | largest gap: {{gap:.1%}}
    """)  # fmt: skip
    ranks = Table("AU(PRC) of the test rows", "ranks", """
        data | HierarchicalSVC, calibration='sigmoid': {au_prc:.3f} | C-HMCNN(h), published: {published:.3f}
        | Jaccard of decode='expected': {jaccard:.3f} | s: {seconds:.1f}
    """)  # fmt: skip

    def sentences(self, content: Content) -> Iterable[str]:
        """Our best beside the best peer, both by mean Jaccard on the test rows, by two standard errors."""
        found: dict[str, list[str]] = {"ahead": [], "within noise": [], "behind": []}
        for data, methods in _by_data(content):
            means = {name: statistics.fmean(run["jaccard"] for run in own) for name, own in methods.items()}
            ours = {name for name in means if name.startswith(("MultiLabelSVC", "HierarchicalSVC"))}
            best, peer = (max(some, key=lambda name: means[name]) for some in (ours, means.keys() - ours))
            difference, error = apart(methods[best], methods[peer])
            said = "within noise" if abs(difference) <= 2 * error else "ahead" if difference > 0 else "behind"
            found[said].append(data)
        yield "; ".join(f"{said} on {', '.join(where)}" for said, where in found.items() if where)


class structured_defaults_tuned(structured_defaults, half="tuning"):
    parts = _parts("tuning")
    sentences = Task.sentences


class structured_powersets(structured_defaults_tuned):
    parts = {part: partial(runs, part=part) for part in tuple(COMPARED)[-2:]}


LETTER_GRID = (0.01, 0.03, 0.1, 0.3, 1.0)


class Letters:
    """LinearSVC or an RBF SVC per letter; with `window` it sees the letters beside it as well."""

    def __init__(self, C: float, window: int = 0, rbf: bool = False) -> None:
        self.window, self.svm = window, SVC(C=C) if rbf else LinearSVC(C=C, random_state=0)

    def _rows(self, X: Sequence[Array]) -> Array:
        padded = [np.pad(x, ((self.window, self.window), (0, 0))) for x in X]
        return np.concatenate([
            np.hstack([wide[shift : shift + len(x)] for shift in range(2 * self.window + 1)])
            for x, wide in zip(X, padded, strict=True)
        ])  # fmt: skip

    def fit(self, X: Sequence[Array], Y: Sequence[Array]) -> "Letters":
        self.svm.fit(self._rows(X), np.concatenate(Y))
        return self

    def predict(self, X: Sequence[Array]) -> list[Array]:
        return np.split(self.svm.predict(self._rows(X)), np.cumsum([len(x) for x in X])[:-1])


def letter_errors(Y: Sequence[Array], predicted: Sequence[Array]) -> dict[str, float]:
    """Share of wrong letters, and of words with one."""
    wrong = [int((y != found).sum()) for y, found in zip(Y, predicted, strict=True)]
    return {
        "character": sum(wrong) / sum(y.shape[0] for y in Y),
        "word": float(np.mean([count > 0 for count in wrong])),
    }


CHAIN = partial(ChainSVC, random_state=0)
SHORT = partial(CHAIN, max_iter=200, tol=0.01)
LETTER_METHODS = {
    "runs": (
        Method("ChainSVC slack", lambda C: SHORT(C=C, rescaling="slack"), (0.0003, 0.001, 0.003, 0.01, 0.03)),
        Method("ChainSVC margin", lambda C: SHORT(C=C, rescaling="margin"), LETTER_GRID),
        Method("LinearSVC, a letter", Letters, LETTER_GRID),
        Method("LinearSVC, neighbours", partial(Letters, window=1), LETTER_GRID),
    ),
    "mapped": (
        Method("ChainSVC()", CHAIN()),
        Method("ChainSVC, nystroem", CHAIN(feature_map="nystroem")),
        Method("ChainSVC, nystroem, width chosen", CHAIN(feature_map="nystroem", solver_options={"gamma": None})),
        Method("RBF SVC, neighbours", partial(Letters, window=1, rbf=True), (1.0, 10.0, 100.0)),
    ),
}
"""By part: linear features of a letter's own pixels and of its neighbours'; features of a kernel, kernel SVMs."""


def _letters_right(Y: Sequence[Array], predicted: Sequence[Array]) -> float:
    return 1.0 - letter_errors(Y, predicted)["character"]


def letter_runs(ctx: Context, part: str, folds: int) -> list[Row]:
    """Errors of methods that are trained on each of some folds; C is chosen by letters on a fifth of the words."""
    words, rows = ctx.load("ocr"), list[Row]()
    for fold in range(ctx.pick(folds, 1)):
        inside = words.fold == fold
        task = LabelSets(words.X[inside], words.Y[inside], words.X[~inside], words.Y[~inside], "words")
        runs = compare_methods(task, LETTER_METHODS[part], merit=_letters_right, judge=letter_errors)
        rows += [{"fold": fold, **run} for run in runs]
    return rows


def _letter_means(part: str) -> Callable[[Content], Iterable[Row]]:
    """Means over the folds; older records have words that were trained on nine folds, too."""

    def rows(content: Content) -> Iterable[Row]:
        found = [run for run in content[part] if not run.get("large")]
        for name, own in grouped(found, "method"):
            errors = {what: mean_and_error([100 * run[what] for run in own]) for what in ("character", "word")}
            seconds = statistics.fmean(run.get("seconds", run["fit_s"]) for run in own)
            fit_s = statistics.median(run["fit_s"] for run in own)
            yield {"method": name, "folds": len(own), "seconds": seconds, "fit_s": fit_s, **errors}

    return rows


class structured_ocr(Task, subject="structures", half="tuning"):
    """`ChainSVC` on OCR letters (6877 words, 52,152 letters of 16 x 8 pixels, 26 states) beside LinearSVC per letter,
    which sees the letter alone or its two neighbours too. Each fold in turn is trained on and the other nine tested.
    """

    parts = {
        "runs": partial(letter_runs, part="runs", folds=10),
        "mapped": partial(letter_runs, part="mapped", folds=3),
    }
    few = Table("One of ten folds for training", _letter_means("runs"), """
        method | wrong letters, %: {character:±.1f} | fit: {fit_s:.1f} s
    """)  # fmt: skip
    mapped = Table(
        "One of ten folds for training, C (and the width of the kernel) chosen inside", _letter_means("mapped"),
        "method | folds | wrong letters, %: {character:±.1f} | wrong words, %: {word:±.1f} "
        "| choice and fit: {seconds:.0f} s",
    )  # fmt: skip
