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
_WIDTH, _ROW, _LABEL, _MARGIN = 1200, 22, 120, 30
_STYLE = (
    "body{font:14px/1.4 system-ui,sans-serif;color:#222;background:#fff;margin:24px auto;"
    "max-width:1400px;padding:0 16px}h1{font-size:22px;margin:0}header p{margin:2px 0 8px}"
    "header{position:sticky;top:0;background:#fffffff0;padding:8px 0;border-bottom:1px solid #ddd}"
    "ul{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:0;padding:0}"
    "li i{display:inline-block;width:14px;height:14px;border-radius:3px;margin-right:6px;"
    "vertical-align:-2px}section{margin:18px 0}h2{font-size:15px;margin:0 0 4px}"
    "small{font-weight:normal;color:#666}svg{width:100%;height:auto;display:block}"
    "text{font:12px system-ui,sans-serif;fill:#444}.end{text-anchor:end;fill:#888}"
    ".tick{text-anchor:middle;fill:#888;font-size:11px}.lane{fill:#f3f3f3}line{stroke:#0002}"
)


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
    """
    A lane per module and launch, with the share of its busy cycles and an axis of cycles; what
    is too short for a pixel is drawn with its neighbour.
    """
    legend = "".join(
        f'<li><i style="background:{colour}"></i>{kind}</li>' for kind, colour in _COLOURS.items()
    )
    total = sum(run.cycles for _, _, run in launches)
    count = f"{len(launches)} launch{'' if len(launches) == 1 else 'es'}"
    parts = [
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>VTA timeline</title>',
        f"<style>{_STYLE}</style>",
        f"<header><h1>VTA timeline</h1><p>{count}, {total:,} cycles</p><ul>{legend}</ul></header>",
    ]
    for number, (name, stream, run) in enumerate(launches):
        share = f"{100 * run.gemm_share:.1f}% multiply"
        part = f"{100 * run.cycles / total:.1f}% of all" if total else ""
        parts.append(
            f"<section><h2>{number}. {escape(name)} <small>{run.cycles:,} cycles, {part}; {share}; "
            f"bound by {run.bound_by}</small></h2>"
        )
        parts.append(_picture(stream, run))
        parts.append("</section>")
    return "\n".join(parts) + "\n</html>\n"


def svg(launches: Traced) -> str:
    """The same lanes as one picture that stands alone, on white."""
    width, lanes = _LABEL + _WIDTH + _MARGIN, (len(Module) + 1) * _ROW
    height = _ROW * 2 + len(launches) * (lanes + _ROW * 2)
    rules = "text{font:12px system-ui,sans-serif;fill:#444}.end{text-anchor:end;fill:#888}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>{rules}.tick{{text-anchor:middle}}.lane{{fill:#f3f3f3}}line{{stroke:#0002}}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, (kind, colour) in enumerate(_COLOURS.items()):
        x = _LABEL + place * 120
        parts.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="19">{kind}</text>')
    for number, (name, stream, run) in enumerate(launches):
        y = _ROW * 2 + number * (lanes + _ROW * 2)
        text = f"{escape(name)}: {run.cycles:,} cycles, {100 * run.gemm_share:.1f}% multiply"
        parts.append(f'<text x="{_LABEL}" y="{y}">{text}</text>')
        size = f'y="{y + 8}" width="{width}" height="{lanes}"'
        parts.append(_picture(stream, run).replace("<svg ", f"<svg {size} ", 1))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _picture(stream: Sequence[Instruction], run: TimedRun) -> str:
    """The lanes of one launch over its axis."""
    right, bottom = _LABEL + _WIDTH, len(Module) * _ROW
    parts = [f'<svg viewBox="0 0 {right + _MARGIN} {bottom + _ROW}" role="img">']
    for module in Module:
        y = int(module) * _ROW
        busy = 100 * run.busy[module] / run.cycles if run.cycles else 0
        parts.append(f'<text x="0" y="{y + 15}">{module.name.lower()}</text>')
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 15}" class="end">{busy:.0f}%</text>')
        parts.append(
            f'<rect x="{_LABEL}" y="{y + 2}" width="{_WIDTH}" height="{_ROW - 4}" class="lane"/>'
        )
        spans = [s for s in run.spans if s.module is module]
        for kind, x, width in _pixels(spans, stream, run.cycles):
            first, last = (run.cycles * at // _WIDTH for at in (x, x + width))
            title = f"<title>{kind}, cycles {first:,} to {last:,}</title>"
            parts.append(
                f'<rect x="{_LABEL + x}" y="{y + 2}" width="{width}" height="{_ROW - 4}" '
                f'fill="{_COLOURS[kind]}">{title}</rect>'
            )
    for cycle in _ticks(run.cycles):
        x = _LABEL + cycle * _WIDTH // max(1, run.cycles)
        parts.append(f'<line x1="{x}" x2="{x}" y1="0" y2="{bottom + 3}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 15}" class="tick">{cycle:,}</text>')
    parts.append("</svg>")
    return "\n".join(parts)


def _ticks(cycles: int) -> range:
    """Five to ten round numbers of cycles."""
    step = 1
    while cycles // step > 10:
        step *= 5 if str(step)[0] == "1" and cycles // (step * 2) > 10 else 2
    return range(0, cycles + 1, step)


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
