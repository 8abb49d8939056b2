"""
Compare predicted times of reports with instructions counted under qemu and times measured here.

    python benchmarks/predicted_times.py [MODEL.onnx ...] [--layers] [--computer BOARD]

A ratio is the prediction divided by the count or the measured time: 1 is exact. The default models
are the example network, ResNet-8, and MobileNetV2 on the host. Cortex-M needs arm-none-eabi-gcc and
qemu-system-arm. BOARD is the board file of this computer, with the rates of c_host_peak.c.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from networks import mobilenet_v2, resnet8
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ceras_ir.backends.c.costs import instructions, latency_of
from ceras_ir.backends.c.emitter import build as print_model
from ceras_ir.backends.c.emitter import files_of
from ceras_ir.backends.c.emulator import EmulatedModel, available, run_elf
from ceras_ir.backends.c.machines import (
    NATIVE_MACHINE,
    Board,
    COptions,
    Machine,
    bare_machine,
    load_machine,
)
from ceras_ir.backends.c.optimize import choose
from ceras_ir.backends.c.target import CTarget
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.report import spelling
from ceras_ir.pipeline.stages import BuildOptions, Quantize, all_stages, run_stages
from ceras_ir.support.diagnostics import node_name

HERE = Path(__file__).parent
DIGITS = HERE.parent / "examples" / "digits" / "digits.onnx"
BOARDS = ("uno_r4_wifi", "due")
"""The first board has SMLAD and a floating-point unit; the second has neither."""

TRACE = """\
#include <stdint.h>
#include "semihosting.h"
void model_trace(int layer, const void *data, unsigned long bytes);
static uint32_t taken[LAST + 1], before;
void model_trace(int layer, const void *data, unsigned long bytes)
{
  const uint32_t now = SYSTICK[2];
  (void)data, (void)bytes;
  taken[layer] = (before - now) & 0xffffff;
  if (layer == LAST) {
    for (int i = 0; i <= LAST; ++i) {
      char text[12];
      int at = 11;
      text[at] = 0;
      text[--at] = '\\n';
      for (uint32_t rest = taken[i]; rest || at == 10; rest /= 10) text[--at] = '0' + rest % 10;
      semihosting(0x04 /* SYS_WRITE0 */, text + at);
    }
  }
  before = SYSTICK[2];
}
"""
"""Prints the ticks between the ends of layers. The first layer has no figure."""


@dataclass(frozen=True)
class Figure:
    """A layer: the prediction, and the count or the measured time."""

    name: str
    predicted: float
    actual: float


def on_board(path: Path, quantize: Quantize, board_name: str) -> Iterator[Figure]:
    """Count the instructions of all layers except the first, on a board that fits all networks."""
    board = load_machine(board_name)
    assert isinstance(board, Board), board_name
    emulation = board.known_core.emulation
    assert emulation is not None, board_name
    board = replace(board, flash_bytes=4 << 20, sram_bytes=3 << 20)
    module = _lowered(path, quantize, board_name)
    main = main_function(module)
    model = choose(module, board, "m", machine=bare_machine(board)).model
    with tempfile.TemporaryDirectory(prefix="ceras-times-") as name:
        work = Path(name)
        sources = work / "model"
        write_artefacts(sources, [a for a in files_of(model) if a.path.startswith("model")])
        (sources / "trace.c").write_text(TRACE)
        ends = network_inputs(main), network_outputs(main)
        flags = ("-Os", "-DMODEL_TRACE", f"-DLAST={len(model.layers) - 1}", f"-I{work}")
        emulated = EmulatedModel(sorted(sources.glob("*.c")), *ends, board, work, flags=flags)
        rng = np.random.default_rng(0)
        with open(work / "in.bin", "wb") as stream:
            for tensor in ends[0]:
                stream.write(rng.standard_normal(tensor.shape).astype(tensor.dtype).tobytes())
        ticks = run_elf(emulated.build(), work, emulation=emulation).split()
    for layer, count in list(zip(model.layers, ticks, strict=True))[1:]:
        counted = int(count) * emulation.instructions_per_tick
        yield Figure(_name(layer.op), instructions(layer, board), counted)


def on_host(path: Path, quantize: Quantize, computer: str | None) -> Iterator[Figure]:
    """
    Measure the microseconds of all layers here, for the rates of the board file `computer`, or of
    the default machine.
    """
    machine = NATIVE_MACHINE if computer is None else load_machine(computer)
    assert isinstance(machine, Machine), computer
    model = print_model(_lowered(path, quantize, computer), COptions(machine=machine))
    latency = latency_of(model, machine)
    if latency is None:
        raise SystemExit(f"{computer} has no rates: set products_per_us and bytes_per_us")
    with tempfile.TemporaryDirectory(prefix="ceras-times-") as name:
        work = Path(name)
        write_artefacts(work, files_of(model))
        flags = ("-O3", "-march=native", "-std=c99", "-ffp-contract=off")
        bench, program = work / "bench.o", work / "layers"
        _cc(*flags, "-Dmain=bench_main", "-c", work / "bench.c", "-o", bench)
        files = (bench, HERE / "c_host_layers.c", work / "model.c", work / "model_weights.c")
        _cc(*flags, "-DMODEL_TRACE", *files, "-lm", "-o", program)
        done = subprocess.run([program, "20"], capture_output=True, text=True, check=True)
        measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    # The report lists layers in another order than the program, which is reordered for memory.
    for layer in model.layers:
        if (actual := measured.get(str(layer.index))) is not None:
            yield Figure(_name(layer.op), latency.times[layer.index], actual)


def _lowered(path: Path, quantize: Quantize, board: str | None) -> ModuleOp:
    """Return the network at `path` after all stages of target c for a board or a computer."""
    options = BuildOptions(CTarget(board=board), quantize=quantize, recipe=_recipe(quantize))
    module = read_network(str(path))
    run_stages(load_context(), module, all_stages(options.resolved(module)))
    return module


def _cc(*arguments: str | Path) -> None:
    subprocess.run(["cc", *arguments], check=True)


def _name(op: Operation) -> str:
    return f"{node_name(op)} ({spelling(op)})"


def _recipe(quantize: Quantize) -> tuple[str, ...]:
    """Return the fastest recipe: time depends on shapes, not on values."""
    return ("none",) if quantize == "int8" else ()


def show(title: str, unit: str, figures: Sequence[Figure], *, layers: bool) -> None:
    predicted, actual = sum(f.predicted for f in figures), sum(f.actual for f in figures)
    print(f"{title}: {predicted:,.0f} {unit} predicted, {actual:,.0f}; {predicted / actual:.2f}")
    for f in figures if layers else ():
        if f.actual:
            print(
                f"    {f.name}: {f.predicted:,.0f}, {f.actual:,.0f}; {f.predicted / f.actual:.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="predicted times against counted ones")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--layers", action="store_true", help="also every layer")
    parser.add_argument("--computer", metavar="BOARD", help="the board file of this computer")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ceras-times-") as name:
        models: list[Path] = arguments.models
        if not models:
            models = [DIGITS, Path(name) / "resnet8.onnx", Path(name) / "mobilenet_v2.onnx"]
            resnet8(models[1])
            mobilenet_v2(models[2])
        for path in models:
            for kind in ("int8", "none"):
                title = f"{path.stem} {'float' if kind == 'none' else kind}"
                if available() and "mobilenet" not in path.stem:
                    for board in BOARDS:
                        figures = list(on_board(path, kind, board))
                        show(
                            f"{title} on {board}", "instructions", figures, layers=arguments.layers
                        )
                figures = list(on_host(path, kind, arguments.computer))
                show(f"{title} here", "us", figures, layers=arguments.layers)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
