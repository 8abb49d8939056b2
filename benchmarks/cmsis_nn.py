"""
Count the instructions of int8 networks with CMSIS-NN and with our C, under qemu.

Each layer of the compiled network is a call of CMSIS-NN with random data. The results of
convolutions and matrix products are compared with numpy. CMSIS-NN is not part of this project, so
the command needs its sources.

    python benchmarks/cmsis_nn.py CHECKOUT MODEL.onnx... [--board alif_e7_hp] [--layers] [--bits 4]

With `--bits 4`, all weights have 4 bits, and CMSIS-NN runs its functions with `s4` in the name.
CHECKOUT is a clone of https://github.com/ARM-software/CMSIS-NN. `networks.py` has functions that
write DS-CNN and the autoencoder.
"""

import argparse
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import log2, prod
from pathlib import Path

import numpy as np
from cortex_m import microcontroller
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from size_or_speed import counted
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.c.emulator import available, build_elf, run_elf
from ceras_ir.backends.c.machines import Board, bare_machine
from ceras_ir.backends.c.optimize import LEVELS, choose
from ceras_ir.backends.c.target import CTarget
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.normalization import IntegerSoftmaxOp
from ceras_ir.dialects.quant import Rounding
from ceras_ir.interpreters.windows import Window, convolve
from ceras_ir.network.integer import round_shift
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError, UnsupportedError

BOARD = "nano_33_ble"
ASSEMBLY = "-DCMSIS_NN_USE_REQUANTIZE_INLINE_ASSEMBLY"
SINGLE_ROUNDING = "-DCMSIS_NN_USE_SINGLE_ROUNDING"
BUILDS = {
    "-O2 assembly": ("-O2", ASSEMBLY),
    "-Ofast assembly": ("-Ofast", ASSEMBLY),
    "-O2 single": ("-O2", SINGLE_ROUNDING),
    "-Ofast single": ("-Ofast", SINGLE_ROUNDING),
}
"""
Options of CMSIS-NN. The fastest are compared with our C. -Ofast is the default; -O3 has equal
counts.
"""
SOURCES = ("*s8*.c", "*s4*.c", "arm_nntables.c", "arm_q7_to_q15_with_offset.c")
HARNESS = Path(__file__).with_suffix(".c")
MEMORY_BYTES = 1 << 20
"""The flash and the SRAM for CMSIS-NN, which all emulated machines have."""
REPEATS = 8
INPUT_OFFSET, OUTPUT_OFFSET = 128, -128
"""The negative zero point of inputs, and the zero point of outputs, as after ReLU."""

Dims = tuple[int, int, int, int]
POINT = Window((1, 1), (1, 1), (0, 0, 0, 0), (1, 1))


class Call(IntEnum):
    """A function of CMSIS-NN; the numbers are those of cmsis_nn.c."""

    CONVOLUTION = 0
    DEPTHWISE = 1
    PRODUCT = 2
    AVERAGE = 3
    MAXIMUM = 4
    ADD = 5
    SOFTMAX = 6


@dataclass(frozen=True)
class Layer:
    """A call with dimensions [N, H, W, C] of the tensors; `filter` as the function expects them."""

    call: Call
    input: Dims
    filter: Dims
    output: Dims
    window: Window = POINT

    def header(self) -> bytes:
        """Return `struct layer` of cmsis_nn.c."""
        w = self.window
        tiles = [(pair[1], pair[0]) for pair in (w.strides, w.padding, w.dilations)]
        offsets = INPUT_OFFSET, OUTPUT_OFFSET
        fields = [self.call, REPEATS, *self.input, *self.filter, *self.output, *offsets]
        fields += [*(value for tile in tiles for value in tile), -128, 127]
        return struct.pack(f"<{len(fields)}i", *fields)


@dataclass(frozen=True)
class Operands:
    """Random operands of a layer, and parameters for results of the size of an int8."""

    input: NDArray[np.int8]
    filter: NDArray[np.int8]
    bias: NDArray[np.int32]
    multiplier: NDArray[np.int32]
    shift: int
    bits: int
    """The bits of the weights: 8, or 4."""

    @classmethod
    def random(cls, layer: Layer, bits: int) -> "Operands":
        rng = np.random.default_rng(0)
        # The second operand of an addition has 8 bits.
        bits = bits if layer.call in (Call.CONVOLUTION, Call.DEPTHWISE, Call.PRODUCT) else 8
        reach = 1 << (bits - 1)
        x = rng.integers(-128, 128, layer.input).astype(np.int8)
        w = rng.integers(-reach, reach, layer.filter).astype(np.int8)
        channels = layer.output[3]
        bias = rng.integers(-10000, 10000, channels).astype(np.int32)
        multiplier = rng.integers(1 << 30, 1 << 31, channels).astype(np.int32)
        # The standard deviation of a sum is 11,000 times the root of the number of products.
        products = max(prod(layer.filter) // channels, 1)
        return cls(x, w, bias, multiplier, -bits - round(log2(products) / 2), bits)

    def to_bytes(self) -> bytes:
        """Return the operands as cmsis_nn.c reads them, with two weights of 4 bits in a byte."""
        shifts, stored = np.full_like(self.bias, self.shift), self.filter
        if self.bits == 4:
            pairs = np.append(stored, np.zeros(stored.size % 2, np.int8)).reshape(-1, 2)
            stored = (pairs[:, 0] & 15) | (pairs[:, 1] << 4)
        return b"".join(
            a.tobytes()
            for a in (self.input, stored.astype(np.int8), self.bias, self.multiplier, shifts)
        )


def expected(layer: Layer, operands: Operands, *, single: bool) -> NDArray[np.int64] | None:
    """
    Return the result of a convolution or matrix product, else None. Without `single`, products are
    rounded twice, as TensorFlow Lite does.
    """
    x, w, multiplier, groups = operands.input, operands.filter, operands.multiplier, 1
    match layer.call:
        case Call.CONVOLUTION:
            groups = layer.input[3] // layer.filter[3]
        case Call.DEPTHWISE:
            w, groups = w.transpose(3, 1, 2, 0), layer.input[3]
        case Call.PRODUCT:
            w, multiplier = w.reshape(layer.output[3], 1, 1, -1), multiplier[:1]
        case _:
            return None
    wide = x.astype(np.float64) + INPUT_OFFSET, w.astype(np.float64)
    total = convolve(*wide, layer.window, groups).astype(np.int64) + operands.bias
    product = total * multiplier
    if single:
        rounded = round_shift(product, 31 - operands.shift, Rounding.HALF_UP)
    else:
        high = round_shift(product, 31, Rounding.HALF_UP)
        rounded = round_shift(high, -operands.shift, Rounding.HALF_AWAY)
    return np.clip(rounded + OUTPUT_OFFSET, -128, 127)


def dims(shape: Sequence[int]) -> Dims:
    """Return a shape of at most four dimensions in four; the others have size 1."""
    n, *rest = shape
    h, w, c = (*[1] * (3 - len(rest)), *rest)
    return n, h, w, c


def layers_of(op: Operation) -> Iterator[Layer]:
    """Yield the calls of CMSIS-NN for an operation, or raise an `InputError`."""
    match op:
        case graph.Conv2dOp(table=None):
            x, w, y = (dims(graph.shape_of(v)) for v in (op.input, op.weights, op.result))
            window = Window.of_operation(op)
            if op.group_count > 1 and w[3] == 1:
                yield Layer(Call.DEPTHWISE, x, (1, w[1], w[2], w[0]), y, window)
            else:
                yield Layer(Call.CONVOLUTION, x, w, y, window)
        case graph.MatmulOp(table=None):
            x, y = (dims(graph.shape_of(v)) for v in (op.input, op.result))
            yield Layer(Call.PRODUCT, x, (x[3], 1, 1, y[3]), y)
        case graph.Pool2dOp() if (window := Window.of_operation(op)).dilations == (1, 1):
            call = Call.MAXIMUM if op.function is graph.Pool.MAX else Call.AVERAGE
            x, y = (dims(graph.shape_of(v)) for v in (op.input, op.result))
            yield Layer(call, x, (1, *window.kernel, 1), y, window)
        case graph.BinaryOp() if _is_addition(op):
            yield _addition(op)
        case graph.SoftmaxOp() | IntegerSoftmaxOp() if _is_last(op.axis, op.result):
            shape = graph.shape_of(op.result)
            rows = dims((prod(shape[:-1]), shape[-1]))
            yield Layer(Call.SOFTMAX, rows, (1, 1, 1, 1), rows)
        case (
            ModuleOp() | FuncOp() | ReturnOp() | graph.ConstantOp() | graph.ReshapeOp()
            | graph.QuantizeOp() | graph.DequantizeOp()
        ):  # fmt: skip
            return
        case _:
            raise InputError(f"this benchmark has no call of CMSIS-NN for '{op.name}'")
    if isinstance(op, graph.LinearOperation) and op.residual is not None:
        yield _addition(op)


def _is_addition(op: graph.BinaryOp) -> bool:
    return op.function is graph.Binary.ADD and graph.shape_of(op.lhs) == graph.shape_of(op.rhs)


def _is_last(axis: IntegerAttr, value: SSAValue) -> bool:
    return axis.value.data == len(graph.shape_of(value)) - 1


def _addition(op: graph.BinaryOp | graph.LinearOperation) -> Layer:
    shape = dims(graph.shape_of(op.result))
    return Layer(Call.ADD, shape, shape, shape)


def calls_counted(
    checkout: Path, layers: Sequence[Layer], board: Board, flags: Sequence[str], bits: int
) -> dict[Layer, float]:
    """Return the instructions of each call, and assert that the integers are correct."""
    emulation = board.known_core.emulation
    assert emulation is not None
    machine = replace(board, flash_bytes=MEMORY_BYTES, sram_bytes=MEMORY_BYTES)
    sources = [HARNESS, *(p for name in SOURCES for p in checkout.glob(f"Source/*/{name}"))]
    flags = [*flags, "-w", f"-DBITS={bits}", *(["-DHELIUM"] if board.has_helium else [])]
    operands = [Operands.random(layer, bits) for layer in layers]
    counts: dict[Layer, float] = {}
    with tempfile.TemporaryDirectory(prefix="ceras-cmsis-") as name:
        work = Path(name)
        elf = build_elf(sources, machine, work, include=[checkout / "Include"], flags=flags)
        with open(work / "in.bin", "wb") as stream:
            for layer, data in zip(layers, operands, strict=True):
                stream.write(layer.header() + data.to_bytes())
        run_elf(elf, work, emulation=emulation)
        with open(work / "out.bin", "rb") as stream:
            for layer, data in zip(layers, operands, strict=True):
                ticks = int.from_bytes(stream.read(4), "little")
                counts[layer] = ticks * emulation.instructions_per_tick / REPEATS
                got = np.frombuffer(stream.read(prod(layer.output)), np.int8)
                right = expected(layer, data, single=SINGLE_ROUNDING in flags)
                if board.has_helium and data.bits == 4 and layer.call is Call.DEPTHWISE:
                    # gcc 12 replaces the constant predicate 0x0f0f of CMSIS-NN by all lanes.
                    right = None
                if right is not None and not np.array_equal(got, right.reshape(-1)):
                    raise AssertionError(f"CMSIS-NN and numpy differ: {layer}")
    return counts


@dataclass(frozen=True)
class Network:
    """A compiled network: the calls of CMSIS-NN, and the instructions of our C by goal."""

    name: str
    layers: list[Layer]
    speed: float
    balanced: float

    @classmethod
    def read(cls, path: str, board_name: str, board: Board, bits: int) -> "Network":
        target = CTarget(board=board_name)
        options = BuildOptions(
            target,
            quantize="int8",
            io="int8",
            recipe=("none",),
            weight_bits=(f"{bits}:*",) if bits < 8 else (),
        )
        module = build(read_network(path), options).module
        layers = [layer for op in module.walk() for layer in layers_of(op)]
        goals = choose(module, board, "model", levels=LEVELS, machine=bare_machine(board)).goals
        speed, balanced = (
            counted(module, goals[goal].model, board)[1] for goal in ("speed", "balanced")
        )
        return cls(Path(path).stem, layers, speed, balanced)


def table_of(headers: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for i, header in enumerate(headers):
        table.add_column(header, justify="right" if i else "left")
    return table


def print_tables(
    networks: Sequence[Network], builds: Mapping[str, Mapping[Layer, float]], *, each_layer: bool
) -> None:
    """Print the networks, and with `each_layer` also the calls of CMSIS-NN."""
    console = Console(highlight=False)
    table = table_of(("millions", "CMSIS-NN", "build", "speed", "balanced", "CMSIS-NN / speed"))
    for network in networks:
        totals = {
            name: sum(counts[layer] for layer in network.layers) for name, counts in builds.items()
        }
        fastest = min(totals, key=lambda name: totals[name])
        figures = totals[fastest], network.speed, network.balanced
        peer, speed, balanced = (f"{figure / 1e6:.3f}" for figure in figures)
        ratio = f"{totals[fastest] / network.speed:.2f}"
        table.add_row(network.name, peer, fastest, speed, balanced, ratio)
        if each_layer:
            calls = table_of((network.name, "input", "filter", "output", "instructions"))
            for layer in network.layers:
                shapes = ("x".join(map(str, d)) for d in (layer.input, layer.filter, layer.output))
                count = f"{builds[fastest][layer]:,.0f}"
                calls.add_row(layer.call.name.lower(), *shapes, count)
            console.print(calls, "")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="int8 networks with CMSIS-NN and with our C")
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="of CMSIS-NN")
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--board", default=BOARD, help="(default: %(default)s)")
    parser.add_argument("--layers", action="store_true", help="also print each call of CMSIS-NN")
    parser.add_argument("--bits", type=int, choices=(4, 8), default=8, help="of the weights")
    arguments = parser.parse_args()
    if not available():
        parser.exit(1, "needs arm-none-eabi-gcc and qemu-system-arm\n")
    if not (arguments.checkout / "Include" / "arm_nnfunctions.h").exists():
        parser.error(f"{arguments.checkout} is not a clone of CMSIS-NN")
    try:
        board = microcontroller(arguments.board)
        if not board.has_dsp:
            parser.error(f"CMSIS-NN has no kernels for {board.core}")
        given = arguments.board, board, arguments.bits
        networks = [Network.read(path, *given) for path in arguments.models]
    except (InputError, UnsupportedError) as error:
        raise SystemExit(str(error)) from None
    layers = list(dict.fromkeys(layer for network in networks for layer in network.layers))
    builds = {
        name: calls_counted(arguments.checkout, layers, board, flags, arguments.bits)
        for name, flags in BUILDS.items()
    }
    print_tables(networks, builds, each_layer=arguments.layers)


if __name__ == "__main__":
    main()
