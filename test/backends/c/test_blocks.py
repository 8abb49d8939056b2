"""Compare products and lookups with weights in blocks in C with the interpreter, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
from blocks_by_hand import Case
from c_harness import (
    Array,
    Values,
    check,
    check_elsewhere,
    constant,
    make_network,
    needs_aarch64,
    needs_arm,
    place,
)
from c_tiles import BUILDS
from cross import AARCH64
from emulated import emulated
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ceras_ir.backends.c.machines import COptions
from ceras_ir.dialects.graph import BlockTakeOp
from ceras_ir.dialects.graph.blocks import UI8
from ceras_ir.interpreters.network import run

SHAPES = [
    # bits, elements of a block, rows, outputs, columns
    (4, 32, 1, 40, 96),
    (4, 16, 3, 16, 40),
    (4, 128, 1, 33, 256),
    (4, 8, 5, 1, 7),
    (2, 16, 2, 18, 50),
    (2, 64, 1, 32, 64),
    (8, 32, 2, 20, 70),
    (8, 4, 1, 17, 9),
    (4, 64, 37, 24, 64),
]

OPTIONS = {
    "vectors": COptions(),
    "portable": COptions(vectors=False),
    "smlad": COptions(vectors=False, dsp=True),
    "file": COptions(weights="file"),
}


def special(case: Case) -> dict[str, Array]:
    """Return an input with blocks of zeros, ties, tiny and huge numbers."""
    x = case.x.copy()
    size = case.sizes[1]
    for i, value in enumerate([0.0, 0.5, 2.0**-101, 3e38]):
        x[-1, i * size : (i + 1) * size] = value
    x[0, :3] = 127, 0.5, -1.5
    return {"input0": x}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_c_equals_the_interpreter(shape: tuple[int, ...], options: str):
    bits, size, m, n, k = shape
    for seed in (0, 1):
        case = Case(seed, bits, size, m=m, n=n, k=k)
        check(case.network(), special(case), options=OPTIONS[options])


@pytest.mark.parametrize("flags", BUILDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_vectors(shape: tuple[int, ...], flags: str):
    bits, size, m, n, k = shape
    for seed in (2, 3):
        case = Case(seed, bits, size, m=m, n=n, k=k)
        check(case.network(), special(case), flags=BUILDS[flags])


@needs_aarch64
@pytest.mark.slow
@pytest.mark.parametrize("build", AARCH64.builds)
@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize("shape", SHAPES)
def test_64_bit_arm(shape: tuple[int, ...], seed: int, build: str, tmp_path: Path):
    bits, size, m, n, k = shape
    module = Case(seed, bits, size, m=m, n=n, k=k).network()
    check_elsewhere(module, AARCH64, AARCH64.builds[build], tmp_path, tolerance=0.0)


@needs_arm
@pytest.mark.parametrize(("board", "has_helium"), [("alif_e7_hp", True), ("nano_33_ble", False)])
@pytest.mark.parametrize("shape", [(4, 32, 3, 5, 90), (4, 40, 1, 3, 50), (2, 32, 1, 3, 40)])
def test_the_emulated_core_equals_the_interpreter(
    shape: tuple[int, ...], board: str, has_helium: bool, tmp_path: Path
):
    bits, size, m, n, k = shape
    case = Case(6, bits, size, m=m, n=n, k=k)
    module, sample = place(case.network()), special(case)
    options = COptions(dsp=True, helium=has_helium, vectors=False, winograd=0)
    (got,) = emulated(module, options, board, tmp_path, "-O2").run([sample])
    np.testing.assert_array_equal(got["output0"], run(module, sample)["output0"])


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_not_finite(value: float):
    case = Case(4, 4, 32, m=2, n=20, k=64)
    case.x[1, 40] = value
    assert np.isnan(check(case.network(), {"input0": case.x})["output0"][1]).all()


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("has_points", [False, True])
@pytest.mark.parametrize(("bits", "size"), [(4, 32), (2, 16), (8, 4)])
def test_lookups(bits: int, size: int, has_points: bool, options: str):
    case = Case(3 if has_points else 2, bits, size, n=7, k=75)

    def build(indices: SSAValue) -> Values:
        points = None if case.points is None else constant(case.points, UI8)
        table, scales = constant(case.weights, UI8), case.stored_scales()
        return [
            BlockTakeOp(table, indices, scales, points, columns=75, bits=bits, block=size).result
        ]

    at = np.array([0, 6, -1, 3, 100, -100], np.int8)
    check(make_network([(i8, at.shape)], build), {"input0": at}, options=OPTIONS[options])
