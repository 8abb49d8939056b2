"""What a report says of a network on its microcontroller: both memories and the time."""

from collections.abc import Mapping
from dataclasses import replace

from ceras_ir.backends.c.fit import widest
from ceras_ir.backends.c.latency import annotate as note_times
from ceras_ir.backends.c.latency import latency_of
from ceras_ir.backends.c.model import Model
from ceras_ir.backends.c.sizes import Footprint
from ceras_ir.network.artefacts import Artefact
from ceras_ir.pipeline.report import Entry, entries_of
from ceras_ir.targets import Emission


def on_board(
    files: list[Artefact], manifest: Mapping[str, object], model: Model, footprint: Footprint
) -> Emission:
    """Emit `files`, with flash, SRAM and time per layer and in total."""
    footprint = replace(footprint, widest=widest(model, footprint))
    latency = latency_of(model, footprint.board)

    def annotate(layers: list[Entry]) -> None:
        note_times(layers, model.layers, latency)
        entries = entries_of(layers, (layer.op for layer in model.layers))
        for entry, size in zip(entries, footprint.layers, strict=True):
            if entry is None:
                continue
            entry |= {"flash_bytes": size.flash, "sram_bytes": size.sram}
            if size.kernel:
                entry["kernel"] = size.kernel

    return Emission(
        files,
        dict(manifest),
        footprint.to_json() | model.memory_totals(),
        annotate,
        {"flash_bytes": ("flash", "{:,}"), "sram_bytes": ("SRAM", "{:,}")},
        [text for text in (footprint.line(), footprint.width_line()) if text],
        None if latency is None else latency.prediction,
    )
