"""`widemargin compare GOALS.toml --models A B`: two classifiers against one goal, and the rows on which they differ."""

import argparse
import itertools
import warnings
from pathlib import Path
from typing import Any

from widemargin import __version__
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.models_and_rows import (
    NO_VERDICT,
    Request,
    audited_rows,
    classes_of,
    external_blocks,
    open_request,
    unlabelled_rows,
)
from widemargin.cli.reports import FORMAT, write_json
from widemargin.diagnostics import AuditCounts, ComparisonCounts, GoalReport, comparison_report
from widemargin.diagnostics.compare import needs_labels
from widemargin.exceptions import DataError, TableWarning


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Compare and print; the exit code and the content for --json."""
    goals = goals_of(options)
    deadline = Deadline(options.time_budget, NO_VERDICT)
    given = [str(name) for name in options.predictions or options.models]
    # Short names: those of the files where they differ, else A and B.
    first, second = (Path(name.rpartition(":")[2] if ":" in name else name).stem for name in given)
    names = (first, second) if first and second and first != second else ("A", "B")
    with Progress() as progress:
        progress.step("loading the models")
        request = open_request(goals, given, options)
        counts, audits = _counted(request, progress, deadline)
        for text in dict.fromkeys(text for candidate in request.candidates for text in candidate.finish()):
            warnings.warn(text, TableWarning, stacklevel=2)
        reports: tuple[GoalReport, ...] = tuple(
            audit.report(decide=options.decide, data_name=request.title) for audit in audits
        )
        report = comparison_report(
            counts, (reports[0], reports[1]) if reports else None, names=names, power=options.power, gain=options.gain,
            data_name=request.title,
        )  # fmt: skip
    content = {
        "format": FORMAT,
        "widemargin": __version__,
        "goals_file": str(options.goals),
        "models": [item.title for item in request.candidates],
        "data": request.blocks.title,
        "rows": f"{request.part} rows",
        "comparison": report.to_dict(),
    }
    write_json({"command": "compare", "exit_code": report.exit_code, **content}, options.report_json)
    for name, candidate in zip(report.names, request.candidates, strict=True):
        say(f"{name}: {candidate.title}")
    say("", str(report))
    return report.exit_code, content


def _counted(request: Request, progress: Progress, deadline: Deadline) -> tuple[ComparisonCounts, list[AuditCounts]]:
    """Counts for the comparison, and those for an audit of each candidate where the goal can be measured."""
    goal, candidates, data = request.goal, request.candidates, request.goals.data
    for item in candidates:
        if item.abstain is not None:
            raise DataError(
                f"{item.title} leaves rows undecided, and a comparison is of models that decide every row. Audit each"
            )
    classes = [classes_of(request, item) for item in candidates]
    known = next((own for own in classes if own is not None), None)
    counts = ComparisonCounts(goal, classes=known, pos_label=data.positive)
    # It can be measured where every row asked for has a label, or no rate needs one.
    is_labelled = data.target in request.blocks.names and not unlabelled_rows(request)
    measurable = is_labelled or not needs_labels(goal)
    audits = [AuditCounts(goal, classes=own, pos_label=data.positive) for own in classes if measurable]
    main = ((None, *item) for item in audited_rows(request, some_labels=True, deadline=deadline))
    for source, block, rows in itertools.chain(main, external_blocks(request)):
        progress.step(f"comparing: {counts.n_rows} rows")
        answers = [candidate.answer(block).labels for candidate in candidates]
        more = {"sample_weight": rows.sample_weight, "populations": rows.populations, "source": source}
        counts.update(answers[0], answers[1], rows.y, **more)
        for audit, answer in zip(audits, answers, strict=False):
            audit.update(answer, rows.y if is_labelled or source is not None else None, **more)
    return counts, audits
