"""Run all benchmarks: `python -m benchmarks`, options as for each of them."""

import sys

from benchmarks import (
    audit_stream,
    cut_choosers,
    distributed,
    fairness_a9a,
    frontier_a9a,
    guarantees,
    kernel_scaling,
    kernel_svc_accuracy,
    kernel_svm,
    kernelised,
    margin_robustness,
    margin_speed,
    memory,
    recall_churn,
    scaling,
    structured_hierarchies,
    structured_ocr,
    structured_rcv1,
    structured_yeast,
    thermometer_adult,
)

__all__ = ["SCRIPTS", "main"]

SCRIPTS = (
    fairness_a9a,
    frontier_a9a,
    recall_churn,
    cut_choosers,
    kernelised,
    kernel_scaling,
    kernel_svm,
    kernel_svc_accuracy,
    margin_speed,
    margin_robustness,
    structured_yeast,
    structured_rcv1,
    structured_hierarchies,
    structured_ocr,
    thermometer_adult,
    memory,
    audit_stream,
    scaling,
    guarantees,
    distributed,
)


def main(arguments: list[str] | None = None) -> int:
    """Run them one after the other; the first exit code that is not 0."""
    given = sys.argv[1:] if arguments is None else arguments
    for script in SCRIPTS:
        print(f"== {script.__name__}\n", flush=True)
        code = script.main(given)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
