"""`widemargin report GOALS.toml --model M --out FILE.html`: one page about a model and its goal."""

import argparse
import datetime
import functools
import platform
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from widemargin import __version__
from widemargin._files import file_sha256
from widemargin.cli.candidates import Answer, Candidate
from widemargin.cli.commands.tradeoff import read_stored, short_values, sweep
from widemargin.cli.console import Progress, say, warnings_reworded
from widemargin.cli.goals_file.keys import TablePath
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.models_and_rows import Request, audited_rows, classes_of, open_request
from widemargin.cli.reports import audit_document, write_json, write_text
from widemargin.cli.tables.table_files import Block, sha256_of
from widemargin.cli.tables.training_data import TableRows, as_external, baseline_labels
from widemargin.cli.training import Prepared, prepare, table_name
from widemargin.exceptions import DataError, InfeasibleGoalError, MarginConvergenceWarning, TableWarning
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.report import html_report
from widemargin.solvers.base import Budget

PLAIN = "the same SVM without rules"


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Measure, train what stands beside, write the page; the exit code and the content for --json."""
    goals = goals_of(options)
    data: TablePath = options.data or goals.data.table
    out = options.out or goals.outputs.report or Path("report.html")
    with Progress() as progress:
        prepared = prepare(goals, progress)
        progress.step("loading the model")
        request, digest, rows, model, external, facts = _measured(prepared, data, options)
        stored = [read_stored(file, prepared) for file in options.tradeoff]
        budget = Budget(options.time_budget)  # and the user's patience, for what stands beside the model
        plain = _plain(prepared, progress, budget)
        # Prices of rules come from sweeps. Those of an SVM are short; other models would be fitted anew at every value.
        none = options.no_tradeoff or not prepared.is_svm
        paths = stored + ([] if none else _short_paths(prepared, stored, progress, budget))
        progress.step("measuring")
        # Rows that were trained on have no intervals around their rates.
        fresh = request.part == "test" or digest != prepared.digest
        if not fresh and options.decide == "confident":
            raise DataError(
                f"{request.title} were trained on, and an interval around their rates would claim too much. Give other "
                "rows by --data, hold some out by data.split, or leave --decide confident"
            )
        (candidate,) = request.candidates
        last = candidate.last[-1] if hasattr(candidate.last, "steps") else candidate.last
        kernel = getattr(last, "kernel", None)
        kind = "a linear classifier" if hasattr(last, "coef_") else "a classifier"
        kind = kind if kernel is None else f"a classifier with the kernel {kernel!r}"
        name = f"a model known by {Path(candidate.title).name}" if last is None else f"{kind} ({type(last).__name__})"
        # What the SVM without rules and the earlier models say, where they know all rows that the goal is measured on.
        tables: dict[str | None, pa.Table] = {None: rows.populations}
        tables |= {source: beside.populations for source, beside in external.items()}
        called = prepared.plain_name or PLAIN
        others = {} if plain is None else {
            called: {name: plain.predict(prepared.step.transform(table)) for name, table in tables.items()}
        }  # fmt: skip
        others |= baseline_labels(goals, tables)
        page = html_report(
            model, request.goal, rows.populations, rows.y,
            sample_weight=rows.sample_weight, populations=rows.populations, external=as_external(external),
            others=others, baselines=facts,
            pos_label=goals.data.positive, abstain=candidate.abstain, paths=paths, trained_goal=goals.goal,
            confidence=0.95 if fresh else None, decide=options.decide, missing_groups=options.missing_groups,
            title=options.title or f"{goals.path.stem}: does the model meet its goal?",
            model_name=name, data_name=f"{request.part} rows of {table_name(data)}",
            record=_record(prepared, candidate, digest, rows.n_rows, paths, options),
            card={**goals.card, **dict(options.card)},
        )  # fmt: skip
        write_text(page.text, out)
    report = page.goal_report
    document = audit_document(report, options, model=candidate.title, data=request.blocks.title, part=request.part)
    write_json(document, options.report_json)
    say(str(report), "", f"Report written to {out}")
    content = document | {"command": "report", "out": str(out), "paths": [path.to_dict() for path in paths]}
    return (130 if budget.interrupted else report.exit_code), content


def _interrupted(budget: Budget) -> None:
    """Ctrl-C: the page is written with what is there."""
    budget.interrupted = True
    warnings.warn("interrupted: the page is written with what is there.", MarginConvergenceWarning, stacklevel=2)


def _plain(prepared: Prepared, progress: Progress, budget: Budget) -> Any:
    """The SVM (or the learner of another model) without rules; None where the time is up, or the user stops it."""
    seconds = prepared.goals.model.time_budget if budget.left is None else budget.left
    try:
        return prepared.plain(progress, f"training {PLAIN}", PLAIN, seconds, "--time-budget")
    except KeyboardInterrupt:
        _interrupted(budget)
        return None


def _short_paths(
    prepared: Prepared, stored: Sequence[TradeoffPath], progress: Progress, budget: Budget
) -> list[TradeoffPath]:
    """A short path for each rule that none was given for."""
    goal = prepared.goals.goal
    names = [entry.label or entry.text for entry in goal.constraints]
    missing = [name for name in names if name not in {path.name for path in stored} and names.count(name) == 1]
    paths: list[TradeoffPath] = []
    said: set[str] = set()

    def once(name: str, warning: Warning) -> str | None:
        """What is so of the whole goal is said with the first price."""
        text, n_said = str(warning), len(said)
        said.add(text)
        return f"price of {name!r}: {text}" if len(said) > n_said else None

    for number, name in enumerate(missing):
        values = short_values(goal, name)
        if values is None:
            continue
        if budget.exhausted:
            if not budget.interrupted:
                text = f"{len(missing) - number} rules have no price: --time-budget is used up."
                warnings.warn(text, MarginConvergenceWarning, stacklevel=2)
            break
        progress.step(f"price of {name} ({number + 1} of {len(missing)})")
        try:
            with warnings_reworded(functools.partial(once, name)):
                share = None if budget.left is None else budget.left / (len(missing) - number)
                path, by_hand = sweep(prepared, name, values, progress, budget=share)
            paths.append(path)
            if by_hand:
                _interrupted(budget)
        except KeyboardInterrupt:
            _interrupted(budget)
        except InfeasibleGoalError as error:
            warnings.warn(f"no price of {name!r}: {error}", MarginConvergenceWarning, stacklevel=2)
    return paths


def _record(
    prepared: Prepared,
    candidate: Candidate,
    digest: str,
    n_rows: int,
    paths: Sequence[TradeoffPath],
    options: argparse.Namespace,
) -> Mapping[str, Mapping[str, Any]]:
    """Everything that is needed to make the report again."""
    goals, data, model = prepared.goals, prepared.goals.data, options.model
    names = ("learner", "numbers", "bins", "time_budget", "on_infeasible", "rare_words")
    settings = {name: getattr(goals.model, name) for name in names}
    if goals.model.learner != "trees":  # these have none of it
        settings |= {"C": goals.model.C, "enforce": goals.model.enforce, "kernel": goals.model.kernel or "linear"}
    libraries = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "highspy", "skops")
    return {
        "Files": {
            "goals file": goals.path.name,
            "goals file, sha256": file_sha256(goals.path),
            "model": Path(candidate.title).name if model is None else model.name,
            "model, sha256": "not a model: predictions were given" if model is None else file_sha256(model),
            "table": table_name(data.table),
            "table, sha256": prepared.digest,
            "measured on": table_name(options.data or data.table),
            "measured on, sha256": digest,
        },
        "Rows and columns": {
            **{f"rows to {'train on' if part == 'train' else 'measure on'}, in the goals file's table": content.n_rows
               for part, content in prepared.data.rows.items()},
            **({"rows left out, without a target": prepared.data.n_unlabelled} if prepared.data.n_unlabelled else {}),
            "rows measured here": n_rows,
            "target": data.target if data.positive is None else f"{data.target}, positive: {data.positive}",
            "weight": data.weight or "none: every row counts the same",
            "features": candidate.features or prepared.data.features,
            "protected: used for rates, never to decide": [
                name for name in data.protected if name not in data.protected_as_features
            ],
            "protected, and used to decide as asked": list(data.protected_as_features),
            "ignored": list(data.ignore),
            "earlier models": [
                *(f"{name} (column {column})" for name, column in goals.baselines.items()),
                *(f"{name} (model {path.name})" for name, path in goals.baseline_models.items()),
                *(f"{name} (function {function})" for name, function in goals.baseline_functions.items()),
            ],
            "external data sets": [
                f"{name} ({table_name(section.table)}, sha256 {sha256_of(section.table)})"
                for name, section in goals.external.items()
            ],
        },
        "Training": {
            **{name: "none" if value is None else value for name, value in settings.items()},
            "status": str(getattr(candidate.last, "status_", "unknown")),
            "seed": 0,
            "points of the paths": [f"{path.name}: {len(path)}" for path in paths],
        },
        "Software": {
            "widemargin": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in libraries},
            "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        },
    }  # fmt: skip


def _measured(
    prepared: Prepared, data: TablePath, options: argparse.Namespace
) -> tuple[Request, str, TableRows, Any, dict[str, TableRows], dict[str, Any]]:
    """Read the rows that are asked for, and ask the classifier about them.

    Returns
    -------
    request : Request
    digest : str
        SHA-256 of the table.
    rows : TableRows
    model : object
        The classifier as `html_report` takes it: with its scores where it has some, else its predictions.
    external : dict of str to TableRows
        The data sets beside the table that the goal is measured on.
    facts : dict of str to ndarray
        What the goal asks about scores.

    Raises
    ------
    DataError, ModelFileError
        As `widemargin audit` does.
    """
    goals = prepared.goals
    # The tables of external rows are what `html_report` asks about, not the features that training made of them.
    names = (goals.audit_goal or goals.goal).sources
    external = {name: prepared.data.external[name].replaced(X=None) for name in names}
    request = open_request(goals, [options.predictions or options.model], options)._replace(columns=None)
    (candidate,) = request.candidates
    pieces, answers, facts = [], [], []
    for block, rows in audited_rows(request):
        pieces.append(rows)
        answers.append(candidate.answer(block, everything=True))
        facts.append(candidate.facts(request.goal, block, rows.y, goals.data.positive))
    outside: dict[str | None, Any] = {
        name: candidate.answer(Block.whole(rows.populations, f"external.{name}")).labels
        for name, rows in external.items()
    }
    for text in candidate.finish():
        warnings.warn(text, TableWarning, stacklevel=2)

    def joined(parts: Sequence[Any]) -> Any:
        return None if parts[0] is None else np.concatenate([np.asarray(part) for part in parts])

    whole = TableRows(
        populations=pa.concat_tables([rows.populations for rows in pieces], promote_options="permissive"),
        y=joined([rows.y for rows in pieces]),
        sample_weight=joined([rows.sample_weight for rows in pieces]),
    )
    digest = prepared.digest if data == goals.data.table else sha256_of(data)
    answer = Answer(*map(joined, zip(*answers, strict=True)))
    model: Any = {**outside, None: answer.labels}
    if candidate.classes is not None:
        tables = [(whole.populations, answer.labels)]
        tables += [(rows.populations, outside[name]) for name, rows in external.items()]
        # A classifier that has answered already, about these tables only.
        model = SimpleNamespace(classes_=np.array(classes_of(request, candidate)))
        model.predict = lambda X: next(labels for table, labels in tables if table is X)
        if answer.scores is not None:
            model.decision_function = lambda X: answer.scores
        elif answer.probabilities is not None:
            second = np.asarray(answer.probabilities)
            model.predict_proba = lambda X: np.column_stack([1.0 - second, second])
        model.abstain = candidate.abstain
    known = {name: joined([part[name] for part in facts]) for name in facts[0]}
    return request, digest, whole, model, external, known
