"""Build networks of a single layer for benchmarks of the VTA backend."""

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from ceras_ir.backends.vta.execution.image import VtaImage, build_image
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.passes.fold_packing import FoldPackingPass
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.placement import PlacePass

S3_GEMMS = (
    (128, 128, 128),
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (4096, 576, 64),
    (1024, 1152, 128),
    (256, 1152, 128),
    (256, 2304, 256),
    (64, 2304, 512),
    (64, 4608, 512),
)
"""The M, K, N of Table 2 of S3."""


def gemm(m: int, k: int, n: int) -> tuple[ModuleOp, NDArray[np.int8], NDArray[np.int8]]:
    """
    Return a matrix product with shift and clamp, the input and the weights, from a fixed seed.
    """
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (m, k)).astype(np.int8)
    w = rng.integers(-128, 128, (n, k)).astype(np.int8)
    int8 = UniformType(0.5)
    block = Block(arg_types=[TensorType(int8, x.shape)])
    block.add_op(weights := graph.ConstantOp.from_array(w, int8))
    requant = RequantAttr(9, rounding=Rounding.FLOOR)
    operands = (block.args[0], weights.result)
    block.add_op(op := graph.MatmulOp(*operands, result_element=int8, requant=requant))
    block.add_op(ReturnOp(op.result))
    kinds = ([block.args[0].type], [op.result.type])
    return ModuleOp([FuncOp("main", kinds, Region(block))]), x, w


def lowered(module: ModuleOp, tile: TilePass) -> VtaImage:
    """Return the streams of `module`, which is changed."""
    passes = (
        PlacePass(target="vta"),
        ConvertGraphToTilePass(),
        FoldPackingPass(),
        tile,
        AllocateBlocksPass(alignment=256),
    )
    for pass_ in passes:
        pass_.apply(Context(), module)
    return build_image(module, load_board(tile.board))


def convolution(
    size: int, channels: tuple[int, int], kernel: int, stride: int = 1, dilation: int = 1
) -> ModuleOp:
    """Return a square convolution from `channels[0]` to `channels[1]`, padded evenly."""
    rng, pad, int8 = np.random.default_rng(0), (kernel - 1) * dilation // 2, UniformType(0.5)
    w = rng.integers(-128, 128, (channels[1], kernel, kernel, channels[0])).astype(np.int8)
    block = Block(arg_types=[TensorType(int8, (1, size, size, channels[0]))])
    block.add_op(weights := graph.ConstantOp.from_array(w, int8))
    op = graph.Conv2dOp(
        block.args[0],
        weights.result,
        result_element=int8,
        strides=(stride, stride),
        padding=(pad,) * 4,
        dilations=(dilation, dilation),
        requant=RequantAttr(9),
    )
    block.add_op(op)
    block.add_op(ReturnOp(op.result))
    kinds = ([block.args[0].type], [op.result.type])
    return ModuleOp([FuncOp("main", kinds, Region(block))])
