"""Transposes of words in blocks against the interpreter, bit for bit, and where there are none."""

from pathlib import Path

import pytest
from c_harness import check, check_elsewhere, make_network, needs_aarch64
from c_tiles import FLAGS, SANITIZED, X86, source
from cross import AARCH64
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import TransposeOp

CASES = [
    # shape, permutation, whether in blocks
    ((1, 6, 9, 16), (0, 3, 1, 2), True),
    ((1, 16, 9, 6), (0, 2, 3, 1), True),
    ((3, 5, 7, 9), (0, 3, 1, 2), True),
    ((2, 70, 3, 67), (2, 3, 0, 1), True),
    ((4, 130), (1, 0), True),
    ((130, 4), (1, 0), True),
    ((5, 4, 6), (2, 1, 0), True),
    ((4, 4, 5, 4), (3, 0, 2, 1), True),
    ((3, 40), (1, 0), False),
    ((40, 3), (1, 0), False),
    ((5, 6, 7), (1, 0, 2), False),
]
"""Whole blocks and not, strips of more than one, and loops around; too narrow; whole runs."""


def network() -> ModuleOp:
    def build(*inputs: SSAValue) -> list[SSAValue]:
        return [
            TransposeOp(x, order).result for x, (_, order, _) in zip(inputs, CASES, strict=True)
        ]

    return make_network([(f32, shape) for shape, _, _ in CASES], build)


BUILDS = {
    "512": FLAGS,
    "256": (*SANITIZED, "-mavx2", "-mfma") if X86 else FLAGS,
    "loops": (*FLAGS, "-DMODEL_F32=0"),
}


@pytest.mark.parametrize("name", BUILDS)
def test_results(name: str):
    module = network()
    calls = source(module).count(" transpose_words(x")
    assert calls == sum(in_blocks for _, _, in_blocks in CASES)
    check(module, flags=BUILDS[name])


@needs_aarch64
def test_results_on_arm(tmp_path: Path):
    check_elsewhere(network(), AARCH64, AARCH64.builds["neon"], tmp_path, tolerance=0)
