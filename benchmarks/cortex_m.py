"""
Count the instructions per multiplication of int8 layers on a Cortex-M under qemu.

Each layer is a separate network. The count is that of `model_run`, including halo, widening of
weights and requantization, and the integers are compared with the interpreter.

    python benchmarks/cortex_m.py [--board NAME] [--flags=-O2] [--bits 4]
    python benchmarks/cortex_m.py --network MODEL.onnx [--calibrate DATA.npz] [--board NAME]
                                  [--state h=hn]... [--bits 4] [--optimize balanced]

With `--bits`, weights have fewer bits than 8. The second form counts a network as `ceras-compile
--target c --optimize speed` deploys it, or with another `--optimize`. For a network with states, it
counts a step.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
from firmware import sizes, write_files
from rich.console import Console
from rich.table import Table
from xdsl.builder import ImplicitBuilder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.hints import isa

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.emulator import EmulatedModel, available
from ceras_ir.backends.c.machines import Board, COptions, load_machine
from ceras_ir.backends.c.names import Goal
from ceras_ir.backends.c.target import CTarget
from ceras_ir.dialects.graph import ConstantOp, Conv2dOp, LinearOperation, MatmulOp
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import in_turn, run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError, UnsupportedError
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization

BOARD = "nano_33_ble"
"""The memories fit all layers; the core is that of the Uno R4."""
WORKSPACE = 12 * 1024
X, W, Y = UniformType(0.5), UniformType(0.25), UniformType(1.0)


@dataclass(frozen=True)
class Case:
    """A layer, and published and required instructions per multiplication."""

    name: str
    shape: tuple[int, ...]
    """The input shape."""
    weights: tuple[int, ...]
    padding: int
    cmsis: str = ""
    asked: str = ""
    aim: str = ""
    stride: int = 1
    groups: int = 1
    is_float: bool = False


CASES = (
    Case("3x3, C = 32", (1, 16, 16, 32), (32, 3, 3, 32), 1, "1.925", "1.07", "0.60"),
    Case("3x3, C = 16", (1, 32, 32, 16), (16, 3, 3, 16), 1, "2.33"),
    Case("3x3, C = 64", (1, 8, 8, 64), (64, 3, 3, 64), 1),
    Case("3x3, C = 3", (1, 32, 32, 3), (16, 3, 3, 3), 1),
    Case("3x3, stride 2", (1, 32, 32, 16), (32, 3, 3, 16), 1, stride=2),
    Case("depthwise 3x3", (1, 24, 24, 32), (32, 3, 3, 1), 1, groups=32),
    Case("1x1, K = 32", (1, 16, 16, 32), (32, 1, 1, 32), 0, "2.72", "1.3", "1.1"),
    Case("FC 256 to 64", (1, 256), (64, 256), 0, "2.08", "1.75", "1.5"),
)


def network(case: Case, bits: int = 8) -> ModuleOp:
    """Return a network with the layer and random weights of `bits` bits."""
    rng = np.random.default_rng(0)
    most = (1 << bits - 1) - 1
    weights = rng.integers(-most, most + 1, case.weights).astype(np.int8)
    bias = rng.integers(-1000, 1000, case.weights[0]).astype(np.int32)
    block = Block(arg_types=[TensorType(f32 if case.is_float else X, case.shape)])
    with ImplicitBuilder(block):
        if case.is_float:
            w = ConstantOp.from_array(weights.astype(np.float32), f32).result
            b = ConstantOp.from_array(bias.astype(np.float32), f32).result
        else:
            w = ConstantOp.from_array(weights, W.widened(bits)).result
            b = ConstantOp.from_array(bias, UniformType(0.125, storage=i32)).result
        layer = _layer(case, block.args[0], w, b)
        ReturnOp(layer.result)
    kind = ([a.type for a in block.args], [layer.result.type])
    module = ModuleOp([FuncOp("main", kind, Region(block))])
    module.verify()
    AllocateBlocksPass().apply(Context(), module)
    return module


def _layer(case: Case, x: SSAValue, w: SSAValue, b: SSAValue) -> LinearOperation:
    requant = None if case.is_float else RequantAttr(10)
    element = f32 if case.is_float else Y
    if len(case.shape) == 2:
        return MatmulOp(x, w, b, result_element=element, requant=requant)
    return Conv2dOp(
        x, w, b, result_element=element, strides=(case.stride,) * 2, padding=[case.padding] * 4,
        groups=case.groups, requant=requant,
    )  # fmt: skip


PORTABLE = COptions(vectors=False, workspace=WORKSPACE)
KERNELS = {
    "portable C": PORTABLE,
    "SMLAD": replace(PORTABLE, dsp=True),
    "filters in flash": replace(PORTABLE, dsp=True, stored_filters=frozenset({0})),
}
"""With SMLAD, 3x3 filters are transformed at run time, or at compile time if they fit the flash."""

HELIUM_KERNELS = {"Helium": replace(PORTABLE, dsp=True, helium=True, winograd=0)}
"""Further kernels of cores with Helium."""


def microcontroller(name: str) -> Board:
    """Return a board with a core that qemu has."""
    board = load_machine(name)
    if not isinstance(board, Board) or board.known_core.emulation is None:
        raise SystemExit(f"board {name} has no core that qemu emulates")
    return board


def layer_of(module: ModuleOp) -> LinearOperation:
    """Return the only layer of the network."""
    return next(op for op in module.walk() if isinstance(op, LinearOperation))


def measure(
    case: Case, options: COptions, board: Board, flags: Sequence[str], bits: int = 8
) -> float:
    """Return the instructions per multiplication, and assert that the integers are correct."""
    module = network(case, bits)
    main = main_function(module)
    with tempfile.TemporaryDirectory(prefix="ceras-m4-") as name:
        work = Path(name)
        (work / "model").mkdir()
        files = [a for a in emit(module, options) if a.path.startswith("model")]
        sources = write_files(files, work / "model")
        ends = network_inputs(main), network_outputs(main)
        model = EmulatedModel(sources, *ends, board, work, flags=flags)
        rng = np.random.default_rng(1)
        x = rng.integers(-128, 128, case.shape).astype(np.int8)
        (result,) = model.run([{"input0": x}], repeat=3)
        expected = run(module, {"input0": x})["output0"]
        assert np.array_equal(result["output0"], expected), case.name
    return model.instructions[0] / layer_of(module).macs


def whole_network(
    path: str,
    calibrate: str | None,
    board: str,
    flags: Sequence[str],
    states: Mapping[str, str],
    optimize: Goal,
    bits: int,
) -> str:
    """
    Return flash, SRAM and instructions of a network in int8 with weights of `bits` bits, and assert
    that the results are correct.
    """
    network = read_network(path, states=states)
    options = BuildOptions(
        CTarget(board=board, optimize=optimize),
        quantize="int8",
        calibration=calibrate,
        io="int8",
        weight_bits=(str(bits),) if bits < 8 else (),
        # A quantized model has its scales, and no pass chooses them.
        recipe=() if carries_quantization(network) else ("none",),
    )
    result = build(network, options)
    main = main_function(result.module)
    ends = network_inputs(main), network_outputs(main)
    with tempfile.TemporaryDirectory(prefix="ceras-m4-") as name:
        work = Path(name)
        write_files(result.files(), work)
        sources = sorted(work.rglob("model*.c"))
        model = EmulatedModel(sources, *ends, microcontroller(board), work, flags=flags)
        rng = np.random.default_rng(0)
        sample = {t.name: rng.integers(-128, 128, t.shape).astype(t.dtype) for t in ends[0]}
        steps = [sample] * (2 if states else 1)
        for got, right in zip(model.run(steps), in_turn(result.module, steps), strict=True):
            for key, expected in right.items():
                assert np.array_equal(got[key], expected), key
        size = sizes(work / "firmware.elf")
    totals = result.report["totals"]
    assert isa(totals, dict[str, object])
    macs = totals["macs"]
    assert isinstance(macs, int)
    count = model.instructions[0]
    return (
        f"{Path(path).stem}: {count:,.0f} instructions, {count / macs:.2f} per MAC of {macs:,}; "
        f"flash {size.flash:,}, SRAM {size.sram:,} bytes"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="int8 layers on a Cortex-M")
    parser.add_argument("--flags", default="-O2", help="of arm-none-eabi-gcc (default: -O2)")
    parser.add_argument("--bits", type=int, default=8, help="of the weights (default: 8)")
    parser.add_argument("--network", metavar="MODEL.onnx", help="count a whole network instead")
    parser.add_argument("--calibrate", metavar="DATA.npz", help="calibration data of --network")
    parser.add_argument("--board", default=BOARD, help="(default: %(default)s)")
    parser.add_argument(
        "--optimize", choices=get_args(Goal), default="speed", help="of --network (default: speed)"
    )
    parser.add_argument("--state", metavar="h=hn", action="append", default=[], help="of --network")
    arguments = parser.parse_args()
    if not available():
        parser.exit(1, "needs arm-none-eabi-gcc and qemu-system-arm\n")
    flags = arguments.flags.split()
    if arguments.network:
        states = {name: result for name, _, result in (s.partition("=") for s in arguments.state)}
        model, data = arguments.network, arguments.calibrate
        try:
            given = arguments.board, flags, states, arguments.optimize, arguments.bits
            print(whole_network(model, data, *given))
        except (InputError, UnsupportedError) as error:
            raise SystemExit(str(error)) from None
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("instructions per MAC")
    board = microcontroller(arguments.board)
    kernels = {**KERNELS, **HELIUM_KERNELS} if board.has_helium else KERNELS
    for header in (*kernels, "CMSIS-NN", "asked", "aim"):
        table.add_column(header, justify="right")
    for case in CASES:
        counts = (measure(case, o, board, flags, arguments.bits) for o in kernels.values())
        figures = [f"{count:.3f}" for count in counts]
        table.add_row(case.name, *figures, case.cmsis, case.asked, case.aim)
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
