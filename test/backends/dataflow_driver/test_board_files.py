"""Run the block design in Tcl, and check the entries of boards."""

from dataclasses import replace
from pathlib import Path

import pytest
from vendor_scripts import needs_tcl, run_script

from ceras_ir.backends.dataflow.blocks import Feature
from ceras_ir.backends.dataflow.board import DataflowBoard, load_board
from ceras_ir.backends.dataflow.frames import PortFrames
from ceras_ir.backends.dataflow.shell import board_files, bus_core, has_shell

PORTS = [PortFrames(0, Feature(4, 2, 9), 1, 8, is_turned=False)] * 3


def write(board: DataflowBoard, folder: Path) -> None:
    (folder / "hdl").mkdir()
    (folder / "hdl" / "pipeline.sv").write_text("module pipeline; endmodule\n")
    (folder / "hdl" / "b1.mem").write_text("00\n")
    (folder / "board").mkdir()
    for name, text in board_files(board, bus_core(0xABCD, PORTS[0], PORTS[1:])).items():
        (folder / "board" / name).write_text(text)


@needs_tcl
@pytest.mark.parametrize("name", ["pynq_z2", "kv260"])
@pytest.mark.parametrize(
    ("slacks", "status"), [("0.1 0.02", 0), ("-0.1 0.02", 1), ("0.1 -0.02", 1)]
)
def test_the_block_design_fails_if_timing_fails(
    name: str, slacks: str, status: int, tmp_path: Path
):
    board = load_board(name)
    write(board, tmp_path)
    found, commands = run_script("block_design.tcl", tmp_path / "board", "", slacks)
    assert found == status
    assert ("write_hw_platform" in commands) == (not status)
    assert f"-part {board.part}" in commands
    for file in ("hdl/pipeline.sv", "hdl/b1.mem", "board/circuit_shell.sv", "board/circuit_axi.v"):
        assert file in commands
    kind = "zynq_ultra_ps_e" if board.family == "xcup" else "processing_system7"
    assert f"xilinx.com:ip:{kind}" in commands


def test_the_wrapper_has_the_sizes_of_the_circuit(tmp_path: Path):
    write(load_board("kv260"), tmp_path)
    text = (tmp_path / "board" / "circuit_axi.v").read_text()
    beats = 4 * 2 * 2
    assert "localparam CONFIGURATION = 32'h0000abcd;" in text
    assert f"localparam INPUT_BEATS = {beats};" in text
    assert f"localparam OUTPUT_BEATS = {{32'd{beats}, 32'd{beats}}};" in text
    assert ".m_axis_1_tready(output_ready[1])" in text and "@" not in text
    tree = (tmp_path / "board" / "circuit.dtso").read_text()
    assert "circuit@a0000000 {" in tree and "reg = <0x0 0xa0000000 0x0 0x1000>;" in tree


def test_boards_without_a_shell():
    board = load_board("zedboard")
    assert has_shell(board, 1) and has_shell(board, 64)
    assert not has_shell(board, 65)
    assert not has_shell(replace(board, port_bytes=6), 1)
    assert not has_shell(load_board("ecp5-85f"), 1)
