"""Test sparse kernels of all compilers and processors: the integers of the interpreter."""

import platform
import re

import numpy as np
import pytest
from backends.c.everywhere import SANITIZERS, Build, Network, outputs_of
from backends.c.test_sparse import SHAPES, sparse_weights, stored
from c_harness import Array, Values, constant, make_network, place, random_inputs
from cross import AARCH64
from firmware import write_files
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i8, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.dialects.graph import Conv2dOp, MatmulOp
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.dialects.sparse import CooAttr, SparseBlockAttr
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

pytestmark = pytest.mark.slow

GNU = "-std=gnu99"
X86 = ("x86_64", "AMD64")

EMULATOR = ("qemu-aarch64", "-cpu", "max")

BUILDS: dict[str, Build] = {
    "clang": Build("clang", (GNU, "-O2", "-march=native")),
    "gcc-sanitized": Build("gcc", (GNU, "-O1", "-march=native", *SANITIZERS)),
    "clang-sanitized": Build("clang", (GNU, "-O1", "-march=native", *SANITIZERS)),
    "gcc-haswell": Build("gcc", (GNU, "-O1", "-march=haswell", *SANITIZERS)),
    "clang-haswell": Build("clang", (GNU, "-O2", "-march=haswell")),
    **{
        f"aarch64-{name}": Build("aarch64-linux-gnu-gcc", (GNU, "-O2", "-static", *flags), EMULATOR)
        for name, flags in AARCH64.builds.items()
    },
}

BIAS = UniformType(0.125, storage=i32)
INPUT, FILTERS, OUT = UniformType(0.5, 3), UniformType(0.25), UniformType(1.0)
UNSIGNED = UniformType(1.0, 77, storage=IntegerType(8, Signedness.UNSIGNED))
ROWS = (70, 36)
MAPS = [
    *SHAPES,
    ((1, 5, 37, 68), (70, 3, 2, 68), (1, 1, 1, 0), (1, 2), (1, 1)),
    ((1, 60, 50, 8), (6, 3, 3, 8), (1, 1, 1, 1), (1, 1), (1, 1)),
]
"""The last needs several rounds of vectors, the previous several rounds of channels."""


LAYERS = len(MAPS) + 4


def network() -> ModuleOp:
    """
    Return windows of all strides, paddings and dilations, unsigned inputs, blocks, a residual,
    per-channel multipliers, and a product.
    """
    rng = np.random.default_rng(11)

    def build(*inputs: SSAValue) -> Values:
        *maps, unsigned, blocked, skip, shifted, rows = inputs
        results: list[SSAValue] = []
        for i, (x, shape) in enumerate(zip(maps, MAPS, strict=True)):
            _, window, padding, strides, dilations = shape
            # The last filter has no weights.
            weights = sparse_weights(rng, window, (0.95, 0.8, 0.5)[i % 3])
            weights[-1] = 0
            bias = constant(rng.integers(-3000, 3000, window[0]).astype(np.int32), BIAS)
            op = Conv2dOp(
                x, stored(CooAttr.of(weights, i8, 5), FILTERS), bias, result_element=OUT,
                strides=strides, padding=padding, dilations=dilations, requant=RequantAttr(7),
            )  # fmt: skip
            results.append(op.result)
        weights = sparse_weights(rng, (17, 3, 3, 5), 0.9)
        op = Conv2dOp(
            unsigned, stored(CooAttr.of(weights, i8, 4), FILTERS), result_element=OUT,
            padding=(1, 1, 1, 1), requant=RequantAttr(8, zero_point=-9, low=-90, high=100),
        )  # fmt: skip
        results.append(op.result)
        weights = sparse_weights(rng, (12, 3, 3, 8), 0.9, block=4)
        op = Conv2dOp(
            blocked, stored(SparseBlockAttr.of(weights, i8, (1, 4), 4), FILTERS), None, skip,
            result_element=OUT, padding=(1, 1, 1, 1), residual_shift=4,
            requant=RequantAttr(20, multiplier=list(range(1000, 7000, 500))),
        )  # fmt: skip
        results.append(op.result)
        weights = sparse_weights(rng, (21, 3, 3, 128), 0.9)
        bias = constant(rng.integers(-3000, 3000, 21).astype(np.int32), BIAS)
        shifts = (1 << rng.integers(0, 5, 21)).tolist()
        op = Conv2dOp(
            shifted, stored(CooAttr.of(weights, i8, 5), UniformType([0.25] * 21, axis=0)), bias,
            result_element=OUT, padding=(1, 1, 1, 1),
            requant=RequantAttr(11, multiplier=shifts, zero_point=5, low=-90, high=100),
        )  # fmt: skip
        results.append(op.result)
        weights = sparse_weights(rng, (20, ROWS[1]), 0.9)
        product = MatmulOp(
            rows, stored(CooAttr.of(weights, i8, 4), FILTERS), result_element=OUT,
            requant=RequantAttr(6),
        )  # fmt: skip
        return [*results, product.result]

    return make_network(
        [
            *((INPUT, shape[0]) for shape in MAPS),
            (UNSIGNED, (1, 13, 9, 5)),
            (UniformType(0.5), (1, 9, 10, 8)),
            (UniformType(2.0), (1, 9, 10, 12)),
            (UniformType(0.5), (1, 6, 20, 128)),
            (UniformType(0.5), ROWS),
        ],
        build,
    )


def extremes(sample: dict[str, Array]) -> dict[str, Array]:
    """Return the sample with half of the values at the bounds of the range."""
    rng = np.random.default_rng(1)
    for name, array in sample.items():
        info = np.iinfo(array.dtype.name)
        ends = np.where(rng.random(array.shape) < 0.5, info.min, info.max)
        sample[name] = np.where(rng.random(array.shape) < 0.5, ends, array).astype(array.dtype)
    return sample


@pytest.fixture(scope="module", params=[COptions.workspace, 23_000], ids=["maps", "strips"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Network:
    """Compile the network with a workspace for complete maps, or for strips of rows."""
    module, folder = place(network()), tmp_path_factory.mktemp("sparse")
    files = emit(module, COptions(workspace=int(request.param)))
    write_files(files, folder)
    source = (folder / "model.c").read_text()
    assert len(set(re.findall(r"sparse_\d+_0\(", source))) == LAYERS
    assert ("first += 60)" in source) == (request.param == COptions.workspace)
    main, sample = main_function(module), extremes(random_inputs(module))
    ends = network_inputs(main), network_outputs(main)
    return Network(folder, *ends, sample, run(module, sample), is_float=False)


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", BUILDS)
def test_every_build_computes_the_same(name: str, case: Network) -> None:
    build = BUILDS[name]
    if build.missing:
        pytest.skip(f"needs {build.missing}")
    if "-march=haswell" in build.flags and platform.machine() not in X86:
        pytest.skip("flags of x86")
    got = outputs_of(case, build)
    assert len(got) == LAYERS
    for output, expected in case.expected.items():
        np.testing.assert_array_equal(got[output], expected, err_msg=output)
        assert np.unique(expected).size > 3
