"""Compare the modelled cycles of the array in Verilog with those of a simulation."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.drawn import INT8, INT32, NARROW, function_tables
from backends.nnet.networks import written
from graph_networks import Network, random_array
from xdsl.dialects.builtin import IntegerType, ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.array_cycles import core_cycles_of, cycles_of
from ceras_ir.backends.nnet.array_plan import ArrayLayer, ArrayWindow, plan, why_not_in_verilog
from ceras_ir.backends.nnet.circuits import DEFAULT, CircuitSize
from ceras_ir.backends.nnet.engine import NnetModel, Rtl
from ceras_ir.backends.nnet.placement import moved_bytes
from ceras_ir.backends.nnet.rules import FPGA, why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Pool, Resize, integers
from ceras_ir.dialects.mem import device_of
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.network.function import main_function
from ceras_ir.support.native import has_verilator
from ceras_ir.transforms.memory.liveness import steps
from ceras_ir.transforms.rebuilding import rebuild_linear

WITHIN = 0.02
"""The permitted relative error of the modelled cycles."""


@dataclass(frozen=True)
class Conv:
    """A convolution of a square, or of some rows, of all channels or by channel."""

    side: int
    channels: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    residual: bool = False
    by_channel: bool = False
    tables: int = 0
    floats: bool = False
    rows: int | None = None
    bits: int = 8
    """The bits of the weights."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (1, self.rows or self.side, self.side, self.channels)


DEEP = Conv(7, 256, 64)
LAYERS = (
    Conv(40, 12, 32),
    Conv(40, 32, 48, stride=2),
    Conv(26, 64, 64, kernel=1),
    Conv(26, 64, 64, residual=True),
    Conv(13, 128, 96, kernel=1),
    Conv(13, 64, 40),
    Conv(28, 3, 64, kernel=7, stride=2),
    Conv(28, 64, 128, kernel=1, stride=2),
    DEEP,
    Conv(300, 4, 16, rows=40),
    Conv(28, 48, 48, by_channel=True),
    Conv(56, 24, 24, stride=2, by_channel=True),
    Conv(14, 96, 96, kernel=5, by_channel=True),
    Conv(7, 160, 160, by_channel=True),
    Conv(4, 200, 200, by_channel=True),
    Conv(26, 64, 64, residual=True, by_channel=True),
    Conv(26, 64, 64, kernel=1, tables=16),
    Conv(13, 64, 64, tables=1),
    Conv(7, 32, 160, kernel=1, tables=16),
    Conv(28, 64, 64, by_channel=True, tables=5),
    Conv(112, 16, 96, kernel=1),
    Conv(14, 384, 64, kernel=1, residual=True),
    Conv(26, 128, 85, kernel=1, tables=1, floats=True),
    Conv(13, 32, 64, kernel=1, tables=4, floats=True),
    Conv(7, 256, 64, bits=4),
    Conv(4, 512, 64, kernel=1, bits=4),
    Conv(4, 512, 64, kernel=1, bits=2),
    Conv(4, 200, 200, by_channel=True, bits=2),
)
SUMMED = (Conv(104, 16, 16, kernel=1), Conv(52, 32, 32, kernel=1), Conv(26, 64, 64, kernel=1))
"""Layers of YOLOX-Nano. Their results are added to their inputs, and have gaps between rows."""
RESIDUALS = [(1, 26, 26, 64), (1, 14, 14, 64)]
"""The shapes of further inputs for additions, after the inputs of the layers."""


def network() -> ModuleOp:
    """Each layer has a separate input; additions, a maximum and a product are included."""
    shapes = [c.shape for c in LAYERS]
    summed = [c.shape for c in SUMMED]
    net = Network([(shape, INT8) for shape in (*shapes, *RESIDUALS, *summed)])
    requant = RequantAttr(9)
    results = [convolution(net, i, layer, requant) for i, layer in enumerate(LAYERS)]
    pooled = graph.Pool2dOp(
        Pool.MAX, net.inputs[2], (5, 5), result_element=INT8, padding=(2, 2, 2, 2)
    )
    results.append(net.add(pooled, FPGA))
    total = graph.BinaryOp(
        Binary.ADD, net.inputs[2], net.inputs[len(LAYERS)], result_element=INT8,
        requant=RequantAttr(1), shifts=(1, 0),
    )  # fmt: skip
    results.append(net.add(total, FPGA))
    flat = net.add(graph.ReshapeOp(net.inputs[LAYERS.index(DEEP)], (1, 7 * 7 * 256)))
    for kind in NARROW:
        weights = net.constant(random_array((64, 7 * 7 * 256), kind), kind)
        product = graph.MatmulOp(flat, weights, None, result_element=INT8, requant=requant)
        results.append(net.add(product, FPGA))
    results += moved(net)
    for index, layer in enumerate(SUMMED, len(shapes) + len(RESIDUALS)):
        results += joined(net, index, layer, requant)
    return net.module(*results, strategy="slices")


def moved(net: Network) -> list[SSAValue]:
    """Return lookups, repetitions, slices, transpositions and copies, of bytes and of floats."""
    rng = np.random.default_rng(5)
    small, wide = net.inputs[2], net.inputs[LAYERS.index(Conv(300, 4, 16, rows=40))]
    shape = graph.shape_of(wide)
    floats = graph.LookupOp(small, function_tables(rng, None, f32), f32)
    ops: list[graph.GraphOperation] = [
        graph.LookupOp(small, function_tables(rng, None, None), INT8),
        graph.LookupOp(small, function_tables(rng, 9, None), INT8, [i % 9 for i in range(64)]),
        floats,
        graph.ResizeOp(Resize.NEAREST, small, (52, 52), (2.0, 2.0)),
        graph.ResizeOp(Resize.NEAREST, wide, (40, 900), (1.0, 3.0)),
        graph.SliceOp(wide, (0, 1, 1, 0), (1, 19, 149, 3), (1, 2, 2, 1)),
        graph.SliceOp(small, (0, 3, 0, 16), (1, 20, 26, 32), (1, 1, 1, 1)),
        graph.TransposeOp(small, (0, 3, 1, 2)),
        graph.TransposeOp(floats.result, (0, 3, 2, 1)),
        graph.TransposeOp(wide, (0, 3, 1, 2)),
        graph.ConcatOp([wide, wide], 2),
    ]
    assert graph.shape_of(ops[5].results[0])[1:3] == (shape[1] // 2 - 1, shape[2] // 2 - 1)
    results: list[SSAValue] = []
    for op in ops:
        assert why_not(op) is None, why_not(op)
        results.append(net.add(op, FPGA))
    # Three of twelve bytes, at any offset in a word.
    corners = [(0, y, x, 0) for y in (0, 1) for x in (0, 1)]
    quarters = [graph.SliceOp(wide, at, (1, 20, 150, 3), (1, 2, 2, 1)) for at in corners]
    return [*results, net.add(graph.ConcatOp([net.add(q, FPGA) for q in quarters], 3), FPGA)]


def joined(net: Network, index: int, layer: Conv, requant: RequantAttr) -> list[SSAValue]:
    """Return an addition with gaps between the rows of an operand and of the result."""
    first, second = convolution(net, index, layer, requant), net.inputs[index]
    operands = (first, second) if index % 2 else (second, first)
    total = graph.BinaryOp(
        Binary.ADD, *operands, result_element=INT8, requant=RequantAttr(1), shifts=(0, 0)
    )
    parts = (first, net.add(total, FPGA))
    return [net.add(graph.ConcatOp([part, second], 3)) for part in parts]


def convolution(net: Network, index: int, layer: Conv, requant: RequantAttr):
    rng = np.random.default_rng(index)
    channels = 1 if layer.by_channel else layer.channels
    shape = (layer.outputs, layer.kernel, layer.kernel, channels)
    kind = UniformType(0.5, storage=IntegerType(layer.bits))
    weights = net.constant(random_array(shape, kind, index), kind)
    bias = net.constant(rng.integers(-900, 900, layer.outputs).astype(np.int32), INT32)
    pad = layer.kernel // 2
    made = (1, layer.side, layer.side, layer.outputs)
    residual = net.inputs[len(LAYERS) + RESIDUALS.index(made)] if layer.residual else None
    op = graph.Conv2dOp(
        net.inputs[index], weights, bias, residual,
        result_element=INT8, requant=requant, strides=(layer.stride, layer.stride),
        padding=(pad, pad, pad, pad), groups=layer.channels // channels,
    )  # fmt: skip
    if layer.tables:
        made = f32 if layer.floats else None
        table = function_tables(rng, layer.tables, made)
        rows = integers([i % layer.tables for i in range(layer.outputs)])
        plain, op = op, rebuild_linear(op, {"table": table, "rows": rows}, element=made)
        plain.drop_all_references()
    assert why_not(op) is None
    return net.add(op, FPGA)


def modelled(module: ModuleOp, size: CircuitSize) -> list[int]:
    """Return the modelled cycles of the layers on the FPGA, in order."""
    found: list[int] = []
    for op in steps(main_function(module)):
        if device_of(op) == FPGA and moved_bytes(op):
            run = core_cycles_of(op, size)
            assert run is not None
            found.append(run[1])
    return found


@pytest.mark.slow
@pytest.mark.skipif(not has_verilator(), reason="verilator is not installed")
def test_the_model_is_within_two_percent_of_the_simulation(tmp_path: Path):
    module = network()
    path = tmp_path / "model.nnet"
    path.write_bytes(written(module))
    function = main_function(module)
    inputs = {
        f"input{i}": random_array(graph.shape_of(value), INT8, i)
        for i, value in enumerate(function.body.block.args)
    }
    model = NnetModel(path, rtl=Rtl())
    model.run(inputs)
    counted, expected = model.cycles[0], modelled(module, DEFAULT)
    off = [abs(e - c) / c for e, c in zip(expected, counted, strict=True)]
    table = [f"{e} {c} {x:.1%}" for e, c, x in zip(expected, counted, off, strict=True)]

    assert max(off) <= WITHIN, "\n".join(table)


def test_a_layer_without_waiting_takes_its_products():
    """
    A 3x3 layer of 13x13 pixels and 512 channels takes less than 5% more cycles than its products.
    """
    layer = ArrayLayer(
        1, 13, 13, 512, 13, 13, 512, 512, 512, 0, ArrayWindow(3, 1, 1), ArrayWindow(3, 1, 1)
    )
    ideal = 13 * 13 * 512 * 512 * 9 // 256
    cycles = cycles_of(layer, DEFAULT)
    assert cycles is not None and ideal < cycles < 1.05 * ideal


def test_by_channel_a_lane_multiplies_a_row_of_the_window_a_cycle():
    """
    For 28x28 pixels, 192 channels and 3x3, each of 3 rows needs 30 reads for 28 pixels, and few
    more cycles.
    """
    window = ArrayWindow(3, 1, 1)
    layer = ArrayLayer(1, 28, 28, 192, 28, 28, 192, 192, 192, 0, window, window, by_channel=True)
    ideal = 3 * 30 * 28 * 192 // 16
    cycles = cycles_of(layer, DEFAULT)
    assert cycles is not None and ideal < cycles < 1.15 * ideal


def test_rows_that_do_not_fit_are_not_taken():
    layer = ArrayLayer(
        1, 8, 4096, 64, 8, 4096, 16, 64, 16, 0, ArrayWindow(3, 1, 1), ArrayWindow(3, 1, 1)
    )
    assert isinstance(plan(layer, DEFAULT), str) and cycles_of(layer, DEFAULT) is None


def test_a_register_that_cannot_hold_a_size_refuses_the_layer():
    """All 256x256 pixels of a channel are a row of the result, as in the transpose of ESPCN."""
    net = Network([((1, 256, 256, 3), INT8)])
    op = graph.TransposeOp(net.inputs[0], (0, 3, 1, 2))
    assert why_not_in_verilog(op, DEFAULT) == "the register 'columns' holds 1 to 65535, got 65536"
    assert core_cycles_of(op, DEFAULT) is None
