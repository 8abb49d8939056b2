"""What a report says of VTA: cycles per launch and in total, streams as text, timelines."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.disassembler import disassemble_program
from ceras_ir.backends.vta.launches import lower_launches
from ceras_ir.backends.vta.performance import measure
from ceras_ir.backends.vta.rules import VTA
from ceras_ir.backends.vta.timeline import chrome_trace, html
from ceras_ir.network.artefacts import Artefact

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
    """Add what the manifest says of each launch to the report's entry of its layer."""
    vta = manifest["vta"]
    assert isa(vta, Entry)
    launches, peak = vta["launches"], load_board(board_name).macs_per_cycle
    assert isa(launches, list[Entry])
    # A swish is in the launch of the layer before it.
    placed = [x for x in layers if x["device"] == VTA and x["op"] != "shift_swish"]
    parts: list[Entry] = []
    for launch in launches:
        of_launch = launch["layers"]
        assert isa(of_launch, list[Entry])
        parts += of_launch
    for layer, part in zip(placed, parts, strict=True):
        performance, macs = part["performance"], layer["macs"]
        assert isa(performance, Entry) and isinstance(macs, int)
        cycles = performance["cycles"]
        assert isinstance(cycles, int)
        share = macs / peak / cycles if cycles else 0.0
        layer |= {**performance, "share_of_peak": round(share, 4)}


def pictures(module: ModuleOp, board_name: str) -> list[Artefact]:
    """The streams as text, and timelines of when they run as HTML and Chrome trace."""
    board = load_board(board_name)
    launches = lower_launches(module, board)
    traced = [
        (launch.name, launch.program.instructions, cost.run)
        for launch, cost in zip(launches, measure(launches, board), strict=True)
    ]
    texts = [disassemble_program(launch.program) for launch in launches]
    return [
        Artefact.of_text("timeline.html", "when the modules of VTA run", html(traced)),
        Artefact.of_text("timeline.json", "the same for chrome://tracing", chrome_trace(traced)),
        *(
            Artefact.of_text(f"launch_{i}.vtas", f"stream of launch {i}", text)
            for i, text in enumerate(texts)
        ),
    ]
