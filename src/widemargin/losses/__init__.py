"""Formulas of one example: values, bounds and their sums over cells."""

from widemargin.losses.calibration import excess_risk_bound, psi_transform, psi_transform_inverse
from widemargin.losses.location import Location, catoni_location, catoni_scale
from widemargin.losses.margin import CatoniLoss, LogCoshLoss, MarginLoss

__all__ = [
    "CatoniLoss",
    "Location",
    "LogCoshLoss",
    "MarginLoss",
    "catoni_location",
    "catoni_scale",
    "excess_risk_bound",
    "psi_transform",
    "psi_transform_inverse",
]
