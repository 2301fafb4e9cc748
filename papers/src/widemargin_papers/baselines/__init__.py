"""What the papers compare with, as estimators.

Zafar's constraints and an SVM whose bias is shifted afterwards. An SVM on random Fourier features, SIMBA, and gradient
descent in a norm ball. Linear models that
shape the margin distribution or resist outliers: Pegasos, the large margin distribution machine, margin distribution
optimisation, Catoni's risk and medians of means.
"""

from widemargin_papers.baselines.catoni_risk import CatoniRiskClassifier
from widemargin_papers.baselines.fourier_svc import FourierSVC
from widemargin_papers.baselines.ldm import LDMClassifier
from widemargin_papers.baselines.margin_distribution import MarginDistributionClassifier, projection_profile
from widemargin_papers.baselines.median_of_means import MedianOfMeansClassifier
from widemargin_papers.baselines.norm_ball import NormBallSVC
from widemargin_papers.baselines.pegasos import LinearPegasosClassifier
from widemargin_papers.baselines.shifted import ShiftedSVC
from widemargin_papers.baselines.simba import SimbaClassifier
from widemargin_papers.baselines.zafar import ZafarClassifier

__all__ = [
    "CatoniRiskClassifier",
    "FourierSVC",
    "LDMClassifier",
    "LinearPegasosClassifier",
    "MarginDistributionClassifier",
    "MedianOfMeansClassifier",
    "NormBallSVC",
    "ShiftedSVC",
    "SimbaClassifier",
    "ZafarClassifier",
    "projection_profile",
]
