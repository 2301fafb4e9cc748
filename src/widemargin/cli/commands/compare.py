"""`widemargin compare GOALS.toml --models A B`: two classifiers against one goal, and the rows on which they differ."""

import argparse
import itertools
import warnings
from pathlib import Path
from typing import Any

from widemargin import __version__
from widemargin.cli.candidates import Candidate
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.keys import GoalsFile, table_text
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.models_and_rows import (
    NO_VERDICT,
    audited_rows,
    blocks_and_candidates,
    columns_needed,
    external_blocks,
    named_part,
)  # fmt: skip
from widemargin.cli.reports import FORMAT, write_json
from widemargin.cli.tables.column_roles import require_columns
from widemargin.cli.tables.table_files import TableBlocks
from widemargin.diagnostics import AuditCounts, ComparisonCounts, ComparisonReport, comparison_report
from widemargin.diagnostics.compare import needs_labels
from widemargin.exceptions import TableWarning

__all__ = ["run"]


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Compare and print; the exit code and the content for --json."""
    goals = goals_of(options)
    deadline = Deadline(options.time_budget, NO_VERDICT)
    path = options.data or goals.data.table
    given = [str(name) for name in options.predictions or options.models]
    # Short names: those of the files where they differ, else A and B.
    first, second = (Path(name.rpartition(":")[2] if ":" in name else name).stem for name in given)
    names = (first, second) if first and second and first != second else ("A", "B")
    with Progress() as progress:
        progress.step("loading the models")
        blocks, candidates = blocks_and_candidates(given, goals, path, options)
        part = named_part(blocks, goals, options.rows)
        report = _compared(candidates, names, blocks, goals, part, options, progress, deadline)
    content = {
        "format": FORMAT,
        "widemargin": __version__,
        "goals_file": str(options.goals),
        "models": [item.title for item in candidates],
        "data": table_text(path),
        "rows": f"{part} rows",
        "comparison": report.to_dict(),
    }
    if options.report_json is not None:
        write_json({"command": "compare", "exit_code": report.exit_code, **content}, options.report_json)
    if not options.json:
        for name, candidate in zip(report.names, candidates, strict=True):
            say(f"{name}: {candidate.title}")
        say("", str(report))
    return report.exit_code, content


def _compared(
    candidates: list[Candidate],
    names: tuple[str, str],
    blocks: TableBlocks,
    goals: GoalsFile,
    part: str,
    options: argparse.Namespace,
    progress: Progress,
    deadline: Deadline,
) -> ComparisonReport:
    goal, positive, target, split = (
        goals.audit_goal or goals.goal,
        goals.data.positive,
        goals.data.target,
        goals.data.split,
    )
    baselines = {column: f"baselines.{name}" for name, column in goals.baselines.items() if name in goal.baselines}
    require_columns(blocks.names, baselines, blocks.title)
    classes = next((item.classes for item in candidates if item.classes is not None), None)
    counts = ComparisonCounts(goal, classes=classes, pos_label=positive)
    # The goal can be measured where every row asked for has a label, or no rate needs one.
    labels = [target, *([] if split is None else [split.column])]
    measurable = not needs_labels(goal) or (
        target in blocks.names
        and not any(block.table[target].null_count for block in blocks.read(labels, split=split, part=part))
    )
    audits = [AuditCounts(goal, classes=item.classes, pos_label=positive) for item in candidates] if measurable else []
    main = audited_rows(
        blocks, goals, part, columns_needed(goals, goal, candidates), some_labels=True, deadline=deadline
    )
    beside = external_blocks(goals, goal, candidates)
    for source, block, rows in itertools.chain(((None, *item) for item in main), beside):
        progress.step(f"comparing: {counts.n_rows} rows")
        answers = [candidate.answer(block).labels for candidate in candidates]
        more = {"sample_weight": rows.sample_weight, "populations": rows.populations, "source": source}
        counts.update(answers[0], answers[1], rows.y, **more)
        for audit, answer in zip(audits, answers, strict=False):
            audit.update(answer, rows.y, **more)
    for text in dict.fromkeys(text for candidate in candidates for text in candidate.finish()):
        warnings.warn(text, TableWarning, stacklevel=2)
    data_name = f"{part} rows of {blocks.title}"
    both = [audit.report(decide=options.decide, data_name=data_name) for audit in audits]
    reports = (both[0], both[1]) if measurable else None
    return comparison_report(counts, reports, names=names, power=options.power, gain=options.gain, data_name=data_name)
