"""The history of benchmark runs: one JSON line for each run of a script, in `FOLDER/history/SCRIPT.jsonl`."""

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.places import ROOT

__all__ = ["append", "code_version", "last", "lines"]

CODE = ("src", "benchmarks/*.py", "pyproject.toml")
"""What the numbers depend on; a commit that only records results leaves them what they are."""


def code_version(root: Path = ROOT) -> str:
    """The last commit that changed the code; with a hash of the code behind a `+` where that is not committed."""
    commit = _git(root, "log", "-1", "--format=%h", "--abbrev=10", "--", *CODE)
    if commit and not _git(root, "status", "--porcelain", "--", *CODE):
        return commit
    digest = hashlib.sha256()
    for path in sorted([*root.glob("src/**/*.py"), *root.glob("benchmarks/*.py")]):
        digest.update(path.read_bytes())
    return f"{commit or 'no-commit'}+{digest.hexdigest()[:8]}"


def _git(root: Path, *arguments: str) -> str:
    try:
        ended = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:  # sources without git
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def append(folder: Path, line: Mapping[str, Any]) -> None:
    """Add a run to the history of its script."""
    path = folder / "history" / f"{line['script']}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def lines(folder: Path, script: str) -> list[dict[str, Any]]:
    """All runs of a script, the oldest first; a line that was cut off by an interrupt is left out."""
    path = folder / "history" / f"{script}.jsonl"
    found = []
    for text in path.read_text().splitlines() if path.is_file() else ():
        try:
            found.append(dict(json.loads(text)))
        except ValueError:
            continue
    return found


def last(folder: Path, script: str, commit: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The last run of this code with these settings that came to its end, with the result file still there."""
    if not (folder / f"{script}.json").is_file():
        return None
    runs: Sequence[dict[str, Any]] = [
        line for line in lines(folder, script)
        if line.get("commit") == commit and line.get("settings") == dict(settings) and line.get("status") == "done"
    ]  # fmt: skip
    return runs[-1] if runs else None
