import contextlib
import io
import pickle
import warnings
from collections import namedtuple

from rich.console import Console
from sklearn.exceptions import ConvergenceWarning

from widemargin import exceptions
from widemargin.cli.console import Progress, comparison, say, warnings_as_lines, warnings_reworded
from widemargin.diagnostics import audit
from widemargin.exceptions import GoalWarning

LABELS = [1, 1, 1, 0, 0, 0, 0, 0]
GOAL = "subject to recall() >= 0.6\nsubject to few: positive_rate() <= 0.25\nsubject to precision() >= 0.5"


def reports(**predictions):
    return {name: audit(said, GOAL, y=LABELS, pos_label=1, confidence=None) for name, said in predictions.items()}


def test_classifiers_stand_side_by_side_with_rate_bound_and_verdict():
    table = comparison("Test rows (8)", reports(good=[1, 1, 0, 0, 0, 0, 0, 0], never=[0] * 8))
    lines = [line.split() for line in table.splitlines()]
    assert lines[0] == ["Test", "rows", "(8)", "good", "never"]
    assert lines[1] == ["error_rate()", "0.1250", "0.3750"]
    assert lines[2] == ["recall()", ">=", "0.6", "0.6667", ">=", "0.6000", "met", "0.0000", "<", "0.6000", "NOT", "MET"]
    assert lines[3] == ["few", "0.2500", "<=", "0.2500", "met", "0.0000", "<=", "0.2500", "met"]
    assert lines[4][-1] == "undefined"  # precision of a classifier that never says yes


def test_tables_fit_a_page_and_hold_no_markup_or_control_characters():
    table = comparison("x\x1b[31m", reports(**{"[bold]name": [1] * 8, "tab\there": [0] * 8}))
    assert "[bold]name" in table and "\x1b" not in table and "\t" not in table
    assert max(map(len, table.splitlines())) <= 100


def test_a_table_is_drawn_where_the_reader_of_stdout_has_left(monkeypatch):
    class Left(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Left())
    assert "0.1250" in comparison("Test rows (8)", reports(good=[1, 1, 0, 0, 0, 0, 0, 0]))


def test_lines_are_cleaned(capsys):
    say("a\x1b[2Jb\nc")
    assert capsys.readouterr().out == "a?[2Jb\nc\n"


def test_warnings_are_one_line_each_and_told_once():
    stream = io.StringIO()
    with warnings_as_lines(stream):
        for text in ("first\nline", "second", "second"):
            warnings.warn(text, GoalWarning, stacklevel=1)
    assert stream.getvalue() == "widemargin: warning: first?line\nwidemargin: warning: second\n"


def test_progress_is_silent_without_a_terminal(capsys):
    with Progress() as progress:
        progress.step("reading")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_progress_names_the_step_and_its_numbers_on_a_terminal(monkeypatch):
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=100)
    monkeypatch.setattr("rich.console.Console", lambda **options: terminal)
    told = namedtuple("Told", "stage iteration objective gap seconds")("majorise", 3, 0.1598, 8e-3, 2.6)
    with Progress() as progress:
        progress.step("training \x1b[31m")
        assert progress.watch(told) is None  # anything else would stop the training
        terminal.print("")  # draws the line
    assert "training ?[31m: majorise 3, objective 0.1598, gap 8e-03, 2.6 s" in stream.getvalue()


def test_warnings_are_told_in_other_words_also_after_a_failure():
    stream = io.StringIO()
    with (
        contextlib.suppress(KeyboardInterrupt),
        warnings_as_lines(stream),
        warnings_reworded(lambda warning: f"model A: {warning}"),
    ):
        warnings.warn("slow", GoalWarning, stacklevel=1)
        raise KeyboardInterrupt
    assert stream.getvalue() == "widemargin: warning: model A: slow\n"


def test_a_lazy_warning_class_is_one_class_and_can_be_pickled():
    made = exceptions.MarginConvergenceWarning
    assert made is exceptions.MarginConvergenceWarning and issubclass(made, ConvergenceWarning)
    assert type(pickle.loads(pickle.dumps(made("slow")))) is made
    assert not hasattr(exceptions, "NoSuchWarning")
