"""Check that benchmarks reject models and options that they do not support, in a single line."""

import platform
import subprocess
import sys
from pathlib import Path

import cortex_m
import numpy as np
import pytest
from cmsis_nn import Call, layers_of
from onnx import TensorProto, helper
from peer_programs import agreement

ROOT = Path(__file__).parents[1]
DATA = np.random.default_rng(0).normal(size=(4, 3, 4)).astype(np.float32)


def write_model(path: Path, *inputs: str) -> None:
    """Write the sum of inputs of [N, 3, 4]; `N` is symbolic."""
    shape = ["N", 3, 4]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in (*inputs, "y")]
    node = helper.make_node("Sum", inputs, ["y"])
    graph = helper.make_graph([node], "g", values[:-1], values[-1:])
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    path.write_bytes(model.SerializeToString())


def benchmark(name: str, *arguments: str | Path, first: Path | None = None) -> tuple[int, str, str]:
    """Return status and both streams of a benchmark; modules in `first` precede all others."""
    command = [sys.executable, *([] if first is None else ["-c", RUN, first])]
    command += [ROOT / "benchmarks" / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


RUN = """
import runpy, sys
from pathlib import Path
sys.argv = sys.argv[1:]
sys.path[:0] = [sys.argv.pop(0), str(Path(sys.argv[0]).parent)]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Run a script as Python does, except for the first entry of the module search path."""


@pytest.mark.slow
def test_a_symbolic_batch_is_one(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", "x")
    status, out, err = benchmark("c_host_peers.py", tmp_path / "m.onnx", "1")
    assert (status, err) == (0, "") and float(out) > 0


REFUSED = {
    "inputs": (("x", "z"), {"x": DATA, "z": DATA}, "has 2 inputs"),
    "names": (("x",), {"z": DATA}, "the one input is 'x'"),
    "shape": (("x",), {"x": DATA[:, :2]}, "samples have [1, 3, 4]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tmp_path: Path, case: str) -> None:
    inputs, arrays, message = REFUSED[case]
    write_model(tmp_path / "m.onnx", *inputs)
    np.savez(tmp_path / "d.npz", allow_pickle=False, **arrays)
    given = ("--only", "none", "--model", tmp_path / "m.onnx", "--calibrate", tmp_path / "d.npz")
    status, out, err = benchmark("c_host.py", *given, "--default")
    assert (status, out) == (2, "") and message in err and err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["c_host.py", "quantization.py"])
def test_without_the_runtime(tmp_path: Path, name: str) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ModuleNotFoundError(name='onnxruntime')\n")
    status, out, err = benchmark(name, "m.onnx", "c.npz", "t.npz", first=tmp_path)
    assert (status, out) == (1, "") and "pip install '.[test]'" in err and err.count("\n") == 1


def test_agreement_with_the_reference() -> None:
    """The layout of TensorFlow is recognized, and outputs of other sizes are not compared."""
    reference = np.random.default_rng(0).normal(size=(1, 3, 4, 5))
    assert agreement(reference, [np.moveaxis(reference, 1, -1)]) == np.inf
    assert np.isnan(agreement(reference, [reference[:, :2]]))
    assert agreement(reference, [np.zeros(7), 1.1 * reference]) == pytest.approx(20)


TILES = """
import peer_process as p
kept = p.forbid_tiles()
REQUEST_PERMISSION = 0x1023
p.LIBC.syscall(p.ARCH_PRCTL, REQUEST_PERMISSION, p.TILE_DATA)
print(p.has_tiles())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the system call is that of x86-64")
def test_tiles_are_denied() -> None:
    """A process cannot request the tile registers of AMX any more, on any processor."""
    command = [sys.executable, "-c", TILES]
    folder = ROOT / "benchmarks"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.needs("workbench")
def test_the_simulation_of_a_study() -> None:
    """Without costs, only the collection of the last result is added; a slow client delays all."""
    from explore_overhead import Simulation, without_cost

    from ceras_ir.support.workers import GATHER_DELAY_S

    durations = np.random.default_rng(5).uniform(0.5, 1.5, 40).tolist()
    for count, workers in ((8, 4), (40, 1), (4, 4)):
        free = Simulation(durations[:count], workers, 0.0, 0.0).elapsed()
        assert free == pytest.approx(without_cost(durations[:count], workers) + GATHER_DELAY_S)
    slow = Simulation([1.0] * 8, 4, 0.5, 0.0)
    assert slow.elapsed() == pytest.approx(8 * 0.5 + 1.0 + GATHER_DELAY_S)
    assert slow.calls == 8
    # The scheduler processes each call before and after it.
    both = Simulation([1.0] * 8, 8, 0.0, 0.5).elapsed()
    assert both == pytest.approx(8 * 0.5 + GATHER_DELAY_S)


def test_calls_of_cmsis_nn() -> None:
    """The dimensions of filters are those that the functions of CMSIS-NN expect."""
    found = {
        case.name: layer
        for case in cortex_m.CASES
        for op in cortex_m.network(case).walk()
        for layer in layers_of(op)
    }
    assert found["3x3, C = 3"].filter == (16, 3, 3, 3)
    assert found["FC 256 to 64"].filter == (256, 1, 1, 64)
    depthwise = found["depthwise 3x3"]
    assert (depthwise.call, depthwise.filter) == (Call.DEPTHWISE, (1, 3, 3, 32))
    strided = np.frombuffer(found["3x3, stride 2"].header(), np.int32)
    assert strided[10:14].tolist() == [1, 16, 16, 32]
    assert strided[14:].tolist() == [128, -128, 2, 2, 1, 1, 1, 1, -128, 127]
