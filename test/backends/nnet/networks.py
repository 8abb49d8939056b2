"""Place small networks in memory and run them in the engine under the sanitizers."""

import io
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from graph_networks import random_array
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.backends.nnet import emit
from ceras_ir.backends.nnet.engine import SOURCES, NnetModel, runtime_part
from ceras_ir.dialects.graph import (
    ConstantOp,
    element_of,
    shape_of,
)
from ceras_ir.interpreters.network import run
from ceras_ir.support.native import Part, build

Array = NDArray[np.generic]
SANITIZERS = (
    *("-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "-DCERAS_RED_ZONES",
)
"""Flags for the sanitizers, with inaccessible bytes around the tensors in the arena."""
OTHER_PROCESSORS = [
    ("-O0", "-Wno-unknown-pragmas", flag)
    for flag in ("-march=x86-64", "-march=x86-64-v3", "-DCERAS_PLAIN")
]
"""Flags of engines that have fewer instructions, or leave them to the compiler."""


def written(module: ModuleOp) -> bytes:
    """Return the bytes of `model.nnet`."""
    (artefact,) = emit(module)
    artefact.write(stream := io.BytesIO())
    return stream.getvalue()


def close(actual: Array, expected: Array, tolerance: float) -> None:
    """Check that values are equal up to `tolerance`; NaN equals NaN."""
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def agree(module: ModuleOp, tolerance: float = 0.0, flags: Sequence[str] = SANITIZERS) -> None:
    """Run a module in the interpreter and in the engine, and compare all layers bit for bit."""
    main = module.body.block.first_op
    assert isinstance(main, FuncOp)
    inputs: dict[str, Array] = {}
    for i, argument in enumerate(main.body.block.args):
        element, shape = element_of(argument), shape_of(argument)
        inputs[f"input{i}"] = random_array(shape, element, i)
    expected: list[Array] = []

    def tracer(op: Operation, results: tuple[Array, ...]) -> None:
        if not isinstance(op, ConstantOp):
            expected.extend(results)

    outputs = run(module, inputs, tracer)
    got: list[bytes] = []
    with tempfile.NamedTemporaryFile(suffix=".nnet") as file:
        file.write(written(module))
        file.flush()
        model = NnetModel(Path(file.name), flags)
        actual = model.run(inputs, lambda _, data: got.append(data))
    assert len(got) == len(expected)
    for i, (data, array) in enumerate(zip(got, expected, strict=True)):
        result = np.frombuffer(data, array.dtype).reshape(array.shape)
        where = f"layer {i}: {model.file.layers[i].name}"
        if tolerance:
            close(result, array, tolerance)
        else:
            np.testing.assert_array_equal(result, array, where)
    for name, array in outputs.items():
        close(actual[name], array, tolerance)


def resealed(data: bytes, at: int, value: bytes) -> bytes:
    """Replace bytes of `data`, and update all checksums."""
    changed = bytearray(data)
    changed[at : at + len(value)] = value
    for i in range(13):
        entry = 32 + 24 * i
        offset = int.from_bytes(changed[entry + 8 : entry + 16], "little")
        size = int.from_bytes(changed[entry + 16 : entry + 24], "little")
        crc = zlib.crc32(changed[offset : offset + size])
        changed[entry + 4 : entry + 8] = crc.to_bytes(4, "little")
    changed[28:32] = zlib.crc32(changed[:28] + changed[32:344]).to_bytes(4, "little")
    return bytes(changed)


def build_around_engine(source: str, target: Path, purpose: str) -> None:
    """Compile a source of this folder with the engine under the sanitizers, but for its `main`."""
    engine = runtime_part(extra_flags=SANITIZERS)
    flags = (*engine.flags, f"-I{SOURCES}")
    main = Part([Path(__file__).with_name(source)], engine.headers, flags, engine.generated)
    rest = replace(engine, sources=[p for p in engine.sources if p.name != "main.cpp"])
    build(target, purpose, [rest, main])
