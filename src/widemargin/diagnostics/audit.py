"""Does a classifier meet a goal on these rows? For any fitted classifier, or for its predictions alone."""

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin.diagnostics.audit_blocks import audit_in_blocks
from widemargin.distributed.tables import is_collection
from widemargin.exceptions import DataError
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.columns import listing
from widemargin.goals.binding.labels import column_of, encode_labels, find_classes, positive_class
from widemargin.goals.binding.sources import External, external_data, make_sources
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.goal_report import GoalReport, check_decide, make_report
from widemargin.rows import Rows, length_of

__all__ = ["ask_model", "audit", "own_pos_label"]


def audit(
    model_or_predictions: Any,
    goal: Goal | str,
    X: Any = None,
    y: Any = None,
    *,
    populations: Any = None,
    external: Mapping[str, External] | None = None,
    baselines: Mapping[str, Any] | None = None,
    sample_weight: Any = None,
    pos_label: Any = None,
    confidence: float | None = 0.95,
    decide: str = "estimate",
    random_state: int | np.random.RandomState | np.random.Generator | None = 0,
    data_name: str = "the data",
    workers: Any = None,
) -> GoalReport:
    """Measure a classifier's 0/1 predictions on a goal, with confidence intervals and a verdict per constraint.

    Parameters
    ----------
    model_or_predictions : fitted classifier, array-like of shape (n,), or dict
        A classifier is asked for `predict(X)`, and for `predict` of each external data set's X; it also gets the table
        of populations if its `predict` has a parameter of that name. An array holds
        predictions in y's label space (never scores or probabilities). Where the goal has external data sets, give a
        dict with the main predictions under None (or "") and the others under the names of their data sets.
    goal : Goal or str
        A goal or its text.
    X : array-like or data frame of shape (n, d), default=None
        Needed for a classifier. A data frame is also looked at by the goal's predicates, after `populations`.
    y : array-like of shape (n,), default=None
        Labels; not needed by constraints on positive rates and churn alone. An objective that needs them is then
        reported as not measured.
    populations : table with n rows, default=None
    external : dict of str to External, default=None
    baselines : dict of str to array-like of shape (n,) or fitted model, default=None
        Looked up after the columns of `populations`. A model is also asked about the external data sets.
    sample_weight : array-like of shape (n,), default=None
    pos_label : label, default=None
        None: the classifier's own `pos_label`, else the second of the two classes.
    confidence : float in (0, 1) or None, default=0.95
        Of each interval; None: no intervals.
    decide : {"estimate", "confident"}, default="estimate"
        What `report.passed` and `report.exit_code` go by; with "confident" an undecided constraint counts as not met.
    random_state : int, RandomState, Generator or None, default=0
        Of the bootstrap.
    data_name : str, default="the data"
        What the report calls the rows.
    workers : None, int or distributed.Client, default=None
        For rows in blocks, see Notes: None: one block after the other (Dask collections: the client in force); an
        integer: so many blocks at a time on this machine; a client: its cluster.

    Returns
    -------
    GoalReport

    Notes
    -----
    Rows that do not fit may come in blocks: X, y, populations, weights, baselines and predictions as Dask collections
    with the same partitions, or X as the path of a Parquet file or folder. Of a Dask frame or of files y, sample_weight
    and predictions may be given by the names of columns; the whole table then serves the populations. The rows are
    counted in one pass (in two, if neither a classifier nor `pos_label` says which class is the positive one), and the
    report is that of all rows at once, see `AuditCounts`.

    Raises
    ------
    GoalError
        If the goal does not fit the data (see `bind`), or the text is no goal.
    DataError
        If the data are malformed, have more than two classes, or a prediction is no label; if a constraint needs labels
        and there are none; if a class or a function stands in place of a fitted classifier.

    Examples
    --------
    >>> from widemargin.diagnostics import audit
    >>> report = audit([1, 1, 0, 0], "subject to floor: recall() >= 0.5", y=[1, 0, 1, 0])
    >>> report["floor"].rate, report["floor"].verdict, report.passed
    (0.5, 'undecided', True)
    """
    check_decide(decide)
    bound_goal = Goal.parse(goal) if isinstance(goal, str) else goal
    if not isinstance(bound_goal, Goal):
        raise DataError(f"goal is a {type(goal).__name__}; give a Goal or its text.")
    _check_candidate(model_or_predictions)
    if (
        is_collection(model_or_predictions)
        or any(map(is_collection, (X, y, populations)))
        or isinstance(X, (str, Path))
    ):
        return audit_in_blocks(
            model_or_predictions, bound_goal, X, y, populations=populations, external=external or {},
            baselines=baselines or {}, sample_weight=sample_weight,
            pos_label=own_pos_label(model_or_predictions) if pos_label is None else pos_label, workers=workers,
            confidence=confidence, decide=decide, random_state=random_state, data_name=data_name,
        )  # fmt: skip
    uses = baselines_used(bound_goal)
    tables: dict[str | None, Any] = {None: populations}
    tables.update((name, data.populations) for name, data in (external or {}).items() if isinstance(data, External))
    ask = partial(ask_model, populations=tables)
    others = [name for name in uses if name is not None]
    said = _predictions(model_or_predictions, X, external or {}, others, ask)
    classes = _classes(model_or_predictions, said, y, external or {}, baselines or {}, pos_label)
    pair = positive_class(classes, own_pos_label(model_or_predictions) if pos_label is None else pos_label)
    main = Rows(X, y, sample_weight, populations, external=external or {}, baselines=baselines or {})
    sources = make_sources(uses, main, classes=pair, n_rows=length_of(said[None]))
    positive = []
    for source in sources:
        codes = encode_labels(said[source.name], pair, pair[1], what=_called("predictions", source.name))
        if len(codes) != source.n_rows:
            raise DataError(f"{len(codes)} predictions for the {source.n_rows} rows of {source.title}.")
        positive.append(codes > 0)
    tied = bind(bound_goal, sources, warn_trivial=False, need_objective=False)
    return make_report(
        tied, positive, positive_class=pair[1], data_name=data_name, confidence=confidence, decide=decide,
        ramp=_ramp(model_or_predictions, pair[1], X, external or {}, tied.sources, ask), random_state=random_state,
    )  # fmt: skip


def _is_model(candidate: Any) -> bool:
    return hasattr(candidate, "predict")


def _check_candidate(candidate: Any) -> None:
    """Refuse a class and a function, which say nothing about rows."""
    name = getattr(candidate, "__name__", type(candidate).__name__)
    if isinstance(candidate, type):
        raise DataError(f"{name} is a class; give a fitted classifier, such as {name}().fit(X, y), or its predictions.")
    if callable(candidate) and not _is_model(candidate) and not hasattr(candidate, "__len__"):
        raise DataError(
            f"{name} is a {type(candidate).__name__}, no fitted classifier; give an object with predict(X), or the "
            "predictions themselves."
        )


def _called(what: str, name: str | None) -> str:
    return what if name is None else f"{what} for external {name!r}"


def _features(name: str | None, X: Any, external: Mapping[str, External]) -> Any:
    """Features of a source, which a model must have."""
    if name is not None:
        X = external_data(name, external).X
    if X is None:
        raise DataError(
            f"a classifier needs rows to classify; give {'X' if name is None else f'External(X) for {name!r}'}."
        )
    return X


def ask_model(method: Any, X: Any, name: str | None, *, populations: Mapping[str | None, Any]) -> Any:
    """Call `predict` (or `randomized_proba`) on the rows of a source, with their table where it is a parameter."""
    table = populations.get(name)
    takes = table is not None and "populations" in inspect.signature(method).parameters
    return method(X, populations=table) if takes else method(X)


def _predictions(
    candidate: Any, X: Any, external: Mapping[str, External], names: Sequence[str], ask: Any
) -> dict[str | None, Any]:
    """What the classifier says on the main rows (None) and on each external data set that the goal uses."""
    if _is_model(candidate):
        return {name: ask(candidate.predict, _features(name, X, external), name) for name in (None, *names)}
    if not isinstance(candidate, dict):
        candidate = {None: candidate}
    said = {None if name == "" else name: values for name, values in candidate.items()}
    strange = sorted(str(name) for name in said if name is not None and name not in names)
    if strange:
        raise DataError(
            f"predictions for {listing(strange)}, and the goal uses the external data sets {listing(names)}."
        )
    for name in (None, *names):
        if said.get(name) is None:
            raise DataError(
                f"there are no {_called('predictions', name)} among those given; give the model, or a dict with "
                f"the keys None (the main rows) and {listing(names)}."
            )
    return said


def _classes(
    candidate: Any,
    said: Mapping[str | None, Any],
    y: Any,
    external: Mapping[str, External],
    baselines: Mapping[str, Any],
    pos_label: Any,
) -> Sequence[Any]:
    """The two classes: the classifier's, else those of y, else those of everything that holds labels."""
    own = getattr(candidate, "classes_", None) if _is_model(candidate) else None
    if own is not None:
        return [value.item() if isinstance(value, np.generic) else value for value in own]
    vectors = {} if y is None else {"y": y}
    if y is None or len(column_of("y", y).distinct()) < 2:
        vectors |= {_called("predictions", name): values for name, values in said.items()}
        vectors |= {f"baseline {name!r}": values for name, values in baselines.items() if not _is_model(values)}
        vectors |= {_called("y", name): data.y for name, data in external.items() if data.y is not None}
    return find_classes(vectors, pos_label)


def own_pos_label(candidate: Any) -> Any:
    """The classifier's own `pos_label`, also inside a pipeline or a search; None where it has none."""
    if not _is_model(candidate):
        return None
    for attribute in ("best_estimator_", "steps"):
        inner = getattr(candidate, attribute, None)
        if inner is not None:
            return own_pos_label(inner[-1][1] if attribute == "steps" else inner)
    return getattr(candidate, "pos_label", None)


def _ramp(
    candidate: Any, positive: Any, X: Any, external: Mapping[str, External], names: Sequence[str | None], ask: Any
) -> list[npt.NDArray[np.float64]] | None:
    """Probabilities of the randomised classifier, where the model has one (`randomized_proba`)."""
    method = getattr(candidate, "randomized_proba", None)
    if method is None:
        return None
    found = []
    for name in names:
        share = np.asarray(ask(method, _features(name, X, external), name), dtype=np.float64)
        if share.ndim == 2:
            share = share[:, list(candidate.classes_).index(positive)]
        found.append(share)
    return found
