"""Networks in PyTorch trained to a goal, and their files. Needs the extra `widemargin[torch]`.

>>> from widemargin.torch import GoalNetwork, load_network, save_network
"""

import io
import json
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin.exceptions import MissingLibraryError, ModelFileError

try:
    import torch
except ImportError:
    raise MissingLibraryError.of("widemargin.torch needs PyTorch", "torch") from None

from widemargin.estimators.networks.goal_network import GoalNetwork, NetworkOptions, NetworkScorer
from widemargin.goals import Goal, Population
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.persistence.container import INFO, pack, read_file, unpack, write_file
from widemargin.persistence.goals_as_text import StoredGoal, StoredPopulation, as_text, from_text

__all__ = ["GoalNetwork", "NetworkOptions", "load_network", "save_network"]

FORMAT = 1
"""Number of the format written; files of a higher one are refused."""

_WEIGHTS = "weights.pt"


def save_network(model: GoalNetwork, path: str | PathLike[str]) -> None:
    """Write a fitted `GoalNetwork` to one file: weights, thresholds, goal and report; no code and no rows.

    Parameters
    ----------
    model : GoalNetwork
        Fitted.
    path : path-like
        Replaced as a whole once everything is written.

    Raises
    ------
    ModelFileError
        If the file cannot be written.
    """
    check_is_fitted(model, "threshold_")
    scorer: NetworkScorer = model.estimator_
    weights = io.BytesIO()
    torch.save({name: value.cpu() for name, value in scorer.network.state_dict().items()}, weights)
    facts = {
        "format": FORMAT, "version": version("widemargin"), "goal": _text_of(model.goal_),
        "classes": model.classes_.tolist(), "positive": model.classes_.tolist().index(model.positive_class_),
        "threshold": np.atleast_1d(model.threshold_).tolist(), "status": model.status_,
        "groups": None if model.groups_ is None else [_text_of(group) for group in model.groups_],
        "mixture_thresholds": None if model.mixture_thresholds_ is None else model.mixture_thresholds_.tolist(),
        "mixture_weights": None if model.mixture_weights_ is None else model.mixture_weights_.tolist(),
        "prices": model.prices_.tolist(), "batch_size": scorer.batch_size, "shape": scorer.shape,
        "names": None if scorer.names is None else scorer.names.tolist(),
        "history": model.history_, "report": model.goal_report_.to_dict(),
    }  # fmt: skip
    write_file(Path(path), pack({INFO: json.dumps(facts).encode(), _WEIGHTS: weights.getvalue()}))


def load_network(path: str | PathLike[str], module: torch.nn.Module) -> GoalNetwork:
    """Read a network written by `save_network`. No code in the file is run.

    Parameters
    ----------
    path : path-like
    module : torch.nn.Module
        Of the architecture that was trained; it takes the weights of the file, on the device that it is on.

    Returns
    -------
    GoalNetwork
        Fitted: it predicts, can be audited and proved, and shows its report.

    Raises
    ------
    ModelFileError
        The file is absent, foreign, damaged, too large, of a newer format, or its weights do not fit the module.
    """
    path = Path(path)
    parts = unpack(read_file(path), str(path))
    try:
        facts: dict[str, Any] = json.loads(parts[INFO])
        if facts["format"] > FORMAT:
            raise ModelFileError(
                f"{path}: format {facts['format']} of widemargin {facts['version']}, and this version reads up to "
                f"{FORMAT}. Install a newer widemargin"
            )
        weights = torch.load(io.BytesIO(parts[_WEIGHTS]), map_location="cpu", weights_only=True)
        module.load_state_dict(weights)
        module.eval()
        model = _fitted(module, facts)
    except ModelFileError:
        raise
    except Exception as error:  # whatever a foreign or changed file makes PyTorch or JSON raise
        raise ModelFileError(
            f"{path}: no network of this architecture can be read from it ({error}). Give the file that save_network "
            "wrote, and a module like the one that was trained"
        ) from error
    return model


def _fitted(module: torch.nn.Module, facts: dict[str, Any]) -> GoalNetwork:
    """The estimator that the facts of a file describe."""
    classes = np.array(facts["classes"])
    texts = facts["groups"]
    groups = None if texts is None else tuple(cast(Population, from_text(StoredPopulation(text))) for text in texts)
    model = GoalNetwork(
        module, facts["goal"], per_population=None if groups is None else list(groups),
        pos_label=classes.tolist()[facts["positive"]], randomize=facts["mixture_weights"] is not None,
        batch_size=facts["batch_size"],
    )  # fmt: skip
    model.classes_, model.positive_class_ = classes, classes.tolist()[facts["positive"]]
    model.goal_, model.groups_, model.status_ = (
        cast(Goal, from_text(StoredGoal(facts["goal"]))),
        groups,
        facts["status"],
    )
    threshold = np.array(facts["threshold"])
    model.threshold_ = float(threshold[0]) if groups is None else threshold
    device = next((value.device for value in module.parameters()), torch.device("cpu"))
    direction = 1.0 if facts["positive"] == 1 else -1.0
    names = facts.get("names")  # files of earlier versions have none
    model.estimator_ = NetworkScorer(
        module, classes, direction, facts["batch_size"], device, tuple(facts["shape"]),
        None if names is None else np.array(names, dtype=object),
    )  # fmt: skip
    drawn = facts["mixture_thresholds"]
    model.mixture_thresholds_ = None if drawn is None else np.array(drawn)
    model.mixture_weights_ = None if drawn is None else np.array(facts["mixture_weights"])
    model.prices_, model.history_ = np.array(facts["prices"]), tuple(facts["history"])
    model.n_epochs_ = len(model.history_)
    model.goal_report_ = GoalReport.from_dict(facts["report"])
    return model


def _text_of(part: Goal | Population) -> str:
    """A goal or a population as model files hold it."""
    return cast(StoredGoal, as_text(part)).text
