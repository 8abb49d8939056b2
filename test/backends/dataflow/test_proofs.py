"""Prove the rules of streams for the modules of the dataflow circuits."""

from pathlib import Path

import pytest
from rtl_proofs import Proof, hold, needs_yosys

import ceras_ir.backends.dataflow
from ceras_ir.support.native import SKID_BUFFER, STREAM_FIFO

pytestmark = [needs_yosys, pytest.mark.slow]

HDL = Path(ceras_ir.backends.dataflow.__file__).parent / "hdl"
CONCATENATION, RING = HDL / "concatenation.sv", (HDL / "row_ring.sv",)
PROOFS = (
    Proof("fifo_proof", STREAM_FIFO, "if (step || out_ready) out_valid", "out_valid", 8),
    Proof("fifo_proof", STREAM_FIFO, "count != (ADDRESS_BITS + 1)'(DEPTH)", "1'b1", 8),
    Proof("fork_proof", HDL / "stream_fork.sv", "'0 : taken | out_ready", "'0 : out_ready", 6),
    Proof("input_proof", HDL / "stream_input.sv", "(fills || port_last)", "port_last", 12),
    Proof("input_proof", HDL / "stream_input.sv", "!fills && !port_last;", "0;", 12),
    Proof("output_proof", HDL / "stream_output.sv", "if (ends) port_valid", "port_valid", 8),
    Proof("table_proof", HDL / "function_table.sv", "= !out_valid || out_ready", "= 1", 8),
    Proof("skid_proof", SKID_BUFFER, "if (!holds) held", "held"),
    Proof("ring_proof", HDL / "row_ring.sv", "!= ROW_BITS'(CAPACITY)", "!= '1", 12),
    Proof(
        "ring_proof", HDL / "row_ring.sv", "rows_written <= complete", "rows_written <= started", 12
    ),
    Proof("selection_proof", HDL / "selection.sv", "= !out_valid || out_ready", "= 1"),
    Proof("selection_proof", HDL / "selection.sv", " && channel < 16'(OUT_CHANNELS)", ""),
    Proof("repetition_proof", HDL / "repetition.sv", "(out_ready && last)", "out_ready", 8),
    Proof("repetition_proof", HDL / "repetition.sv", "copy <= last ? 0 :", "copy <=", 8),
    Proof("upper_proof", CONCATENATION, "written != freed", "1'b1", 10, RING),
    Proof("upper_proof", CONCATENATION, "due <= in_channel ==", "due <= in_channel !=", 10, RING),
    Proof("lower_proof", CONCATENATION, "sent <= 1", "sent <= 0", 10, RING),
    Proof("lower_proof", CONCATENATION, "in_channel != 0 || sent", "1", 10, RING),
)


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: f"{proof.top}: {proof.new}")
def test_streams(proof: Proof, tmp_path: Path):
    hold(proof, Path(__file__).parent / "proofs.sv", tmp_path)
