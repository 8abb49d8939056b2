"""
Pictures of when load, compute and store run: Chrome's trace format, which Perfetto opens, and
a page of HTML that needs nothing else.
"""

import json
from collections.abc import Iterator, Sequence
from html import escape

from ceras_ir.backends.vta.isa import Alu, Gemm, Instruction, Load, MemoryType, Module, describe
from ceras_ir.backends.vta.timed_simulator import Span, TimedRun

Traced = Sequence[tuple[str, Sequence[Instruction], TimedRun]]
"""Launches: name, stream, and its run."""

_COLOURS = {
    "load inp": "#4c78a8",
    "load wgt": "#72b7b2",
    "load acc": "#9d755d",
    "load uop": "#b279a2",
    "gemm": "#54a24b",
    "alu": "#eeca3b",
    "store": "#e45756",
    "no-op": "#bab0ac",
}
_WIDTH, _ROW, _LABEL = 1200, 18, 70


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


def html(launches: Traced) -> str:
    """A row per module and launch; what is too short for a pixel is drawn with its neighbour."""
    legend = "".join(
        f'<span style="background:{colour}">&nbsp;&nbsp;</span> {kind}&emsp;'
        for kind, colour in _COLOURS.items()
    )
    parts = [
        '<!DOCTYPE html><meta charset="utf-8"><title>VTA timeline</title>',
        "<style>body{font:13px sans-serif}h2{font-size:14px;margin:14px 0 2px}</style>",
        f"<h1>VTA timeline</h1><p>{legend}</p>",
    ]
    for name, stream, run in launches:
        share = f"{100 * run.gemm_share:.1f}% of cycles multiply"
        parts.append(f"<h2>{escape(name)}: {run.cycles:,} cycles, {share}</h2>")
        parts.append(f'<svg width="{_LABEL + _WIDTH}" height="{3 * _ROW}">')
        for module in Module:
            y = int(module) * _ROW
            parts.append(f'<text x="0" y="{y + 13}">{module.name.lower()}</text>')
            spans = [s for s in run.spans if s.module is module]
            for kind, x, width in _pixels(spans, stream, run.cycles):
                parts.append(
                    f'<rect x="{_LABEL + x}" y="{y + 2}" width="{width}" height="{_ROW - 4}" '
                    f'fill="{_COLOURS[kind]}"><title>{kind}</title></rect>'
                )
        parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _pixels(
    spans: Sequence[Span], stream: Sequence[Instruction], cycles: int
) -> Iterator[tuple[str, int, int]]:
    """Kind, first pixel and width of bars; in each pixel, the kind that runs longest."""
    columns: list[dict[str, float]] = [{} for _ in range(_WIDTH)]
    for span in spans:
        kind = _kind(stream[span.index])
        first, last = span.start * _WIDTH / cycles, span.end * _WIDTH / cycles
        for pixel in range(int(first), min(_WIDTH, int(last) + 1)):
            inside = min(last, pixel + 1) - max(first, pixel)
            columns[pixel][kind] = columns[pixel].get(kind, 0) + inside
    previous, start = "", 0
    for pixel in range(_WIDTH + 1):
        column = columns[pixel] if pixel < _WIDTH else {}
        busy = sum(column.values()) >= 0.5
        kind = max(column, key=lambda k: column[k]) if busy else ""
        if kind != previous:
            if previous:
                yield previous, start, pixel - start
            previous, start = kind, pixel


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
