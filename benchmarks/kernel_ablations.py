"""What each device of `KernelSVC` is worth on data that it was not tuned on: the same fit with and without it.

A device stays in the library where a fit is at least 1.3 times as fast with it on two such data sets of its kind. They
were tuned on a9a, MNIST and covtype; here are drawn families and public data that played no part in that. Processor
seconds, medians of interleaved repeats, on one thread. C and gamma are the defaults, and those of a `kernel_search` on
1,500 rows; of `blocks` and `towns` those that their cells ask for.

Rows of bytes (`kernels/packed_rows.py`) need AVX-512 VNNI: they are measured where the processor has it.
Spatial order reached 1.3 on one of its two data sets only.
Run as `python -m benchmarks.kernel_ablations`; see README.md here.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.common import ROOT, MissingDataError, interleave, machine, one_thread, parser, show, skipped, write
from widemargin import KernelSVC, kernel_search
from widemargin._byte_dots import has_instruction
from widemargin.datasets import data_folder

Rows = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

WORTH = 1.3


def one_hot(n: int = 20_000, columns: int = 14, values: int = 8) -> Rows:
    """Nominal columns, one-hot; two pairs of them interact."""
    rng = np.random.default_rng(3)
    cell = rng.integers(values, size=(n, columns))
    X = np.zeros((n, columns * values))
    X[np.arange(n)[:, None], np.arange(columns) * values + cell] = 1.0
    score, pair = X @ rng.normal(size=columns * values), rng.normal(size=(values, values))
    score += 1.5 * pair[cell[:, 0], cell[:, 1]] + 1.5 * pair[cell[:, 2], cell[:, 3]] + 0.7 * rng.logistic(size=n)
    return X, (score > np.median(score)).astype(int)


def counts(n: int = 15_000, words: int = 400, topics: int = 12) -> Rows:
    """Counts of words in short texts of mixed topics."""
    rng = np.random.default_rng(7)
    topic, mix = rng.dirichlet(np.full(words, 0.08), size=topics), rng.dirichlet(np.full(topics, 0.3), size=n)
    X = rng.poisson(60.0 * mix @ topic).astype(float)
    score = mix @ rng.normal(size=topics) + 0.15 * rng.normal(size=n)
    return X, (score > np.median(score)).astype(int)


def images(n: int = 10_000, faintest: int = 20) -> Rows:
    """Rings and crosses of random place, size and thickness, 28 x 28 bytes; those below the faintest are 0."""
    rng = np.random.default_rng(5)
    down, across = np.mgrid[0:28, 0:28]
    X, y = np.empty((n, 784)), rng.integers(2, size=n)
    for i in range(n):
        x0, y0 = rng.normal(14, 2, 2)
        radius, thick, angle = rng.uniform(4, 9), rng.uniform(0.7, 1.6), rng.uniform(0, np.pi)
        u = (down - x0) * np.cos(angle) + (across - y0) * np.sin(angle)
        v = (across - y0) * np.cos(angle) - (down - x0) * np.sin(angle)
        far = np.hypot(u, v * rng.uniform(0.6, 1.0))
        away = np.abs(far - radius) if y[i] else np.where(far < radius + 1, np.minimum(np.abs(u), np.abs(v)), 9.0)
        shade = 255.0 * np.exp(-((away / thick) ** 2))
        X[i] = np.where(shade < faintest, 0.0, np.floor(shade)).ravel() / 255.0
    return X, y


def textures(n: int = 10_000, side: int = 24) -> Rows:
    """Gratings of any place and wavelength under noise, as bytes; the classes differ in the slant."""
    rng = np.random.default_rng(19)
    down, across = np.mgrid[0:side, 0:side]
    X, y = np.empty((n, side * side)), rng.integers(2, size=n)
    for i in range(n):
        slant, wave, phase = rng.normal(0.6 + 0.5 * y[i], 0.25), rng.uniform(5, 9), rng.uniform(0, 2 * np.pi)
        grating = np.sin(2 * np.pi * (down * np.sin(slant) + across * np.cos(slant)) / wave + phase)
        X[i] = (127.5 + 90.0 * grating + 25.0 * rng.normal(size=(side, side))).ravel()
    return np.clip(np.floor(X), 0.0, 255.0) / 255.0, y


def board(n: int, columns: int, cells: int, seed: int) -> Rows:
    """A checkerboard with 3% of the labels wrong."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, columns))
    y = np.floor(cells * X).sum(axis=1).astype(int) % 2
    return X, np.where(rng.random(n) < 0.03, 1 - y, y)


def spirals(n: int = 20_000) -> Rows:
    """Two spirals, blurred."""
    rng = np.random.default_rng(13)
    turn, y = np.sqrt(rng.random(n)) * 4 * np.pi, rng.integers(2, size=n)
    X = np.c_[turn * np.cos(turn + np.pi * y), turn * np.sin(turn + np.pi * y)] + 0.5 * rng.normal(size=(n, 2))
    return X / 10.0, y


def clusters(n: int = 20_000, columns: int = 6, centres: int = 60) -> Rows:
    """Clusters of either class."""
    rng = np.random.default_rng(17)
    centre, of = 2.0 * rng.normal(size=(centres, columns)), rng.integers(centres, size=n)
    return centre[of] + 0.6 * rng.normal(size=(n, columns)), of % 2


def towns(n: int = 40_000, columns: int = 3, centres: int = 800) -> Rows:
    """Many small clusters, each of one class, 2% of the labels wrong."""
    rng = np.random.default_rng(41)
    centre, of = rng.random((centres, columns)), rng.integers(centres, size=n)
    y = rng.integers(2, size=centres)[of]
    return centre[of] + 0.02 * rng.normal(size=(n, columns)), np.where(rng.random(n) < 0.02, 1 - y, y)


def located(options: argparse.Namespace, path: str) -> Path:
    """A file of the data folder; asked for before anything is measured."""
    folder = data_folder(options.data) or ROOT.parent / "shared" / "data"
    if not (folder / path).is_file():
        raise MissingDataError(f"there is no {path} in {folder}.")
    return folder / path


def public(path: Path, columns: int) -> Rows:
    """A file of LIBSVM's form, dense; letters A to M against N to Z."""
    X, y = load_svmlight_file(path, n_features=columns)
    letters = np.unique(y).shape[0] > 2
    return (X.toarray() / 15.0, (y <= 13).astype(int)) if letters else (X.toarray(), y)


@contextmanager
def products(zeros: bool, byte_rows: bool) -> Iterator[None]:
    """Products that leave entries out that are 0, and those of bytes, or neither: BLAS for all dense rows."""
    with ExitStack() as stack:
        if not zeros:
            stack.enter_context(patch("widemargin.kernels.packed_rows.is_mostly_zero", return_value=False))
        if not byte_rows:
            stack.enter_context(patch("widemargin.kernels.packed_rows.byte_rows_of", return_value=None))
        yield


def fit(rows: Rows, *, zeros: bool = True, byte_rows: bool = True, **parameters: Any) -> KernelSVC:
    """A whole fit."""
    with warnings.catch_warnings(), products(zeros, byte_rows):
        warnings.simplefilter("ignore")
        return KernelSVC(random_state=0, **parameters).fit(*rows)


WITHOUT: dict[str, dict[str, Any]] = {
    "entries that are 0 left out": {"zeros": False},
    "rows of bytes": {"byte_rows": False},
    "nested subsamples": {"solver": "dual"},
    "spatial order": {"solver": "nested-dual"},
}
"""The devices, and what a fit without one is given."""


def cases(options: argparse.Namespace) -> list[tuple[str, str, Callable[[], Rows], dict[str, float] | None]]:
    """Device, data set, how its rows are made, and its parameters (None: the defaults, and those of a search)."""
    zeros, byte_rows, nested, spatial = WITHOUT
    narrow = {"C": 10.0, "gamma": 500.0}
    if options.quick:
        return [(zeros, "one-hot", partial(one_hot, 300), {"C": 1.0}),
                (nested, "board", partial(board, 300, 2, 3, 0), {"C": 1.0})]  # fmt: skip
    # The unit of bytes is read off the smallest number, so these images have shades of 1, as scanned ones do.
    drawn_bytes: list[tuple[str, Callable[[], Rows]]] = [
        ("counts", counts), ("images, all shades", partial(images, faintest=1)), ("textures", textures),
    ]  # fmt: skip
    return [
        *((byte_rows, name, make, None) for name, make in drawn_bytes if has_instruction()),
        (zeros, "mushrooms", partial(public, located(options, "binary/mushrooms.libsvm.gz"), 112), None),
        (zeros, "one-hot", one_hot, None),
        (zeros, "counts", counts, None),
        (zeros, "images", images, None),
        (nested, "board, 2 columns", partial(board, 30_000, 2, 4, 11), None),
        (nested, "board, 3 columns", partial(board, 30_000, 3, 3, 23), None),
        (nested, "spirals", spirals, None),
        (nested, "clusters", clusters, None),
        (nested, "letter", partial(public, located(options, "multiclass/letter.libsvm.gz"), 16), None),
        (spatial, "blocks", partial(board, 50_000, 2, 16, 37), narrow),
        (spatial, "towns", towns, narrow),
    ]


def measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Processor seconds of every case with its device and without it."""
    found = []
    for device, name, make, given in cases(options):
        rows = make()
        searched = given or kernel_search(KernelSVC(), *rows, n_rows=1500, random_state=0).best_params
        for setting, parameters in [("given", given)] if given else [("defaults", {}), ("searched", searched)]:
            with_it, without = dict(parameters or {}), dict(parameters or {}) | WITHOUT[device]
            if device.startswith(("entries", "rows")):  # the same solver on both sides
                with_it["solver"] = without["solver"] = "dual"  # type: ignore[assignment]
            if "zeros" in without:  # what is left of them where bytes are not multiplied
                with_it["byte_rows"] = without["byte_rows"] = False
            runs = interleave(
                {"with": partial(fit, rows, **with_it), "without": partial(fit, rows, **without)},
                1 if options.quick else options.repeats, warm_up=options.quick,
            )  # fmt: skip
            seconds = {side: run.processor_median for side, run in runs.items()}
            found.append({
                "device": device, "data": name, "rows": rows[0].shape[0], "columns": rows[0].shape[1],
                "setting": setting, "with_s": seconds["with"], "without_s": seconds["without"],
                "times": seconds["without"] / seconds["with"],
            })  # fmt: skip
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all cases; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.set_defaults(repeats=3)
    options = made.parse_args(arguments)
    about = machine()
    try:
        with one_thread():
            found = measured(options)
    except MissingDataError as error:
        return skipped(error)
    cells = [[f"{value:.3g}" if isinstance(value, float) else value for value in row.values()] for row in found]
    section = show(f"A device stays where it is {WORTH} times as fast on two of these", list(found[0]), cells)
    write(options, "kernel_ablations", {"machine": about, "cases": found}, [section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
