"""Commands and options of the command line, one function a command. Imports nothing heavy: --help must be quick."""

import argparse
from pathlib import Path
from typing import Any

from widemargin import __version__
from widemargin.reproduce.figures import FIGURES

__all__ = ["make_parser"]

_TRUST_HELP = "open .joblib and .pkl files, which runs whatever code is in them"
_MODEL_HELP = "a model: .skops (of widemargin, or scikit-learn's own types), .onnx, or with --trust-code .joblib"
_WORKERS_HELP = "read row groups of Parquet side by side: so many processes, or the address of a Dask scheduler"


def make_parser() -> argparse.ArgumentParser:
    """The parser of `widemargin COMMAND ...`; `options.command` names the module of `widemargin.cli` that runs it."""
    parser = argparse.ArgumentParser(
        prog="widemargin", description="Train classifiers to written goals, and audit them.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"widemargin {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_init, _check, _train, _predict, _audit, _compare, _tradeoff, _report, _reproduce, _data):
        command = add(commands)
        command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def add_goals_options(command: argparse.ArgumentParser) -> None:
    """What a command allows its goals file; see `widemargin.cli.goals_file.goals_of`."""
    code_help = "let the goals file name baselines by module:function, whose code is then run"
    command.add_argument("--allow-code", action="store_true", help=code_help)
    outside_help = "let external tables, baseline models and outputs of the goals file lie in this folder too"
    command.add_argument("--allow-outside", type=Path, action="append", metavar="FOLDER", help=outside_help)


def _positive(text: str) -> float:
    number = float(text)  # argparse turns its ValueError into a message
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds above 0")
    return number


def _finite(text: str) -> float:
    """A number for argparse."""
    value = float(text)
    if not abs(value) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no finite number")
    return value


def _init(commands: Any) -> argparse.ArgumentParser:
    init: argparse.ArgumentParser = commands.add_parser(
        "init",
        help="write a first goals file by looking at a table",
        description="Look at a table and write a first goals file: target, protected columns, columns to leave out, "
        "and constraints that a plain model nearly meets, each with its reason. Exit code 0: written; 2: bad input.",
    )
    init.add_argument("table", type=Path, metavar="TABLE")
    init.add_argument("--target", metavar="COLUMN", help="the column to predict (default: guessed)")
    init.add_argument("--out", type=Path, default=Path("goals.toml"), metavar="FILE", help="default: goals.toml")
    init.add_argument("--force", action="store_true", help="replace the file if it exists")
    return init


def _check(commands: Any) -> argparse.ArgumentParser:
    check: argparse.ArgumentParser = commands.add_parser(
        "check",
        help="say everything that is wrong with a goals file",
        description="Check a goals file, and with --data its table, without training: every problem with its line and "
        "a cure. Exit code 0: no problems; 2: problems (with --strict also warnings).",
    )
    check.add_argument("goals", type=Path, nargs="?", metavar="GOALS.toml")
    data_help = "also look at the table: that of the goals file, or another FILE"
    check.add_argument("--data", type=Path, nargs="?", const=True, metavar="FILE", help=data_help)
    check.add_argument("--strict", action="store_true", help="count warnings as problems")
    check.add_argument("--schema", action="store_true", help="print the JSON Schema of goals files, for editors")
    add_goals_options(check)
    return check


def _train(commands: Any) -> argparse.ArgumentParser:
    train: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="train a model to the goal of a goals file",
        description="Train a linear classifier that meets the goal of a goals file, and save it. Exit code 0: the goal "
        "is met on the training rows, and on the test rows, if there are any, [goal.audit] or else the same goal; "
        "1: not met; 2: bad input; 130: interrupted.",
    )
    train.add_argument("goals", type=Path, metavar="GOALS.toml")
    train.add_argument("--model", type=Path, metavar="FILE", help="where to save the model (default: [output] model)")
    budget_help = "keep the best model after so many seconds (default: [model] time_budget)"
    train.add_argument("--time-budget", type=_positive, metavar="SECONDS", help=budget_help)
    add_goals_options(train)
    return train


def _predict(commands: Any) -> argparse.ArgumentParser:
    predict: argparse.ArgumentParser = commands.add_parser(
        "predict",
        help="labels, scores and probabilities of new rows",
        description="Write what a model says of the rows of a table: label, score and, if calibrated, probability of "
        "each. Parquet is read in blocks, so any number of rows will do. Exit code 0: written; 2: bad input; 130: "
        "interrupted (no file is left).",
    )
    goals_help = "names the model by [output] model, and the features of models that do not know theirs"
    predict.add_argument("goals", type=Path, nargs="?", metavar="GOALS.toml", help=goals_help)
    predict.add_argument("--model", type=Path, metavar="FILE", help=_MODEL_HELP)
    data_help = "the rows: CSV, Parquet or a folder of Parquet files"
    predict.add_argument("--data", type=Path, required=True, metavar="FILE", help=data_help)
    out_help = "where to write: .csv, .parquet or .pq (default: [output] predictions)"
    predict.add_argument("--out", type=Path, metavar="FILE", help=out_help)
    keep_help = "columns of the table to copy, such as an identifier"
    predict.add_argument("--keep", nargs="+", action="extend", default=[], metavar="COLUMN", help=keep_help)
    predict.add_argument("--trust-code", action="store_true", help=_TRUST_HELP)
    predict.add_argument("--workers", metavar="N|ADDRESS", help=_WORKERS_HELP)
    add_goals_options(predict)
    return predict


def _compare(commands: Any) -> argparse.ArgumentParser:
    compare: argparse.ArgumentParser = commands.add_parser(
        "compare",
        help="measure two classifiers against one goal, and where they differ",
        description="Which of two classifiers meets the goal, what one gains and loses over the other, and how many "
        "labels prove it. Exit code 0: the second one (B) meets the goal, or the goal was not measured; 1: it does "
        "not; 2: bad input; 130: interrupted.",
    )
    compare.add_argument("goals", type=Path, metavar="GOALS.toml")
    what = compare.add_mutually_exclusive_group(required=True)
    what.add_argument("--models", type=Path, nargs=2, metavar=("A", "B"), help=f"two of them, each {_MODEL_HELP}")
    what.add_argument("--predictions", nargs=2, metavar=("A[:COLUMN]", "B[:COLUMN]"), help="columns of tables")
    _add_models(compare)
    _add_decide(compare)
    power_help = "probability with which the labels shall prove the difference (default 0.8)"
    compare.add_argument("--power", type=float, default=0.8, metavar="SHARE", help=power_help)
    gain_help = "difference in accuracy that unlabelled rows are to prove (default 0.01)"
    compare.add_argument("--gain", type=float, default=0.01, metavar="SHARE", help=gain_help)
    return compare


def _audit(commands: Any) -> argparse.ArgumentParser:
    audit: argparse.ArgumentParser = commands.add_parser(
        "audit",
        help="measure a classifier, or its predictions, on rows of a table",
        description="Measure a model of any kind, or a file of predictions, on the goal of a goals file ([goal.audit] "
        "if given). Exit code 0: met; 1: not met; 2: bad input; 130: interrupted.",
    )
    audit.add_argument("goals", type=Path, metavar="GOALS.toml")
    _add_classifier(audit)
    _add_models(audit)
    audit.add_argument("--workers", metavar="N|ADDRESS", help=_WORKERS_HELP)
    _add_decide(audit)
    audit.add_argument(
        "--junit", type=Path, metavar="FILE", help="also write JUnit XML, a test case for each constraint"
    )
    return audit


def _add_classifier(command: argparse.ArgumentParser) -> None:
    """The one classifier that a command is about."""
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", type=Path, metavar="FILE", help=_MODEL_HELP)
    what.add_argument("--predictions", metavar="FILE[:COLUMN]", help="a column of a CSV or Parquet file")


def _add_models(command: argparse.ArgumentParser) -> None:
    """What the commands about any classifier have in common."""
    data_help = "rows to measure on: CSV, Parquet or a folder of Parquet files (default: data.table)"
    command.add_argument("--data", type=Path, metavar="FILE", help=data_help)
    rows_help = "which rows of the file (default: test where it has the goals file's split column, else all)"
    command.add_argument("--rows", choices=("all", "train", "test"), help=rows_help)
    command.add_argument("--key", metavar="COLUMN", help="match predictions to rows by this column (default: by order)")
    command.add_argument("--trust-code", action="store_true", help=_TRUST_HELP)
    report_help = "also write the report (docs/report.schema.json)"
    command.add_argument("--report-json", type=Path, metavar="FILE", help=report_help)
    positive_help = "what the model calls the positive class, where its labels are not those of the table"
    command.add_argument("--model-positive", metavar="LABEL", help=positive_help)
    add_goals_options(command)


def _add_decide(command: argparse.ArgumentParser) -> None:
    decide_help = "what decides: the rates, or their 95%% intervals (an undecided constraint then counts as not met)"
    command.add_argument("--decide", choices=("estimate", "confident"), default="estimate", help=decide_help)
    command.add_argument(
        "--confident", dest="decide", action="store_const", const="confident", help="short for --decide confident"
    )


def _tradeoff(commands: Any) -> argparse.ArgumentParser:
    tradeoff: argparse.ArgumentParser = commands.add_parser(
        "tradeoff",
        help="say what a bound costs: train along its values",
        description="Train one model for each of some values of a bound, each from its neighbour, and measure them on "
        "held-out rows (those of data.split, else a fifth). Exit code 0: every value was met on the training rows; "
        "1: some were not, or the sweep ended early (the points done are kept); 2: bad input.",
    )
    tradeoff.add_argument("goals", type=Path, metavar="GOALS.toml")
    tradeoff.add_argument("--constraint", required=True, metavar="LABEL", help="label (or text) of a constraint")
    tradeoff.add_argument("--from", dest="start", type=_finite, required=True, metavar="A", help="first bound")
    tradeoff.add_argument("--to", dest="stop", type=_finite, required=True, metavar="B", help="last bound")
    tradeoff.add_argument("--points", type=int, default=9, metavar="N", help="how many bounds (default: 9)")
    tradeoff.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the frontier (needs matplotlib)")
    out_help = "store the path: numbers, no models. A whole path that is there already is not trained again"
    tradeoff.add_argument("--out", type=Path, metavar="PATH.json", help=out_help)
    tradeoff.add_argument("--time-budget", type=_positive, metavar="SECONDS", help="keep the points done by then")
    add_goals_options(tradeoff)
    return tradeoff


def _report(commands: Any) -> argparse.ArgumentParser:
    report: argparse.ArgumentParser = commands.add_parser(
        "report",
        help="write one HTML page about a model and its goal",
        description="Write a self-contained HTML page: the goal in words, verdicts, prices of the rules, other models "
        "beside it, margins, model card, data and settings. Exit code 0: the goal is met; 1: not met; 2: bad input; "
        "130: interrupted.",
    )
    report.add_argument("goals", type=Path, metavar="GOALS.toml")
    _add_classifier(report)
    _add_models(report)
    _add_decide(report)
    path_help = "a path stored by `widemargin tradeoff --out`; may be given several times"
    report.add_argument("--tradeoff", type=Path, action="append", default=[], metavar="PATH.json", help=path_help)
    no_help = "make no short paths for the rules without a stored one: no prices for them"
    report.add_argument("--no-tradeoff", action="store_true", help=no_help)
    out_help = "where to write it (default: [output] report, else report.html)"
    report.add_argument("--out", type=Path, metavar="FILE.html", help=out_help)
    report.add_argument("--title", metavar="TEXT", help="heading of the page")
    budget_help = "time for the models that are trained beside (paths, the SVM without rules)"
    report.add_argument("--time-budget", type=_positive, metavar="SECONDS", help=budget_help)
    return report


def _reproduce(commands: Any) -> argparse.ArgumentParser:
    reproduce: argparse.ArgumentParser = commands.add_parser(
        "reproduce",
        help="run an experiment of the papers and draw its figure",
        description="Run an experiment of the papers: numbers and settings are saved as JSON, the figure as PNG. "
        "Finished runs are kept: after Ctrl-C the same command goes on. Exit code 0: done; 2: bad input or no data; "
        "130: interrupted.",
    )
    reproduce.add_argument("figure", nargs="?", choices=tuple(FIGURES), metavar="FIGURE", help=", ".join(FIGURES))
    reproduce.add_argument("--list", action="store_true", help="say which figures there are, and what they take")
    reproduce.add_argument("--data", type=Path, metavar="FOLDER", help="folder of the data (or $WIDEMARGIN_DATA)")
    out_help = "where results are saved (default: reproductions)"
    reproduce.add_argument("--out", type=Path, default=Path("reproductions"), metavar="FOLDER", help=out_help)
    reproduce.add_argument("--runs", type=int, metavar="N", help="runs to average (default: as --list says)")
    rows_help = "training rows, where a figure takes a part of them (sbp-...); all of them if there are fewer"
    reproduce.add_argument("--rows", type=int, metavar="N", help=rows_help)
    quick_help = "a few points on small synthetic data: shows that it runs, no more"
    reproduce.add_argument("--quick", action="store_true", help=quick_help)
    workers_help = (
        "runs side by side (times then are those of a shared machine): processes, or a Dask scheduler's address"
    )
    reproduce.add_argument("--workers", metavar="N|ADDRESS", help=workers_help)
    return reproduce


def _data(commands: Any) -> argparse.ArgumentParser:
    data: argparse.ArgumentParser = commands.add_parser(
        "data",
        help="list the data sets of experiments and examples, or write one as a table",
        description="Without NAME: which data sets there are, where they are looked for and whether they are there. "
        "With NAME: write that one as a table. Exit code 0: done; 2: bad input or no data.",
    )
    data.add_argument("name", nargs="?", metavar="NAME", help="adult, credit-card, compas or german")
    data.add_argument("--out", type=Path, metavar="FILE", help=".csv, .csv.gz or .parquet (default: NAME.csv)")
    data.add_argument("--data", type=Path, metavar="FOLDER", help="folder of the data (or $WIDEMARGIN_DATA)")
    data.add_argument("--force", action="store_true", help="replace the file if it exists")
    return data
