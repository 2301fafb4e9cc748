"""Mutation testing: which small errors in the code do the tests of that code notice?

    PYTHONPATH=testing python -m mutation_testing            # every group; `make mutation` does this
    PYTHONPATH=testing python -m mutation_testing searches   # one group

A file's mutants are sampled with a fixed seed. Each runs in a forked process: the changed module is handed out in
memory by an import hook (no file is touched, nothing is compiled: `NUMBA_DISABLE_JIT=1`), then pytest runs the tests of
the file until the first failure. A mutant counts as noticed if a test fails or the tests take more than
five times their processor time. Mutants that change nothing anyone could observe are listed, with the reason, in
`equivalent_mutants.toml`; they leave the count, and a listed one that a test does notice is an error.
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.util
import json
import multiprocessing
import os
import random
import resource
import sys
import tomllib
from collections.abc import Iterable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "widemargin"
EQUIVALENT = Path(__file__).parent / "equivalent_mutants.toml"
LIBRARIES = ("numpy", "scipy.optimize", "scipy.sparse", "sklearn.svm", "numba", "hypothesis", "narwhals", "pytest")
SEARCHES = [
    f"tests/structured/search/test_{name}.py" for name in ("ends", "records", "questions", "paper", "exact")
]  # quickest first
WATER = [f"tests/solvers/kernel_svm/batch_perceptron/test_water_{name}.py" for name in ("bands", "level")]

GROUPS: dict[str, dict[str, list[str]]] = {
    "goals": {
        "goals/binding/bind.py": ["tests/goals/binding/test_bind.py"],
        "goals/measuring/rates_of_predictions.py": ["tests/goals/measuring/test_rates_of_predictions.py"],
        "goals/language/linear.py": ["tests/goals/language/test_ranges.py", "tests/goals/language/test_linear.py"],
        "goals/text/parser.py": ["tests/goals/text/test_parser.py"],
        "goals/measuring/intervals.py": [
            f"tests/goals/measuring/test_{name}.py" for name in ("intervals", "bootstrap", "standard_errors")
        ],
    },
    "water": {
        "solvers/kernel_svm/batch_perceptron/water_level.py": WATER,
    },
    "searches": {f"structured/search/{name}.py": SEARCHES for name in ("angular", "hull", "best_label")},
    "sdca": {
        f"solvers/paper_nest/{name}.py": [
            "tests/solvers/paper_nest/test_loops_by_hand.py",
            "tests/solvers/paper_nest/test_sdca.py",
        ]
        for name in ("sdca", "weighted_hinges")
    },
}


class Outcome(NamedTuple):
    """One mutant's fate: "noticed", "survived" or "equivalent"."""

    file: str
    line: int
    name: str
    fate: str


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Hands out one module from a syntax tree in place of its file."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.module = "widemargin." + file.removesuffix(".py").replace("/", ".")
        self.path, self.tree = str(SOURCE / file), tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.module:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: Any) -> None:
        exec(compile(self.tree, self.path, "exec"), module.__dict__)


def run_tests(file: str, tree: ast.Module, tests: list[str], seconds: float | None) -> None:
    """In a process of its own: leave with pytest's exit status, and its processor time in the file's fate."""
    import pytest

    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    sys.meta_path.insert(0, Changed(file, tree))
    options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not slow and not compiled"]
    options += ["-W", "ignore:Module already imported"]  # hypothesis, before the fork
    os._exit(int(pytest.main([*options, *tests])))


def processor_time(file: str, tests: list[str]) -> float:
    """Seconds of the tests on the unchanged file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = multiprocessing.Process(
        target=run_tests, args=(file, ast.parse((SOURCE / file).read_text()), tests, None)
    )
    process.start()
    process.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.exitcode != 0:
        raise SystemExit(
            f"{file}: its tests fail without any change (pytest says {process.exitcode}); mend them first."
        )
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def examine(file: str, tests: list[str], sample: int, jobs: int, listed: Iterable[str]) -> list[Outcome]:
    """Run the tests on a sample of a file's mutants."""
    from code_mutants import mutants

    source = (SOURCE / file).read_text()
    every = mutants(source)
    random.Random(file).shuffle(every)
    chosen = every[:sample]
    limit = 5.0 * processor_time(file, tests) + 5.0
    outcomes: list[Outcome] = []
    running: dict[int, tuple[Any, Any]] = {}
    while chosen or running:
        while chosen and len(running) < jobs:
            mutant = chosen.pop()
            process = multiprocessing.Process(target=run_tests, args=(file, mutant.tree(source), tests, limit))
            process.start()
            running[process.sentinel] = process, mutant
        for sentinel in wait(list(running)):
            process, mutant = running.pop(sentinel)
            process.join()
            fate = "survived" if process.exitcode == 0 else "noticed"
            if mutant.name in listed:
                if fate == "noticed":
                    raise SystemExit(f"{file}: {mutant.name!r} is listed as equivalent, but a test notices it.")
                fate = "equivalent"
            outcomes.append(Outcome(file, mutant.line, mutant.name, fate))
    return sorted(outcomes, key=lambda outcome: outcome.line)


def share(outcomes: list[Outcome]) -> tuple[int, int]:
    """Mutants noticed, and mutants that count."""
    return sum(o.fate == "noticed" for o in outcomes), sum(o.fate != "equivalent" for o in outcomes)


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutation testing of the parts that decide what a model may claim.")
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="default: every group")
    parser.add_argument("--sample", type=int, default=40, help="mutants a file, drawn with a fixed seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--least", type=float, default=0.85, help="exit 1 if a group's share is below")
    parser.add_argument("--only", default="", help="a part of the file's name")
    parser.add_argument("--out", type=Path, help="a JSON file for every mutant's fate")
    chosen = parser.parse_args()
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    os.chdir(ROOT)
    for name in LIBRARIES:  # once, before the forks
        importlib.import_module(name)
    equivalent = tomllib.loads(EQUIVALENT.read_text())
    everything: list[Outcome] = []
    low = False
    for group in chosen.groups or GROUPS:
        outcomes: list[Outcome] = []
        for file, tests in GROUPS[group].items():
            if chosen.only not in file:
                continue
            found = examine(file, tests, chosen.sample, chosen.jobs, equivalent.get(file, {}))
            print(f"{file}: {'{} of {}'.format(*share(found))} noticed", flush=True)
            for outcome in found:
                if outcome.fate == "survived":
                    print(f"  survived: line {outcome.line}, {outcome.name}", flush=True)
            outcomes += found
        noticed, counted = share(outcomes)
        low |= noticed < chosen.least * counted
        print(f"{group}: {noticed} of {counted} mutants noticed, {noticed / max(counted, 1):.0%}\n", flush=True)
        everything += outcomes
    if chosen.out:
        chosen.out.write_text(json.dumps([outcome._asdict() for outcome in everything], indent=1))
    return int(low)


if __name__ == "__main__":
    sys.exit(main())
