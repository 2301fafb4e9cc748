"""Run the numeric tests as other machines would: under other BLAS kernels, another code target, other thread counts.

`python -m machines` (in `testing/`; `make test-machines`) runs them under each setting that this processor can execute,
`--today` a part of them under the one whose turn it is by the date, which is what the continuous check does. What fails
under one setting only asks for bits that another maker's processor rounds otherwise.
"""

import argparse
import datetime
import os
import subprocess
import sys
from pathlib import Path

TODAY = ("tests/linalg", "tests/kernels")
NUMERIC = (
    *TODAY, "tests/problems", "tests/losses", "tests/solvers", "tests/distributed", "tests/structured",
    "tests/estimators", "tests/cli",
)  # fmt: skip

MACHINES = {
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "generic code": {"NUMBA_CPU_NAME": "generic"},
    "two threads": {"OMP_NUM_THREADS": "2"},
}


def executable(name: str) -> bool:
    """Whether this processor has the instructions of a setting; unknown (no /proc) counts as no for AVX-512."""
    flags = Path("/proc/cpuinfo")
    return name != "SkylakeX" or (flags.exists() and "avx512f" in flags.read_text(encoding="utf-8"))


def main() -> int:
    """Run the tests; the exit code is 0 where they pass under every setting."""
    parser = argparse.ArgumentParser(prog="machines", description=__doc__.splitlines()[0])
    parser.add_argument("--today", action="store_true", help="some tests, under the setting whose turn it is")
    parser.add_argument("--only", choices=MACHINES, help="only this setting")
    parser.add_argument("--jobs", default="2", help="test processes")
    parser.add_argument("tests", nargs="*", help="what to run (default: the numeric folders, some of them for --today)")
    asked = parser.parse_args()
    able = [name for name in MACHINES if executable(name)]
    if asked.today:
        able = [able[datetime.date.today().toordinal() % len(able)]]
    folders, failed = TODAY if asked.today else NUMERIC, []
    for name in [asked.only] if asked.only else able:
        setting = {"OMP_NUM_THREADS": "1", **MACHINES[name]}
        sys.stdout.write(f"{name}: {' '.join(f'{key}={value}' for key, value in setting.items())}\n")
        sys.stdout.flush()
        run = [sys.executable, "-m", "pytest", "-q", "-n", asked.jobs, "-m", "not slow", *(asked.tests or folders)]
        failed += [name] if subprocess.run(run, env=os.environ | setting, check=False).returncode else []
    if failed:
        sys.stderr.write(f"failed under {', '.join(failed)}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
