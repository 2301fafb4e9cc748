"""Save a fitted model and load it again: same predictions, no code in between."""

import json
import platform
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import JSON
from widemargin.exceptions import ModelFileError, ModelFileWarning
from widemargin.persistence.array_check import check_arrays, check_tree_arguments
from widemargin.persistence.container import INFO, is_packed, pack, read_file, unpack, unpack_plain, write_file
from widemargin.persistence.goals_as_text import as_text, first_goal, from_text, mapped
from widemargin.persistence.model_file_check import refused_nodes, trusted_in, with_class_names

FORMAT = 1
"""Number of the format written; files of a higher one are refused by name."""

_SCHEMA = "schema.json"
_INFO_TYPES: dict[str, Any] = {
    "model": str, "classes": list, "features": list, "goal": str | None, "libraries": dict, "metadata": dict,
}  # fmt: skip
_LIBRARIES = ("widemargin", "numpy", "scipy", "scikit-learn", "skops")


@dataclass(frozen=True)
class ModelInfo:
    """The description of a model in its file, readable without building the model.

    Attributes
    ----------
    model : str
        Class names, outermost first: `Pipeline(TablePreprocessor, RateConstrainedClassifier)`.
    classes : list
        The labels, in the order of `classes_`.
    features : list of str
        Names of the input columns; empty when training had none.
    goal : str or None
        The goal's statements.
    libraries : dict of str
        Versions at the time of saving.
    metadata : dict
        Given by the user.
    format : int
    """

    model: str
    classes: list[Any]
    features: list[str]
    goal: str | None
    libraries: dict[str, str]
    metadata: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT


def save_model(model: BaseEstimator, path: str | PathLike[str], *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to one file, whole or not at all.

    The file is a zip archive in the format of skops with one more part, `widemargin.json`, and a checksum at its end.
    It holds parameters and fitted attributes, and goals as text. The only training rows in it are the support vectors
    of kernel models and the landmarks of a "nystroem" feature map, which predictions need. Boosted trees that were read
    from a file cannot be trained further (`warm_start`).

    Parameters
    ----------
    model : estimator
        Fitted: an estimator of this library, or a Pipeline that ends in one.
    path : path-like
        Usually ends in `.skops`. An existing file is replaced.
    metadata : mapping, default=None
        Anything JSON can hold, kept in the file and returned by `model_info`.

    Raises
    ------
    sklearn.exceptions.NotFittedError
    ModelFileError
        If the model holds what no file may hold (a function, an estimator that is not on the list), the metadata cannot
        be written as JSON, or the file cannot be written.
    """
    path = Path(path)
    if isinstance(model, BaseEstimator) and not hasattr(model, "predict"):
        raise ModelFileError(f"{path}: a {type(model).__name__} predicts nothing. Save a Pipeline of it and a model")
    check_is_fitted(model)
    last = model[-1] if hasattr(model, "steps") else model
    if type(last).__module__.startswith("widemargin.estimators.networks."):
        raise ModelFileError(
            f"{path}: a {type(last).__name__} holds a PyTorch module, which save_model does not store. Use "
            "widemargin.torch.save_network"
        )
    try:
        goal, first = first_goal(model), model[0] if hasattr(model, "steps") else model
        info = ModelInfo(
            model=_class_text(model),
            classes=np.asarray(getattr(model, "classes_", [])).tolist(),
            features=[str(name) for name in getattr(first, "feature_names_in_", [])],
            goal=None if goal is None else str(goal),
            libraries={"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}},
            metadata=dict(metadata or {}),
        )
        text = json.dumps(asdict(info), indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: metadata or labels cannot be stored as JSON ({error}). Use plain values"
        ) from error
    import skops.io  # late, where a file is read or written: it imports all of scikit-learn, and Dask, 2 s

    try:
        dumped = skops.io.dumps(mapped(model, as_text))
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: too deep, or a network of PyTorch in it
        raise ModelFileError(
            f"{path}: the model cannot be stored ({error}). Remove that attribute or parameter"
        ) from error
    with zipfile.ZipFile(BytesIO(dumped)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts[_SCHEMA])
    for place, name in refused_nodes(with_class_names(schema, public=False)):
        raise ModelFileError(
            f"{path}: {place} is a {name}, which a model file may not hold. "
            "Set that parameter to None or to plain values, or use another estimator"
        )
    parts[_SCHEMA] = json.dumps(with_class_names(schema, public=True)).encode()
    write_file(path, pack({INFO: text.encode(), **parts}))


def load_model(path: str | PathLike[str]) -> Any:
    """Read a model written by `save_model`. No code in the file is ever run.

    Raises
    ------
    ModelFileError
        The file is absent, foreign, cut off, damaged, too large, of a newer format, or holds a type that is not on the
        list.

    Warns
    -----
    ModelFileWarning
        Another version of scikit-learn wrote the file.
    """
    path = Path(path)
    parts = unpack(read_file(path), str(path))
    info = _read_info(parts, path)
    schema = _schema(parts, f"{path}: the part {_SCHEMA} is missing or wrong", "Save the model again")
    for place, name in refused_nodes(schema):
        raise ModelFileError(
            f"{path}: {place} is a {name}, which a model file may not hold. "
            "Load only files that save_model wrote; nothing of this file was run"
        )
    versions = ", ".join(f"{name} {number}" for name, number in info.libraries.items())
    return _built(
        path, parts, schema,
        remedy=f"Save it again, with the libraries of then if need be: {versions}",
        other_version=f"{path} was written with {versions}; now scikit-learn is {sklearn.__version__}. "
        "Compare some predictions, or train and save again",
    )  # fmt: skip


def load_plain_model(path: str | PathLike[str]) -> Any:
    """Read a model written by `save_model` or by `skops.io.dump`. No code in the file is ever run.

    Files of plain skops have no checksum. Both may hold the scikit-learn estimators that
    `persistence/model_file_check.py` lists: linear models, naive Bayes, discriminant analysis, multi-layer perceptrons,
    decision trees and forests, bagging, AdaBoost over these, histogram gradient boosting on numbers (in files of
    `save_model`), calibration, and the usual preprocessing in pipelines.

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
    schema = _schema(parts, f"{path}: no model file of widemargin or skops", "Give one")
    refused = sorted({name for _, name in refused_nodes(schema)})
    if refused:
        more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
        raise ModelFileError(
            f"{path}: holds {', '.join(refused[:3])}{more}, which is not on the list of types that are loaded. Nothing "
            "of this file was run. Export the model to ONNX, or audit a file of its predictions"
        )
    return _built(
        path, parts, schema,
        remedy="Save it again with skops",
        other_version=f"{path} was written with another version of scikit-learn. Compare some predictions, or save it "
        "again",
    )  # fmt: skip


def _schema(parts: Mapping[str, bytes], what: str, remedy: str) -> JSON:
    """The description of a model in a file, in which classes of this library are named by their current modules."""
    try:
        return with_class_names(json.loads(parts[_SCHEMA]), public=False)
    except (KeyError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{what} ({error}). {remedy}") from error


def _built(path: Path, parts: Mapping[str, bytes], schema: JSON, *, remedy: str, other_version: str) -> Any:
    """The model of a checked schema; skops is given that schema, and never reads the one in the file again."""
    import skops.io  # late, as above

    check_tree_arguments(schema, parts, str(path))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", InconsistentVersionWarning)
            buffer, text = BytesIO(), json.dumps(schema)
            with zipfile.ZipFile(buffer, "w") as archive:
                for name, content in {**parts, _SCHEMA: text.encode()}.items():
                    archive.writestr(name, content)
            model = mapped(skops.io.loads(buffer.getvalue(), trusted=trusted_in(text)), from_text)
        check_arrays(model, str(path))
    except ModelFileError:
        raise
    # A damaged or hostile file can raise any error in skops, NumPy or scikit-learn; callers see one kind only.
    except Exception as error:
        if isinstance(error, MemoryError):
            remedy = "The memory of this machine is used up, or the file names wrong sizes: see where it comes from"
        raise ModelFileError(
            f"{path}: the model cannot be built ({type(error).__name__}: {str(error)[:200]}). {remedy}"
        ) from error
    if not hasattr(model, "predict"):
        raise ModelFileError(f"{path}: the file holds a {type(model).__name__}, no model. Save an estimator")
    if caught:
        warnings.warn(other_version, ModelFileWarning, stacklevel=3)
    return model


def model_info(path: str | PathLike[str]) -> ModelInfo:
    """Read the description in a model file; the model is not built.

    Raises
    ------
    ModelFileError
        As `load_model`, but for the contents of the model.
    """
    path = Path(path)
    return _read_info(unpack(read_file(path), str(path)), path)


def _class_text(model: object) -> str:
    name = type(model).__name__
    return f"{name}({', '.join(_class_text(step) for _, step in model.steps)})" if hasattr(model, "steps") else name


def _read_info(parts: dict[str, bytes], path: Path) -> ModelInfo:
    if "weights.pt" in parts:
        raise ModelFileError(f"{path}: save_network wrote this file. Read it by widemargin.torch.load_network")
    try:
        raw = json.loads(parts[INFO])
        number = raw["format"]
        if type(number) is not int or number < 1:
            raise ValueError(f"format {number!r}")
        if number <= FORMAT:
            info = ModelInfo(**raw)
            for name, kind in _INFO_TYPES.items():
                if not isinstance(getattr(info, name), kind):
                    raise TypeError(f"{name} is {getattr(info, name)!r}")
            return info
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: the part {INFO} is missing or wrong ({error}). Save the model again") from error
    raise ModelFileError(
        f"{path}: format {number} is newer than {FORMAT}, the newest format this version reads. Upgrade widemargin"
    )
