"""Prove the rules of AXI4 for the memory port of a circuit."""

from pathlib import Path

import pytest
from rtl_proofs import Proof, hold, needs_yosys

from ceras_ir.backends.dataflow.shell import SHELL_FOLDER
from ceras_ir.support.native import STREAM_FIFO

pytestmark = [needs_yosys, pytest.mark.slow]

READER, WRITER = SHELL_FOLDER / "memory_reader.sv", SHELL_FOLDER / "memory_writer.sv"
FIFO = (STREAM_FIFO,)
PROOFS = (
    Proof("reader_proof", READER, "if (arready) arvalid", "arvalid", others=FIFO),
    Proof("reader_proof", READER, "- (PLACE + 1)'(at[PLACE-1:0])", "", others=FIFO),
    Proof("reader_proof", READER, "!halt && (!arvalid || arready)", "!arvalid", others=FIFO),
    Proof("writer_proof", WRITER, "if (awready) awvalid", "awvalid"),
    Proof("writer_proof", WRITER, "(source == 0 || ends) &&", ""),
    Proof("writer_proof", WRITER, "&& !halt", ""),
)


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: f"{proof.top}: {proof.new}")
def test_ports(proof: Proof, tmp_path: Path):
    hold(proof, Path(__file__).parent / "proofs.sv", tmp_path)
