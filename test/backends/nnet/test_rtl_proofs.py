"""Prove the rules of AXI4 and AXI4-Lite for modules of the nnet core."""

from pathlib import Path

import pytest
from rtl_proofs import Proof, hold, needs_yosys

from ceras_ir.backends.nnet.circuits import package_source
from ceras_ir.support.native import AXI_LITE_PORT

pytestmark = [needs_yosys, pytest.mark.slow]

HDL = package_source().parent
PROOFS = (
    Proof("lite_proof", AXI_LITE_PORT, "if (s_bready) s_bvalid", "s_bvalid"),
    Proof("lite_proof", AXI_LITE_PORT, "has_to && has_data && !", "has_to && !"),
    Proof("walker_proof", HDL / "run_walker.sv", "(!burst_valid || burst_ready)", "1'b1"),
    Proof("reader_proof", HDL / "axi_reader.sv", "if (arready) arvalid", "arvalid", 5),
    Proof("reader_proof", HDL / "axi_reader.sv", "!free || halt ?", "!free ?", 5),
    Proof("reader_proof", HDL / "axi_reader.sv", "rvalid && !halt ?", "rvalid ?", 5),
)


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: f"{proof.top}: {proof.new}")
def test_ports(proof: Proof, tmp_path: Path):
    hold(proof, Path(__file__).parent / "proofs.sv", tmp_path)
