"""Model files with one changed array and a right checksum, read and asked in a process that may die of it.

With the checksum of the day it was saved every change of a file is an error. Whoever computes a new one can write any
valid model, so a changed coefficient is no fault. What is asked for is that no process ends by a signal, that what is
read can be asked, and that arrays of other shapes and indices that lead nowhere are refused where the model is read.
"""

import contextlib
import io
import json
import os
import warnings
import zipfile
from typing import NamedTuple

import numpy as np
import skops.io
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from widemargin.exceptions import ModelFileError
from widemargin.persistence import load_plain_model, save_model
from widemargin.persistence.container import pack, unpack, unpack_plain

NUMBERS = {
    "f": (np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, 1e-300),
    "i": (-1, -2, 5_000, 10**8, 2**31 - 1, -(2**31), 1),
    "u": (5_000, 2**31 - 1),
    "b": (True, False),
}
TYPES = ("float32", "float16", ">f8", "int8", "int64", "uint8", "bool", "complex128", "U3")
SHAPES = {
    "without the last": lambda a: a[:-1],
    "with one more": lambda a: np.concatenate([a, a[-1:]]),
    "without a column": lambda a: a[..., :-1],
    "with one more column": lambda a: np.concatenate([a, a[..., -1:]], axis=-1),
    "transposed": lambda a: a.T,
    "flat": lambda a: a.ravel(),
    "deeper": lambda a: a[None],
    "empty": lambda a: a[:0],
    "one number": lambda a: np.zeros((), a.dtype),
    "doubled": lambda a: np.concatenate([a, a]),
}


class Fate(NamedTuple):
    """What came of a changed file."""

    change: str
    end: str  # "refused", "same", "other" (other answers), "error TYPE: TEXT" or "signal N"


def changed_parts(parts, rng):
    """A changed copy of the parts of a model file, and what was changed; None where the change changes nothing."""
    name = rng.choice([name for name in parts if name.endswith((".npy", ".npz"))])
    held = np.load(io.BytesIO(parts[name]), allow_pickle=False)
    arrays = dict(held) if name.endswith(".npz") else {"": held}
    member = rng.choice(list(arrays))
    before = arrays[member]
    kind, after = rng.choice(["value", "value", "shape", "shape", "type"]), before.copy()
    how, field = "nothing", rng.choice(before.dtype.names or [""])
    values = after[field] if field else after
    if kind == "value" and values.size and values.dtype.kind in NUMBERS:
        place, number = int(rng.integers(values.size)), rng.choice(np.array(NUMBERS[values.dtype.kind], dtype=object))
        info = np.iinfo(values.dtype) if values.dtype.kind in "iu" else None
        values.flat[place] = number if info is None else min(max(number, info.min), info.max)
        how = f"{field}[{place}] = {number}"
    elif kind == "shape" and after.ndim:
        how = rng.choice(list(SHAPES))
        after = SHAPES[how](after)
    elif kind == "type":
        how = rng.choice(TYPES)
        with contextlib.suppress(ValueError, TypeError), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            after = after.astype(how)
    if after.dtype == before.dtype and np.array_equal(after, before):
        return None
    arrays[member] = after
    changed = io.BytesIO()
    if name.endswith(".npz"):
        np.savez(changed, **arrays)
    else:
        np.save(changed, after)
    place = _place_of(json.loads(parts["schema.json"]), name)
    return {**parts, name: changed.getvalue()}, f"{place} {member} {before.dtype.char} {before.shape}: {kind} {how}"


def _place_of(node, file, place="model"):
    """Where in a model the array of a part of the file is."""
    if isinstance(node, dict):
        if node.get("file") == file:
            return place
        children = [(place if key == "content" else f"{place}.{key}", value) for key, value in node.items()]
    else:
        children = [(f"{place}[{i}]", value) for i, value in enumerate(node)] if isinstance(node, list) else []
    return next((found for where, child in children if (found := _place_of(child, file, where))), None)


def fates(model, X, folder, *, n=50, seed=0):
    """What comes of `n` changes of the arrays of a saved model: of the reading, and of the answers to rows X."""
    path = folder / "model.skops"
    _shorten_history(model)
    if isinstance(model, DecisionTreeClassifier):  # of the estimators that only files of plain skops may hold
        skops.io.dump(model, path)
        parts = unpack_plain(path.read_bytes(), "model")
    else:
        save_model(model, path)
        parts = unpack(path.read_bytes(), "model")
    rng, changes = np.random.default_rng(seed), []
    while len(changes) < n:
        change = changed_parts(parts, rng)
        changes += [] if change is None else [change]
    expected, found = _answers(model, X), []
    while len(found) < n:  # one child asks as many as it survives
        found += _survived(changes[len(found) :], X, expected, path)
    return found


def _shorten_history(model):
    """The course of training holds no arrays, and is most of what a reader builds."""
    for part in (model, getattr(model, "best_estimator_", None), *(step for _, step in getattr(model, "steps", ()))):
        if "history_" in getattr(part, "__dict__", {}):
            part.history_ = part.history_[:1]


def _plain_archive(parts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _answers(model, X):
    answers = [list(map(np.asarray, model.predict(X)))]
    if hasattr(model, "decision_function"):
        answers.append([np.asarray(model.decision_function(X))])
    return answers


def _fate(path, X, expected):
    try:
        model = load_plain_model(path)
    except ModelFileError:
        return "refused"
    try:
        answers = _answers(model, X)
    except Exception as error:
        return f"error {type(error).__name__}: {error}"[:200].replace("\n", " ")
    if [len(answer) for answer in answers] != [len(answer) for answer in expected]:
        return "other"
    same = all(
        a.tolist() == b.tolist()  # of words and numbers, which older NumPy refuses to compare
        for one, other in zip(answers, expected, strict=True)
        for a, b in zip(one, other, strict=True)
    )
    return "same" if same else "other"


def _survived(changes, X, expected, path):
    """Fates of the changes up to the one that ends the child, which is among them."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: this child starts none
        child = os.fork()
    if not child:
        try:
            os.close(reader)
            warnings.simplefilter("ignore")
            # A fork has none of its parent's OpenMP threads, and a parallel loop of boosted trees would wait for them.
            threadpool_limits(1)
            with open(writer, "w") as stream:
                for parts, _ in changes:
                    path.write_bytes(pack(parts) if "widemargin.json" in parts else _plain_archive(parts))
                    print(_fate(path, X, expected), file=stream, flush=True)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    with open(reader) as stream:
        ends = stream.read().splitlines()
    _, status = os.waitpid(child, 0)
    if status:
        ends.append(f"signal {os.waitstatus_to_exitcode(status)}")
    return [Fate(change, end) for (_, change), end in zip(changes, ends, strict=False)]
