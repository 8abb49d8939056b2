"""Run the scripts for tools of vendors in Tcl, and read IP-XACT."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataflow_circuits import convolution, plan_of
from vendor_scripts import needs_tcl, run_script

from ceras_ir.backends.dataflow.blocks import Feature, Pipeline, Source
from ceras_ir.backends.dataflow.board import load_board
from ceras_ir.backends.dataflow.circuit import Circuit
from ceras_ir.backends.dataflow.emit import project_files
from ceras_ir.backends.dataflow.project_scripts import SPIRIT, script_files


def run_project_script(
    name: str, folder: Path, arguments: str, slacks: str, paths: str = "a"
) -> tuple[int, str]:
    """Run a script of the ZedBoard."""
    for file, text in script_files(load_board("zedboard")).items():
        (folder / file).write_text(text)
    (folder / "pipeline.sv").write_text("module pipeline; endmodule\n")
    return run_script(name, folder, arguments, slacks, paths)


@needs_tcl
@pytest.mark.parametrize(
    ("script", "arguments"), [("vivado.tcl", ""), ("quartus.tcl", "check")], ids=["vivado", "sta"]
)
@pytest.mark.parametrize(
    ("slacks", "paths", "status"),
    [("0.1 0.02", "a", 0), ("-0.1 0.02", "a", 1), ("0.1 -0.02", "a", 1), ("0.1 0.02", "", 1)],
    ids=["met", "setup fails", "hold fails", "no path"],
)
def test_a_script_fails_if_timing_fails(
    script: str, arguments: str, slacks: str, paths: str, status: int, tmp_path: Path
):
    found, commands = run_project_script(script, tmp_path, arguments, slacks, paths)
    assert found == status
    if script == "vivado.tcl":
        assert "read_verilog -sv pipeline.sv" in commands
        assert "-part xc7z020clg484-1" in commands


@needs_tcl
def test_quartus_checks_the_timing_after_the_compilation(tmp_path: Path):
    status, commands = run_project_script(
        "quartus.tcl", tmp_path, '"Cyclone V" 5CSEMA5F31C6', "1 1"
    )
    assert not status
    assert commands.index("execute_flow -compile") < commands.index("exec quartus_sta")
    assert "set_global_assignment -name DEVICE 5CSEMA5F31C6" in commands
    assert run_project_script("quartus.tcl", tmp_path, "", "1 1")[0] == 1


def test_constraints_have_the_clock_of_the_board():
    board = replace(load_board("ecp5-85f"), clock_mhz=125)
    found = script_files(board)
    assert "-period 8.000 " in found["pipeline.xdc"] and "-period 8.000 " in found["pipeline.sdc"]
    assert 'FREQUENCY PORT "clk" 125 MHZ;' in found["pipeline.lpf"]


def test_ip_xact_has_the_ports_and_files_of_the_circuit():
    source = Source("input", Feature(4, 2, 4))
    layer = convolution(source, 2, (1, 1), np.random.default_rng(1))
    pipeline, board = Pipeline(source, [layer]), load_board("zedboard")
    project = project_files(Circuit(pipeline, plan_of(pipeline, {})), board)
    root = ET.fromstring(project["component.xml"])
    space = {"s": SPIRIT}

    def texts(path: str) -> list[str]:
        return [element.text or "" for element in root.findall(path, space)]

    header = project["pipeline.sv"].split(");")[0]
    declared = re.findall(r"(?:input|output) logic .*?(\w+)(?:,|\n|$)", header)
    assert texts(".//s:port/s:name") == declared
    assert set(texts(".//s:physicalPort/s:name")) == set(declared) - {"input_errors"}
    assert texts(".//s:file/s:name") == sorted(
        name for name in project if name.endswith((".sv", ".mem"))
    )
    widths = dict(zip(declared, root.findall(".//s:port", space), strict=True))
    left = widths["s_axis_tdata"].find(".//s:left", space)
    assert left is not None and left.text == str(8 * board.port_bytes - 1)
