"""Install the libraries that the benchmarks compare with; what cannot be installed is named and left out."""

import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

PINNED = ("numpy>=2", "cvxpy")

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def wanted() -> list[str]:
    """The requirements of the group."""
    return [str(name) for name in tomllib.loads(PROJECT.read_text())["dependency-groups"]["bench"]]


def install(requirements: Sequence[str], pip: Callable[[Sequence[str]], bool]) -> list[str]:
    """Install all at once, else one by one; what failed.

    Either way a peer that pins old versions, such as error-parity, puts them under all others, and under widemargin,
    which is not asked. The new ones, which it works with as well, come back in the end.
    """
    failed = [] if pip(requirements) else [requirement for requirement in requirements if not pip([requirement])]
    pip(["--upgrade", *PINNED])
    return failed


def _pip(requirements: Sequence[str]) -> bool:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    for requirement in install(wanted(), _pip):
        print(f"Left out, as it cannot be installed: {requirement}", file=sys.stderr)
