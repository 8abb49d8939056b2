"""
Replace operations by launches of kernels, and pack their constants in the layout of the board.

Launches of equal kernels share a function: a `KernelTable` holds the kernels of a module. B is the
number of lanes (channels) of a vector; weights are tiles of B x B.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.traits import SymbolTable
from xdsl.utils.hints import isa

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.isa import RESIDUAL_WEIGHT_BITS
from ceras_ir.backends.vta.rules.addition_pooling import multiplier_digits
from ceras_ir.backends.vta.rules.channel_constants import (
    border_values,
    digits,
    folded_bias,
    further_shifts,
    radix,
    widened,
)
from ceras_ir.backends.vta.schedule.contraction import Contraction, borders_of
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.graph.operation import Tensor
from ceras_ir.dialects.mem import packing
from ceras_ir.dialects.quant import UniformType
from ceras_ir.dialects.sparse import MASK
from ceras_ir.network.integer import Averaging

Array = NDArray[np.generic]


def packed_weights(op: graph.LinearOperation, board: VtaBoard) -> graph.ConstantOp:
    """
    Return the weights [O, KH, KW, C] or [N, K] of `op` packed as tiles [O/B, C/B, KH, KW, B out, B
    in], with zeros in padded lanes and between groups. B is the number of lanes of the board.
    """
    plain, lanes = graph.known_array(op.weights), board.block
    if isinstance(op, graph.Conv2dOp):
        plain = widened(op, plain, lanes)
    if plain.ndim == 2:
        plain = plain[:, None, None, :]
    o, kh, kw, c = plain.shape
    padded = np.pad(plain, ((0, -o % lanes), (0, 0), (0, 0), (0, -c % lanes)))
    split = padded.reshape(-1, lanes, kh, kw, padded.shape[3] // lanes, lanes)
    tiles = np.ascontiguousarray(split.transpose(0, 4, 2, 3, 1, 5))
    return graph.ConstantOp.from_array(tiles, UniformType(_scale(op.weights)))


def packed_bias(op: graph.LinearOperation, shape: Contraction, board: VtaBoard) -> graph.ConstantOp:
    """
    Pack the bias as int32 vectors of the accelerator, or as int8 digits in `shape.bias_tiles`
    weight tiles if this is not 0. The compiler includes the contribution of the zero points, and
    half a unit of the shift, so that a shift that rounds down gives a result that is rounded half
    up.
    """
    scale = _scale(op.input) * _scale(op.weights)
    return _packed_constants(folded_bias(op), board, shape.bias_tiles, scale)


def packed_shifts(op: graph.LinearOperation, board: VtaBoard) -> graph.ConstantOp:
    """
    Pack the right shift of each output channel in vectors like the bias. The shift that all
    channels have in common is subtracted, because another instruction applies it.
    """
    assert op.requant is not None
    return _vectors(np.array(further_shifts(op.requant), np.int64), board)


def uniform_shifts(op: graph.LinearOperation, board: VtaBoard) -> tuple[int, ...]:
    """
    Return an integer for each vector of `packed_shifts`: the shift, if it is equal for all channels
    of the vector, else -1.
    """
    assert op.requant is not None
    shifts = np.array(further_shifts(op.requant), np.int64)
    blocks = np.pad(shifts, (0, -len(shifts) % board.block), "edge").reshape(-1, board.block)
    is_uniform = blocks.min(axis=1) == blocks.max(axis=1)
    return tuple(np.where(is_uniform, blocks[:, 0], -1).tolist())


def border_sums(op: graph.LinearOperation, shape: Contraction, board: VtaBoard) -> graph.ConstantOp:
    """
    Pack corrections for output positions with padding in the window, as int32 vectors, or as int8
    digits in `shape.border_tiles` weight tiles if this is not 0. VTA pads with 0 instead of the
    zero point; the corrections are added to the sums.
    """
    values = border_values(op, borders_of(shape))
    return _packed_constants(values, board, shape.border_tiles)


def packed_radix(board: VtaBoard) -> graph.ConstantOp:
    """
    Return the place values of digits as a vector, for constants that are stored as several int8
    digits: a constant is the sum of digit times place value (see `radix` in
    `channel_constants.py`).
    """
    rows = np.broadcast_to(radix(board.block), board.vector)
    return graph.ConstantOp.from_array(np.ascontiguousarray(rows), UniformType(1.0))


def uniform_constant(value: int, *shape: int) -> graph.ConstantOp:
    array = np.full(shape, value, np.int32)
    return graph.ConstantOp.from_array(array, UniformType(1.0, storage=i32))


def residual_weights(op: graph.LinearOperation, board: VtaBoard) -> graph.ConstantOp:
    """
    Return the diagonal weight tile [B, B] that multiplies a residual by a power of two. If channels
    have different shifts, return a tile for each block of B channels, [O/B, B, B].
    """
    shifts = np.array(op.residual_shifts) - common_residual_shift(op)
    if len(shifts) == 1:
        return diagonal(1 << int(shifts[0]), board)
    lanes = np.pad(shifts, (0, -len(shifts) % board.block), "edge").reshape(-1, 1, board.block)
    tiles = np.eye(board.block, dtype=np.int64) << lanes
    return graph.ConstantOp.from_array(tiles.astype(np.int8), UniformType(1.0))


def common_residual_shift(op: graph.LinearOperation) -> int:
    """
    Return the left shift of the residual that remains for all channels after the multiplication by
    `residual_weights`; 0 if int8 weights can express all shifts.
    """
    return max(0, max(op.residual_shifts) - RESIDUAL_WEIGHT_BITS)


def diagonal(factor: int, board: VtaBoard) -> graph.ConstantOp:
    tile = np.eye(board.block, dtype=np.int64) * factor
    return graph.ConstantOp.from_array(tile.astype(np.int8), UniformType(1.0))


def averaging_weights(a: Averaging, board: VtaBoard) -> graph.ConstantOp:
    """
    Return the multiplier of an average as diagonal tiles [1 or 2, B, B], one for each int8 digit.
    """
    eye = np.eye(board.block, dtype=np.int64)
    tiles = np.stack([eye * digit for digit in multiplier_digits(a)])
    return graph.ConstantOp.from_array(tiles.astype(np.int8), UniformType(1.0))


def swish_constants(op: graph.ShiftSwishOp, board: VtaBoard) -> graph.ConstantOp:
    """
    Return the constants of `graph.shift_swish` for each channel, as `tile.conv2d` uses them: -k0 to
    -k4, then k2 and k3, packed as [7, O/B, B].
    """
    channels = graph.shape_of(op.result)[-1]
    bends = np.array(op.channel_bends, np.int32)
    rows = np.broadcast_to(bends, (channels, 5)).T
    return _vectors(np.concatenate([-rows, rows[2:4]]), board)


def _packed_constants(
    channels: NDArray[np.integer], board: VtaBoard, tiles: int, scale: float = 1.0
) -> graph.ConstantOp:
    """
    Pack per-channel constants [.., O] as [.., O/B, B] if `tiles` is 0, else as digits in T =
    `tiles` tiles, [.., O/B, T, B, B]. Added lanes repeat the last channel of a bias, so that a
    uniform bias remains uniform; in other constants they are zero.
    """
    if not tiles:
        return _vectors(channels, board, scale, "edge" if channels.ndim == 1 else "constant")
    padding = [(0, 0)] * (channels.ndim - 1) + [(0, -channels.shape[-1] % board.block)]
    padded = np.pad(channels, padding)
    vectors = padded.reshape(*channels.shape[:-1], -1, board.block)
    packed = digits(vectors, tiles, board.block).swapaxes(-3, -2)
    return graph.ConstantOp.from_array(np.ascontiguousarray(packed), UniformType(scale))


def _vectors(
    channels: NDArray[np.integer],
    board: VtaBoard,
    scale: float = 1.0,
    pad: Literal["edge", "constant"] = "edge",
) -> graph.ConstantOp:
    """
    Pack int32 values of channels [.., O] as a constant [.., O/B, B]. If vectors have R rows, it is
    [.., O/B, R, B], and the rows are equal. `scale` is the scale of the values, and `pad` fills the
    last block with the last value ("edge") or zeros ("constant").
    """
    padding = [(0, 0)] * (channels.ndim - 1) + [(0, -channels.shape[-1] % board.block)]
    padded = np.pad(channels.astype(np.int32), padding, mode=pad)
    packed = padded.reshape(*channels.shape[:-1], -1, *(1,) * (len(board.vector) - 1), board.block)
    full = np.broadcast_to(packed, (*packed.shape[: -len(board.vector)], *board.vector))
    return graph.ConstantOp.from_array(np.ascontiguousarray(full), UniformType(scale, storage=i32))


def _scale(value: SSAValue) -> float:
    element = graph.quantized_element(value)
    return 1.0 if element is None or element.is_per_axis else element.scale


LAYERS = "vta.layers"
"""
The name of the attribute of a launch with the number of successive operations that it replaces.
"""

Body = Callable[[Builder, Sequence[SSAValue]], None]
"""
A function that adds the operations of a kernel; its arguments are the builder and the buffers: the
inputs, then the output.
"""


def replaced_count(launch: mem.LaunchOp) -> int:
    """
    Return the number of operations of the placed graph (such as a convolution and a pooling) that
    the launch computes; 1 without the attribute `vta.layers`.
    """
    count = launch.attributes.get(LAYERS)
    return count.value.data if isa(count, IntegerAttr) else 1


class KernelTable:
    """
    The kernel functions of a module. Launches with equal buffer types and properties share a
    kernel.
    """

    def __init__(self, module: ModuleOp):
        self.module = module
        self._names: dict[tuple[object, ...], str] = {}

    def get(
        self, stem: str, tensors: Sequence[Tensor], properties: Mapping[str, object], body: Body
    ) -> str:
        """
        Return the name of the kernel for packed operands and a result of the types `tensors`, the
        result last. If there is no kernel with this `stem`, types and `properties` yet, `body`
        builds it as `STEM_NUMBER`.
        """
        types = [_buffer_type(tensor) for tensor in tensors]
        key = (stem, *types, *properties.items())
        if key not in self._names:
            self._names[key] = self._build(stem, types, body)
        return self._names[key]

    def _build(self, stem: str, types: Sequence[MemRefType[Attribute]], body: Body) -> str:
        count = len(self._names)
        while SymbolTable.lookup_symbol(self.module, name := f"{stem}_{count}"):
            count += 1
        function = FuncOp(name, (types, []))
        self.module.body.block.add_op(function)
        block = function.body.block
        builder = Builder(InsertPoint.at_end(block))
        body(builder, block.args)
        builder.insert(ReturnOp())
        return name


def _buffer_type(kind: Tensor) -> MemRefType[Attribute]:
    return MemRefType(
        graph.storage_type(kind.element_type), kind.get_shape(), NoneAttr(), StringAttr("dram")
    )


class Launch:
    """
    Replaces the operations `replaced` by packed inputs, constants, a launch, and an unpacked
    result.

    Only the last operation has consumers outside the group. The launch is inserted at the first
    operation, so that launches have the order of the layers.
    """

    def __init__(self, board: VtaBoard, *replaced: graph.GraphOperation):
        self.board, self.replaced, self.op = board, replaced, replaced[-1]
        self.location = replaced[0].location
        self._builder = Builder(InsertPoint.before(replaced[0]))
        self.inputs: list[SSAValue] = []

    def constant(self, new: graph.ConstantOp) -> None:
        self.inputs.append(self._insert(new))

    def pack(self, value: SSAValue) -> None:
        self.inputs.append(self._insert(mem.PackOp(value, self.board.vector)))

    def tiles(self, weights: SSAValue, bias: graph.ConstantOp, zero_point: int) -> None:
        """
        Append packed weights and a bias to the inputs of the launch, for weights that the network
        computes. The host packs them before the launch, and subtracts the contribution of
        `zero_point` from the bias.
        """
        packed = self._insert(mem.PackTilesOp(weights, self.board.block))
        constant = self._insert(bias)
        if zero_point:
            constant = self._insert(mem.FoldZeroPointOp(constant, packed, zero_point))
        self.inputs += [packed, constant]

    def _insert(self, new: graph.GraphOperation) -> SSAValue:
        new.location = self.location
        self._builder.insert(new)
        return new.output

    def run(
        self, kernels: KernelTable, stem: str, properties: Mapping[str, object], body: Body
    ) -> None:
        """
        Replace the operations by a launch of the kernel that `body` builds; `stem` and `properties`
        identify the kernel, as in `KernelTable.get`.
        """
        op = self.op
        plain = graph.tensor_type(op.output)
        shape = packing.packed_shape(plain.get_shape(), self.board.vector)
        packed = TensorType(plain.element_type, shape)
        types = [*map(graph.tensor_type, self.inputs), packed]
        name = kernels.get(stem, types, properties, body)
        launch = mem.LaunchOp(name, self.inputs, [packed])
        launch.attributes.update(op.attributes)
        # The weights are packed now; a mask of the unpacked weights does not apply.
        launch.attributes.pop(MASK, None)
        launch.location = self.location
        if len(self.replaced) > 1:
            launch.attributes[LAYERS] = IntegerAttr(len(self.replaced), i64)
        self._builder.insert(launch)
        function = launch.parent_op()
        assert isinstance(function, FuncOp)
        function.attributes[mem.ALIGNMENT] = IntegerAttr(self.board.alignment, i64)
        op.output.replace_all_uses_with(self._insert(mem.UnpackOp(launch.outputs[0], plain)))
        producers = [value.owner for old in self.replaced for value in old.operands]
        for old in reversed(self.replaced):
            old.detach()
            old.erase()
        for producer in producers:
            is_constant = isinstance(producer, graph.ConstantOp)
            if is_constant and not producer.result.uses and producer.parent:
                producer.detach()
                producer.erase()
