"""Pictures of a run show every instruction, or the time it took."""

import json
import re

from backends.vta.test_stream_file import BOARD, doubled_rows

from ceras_ir.backends.vta.timed_simulator import simulate_time
from ceras_ir.backends.vta.timeline import chrome_trace, html


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


def test_html():
    program = doubled_rows(200)
    run = simulate_time(program.instructions, BOARD)
    page = html([("a < b", program.instructions, run)])
    assert "a &lt; b" in page and f"{run.cycles:,} cycles" in page
    bars = re.findall(
        r'x="(\d+)" y="(\d+)" width="(\d+)".*?<title>([a-z -]+), cycles [^<]+</title>', page
    )
    drawn = {kind: sum(int(w) for _, _, w, k in bars if k == kind) for kind in ("store", "gemm")}
    store = next(
        s for s in run.spans if program.instructions[s.index].__class__.__name__ == "Store"
    )
    expected = (store.end - store.start) * 1200 / run.cycles
    assert abs(drawn["store"] - expected) <= 2
    assert drawn["gemm"] > 0
