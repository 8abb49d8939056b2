"""Builds of the kernels in register tiles, numbers for them, and the source of a network."""

import platform
from io import BytesIO
from pathlib import Path

import numpy as np
from c_harness import Array, place
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.options import COptions
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType

SANITIZED = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
FLAGS = ("-O1", *SANITIZED, "-march=native")
# Optimizing takes most of the time of these tests; what other instructions compute needs none.
QUICK = ("-O0", *SANITIZED)

X86 = platform.machine() in ("x86_64", "AMD64")
EMULATION = Path(__file__).with_name("avx_vnni.h")
BUILDS = {
    "tiles": FLAGS,
    "loops": (*FLAGS, "-DMODEL_LANES=0"),
    "avx2": (*QUICK, "-mavx2") if X86 else FLAGS,
    # What compilers select for AVX-VNNI, its one instruction computed by definition.
    "vex": (*QUICK, "-mavx2", "-include", str(EMULATION)) if X86 else FLAGS,
    # On a processor with AVX-512 VNNI the same instructions as AVX-VNNI has.
    "256": (*QUICK, "-march=native", "-DMODEL_LANES=8") if X86 else FLAGS,
    # Of AVX-512 what the first processors with dot products have.
    "unpacked": (*QUICK, "-march=native", "-mno-avx512vbmi") if X86 else FLAGS,
}


def stored(rng: np.random.Generator, element: UniformType, shape: tuple[int, ...]) -> Array:
    """Random numbers with both extremes among them."""
    low, high = element.low, element.high
    values = rng.integers(low, high + 1, shape)
    values.reshape(-1)[: 2 * (values.size // 3)].sort()
    rng.shuffle(values.reshape(-1))
    return values.astype(graph.numpy_dtype(element))


def source(module: ModuleOp, path: str = "model.c") -> str:
    """A generated file."""
    files = emit(place(module.clone()), COptions())
    (file,) = (f for f in files if f.path == path)
    file.write(stream := BytesIO())
    return stream.getvalue().decode()
