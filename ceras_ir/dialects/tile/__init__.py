"""
The `tile` dialect: blocks of a network on an accelerator with a matrix intrinsic.

It specifies memories, boxes of vectors and order, but not the encoding of instructions. Scratchpads
are `memref.alloc` in memory spaces "inp" (int8 vectors, [rows][lanes]), "wgt" (int8 tiles,
[out][in]) and "acc" (int32 vectors); loops are `scf.for`, indices `arith`. Types specify the
numbers of rows and lanes of the intrinsic. A packed buffer has blocks of B channels: [N, C/B, H, W,
B]. If vectors have R rows, all shapes except those of weights end with [R, B] instead of [B], N
counts groups of R images, and all rows of a constant are equal. Arithmetic is in int32, and `>>`
rounds down.
"""

from xdsl.ir import Dialect

from ceras_ir.dialects.tile.compute import (
    AluAttr,
    AluFunction,
    AluOp,
    AveragePoolOp,
    ClearOp,
    GemmOp,
    MaxPoolOp,
)
from ceras_ir.dialects.tile.convolution import Conv2dOp, WindowMaximum
from ceras_ir.dialects.tile.memory import (
    LoadOp,
    Order,
    OrderAttr,
    RotateOp,
    ScheduleAttr,
    StoreOp,
    ViewOp,
    memref_type,
    space_of,
    vector_of,
    vectors_in,
)

Tile = Dialect(
    "tile",
    [Conv2dOp, MaxPoolOp, AveragePoolOp, ViewOp, RotateOp, LoadOp, StoreOp, ClearOp, GemmOp, AluOp],
    [ScheduleAttr, AluAttr, OrderAttr],
)

__all__ = [
    "AluFunction",
    "AluOp",
    "AveragePoolOp",
    "ClearOp",
    "Conv2dOp",
    "GemmOp",
    "LoadOp",
    "MaxPoolOp",
    "Order",
    "RotateOp",
    "ScheduleAttr",
    "StoreOp",
    "Tile",
    "ViewOp",
    "WindowMaximum",
    "memref_type",
    "space_of",
    "vector_of",
    "vectors_in",
]
