"""
Compare sparse with dense layers in C: time on this machine, instructions on a Cortex-M4, bytes.

Each layer is a separate network, with the shapes and shares of zeros of the network of S5 (180x240
and 360x480) and random weights, an equal number in each filter. The same weights are compiled as a
dense constant and in the encoding of `choose-encodings`. Integers are compared with the
interpreter.

    python benchmarks/sparse_kernels.py             # int8 and float here, and ONNX Runtime
    python benchmarks/sparse_kernels.py --crossover # the share of zeros at which sparse is faster
    python benchmarks/sparse_kernels.py --cortex    # instructions under qemu
"""

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from importlib import import_module
from math import lgamma, log, prod
from pathlib import Path
from typing import Any

import numpy as np
from firmware import write_files
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from xdsl.builder import ImplicitBuilder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.emulator import EmulatedModel, available
from ceras_ir.backends.c.machines import COptions, load_board
from ceras_ir.backends.c.sparse_code import smallest_distances
from ceras_ir.dialects.graph import ConstantOp, Conv2dOp
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.dialects.sparse import Encoded
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

X, W, Y = UniformType(0.5), UniformType(0.25), UniformType(1.0)


@dataclass(frozen=True)
class Case:
    """A layer."""

    name: str
    shape: tuple[int, ...]
    window: tuple[int, ...]
    zeros: float
    stride: int = 1
    padding: int = 0
    block: int = 1
    """The number of neighboring weights that are stored together."""


CASES = (
    Case("11x11, 3 to 64, stride 4", (1, 360, 480, 3), (64, 11, 11, 3), 0.942, 4),
    Case("5x5, 64 to 64", (1, 44, 59, 64), (64, 5, 5, 64), 0.941, padding=2),
    Case("3x3, 64 to 128", (1, 22, 29, 64), (128, 3, 3, 64), 0.941, padding=1),
    Case("3x3, 128 to 128", (1, 22, 29, 128), (128, 3, 3, 128), 0.94, padding=1),
    Case("1x1, 128 to 128", (1, 22, 29, 128), (128, 1, 1, 128), 0.805),
    Case("1x1, 128 to 11", (1, 22, 29, 128), (11, 1, 1, 128), 0.758),
    Case("3x3, 128 to 128, 1x4", (1, 22, 29, 128), (128, 3, 3, 128), 0.94, padding=1, block=4),
)

SMALL = (
    Case("5x5, C = 32", (1, 16, 16, 32), (32, 5, 5, 32), 0.94, padding=2),
    Case("3x3, C = 32", (1, 16, 16, 32), (32, 3, 3, 32), 0.94, padding=1),
    Case("3x3, C = 64", (1, 16, 16, 64), (64, 3, 3, 64), 0.94, padding=1),
    Case("1x1, C = 64", (1, 16, 16, 64), (64, 1, 1, 64), 0.94),
)


def weights_of(case: Case) -> NDArray[np.int8]:
    """Return random weights with an equal number of nonzeros per filter."""
    rng = np.random.default_rng(0)
    filters, products = case.window[0], prod(case.window[1:])
    weights = np.zeros((filters, products // case.block, case.block), np.int8)
    kept = weights.shape[1] - int(case.zeros * weights.shape[1])
    for row in weights:
        places = rng.permutation(len(row))[:kept]
        values = rng.integers(1, 128, (kept, case.block)) * rng.choice((-1, 1), (kept, case.block))
        row[places] = values
    return weights.reshape(case.window)


def network(
    case: Case, encoded: Encoded | None, weights: NDArray[np.int8], *, is_float: bool
) -> ModuleOp:
    """Return the layer with encoded weights, or with dense weights."""
    rng = np.random.default_rng(1)
    bias = rng.integers(-1000, 1000, case.window[0])
    block = Block(arg_types=[TensorType(f32 if is_float else X, case.shape)])
    element = f32 if is_float else W
    with ImplicitBuilder(block):
        if encoded is not None:
            w = ConstantOp(encoded, TensorType(element, encoded.shape)).result
        else:
            w = ConstantOp.from_array(
                weights.astype(np.float32) if is_float else weights, element
            ).result
        if is_float:
            b = ConstantOp.from_array(bias.astype(np.float32)).result
        else:
            b = ConstantOp.from_array(bias.astype(np.int32), UniformType(0.125, storage=i32)).result
        op = Conv2dOp(
            block.args[0], w, b, result_element=f32 if is_float else Y,
            strides=(case.stride,) * 2, padding=[case.padding] * 4,
            requant=None if is_float else RequantAttr(9),
        )  # fmt: skip
        ReturnOp(op.result)
    module = ModuleOp([FuncOp("main", ([block.args[0].type], [op.result.type]), Region(block))])
    module.verify()
    AllocateBlocksPass().apply(Context(), module)
    return module


def encoded_weights(weights: NDArray[np.int8], *, is_float: bool) -> Encoded:
    return smallest_distances(weights.astype(np.float32) if is_float else weights)


def host_time(module: ModuleOp, rounds: int, *, is_float: bool) -> float:
    """Return the minimum microseconds of an inference, and assert that results are correct."""
    main = main_function(module)
    with tempfile.TemporaryDirectory(prefix="ceras-sparse-") as name:
        folder = Path(name)
        write_files(emit(module, COptions()), folder)
        subprocess.run(["make", "-s", "-C", name], check=True)
        (source,) = network_inputs(main)
        rng = np.random.default_rng(2)
        x = rng.integers(-128, 128, source.shape).astype(source.dtype)
        x.tofile(folder / "in.bin")
        subprocess.run(["./model_run", "in.bin", "out.bin"], cwd=folder, check=True)
        expected = next(iter(run(module, {source.name: x}).values()))
        got = np.fromfile(folder / "out.bin", expected.dtype).reshape(expected.shape)
        if is_float:
            np.testing.assert_allclose(
                got.astype(np.float32), expected.astype(np.float32), rtol=1e-4, atol=1e-2
            )
        else:
            np.testing.assert_array_equal(got, expected)
        best = float("inf")
        for _ in range(rounds):
            text = subprocess.run(
                ["./model_bench", "50"], cwd=folder, check=True, capture_output=True, text=True
            ).stdout
            best = min(best, json.loads(text)["min_ms"])
    return best * 1e3


def onnxruntime_time(case: Case, weights: NDArray[np.int8]) -> float | None:
    """Return the minimum microseconds of ONNX Runtime on the float layer, on a single thread."""
    try:
        onnx: Any = import_module("onnx")
        onnxruntime: Any = import_module("onnxruntime")
    except ImportError:
        return None
    n, h, w, c = case.shape
    node = onnx.helper.make_node(
        "Conv", ["x", "w", "b"], ["y"], strides=[case.stride] * 2, pads=[case.padding] * 4
    )
    graph = onnx.helper.make_graph(
        [node],
        "layer",
        [onnx.helper.make_tensor_value_info("x", 1, [n, c, h, w])],
        [onnx.helper.make_tensor_value_info("y", 1, None)],
        [
            onnx.numpy_helper.from_array(
                np.ascontiguousarray(weights.astype(np.float32).transpose(0, 3, 1, 2)), "w"
            ),
            onnx.numpy_helper.from_array(np.zeros(case.window[0], np.float32), "b"),
        ],
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    x = np.random.default_rng(0).normal(size=(n, c, h, w)).astype(np.float32)
    best = float("inf")
    for _ in range(60):
        start = time.process_time_ns()
        session.run(None, {"x": x})
        best = min(best, (time.process_time_ns() - start) / 1e3)
    return best


def entropy_bytes(weights: NDArray[np.int8], item: int) -> float:
    """Return the bytes of the values plus the entropy of their positions."""
    size, count = weights.size, int(np.count_nonzero(weights))
    choices = lgamma(size + 1) - lgamma(count + 1) - lgamma(size - count + 1)
    return choices / log(2) / 8 + count * item


def host(rounds: int) -> None:
    """Print the times of dense and sparse layers."""
    table = Table(box=None, pad_edge=False)
    headers = (
        "layer", "zeros", "int8 dense us", "sparse us", "ratio", "float dense us", "sparse us",
        "ratio", "ONNX Runtime float us", "float ratio", "int8 ratio", "bytes", "entropy", "ratio",
    )  # fmt: skip
    for header in headers:
        table.add_column(header, justify="right" if header != "layer" else "left")
    for case in CASES:
        weights = weights_of(case)
        cells = [case.name, f"{case.zeros:.1%}"]
        times: list[float] = []
        for is_float in (False, True):
            encoded = encoded_weights(weights, is_float=is_float)
            dense, sparse = (
                host_time(network(case, e, weights, is_float=is_float), rounds, is_float=is_float)
                for e in (None, encoded)
            )
            times.append(sparse)
            cells += [f"{dense:.0f}", f"{sparse:.0f}", f"{dense / sparse:.2f}"]
        peer = onnxruntime_time(case, weights)
        cells += (
            ["-"] * 3
            if peer is None
            else [f"{peer:.0f}", f"{peer / times[1]:.2f}", f"{peer / times[0]:.2f}"]
        )
        size, bound = encoded_weights(weights, is_float=False).nbytes, entropy_bytes(weights, 1)
        cells += [f"{size:,}", f"{bound:,.0f}", f"{size / bound:.3f}"]
        table.add_row(*cells)
    Console(highlight=False, width=200).print(table)


def crossover(rounds: int) -> None:
    """Print ratios of dense to sparse time by share of zeros."""
    table = Table(box=None, pad_edge=False)
    shares = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
    for header in ("dense / sparse time", *(f"{share:.0%}" for share in shares)):
        table.add_column(header, justify="right")
    for is_float in (False, True):
        for case in CASES[1:6]:
            cells = [f"{case.name}, {'float' if is_float else 'int8'}"]
            for share in shares:
                weights = weights_of(replace(case, zeros=share))
                encoded = encoded_weights(weights, is_float=is_float)
                dense, sparse = (
                    host_time(
                        network(case, e, weights, is_float=is_float), rounds, is_float=is_float
                    )
                    for e in (None, encoded)
                )
                cells.append(f"{dense / sparse:.2f}")
            table.add_row(*cells)
    Console(highlight=False, width=160).print(table)


def cortex(flags: list[str]) -> None:
    """Print the instructions of dense and sparse layers on a Cortex-M4."""
    table = Table(box=None, pad_edge=False)
    for header in (
        "layer",
        "zeros",
        "dense",
        "filters in flash",
        "sparse",
        "ratio",
        "ratio",
        "bytes",
        "dense",
    ):
        table.add_column(header, justify="right" if header != "layer" else "left")
    options = COptions(vectors=False, workspace=24 * 1024, dsp=True)
    for case in SMALL:
        weights = weights_of(case)
        encoded = encoded_weights(weights, is_float=False)
        ways = (
            (None, options),
            (None, replace(options, stored_filters=frozenset({0}))),
            (encoded, options),
        )
        counts = [
            instructions(network(case, e, weights, is_float=False), o, flags) for e, o in ways
        ]
        macs = prod(case.shape[:3]) * prod(case.window)
        table.add_row(
            case.name, f"{case.zeros:.0%}", *(f"{count / macs:.3f}" for count in counts),
            *(f"{count / counts[2]:.2f}" for count in counts[:2]), f"{encoded.nbytes:,}",
            f"{weights.size:,}",
        )  # fmt: skip
    Console(highlight=False, width=160).print("instructions per multiplication of the dense layer")
    Console(highlight=False, width=160).print(table)


def instructions(module: ModuleOp, options: COptions, flags: list[str]) -> float:
    """Return the instructions of an inference, and assert that the integers are correct."""
    main = main_function(module)
    with tempfile.TemporaryDirectory(prefix="ceras-m4-") as name:
        work = Path(name)
        (work / "model").mkdir()
        files = [a for a in emit(module, options) if a.path.startswith("model")]
        sources = write_files(files, work / "model")
        ends = network_inputs(main), network_outputs(main)
        model = EmulatedModel(sources, *ends, load_board("nano_33_ble"), work, flags=flags)
        x = np.random.default_rng(1).integers(-128, 128, ends[0][0].shape).astype(np.int8)
        (result,) = model.run([{"input0": x}], repeat=3)
        np.testing.assert_array_equal(result["output0"], run(module, {"input0": x})["output0"])
    return model.instructions[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="sparse layers in C against dense ones")
    parser.add_argument("--crossover", action="store_true", help="ratios by share of zeros")
    parser.add_argument("--cortex", action="store_true", help="instructions on a Cortex-M4")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement")
    parser.add_argument("--flags", default="-O2", help="of arm-none-eabi-gcc (default: -O2)")
    arguments = parser.parse_args()
    if arguments.cortex:
        if not available():
            parser.exit(1, "needs arm-none-eabi-gcc and qemu-system-arm\n")
        cortex(arguments.flags.split())
    elif arguments.crossover:
        crossover(arguments.rounds)
    else:
        host(arguments.rounds)


if __name__ == "__main__":
    main()
