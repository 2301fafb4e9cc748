"""ONNX graphs: nodes and constants, kernel values, feature maps; all in double precision."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Floats
from widemargin.exceptions import CapabilityError

__all__ = ["KERNELS", "Builder", "KernelForm", "as_dense", "kernel_values", "mapped"]

KERNELS = ("linear", "rbf", "poly", "sigmoid")
"""Those that have a form here."""


class KernelForm(NamedTuple):
    """A kernel between rows and some vectors, shape (m, d)."""

    name: str
    vectors: Floats
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 0.0


class Builder:
    """Collects the nodes and constants of a graph."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any) -> str:
        """Name of a constant."""
        name = f"widemargin/c{len(self.constants)}"
        self.constants.append(self.numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, operator: str, *inputs: str, name: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Name of the output of a new node."""
        output = name or f"widemargin/n{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(inputs), [output], domain=domain, **attributes))
        return output


def as_dense(values: Any) -> Floats:
    """An array in double precision."""
    return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)


def kernel_values(to: Builder, rows: str, kernel: KernelForm) -> str:
    """Kernel values of rows, shape (n, d), with the vectors, shape (n, m)."""
    products = to.add("MatMul", rows, to.constant(kernel.vectors.T))
    if kernel.name == "linear":
        return products
    gamma = to.constant(kernel.gamma)
    if kernel.name == "rbf":
        own = to.add("ReduceSumSquare", rows, axes=[1], keepdims=1)
        norms = to.constant((kernel.vectors**2).sum(axis=1)[None, :])
        distance = to.add("Sub", to.add("Add", own, norms), to.add("Mul", to.constant(2.0), products))
        nearest = to.add("Max", distance, to.constant(0.0))
        return to.add("Exp", to.add("Neg", to.add("Mul", gamma, nearest)))
    inner = to.add("Add", to.add("Mul", gamma, products), to.constant(kernel.coef0))
    if kernel.name == "poly":
        return to.add("Pow", inner, to.constant(kernel.degree))
    # tanh(z) = 2 / (1 + exp(-2 z)) - 1: onnxruntime has no Tanh for doubles
    falling = to.add("Exp", to.add("Mul", to.constant(-2.0), inner))
    share = to.add("Div", to.constant(2.0), to.add("Add", to.constant(1.0), falling))
    return to.add("Sub", share, to.constant(1.0))


def mapped(to: Builder, rows: str, feature_map: Any, model: str) -> str:
    """Features of rows by a fitted `RBFSampler` or `Nystroem`.

    Raises
    ------
    CapabilityError
        The map, or its kernel, has no form here.
    """
    kind = type(feature_map).__name__
    if kind == "RBFSampler":
        weights, offset = (
            as_dense(feature_map.random_weights_),
            np.asarray(feature_map.random_offset_, dtype=np.float64),
        )
        # cos z = sin(z + pi/2): most versions of onnxruntime have no Cos for doubles
        ahead = to.constant(offset[None, :] + 0.5 * np.pi)
        angle = to.add("Add", to.add("MatMul", rows, to.constant(weights)), ahead)
        size = to.constant(float(np.sqrt(2.0 / weights.shape[1])))
        return to.add("Mul", to.add("Sin", angle), size)
    if kind != "Nystroem" or feature_map.kernel not in KERNELS:
        what = (
            f"the kernel {feature_map.kernel!r} of a feature map" if kind == "Nystroem" else f"the feature map {kind}"
        )
        raise CapabilityError(
            f"{model}: {what} cannot be written as ONNX; random Fourier features and Nystroem's of the kernels "
            f"{', '.join(KERNELS)} can. Use one of them, or save_model."
        )
    vectors = as_dense(feature_map.components_)
    given = {"gamma": feature_map.gamma, "degree": feature_map.degree, "coef0": feature_map.coef0}
    usual = {"gamma": 1.0 / vectors.shape[1], "degree": 3.0, "coef0": 1.0}  # scikit-learn's where none is given
    settled = {name: float(usual[name] if value is None else value) for name, value in given.items()}
    values = kernel_values(to, rows, KernelForm(feature_map.kernel, vectors, **settled))
    return to.add("MatMul", values, to.constant(as_dense(feature_map.normalization_).T))
