"""Write a predicted inference as a Chrome trace for Perfetto."""

import json
from collections import deque
from collections.abc import Iterator

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.timeline import TIMELINE_COLUMNS, Timeline
from ceras_ir.workbench.report.content import Content

Event = dict[str, object]


def perfetto_trace(content: Content) -> str:
    """
    Return the predicted inference as a Chrome trace in JSON, in which each layer is a span in
    microseconds. Raise a `UsageError` if the report has no predicted times.
    """
    if content.microseconds is None:
        raise UsageError(
            f"target {content.target} predicted no times: compile for a --board with rates"
        )
    return json.dumps({"traceEvents": list(_events(content)), "displayTimeUnit": "ms"}) + "\n"


def _events(content: Content) -> Iterator[Event]:
    devices = list(dict.fromkeys(row.device for row in content.layers))
    yield _name("process_name", 0, 0, f"{content.title}, predicted for {content.machine}")
    for thread, device in enumerate(devices):
        yield _name("thread_name", 0, thread, device)
    waiting = deque(content.timelines)
    lanes = [lane.name for timeline in content.timelines[:1] for lane in timeline.lanes]
    if lanes:
        yield _name("process_name", 1, 0, "accelerator")
    for thread, lane in enumerate(lanes):
        yield _name("thread_name", 1, thread, lane)
    now = 0.0
    for row in content.layers:
        time = row.microseconds or 0.0
        if not time:
            continue
        thread = devices.index(row.device)
        facts: Event = {"operation": row.op, "products": row.macs, "bytes": row.bytes}
        if row.reason:
            facts["reason"] = row.reason
        yield _span(row.name, 0, thread, now, time, facts)
        # A launch begins with the first of consecutive layers.
        cycles = row.facts.get("cycles")
        if isinstance(cycles, int) and cycles and waiting and _begins(waiting[0], row.name):
            timeline = waiting.popleft()
            yield from _parts(timeline, now, timeline.cycles * time / cycles)
        now += time


def _begins(timeline: Timeline, layer: str) -> bool:
    return timeline.name == layer or timeline.name.startswith(f"{layer} to ")


def _parts(timeline: Timeline, start: float, time: float) -> Iterator[Event]:
    for thread, lane in enumerate(timeline.lanes):
        for bar in lane.bars:
            first, last = (time * at / TIMELINE_COLUMNS for at in (bar.start, bar.end))
            yield _span(bar.kind, 1, thread, start + first, last - first, {})


def _span(name: str, process: int, thread: int, start: float, time: float, facts: Event) -> Event:
    place = {"ph": "X", "pid": process, "tid": thread}
    return {"name": name, **place, "ts": round(start, 3), "dur": round(time, 3), "args": facts}


def _name(kind: str, process: int, thread: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
