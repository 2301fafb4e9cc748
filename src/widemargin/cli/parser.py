"""Commands and options of the command line, each stated once. Imports nothing heavy: --help must be quick."""

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from widemargin import __version__
from widemargin.cli.console import CARD_KEYS
from widemargin.exceptions import DataError


def _number(text: str) -> float:
    """A number, or NaN: argparse would tell a ValueError with the name of the function."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _positive(text: str) -> float:
    number = _number(text)
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds above 0")
    return number


def _finite(text: str) -> float:
    number = _number(text)
    if not abs(number) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no finite number")
    return number


def _character(text: str) -> str:
    """What may separate fields; `\\t` is a tab."""
    text = "\t" if text == "\\t" else text
    if len(text) != 1 or not text.isascii() or text in '\r\n"\0':
        raise argparse.ArgumentTypeError(f"{text!r} is not one character that may separate fields")
    return text


def _entry(text: str) -> tuple[str, str]:
    """Heading and text of a model card."""
    key, sign, content = text.partition("=")
    if not sign or not key.strip() or not content.strip():
        raise argparse.ArgumentTypeError(f'{text!r} is no KEY=TEXT, such as owner="Credit risk, risk@example.org"')
    return CARD_KEYS.get(key.strip(), key.strip()), content.strip()


COMMANDS = {
    "init": (
        "write a first goals file by looking at a table\n"
        "Look at a table and write a first goals file: target, favourable outcome, protected columns, columns to leave "
        "out, and well-known rules that a model can meet, such as the 80% rule, each with its reason. On a terminal it "
        "asks what the names of columns leave open. Exit code 0: written; 2: bad input."
    ),
    "check": (
        "say everything that is wrong with a goals file\n"
        "Check a goals file, and with --data its table, without training: every problem with its line and a cure. Exit "
        "code 0: no problems; 2: problems (with --strict also warnings)."
    ),
    "train": (
        "train a model to the goal of a goals file\n"
        "Train a classifier that meets the goal of a goals file, and save it. Exit code 0: the goal is met on the "
        "training rows and, if there are test rows, [goal.audit] (or else the same goal) is met on these; 1: not met; "
        "2: bad input; 130: interrupted."
    ),
    "predict": (
        "labels, scores and probabilities of new rows\n"
        "Write what a model says of the rows of a table: label, score and, if calibrated, probability of each. Parquet "
        "is read in blocks, so any number of rows will do. Exit code 0: written; 1: the time was up; 2: bad input; "
        "130: interrupted. The rows done by then are kept in a file of their own, named .partial."
    ),
    "audit": (
        "measure a classifier, or its predictions, on rows of a table\n"
        "Measure a model of any kind, or a file of predictions, on the goal of a goals file ([goal.audit] if given). "
        "With --standard: tables that a law asks for, from a table of decisions or scores. Exit code 0: met (with "
        "--standard: every impact ratio is at least four fifths); 1: not met, or the time was up; 2: bad input; 130: "
        "interrupted."
    ),
    "compare": (
        "measure two classifiers against one goal, and where they differ\n"
        "Say which of two classifiers meets the goal, what B gains and loses over A, and how many labels prove the "
        "difference. Exit code 0: B, the second one, meets the goal, or the goal was not measured; 1: it does not, or "
        "the time was up; 2: bad input; 130: interrupted."
    ),
    "tradeoff": (
        "say what a bound costs: train along its values\n"
        "Train one model for each of several values of a bound (an SVM starts from its neighbour) and measure them on "
        "held-out rows (those of data.split, else a fifth). Exit code 0: every value was met on the training rows; 1: "
        "some were not, or the sweep ended early (the points done are kept); 2: bad input."
    ),
    "report": (
        "write one HTML page about a model and its goal\n"
        "Write a self-contained HTML page: the goal in words, verdicts, prices of the rules, comparison with "
        "other models, margins, model card, data and settings. Exit code 0: the goal is met; 1: not met; 2: bad input; "
        "130: interrupted."
    ),
    "reproduce": (
        "run an experiment of the papers and draw its figure\n"
        "Run an experiment of the papers: numbers and settings are saved as JSON, the figure as PNG. Finished runs are "
        "kept: after Ctrl-C the same command goes on. Exit code 0: done; 1: the time was up; 2: bad input or no data "
        "(with --all: of any figure); 130: interrupted."
    ),
    "compile": (
        "compile in advance what the first fits would compile\n"
        "The first fit of an estimator compiles its loops, which takes some seconds, and keeps them on disk. This "
        "command does it for all estimators (in about a minute), or for those named: for container images, and for "
        "environments that many people share. Exit code 0: done; 2: bad input."
    ),
    "data": (
        "list the data sets of experiments and examples, or write one as a table\n"
        "Without NAME: list the data sets, where they are looked for and whether they are there. With NAME: write that "
        "one as a table. Exit code 0: done; 2: bad input or no data."
    ),
}
"""By name, which is that of the module of `widemargin.cli.commands` that runs it: its line of help, and the page."""

_GOALS: dict[str, Any] = {"type": Path, "metavar": "GOALS.toml"}
_FILE: dict[str, Any] = {"type": Path, "metavar": "FILE"}
_FOLDER: dict[str, Any] = {"type": Path, "metavar": "FOLDER"}
_SECONDS: dict[str, Any] = {"type": _positive, "metavar": "SECONDS"}
_SHARE: dict[str, Any] = {"type": float, "metavar": "SHARE"}
_FLAG: dict[str, Any] = {"action": "store_true"}
_ONE_OF = "one of"
"""Of these options a command takes one at most, and where it is True exactly one."""
_MODEL = "a model: .skops (of widemargin, or scikit-learn's own types), .onnx, or with --trust-code .joblib"
_SEPARATOR = {"type": _character, "metavar": "CHARACTER"}
_SEPARATES = 'what stands between the fields of CSV files, such as ";" (default: {})'
_IN_GOALS_FILE = "[data] separator, else a comma, in .tsv files a tab"
_POSITIVE = "what the model calls the positive class, where its labels are not those of the table"
_NUMBER_OR_ADDRESS: dict[str, Any] = {"metavar": "N|ADDRESS"}

# The commands that have an option, its name, its help, and what argparse is to know besides.
OPTIONS: list[tuple[str, str, str | None, dict[str, Any]]] = [
    # What a command is about
    ("init", "table", "the table: CSV, Parquet or Arrow", {"type": Path, "metavar": "TABLE"}),
    ("check", "goals", "the goals file", _GOALS | {"nargs": "?"}),
    ("train compare tradeoff report", "goals", "the goals file", _GOALS),
    ("audit", "goals", "a goals file; with --standard a table (CSV, Parquet or a folder of Parquet files)",
     {"type": Path, "metavar": "GOALS.toml|FILE", "nargs": "?"}),
    ("predict", "goals", "a goals file: [output] names the model, [data] the features of models that know none",
     _GOALS | {"nargs": "?"}),
    ("reproduce", "figure", "one of those that --list names", {"nargs": "?", "metavar": "FIGURE"}),
    ("data", "name", "adult, credit-card, compas or german", {"nargs": "?", "metavar": "NAME"}),
    ("compile", "estimator", "names of estimators (default: all)", {"nargs": "*", "metavar": "ESTIMATOR"}),
    # The classifier
    ("train", "--model", "where to save the model (default: [output] model)", _FILE),
    ("predict", "--model", f"{_MODEL} (default: [output] model)", _FILE),
    ("audit report", "--model", f"{_MODEL} (default: [output] model)", _FILE | {_ONE_OF: False}),
    ("audit", "--standard",
     "the tables that a law asks for, from decisions or scores alone: ll144, New York City Local Law 144",
     {"choices": ("ll144",), _ONE_OF: False}),
    ("audit report", "--predictions", "in place of a model: its decisions, a column of a CSV or Parquet file",
     {"metavar": "FILE[:COLUMN]", _ONE_OF: False}),
    ("compare", "--models", f"two files, each {_MODEL}",
     {"type": Path, "nargs": 2, "metavar": ("A", "B"), _ONE_OF: True}),
    ("compare", "--predictions", "in place of models: their decisions, columns of CSV or Parquet files",
     {"nargs": 2, "metavar": ("A[:COLUMN]", "B[:COLUMN]"), _ONE_OF: True}),
    ("audit compare report", "--key", "match predictions to rows by this column (default: by order)",
     {"metavar": "COLUMN"}),
    ("audit report", "--model-positive", _POSITIVE, {"metavar": "LABEL"}),
    ("audit report", "--abstain", "the label in predictions that means undecided; models know theirs",
     {"metavar": "LABEL"}),
    ("compare", "--model-positive", f"{_POSITIVE}; given twice: of A and of B",
     {"action": "append", "metavar": "LABEL"}),
    ("predict audit compare report", "--trust-code",
     "open .joblib and .pkl files, which runs the code in them", _FLAG),
    # Rows
    ("check", "--data", "also look at the table: that of the goals file, or another FILE",
     _FILE | {"nargs": "?", "const": True}),
    ("predict", "--data", "the rows: CSV, Parquet or a folder of Parquet files", _FILE | {"required": True}),
    ("audit compare report", "--data",
     "rows to measure on: CSV, Parquet or a folder of Parquet files (default: data.table)", _FILE),
    ("reproduce data", "--data", "folder of the data (or $WIDEMARGIN_DATA)", _FOLDER),
    ("init", "--separator", _SEPARATES.format("guessed"), _SEPARATOR),
    ("predict audit compare report", "--separator", _SEPARATES.format(_IN_GOALS_FILE), _SEPARATOR),
    ("audit compare report", "--rows",
     "which rows of the file (default: test where the goals file holds some of them out, else all)",
     {"choices": ("all", "train", "test")}),
    ("init", "--target", "the column to predict (default: guessed)", {"metavar": "COLUMN"}),
    ("audit", "--outcome", "of --standard: the column of decisions or scores (default: guessed)",
     {"metavar": "COLUMN"}),
    ("audit", "--sex", "of --standard: the column of sex (default: guessed)", {"metavar": "COLUMN"}),
    ("audit", "--race", "of --standard: the column of race or ethnicity (default: guessed)", {"metavar": "COLUMN"}),
    ("audit", "--favourable", "of --standard: the decision that counts as selected (default: guessed)",
     {"metavar": "VALUE"}),
    ("audit", "--unknown", "of --standard: further values that mean an unknown category",
     {"nargs": "+", "action": "extend", "metavar": "VALUE"}),
    ("audit", "--leave-out-small",
     "of --standard: leave categories under 2%% of the data out of the impact ratios, for this reason, which is stated",
     {"metavar": "REASON"}),
    ("init", "--favourable", "the target's value that people want; rates call it positive (default: asked, or guessed)",
     {"metavar": "VALUE"}),
    ("predict", "--keep", "columns of the table to copy, such as an identifier",
     {"nargs": "+", "action": "extend", "default": [], "metavar": "COLUMN"}),
    ("predict audit", "--workers",
     "read row groups of Parquet in parallel: the number of processes, or the address of a Dask scheduler",
     _NUMBER_OR_ADDRESS),
    # How it is done
    ("check", "--strict", "count warnings as problems", _FLAG),
    ("check", "--schema", "print the JSON Schema of goals files, for editors", _FLAG),
    ("audit compare report", "--decide",
     "what decides: the rates, or their 95%% intervals (an undecided constraint then counts as not met)",
     {"choices": ("estimate", "confident"), "default": "estimate"}),
    ("audit report", "--missing-groups",
     "say how far rows of unknown group can change rates and constraints; --confident takes it into account", _FLAG),
    ("audit compare report", "--confident", "short for --decide confident",
     {"dest": "decide", "action": "store_const", "const": "confident"}),
    ("compare", "--power", "probability with which the labels are to prove the difference (default 0.8)",
     _SHARE | {"default": 0.8}),
    ("compare", "--gain", "difference in accuracy that unlabelled rows are to prove (default 0.01)",
     _SHARE | {"default": 0.01}),
    ("tradeoff", "--constraint", "label (or text) of a constraint", {"required": True, "metavar": "LABEL"}),
    ("tradeoff", "--from", "first bound", {"dest": "start", "type": _finite, "required": True, "metavar": "A"}),
    ("tradeoff", "--to", "last bound", {"dest": "stop", "type": _finite, "required": True, "metavar": "B"}),
    ("tradeoff", "--points", "how many bounds (default: 9)", {"type": int, "default": 9, "metavar": "N"}),
    ("report", "--tradeoff", "a path stored by `widemargin tradeoff --out`; may be given several times",
     {"type": Path, "action": "append", "default": [], "metavar": "PATH.json"}),
    ("report", "--no-tradeoff", "train no short paths for rules without a stored one: these then have no price",
     _FLAG),
    ("reproduce", "--all", "every figure and table, and a page of their verdicts", _FLAG),
    ("reproduce", "--again", "replace stored results, also those that were made with other settings or code", _FLAG),
    ("reproduce", "--list", "say which figures there are, and what they take", _FLAG),
    ("reproduce", "--runs", "runs to average (default: as --list says)", {"type": int, "metavar": "N"}),
    ("reproduce", "--rows",
     "training rows, where a figure takes a part of them (sbp-...); all of them if there are fewer",
     {"type": int, "metavar": "N"}),
    ("reproduce", "--quick", "a few points on small synthetic data, to see that it runs", _FLAG),
    ("reproduce", "--workers",
     "number of runs in parallel, or the address of a Dask scheduler (times are then those of a shared machine)",
     _NUMBER_OR_ADDRESS),
    ("train", "--time-budget", "keep the best model after so many seconds (default: [model] time_budget)", _SECONDS),
    ("predict", "--time-budget",
     "stop after so many seconds; the rows done are kept in a file named .partial (exit code 1)", _SECONDS),
    ("audit compare", "--time-budget",
     "stop without a verdict if not all rows are done after so many seconds (exit code 1)", _SECONDS),
    ("tradeoff", "--time-budget", "stop after so many seconds; the points done are kept", _SECONDS),
    ("report", "--time-budget", "time for the models trained for comparison (paths, the SVM without rules)", _SECONDS),
    ("reproduce", "--time-budget",
     "begin no further run after so many seconds; finished ones are kept (exit code 1)", _SECONDS),
    # What is written
    ("init", "--out", "where to write (default: goals.toml)", _FILE | {"default": Path("goals.toml")}),
    ("predict", "--out", "where to write: .csv, .parquet or .pq (default: [output] predictions)", _FILE),
    ("tradeoff", "--out",
     "store the path as numbers; points that the file has already, for the same goal and table, are not trained again",
     {"type": Path, "metavar": "PATH.json"}),
    ("report", "--out", "where to write it (default: [output] report, else report.html)",
     {"type": Path, "metavar": "FILE.html"}),
    ("reproduce", "--out", "where results are saved (default: reproductions)",
     _FOLDER | {"default": Path("reproductions")}),
    ("data", "--out", "where to write: .csv, .csv.gz or .parquet (default: NAME.csv)", _FILE),
    ("init data", "--force", "replace the file if it exists", _FLAG),
    ("train audit", "--junit", "also write JUnit XML, a test case for each constraint", _FILE),
    ("audit compare report", "--report-json", "also write the report (docs/report.schema.json)", _FILE),
    ("audit", "--html", "of --standard: also write a page", {"type": Path, "metavar": "FILE.html"}),
    ("audit", "--csv", "of --standard: also write the tables", {"type": Path, "metavar": "FILE.csv"}),
    ("audit", "--model-card", "also write a section of a Hugging Face model card, with model-index",
     {"type": Path, "metavar": "FILE.md"}),
    ("audit", "--in-toto", "also write an in-toto statement with the hashes of all files",
     {"type": Path, "metavar": "FILE.json"}),
    ("audit", "--about", "further files that the in-toto statement names",
     {"type": Path, "nargs": "+", "action": "extend", "metavar": "FILE"}),
    ("audit", "--tool", "name of the model or tool that is audited, for model card and page", {"metavar": "TEXT"}),
    ("audit", "--date", "of --standard: the date of the audit (default: today)", {"metavar": "DATE"}),
    ("audit", "--distributed", "of --standard: the date from which the tool is used", {"metavar": "DATE"}),
    ("audit", "--source", "of --standard: source and explanation of the data", {"metavar": "TEXT"}),
    ("audit", "--schema", "of --standard: print the JSON Schema of its report", _FLAG),
    ("tradeoff", "--plot", "draw the frontier (needs matplotlib)", {"type": Path, "metavar": "FILE.png"}),
    ("report", "--card",
     f"an entry of the model card, in place of that of [card]; KEY: {', '.join(CARD_KEYS)}, or any heading",
     {"type": _entry, "action": "append", "default": [], "metavar": "KEY=TEXT"}),
    ("report", "--title", "heading of the page", {"metavar": "TEXT"}),
    # What a goals file is allowed
    ("check train predict audit compare tradeoff report", "--allow-code",
     "let the goals file name baselines by module:function, whose code is then run", _FLAG),
    ("check train predict audit compare tradeoff report", "--allow-outside",
     "let external tables, baseline models and outputs of the goals file lie in this folder too",
     _FOLDER | {"action": "append"}),
    (" ".join(COMMANDS), "--json", "print one JSON object instead of text", _FLAG),
]  # fmt: skip

OF_STANDARDS = tuple(name for _, name, about, _ in OPTIONS if (about or "").startswith("of --standard"))
"""Options of `audit` that only audits by a standard heed."""


def refuse_options(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Refuse options that would not be heeded.

    Raises
    ------
    DataError
    """
    given = [name for name in names if getattr(options, name.removeprefix("--").replace("-", "_"))]
    if given:
        raise DataError(f"{', '.join(given)}: {len(given)} option(s) {why}. Leave them out")


@functools.cache
def make_parser() -> argparse.ArgumentParser:
    """The parser of `widemargin COMMAND ...`; `options.command` is the command."""
    parser = argparse.ArgumentParser(
        prog="widemargin", description="Train classifiers to written goals, and audit them.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"widemargin {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command, text in COMMANDS.items():
        line, page = text.split("\n")
        of_command, alternatives = commands.add_parser(command, help=line, description=page), None
        for has_it, name, about, settings in OPTIONS:
            if command in has_it.split() and _ONE_OF in settings:
                alternatives = alternatives or of_command.add_mutually_exclusive_group(required=settings[_ONE_OF])
                settings = {key: value for key, value in settings.items() if key != _ONE_OF}
                alternatives.add_argument(name, help=about, **settings)
            elif command in has_it.split():
                of_command.add_argument(name, help=about, **settings)
    return parser
