"""Test kernels of RISC-V vectors against the interpreter: each vector length, under qemu."""

from pathlib import Path

import numpy as np
import pytest
from backends.c.test_neon import UNSIGNED, WORDS, compare, network
from backends.c.test_winograd import ROUNDING
from backends.c.test_winograd import network as winograd_network
from c_harness import needs_aarch64, needs_rvv, place, random_inputs
from cross import AARCH64, RISCV, riscv
from firmware import write_files

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

pytestmark = [pytest.mark.slow, needs_rvv]

SIGNED = UniformType(1.0, -7)


@pytest.mark.sample(5)
@pytest.mark.parametrize("vector_bits", [128, 256, 512])
@pytest.mark.parametrize("element", (SIGNED, UNSIGNED, WORDS), ids=("signed", "unsigned", "words"))
def test_every_length_equals_the_interpreter(
    element: UniformType, vector_bits: int, tmp_path: Path
):
    """Run the same program for each vector length."""
    compare(network(element), riscv(vector_bits), "rvv", tmp_path)
    text = RISCV.assembly(tmp_path, RISCV.builds["rvv"])
    assert "call\tsums_i32_" in text and "call\tdepthwise_row_" in text


@pytest.mark.parametrize("name", ["scalar", "portable"])
def test_without_kernels(name: str, tmp_path: Path):
    compare(network(SIGNED), RISCV, name, tmp_path)
    text = RISCV.assembly(tmp_path, RISCV.builds[name])
    assert "call\tsums_i32_" not in text and "call\tdepthwise_row_" not in text


@pytest.mark.sample(2)
@needs_aarch64
@pytest.mark.parametrize("vector_bits", [128, 256])
@pytest.mark.parametrize("winograd", [0, COptions.winograd], ids=("tiles", "winograd"))
def test_floats(winograd: int, vector_bits: int, tmp_path: Path):
    """
    Results are near the interpreter, with the bits of the Arm tiles: fused products in equal order.
    """
    module = place(winograd_network())
    main = main_function(module)
    ends = network_inputs(main), network_outputs(main)
    write_files(emit(module, COptions(winograd=winograd)), tmp_path)
    program = RISCV.build(tmp_path, tmp_path / "main.c", RISCV.builds["rvv"])
    assert "\tvfmacc.vf\t" in RISCV.assembly(tmp_path, RISCV.builds["rvv"])
    sample = random_inputs(module)
    got = riscv(vector_bits).run(program, sample, *ends)
    on_arm = AARCH64.build(tmp_path, tmp_path / "main.c", AARCH64.builds["neon"])
    same = AARCH64.run(on_arm, sample, *ends)
    for name, expected in run(module, sample).items():
        real = (np.asarray(a, np.float32) for a in (got[name], expected))
        np.testing.assert_allclose(*real, rtol=ROUNDING, atol=ROUNDING, err_msg=name)
        assert got[name].tobytes() == same[name].tobytes()
