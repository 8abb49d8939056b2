"""
Test that threads share the tiles of layers, with memory of their own: equal bits for all numbers of
threads, inaccessible bytes after each buffer of a thread, and calls in two threads at a time.
"""

import os
import re
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from backends.c.test_tiles import GROUPED, OUT, SHAPES
from backends.c.test_tiles import layer as integers
from backends.c.test_winograd import SHAPES as SQUARES
from backends.c.test_winograd import convolution
from c_harness import Array, Values, check, make_network, place, random_inputs, run_apart
from c_tiles import QUICK, source
from firmware import write_files
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.c import tile_loops
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.runner import compiler

pytestmark = pytest.mark.slow

FLAGS = (*QUICK, "-march=native", "-fopenmp")
WAYS = [*((*s[:5], (s[5], s[5]), 1) for s in SHAPES if s[0] != (1, 1, 1, 70)), *GROUPED]


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share layers of all sizes."""
    monkeypatch.setattr(tile_loops, "MIN_SHARED_PRODUCTS", 1)


def integer_layers(*inputs: SSAValue) -> Values:
    return [
        integers(seed, x, OUT, *way[1:])
        for seed, (x, way) in enumerate(zip(inputs, WAYS, strict=True))
    ]


def float_layers(*inputs: SSAValue) -> Values:
    """Return layers with Winograd transforms and with strides, without and with a residual."""
    results: list[SSAValue] = []
    for x, (_, outputs, padding, activation) in zip(inputs, SQUARES, strict=True):
        first = convolution(x, outputs, padding, None)
        results += [first, convolution(x, outputs, padding, activation, first, seed=1)]
        results.append(convolution(x, outputs, padding, activation, strides=(2, 1)))
    return results


def equal_bits(module: ModuleOp, options: COptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the results of one to five threads bit for bit."""
    inputs, alone = random_inputs(place(module)), dict[str, Array]()
    for threads in range(1, 6):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        got = run_apart(module, inputs, options=options, flags=FLAGS)
        alone = alone or got
        for name, array in got.items():
            assert array.tobytes() == alone[name].tobytes(), (threads, name)


@pytest.mark.parametrize("weights_per_input", [0, 1 << 30], ids=["panels", "rows"])
@pytest.mark.parametrize("workspace", [0, 1 << 17])
def test_integers(weights_per_input: int, workspace: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tile_loops, "MIN_WEIGHTS_PER_INPUT", weights_per_input)
    module = make_network([(OUT, way[0]) for way in WAYS], integer_layers)
    assert source(module).count("MODEL_TEAM") >= len(WAYS)
    options = COptions(workspace=workspace)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    check(module, flags=FLAGS, options=options)
    equal_bits(module, options, monkeypatch)


@pytest.mark.parametrize("weights_per_input", [0, 1 << 30], ids=["panels", "rows"])
@pytest.mark.parametrize("winograd", [96 * 1024, COptions.winograd], ids=["overlap", "whole"])
def test_floats(weights_per_input: int, winograd: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tile_loops, "MIN_WEIGHTS_PER_INPUT", weights_per_input)
    module = make_network([(f32, shape) for shape, *_ in SQUARES], float_layers)
    # Both layers of each shape exist with vectors of 16 and of 8 lanes.
    assert source(module).count("/* Winograd") == 2 * 2 * len(SQUARES)
    options = COptions(winograd=winograd, workspace=1 << 14)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    check(module, flags=FLAGS, options=options, tolerance=1e-5)
    equal_bits(module, options, monkeypatch)


@pytest.mark.parametrize("threads", ["1", "2", "3"])
def test_two_callers(threads: str, tmp_path: Path):
    """Threads that run the network at the same time have separate teams with separate memory."""
    shape, outputs = (1, 19, 13, 32), 48
    build = partial(convolution, outputs=outputs, padding=(1, 1, 1, 1), activation=None)
    module = make_network([(f32, shape)], lambda x: [build(x)])
    write_files(emit(place(module)), tmp_path)
    sizes = [f"-DINPUT={np.prod(shape)}", f"-DOUTPUT={19 * 13 * outputs}"]
    sources = ["model.c", "model_weights.c", str(Path(__file__).with_name("two_callers.c"))]
    command = [*compiler(), "-std=c99", "-O1", "-march=native", "-fopenmp", "-pthread", "-I."]
    subprocess.run([*command, *sizes, *sources, "-o", "program", "-lm"], cwd=tmp_path, check=True)
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    subprocess.run([tmp_path / "program"], env=environment, check=True, timeout=60)


def test_threads_use_no_more_of_the_arena():
    """Memory of other threads exists only with OpenMP, and the arena is the same."""
    module = make_network([(f32, shape) for shape, *_ in SQUARES], float_layers)
    text = source(module)
    (words,) = map(int, re.findall(r"^static int64_t model_own\[(\d+)\]", text, re.MULTILINE))
    (workspace,) = map(int, re.findall(r"up to (\d+) bytes of workspace", text))
    assert 8 * words == workspace
    assert re.search(r"#if defined\(_OPENMP\)\n/\*[^*]*\*/\nstatic int64_t model_own", text)
