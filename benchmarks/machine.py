"""What numbers were measured on: machine, state of the code, libraries."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from benchmarks.history import code_version

__all__ = ["PEERS", "describe", "lacking", "machine"]

THREADS = 1
PEERS = (
    "scikit-learn",
    "scikit-learn-intelex",
    "fairlearn",
    "cooper-optim",
    "torch",
    "hiclass",
    "clarabel",
    "cleanlab",
    "dro",
)
_LIBRARIES = ("widemargin", "numpy", "scipy", "numba", *PEERS)
_USED: Mapping[str, tuple[str, ...]] = {
    "convex_step": ("clarabel",),
    "fairness_a9a": ("fairlearn",),
    "kernel_svc_accuracy": ("scikit-learn-intelex",),
    "kernel_svm": ("scikit-learn-intelex",),
    "label_suspects": ("cleanlab",),
    "recall_churn": ("fairlearn", "cooper-optim", "torch"),
    "risk_speed": ("dro",),
    "structured_hierarchies": ("hiclass",),
    "thermometer_adult": ("fairlearn",),
}
"""Peers of each script that are not in every environment of this library."""


def machine(processes: int = 1) -> dict[str, Any]:
    """Processor, cores, memory, load, threads (in each of so many worker processes), BLAS, versions, code and date."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
        "load_average_at_start": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "threads": THREADS,
        "processes": processes,
        "system": platform.system(),
        "python": platform.python_version(),
        "blas": sorted({f"{found['internal_api']} {found.get('version')}" for found in threadpool_info()}),
        "versions": {name: _version(name) for name in _LIBRARIES},
        "code": code_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe(about: Mapping[str, Any]) -> str:
    """One line on the machine; older records say less."""
    memory = f", {about['memory_gb']} GB" if about.get("memory_gb") else ""
    workers = f" in each of {about['processes']} processes" if about.get("processes", 1) > 1 else ""
    code = f"; code {about['code']}, {about['date'][:10]}" if "code" in about else ""
    return (
        f"{about['processor']}, {about['cores']} cores{memory}, {about['threads']} thread used{workers}, "
        f"load {about['load_average_at_start']} at the start{code}"
    )


def lacking(script: str | None = None) -> list[str]:
    """Peers of a script, or of all of them, that are not installed here."""
    return [name for name in (PEERS if script is None else _USED.get(script, ())) if _version(name) is None]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return platform.processor() or platform.machine()
    said = dict(line.split(":", 1) for line in info.read_text().split("\n\n")[0].splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in said.items()}
    name = fields.get("model name", platform.machine())
    if "cpu family" not in fields:
        return name
    return f"{name} (family {fields['cpu family']}, model {fields.get('model', '?')})"


def _memory() -> int | None:
    """GB of the machine (1e9 bytes)."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    except (AttributeError, ValueError, OSError):
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
