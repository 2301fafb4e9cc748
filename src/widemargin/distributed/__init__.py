"""Row blocks, in this process, in joblib's or on a Dask cluster: one small interface, three back ends.

A computation over blocks asks for three things only: call a function on every block, add up what it returns, send a
message to all. `SerialMap`, `JoblibMap` and `DaskMap` answer alike, to the last bit, because all of them add in the
same order. See `BlockMap`.

Names are imported when they are first used, Dask where it is needed.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from widemargin.distributed.backends import JoblibMap as JoblibMap
    from widemargin.distributed.backends import JoinedMap as JoinedMap
    from widemargin.distributed.backends import SerialMap as SerialMap
    from widemargin.distributed.blocks import Block as Block
    from widemargin.distributed.blocks import BlockMap as BlockMap
    from widemargin.distributed.dask_map import DaskMap as DaskMap
    from widemargin.distributed.predict import predict_files as predict_files
    from widemargin.distributed.predict import predict_in_blocks as predict_in_blocks
    from widemargin.distributed.recipes import ArrayRows as ArrayRows
    from widemargin.distributed.recipes import FramePartition as FramePartition
    from widemargin.distributed.recipes import NpyRows as NpyRows
    from widemargin.distributed.recipes import ParquetRows as ParquetRows
    from widemargin.distributed.recipes import Recipe as Recipe
    from widemargin.distributed.recipes import array_rows as array_rows
    from widemargin.distributed.recipes import frame_partitions as frame_partitions
    from widemargin.distributed.recipes import npy_rows as npy_rows
    from widemargin.distributed.recipes import parquet_rows as parquet_rows
    from widemargin.distributed.recipes import spool as spool
    from widemargin.distributed.sweep import side_by_side as side_by_side
    from widemargin.distributed.tables import labelled_parquet as labelled_parquet
    from widemargin.distributed.tables import labelled_rows as labelled_rows
    from widemargin.distributed.workers import block_map as block_map

_HOMES = {
    "backends": ("JoblibMap", "JoinedMap", "SerialMap"),
    "blocks": ("Block", "BlockMap"),
    "dask_map": ("DaskMap",),
    "tables": ("labelled_parquet", "labelled_rows"),
    "predict": ("predict_files", "predict_in_blocks"),
    "recipes": (
        "ArrayRows", "FramePartition", "NpyRows", "ParquetRows", "Recipe", "array_rows", "frame_partitions", "npy_rows",
        "parquet_rows", "spool",
    ),
    "sweep": ("side_by_side",),
    "workers": ("block_map",),
}  # fmt: skip

__all__ = [
    "ArrayRows", "Block", "BlockMap", "DaskMap", "FramePartition", "JoblibMap", "JoinedMap", "NpyRows", "ParquetRows",
    "Recipe", "SerialMap", "array_rows", "block_map", "frame_partitions", "labelled_parquet", "labelled_rows",
    "npy_rows", "parquet_rows", "predict_files", "predict_in_blocks", "side_by_side", "spool",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"widemargin.distributed.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'widemargin.distributed' has no attribute {name!r}")
