"""What the papers compare with, as estimators.

Zafar's constraints, an SVM whose bias is shifted afterwards, and an SVM on random Fourier features. Linear models that
shape the margin distribution or resist outliers: Pegasos, the large margin distribution machine, margin distribution
optimisation, Catoni's risk and medians of means.
"""

from widemargin.baselines.catoni_risk import CatoniRiskClassifier
from widemargin.baselines.fourier_svc import FourierSVC
from widemargin.baselines.ldm import LDMClassifier
from widemargin.baselines.margin_distribution import MarginDistributionClassifier, projection_profile
from widemargin.baselines.median_of_means import MedianOfMeansClassifier
from widemargin.baselines.pegasos import LinearPegasosClassifier
from widemargin.baselines.shifted import ShiftedSVC
from widemargin.baselines.zafar import ZafarClassifier

__all__ = [
    "CatoniRiskClassifier",
    "FourierSVC",
    "LDMClassifier",
    "LinearPegasosClassifier",
    "MarginDistributionClassifier",
    "MedianOfMeansClassifier",
    "ShiftedSVC",
    "ZafarClassifier",
    "projection_profile",
]
