"""Install the libraries that the benchmarks compare with: the group `bench` of pyproject.toml.

Run by `make bench` in its own environment. What cannot be installed is named and left out; the benchmarks then run
without it, and their summary says so.
"""

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


def main() -> int:
    """Install; 0 also where something was left out."""
    failed = install(wanted(), _pip)
    for requirement in failed:
        print(f"Left out, as it cannot be installed: {requirement}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
