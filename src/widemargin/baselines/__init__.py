"""What the papers compare with, as estimators: Zafar's constraints, and an SVM whose bias is shifted afterwards."""

from widemargin.baselines.shifted import ShiftedSVC
from widemargin.baselines.zafar import ZafarClassifier

__all__ = ["ShiftedSVC", "ZafarClassifier"]
