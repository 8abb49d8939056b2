"""Test float convolutions with and without Winograd transforms against the interpreter."""

from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from c_harness import Values, check, check_elsewhere, constant, make_network, needs_aarch64, place
from c_tiles import FLAGS, SANITIZED, X86
from cross import AARCH64
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.register_tiles import VECTOR_REGISTERS
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.winograd import Winograd
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Conv2dOp, Function, FunctionAttr

pytestmark = pytest.mark.slow

ROUNDING = 1e-5
"""The error of two layers with results around 1. Direct sums have half of this error."""

SHAPES = [
    # input, outputs, padding, activation
    ((1, 16, 16, 16), 16, (1, 1, 1, 1), None),
    ((2, 13, 9, 32), 48, (1, 1, 1, 1), FunctionAttr(Function.RELU)),
    ((1, 9, 10, 48), 32, (0, 0, 0, 0), FunctionAttr(Function.CLIP, (-0.5, 0.75))),
    ((1, 7, 7, 128), 64, (0, 2, 1, 0), FunctionAttr(Function.HARD_SWISH, affine=(0.75, -0.3))),
    ((1, 8, 23, 16), 80, (2, 1, 2, 1), None),
]


def convolution(
    x: SSAValue,
    outputs: int,
    padding: tuple[int, int, int, int],
    activation: FunctionAttr | None,
    residual: SSAValue | None = None,
    *,
    seed: int = 0,
    strides: tuple[int, int] = (1, 1),
) -> SSAValue:
    rng = np.random.default_rng(seed)
    channels = graph.shape_of(x)[3]
    weights = rng.normal(0, 1 / np.sqrt(9 * channels), (outputs, 3, 3, channels))
    return Conv2dOp(
        x, constant(weights.astype(np.float32)), constant(rng.normal(size=outputs).astype("f4")),
        residual, result_element=f32, padding=padding, activation=activation, strides=strides,
    ).result  # fmt: skip


def layer(x: SSAValue, *, outputs: int, strides: tuple[int, int] = (1, 1)) -> Values:
    return [convolution(x, outputs, (1, 1, 1, 1), None, strides=strides)]


def network() -> ModuleOp:
    """Return each shape without a residual, and with the result as a residual."""

    def build(*inputs: SSAValue) -> Values:
        results: list[SSAValue] = []
        for x, (_, outputs, padding, activation) in zip(inputs, SHAPES, strict=True):
            first = convolution(x, outputs, padding, None)
            results += [first, convolution(x, outputs, padding, activation, first, seed=1)]
        return results

    return make_network([(f32, s[0]) for s in SHAPES], build)


def source(module: ModuleOp, options: COptions | None = None) -> str:
    files = emit(place(module.clone()), options or COptions())
    (file,) = (f for f in files if f.path == "model.c")
    file.write(stream := BytesIO())
    return stream.getvalue().decode()


BUILDS = {
    "512": FLAGS,
    "openmp": (*FLAGS, "-fopenmp"),
    "256": (*SANITIZED, "-mavx2", "-mfma") if X86 else FLAGS,
}


@pytest.mark.parametrize("name", BUILDS)
def test_results(name: str):
    """Check odd maps, all borders, several images; residuals and activations."""
    module = network()
    assert source(module).count("/* Winograd") == 4 * len(SHAPES)
    check(module, tolerance=ROUNDING, flags=BUILDS[name])


@needs_aarch64
@pytest.mark.parametrize("winograd", [0, COptions.winograd], ids=("tiles", "winograd"))
def test_results_on_arm(winograd: int, tmp_path: Path):
    builds = AARCH64.builds["neon"]
    options = COptions(winograd=winograd)
    check_elsewhere(network(), AARCH64, builds, tmp_path, tolerance=ROUNDING, options=options)
    text = AARCH64.assembly(tmp_path, builds)
    assert "\tfmla\t" in text and ("winograd_f32_4_results" in text) == (winograd > 0)


def test_strips_that_overlap():
    """Memory is for few rows of patches at a time, so the last strip starts earlier."""
    module = network()
    options = COptions(winograd=96 * 1024)
    assert "? r :" in source(module, options)
    check(module, tolerance=ROUNDING, flags=FLAGS, options=options)


def test_where_it_is_not_taken():
    """
    Winograd is not used if disabled, for strides, few channels, ordered sums, and tiles with fewer
    cycles.
    """
    module = network()
    assert "Winograd" not in source(module, COptions(winograd=0))
    assert "Winograd" not in source(module, COptions(vectors=False))
    for shape, outputs, strides in (
        ((1, 16, 16, 16), 16, (2, 2)),
        ((1, 16, 16, 8), 16, (1, 1)),
        ((1, 16, 16, 16), 24, (1, 1)),
        ((1, 3, 3, 64), 64, (1, 1)),
    ):
        module = make_network([(f32, shape)], partial(layer, outputs=outputs, strides=strides))
        assert "Winograd" not in source(module), shape


@pytest.mark.parametrize("size", [6, 7, 14, 27, 56])
@pytest.mark.parametrize("channels", [16, 48, 256, 512])
def test_what_is_chosen_fits(size: int, channels: int):
    module = make_network([(f32, (1, size, size, channels))], partial(layer, outputs=channels))
    (op,) = (op for op in module.walk() if isinstance(op, Conv2dOp))
    nest = Nest.of(op, Geometry.of(op), 4, COptions.workspace)
    assert nest is not None
    way = Winograd.of(nest, COptions.winograd)
    if way is not None:
        assert way.nbytes <= COptions.winograd and way.cycles < nest.cycles
        assert way.patches >= way.tile.rows and channels % way.tile.width == 0
        assert way.tile.rows * way.tile.blocks + way.tile.blocks + 1 <= VECTOR_REGISTERS
        assert (way.strip + 1) * 2 >= way.nest.extent
