"""Is what `make dist` has built fit to be published? The last look before a person publishes it.

    python -m testing.release_check dist            # `make release-check`

The versions agree, `twine check --strict` passes (metadata, and a long description that renders), the wheel is small
and holds the package alone, with its licence, types and pages; its modules are those of `src`, statement by statement
and line by line; and the README's demo runs from the wheel in a fresh environment, away from the checkout. Size,
libraries and import time are printed.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

__all__ = ["demo", "faults_of_code", "faults_of_versions", "faults_of_wheel", "main", "statements"]

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 1_000_000
"""Bytes of the wheel, which is what a user waits for beside the libraries."""

NEEDED = ("widemargin/py.typed", "widemargin/report/page.css", "widemargin/report/page.js")
"""What the package is not whole without, besides its modules."""


HELP = """
import importlib, inspect
for package in ("widemargin", *("widemargin." + name for name in ("goals", "diagnostics", "losses", "persistence",
                "plotting", "preprocessing", "structured.models", "report", "extending", "solvers.base"))):
    module = importlib.import_module(package)
    for name in module.__all__:
        found = getattr(module, name)
        members = inspect.getmembers(found, lambda item: inspect.isfunction(item) or isinstance(item, property))
        shown = [(key, item) for key, item in members if key[0] != "_"] if inspect.isclass(found) else []
        for key, item in [("", found), *shown] if callable(found) else []:
            print(package, name, key, repr(inspect.getdoc(item)))
"""
"""What `help` says of public names; the wheel must not say less than the sources."""


def faults_of_versions(root: Path = ROOT) -> list[str]:
    """What does not say the version of `pyproject.toml`."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    places = {
        "src/widemargin/__init__.py": f'__version__ = "{version}"',
        "papers/src/widemargin_papers/__init__.py": f'__version__ = "{version}"',
        "papers/pyproject.toml": f'version = "{version}"',
        "CITATION.cff": f"version: {version}",
        "CHANGELOG.md": f"## [{version}]",
    }
    found = [f"{name} lacks {text!r}" for name, text in places.items() if text not in (root / name).read_text()]
    papers = tomllib.loads((root / "papers/pyproject.toml").read_text())["project"]["dependencies"]
    return found + [f"papers ask for {papers}"] * (f"widemargin[plot]=={version}" not in papers)


def faults_of_wheel(wheel: Path) -> list[str]:
    """What the wheel holds and should not, or lacks."""
    names = zipfile.ZipFile(wheel).namelist()
    package, about = f"{wheel.name.split('-')[0]}/", ".dist-info/"
    needed = [*(NEEDED if package == "widemargin/" else ()), f"{package}__init__.py"]
    found = [f"{name} is missing" for name in needed if name not in names]
    found += [f"{name} does not belong there" for name in names if not name.startswith(package) and about not in name]
    data = (".npz", ".npy", ".csv", ".gz", ".parquet", ".skops")
    found += [f"{name} is data" for name in names if name.endswith(data) or "/tests/" in name]
    found += ["no licence"] * (not any(f"{about}licenses/LICENSE" in name for name in names))
    size = wheel.stat().st_size
    return found + [f"{size:,} bytes, more than {LARGEST:,}"] * (size > LARGEST)


def faults_of_code(wheel: Path, sources: Path = ROOT / "src") -> list[str]:
    """Modules of the wheel that are not those of the sources, apart from comments and docstrings."""
    with zipfile.ZipFile(wheel) as archive:
        built = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}
    written = {path.relative_to(sources).as_posix(): path.read_text() for path in sources.glob("widemargin/**/*.py")}
    return [
        f"{name} is not the module of {sources.name}"
        for name in sorted(built.keys() | written.keys())
        if statements(built.get(name, "")) != statements(written.get(name, ""))
    ]


def statements(text: str) -> str:
    """The statements of a module with the lines and columns where they stand, without docstrings and `...`."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [
                item for item in node.body if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
            ]
    return ast.dump(tree, include_attributes=True)


def demo(wheel: Path, examples: Path, folder: Path) -> str:
    """Install the wheel into a fresh environment in a folder, run the README's demo there; what was measured.

    Raises
    ------
    subprocess.CalledProcessError
        If the installation or a command fails.
    """
    venv.create(folder / "env", with_pip=True)
    bin_folder = folder / "env" / "bin"
    python, alone = bin_folder / "python", {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str | Path) -> str:
        return subprocess.run(command, cwd=folder, env=alone, check=True, stdout=subprocess.PIPE, text=True).stdout

    run(python, "-m", "pip", "install", "--quiet", wheel)
    shutil.copytree(examples, folder / "examples")
    run(bin_folder / "widemargin", "train", "examples/adult.toml")
    told = run(
        bin_folder / "widemargin", "audit", "examples/adult.toml", "--model", "examples/adult.skops", "--data",
        "examples/data/adult.csv.gz",
    )  # fmt: skip
    assert "met" in told, told
    where = run(python, "-c", "import widemargin; print(widemargin.__file__)").strip()
    assert Path(where).is_relative_to(folder), where
    said, written = run(python, "-c", HELP), run(sys.executable, "-c", HELP)
    assert "KernelSVC fit" in written, written
    less = [line for line in written.splitlines() if line not in said.splitlines()]
    assert not less, f"help says less in the wheel: {less[:3]}"
    libraries = run(python, "-m", "pip", "list", "--format=freeze").splitlines()
    began = time.perf_counter()
    run(python, "-c", "import widemargin as wm; wm.KernelSVC")
    seconds = time.perf_counter() - began
    return f"wheel {wheel.stat().st_size:,} bytes, {len(libraries)} packages installed, {seconds:.1f} s to a class"


def main(arguments: list[str] | None = None) -> int:
    """Check a folder of built files; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m testing.release_check", description=__doc__)
    parser.add_argument("dist", type=Path, help="folder of the built files")
    dist = parser.parse_args(arguments).dist
    built = sorted(dist.glob("*.whl")) + sorted(dist.glob("*.tar.gz"))
    wheels = [path for path in built if path.suffix == ".whl"]
    if len(wheels) != 2 or len(built) != 4:
        print(f"{dist} holds {[path.name for path in built]}, not two wheels and two source archives: run make dist")
        return 1
    library = next(wheel for wheel in wheels if re.match(r"widemargin-\d", wheel.name))
    faults = faults_of_versions() + [f"{wheel.name}: {fault}" for wheel in wheels for fault in faults_of_wheel(wheel)]
    faults += [f"{library.name}: {fault}" for fault in faults_of_code(library)]
    checked = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *built], check=False)
    faults += ["twine check fails"] * (checked.returncode != 0)
    for fault in faults:
        print(f"not fit to be published: {fault}")
    if faults:
        return 1
    with tempfile.TemporaryDirectory() as folder:
        print(demo(library.resolve(), ROOT / "examples", Path(folder)))
    print("fit to be published")
    return 0


if __name__ == "__main__":
    sys.exit(main())
