"""Prove the rules of AXI4 and AXI4-Lite for modules of the nnet core."""

from pathlib import Path

import pytest
from rtl_proofs import Proof, hold, needs_yosys

from ceras_ir.backends.nnet.circuits import package_source
from ceras_ir.support.native import AXI_LITE_PORT, SKID_BUFFER

pytestmark = [needs_yosys, pytest.mark.slow]

HDL = package_source().parent
WALKER, SKID = HDL / "run_walker.sv", (SKID_BUFFER,)
CONTROL, QUEUE = HDL / "launch_control.sv", (package_source(), HDL / "launch_queue.sv")
PROOFS = (
    Proof("lite_proof", AXI_LITE_PORT, "if (s_bready) s_bvalid", "s_bvalid"),
    Proof("lite_proof", AXI_LITE_PORT, "has_to && has_data && !", "has_to && !"),
    Proof("walker_proof", WALKER, "(!found || taken)", "1'b1", 6, SKID),
    Proof("walker_proof", WALKER, "PLACE_BITS'(left) + 1'b1", "PLACE_BITS'(left)", 6, SKID),
    Proof("walker_proof", WALKER, "left[31:SIZE_BITS] == 0 && last", "last", 6, SKID),
    Proof("finish_proof", HDL / "lane_epilogue.sv", "coarse_sticky || (", "(", 9),
    Proof("finish_proof", HDL / "lane_epilogue.sv", "coarse >>> fine", "coarse >> fine", 9),
    Proof("start_proof", CONTROL, "if (layer_there) state", "state", others=QUEUE),
    Proof("reader_proof", HDL / "axi_reader.sv", "if (arready) arvalid", "arvalid", 5),
    Proof("reader_proof", HDL / "axi_reader.sv", "!free || halt ?", "!free ?", 5),
    Proof("reader_proof", HDL / "axi_reader.sv", "rvalid && !halt ?", "rvalid ?", 5),
)


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: f"{proof.top}: {proof.new}")
def test_ports(proof: Proof, tmp_path: Path):
    hold(proof, Path(__file__).parent / "proofs.sv", tmp_path)
