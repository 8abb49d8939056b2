"""Compare the circuits in Verilog with the circuits in C++, which other tests check."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.drawn import Drawn
from backends.nnet.networks import written
from backends.nnet.test_computed_weights import attention
from graph_networks import random_array
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.nnet.array_plan import why_not_in_verilog
from ceras_ir.backends.nnet.circuits import CircuitSize
from ceras_ir.backends.nnet.engine import SOURCES, NnetModel, Rtl, build_simulation
from ceras_ir.backends.nnet.placement import moved_bytes
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects.graph import element_of, shape_of
from ceras_ir.dialects.mem import device_of
from ceras_ir.driver.compile import main
from ceras_ir.driver.run import main as run_tool
from ceras_ir.network.function import main_function
from ceras_ir.support.native import has_verilator
from ceras_ir.transforms.memory.liveness import steps

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_verilator(), reason="verilator is not installed"),
]

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MOBILENET = Path(__file__).parents[4] / "shared" / "models" / "vww_float.onnx"
LAYERS = Path(__file__).parent / "rtl_layers.cpp"
NAMES = ("fpga_linear.cpp", "fpga_depthwise.cpp", "fpga_circuits.cpp", "fpga_movement.cpp")
CIRCUITS = [SOURCES / name for name in NAMES]


@pytest.mark.parametrize(
    "size",
    [
        CircuitSize(),
        CircuitSize(lanes=4, bus_bytes=8, line_bytes=32768, result_bytes=8192, paired=False),
        CircuitSize(lanes=16, bus_bytes=8, line_bytes=65536),
    ],
    ids=["16x16", "4x4", "narrow bus"],
)
def test_random_layers_under_random_stalls(size: CircuitSize):
    program = build_simulation("rtl_layers", [LAYERS, *CIRCUITS], size)
    done = subprocess.run(
        [program, "0", "36", "-1", "24"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran, *kinds = (int(part.split()[0]) for part in done.stdout.split(",")[:5])
    assert ran >= 24 and min(kinds) >= 2, done.stdout


def test_registers_at_their_limits():
    """
    The maximum of each register runs; the next value is refused with the name of the register.
    """
    size = CircuitSize(lanes=4, bus_bytes=8, result_bytes=8192, paired=False)
    program = build_simulation("rtl_limits", [LAYERS.parent / "rtl_limits.cpp", *CIRCUITS], size)
    done = subprocess.run([program], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


CHECKS = ("paths", "read errors", "write errors", "aborts", "resets", "limits", "strobes")


@pytest.mark.parametrize("check", [*CHECKS, "responses", "interrupts", "queue"])
def test_the_ports(check: str):
    """Test the rules of the ports cycle by cycle, with errors, aborts and resets at many times."""
    size = CircuitSize(lanes=4, bus_bytes=8, line_bytes=32768, result_bytes=8192, paired=False)
    source = LAYERS.parent / "rtl_bus.cpp"
    program = build_simulation("rtl_bus", [source, *CIRCUITS], size, [LAYERS.parents[1] / "device"])
    done = subprocess.run(
        [program, check], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def held_to_cpp(module: ModuleOp, path: Path, rtl: Rtl) -> tuple[NnetModel, list[str]]:
    """
    Check the results of a module against C++. Return the model, and the reasons of the core for
    refused layers.
    """
    path.write_bytes(written(module))
    inputs = {
        f"input{i}": random_array(shape_of(value), element_of(value), i)
        for i, value in enumerate(main_function(module).body.block.args)
    }
    expected: list[bytes] = []
    got: list[bytes] = []
    NnetModel(path).run(inputs, lambda _, data: expected.append(data))
    model = NnetModel(path, rtl=rtl)
    model.run(inputs, lambda _, data: got.append(data))
    assert got == expected
    on_fpga = [op for op in steps(main_function(module)) if device_of(op) == FPGA]
    return model, [why_not_in_verilog(op, rtl.size) or "" for op in on_fpga if moved_bytes(op)]


@pytest.mark.parametrize("seed", range(3))
def test_random_networks(seed: int, tmp_path: Path):
    """Run all layers of the FPGA, with the pitches and offsets of the compiler."""
    module = Drawn(seed, by_channel=0.5).module(30)
    model, told = held_to_cpp(module, tmp_path / "model.nnet", Rtl(stall=20))
    assert any(model.cycles[0])
    # The engine confirms the report for each layer.
    pairs = list(zip(told, model.refused, strict=True))
    assert all((reason == "") == (found == "") for reason, found in pairs), pairs


@pytest.mark.parametrize("lanes", [4, 16])
def test_products_of_activations(lanes: int, tmp_path: Path):
    """The weights of several layers share an address, and change for each sample."""
    narrow = CircuitSize(lanes=4, bus_bytes=8, result_bytes=8192, paired=False)
    size = narrow if lanes == 4 else CircuitSize()
    module = attention(tokens=21, width=9)
    (path := tmp_path / "model.nnet").write_bytes(written(module))
    arguments = main_function(module).body.block.args
    inputs = {
        f"input{i}": random_array((3, *shape_of(value)), element_of(value), i)
        for i, value in enumerate(arguments)
    }
    expected = NnetModel(path).run_samples(inputs)
    model = NnetModel(path, rtl=Rtl(size, stall=20))
    for name, array in model.run_samples(inputs).items():
        np.testing.assert_array_equal(array, expected[name])
    assert all(cycles > 0 for sample in model.cycles for cycles in sample)
    assert len(model.cycles) == 3 and model.refused == [""] * 6


def test_a_core_without_tables(tmp_path: Path):
    """A core without tables refuses lookups with a reason; they run in C++."""
    size = CircuitSize(lanes=4, bus_bytes=8, result_bytes=8192, paired=False, tables=0)
    module = Drawn(0, by_channel=0.5).module(30)
    model, told = held_to_cpp(module, tmp_path / "model.nnet", Rtl(size))
    refused = [reason for reason in model.refused if "function tables" in reason]
    assert refused == [reason for reason in told if "function tables" in reason]
    assert all(reason.endswith("the core has room for 0") for reason in refused)
    assert refused and "" in model.refused


def test_a_network_on_the_command_line(tmp_path: Path):
    """`ceras-run --fpga rtl` gives the results of the engine."""
    folder = tmp_path / "digits"
    model, data = str(DIGITS / "digits.onnx"), str(DIGITS / "digits_calibration.npz")
    options = ["--target", "nnet", "--quantize", "int8", "--calibrate", data]
    assert main([model, *options, "-o", str(folder)]) == 0
    images = np.load(DIGITS / "digits_test.npz")
    inputs = tmp_path / "in.npz"
    np.savez(inputs, allow_pickle=False, **{name: images[name][:2] for name in images.files})
    for fpga in ("cpp", "rtl"):
        outputs = str(tmp_path / f"{fpga}.npz")
        words = [str(folder), "--fpga", fpga, "--inputs", str(inputs), "--outputs", outputs]
        assert run_tool(words) == 0
    expected, got = np.load(tmp_path / "cpp.npz"), np.load(tmp_path / "rtl.npz")
    assert sorted(got.files) == sorted(expected.files)
    for name in got.files:
        np.testing.assert_array_equal(got[name], expected[name])


@pytest.mark.skipif(not MOBILENET.exists(), reason="needs ../shared")
def test_a_mobilenet(tmp_path: Path):
    """All convolutions, of all channels and by channel, run in Verilog with equal results."""
    folder, inputs = tmp_path / "out", tmp_path / "in.npz"
    options = ["--target", "nnet", "--quantize", "int8", "--board", "ceras_zcu104"]
    assert main([str(MOBILENET), *options, "-o", str(folder)]) == 0
    image = np.random.default_rng(0).random((1, 96, 96, 3), dtype=np.float32)
    np.savez(inputs, allow_pickle=False, input_1=image)
    outputs: list[NDArray[np.float32]] = []
    for fpga in ("cpp", "rtl"):
        path = tmp_path / f"{fpga}.npz"
        words = [str(folder), "--fpga", fpga, "--inputs", str(inputs), "--outputs", str(path)]
        assert run_tool(words) == 0
        (name,) = (found := np.load(path)).files
        outputs.append(found[name])
    np.testing.assert_array_equal(outputs[1], outputs[0])
    model = NnetModel(folder / "model.nnet", rtl=Rtl())
    model.run({"input_1": image})
    # The last average is of 3x3.
    assert [c == 0 for c in model.cycles[0]] == [False] * 27 + [True]
