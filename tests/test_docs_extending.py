"""What `docs/extending.md` says to change in the package works: on a copy of it, with the code that follows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "extending.md").read_text()


def apply(change, root):
    """Apply a block of changes: `# file`, then lines that stay, go (-) or come (+)."""
    title, *lines = change.splitlines()
    path = root / title.removeprefix("# src/")
    old = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    new = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    text = path.read_text()
    assert text.count(old) == 1, f"{path.name} has these lines {text.count(old)} times:\n{old}"
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A copy of the package with all changes of the page."""
    root = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "src" / "widemargin", root / "widemargin", ignore=shutil.ignore_patterns("__pycache__"))
    for change in re.findall(r"```diff\n(.*?)```", TEXT, re.DOTALL):
        apply(change, root)
    return root


def test_code_that_needs_the_changes_runs_and_prints_what_is_shown(changed):
    found = re.findall(r"```py\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
    assert len(found) == 2
    code = "\n".join(code for code, _ in found)
    # Interpreted: the compiled functions of a changed package are compiled anew, which takes a minute.
    env = os.environ | {"PYTHONPATH": str(changed), "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "".join(shown for _, shown in found)
