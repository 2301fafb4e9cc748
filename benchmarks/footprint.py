"""What an installation weighs: the wheel, the libraries below it, and how long imports take.

Sizes are those on this disk, without compiled byte code. Imports: processor seconds of a new process, the median of
five, the interpreter's own start taken off; which of the libraries they load stands beside them.
Run as `python -m benchmarks.footprint`.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

from benchmarks.common import ROOT, machine, parser, show, write

IMPORTS = (
    "import widemargin",
    "import widemargin.goals",
    "from widemargin import audit",
    "from widemargin import KernelSVC",
    "from widemargin import RateConstrainedClassifier",
    "from widemargin import MultiLabelSVC",
    "from widemargin import save_model",
    "import widemargin.cli.commands.audit",
    "import widemargin.cli.commands.train",
)

NEEDED_FOR = {
    "numpy": "arrays",
    "scipy": "sparse rows, linear algebra",
    "scikit-learn": "the interface of estimators, checks of input",
    "numba": "compiled loops",
    "highspy": "linear programmes: mixtures of thresholds, relaxations; not loaded by kernel models",
    "narwhals": "pandas, polars and other data frames",
    "pyarrow": "CSV and Parquet; columns of populations and cells of rows, also of arrays in memory",
    "rich": "progress and tables on a terminal",
    "skops": "model files; loaded when one is read or written",
}


def installed_bytes(name: str) -> int:
    """Of a distribution's files, without byte code; 0 where it is not installed."""
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return 0
    paths = (Path(str(file.locate())) for file in files if "__pycache__" not in str(file))
    return sum(path.stat().st_size for path in paths if path.is_file())


def import_case(statement: str, repeats: int) -> dict[str, object]:
    """Seconds of an import in new processes, and which libraries it loads."""
    code = (
        "import json, sys, time\nstart = time.process_time()\n"
        f"{statement}\nseconds = time.process_time() - start\n"
        "print(json.dumps([seconds, sorted({name.partition('.')[0] for name in sys.modules})]))"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    seconds = []
    for _ in range(repeats):
        printed = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout
        taken, modules = json.loads(printed)
        seconds.append(taken)
    called = {"scikit-learn": "sklearn"}
    loaded = [name for name in NEEDED_FOR if called.get(name, name) in modules]
    return {"statement": statement, "seconds": round(statistics.median(seconds), 3), "loads": loaded}


def wheel_bytes() -> tuple[int, int] | None:
    """Size of the wheel, and of what it holds when unpacked; None where it cannot be built (no network, no tools)."""
    import zipfile

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        (wheel,) = Path(folder).glob("*.whl")
        return wheel.stat().st_size, sum(item.file_size for item in zipfile.ZipFile(wheel).infolist())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__.splitlines()[0]).parse_args(arguments)
    statements = IMPORTS[:2] if options.quick else IMPORTS
    imports = [import_case(statement, 1 if options.quick else options.repeats) for statement in statements]
    names = [text for text in requires("widemargin") or () if "extra ==" not in text]
    sizes = {name: installed_bytes(name) for name in NEEDED_FOR if any(text.startswith(name) for text in names)}
    wheel = None if options.quick else wheel_bytes()
    sections = [
        show(
            "Imports, processor seconds",
            ["import", "seconds", "loads"],
            [[f"`{case['statement']}`", f"{case['seconds']:.2f}", ", ".join(case["loads"]) or "-"] for case in imports],
        ),
        show(
            "Libraries that are installed with it, megabytes on disk",
            ["library", "MB", "what for"],
            [[name, f"{size / 1e6:.1f}", NEEDED_FOR[name]] for name, size in sizes.items()],
        ),
    ]
    if wheel is not None:
        sections.append(f"The wheel has {wheel[0] / 1e6:.2f} MB, unpacked {wheel[1] / 1e6:.1f} MB.")
        print(sections[-1])
    content = {"machine": machine(), "imports": imports, "megabytes": sizes, "wheel": wheel}
    write(options, "footprint", content, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
