"""Row blocks, in this process, in joblib's or on a Dask cluster: one small interface, three back ends.

A computation over blocks asks for three things only: call a function on every block, add up what it returns, send a
message to all. `SerialMap`, `JoblibMap` and `DaskMap` answer alike, to the last bit, because all of them add in the
same order. See `BlockMap`.

Dask itself is imported where it is needed.
"""

from widemargin.distributed.backends import JoblibMap, JoinedMap, SerialMap
from widemargin.distributed.blocks import Block, BlockMap
from widemargin.distributed.dask_map import DaskMap
from widemargin.distributed.predict import predict_files, predict_in_blocks
from widemargin.distributed.recipes import (
    ArrayRows,
    FramePartition,
    NpyRows,
    ParquetRows,
    Recipe,
    array_rows,
    frame_partitions,
    npy_rows,
    parquet_rows,
    spool,
)  # fmt: skip
from widemargin.distributed.tables import labelled_parquet, labelled_rows
from widemargin.distributed.workers import block_map, side_by_side

__all__ = [
    "ArrayRows", "Block", "BlockMap", "DaskMap", "FramePartition", "JoblibMap", "JoinedMap", "NpyRows", "ParquetRows",
    "Recipe", "SerialMap", "array_rows", "block_map", "frame_partitions", "labelled_parquet", "labelled_rows",
    "npy_rows", "parquet_rows", "predict_files", "predict_in_blocks", "side_by_side", "spool",
]  # fmt: skip
