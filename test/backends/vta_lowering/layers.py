"""
Build quantized layers for VTA, compute the expected integers in plain numpy, and run all levels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from backends.vta_lowering.cosimulation import run_on_vta
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.execution.image import VtaImage, build_image
from ceras_ir.backends.vta.machine.assembler import assemble_program, disassemble_program
from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.check import check_program
from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.passes.fold_packing import FoldPackingPass
from ceras_ir.backends.vta.passes.launches import MergeLaunchesPass
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.backends.vta.rules.admission import VTA, why_not
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.memory.liveness import steps

INT8, INT32 = UniformType(0.5), UniformType(0.25, storage=i32)
BOARD = "tsim"

Array = NDArray[np.generic]


def stored(point: int) -> UniformType:
    """Return the int8 type with a zero point."""
    return UniformType(INT8.scale, point)


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution, or a matrix product if the input has two dimensions."""

    input: NDArray[np.int8]
    weights: NDArray[np.int8]
    bias: NDArray[np.int32] | None = None
    residual: NDArray[np.int8] | None = None
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    residual_shift: int | tuple[int, ...] = 0
    requant: RequantAttr = field(default_factory=lambda: RequantAttr(8))
    groups: int = 1
    points: tuple[int, int] = (0, 0)
    """Zero points of the input and the residual; `requant` has the zero point of the result."""
    computed: bool = False
    """Whether the weights of a matrix product are also a graph input."""

    def expected(self) -> NDArray[np.int64]:
        """Return the result that the documentation of the graph dialect defines."""
        x, w = self.input.astype(np.int64) - self.points[0], self.weights.astype(np.int64)
        if x.ndim == 2:
            acc = x @ w.T
        else:
            top, left, bottom, right = self.padding
            x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
            (sh, sw), (dh, dw) = self.strides, self.dilations
            _, kh, kw, _ = w.shape
            rows = (x.shape[1] - (kh - 1) * dh - 1) // sh + 1
            columns = (x.shape[2] - (kw - 1) * dw - 1) // sw + 1
            acc = np.zeros((x.shape[0], rows, columns, w.shape[0]), np.int64)
            wide = w.shape[0] // self.groups
            for i, j, g in product(range(kh), range(kw), range(self.groups)):
                tap = x[:, i * dh :: sh, j * dw :: sw][:, :rows, :columns]
                inputs = slice(g * w.shape[3], (g + 1) * w.shape[3])
                outputs = slice(g * wide, (g + 1) * wide)
                acc[..., outputs] += tap[..., inputs] @ w[outputs, i, j].T
        if self.bias is not None:
            acc = acc + self.bias
        if self.residual is not None:
            moved = self.residual.astype(np.int64) - self.points[1]
            acc = acc + (moved << np.array(self.residual_shift))
        r = self.requant
        acc = acc * np.array(r.multipliers)
        if (shift := r.shift.data) and r.rounding.data == "half_up":
            acc = acc + (1 << (shift - 1))
        return np.clip((acc >> shift) + r.zero_point.data, r.low.data, r.high.data)

    def add_to(
        self,
        block: Block,
        x: SSAValue,
        residual: SSAValue | None,
        weights: SSAValue | None = None,
    ) -> SSAValue:
        """Append the operation on `x` to `block`. Without `weights`, the weights are constant."""
        if weights is None:
            constant = graph.ConstantOp.from_array(self.weights, INT8)
            block.add_op(constant)
            weights = constant.result
        bias = None
        if self.bias is not None:
            constant = graph.ConstantOp.from_array(self.bias, INT32)
            block.add_op(constant)
            bias = constant.result
        shift = None if residual is None else self.residual_shift
        if self.input.ndim == 2:
            op = graph.MatmulOp(
                *(x, weights, bias, residual),
                result_element=self.element,
                requant=self.requant,
                residual_shift=shift,
            )
        else:
            op = graph.Conv2dOp(
                *(x, weights, bias, residual),
                result_element=self.element,
                strides=self.strides,
                padding=self.padding,
                dilations=self.dilations,
                groups=self.groups,
                requant=self.requant,
                residual_shift=shift,
            )
        block.add_op(op)
        return op.result

    def module(self) -> ModuleOp:
        """Return a network with only this layer. The arguments have the order of `inputs`."""
        types = [TensorType(stored(self.points[0]), self.input.shape)]
        if self.residual is not None:
            types.append(TensorType(stored(self.points[1]), self.residual.shape))
        if self.computed:
            types.append(TensorType(INT8, self.weights.shape))
        block = Block(arg_types=types)
        residual = None if self.residual is None else block.args[1]
        weights = block.args[-1] if self.computed else None
        return network(block, self.add_to(block, block.args[0], residual, weights))

    @property
    def element(self) -> UniformType:
        """The type of the result."""
        return stored(self.requant.zero_point.data)

    @property
    def inputs(self) -> dict[str, Array]:
        arrays: list[Array] = [self.input]
        if self.residual is not None:
            arrays.append(self.residual)
        if self.computed:
            arrays.append(self.weights)
        return {f"input{i}": array for i, array in enumerate(arrays)}


def network(block: Block, *outputs: SSAValue) -> ModuleOp:
    """Return the function @main with the body `block`."""
    block.add_op(ReturnOp(*outputs))
    kinds = ([a.type for a in block.args], [v.type for v in outputs])
    module = ModuleOp([FuncOp("main", kinds, Region(block))])
    module.verify()
    return module


def apply(module: ModuleOp, *passes: ModulePass) -> None:
    """Run `passes` in place and verify after each."""
    for pass_ in passes:
        pass_.apply(Context(), module)
        module.verify()


def place(module: ModuleOp, board: VtaBoard) -> None:
    """Place all operations that the rules accept on VTA, even if the CPU is faster."""
    for op in steps(main_function(module)):
        device = VTA if why_not(op, board) is None else mem.CPU
        op.attributes[mem.DEVICE] = mem.DeviceAttr(device)


def check_all_levels(
    module: ModuleOp, inputs: dict[str, Array], expected: Array, tile: TilePass | None = None
) -> VtaImage:
    """
    Check that each level from graph to stream computes `expected` on the board of `tile`.

    The result does not depend on the initial contents of memory. The streams have no findings, and
    their text form assembles to the same bytes. The check runs with a stream per layer and with
    layers that start together. The returned image has a stream per layer.
    """

    def same(level: str, result: dict[str, Array]) -> None:
        np.testing.assert_array_equal(result["output0"], expected, err_msg=level)

    same("graph", run(module, inputs))
    tile = tile or TilePass(board=BOARD)
    place(module, load_board(tile.board))
    apply(module, ConvertGraphToTilePass(tile.board), FoldPackingPass())
    same("untiled kernels", run(module, inputs))
    apply(module, tile)
    same("tiled kernels", run(module, inputs))
    apply(module, AllocateBlocksPass(alignment=256))
    image = build_image(module, load_board(tile.board))
    check_streams(image)
    same("streams", run_on_vta(image, inputs, garbage=7))
    if (together := merged(image)) is not None:
        check_streams(together)
        same("streams of several layers", run_on_vta(together, inputs, garbage=8))
    return image


def merged(image: VtaImage) -> VtaImage | None:
    """Return the network with launches that start together, or None if there are none."""
    MergeLaunchesPass().apply(Context(), image.module)
    together = build_image(image.module, image.board)
    return together if len(together.launches) < len(image.launches) else None


def check_streams(image: VtaImage) -> None:
    """Check that the streams have no findings, and that their text assembles to the same bytes."""
    for launch in image.launches:
        assert check_program(launch.program, image.board, image.size) == []
        text = disassemble_program(launch.program)
        again = assemble_program(text, board=image.board)
        raw = launch.program.instruction_bytes(image.board)
        assert again.instruction_bytes(image.board) == raw


def random_array(
    rng: np.random.Generator, shape: tuple[int, ...], *, extremes: bool = False
) -> NDArray[np.int8]:
    """Return uniform int8 values, or values that cause saturation and ties."""
    if extremes:
        return rng.choice(np.array([-128, 127, -1, 0, 1], np.int8), shape)
    return rng.integers(-128, 128, shape).astype(np.int8)


def random_layer(seed: int) -> Layer:
    """
    Return a layer with odd sizes, strides, padding and dilation, windows from 1x1 to 7x7, and
    shifts from 0 to 20.
    """
    rng = np.random.default_rng(seed)

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    extremes = bool(rng.random() < 0.3)
    outputs = pick(1, 90)
    strides, dilations, padding = (1, 1), (1, 1), (0, 0, 0, 0)
    if rng.random() < 0.3:
        input_shape: tuple[int, ...] = (pick(1, 40), pick(1, 100))
        output_shape: tuple[int, ...] = (input_shape[0], outputs)
        weight_shape: tuple[int, ...] = (outputs, input_shape[1])
    else:
        kh, kw = (pick(1, 7), pick(1, 7)) if rng.random() < 0.75 else (1, 1)
        strides, dilations = (pick(1, 3), pick(1, 3)), (pick(1, 2), pick(1, 2))
        eh, ew = (kh - 1) * dilations[0] + 1, (kw - 1) * dilations[1] + 1
        top, left, bottom, right = (pick(0, min(e - 1, 4)) for e in (eh, ew, eh, ew))
        padding = (top, left, bottom, right)
        n, h, w, c = pick(1, 2), max(eh, pick(1, 30)), max(ew, pick(1, 30)), pick(1, 70)
        rows = (h + top + bottom - eh) // strides[0] + 1
        columns = (w + left + right - ew) // strides[1] + 1
        input_shape, output_shape = (n, h, w, c), (n, rows, columns, outputs)
        weight_shape = (outputs, kh, kw, c)
    low, high = ((-128, 127), (0, 127), (-50, 60), (3, 90))[pick(0, 3)]
    has_bias, has_residual = rng.random() < 0.8, rng.random() < 0.4
    layer = Layer(
        random_array(rng, input_shape, extremes=extremes),
        random_array(rng, weight_shape, extremes=extremes),
        rng.integers(-2000, 2000, outputs).astype(np.int32) if has_bias else None,
        random_array(rng, output_shape, extremes=extremes) if has_residual else None,
        strides,
        padding,
        dilations,
        pick(0, 9),
        RequantAttr(pick(0, 20), low=low, high=high),
    )
    if rng.random() < 0.4:
        layer = with_zero_points(layer, rng)
    if rng.random() < 0.4:
        layer = with_channel_shifts(layer, rng)
    if has_residual and rng.random() < 0.4:
        layer = replace(layer, residual_shift=residual_shifts(rng, outputs))
    if layer.input.ndim == 2 and rng.random() < 0.4:
        layer = replace(layer, computed=True)
    return layer


def residual_shifts(rng: np.random.Generator, channels: int) -> tuple[int, ...]:
    """
    Return a shift for each channel. They differ by at most six bits; some are too large for
    weights.
    """
    return tuple((rng.integers(0, 10) + rng.integers(0, 7, channels)).tolist())


def with_zero_points(layer: Layer, rng: np.random.Generator) -> Layer:
    """Return the layer with zero points of input, residual and result. Some have extreme values."""
    drawn = [-128, 127, 1, 0, *rng.integers(-128, 128, 2).tolist()]
    first, second, last = (int(point) for point in rng.choice(drawn, 3))
    return replace(layer, points=(first, second), requant=moved(layer.requant, last))


def with_channel_shifts(layer: Layer, rng: np.random.Generator) -> Layer:
    """
    Return the layer with per-channel shifts that differ by up to ten bits. Some shift to the left.
    """
    least = layer.requant.shift.data - int(rng.integers(0, 4))
    if layer.requant.zero_point.data:
        least = max(0, least)  # A shift to the left needs a zero point that is a multiple.
    shifts = least + rng.integers(0, rng.integers(2, 12), len(layer.weights))
    return replace(layer, requant=by_channel(layer.requant, shifts.tolist()))


def by_channel(requant: RequantAttr, shifts: Sequence[int]) -> RequantAttr:
    """Return the requantization with a shift for each channel. Negative shifts are to the left."""
    most = max(0, *shifts)
    return RequantAttr(
        most,
        multiplier=[1 << most - shift for shift in shifts],
        rounding=requant.mode,
        zero_point=requant.zero_point.data,
        low=requant.low.data,
        high=requant.high.data,
    )


def moved(requant: RequantAttr, point: int) -> RequantAttr:
    """Return the requantization with another zero point."""
    return RequantAttr(
        requant.shift.data,
        multiplier=requant.multipliers if requant.is_per_channel else requant.multiplier.data,
        rounding=requant.mode,
        zero_point=point,
        low=requant.low.data,
        high=requant.high.data,
    )
