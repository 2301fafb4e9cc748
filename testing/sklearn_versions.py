"""What the oldest scikit-learn that is supported cannot do yet."""

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

__all__ = ["FITS_AS_DOCUMENTED", "routes_to_scores"]

routes_to_scores = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="scikit-learn routes nothing to the score of a pipeline inside a search",
)

FITS_AS_DOCUMENTED = parse_version(sklearn.__version__) >= parse_version("1.9")
"""Whether trees and linear models are those whose counts the documents show; older ones differ in some rows."""
