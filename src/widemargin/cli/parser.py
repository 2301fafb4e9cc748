"""Commands and options of the command line, one function a command. Imports nothing heavy: --help must be quick."""

import argparse
from pathlib import Path
from typing import TypeAlias

from widemargin import __version__
from widemargin.cli.console import CARD_KEYS

__all__ = ["make_parser"]

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

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
    """What a command allows its goals file; see `widemargin.cli.goals_file.reader.goals_of`."""
    code_help = "let the goals file name baselines by module:function, whose code is then run"
    command.add_argument("--allow-code", action="store_true", help=code_help)
    outside_help = "let external tables, baseline models and outputs of the goals file lie in this folder too"
    command.add_argument("--allow-outside", type=Path, action="append", metavar="FOLDER", help=outside_help)


def _positive(text: str) -> float:
    number = float(text)  # argparse turns its ValueError into a message
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds above 0")
    return number


def _add_time_budget(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument("--time-budget", type=_positive, metavar="SECONDS", help=about)


def _add_junit(command: argparse.ArgumentParser) -> None:
    help_text = "also write JUnit XML, a test case for each constraint"
    command.add_argument("--junit", type=Path, metavar="FILE", help=help_text)


def _add_separator(command: argparse.ArgumentParser, default: str) -> None:
    about = f'what stands between the fields of CSV files, such as ";" (default: {default})'
    command.add_argument("--separator", type=_character, metavar="CHARACTER", help=about)


def _character(text: str) -> str:
    """One character for argparse; `\\t` is a tab."""
    text = "\t" if text == "\\t" else text
    if len(text) != 1 or not text.isascii() or text in '\r\n"\0':
        raise argparse.ArgumentTypeError(f"{text!r} is not one character that may separate fields")
    return text


def _entry(text: str) -> tuple[str, str]:
    """Heading and text of a model card for argparse."""
    key, sign, said = text.partition("=")
    if not sign or not key.strip() or not said.strip():
        raise argparse.ArgumentTypeError(f'{text!r} is no KEY=TEXT, such as owner="Credit risk, risk@example.org"')
    return CARD_KEYS.get(key.strip(), key.strip()), said.strip()


def _finite(text: str) -> float:
    """A number for argparse."""
    value = float(text)
    if not abs(value) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no finite number")
    return value


def _init(commands: Commands) -> argparse.ArgumentParser:
    init = commands.add_parser(
        "init",
        help="write a first goals file by looking at a table",
        description="Look at a table and write a first goals file: target, protected columns, columns to leave out, "
        "and constraints that a plain model nearly meets, each with its reason. Exit code 0: written; 2: bad input.",
    )
    init.add_argument("table", type=Path, metavar="TABLE")
    _add_separator(init, "guessed")
    init.add_argument("--target", metavar="COLUMN", help="the column to predict (default: guessed)")
    init.add_argument("--out", type=Path, default=Path("goals.toml"), metavar="FILE", help="default: goals.toml")
    init.add_argument("--force", action="store_true", help="replace the file if it exists")
    return init


def _check(commands: Commands) -> argparse.ArgumentParser:
    check = commands.add_parser(
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


def _train(commands: Commands) -> argparse.ArgumentParser:
    train = commands.add_parser(
        "train",
        help="train a model to the goal of a goals file",
        description="Train a linear classifier that meets the goal of a goals file, and save it. Exit code 0: the goal "
        "is met on the training rows, and on the test rows, if there are any, [goal.audit] or else the same goal; "
        "1: not met; 2: bad input; 130: interrupted.",
    )
    train.add_argument("goals", type=Path, metavar="GOALS.toml")
    train.add_argument("--model", type=Path, metavar="FILE", help="where to save the model (default: [output] model)")
    budget_help = "keep the best model after so many seconds (default: [model] time_budget)"
    _add_time_budget(train, budget_help)
    _add_junit(train)
    add_goals_options(train)
    return train


def _predict(commands: Commands) -> argparse.ArgumentParser:
    predict = commands.add_parser(
        "predict",
        help="labels, scores and probabilities of new rows",
        description="Write what a model says of the rows of a table: label, score and, if calibrated, probability of "
        "each. Parquet is read in blocks, so any number of rows will do. Exit code 0: written; 1: the time was up; "
        "2: bad input; 130: interrupted. The rows done by then are kept in a file of their own, named .partial.",
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
    budget_help = "stop after so many seconds; the rows done are kept in a file named .partial (exit code 1)"
    _add_time_budget(predict, budget_help)
    _add_separator(predict, "[data] separator, else a comma, in .tsv files a tab")
    predict.add_argument("--trust-code", action="store_true", help=_TRUST_HELP)
    predict.add_argument("--workers", metavar="N|ADDRESS", help=_WORKERS_HELP)
    add_goals_options(predict)
    return predict


def _compare(commands: Commands) -> argparse.ArgumentParser:
    compare = commands.add_parser(
        "compare",
        help="measure two classifiers against one goal, and where they differ",
        description="Which of two classifiers meets the goal, what one gains and loses over the other, and how many "
        "labels prove it. Exit code 0: the second one (B) meets the goal, or the goal was not measured; 1: it does "
        "not, or the time was up; 2: bad input; 130: interrupted.",
    )
    compare.add_argument("goals", type=Path, metavar="GOALS.toml")
    what = compare.add_mutually_exclusive_group(required=True)
    what.add_argument("--models", type=Path, nargs=2, metavar=("A", "B"), help=f"two of them, each {_MODEL_HELP}")
    what.add_argument("--predictions", nargs=2, metavar=("A[:COLUMN]", "B[:COLUMN]"), help="columns of tables")
    _add_models(compare)
    _add_model_positive(compare, each=True)
    _add_decide(compare)
    power_help = "probability with which the labels shall prove the difference (default 0.8)"
    compare.add_argument("--power", type=float, default=0.8, metavar="SHARE", help=power_help)
    gain_help = "difference in accuracy that unlabelled rows are to prove (default 0.01)"
    _add_time_budget(compare, "stop without a verdict if not all rows are done after so many seconds (exit code 1)")
    compare.add_argument("--gain", type=float, default=0.01, metavar="SHARE", help=gain_help)
    return compare


def _audit(commands: Commands) -> argparse.ArgumentParser:
    audit = commands.add_parser(
        "audit",
        help="measure a classifier, or its predictions, on rows of a table",
        description="Measure a model of any kind, or a file of predictions, on the goal of a goals file ([goal.audit] "
        "if given). Exit code 0: met; 1: not met, or the time was up; 2: bad input; 130: interrupted.",
    )
    audit.add_argument("goals", type=Path, metavar="GOALS.toml")
    _add_classifier(audit)
    _add_models(audit)
    audit.add_argument("--workers", metavar="N|ADDRESS", help=_WORKERS_HELP)
    _add_model_positive(audit)
    _add_decide(audit)
    _add_time_budget(audit, "stop without a verdict if not all rows are done after so many seconds (exit code 1)")
    _add_junit(audit)
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
    _add_separator(command, "[data] separator, else a comma, in .tsv files a tab")
    command.add_argument("--rows", choices=("all", "train", "test"), help=rows_help)
    command.add_argument("--key", metavar="COLUMN", help="match predictions to rows by this column (default: by order)")
    command.add_argument("--trust-code", action="store_true", help=_TRUST_HELP)
    report_help = "also write the report (docs/report.schema.json)"
    command.add_argument("--report-json", type=Path, metavar="FILE", help=report_help)
    add_goals_options(command)


def _add_model_positive(command: argparse.ArgumentParser, *, each: bool = False) -> None:
    about = "what the model calls the positive class, where its labels are not those of the table"
    if each:
        about += "; given twice: of A and of B"
    command.add_argument("--model-positive", action="append" if each else "store", metavar="LABEL", help=about)


def _add_decide(command: argparse.ArgumentParser) -> None:
    decide_help = "what decides: the rates, or their 95%% intervals (an undecided constraint then counts as not met)"
    command.add_argument("--decide", choices=("estimate", "confident"), default="estimate", help=decide_help)
    command.add_argument(
        "--confident", dest="decide", action="store_const", const="confident", help="short for --decide confident"
    )


def _tradeoff(commands: Commands) -> argparse.ArgumentParser:
    tradeoff = commands.add_parser(
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
    out_help = "store the path as numbers. Points that are there already, of the same question, are not trained again"
    tradeoff.add_argument("--out", type=Path, metavar="PATH.json", help=out_help)
    _add_time_budget(tradeoff, "keep the points done by then")
    add_goals_options(tradeoff)
    return tradeoff


def _report(commands: Commands) -> argparse.ArgumentParser:
    report = commands.add_parser(
        "report",
        help="write one HTML page about a model and its goal",
        description="Write a self-contained HTML page: the goal in words, verdicts, prices of the rules, other models "
        "beside it, margins, model card, data and settings. Exit code 0: the goal is met; 1: not met; 2: bad input; "
        "130: interrupted.",
    )
    report.add_argument("goals", type=Path, metavar="GOALS.toml")
    _add_classifier(report)
    _add_models(report)
    _add_model_positive(report)
    _add_decide(report)
    path_help = "a path stored by `widemargin tradeoff --out`; may be given several times"
    report.add_argument("--tradeoff", type=Path, action="append", default=[], metavar="PATH.json", help=path_help)
    no_help = "make no short paths for the rules without a stored one: no prices for them"
    report.add_argument("--no-tradeoff", action="store_true", help=no_help)
    out_help = "where to write it (default: [output] report, else report.html)"
    report.add_argument("--out", type=Path, metavar="FILE.html", help=out_help)
    card_help = f"an entry of the model card, above that of [card]; KEY: {', '.join(CARD_KEYS)}, or any heading"
    report.add_argument("--card", type=_entry, action="append", default=[], metavar="KEY=TEXT", help=card_help)
    report.add_argument("--title", metavar="TEXT", help="heading of the page")
    budget_help = "time for the models that are trained beside (paths, the SVM without rules)"
    _add_time_budget(report, budget_help)
    return report


def _reproduce(commands: Commands) -> argparse.ArgumentParser:
    reproduce = commands.add_parser(
        "reproduce",
        help="run an experiment of the papers and draw its figure",
        description="Run an experiment of the papers: numbers and settings are saved as JSON, the figure as PNG. "
        "Finished runs are kept: after Ctrl-C the same command goes on. Exit code 0: done; 1: the time was up; 2: bad "
        "input or no data (with --all: of any figure); 130: interrupted.",
    )
    reproduce.add_argument("figure", nargs="?", metavar="FIGURE", help="one of those that --list names")
    reproduce.add_argument("--all", action="store_true", help="every figure and table, and a page of their verdicts")
    again_help = "do again what is there with the same settings and code (and what is there of other code)"
    reproduce.add_argument("--again", action="store_true", help=again_help)
    reproduce.add_argument("--list", action="store_true", help="say which figures there are, and what they take")
    reproduce.add_argument("--data", type=Path, metavar="FOLDER", help="folder of the data (or $WIDEMARGIN_DATA)")
    out_help = "where results are saved (default: reproductions)"
    reproduce.add_argument("--out", type=Path, default=Path("reproductions"), metavar="FOLDER", help=out_help)
    reproduce.add_argument("--runs", type=int, metavar="N", help="runs to average (default: as --list says)")
    rows_help = "training rows, where a figure takes a part of them (sbp-...); all of them if there are fewer"
    reproduce.add_argument("--rows", type=int, metavar="N", help=rows_help)
    _add_time_budget(reproduce, "begin no further run after so many seconds; finished ones are kept (exit code 1)")
    quick_help = "a few points on small synthetic data: shows that it runs, no more"
    reproduce.add_argument("--quick", action="store_true", help=quick_help)
    workers_help = (
        "runs side by side (times then are those of a shared machine): processes, or a Dask scheduler's address"
    )
    reproduce.add_argument("--workers", metavar="N|ADDRESS", help=workers_help)
    return reproduce


def _data(commands: Commands) -> argparse.ArgumentParser:
    data = commands.add_parser(
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
