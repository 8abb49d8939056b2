"""
Test flags that let a compiler change float results.

Generated C computes the same bits, does not compile, or stops in the self-test.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from c_harness import make_network, needs_arm, place
from firmware import write_files
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.emulator import build_elf
from ceras_ir.backends.c.machines import COptions, load_board
from ceras_ir.dialects.graph import (
    Binary,
    BinaryOp,
    Function,
    FunctionAttr,
    Reduce,
    ReduceOp,
    SoftmaxOp,
    UnaryOp,
)
from ceras_ir.interpreters.float_text import strict_floats
from ceras_ir.interpreters.network import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86"),
]

FAST = "compile without -ffast-math"
ORDER = "compile without -fassociative-math"
ASSOCIATIVE = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math")
STOPPED = "breaks a rule of model_self_test"
SHAPE = (4, 64)

OF_GCC: dict[tuple[str, ...], str] = {
    ("-ffast-math",): FAST,
    ("-Ofast",): FAST,
    ("-funsafe-math-optimizations",): ORDER,
    ASSOCIATIVE: ORDER,
    ("-freciprocal-math",): "compile without -freciprocal-math",
    ("-ffinite-math-only",): "compile without -ffinite-math-only",
    ("-fno-signed-zeros",): "compile without -fno-signed-zeros",
    ("-fno-trapping-math", "-fno-math-errno"): "",
    ("-fsingle-precision-constant",): "",
    ("-frounding-math",): "",
    ("-fexcess-precision=fast",): "",
    ("-ffp-contract=fast",): "",
    ("-std=gnu99",): "",
}
"""Flags of gcc, and the error; empty if the bits must be the same."""

OF_CLANG: dict[tuple[str, ...], str] = {
    ("-ffast-math",): FAST,
    ("-ffinite-math-only",): "compile without -ffinite-math-only",
    ASSOCIATIVE: "",
    ("-freciprocal-math",): "",
    ("-fno-signed-zeros",): "",
    ("-fapprox-func",): "",
    ("-fno-honor-infinities",): "",
    ("-ffp-model=strict",): "",
    # No macro shows the next flags, and no pragma forbids them.
    ("-ffp-contract=fast",): STOPPED,
    ("-funsafe-math-optimizations",): STOPPED,
    ("-fno-honor-nans",): STOPPED,
}


@cache
def network() -> ModuleOp:
    """Return functions, softmax, normalization, quotients, and sums in a fixed order."""

    def body(x: SSAValue) -> tuple[SSAValue, ...]:
        functions = [f for f in Function if not f.facts.parameters]
        unary = [UnaryOp(x, FunctionAttr(f)).result for f in functions]
        total = ReduceOp(Reduce.SUM, x, [1]).result
        quotient = BinaryOp(Binary.DIV, x, unary[0], result_element=f32)
        return (*unary, SoftmaxOp(x, 1).result, total, quotient.result)

    return place(make_network([(f32, SHAPE)], body))


def samples() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return ordinary values, and zeros of both signs, subnormal values, infinities and NaN."""
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    x[2] *= np.float32(30)
    x[3, :10] = [0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, 3e38, -3e38, 2.0**-126]
    return x


def build(folder: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    sources = [str(folder / f"{name}.c") for name in ("model", "model_weights", "main")]
    sources = [source for source in sources if Path(source).exists()]
    command = [*command, "-w", *sources, "-lm", "-o", str(folder / "program")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check(folder: Path, compiler: Sequence[str], expected: str) -> None:
    module, x = network(), samples()
    write_files(emit(module, COptions()), folder)
    built = build(folder, compiler)
    if expected not in ("", STOPPED):
        assert built.returncode and expected in built.stderr
        return
    assert built.returncode == 0, built.stderr
    (folder / "in.bin").write_bytes(x.tobytes())
    program = [str(folder / name) for name in ("program", "in.bin", "out.bin")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if expected == STOPPED:
        assert done.returncode == 1 and STOPPED in done.stderr
        return
    assert done.returncode == 0, done.stderr
    got = np.fromfile(folder / "out.bin", np.float32)
    with np.errstate(all="ignore"):
        results = run(module, {"input0": x})
    real = np.concatenate([np.asarray(r, np.float32).reshape(-1) for r in results.values()])
    # The sign of NaN is that of an operand, and not defined.
    assert np.where(np.isnan(got), np.nan, got).tobytes() == (
        np.where(np.isnan(real), np.nan, real).astype(np.float32).tobytes()
    )


@pytest.mark.parametrize("flags", OF_GCC, ids=" ".join)
def test_gcc(tmp_path: Path, flags: tuple[str, ...]):
    check(tmp_path, ["gcc", "-std=c99", "-O3", "-mfma", *flags], OF_GCC[flags])


@pytest.mark.sample(6)
@pytest.mark.parametrize("flags", OF_CLANG, ids=" ".join)
def test_clang(tmp_path: Path, flags: tuple[str, ...]):
    compiler = next(filter(shutil.which, ("clang", "clang-19")), None)
    if compiler is None:
        pytest.skip("needs clang")
    check(tmp_path, [compiler, "-std=c99", "-O3", "-mfma", *flags], OF_CLANG[flags])


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (("-ffp-contract=off",), 0),
        (("-ffast-math",), 1),
        (ASSOCIATIVE, 1),
        (("-mfpmath=387",), 1),
        (("-ffp-contract=fast", "-mfma"), 2),
        (("-freciprocal-math",), 3),
        (("-ffinite-math-only",), 4),
        (("-fno-signed-zeros",), 5),
    ],
)
def test_self_test_finds_what_the_header_would_refuse(
    tmp_path: Path, flags: tuple[str, ...], rule: int
):
    write_files(emit(network(), COptions()), tmp_path)
    text = (tmp_path / "model_kernels.h").read_text()
    assert strict_floats() in text
    (tmp_path / "model_kernels.h").write_text(text.replace(strict_floats(), "#include <float.h>\n"))
    main = '#include "model.h"\nint main(void) { return model_self_test(); }\n'
    (tmp_path / "main.c").write_text(main)
    for level in ("-O0", "-O1", "-O2", "-Os") if rule == 0 else ("-O2", "-O3"):
        assert build(tmp_path, ["gcc", level, *flags]).returncode == 0
        assert subprocess.run([tmp_path / "program"], check=False).returncode == rule


def test_self_test_finds_a_program_that_flushes_subnormal_numbers(tmp_path: Path):
    """gcc changes the mode of the processor if -ffast-math is given to the linker only."""
    write_files(emit(network(), COptions()), tmp_path)
    main = '#include "model.h"\nint main(void) { return model_self_test(); }\n'
    (tmp_path / "main.c").write_text(main)
    for path in tmp_path.glob("*.c"):
        command = ["gcc", "-std=c99", "-O2", "-c", path, "-o", path.with_suffix(".o")]
        subprocess.run(command, check=True)
    (tmp_path / "bench.o").unlink()
    for flags, rule in ((), 0), (("-ffast-math",), 6):
        program = [str(tmp_path / "program")]
        command = ["gcc", *flags, *tmp_path.glob("*.o"), "-lm", "-o", *program]
        subprocess.run(command, check=True)
        assert subprocess.run(program, check=False).returncode == rule


@needs_arm
@pytest.mark.parametrize("is_called", [False, True])
def test_unused_self_test_takes_no_flash(tmp_path: Path, is_called: bool):
    module = place(make_network([(f32, (4,))], lambda x: (SoftmaxOp(x, 0).result,)))
    write_files(emit(module, COptions()), tmp_path)
    call = "model_self_test() + " if is_called else ""
    main = (
        f'#include "model.h"\nfloat x[4], y[4];\nint main(void) {{ return {call}model_run(x, y); }}'
    )
    (tmp_path / "main.c").write_text(main)
    sources = [tmp_path / "model.c", tmp_path / "main.c"]
    elf = build_elf(sources, load_board("uno_r4_wifi"), tmp_path, flags=("-Os",))
    names = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, text=True, check=True)
    assert ("model_self_test" in names.stdout) == is_called and "model_run" in names.stdout


@pytest.mark.sample(4)
@pytest.mark.needs("nnet")
@pytest.mark.parametrize("flags", [f for f in OF_GCC if OF_GCC[f]], ids=" ".join)
def test_engine_is_refused(tmp_path: Path, flags: tuple[str, ...]):
    """Each file of the nnet engine that computes floats is refused."""
    from ceras_ir.backends.nnet.engine import SOURCES, write_sources

    write_sources(tmp_path)
    floats = [p.name for p in SOURCES.glob("*.cpp") if "float_functions.h" in p.read_text()]
    assert "cpu_rows.cpp" in floats
    for name in floats:
        command = ["g++", "-std=c++17", "-w", "-E", "-o", os.devnull, *flags, str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode and OF_GCC[flags] in done.stderr
