"""
Instructions per multiplication of int8 layers on a Cortex-M4, counted under qemu.

Each layer is a network of its own: the whole of `model_run` is counted, halo, widening of
weights and requantization included, and its integers are compared with the interpreter's.

    python benchmarks/cortex_m4.py [--flags=-O2]
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from xdsl.builder import ImplicitBuilder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ceras_ir.analysis.network import main_function
from ceras_ir.backends.arduino.board import load_board
from ceras_ir.backends.arduino.emulator import EmulatedModel, available, write_files
from ceras_ir.backends.artefacts import network_inputs, network_outputs
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.options import COptions
from ceras_ir.dialects.graph import ConstantOp, Conv2dOp, LinearOperation, MatmulOp
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.transforms.allocate_blocks import AllocateBlocksPass

BOARD = "nano_33_ble"
"""Room enough for every layer; the core is that of the Uno R4."""
WORKSPACE = 12 * 1024
X, W, Y = UniformType(0.5), UniformType(0.25), UniformType(1.0)


@dataclass(frozen=True)
class Case:
    """A layer, and the instructions per multiplication that others and the issue name."""

    name: str
    shape: tuple[int, ...]
    """Of the input."""
    weights: tuple[int, ...]
    padding: int
    cmsis: str
    asked: str
    aim: str


CASES = (
    Case("3x3, C = 32", (1, 16, 16, 32), (32, 3, 3, 32), 1, "1.925", "1.07", "0.60"),
    Case("3x3, C = 16", (1, 32, 32, 16), (16, 3, 3, 16), 1, "2.33", "", ""),
    Case("3x3, stride 2", (1, 32, 32, 16), (32, 3, 3, 16), -1, "", "", ""),
    Case("1x1, K = 32", (1, 16, 16, 32), (32, 1, 1, 32), 0, "2.72", "1.3", "1.1"),
    Case("FC 256 to 64", (1, 256), (64, 256), 0, "2.08", "1.75", "1.5"),
)


def network(case: Case) -> ModuleOp:
    """The layer with random weights."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, case.weights).astype(np.int8)
    bias = rng.integers(-1000, 1000, case.weights[0]).astype(np.int32)
    block = Block(arg_types=[TensorType(X, case.shape)])
    with ImplicitBuilder(block):
        w = ConstantOp.from_array(weights, W).result
        b = ConstantOp.from_array(bias, UniformType(0.125, storage=i32)).result
        layer = _layer(case, block.args[0], w, b)
        ReturnOp(layer.result)
    kind = ([a.type for a in block.args], [layer.result.type])
    module = ModuleOp([FuncOp("main", kind, Region(block))])
    module.verify()
    AllocateBlocksPass().apply(Context(), module)
    return module


def _layer(case: Case, x: SSAValue, w: SSAValue, b: SSAValue) -> LinearOperation:
    requant = RequantAttr(10)
    if len(case.shape) == 2:
        return MatmulOp(x, w, b, result_element=Y, requant=requant)
    stride = 2 if case.padding < 0 else 1
    padding = [abs(case.padding)] * 4
    return Conv2dOp(
        x, w, b, result_element=Y, strides=(stride, stride), padding=padding, requant=requant
    )


def measure(case: Case, *, dsp: bool, flags: Sequence[str]) -> float:
    """Instructions per multiplication; asserts that the integers are right."""
    module = network(case)
    main = main_function(module)
    options = COptions(dsp=dsp, vectors=False, workspace=WORKSPACE)
    with tempfile.TemporaryDirectory(prefix="ceras-m4-") as name:
        work = Path(name)
        (work / "model").mkdir()
        files = [a for a in emit(module, options) if a.path.startswith("model")]
        sources = write_files(files, work / "model")
        ends = network_inputs(main), network_outputs(main)
        model = EmulatedModel(sources, *ends, load_board(BOARD), work, flags=flags)
        rng = np.random.default_rng(1)
        x = rng.integers(-128, 128, case.shape).astype(np.int8)
        (result,) = model.run([{"input0": x}], repeat=3)
        expected = run(module, {"input0": x})["output0"]
        assert np.array_equal(result["output0"], expected), case.name
    layer = next(op for op in main.body.block.ops if isinstance(op, LinearOperation))
    return model.instructions[0] / layer.macs


def main() -> None:
    parser = argparse.ArgumentParser(description="int8 layers on a Cortex-M4")
    parser.add_argument("--flags", default="-O2", help="of arm-none-eabi-gcc (default: -O2)")
    arguments = parser.parse_args()
    if not available():
        parser.exit(1, "needs arm-none-eabi-gcc and qemu-system-arm\n")
    flags = arguments.flags.split()
    table = Table(box=None, pad_edge=False)
    table.add_column("instructions per MAC")
    columns: tuple[str, ...] = ("portable C", "SMLAD", "CMSIS-NN", "asked", "aim")
    for header in columns:
        table.add_column(header, justify="right")
    for case in CASES:
        portable, dsp = (measure(case, dsp=d, flags=flags) for d in (False, True))
        figures = (f"{portable:.2f}", f"{dsp:.3f}", case.cmsis, case.asked, case.aim)
        table.add_row(case.name, *figures)
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
