"""Large-margin classifiers that meet real-world goals, with certificates.

>>> import widemargin as wm
>>> from widemargin.goals import Goal, error_rate, recall
>>> model = wm.RateConstrainedClassifier(Goal(error_rate(), recall() >= 0.6))

Names are imported when they are first used, so `import widemargin` itself is quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from widemargin import goals as goals
    from widemargin.diagnostics import audit as audit
    from widemargin.diagnostics import margin_report as margin_report
    from widemargin.estimators.chain_svc import ChainSVC as ChainSVC
    from widemargin.estimators.goal_scorer import goal_scorer as goal_scorer
    from widemargin.estimators.goal_threshold import GoalThresholdClassifier as GoalThresholdClassifier
    from widemargin.estimators.hierarchical_svc import HierarchicalSVC as HierarchicalSVC
    from widemargin.estimators.kernel_perceptron import KernelPerceptron as KernelPerceptron
    from widemargin.estimators.kernel_search import kernel_search as kernel_search
    from widemargin.estimators.kernel_svc import KernelSVC as KernelSVC
    from widemargin.estimators.label_set_scorers import label_set_scorers as label_set_scorers
    from widemargin.estimators.margin_pursuit import MarginPursuitClassifier as MarginPursuitClassifier
    from widemargin.estimators.multiclass_svc import MulticlassSVC as MulticlassSVC
    from widemargin.estimators.multilabel_svc import MultiLabelSVC as MultiLabelSVC
    from widemargin.estimators.pareto import C_from_nu as C_from_nu
    from widemargin.estimators.pareto import nu_from_C as nu_from_C
    from widemargin.estimators.pareto import pareto_path as pareto_path
    from widemargin.estimators.rate_constrained import RateConstrainedClassifier as RateConstrainedClassifier
    from widemargin.estimators.rate_constrained_cv import RateConstrainedClassifierCV as RateConstrainedClassifierCV
    from widemargin.estimators.sbp import SBPClassifier as SBPClassifier
    from widemargin.estimators.structural_search import structural_path as structural_path
    from widemargin.estimators.structural_search import structural_search as structural_search
    from widemargin.estimators.structural_svm import StructuralSVM as StructuralSVM
    from widemargin.estimators.tradeoff import tradeoff_path as tradeoff_path
    from widemargin.goals.sources import External as External
    from widemargin.persistence import load_model as load_model
    from widemargin.persistence import save_model as save_model
    from widemargin.preprocessing import ThermometerEncoder as ThermometerEncoder

__version__ = "0.1.0"

__all__ = [
    "C_from_nu",
    "ChainSVC",
    "External",
    "GoalThresholdClassifier",
    "HierarchicalSVC",
    "KernelPerceptron",
    "KernelSVC",
    "MarginPursuitClassifier",
    "MultiLabelSVC",
    "MulticlassSVC",
    "RateConstrainedClassifier",
    "RateConstrainedClassifierCV",
    "SBPClassifier",
    "StructuralSVM",
    "ThermometerEncoder",
    "__version__",
    "audit",
    "goal_scorer",
    "goals",
    "kernel_search",
    "label_set_scorers",
    "load_model",
    "margin_report",
    "nu_from_C",
    "pareto_path",
    "save_model",
    "structural_path",
    "structural_search",
    "tradeoff_path",
]

_HOMES = {
    "C_from_nu": "widemargin.estimators.pareto",
    "ChainSVC": "widemargin.estimators.chain_svc",
    "External": "widemargin.goals.sources",
    "GoalThresholdClassifier": "widemargin.estimators.goal_threshold",
    "HierarchicalSVC": "widemargin.estimators.hierarchical_svc",
    "KernelPerceptron": "widemargin.estimators.kernel_perceptron",
    "KernelSVC": "widemargin.estimators.kernel_svc",
    "MulticlassSVC": "widemargin.estimators.multiclass_svc",
    "MarginPursuitClassifier": "widemargin.estimators.margin_pursuit",
    "MultiLabelSVC": "widemargin.estimators.multilabel_svc",
    "RateConstrainedClassifier": "widemargin.estimators.rate_constrained",
    "RateConstrainedClassifierCV": "widemargin.estimators.rate_constrained_cv",
    "SBPClassifier": "widemargin.estimators.sbp",
    "StructuralSVM": "widemargin.estimators.structural_svm",
    "ThermometerEncoder": "widemargin.preprocessing",
    "audit": "widemargin.diagnostics",
    "goal_scorer": "widemargin.estimators.goal_scorer",
    "kernel_search": "widemargin.estimators.kernel_search",
    "label_set_scorers": "widemargin.estimators.label_set_scorers",
    "load_model": "widemargin.persistence",
    "margin_report": "widemargin.diagnostics",
    "nu_from_C": "widemargin.estimators.pareto",
    "pareto_path": "widemargin.estimators.pareto",
    "save_model": "widemargin.persistence",
    "structural_path": "widemargin.estimators.structural_search",
    "structural_search": "widemargin.estimators.structural_search",
    "tradeoff_path": "widemargin.estimators.tradeoff",
}


def __getattr__(name: str) -> Any:
    if name == "goals":
        return importlib.import_module("widemargin.goals")
    if name not in _HOMES:
        raise AttributeError(f"module 'widemargin' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
