"""
Repeat the experiment of S4: train the 3-H-H-3 color corrector on a simulated sensor, deploy it
dense, as CSR and as CSR + int8, and compare error, memory and time with the paper.

Memory is that of the ELF that arm-none-eabi-gcc -Os links, with the sizes of the board. Time is the
number of instructions under qemu, at one instruction per cycle. Errors are those of the compiled C
on this machine.

    python benchmarks/arduino_mlp.py [--hidden 40,80] [--epochs N] [--largest]
"""

import argparse
import itertools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from firmware import sizes
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ceras_ir.backends.arduino.target import ArduinoTarget
from ceras_ir.backends.c.emulator import EmulatedModel, available, build_elf
from ceras_ir.backends.c.machines import Board, load_board
from ceras_ir.backends.c.names import EncodingChoice
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import Build, build, open_folder
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError, UnsupportedError, progress

Floats: TypeAlias = NDArray[np.float32]
Layers: TypeAlias = list[tuple[Floats, Floats]]
"""Weights [N, K] and bias of each layer."""

BOARD = "uno_r4_wifi"
HIDDEN = (40, 50, 60, 70, 80, 120, 160, 200, 400, 600)
ENCODINGS: dict[EncodingChoice, str] = {
    "dense": "dense",
    "csr": "CSR",
    "csr-int8": "CSR+int8",
    "auto": "chosen",
}
"""
The three encodings of S4, and the encoding that the compiler chooses per layer for this board.
"""


PAPER: dict[tuple[str, int], tuple[int | None, float | None]] = {
    ("dense", 40): (14524, 595.95),
    ("dense", 50): (18444, 406.93),
    ("dense", 60): (23164, 305.48),
    ("dense", 70): (None, None),
    ("csr", 40): (8488, 518.58),
    ("csr", 80): (9508, 464.86),
    ("csr", 120): (10520, 620.49),
    ("csr", 160): (11332, 589.08),
    ("csr", 200): (12332, 493.35),
    ("csr", 400): (17204, 864.40),
    ("csr", 600): (21976, 670.69),
    ("csr-int8", 40): (8160, 408.97),
    ("csr-int8", 80): (9148, 270.68),
    ("csr-int8", 120): (10132, 244.83),
    ("csr-int8", 160): (12000, None),
    ("csr-int8", 200): (12000, None),
    ("csr-int8", 400): (16836, None),
    ("csr-int8", 600): (21684, None),
}
"""SRAM in bytes (None: does not fit) and mean squared error, from S4's tables 8 and 10."""


def sensor(colours: Floats, rng: np.random.Generator) -> Floats:
    """
    Return the output of a phototransistor in front of surfaces of these colors.

    The spectra of the LEDs overlap, the response is nonlinear, and there are stray light and noise.
    The output is scaled to [0, 1] by black and white.
    """
    linear = colours.astype(np.float64) ** 2.2
    mixing = np.array([[0.72, 0.22, 0.06], [0.17, 0.68, 0.15], [0.05, 0.27, 0.68]])
    light = 0.04 + 0.96 * linear @ mixing.T
    read = light**0.8 / (0.3 + light**0.8)
    low, high = (v**0.8 / (0.3 + v**0.8) for v in (0.04, 1.0))
    noisy = (read - low) / (high - low) + rng.normal(scale=0.008, size=read.shape)
    return np.clip(noisy, 0, 1).astype(np.float32)


def samples(count: int, seed: int) -> tuple[Floats, Floats]:
    """Return sensor values and true colors. A third of the colors has saturated channels."""
    rng = np.random.default_rng(seed)
    colours = rng.random((count, 3))
    colours[::3] = np.round(colours[::3])
    return sensor(colours.astype(np.float32), rng), colours.astype(np.float32)


def forward(layers: Layers, x: Floats) -> list[Floats]:
    """Return the input and the results of all layers."""
    values = [x]
    for i, (weights, bias) in enumerate(layers):
        acc: Floats = values[-1] @ weights.T + bias
        last = i == len(layers) - 1
        values.append((1 / (1 + np.exp(-acc)) if last else np.maximum(acc, 0)).astype(np.float32))
    return values


def train(
    hidden: int, epochs: int, *, l1: float = 1e-6, rate: float = 0.01, seed: int = 0
) -> Layers:
    """
    Train with Adam on the mean squared error and the L1 norm of all parameters, with the full data
    set in each step, as in S4.
    """
    rng = np.random.default_rng(seed)
    x, y = samples(300, seed + 1)
    widths = (3, hidden, hidden, 3)
    parameters: list[Floats] = []
    for k, n in itertools.pairwise(widths):
        bound = k**-0.5
        parameters.append(rng.uniform(-bound, bound, (n, k)).astype(np.float32))
        parameters.append(rng.uniform(-bound, bound, n).astype(np.float32))
    first = [np.zeros_like(p) for p in parameters]
    second = [np.zeros_like(p) for p in parameters]
    for step in progress(range(1, epochs + 1), f"training H = {hidden}"):
        layers = list(zip(parameters[::2], parameters[1::2], strict=True))
        values = forward(layers, x)
        out = values[-1]
        error: Floats = ((2 / out.size) * (out - y) * out * (1 - out)).astype(np.float32)
        gradients: list[Floats] = []
        for i in reversed(range(3)):
            of_bias: Floats = error.sum(axis=0, dtype=np.float32)
            gradients[:0] = [error.T @ values[i], of_bias]
            if i:
                error = (error @ layers[i][0]) * (values[i] > 0)
        # The step decreases towards the end, so that weights that L1 reduces reach zero.
        pace = rate * min(1.0, 2 * (1 - (step - 1) / epochs))
        for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
            g = g + l1 * np.sign(p)
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            p -= pace * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return list(zip(parameters[::2], parameters[1::2], strict=True))


def random_layers(hidden: int, zeros: float) -> Layers:
    """Return random weights with a share of zeros in the two hidden matrices."""
    rng = np.random.default_rng(hidden)
    widths = (3, hidden, hidden, 3)
    layers: Layers = []
    for k, n in itertools.pairwise(widths):
        weights = (rng.normal(size=(n, k)) / k**0.5).astype(np.float32)
        if n != 3:
            chosen = rng.permutation(weights.size)[: int(zeros * weights.size)]
            weights.reshape(-1)[chosen] = 0
        layers.append((weights, rng.normal(size=n).astype(np.float32)))
    return layers


def save_onnx(layers: Layers, path: Path) -> None:
    """Write the network in the form that PyTorch exports."""
    nodes: list[onnx.NodeProto] = []
    tensors: list[onnx.TensorProto] = []
    value = "input"
    for i, (weights, bias) in enumerate(layers):
        tensors += [
            numpy_helper.from_array(weights, f"w{i}"),
            numpy_helper.from_array(bias, f"b{i}"),
        ]
        last = i == len(layers) - 1
        nodes.append(
            helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"g{i}"], f"fc{i + 1}", transB=1)
        )
        value = "output" if last else f"a{i}"
        nodes.append(helper.make_node("Sigmoid" if last else "Relu", [f"g{i}"], [value], f"f{i}"))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3])
        for name in ("input", "output")
    ]
    graph = helper.make_graph(nodes, "colour", ends[:1], ends[1:], tensors)
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path.write_bytes(model.SerializeToString())


@dataclass(frozen=True)
class Deployed:
    """A network on the board."""

    build: Build
    flash: int
    sram: int
    instructions: float
    mse: float


def compiled(layers: Layers, encoding: EncodingChoice, prune: str | None, folder: Path) -> Build:
    """Write the sketch to `folder`. Raise the error of the compiler if the network is too large."""
    save_onnx(layers, folder / "colour.onnx")
    options = BuildOptions(
        ArduinoTarget(board=BOARD, encoding=encoding), prune=prune, title="colour"
    )
    result = build(read_network(str(folder / "colour.onnx")), options)
    write_artefacts(folder, result.files())
    return result


def deploy(
    layers: Layers, encoding: EncodingChoice, board: Board, *, prune: str | None
) -> Deployed:
    """Compile, link, run on the emulated board, and measure the error of the C code."""
    with tempfile.TemporaryDirectory(prefix="ceras-mlp-") as name:
        folder = Path(name)
        result = compiled(layers, encoding, prune, folder)
        main, sources = main_function(result.module), sorted((folder / "colour").glob("*.c"))
        ends = network_inputs(main), network_outputs(main)
        emulated = EmulatedModel(sources, *ends, board, folder, flags=("-Os",))
        x, y = samples(400, 99)
        inputs = [{"input": row.reshape(1, 3)} for row in x]
        on_board = emulated.run(inputs[:1], repeat=4)[0]["output"]
        size = sizes(folder / "firmware.elf")
        outputs = [r["output"] for r in open_folder(folder).run(inputs)]
        assert outputs[0].tobytes() == on_board.tobytes(), "board and host differ"
        error = 255 * (np.concatenate(outputs).astype(np.float64) - y)
        return Deployed(
            result, size.flash, size.sram, emulated.instructions[0], float((error**2).mean())
        )


CALLER = """\
#include "model.h"
float x[3], y[3];
int main(void) { return model_run(x, y); }
"""


def links(hidden: int, zeros: float, encoding: EncodingChoice, board: Board) -> bool:
    """
    Return whether the compiler accepts the network and the program fits the memories of the board.
    """
    with tempfile.TemporaryDirectory(prefix="ceras-mlp-") as name:
        folder = Path(name)
        try:
            compiled(random_layers(hidden, zeros), encoding, None, folder)
            caller = folder / "caller.c"
            caller.write_text(CALLER)
            sketch = folder / "colour"
            sources = [caller, *sorted(sketch.glob("*.c"))]
            build_elf(sources, board, folder, include=[sketch], flags=("-Os",))
        except (UnsupportedError, InputError):
            return False
        return True


def largest(fits: Callable[[int], bool], low: int, high: int) -> int:
    """
    Return the largest integer for which `fits` is true, if it is true for all smaller integers.
    """
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def row(*cells: str) -> str:
    widths = (4, 9, 6, 8, 8, 9, 10, 8, 11, 9)
    return " ".join(c.rjust(w) for c, w in zip(cells, widths, strict=True)).rstrip()


def print_table(hidden: Sequence[int], epochs: int, board: Board) -> None:
    """Print tables 8 and 10 of S4, and two figures that S4 does not have: flash and time."""
    print(f"{board.title}, {epochs} epochs, L1 1e-6, Adam 0.01, pruned below 0.01\n")
    print(
        row(
            "H",
            "weights",
            "zeros",
            "MSE",
            "SRAM",
            "flash",
            "instr.",
            "ms",
            "SRAM in S4",
            "MSE in S4",
        )
    )
    for h in hidden:
        layers = train(h, epochs)
        for encoding, name in ENCODINGS.items():
            prune = None if encoding == "dense" else "threshold=0.01"
            sram, mse = PAPER.get((encoding, h), (0, None))
            paper = (
                "" if sram == 0 else "too large" if sram is None else f"{sram:,}",
                "" if mse is None else f"{mse:.1f}",
            )
            small = sum(int((np.abs(w) < 0.01).sum()) for w, _ in layers[:2])
            zeros = small / sum(w.size for w, _ in layers[:2]) if prune else 0.0
            head = (str(h), name, f"{zeros:.0%}")
            try:
                found = deploy(layers, encoding, board, prune=prune)
            except UnsupportedError:
                print(row(*head, *["-"] * 2, "too large", *["-"] * 2, *paper))
                continue
            ms = found.instructions / board.clock_mhz / 1000
            cells = (f"{found.mse:.1f}", f"{found.sram:,}", f"{found.flash:,}")
            print(row(*head, *cells, f"{found.instructions:,.0f}", f"{ms:.2f}", *paper), flush=True)


def print_largest(board: Board) -> None:
    """Print the largest H that links, with random weights and a given share of zeros."""
    print("\nlargest H in 256 KB of flash and 32 KB of SRAM (goal; another implementation)")
    goals: tuple[tuple[EncodingChoice, float, str], ...] = (
        ("dense", 0.0, "240; 251"),
        ("csr", 0.95, "860; 878"),
        ("csr-int8", 0.95, "1200; 1260"),
        ("auto", 0.95, "-; -"),
    )
    for encoding, zeros, goal in goals:
        found = largest(partial(links, zeros=zeros, encoding=encoding, board=board), 40, 3000)
        print(f"{ENCODINGS[encoding]:>9} at {zeros:.0%} zeros: {found} ({goal})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="S4's colour corrector on an Arduino")
    parser.add_argument(
        "--hidden",
        type=lambda text: tuple(int(h) for h in text.split(",")),
        default=HIDDEN,
        help="values of H (default: S4's)",
    )
    parser.add_argument("--epochs", type=int, default=1500, help="S4: 50000 (default: %(default)s)")
    parser.add_argument("--largest", action="store_true", help="only search the largest H")
    parser.add_argument("--save", type=Path, help="only train the first H and write it as ONNX")
    arguments = parser.parse_args()
    if arguments.save:
        save_onnx(train(arguments.hidden[0], arguments.epochs), arguments.save)
        return
    if not available():
        parser.exit(1, "needs arm-none-eabi-gcc and qemu-system-arm\n")
    board = load_board(BOARD)
    if not arguments.largest:
        print_table(arguments.hidden, arguments.epochs, board)
    print_largest(board)


if __name__ == "__main__":
    main()
