"""The process of `benchmarks.regression` that times kernels of one commit: a line in, a line out."""

import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["kernels_of", "main"]

SAMPLE_SECONDS = 0.02
"""A sample repeats its kernel for about that long."""

Action = Callable[[], Any]


def kernels_of(name: str) -> Mapping[str, Callable[[], Action]]:
    """KERNELS of a module, or of a file."""
    if not name.endswith(".py"):
        found: Mapping[str, Callable[[], Action]] = importlib.import_module(name).KERNELS
        return found
    spec = importlib.util.spec_from_file_location("kernels", name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.KERNELS)


def prepare(make: Callable[[], Action]) -> tuple[Action, int]:
    """The action, compiled and warm, and how often a sample should run it."""
    action = make()
    action()
    seconds = min(_seconds(action, 1) for _ in range(3))
    return action, max(1, int(SAMPLE_SECONDS / max(seconds, 1e-6)))


def _seconds(action: Action, number: int) -> float:
    start = time.process_time()
    for _ in range(number):
        action()
    return time.process_time() - start


def main() -> int:
    """Answer `[kernel, number]` with seconds; number 0: prepare it and say how often to run it."""
    source, kernels = sys.argv[1:]
    sys.path.insert(0, source)
    known = kernels_of(kernels)
    ready: dict[str, Action] = {}
    for line in sys.stdin:
        kernel, number = json.loads(line)
        try:
            if number == 0:
                ready[kernel], number = prepare(known[kernel])
                answer: dict[str, Any] = {"number": number}
            else:
                answer = {"seconds": _seconds(ready[kernel], number)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        answer["source"] = str(Path(sys.modules["widemargin"].__file__ or "")) if "widemargin" in sys.modules else ""
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
