"""Test transposes of words, halves and bytes in blocks and in loops, bit for bit."""

from pathlib import Path

import pytest
from c_harness import check, check_elsewhere, make_network, needs_aarch64
from c_tiles import FLAGS, SANITIZED, X86, source
from cross import AARCH64
from xdsl.dialects.builtin import IntegerType, ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import TransposeOp
from ceras_ir.dialects.quant import UniformType

BYTE, WORD = UniformType(1.0), UniformType(1.0, storage=IntegerType(16))

CASES = [
    # shape, permutation, element, the kind of blocks
    ((1, 6, 9, 16), (0, 3, 1, 2), f32, "words"),
    ((1, 16, 9, 6), (0, 2, 3, 1), f32, "words"),
    ((3, 5, 7, 9), (0, 3, 1, 2), f32, "words"),
    ((2, 70, 3, 67), (2, 3, 0, 1), f32, "words"),
    ((4, 130), (1, 0), f32, "words"),
    ((130, 4), (1, 0), f32, "words"),
    ((5, 4, 6), (2, 1, 0), f32, "words"),
    ((4, 4, 5, 4), (3, 0, 2, 1), f32, "words"),
    ((3, 40), (1, 0), f32, ""),
    ((40, 3), (1, 0), f32, ""),
    ((5, 6, 7), (1, 0, 2), f32, ""),
    ((1, 17, 9, 20), (0, 3, 1, 2), BYTE, "bytes"),
    ((2, 16, 5, 16), (0, 3, 1, 2), BYTE, "bytes"),
    ((16, 200), (1, 0), BYTE, "bytes"),
    ((130, 35), (1, 0), BYTE, "bytes"),
    ((15, 64), (1, 0), BYTE, ""),
    ((1, 17, 9, 20), (0, 3, 1, 2), WORD, "halves"),
    ((2, 8, 5, 8), (0, 3, 1, 2), WORD, "halves"),
    ((130, 35), (1, 0), WORD, "halves"),
    ((20, 30), (1, 0), WORD, "halves"),
    ((7, 30), (1, 0), WORD, ""),
]
"""
Shapes that do and do not fill blocks, several strips, outer loops, narrow shapes, contiguous runs,
and elements of 16 bits.
"""


def network() -> ModuleOp:
    def build(*inputs: SSAValue) -> list[SSAValue]:
        return [
            TransposeOp(x, order).result for x, (_, order, *_) in zip(inputs, CASES, strict=True)
        ]

    return make_network([(element, shape) for shape, _, element, _ in CASES], build)


BUILDS = {
    "512": FLAGS,
    "256": (*SANITIZED, "-mavx2", "-mfma") if X86 else FLAGS,
    "loops": (*FLAGS, "-DMODEL_F32=0"),
}


@pytest.mark.parametrize("name", BUILDS)
def test_results(name: str):
    module = network()
    for name_of_elements in ("words", "halves", "bytes"):
        calls = source(module).count(f" transpose_{name_of_elements}(x")
        assert calls == sum(blocks == name_of_elements for *_, blocks in CASES)
    check(module, flags=BUILDS[name])


@needs_aarch64
def test_results_on_arm(tmp_path: Path):
    check_elsewhere(network(), AARCH64, AARCH64.builds["neon"], tmp_path, tolerance=0)
