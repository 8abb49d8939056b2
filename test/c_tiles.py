"""Provide builds of the kernels in register tiles, values for them, and the source of a network."""

import platform
from io import BytesIO
from pathlib import Path

import numpy as np
from c_harness import SANITIZE, Array, constant, make_network, place
from xdsl.dialects.builtin import IntegerType, ModuleOp, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

SANITIZED = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
FLAGS = ("-O1", *SANITIZED, "-march=native")
# Optimization needs most of the time of these tests, and other builds do not need it.
QUICK = ("-O0", *SANITIZED)

X86 = platform.machine() in ("x86_64", "AMD64")
EMULATION = Path(__file__).with_name("avx_vnni.h")
BUILDS = {
    "tiles": FLAGS,
    "loops": (*FLAGS, "-DMODEL_LANES=0"),
    "avx2": (*QUICK, "-mavx2") if X86 else FLAGS,
    # The choices for AVX-VNNI, with the instruction computed by definition.
    "vex": (*QUICK, "-mavx2", "-include", str(EMULATION)) if X86 else FLAGS,
    # A processor with AVX-512 VNNI has the same instructions as AVX-VNNI.
    "256": (*QUICK, "-march=native", "-DMODEL_LANES=8") if X86 else FLAGS,
    # The parts of AVX-512 of the first processors with dot products.
    "unpacked": (*QUICK, "-march=native", "-mno-avx512vbmi") if X86 else FLAGS,
}

VECTOR_BUILDS = (
    ("-O3", "-march=native"),
    (*SANITIZE, "-march=native"),
    ("-O2", "-mavx2", "-mfma") if X86 else FLAGS,
)
"""Builds with float vectors; the last has vectors of 8 lanes."""


def stored(rng: np.random.Generator, element: UniformType, shape: tuple[int, ...]) -> Array:
    """Return random values that include both extremes."""
    low, high = element.low, element.high
    if element.is_bipolar:
        return rng.choice([-1, 1], shape).astype(np.int8)
    values = rng.integers(low, high + 1, shape)
    values.reshape(-1)[: 2 * (values.size // 3)].sort()
    rng.shuffle(values.reshape(-1))
    return values.astype(graph.numpy_dtype(element))


def source(module: ModuleOp, path: str = "model.c", options: COptions | None = None) -> str:
    """Return a generated file."""
    files = emit(place(module.clone()), options or COptions())
    (file,) = (f for f in files if f.path == path)
    file.write(stream := BytesIO())
    return stream.getvalue().decode()


TIES = {
    "shift": RequantAttr(3, rounding=Rounding.HALF_EVEN, low=-90),
    "channels": RequantAttr(
        5, multiplier=[1 << i % 4 for i in range(24)], rounding=Rounding.HALF_EVEN, zero_point=-8
    ),
    "none in vectors": RequantAttr(3, rounding=Rounding.HALF_EVEN, zero_point=7),
}
"""Requantizations of small sums. The parity of results is not that of sums with odd zero points."""


def tied_layers(requant: RequantAttr) -> ModuleOp:
    """Return layers with small sums, which are often ties."""
    rng = np.random.default_rng(0)
    narrow, skip = UniformType(1.0, storage=IntegerType(2)), UniformType(1.0)
    out = UniformType(1.0, requant.zero_point.data)

    def build(*inputs: SSAValue) -> list[SSAValue]:
        return [
            graph.Conv2dOp(
                x, constant(stored(rng, narrow, (24, 3, 3, 5)), narrow),
                constant(rng.integers(-40, 40, 24).astype(np.int32), UniformType(1.0, storage=i32)),
                constant(stored(rng, skip, (1, 12, 14, 24)), skip) if has_residual else None,
                result_element=out, requant=requant, residual_shift=1 if has_residual else None,
            ).result
            for x, has_residual in zip(inputs, (False, True), strict=True)
        ]  # fmt: skip

    return make_network([(skip, (1, 14, 16, 5)) for _ in range(2)], build)
