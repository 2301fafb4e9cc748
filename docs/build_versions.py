"""Build the documentation of this commit and of every released version, each in a folder of its own.

    python docs/build_versions.py SITE            # `make docs-versions`

`SITE/latest` is this commit, `SITE/v0.2.0` the tag of that name. `versions.json` lists the folders for the switch in
the sidebar. The first page of the site leads to `latest`.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def released(root: Path) -> list[str]:
    """The tags of releases, the newest first."""
    command = ["git", "tag", "--list", "v*", "--sort=-version:refname"]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split()


def build(root: Path, site: Path, version: str) -> None:
    """Make the documentation in a checkout, and put it into the folder of its version."""
    subprocess.run(["make", "docs"], cwd=root, check=True)
    shutil.copytree(root / "docs/_build/html", site / version, dirs_exist_ok=True)


def main(site: Path, root: Path = ROOT) -> None:
    """Build all versions."""
    build(root, site, "latest")
    tags = released(root)
    for tag in tags:
        with tempfile.TemporaryDirectory() as folder:
            checkout = Path(folder) / tag
            subprocess.run(["git", "worktree", "add", "--detach", checkout, tag], cwd=root, check=True)
            try:
                build(checkout, site, tag)
            finally:
                subprocess.run(["git", "worktree", "remove", "--force", checkout], cwd=root, check=True)
    (site / "versions.json").write_text(json.dumps(["latest", *tags]))
    (site / "index.html").write_text('<!DOCTYPE html><meta http-equiv="refresh" content="0; url=latest/index.html">\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
