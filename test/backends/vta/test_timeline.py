"""Pictures of a run show each instruction, or the time of the instructions."""

import json
from xml.etree import ElementTree

from backends.vta.test_stream_file import BOARD, doubled_rows
from vta_gemm import svg
from xdsl.utils.hints import isa

from ceras_ir.backends.vta.execution.performance import chrome_trace, timeline
from ceras_ir.backends.vta.machine.isa import Module
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.support.timeline import TIMELINE_COLUMNS, parse_bars


def test_chrome_trace():
    program = doubled_rows()
    run = simulate_time(program.instructions, BOARD)
    events = json.loads(chrome_trace([("first", program.instructions, run)]))["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == len(program.instructions)
    assert {e["args"]["instruction"] for e in spans} == set(range(len(spans)))
    assert max(e["ts"] + e["dur"] for e in spans) == run.cycles
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"] == [
        "load",
        "compute",
        "store",
    ]


def test_lanes_show_the_time_of_each_kind():
    program = doubled_rows(200)
    run = simulate_time(program.instructions, BOARD)
    launch = timeline("a", program.instructions, run)
    drawn = {
        kind: sum(b.end - b.start for lane in launch.lanes for b in lane.bars if b.kind == kind)
        for kind in ("store", "gemm")
    }
    store = next(
        s for s in run.spans if program.instructions[s.index].__class__.__name__ == "Store"
    )
    assert abs(drawn["store"] - (store.end - store.start) * TIMELINE_COLUMNS / run.cycles) <= 2
    assert drawn["gemm"] > 0
    lanes = launch.to_json()["lanes"]
    assert isa(lanes, list[dict[str, object]])
    for lane, said in zip(launch.lanes, lanes, strict=True):
        assert parse_bars(str(said["bars"]), launch.kinds) == lane.bars


def test_picture_stands_alone():
    """The picture is a single XML document with the lanes and the cycles of each launch."""
    program = doubled_rows()
    run = simulate_time(program.instructions, BOARD)
    launches = [timeline(name, program.instructions, run) for name in ("a < b", "second")]
    root = ElementTree.fromstring(svg(launches))
    lanes = [e for e in root.iter() if e.get("class") == "lane"]
    assert len(lanes) == 2 * len(Module)
    words = [e.text or "" for e in root.iter() if e.tag.endswith("text")]
    assert any(word.startswith(f"a < b: {run.cycles:,} cycles") for word in words)
