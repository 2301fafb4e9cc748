"""Large-margin classifiers that meet real-world goals, with certificates.

>>> import widemargin as wm
>>> from widemargin.goals import Goal, error_rate, recall
>>> model = wm.RateConstrainedClassifier(Goal(error_rate(), recall() >= 0.6))

Names are imported when they are first used, so `import widemargin` itself is quick.
"""

import gc
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from widemargin._papers import moved_name

if TYPE_CHECKING:
    from widemargin import goals as goals
    from widemargin.diagnostics import audit as audit
    from widemargin.diagnostics import label_suspects as label_suspects
    from widemargin.diagnostics import margin_changes as margin_changes
    from widemargin.diagnostics import margin_report as margin_report
    from widemargin.estimators.kernel_svm.kernel_model import KernelOptions as KernelOptions
    from widemargin.estimators.kernel_svm.kernel_model import SBPOptions as SBPOptions
    from widemargin.estimators.kernel_svm.kernel_perceptron import KernelPerceptron as KernelPerceptron
    from widemargin.estimators.kernel_svm.kernel_search import kernel_search as kernel_search
    from widemargin.estimators.kernel_svm.kernel_svc import KernelSVC as KernelSVC
    from widemargin.estimators.kernel_svm.sbp_classifier import SBPClassifier as SBPClassifier
    from widemargin.estimators.margins.margin_pursuit import MarginPursuitClassifier as MarginPursuitClassifier
    from widemargin.estimators.margins.pursuit import PursuitOptions as PursuitOptions
    from widemargin.estimators.margins.risk import RiskClassifier as RiskClassifier
    from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier as RateConstrainedClassifier
    from widemargin.estimators.rate_constrained.cross_validated import (
        RateConstrainedClassifierCV as RateConstrainedClassifierCV,
    )
    from widemargin.estimators.rate_constrained.ramp_model import TrainingOptions as TrainingOptions
    from widemargin.estimators.rate_constrained.tradeoff_path import tradeoff_path as tradeoff_path
    from widemargin.estimators.reduction.goal_reduction import GoalReduction as GoalReduction
    from widemargin.estimators.reduction.visits import ReductionOptions as ReductionOptions
    from widemargin.estimators.structured.chain_svc import ChainSVC as ChainSVC
    from widemargin.estimators.structured.label_names import label_set_scorers as label_set_scorers
    from widemargin.estimators.structured.label_sets import HierarchicalSVC as HierarchicalSVC
    from widemargin.estimators.structured.label_sets import MultiLabelSVC as MultiLabelSVC
    from widemargin.estimators.structured.multiclass_svc import MulticlassSVC as MulticlassSVC
    from widemargin.estimators.structured.structural_search import structural_path as structural_path
    from widemargin.estimators.structured.structural_search import structural_search as structural_search
    from widemargin.estimators.structured.structural_svm import StructuralSVM as StructuralSVM
    from widemargin.estimators.structured.training import StructuralOptions as StructuralOptions
    from widemargin.estimators.thresholds.goal_scorer import goal_scorer as goal_scorer
    from widemargin.estimators.thresholds.goal_threshold import GoalThresholdClassifier as GoalThresholdClassifier
    from widemargin.persistence import load_model as load_model
    from widemargin.persistence import save_model as save_model
    from widemargin.preprocessing import ThermometerEncoder as ThermometerEncoder
    from widemargin.rows import External as External

__version__ = "0.2.0"

_HOMES = {
    "ChainSVC": "widemargin.estimators.structured.chain_svc",
    "External": "widemargin.rows",
    "GoalReduction": "widemargin.estimators.reduction.goal_reduction",
    "GoalThresholdClassifier": "widemargin.estimators.thresholds.goal_threshold",
    "HierarchicalSVC": "widemargin.estimators.structured.label_sets",
    "KernelOptions": "widemargin.estimators.kernel_svm.kernel_model",
    "KernelPerceptron": "widemargin.estimators.kernel_svm.kernel_perceptron",
    "KernelSVC": "widemargin.estimators.kernel_svm.kernel_svc",
    "MulticlassSVC": "widemargin.estimators.structured.multiclass_svc",
    "MarginPursuitClassifier": "widemargin.estimators.margins.margin_pursuit",
    "MultiLabelSVC": "widemargin.estimators.structured.label_sets",
    "PursuitOptions": "widemargin.estimators.margins.pursuit",
    "RateConstrainedClassifier": "widemargin.estimators.rate_constrained.classifier",
    "RateConstrainedClassifierCV": "widemargin.estimators.rate_constrained.cross_validated",
    "ReductionOptions": "widemargin.estimators.reduction.visits",
    "RiskClassifier": "widemargin.estimators.margins.risk",
    "SBPClassifier": "widemargin.estimators.kernel_svm.sbp_classifier",
    "SBPOptions": "widemargin.estimators.kernel_svm.kernel_model",
    "StructuralOptions": "widemargin.estimators.structured.training",
    "StructuralSVM": "widemargin.estimators.structured.structural_svm",
    "ThermometerEncoder": "widemargin.preprocessing",
    "TrainingOptions": "widemargin.estimators.rate_constrained.ramp_model",
    "audit": "widemargin.diagnostics",
    "goal_scorer": "widemargin.estimators.thresholds.goal_scorer",
    "kernel_search": "widemargin.estimators.kernel_svm.kernel_search",
    "label_set_scorers": "widemargin.estimators.structured.label_names",
    "load_model": "widemargin.persistence",
    "label_suspects": "widemargin.diagnostics",
    "margin_changes": "widemargin.diagnostics",
    "margin_report": "widemargin.diagnostics",
    "save_model": "widemargin.persistence",
    "structural_path": "widemargin.estimators.structured.structural_search",
    "structural_search": "widemargin.estimators.structured.structural_search",
    "tradeoff_path": "widemargin.estimators.rate_constrained.tradeoff_path",
}
"""Where the public names are found, which are imported when they are first asked for."""

__all__ = [*sorted([*_HOMES, "__version__", "goals"])]  # noqa: PLE0604  they are stated once, above

_PARTS = (
    "datasets",
    "diagnostics",
    "distributed",
    "exceptions",
    "extending",
    "goals",
    "losses",
    "persistence",
    "plotting",
    "preprocessing",
    "report",
    "structured",
)
"""Packages and modules that `import widemargin as wm` reaches as `wm.NAME`, imported when they are asked for."""
_IN_PAPERS = frozenset(["C_from_nu", "nu_from_C", "pareto_path"])
"""Names that were here once: found where widemargin-papers is installed."""


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return _imported(f"widemargin.{name}")
    if name not in _HOMES:
        return moved_name(__name__, name, _IN_PAPERS, "pareto")
    value = getattr(_imported(_HOMES[name]), name)
    globals()[name] = value
    return value


def _imported(module: str) -> ModuleType:
    """A module, while the collector of garbage waits: imports leave none, and to look for it takes a tenth of them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        if collecting:
            gc.enable()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
