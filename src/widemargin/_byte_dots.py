"""Dot products of bytes, four at a time: one instruction of x86-64 with AVX-512 VNNI multiplies and adds 64 pairs.

`tile_dots` is plain Python; compiled code takes the instruction in its place, where the processor has it, and these
loops elsewhere. The sums are whole numbers, so both are exact. The instruction is written as assembly because numba's
LLVM does not find it in loops, and its own name for it changes between versions. (`_numba` counts this file among the
sources whose compiled code is cached.)
"""

import platform
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from widemargin._typing import Signs

_VECTORS, _LANES = 8, 16
COLUMNS = _VECTORS * _LANES
"""Columns of a tile: their sums stay in eight registers."""


@cache
def has_instruction() -> bool:
    """Whether this processor multiplies bytes by AVX-512 VNNI, and numba compiles for it; LLVM takes a millisecond."""
    host = config.CPU_NAME is None and config.CPU_FEATURES is None and config.ENABLE_AVX and not config.DISABLE_JIT
    known = host and platform.machine().lower() in ("x86_64", "amd64")
    return bool(known and binding.get_host_cpu_features().get("avx512vnni", False))


def tile_dots(
    tile: Signs, group: npt.NDArray[np.int32], word: npt.NDArray[np.uint32], first: int, last: int,
    sums: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """Set `sums[c]` to `sum_k sum_b word[k].byte[b] * tile[group[k], 4 c + b]`, k from first to last.

    Parameters
    ----------
    tile : ndarray of int8, shape (groups, 4 COLUMNS)
        Four columns of the data are a group; byte b of group g of row c stands at `[g, 4 c + b]`.
    group, word : ndarray of int32 and of uint32
        Groups that are not all 0 of a row, and their four unsigned bytes, the lowest first.
    first, last : int
    sums : ndarray of int32, shape (COLUMNS,)
    """
    sums[:] = 0
    for k in range(first, last):
        for b in range(4):
            byte = (np.int64(word[k]) >> (8 * b)) & 255
            for c in range(sums.shape[0]):
                sums[c] += np.int32(byte * np.int64(tile[group[k], 4 * c + b]))


# Not strict, because numba would compare the types written here and there, which are no types of numba.
@overload(tile_dots, strict=False)  # type: ignore[untyped-decorator]
def _compiled_tile_dots(tile: Any, group: Any, word: Any, first: Any, last: Any, sums: Any) -> Any:
    if not has_instruction():
        return tile_dots
    binding.initialize_native_asmparser()

    def by_instruction(tile: Any, group: Any, word: Any, first: Any, last: Any, sums: Any) -> None:
        _dots(tile, group, word, first, last, sums)

    return by_instruction


@intrinsic  # type: ignore[untyped-decorator]
def _dots(typing: Any, tile: Any, group: Any, word: Any, first: Any, last: Any, sums: Any) -> Any:
    """`tile_dots` on contiguous arrays."""
    signature = types.void(tile, group, word, types.intp, types.intp, sums)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        i32, i64 = ir.IntType(32), ir.IntType(64)
        vector = ir.VectorType(i32, _LANES)
        multiply_add = ir.FunctionType(vector, [vector, vector, vector])
        nothing, all_first = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0] * _LANES)

        def start(number: int) -> Any:
            array = context.make_array(signature.args[number])(context, builder, arguments[number])
            return builder.ptrtoint(array.data, i64)

        def at(address: Any, offset: Any, kind: Any) -> Any:
            return builder.inttoptr(builder.add(address, offset), kind.as_pointer())

        tile, group, word, sums = (start(number) for number in (0, 1, 2, 5))
        first, last = arguments[3:5]
        totals = [cgutils.alloca_once_value(builder, all_first) for _ in range(_VECTORS)]
        with cgutils.for_range_slice(builder, first, last, i64(1)) as (index, _):
            here = builder.mul(index, i64(4))
            number = builder.sext(builder.load(at(group, here, i32)), i64)
            begin = builder.mul(number, i64(4 * COLUMNS))
            four = builder.insert_element(nothing, builder.load(at(word, here, i32)), i32(0))
            everywhere = builder.shuffle_vector(four, nothing, all_first)
            for v, total in enumerate(totals):
                bytes_ = builder.load(at(tile, builder.add(begin, i64(4 * _LANES * v)), vector), align=1)
                operands = [builder.load(total), everywhere, bytes_]
                builder.store(builder.asm(multiply_add, "vpdpbusd $3, $2, $0", "=v,0,v,v", operands, False), total)
        for v, total in enumerate(totals):
            builder.store(builder.load(total), at(sums, i64(4 * _LANES * v), vector), align=1)
        return context.get_dummy_value()

    return signature, code
