"""Test that a compiled model uses only the memory of the caller, and runs in parallel."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from ctypes import CDLL, c_void_p
from pathlib import Path

import numpy as np
import pytest
from backends.c.test_files import small_network
from backends.c.test_tiles import SHAPES, layer
from c_harness import Array, make_network, place, random_inputs
from c_tiles import FLAGS
from firmware import write_files
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.names import MODEL
from ceras_ir.backends.c.runner import aligned, build_library, compiler
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_outputs
from ceras_ir.network.function import main_function

WRITABLE = "bBdDC"
"""Symbol types of nm for writable memory."""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm")
@pytest.mark.parametrize("lanes", [(), ("-DMODEL_LANES=0",)], ids=("tiles", "loops"))
def test_no_state_but_the_arena(lanes: tuple[str, ...], tmp_path: Path):
    write_files(emit(place(small_network())), tmp_path)
    command = [*compiler(), "-std=c99", "-O2", "-march=native", *lanes, "-c", "model.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    text = subprocess.run(
        ["nm", "-f", "posix", "model.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    symbols = [line.split()[:2] for line in text.splitlines()]
    assert [name.split(".")[0] for name, kind in symbols if kind in WRITABLE] == ["arena"]
    called = {name for name, kind in symbols if kind == "U" and not name.startswith("layer_")}
    assert called <= {"memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}


def network() -> ModuleOp:
    """Return a network with strips, tiles and a residual."""
    element = UniformType(1.0, 3)
    _, outputs, kernel, strides, padding, dilation = SHAPES[0]
    return make_network(
        [(element, SHAPES[0][0])],
        lambda x: [layer(2, x, element, outputs, kernel, strides, padding, (dilation, 1), 1)],
    )


@pytest.mark.slow
def test_two_runs_at_a_time(tmp_path: Path):
    """Each run has a separate arena; ctypes releases the lock of Python during calls."""
    module = place(network())
    write_files(emit(module, COptions(workspace=1 << 12)), tmp_path)
    build_library(tmp_path, tmp_path / "model.so", MODEL, flags=FLAGS)
    library = CDLL(str(tmp_path / "model.so"))
    size, alignment = library.arena_bytes(0), library.arena_alignment()
    (result,) = network_outputs(main_function(module))

    def repeat(seed: int) -> list[Array]:
        (x,) = random_inputs(module, seed).values()
        arena, y = aligned(size, alignment), np.empty(result.shape, result.dtype)
        results: list[Array] = []
        for _ in range(200):
            status = library.model_run_in(*(c_void_p(a.ctypes.data) for a in (arena, x, y)))
            assert status == 0
            results.append(y.copy())
        return results

    with ThreadPoolExecutor(2) as pool:
        for seed, results in enumerate(pool.map(repeat, range(2))):
            (expected,) = run(module, random_inputs(module, seed)).values()
            assert all(np.array_equal(r, expected) for r in results)
