"""States in the file and in the engine are kept from run to run, reset, and refused if wrong."""

import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.networks import SANITIZERS, build_around_engine, resealed, written
from backends.nnet.test_format import offset_of, refuse
from graph_networks import Network, random_array
from xdsl.dialects.builtin import ModuleOp, f32, i16

from ceras_ir.backends.nnet.engine import NnetModel, build
from ceras_ir.backends.nnet.reader import dump, read
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import in_turn
from ceras_ir.support.diagnostics import InputError

pytestmark = pytest.mark.usefixtures("apart")

INT8, WIDE = UniformType(0.5, -7), UniformType(0.125, storage=i16)
STATES = {"input0": "output2", "input1": "output0", "input2": "output3", "input4": "output4"}
STEPS = 6


def network() -> ModuleOp:
    """
    Return sums of bytes with a zero point, of words and of floats as states; a float that is an
    input in the next step; and outputs between them.
    """
    arguments = [((2, 3), INT8), ((2, 3), WIDE), ((5,), f32), ((5,), f32), ((5,), f32)]
    net = Network([*arguments, ((2, 3), INT8)])
    byte, word, sum_, x, late, y = net.inputs
    add = RequantAttr(1, zero_point=-7)
    bytes_ = net.add(graph.BinaryOp(Binary.ADD, byte, y, result_element=INT8, requant=add))
    wide = RequantAttr(2, low=-32768, high=32767)
    words = net.add(
        graph.BinaryOp(Binary.ADD, word, y, result_element=WIDE, shifts=(2, 4), requant=wide)
    )
    total = net.add(graph.BinaryOp(Binary.ADD, sum_, late, result_element=f32))
    seen = net.add(graph.BinaryOp(Binary.MUL, total, x, result_element=f32))
    real = net.add(graph.DequantizeOp(net.add(graph.TransposeOp(bytes_, (1, 0)))))
    # Callers get the second and the last of outputs 0 to 5.
    return net.module(words, seen, bytes_, total, x, real, states=STATES)


def samples() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    x = [random_array((5,), f32, i) for i in range(STEPS)]
    y = [random_array((2, 3), INT8, i) for i in range(STEPS)]
    return {"input3": np.stack(x), "input5": np.stack(y)}


def test_what_stays_is_the_interpreters(tmp_path: Path):
    module, given = network(), samples()
    (tmp_path / "model.nnet").write_bytes(written(module))
    found = NnetModel(tmp_path, SANITIZERS).run_samples(given)
    steps = ({name: array[i] for name, array in given.items()} for i in range(STEPS))
    for i, expected in enumerate(in_turn(module, steps)):
        assert sorted(expected) == sorted(found) == ["output1", "output5"]
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name][i], array)


def test_a_sequence_begins_anew(tmp_path: Path):
    (tmp_path / "model.nnet").write_bytes(written(network()))
    given = samples()
    rows = (given[name][i].tobytes() for i in range(STEPS) for name in given)
    (tmp_path / "in.bin").write_bytes(b"".join(rows))
    build_around_engine("states.cpp", tmp_path / "states", "a program that resets")
    command = ["./states", "model.nnet", "in.bin", "out.bin", str(STEPS)]
    subprocess.run(command, cwd=tmp_path, check=True)
    data = (tmp_path / "out.bin").read_bytes()
    once = len(data) // 2
    assert once == STEPS * (5 * 4 + 6 * 4) and data[:once] == data[once:]
    # The states must influence the results. Otherwise the second round has no effect.
    assert data[: once // STEPS] != data[once // STEPS : 2 * once // STEPS]


def test_the_file_says_it():
    file = read(written(network()))
    assert file.states == 4
    assert [name for _, name in file.inputs[:2]] == ["input3", "input5"]
    assert [name for _, name in file.inputs[2:]] == list(STATES)
    assert [name for _, name in file.outputs[2:]] == list(STATES.values())
    text = dump(written(network()))
    assert "states:\n  'input0' = 'output2' of the previous run\n" in text


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (5, "different types"),
        (7, "7 states, more than inputs or outputs"),
        (2**32 - 1, "4294967295 states"),
    ],
)
def test_wrong_counts_are_refused(tmp_path: Path, count: int, message: str):
    data = written(network())
    changed = resealed(data, offset_of(read(data), data, "network") + 32, struct.pack("<I", count))
    with pytest.raises(InputError, match=message):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


def test_one_input_for_two_states_is_refused(tmp_path: Path):
    """The reader names the input; the engine finds that the states exceed the arena."""
    net = Network([((4,), f32), ((1 << 16,), f32)])
    relu = FunctionAttr(Function.RELU)
    outputs = [net.add(graph.UnaryOp(x, relu)) for x in net.inputs]
    data = written(net.module(*outputs, states={"input0": "output0", "input1": "output1"}))
    changed = data
    for section in ("inputs", "outputs"):
        at = offset_of(read(data), data, section)
        large = data[at + 8 : at + 12]
        changed = resealed(changed, at, large)
    with pytest.raises(InputError, match="is an input twice"):
        read(changed)
    said = refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)
    assert "the states exceed the arena" in said
