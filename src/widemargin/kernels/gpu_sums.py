"""A weighted sum of kernel rows on a GPU in one pass over them (Triton, which comes with PyTorch for such devices).

PyTorch alone would copy the rows, write them in double precision and read them again: seven times the memory traffic.
"""

from typing import Any

import torch
import triton
import triton.language as tl

WIDTH, HEIGHT = 128, 16
"""Columns of a program, and rows whose values it waits for at once."""


# Triton reads annotations as its own, so there are none of ours; and it would compile anew for kinds of `n_rows`.
@triton.jit(do_not_specialize=["n_rows"])  # type: ignore[untyped-decorator]
def _add_rows(kept, places, factors, total, n, n_rows, w: tl.constexpr, h: tl.constexpr):  # type: ignore[no-untyped-def]
    columns = tl.program_id(0) * w + tl.arange(0, w)
    sums = tl.zeros((w,), dtype=tl.float64)
    for first in range(0, n_rows, h):
        number = first + tl.arange(0, h)
        place = tl.load(places + number, mask=number < n_rows, other=0)
        factor = tl.load(factors + number, mask=number < n_rows, other=0.0)
        values = tl.load(kept + place[:, None] * n + columns[None, :], mask=columns[None, :] < n, other=0.0)
        sums += tl.sum(factor[:, None] * values.to(tl.float64), axis=0)
    tl.store(total + columns, sums, mask=columns < n)


def weighted_rows(kept: Any, places: Any, factors: Any, total: Any) -> None:
    """Set `total[j] = sum_k factors[k] kept[places[k], j]`, in double precision.

    Parameters
    ----------
    kept : tensor of float32 or float64, shape (room, n)
    places : tensor of int64, shape (k,)
    factors : tensor of float64, shape (k,)
    total : tensor of float64, shape (n,)
    """
    n = kept.shape[1]
    with torch.cuda.device_of(kept):  # Triton works on the present device, which may be another one
        _add_rows[(triton.cdiv(n, WIDTH),)](kept, places, factors, total, n, places.shape[0], WIDTH, HEIGHT)
