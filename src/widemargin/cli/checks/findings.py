"""What `check` finds in a goals file and its table: problems, which stop training, and warnings, which do not."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from widemargin.cli.goals_file.keys import GoalsFile, Label
from widemargin.cli.goals_file.toml_lines import Problem


@dataclass
class Findings:
    """Problems and warnings about one goals file, each reported once."""

    goals: GoalsFile
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def problem(self, path: tuple[str, ...], text: str, at: tuple[int, int] | None = None, value: str = "") -> None:
        """Note what stops training."""
        self._note(self.problems, Problem(path, text, at, value))

    def warning(self, path: tuple[str, ...], text: str, at: tuple[int, int] | None = None, value: str = "") -> None:
        """Note what deserves a look."""
        self._note(self.warnings, Problem(path, text, at, value))

    def _note(self, noted: list[Problem], problem: Problem) -> None:
        if all(problem.text != other.text for other in noted):
            noted.append(problem)

    def copy_for(self, positive: Label | None) -> "Findings":
        """The same findings, to go on where the positive class is another one."""
        data = dataclasses.replace(self.goals.data, positive=positive)
        return Findings(dataclasses.replace(self.goals, data=data), [*self.problems], [*self.warnings])

    def add_shared(self, looks: Sequence["Findings"]) -> None:
        """Note what was found under each of several readings of the rows, such as either class as the positive one."""
        first, *others = looks
        for kind in ("problems", "warnings"):
            shared = [{problem.text for problem in getattr(look, kind)} for look in others]
            for problem in getattr(first, kind):
                if all(problem.text in texts for texts in shared):
                    self._note(getattr(self, kind), problem)
