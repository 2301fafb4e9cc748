"""Models that others saved by plain skops: scikit-learn's own estimators, from a fixed list, and nothing else."""

import json
import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import skops.io
from sklearn.exceptions import InconsistentVersionWarning

from widemargin.exceptions import ModelFileError, ModelFileWarning
from widemargin.persistence.allowed import PLAIN_TYPES, refused_nodes
from widemargin.persistence.container import is_packed, read_file, unpack_plain
from widemargin.persistence.files import load_model
from widemargin.persistence.stored import with_objects
from widemargin.persistence.trees import check_tree_arguments, check_trees

__all__ = ["load_plain_model"]

_SCHEMA = "schema.json"


def load_plain_model(path: str | PathLike[str]) -> Any:
    """Read a model written by `save_model` or by `skops.io.dump`. No code in the file is run, whatever it holds.

    Files of plain skops have no checksum, and may hold the scikit-learn estimators that `persistence/allowed.py` lists:
    linear models, naive Bayes, discriminant analysis, multi-layer perceptrons, decision trees and forests, bagging,
    AdaBoost over these, calibration, and the usual preprocessing in pipelines.

    Raises
    ------
    ModelFileError
        As `load_model`; types that are not on the list are named.

    Warns
    -----
    ModelFileWarning
        Another version of scikit-learn wrote the file.
    """
    path = Path(path)
    data = read_file(path)
    if is_packed(data):
        return load_model(path)
    if not data.startswith(b"PK"):
        raise ModelFileError(f"{path}: no model file of widemargin or skops. Give one, or an .onnx file")
    parts = unpack_plain(data, str(path))
    try:
        schema = json.loads(parts[_SCHEMA])
    except (KeyError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: no model file of widemargin or skops ({error}). Give one") from error
    refused = sorted({name for _, name in refused_nodes(schema, plain=True)})
    if refused:
        more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
        raise ModelFileError(
            f"{path}: holds {', '.join(refused[:3])}{more}, which is not on the list of types that are loaded. Nothing "
            "of this file was run. Export the model to ONNX, or audit a file of its predictions"
        )
    check_tree_arguments(schema, parts, str(path))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", InconsistentVersionWarning)
            model = with_objects(skops.io.loads(data, trusted=list(PLAIN_TYPES)))
        check_trees(model, str(path))
    except ModelFileError:
        raise
    except (Exception, RecursionError, MemoryError) as error:  # whatever a wrong file makes the reader do ends here
        raise ModelFileError(
            f"{path}: the model cannot be built ({type(error).__name__}: {str(error)[:200]}). Save it again with skops"
        ) from error
    if not hasattr(model, "predict"):
        raise ModelFileError(f"{path}: the file holds a {type(model).__name__}, no model. Save an estimator")
    if caught:
        warnings.warn(
            f"{path} was written with another version of scikit-learn. Compare some predictions, or save it again",
            ModelFileWarning, stacklevel=2,
        )  # fmt: skip
    return model
