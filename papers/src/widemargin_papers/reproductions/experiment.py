"""What a figure's file offers, and the record of its runs on disk."""

import functools
import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import widemargin
import widemargin_papers
from widemargin.exceptions import DataError
from widemargin.extending import replace_file
from widemargin_papers.data import Adult, load_a9a, synthetic_a9a

Plain = dict[str, Any]

FORMAT = 1

QUICK_ROWS = 1500

_NOT_IN_NUMBERS = (
    "widemargin/cli",
    "widemargin/diagnostics",
    "widemargin/plotting",
    "widemargin/report",
    "widemargin_papers/reproductions/claims.py",
    "widemargin_papers/reproductions/command.py",
    "widemargin_papers/reproductions/runner.py",
)
"""Parts of the two packages that no number of a figure depends on."""

_LIBRARIES = ("widemargin", "numpy", "scipy", "scikit-learn", "numba")


class Data(Protocol):
    """What an experiment looks at; its runs know more of it."""

    @property
    def name(self) -> str: ...


class Experiment(Protocol):
    """The functions that the file of a figure defines. Everything that goes into the record is plain JSON."""

    @staticmethod
    def settings(quick: bool) -> Plain:
        """Everything that the numbers depend on beside data and seeds."""
        ...

    @staticmethod
    def load(folder: Path | None, quick: bool) -> Data:
        """The data, with a `name`: from a folder, or small synthetic ones."""
        ...

    @staticmethod
    def keys(runs: int) -> list[str]:
        """Names of the single runs, in the order in which they are done; a seed is part of the name."""
        ...

    @staticmethod
    def run(data: Data, settings: Plain, key: str) -> Plain:
        """Do one run on what `load` gave."""
        ...

    @staticmethod
    def summarise(settings: Plain, runs: Mapping[str, Plain]) -> Plain:
        """Means and standard deviations over the runs."""
        ...

    @staticmethod
    def table(summary: Plain) -> str:
        """The summary as Markdown."""
        ...

    @staticmethod
    def draw(summary: Plain) -> Any:
        """The figure (matplotlib)."""
        ...


def write_result(path: Path, data: bytes) -> None:
    """Write a file of a figure whole or not at all.

    Raises
    ------
    DataError
        It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise DataError(
            f"{path}: the result cannot be written ({error.strerror}). Make room, or name another folder by --out."
        ) from error


class Record:
    """The JSON file of a figure: settings, versions, hash of the code and every finished run; written again after each.

    Parameters
    ----------
    path : Path
    figure : str
    settings : dict
        A file with other settings, or of other code, is refused, so that no mean mixes them.
    again : bool, default=False
        Begin anew, whatever the file there holds.

    Attributes
    ----------
    runs : dict
        By key.
    finished : bool
        Whether the file has a summary.

    Raises
    ------
    DataError
        If the file there is none of this figure, or has other settings, or runs of other code.
    """

    def __init__(self, path: Path, figure: str, settings: Plain, *, again: bool = False) -> None:
        self.path = path
        self._content: Plain = {
            "format": FORMAT, "figure": figure, "settings": settings, "versions": libraries(), "code": code_hash(),
            "runs": {},
        }  # fmt: skip
        self.finished = False
        if path.exists() and not again:
            self._resume()

    @property
    def runs(self) -> dict[str, Plain]:
        """The finished runs."""
        found: dict[str, Plain] = self._content["runs"]
        return found

    def add(self, key: str, result: Plain) -> None:
        """Keep a finished run."""
        self.runs[key] = result
        self.write()

    def write(self, summary: Plain | None = None) -> None:
        """Replace the file; an interrupt leaves the old or the new one, never half of it."""
        content = self._content | ({} if summary is None else {"summary": summary})
        write_result(self.path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())

    def _resume(self) -> None:
        cure = "Name another folder by --out, or remove the file."
        try:
            old = json.loads(self.path.read_text())
            figure, settings, runs = old["figure"], old["settings"], dict(old["runs"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{self.path} is no record of a figure ({type(error).__name__}: {error}). {cure}") from None
        if figure != self._content["figure"]:
            raise DataError(f"{self.path} is the record of {figure}. {cure}")
        wanted = json.loads(json.dumps(self._content["settings"]))
        differ = sorted(key for key in {*settings, *wanted} if settings.get(key) != wanted.get(key))
        if differ:
            raise DataError(
                f"{self.path} holds {len(runs)} runs with other settings ({', '.join(differ)} differ), which must not "
                f"be averaged with new ones. {cure}"
            )
        if runs and old.get("code") != self._content["code"]:
            raise DataError(
                f"{self.path} holds {len(runs)} runs of other code ({old.get('code', 'unknown')}, now "
                f"{self._content['code']}), which must not be averaged with new ones. Begin anew by --again, or name "
                "another folder by --out."
            )
        self._content["runs"] = runs
        self.finished = "summary" in old


@functools.cache
def code_hash() -> str:
    """Hash of the sources of both packages that the numbers of figures depend on (12 hexadecimal digits)."""
    digest = hashlib.sha256()
    for package in (widemargin, widemargin_papers):
        root = Path(next(iter(package.__path__)))
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent).as_posix()
            if not name.startswith(_NOT_IN_NUMBERS):
                digest.update(name.encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def load_adult(folder: Path | None, quick: bool) -> Adult:
    """a9a, or synthetic rows of its kind."""
    return synthetic_a9a(QUICK_ROWS) if quick else load_a9a(folder)


def libraries() -> dict[str, str]:
    """Versions of Python and of the libraries that the numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}
