"""Run a compiled folder, and check the messages if this fails."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.networks import Array, written
from graph_networks import Network, random_array
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.engine import NnetModel, build
from ceras_ir.backends.nnet.reader import read
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError


def module() -> ModuleOp:
    """Return a network with two inputs, and two outputs of different types."""
    net = Network([((1, 3), f32), ((2, 3), f32)])
    total = net.add(graph.BinaryOp(Binary.ADD, *net.inputs, result_element=f32))
    tanh = net.add(graph.UnaryOp(total, FunctionAttr(Function.TANH)))
    return net.module(net.add(graph.QuantizeOp(tanh, UniformType(0.0078125))), total)


@pytest.fixture
def model(tmp_path: Path) -> NnetModel:
    (tmp_path / "model.nnet").write_bytes(written(module()))
    return NnetModel(tmp_path)


def inputs(seed: int) -> dict[str, Array]:
    return {
        "input0": random_array((1, 3), f32, seed),
        "input1": random_array((2, 3), f32, seed + 100),
    }


def test_samples_are_runs(model: NnetModel):
    single = [inputs(seed) for seed in range(5)]
    together = {name: np.stack([s[name] for s in single]) for name in single[0]}
    layers: list[int] = []
    results = model.run_samples(together, lambda layer, _: layers.append(layer))
    assert layers == [0, 1, 2] * 5
    for i, sample in enumerate(single):
        expected = run(module(), sample)
        one = model.run(sample)
        for name in ("output0", "output1"):
            np.testing.assert_array_equal(results[name][i], expected[name])
            np.testing.assert_array_equal(one[name], expected[name])


def test_wrong_inputs(model: NnetModel):
    good = inputs(0)
    with pytest.raises(InputError, match="inputs input0, input1 expected, got input0"):
        model.run({"input0": good["input0"]})
    with pytest.raises(InputError, match=r"'input1' has shape \[3, 3\], expected \[2, 3\]"):
        model.run(good | {"input1": np.zeros((3, 3), np.float32)})
    with pytest.raises(InputError, match="'input0' has type complex128, expected float32"):
        model.run(good | {"input0": np.zeros((1, 3), np.complex128)})
    with pytest.raises(InputError, match="different numbers of samples"):
        model.run_samples({n: np.zeros((i + 1, 1, 3)) for i, n in enumerate(good)})


def test_no_model(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        NnetModel(tmp_path)


def test_damaged_model_names_its_file(tmp_path: Path):
    (tmp_path / "model.nnet").write_bytes(written(module())[:-1])
    with pytest.raises(InputError) as error:
        NnetModel(tmp_path)
    assert error.value.file is not None and error.value.file.endswith("model.nnet")


def test_compiler_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "model.nnet").write_bytes(written(module()))
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(InputError, match="compiler 'no-such-compiler' in CXX is not installed"):
        NnetModel(tmp_path)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"install g\+\+, or set CXX"):
        NnetModel(tmp_path)


def test_compiler_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "model.nnet").write_bytes(written(module()))
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(InputError, match="false cannot build the nnet engine"):
        NnetModel(tmp_path)


def test_values_that_change_sides_are_listed(tmp_path: Path):
    """
    A value has a transfer per direction, for any number of consumers. The caller is on the CPU
    side.
    """
    int8 = UniformType(0.5)
    net = Network([((1, 4, 4, 8), int8)])
    (x,) = net.inputs

    def product(x: SSAValue) -> SSAValue:
        weights = net.constant(random_array((8, 1, 1, 8), int8), int8)
        op = graph.Conv2dOp(x, weights, result_element=int8, requant=RequantAttr(8))
        return net.add(op, FPGA)

    a, b = product(x), product(x)
    c = net.add(graph.RequantizeOp(a, int8, RequantAttr(1)))
    d = net.add(graph.BinaryOp(Binary.SUB, a, c, result_element=int8, requant=RequantAttr(1)))
    e = net.add(graph.BinaryOp(Binary.ADD, d, b, result_element=int8, requant=RequantAttr(1)), FPGA)
    path, data = tmp_path / "model.nnet", tmp_path / "in.bin"
    path.write_bytes(written(net.module(e)))
    data.write_bytes(bytes(128))
    command = [str(build()), str(path), str(data), "/dev/null", "--transfers"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    file = read(path.read_bytes())
    lines = [
        f"layer {layer} on {side} reads [{start}, {start + 128}) from the other side"
        for layer, side, tensor in [
            (0, "fpga", file.layers[0].operands[0]),
            (2, "cpu", file.layers[0].result),
            (4, "fpga", file.layers[3].result),
            (5, "cpu", file.layers[4].result),
        ]
        for start in [file.tensors[tensor].offset]
    ]
    assert text.splitlines() == lines
