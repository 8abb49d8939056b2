"""Test generated C with other compilers, as another language, for another processor: equal bits."""

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from c_harness import constant, make_network, needs_aarch64, place, random_inputs
from cross import AARCH64
from firmware import write_files
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.dialects.graph import Conv2dOp, Function, FunctionAttr, SoftmaxOp, UnaryOp
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

TANH = FunctionAttr(Function.TANH)
STRICT = ("-O2", "-Wall", "-Wextra", "-Werror")
COMPILERS = (
    ("gcc", "-std=gnu99"),
    ("clang", "-std=c99"),
    ("g++", "-x", "c++", "-std=c++11"),
    ("clang++", "-x", "c++", "-std=c++17"),
)


def network() -> ModuleOp:
    """Return a network of sums of products and of their exponentials."""
    weights = np.random.default_rng(0).normal(size=(3, 3, 3, 2)).astype(np.float32)

    def body(x: SSAValue) -> tuple[SSAValue, ...]:
        product = Conv2dOp(x, constant(weights), result_element=f32)
        return (SoftmaxOp(product.result, 3).result,)

    return place(make_network([(f32, (1, 4, 4, 2))], body))


def function() -> ModuleOp:
    """Return two elements: a marked loop that clang unrolls and then cannot vectorize."""
    return place(make_network([(f32, (2,))], lambda x: (UnaryOp(x, TANH).result,)))


def result(folder: Path, module: ModuleOp, *compiler: str) -> bytes:
    """Return the raw output of the program, with the model compiled by `compiler`."""
    sample = random_inputs(module)
    (folder / "in.bin").write_bytes(b"".join(array.tobytes() for array in sample.values()))
    objects = [str(folder / f"{name}.o") for name in ("model", "model_weights")]
    for path in objects:
        source = path.removesuffix("o") + "c"
        subprocess.run([*compiler, *STRICT, "-c", source, "-o", path], check=True)
    program = str(folder / "program")
    main = ["gcc", str(folder / "main.c"), *objects, "-lm", "-o", program]
    subprocess.run(main, check=True)
    subprocess.run([program, folder / "in.bin", folder / "out.bin"], check=True)
    return (folder / "out.bin").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("build", [network, function])
@pytest.mark.parametrize("compiler", COMPILERS, ids=lambda command: command[0])
def test_any_compiler_computes_the_same_bits(
    tmp_path: Path, compiler: tuple[str, ...], build: Callable[[], ModuleOp]
) -> None:
    if not shutil.which(compiler[0]):
        pytest.skip(f"needs {compiler[0]}")
    module = build()
    write_files(emit(module, COptions()), tmp_path)
    expected = result(tmp_path, module, "gcc", "-std=c99")
    assert result(tmp_path, module, *compiler) == expected
    (real,) = run(module, random_inputs(module)).values()
    got = np.frombuffer(expected, np.float32).reshape(real.shape)
    np.testing.assert_allclose(got, np.asarray(real, np.float32), rtol=1e-5)


@pytest.mark.slow
@needs_aarch64
def test_arm_computes_the_same_bits_in_portable_loops(tmp_path: Path) -> None:
    module = network()
    write_files(emit(module, COptions()), tmp_path)
    main, sample = main_function(module), random_inputs(module)
    expected = np.frombuffer(result(tmp_path, module, "gcc", "-std=c99"), np.float32)
    for name, flags in AARCH64.builds.items():
        program = AARCH64.build(tmp_path, tmp_path / "main.c", flags)
        ends = network_inputs(main), network_outputs(main)
        ((_, got),) = AARCH64.run(program, sample, *ends).items()
        real = np.asarray(got, np.float32).reshape(-1)
        if name == "portable":
            assert real.tobytes() == expected.tobytes()
        np.testing.assert_allclose(real, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("-U__BYTE_ORDER__", "-D__BYTE_ORDER__=4321"), "for a big-endian processor"),
        (("-mfpmath=387",), "compile so that FLT_EVAL_METHOD is 0"),
        (("-ffast-math",), "compile without -ffast-math"),
    ],
)
def test_what_is_refused_says_why(tmp_path: Path, flags: tuple[str, ...], message: str) -> None:
    write_files(emit(network(), COptions()), tmp_path)
    command = ["gcc", "-w", "-fsyntax-only", *flags, str(tmp_path / "model.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode and message in done.stderr
