"""Figure 2 of Holland 2019: the Psi-transform of margin pursuit, its inverse, and what a growing scale does to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from widemargin.extending import Floats
from widemargin.losses import psi_transform, psi_transform_inverse
from widemargin_papers.reproductions.pictures.margin_pursuit_pictures import link_figure
from widemargin_papers.reproductions.summary import markdown

__all__ = ["draw", "keys", "load", "run", "settings", "summarise", "table"]


@dataclass(frozen=True)
class Formulas:
    """No data are needed."""

    name: str


def settings(quick: bool) -> dict[str, Any]:
    """Margin levels, excess risks and scales."""
    return {
        "margin_levels": [0.5, 1.0, 2.0, 4.0],
        "scale": 1.0,
        "points": 9 if quick else 49,
        "excess": [0.001, 0.01, 0.1],
        "levels_of_map": [0.1, 4.0],
        "excess_of_map": [0.001, 0.4],
        "scales": [0.1, 100.0],
        "data": "synthetic" if quick else "none",
    }


def load(folder: Path | None, quick: bool) -> Formulas:
    """Nothing to read."""
    return Formulas("synthetic rows are not needed, nor others" if quick else "none")


def keys(runs: int) -> list[str]:
    """One run: nothing is drawn."""
    return ["formulas"]


def run(data: Formulas, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The curves of the four panels."""
    points = settings["points"]
    theta = np.linspace(-1.0, 1.0, points)
    level = _grid(settings["levels_of_map"], points)
    excess = _grid(settings["excess_of_map"], points)
    scale = _grid(settings["scales"], points)
    forward, inverse = [], []
    for gamma in settings["margin_levels"]:
        share = np.linspace(0.0, 1.0, points)
        value = share * psi_transform(1.0, gamma, settings["scale"])
        forward.append(psi_transform(theta, gamma, settings["scale"]))
        inverse.append([value, psi_transform_inverse(value, gamma, settings["scale"])])
    highest = psi_transform(1.0, level, settings["scale"])
    a = np.minimum(excess[:, None], highest[None, :])
    plane = psi_transform_inverse(a, level[None, :], settings["scale"])
    grown = []
    for value in settings["excess"]:
        some = np.minimum(value, psi_transform(1.0, 1.0, scale))
        grown.append(psi_transform_inverse(some, 1.0, scale))
    made: dict[str, Any] = {
        "theta": theta, "forward": forward, "inverse": inverse, "level": level, "excess": excess, "plane": plane,
        "scale": scale, "grown": grown,
    }  # fmt: skip
    return {name: np.round(np.asarray(value), 6).tolist() for name, value in made.items()}


def _grid(ends: list[float], points: int) -> Floats:
    """Numbers between two ends, on a logarithmic scale."""
    return np.geomspace(ends[0], ends[1], points)


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """The run, with its settings."""
    (found,) = runs.values()
    return {**found, "margin_levels": settings["margin_levels"], "values": settings["excess"]}


def table(summary: Mapping[str, Any]) -> str:
    """Psi at some theta; the excess error that an excess risk allows as the scale grows."""
    theta = summary["theta"]
    shown = [int(np.argmin(np.abs(np.array(theta) - value))) for value in (0.0, 0.25, 0.5, 0.75, 1.0)]
    head = ["margin level", *(f"Psi({theta[place]:g})" for place in shown)]
    rows = [
        [f"{gamma:g}", *(f"{values[place]:.4f}" for place in shown)]
        for gamma, values in zip(summary["margin_levels"], summary["forward"], strict=True)
    ]
    scale = summary["scale"]
    places = [int(np.argmin(np.abs(np.log(np.array(scale) / value)))) for value in (0.1, 1.0, 10.0, 100.0)]
    limits = ["excess surrogate risk", *(f"scale {scale[place]:.3g}" for place in places)]
    grown = [
        [f"{value:g}", *(f"{values[place]:.4f}" for place in places)]
        for value, values in zip(summary["values"], summary["grown"], strict=True)
    ]
    return (
        "Psi at scale 1:\n\n" + markdown(head, rows) + "\nBound of the excess error rate, margin level 1 "
        "(1: the bound is empty):\n\n" + markdown(limits, grown)
    )


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: four panels."""
    return link_figure(summary)
