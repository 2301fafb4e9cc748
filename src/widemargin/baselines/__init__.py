"""What the papers compare with, as estimators.

Zafar's constraints, an SVM whose bias is shifted afterwards, and an SVM on random Fourier features.
"""

from widemargin.baselines.fourier_svc import FourierSVC
from widemargin.baselines.shifted import ShiftedSVC
from widemargin.baselines.zafar import ZafarClassifier

__all__ = ["FourierSVC", "ShiftedSVC", "ZafarClassifier"]
