"""
When load, compute and store run: lanes to be drawn, and Chrome's trace format, which Perfetto
opens, with every instruction.
"""

import json
from collections.abc import Sequence
from html import escape

from ceras_ir.backends.vta.isa import Alu, Gemm, Instruction, Load, MemoryType, Module, describe
from ceras_ir.backends.vta.machine.time import TimedRun
from ceras_ir.support.timeline import Lane, Timeline, bars_of
from ceras_ir.support.timeline_picture import (
    LABEL,
    MARGIN,
    ROW,
    STYLE,
    WIDTH,
    height_of,
    legend,
    timeline_picture,
)

Traced = Sequence[tuple[str, Sequence[Instruction], TimedRun]]
"""Launches: name, stream, and its run."""

KINDS = ("load inp", "load wgt", "load acc", "load uop", "gemm", "alu", "store", "no-op")


def timeline(name: str, stream: Sequence[Instruction], run: TimedRun) -> Timeline:
    """A lane for each module of one launch."""
    lanes: list[Lane] = []
    for module in Module:
        spans = [(s.start, s.end, _kind(stream[s.index])) for s in run.spans if s.module is module]
        busy = run.busy[module] / run.cycles if run.cycles else 0.0
        bars = tuple(bars_of(spans, run.cycles)) if run.cycles else ()
        lanes.append(Lane(module.name.lower(), busy, bars))
    note = f"{run.gemm_share:.1%} multiply, bound by {run.bound_by}"
    return Timeline(name, run.cycles, note, KINDS, tuple(lanes))


def chrome_trace(launches: Traced) -> str:
    """One process per launch, one thread per module; a microsecond stands for a cycle."""
    events: list[dict[str, object]] = []
    for process, (name, stream, run) in enumerate(launches):
        events.append(_name("process_name", process, 0, name))
        for module in Module:
            events.append(_name("thread_name", process, int(module), module.name.lower()))
        for span in run.spans:
            events.append(
                {
                    "name": describe(stream[span.index]),
                    "ph": "X",
                    "pid": process,
                    "tid": int(span.module),
                    "ts": span.start,
                    "dur": span.end - span.start,
                    "args": {"instruction": span.index},
                }
            )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, object]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def svg(launches: Sequence[Timeline]) -> str:
    """Timelines below each other as one picture that stands alone, on white."""
    width = LABEL + WIDTH + MARGIN
    height = ROW * 2 + sum(height_of(launch) + ROW * 2 for launch in launches)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, (kind, colour) in enumerate(legend(launches[0]).items() if launches else ()):
        x = LABEL + place * 120
        parts.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="19">{kind}</text>')
    y = ROW * 2
    for launch in launches:
        text = f"{escape(launch.name)}: {launch.cycles:,} cycles, {launch.note}"
        parts.append(f'<text x="{LABEL}" y="{y}">{text}</text>')
        size = f'y="{y + 8}" width="{width}" height="{height_of(launch)}"'
        parts.append(timeline_picture(launch, size))
        y += height_of(launch) + ROW * 2
    return "\n".join([*parts, "</svg>"]) + "\n"


def _kind(i: Instruction) -> str:
    match i:
        case Load(memory=memory, x_size=size):
            if not size:
                return "no-op"
            return "load acc" if memory is MemoryType.ACC_8BIT else f"load {memory.name.lower()}"
        case Gemm():
            return "gemm"
        case Alu():
            return "alu"
        case _:
            name = describe(i)
            return name if name == "store" else "no-op"
