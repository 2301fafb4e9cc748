"""What `check` finds in a goals file and its table: problems, which stop training, and warnings, which do not."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from widemargin.cli.goals_file.keys import GoalsFile, Label
from widemargin.cli.goals_file.toml_lines import Problem

__all__ = ["Findings"]


@dataclass
class Findings:
    """Problems and warnings about one goals file, each said once."""

    goals: GoalsFile
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def problem(self, path: tuple[str, ...], text: str, at: tuple[int, int] | None = None, value: str = "") -> None:
        """Note what stops training."""
        self._note(self.problems, Problem(path, text, at, value))

    def warning(self, path: tuple[str, ...], text: str, at: tuple[int, int] | None = None, value: str = "") -> None:
        """Note what deserves a look."""
        self._note(self.warnings, Problem(path, text, at, value))

    def _note(self, found: list[Problem], problem: Problem) -> None:
        if all(problem.text != other.text for other in found):
            found.append(problem)

    def copy_for(self, positive: Label) -> "Findings":
        """The same findings, to go on where the positive class is another one."""
        data = dataclasses.replace(self.goals.data, positive=positive)
        return Findings(dataclasses.replace(self.goals, data=data), [*self.problems], [*self.warnings])

    def add_shared(self, others: Sequence["Findings"]) -> None:
        """Note what was found in all of several looks."""
        for mine, theirs in (
            (self.problems, [other.problems for other in others]),
            (self.warnings, [other.warnings for other in others]),
        ):
            for found in theirs[0]:
                if all(any(found.text == other.text for other in more) for more in theirs[1:]):
                    self._note(mine, found)

    def told(self, found: list[Problem]) -> Iterator[str]:
        """Each with its line, in the order of the lines."""
        for problem in sorted(found, key=lambda problem: self.line(problem) or 0):
            yield problem.told(self.goals.lines)

    def line(self, problem: Problem) -> int | None:
        """The line of a problem."""
        return None if self.goals.lines is None else problem.line(self.goals.lines)

    def records(self, found: list[Problem]) -> list[dict[str, str | int | None]]:
        """For --json."""
        return [{"line": self.line(problem), "key": problem.key, "text": problem.text} for problem in found]
