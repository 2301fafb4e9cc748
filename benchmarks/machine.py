"""What numbers were measured on: machine, state of the code, libraries."""

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from joblib import cpu_count
from threadpoolctl import threadpool_info

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"

LIBRARIES = (
    "widemargin", "numpy", "scipy", "numba", "scikit-learn", "scikit-learn-intelex", "fairlearn", "torch", "cleanlab",
)  # fmt: skip

CODE = ("src", "papers/src", "benchmarks/*.py", "pyproject.toml")
"""What the numbers depend on; a commit that only records results leaves them what they are."""


def machine(threads: int = 1, processes: int = 1) -> dict[str, Any]:
    """Processor, cores, memory, load, threads (in each of so many worker processes), BLAS, versions, code and date."""
    gpus = _said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cores_allowed": cpu_count(),
        "gpu": gpus.replace("\n", ", ") if gpus else None,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "load_average_at_start": round(os.getloadavg()[0], 2),
        "threads": threads,
        "processes": processes,
        "system": platform.system(),
        "python": platform.python_version(),
        "blas": sorted(
            {f"{found['internal_api']} {found.get('version')} {found.get('architecture', '')}".strip()
             for found in threadpool_info()}
        ),
        "versions": {name: version_of(name) for name in LIBRARIES},
        "code": code_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def describe(about: Mapping[str, Any]) -> str:
    """One line on the machine; older records say less."""
    memory = f", {about['memory_gb']} GB" if about.get("memory_gb") else ""
    workers = f" in each of {about['processes']} processes" if about.get("processes", 1) > 1 else ""
    code = f"; code {about['code']}, {about['date'][:10]}" if "code" in about else ""
    used = f"{about['threads']} thread{'s' * (about['threads'] > 1)} used{workers}"
    return (
        f"{about['processor']}, {about['cores']} cores{memory}, {used}, load {about['load_average_at_start']} at the "
        f"start{code}"
    )


def slug(about: Mapping[str, Any]) -> str:
    """The name of a machine's folder of results: processor and number of cores."""
    words = re.sub(
        r"\((R|TM)\)|CPU|Processor|@.*?GHz|family|model", " ", f"{about['processor']} {about['cores']} cores"
    )
    return "-".join(re.findall(r"[a-z0-9]+", words.lower()))


def version_of(name: str) -> str | None:
    """The installed version of a distribution; None without one."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def code_version(root: Path = ROOT) -> str:
    """The last commit that changed the code; with a hash of the code behind a `+` where that is not committed."""
    git = ("git", "-C", str(root))
    commit = _said(*git, "log", "-1", "--format=%h", "--abbrev=10", "--", *CODE)
    if commit and not _said(*git, "status", "--porcelain", "--", *CODE):
        return commit
    digest = hashlib.sha256()
    for path in sorted(path for place in ("src", "papers/src", "benchmarks") for path in root.glob(f"{place}/**/*.py")):
        digest.update(path.read_bytes())
    return f"{commit or 'no-commit'}+{digest.hexdigest()[:8]}"


def _said(*command: str) -> str | None:
    """What a command says; None where it fails, or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None


def _processor() -> str:
    """Its name, with the numbers that tell two of one name apart."""
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return platform.processor() or platform.machine()
    said = dict(re.findall(r"^(.*?)\s*: (.*)$", info.read_text().split("\n\n")[0], re.MULTILINE))
    name = str(said.get("model name", platform.machine()))
    numbers = f" (family {said.get('cpu family')}, model {said.get('model', '?')})"
    return name + numbers if "cpu family" in said else name


def resident_growth(run: Callable[[], T]) -> tuple[T, float | None]:
    """What a call returns, and the megabytes by which the peak of the resident set exceeds its size before.

    None where the system does not tell.
    """
    reset = Path("/proc/self/clear_refs")
    if not os.access(reset, os.W_OK):
        return run(), None
    reset.write_text("5")  # the peak starts anew
    before = status("VmRSS")
    answer = run()
    return answer, (status("VmHWM") - before) / 1e6


def status(field: str) -> int:
    """Bytes that the kernel tells of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])
