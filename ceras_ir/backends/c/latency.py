"""
What the layers of a printed model take: instructions on a microcontroller, rates on a host.

Both are models, which `benchmarks/predicted_times.py` holds against counts and measured times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ceras_ir.backends.c.board import Board
from ceras_ir.backends.c.instruction_model import instructions
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.machine import Machine
from ceras_ir.backends.c.model import Model
from ceras_ir.dialects.mem import CPU
from ceras_ir.pipeline.report import Entry, entries_of
from ceras_ir.targets import MICROSECONDS, Ceiling, Prediction
from ceras_ir.transforms.quantization.analysis.time_model import time_of_operation

PRODUCTS_PER_CYCLE_DSP, PRODUCTS_PER_CYCLE, BYTES_PER_CYCLE = 2.0, 1.0, 4.0
"""What an instruction of a Cortex-M does at most."""


@dataclass(frozen=True)
class Latency:
    """Microseconds of each layer by its index, and instructions where those are modelled."""

    times: Mapping[int, float]
    instructions: Mapping[int, int]
    prediction: Prediction


def annotate(entries: list[Entry], layers: Sequence[Layer], latency: Latency | None) -> None:
    """Add kernels and times to the report's entries, which may be in another order."""
    for entry, layer in zip(entries_of(entries, (x.op for x in layers)), layers, strict=True):
        if entry is None:
            continue
        entry |= layer.modelled
        if layer.kernel:
            entry["kernel"] = layer.kernel
        if latency is not None:
            entry[MICROSECONDS] = round(latency.times[layer.index], 3)
            if layer.index in latency.instructions:
                entry["instructions"] = latency.instructions[layer.index]


def latency_of(model: Model, machine: Machine | Board) -> Latency | None:
    """The prediction for a machine; None where its rates are not known."""
    if isinstance(machine, Board):
        return _on_board(model, machine)
    return _on_host(model, machine)


def _on_board(model: Model, board: Board) -> Latency | None:
    if not board.known_core.has_times:
        return None
    counts = {layer.index: round(instructions(layer, board)) for layer in model.layers}
    each = PRODUCTS_PER_CYCLE_DSP if model.options.dsp else PRODUCTS_PER_CYCLE
    prediction = Prediction(
        f"{board.title}, {board.core} at {board.clock_mhz} MHz",
        "Instructions of each kernel as counted in an emulator, at one a cycle: wait states of "
        "flash come on top.",
        (Ceiling(CPU, each * board.clock_mhz, BYTES_PER_CYCLE * board.clock_mhz),),
    )
    times = {index: count / board.clock_mhz for index, count in counts.items()}
    return Latency(times, counts, prediction)


def _on_host(model: Model, machine: Machine) -> Latency | None:
    products, moved = machine.products_per_us, machine.bytes_per_us
    if products is None or moved is None:
        return None
    prediction = Prediction(
        f"{machine.title}, one core",
        f"{products / 1000:,.0f} products of int8 in a nanosecond, and other work in proportion to "
        "them as measured on one x86-64 host; caches are not modelled.",
        (Ceiling(CPU, products, moved),),
    )
    times = {
        layer.index: time_of_operation(layer.op) / products if layer.lines else 0.0
        for layer in model.layers
    }
    return Latency(times, {}, prediction)
