"""What a report says of VTA: times per layer and launch, streams as text, timelines."""

from itertools import islice

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.disassembler import disassemble_program
from ceras_ir.backends.vta.launches import LoweredLaunch, lower_launches
from ceras_ir.backends.vta.machine.time import Timing
from ceras_ir.backends.vta.performance import measure
from ceras_ir.backends.vta.rules import VTA
from ceras_ir.backends.vta.timeline import Traced, chrome_trace, timeline
from ceras_ir.dialects.mem import CPU, LaunchOp
from ceras_ir.network.artefacts import Artefact
from ceras_ir.support.timeline import Timeline
from ceras_ir.targets import MICROSECONDS, Ceiling, Prediction

Entry = dict[str, object]

COLUMNS = {"cycles": ("cycles", "{:,}"), "share_of_peak": ("of peak", "{:.1%}")}
"""What the table of layers shows."""


def launch_totals(manifest: Entry) -> Entry:
    """The totals of all launches that VTA's manifest entries describe."""
    vta = manifest["vta"]
    assert isa(vta, Entry)
    totals = vta["totals"]
    assert isa(totals, Entry)
    return totals


def note_launches(layers: list[Entry], manifest: Entry, board_name: str) -> None:
    """Add what the manifest says of each launch to its layer, and times to all layers."""
    vta = manifest["vta"]
    assert isa(vta, Entry)
    launches, board = vta["launches"], load_board(board_name)
    assert isa(launches, list[Entry])
    placed = iter([x for x in layers if x["device"] == VTA])
    # In text of the tile level a launch stands for all that it replaced.
    are_launches = any(layer["op"] == LaunchOp.name for layer in layers)
    parts: list[Entry] = []
    for launch in launches:
        of_launch = launch["layers"]
        assert isa(of_launch, list[Entry])
        parts += of_launch
    for part in parts:
        count = part["operations"]
        assert isinstance(count, int)
        # What goes with a layer, a swish or a maximum, is in its cycles.
        layer, *_ = islice(placed, 1 if are_launches else count)
        performance, macs = part["performance"], layer["macs"]
        assert isa(performance, Entry) and isinstance(macs, int)
        cycles = performance["cycles"]
        assert isinstance(cycles, int)
        share = macs / board.macs_per_cycle / cycles if cycles else 0.0
        layer |= {**performance, "share_of_peak": round(share, 4)}
        layer[MICROSECONDS] = round(cycles / board.clock, 3)
    for layer in layers:
        if layer["device"] != VTA:
            macs, moved = layer["macs"], layer["bytes"]
            assert isinstance(macs, int) and isinstance(moved, int)
            host = macs / board.host_macs_per_us + moved / board.host_bytes_per_us
            layer[MICROSECONDS] = round(host, 3)


def prediction(module: ModuleOp, board_name: str) -> Prediction:
    """Where the times come from, and what VTA and its host can do at most."""
    board = load_board(board_name)
    timing = Timing.of(board)
    bytes_per_us = board.clock * timing.bus_bytes
    return Prediction(
        f"VTA {board_name} at {board.clock} MHz",
        "Launches: cycles of the timed simulator, each from an idle machine. Host: products and "
        "bytes at the board's rates. Packing and unpacking between them is not counted.",
        (
            Ceiling(VTA, board.clock * board.macs_per_cycle, bytes_per_us),
            Ceiling(CPU, board.host_macs_per_us, board.host_bytes_per_us),
        ),
    )


def _traced(module: ModuleOp, board_name: str) -> tuple[list[LoweredLaunch], Traced]:
    """The launches of a module, and what the timed simulator says of each."""
    board = load_board(board_name)
    launches = lower_launches(module, board)
    costs = measure(launches, board)
    return launches, [
        (launch.name, launch.program.instructions, cost.run)
        for launch, cost in zip(launches, costs, strict=True)
    ]


def timelines(module: ModuleOp, board_name: str) -> list[Timeline]:
    """When load, compute and store of every launch run."""
    return [timeline(*launch) for launch in _traced(module, board_name)[1]]


def pictures(module: ModuleOp, board_name: str) -> list[Artefact]:
    """The streams as text, and when every instruction runs as a Chrome trace."""
    launches, traced = _traced(module, board_name)
    texts = [disassemble_program(launch.program) for launch in launches]
    return [
        Artefact.of_text(
            "timeline.json", "when each instruction runs, for Perfetto", chrome_trace(traced)
        ),
        *(
            Artefact.of_text(f"launch_{i}.vtas", f"stream of launch {i}", text)
            for i, text in enumerate(texts)
        ),
    ]
