"""Compare recurrent layers of the engine with the interpreter, and refuse wrong files."""

import struct
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from backends.nnet.networks import OTHER_PROCESSORS, SANITIZERS, agree, resealed, written
from backends.nnet.test_format import offset_of, refuse
from graph_networks import Network, recurrence
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.engine import build
from ceras_ir.backends.nnet.reader import dump, read
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell, Function, FunctionAttr
from ceras_ir.support.diagnostics import InputError


def layer(
    kind: Cell,
    *,
    steps: int = 5,
    batch: int = 1,
    hidden: int = 7,
    starts: bool = True,
    biased: bool = True,
    integer: bool | Literal["dynamic"] = False,
    backwards: bool = False,
    functions: tuple[FunctionAttr, ...] | None = None,
) -> ModuleOp:
    """Return a network with a single layer; the state is an input or a constant."""
    arguments = [((steps, batch, kind.gates * hidden), f32)]
    arguments += [((batch, hidden), f32)] * 2 if starts else []
    net = Network(arguments)
    x, *given = net.inputs
    if not given:
        given = [net.constant(np.zeros((batch, hidden), np.float32))] * 2
    cell = given[1] if kind is Cell.LSTM else None

    def turned(value: SSAValue) -> SSAValue:
        shape = (steps, *graph.shape_of(value)[1:])
        return net.add(graph.SliceOp(value, (steps - 1, 0, 0), shape, (-1, 1, 1)))

    options = {} if functions is None else {"functions": functions}
    x = turned(x) if backwards else x
    y = recurrence(net, kind, x, given[0], cell=cell, biased=biased, integer=integer, **options)
    unused = given[1:] if starts and cell is None else []
    return net.module(turned(y) if backwards else y, *unused)


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("kind", Cell)
def test_every_cell(kind: Cell, integer: bool):
    agree(layer(kind, batch=3, integer=integer))


@pytest.mark.parametrize("integer", [False, True])
def test_other_forms(integer: bool):
    """
    Check only required operands, widths next to vector widths, and runs that start at the last
    step.
    """
    agree(layer(Cell.LSTM, steps=1, hidden=1, starts=False, biased=False, integer=integer))
    agree(layer(Cell.GRU_RESET_FIRST, hidden=33, biased=False, integer=integer))
    agree(layer(Cell.GRU, steps=3, batch=2, hidden=32, integer=integer, backwards=True))


@pytest.mark.parametrize("hidden", [1, 7, 33])
def test_a_state_that_is_quantized_dynamically(hidden: int):
    agree(layer(Cell.LSTM, batch=3, hidden=hidden, integer="dynamic"))
    agree(layer(Cell.LSTM, steps=2, hidden=hidden, starts=False, integer="dynamic", backwards=True))


@pytest.mark.slow
@pytest.mark.parametrize("flags", OTHER_PROCESSORS, ids=lambda flags: flags[-1:])
def test_dynamic_scales_on_other_processors(flags: tuple[str, ...]):
    agree(layer(Cell.LSTM, steps=9, batch=2, hidden=75, integer="dynamic"), flags=flags)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), *OTHER_PROCESSORS], ids=lambda flags: flags[-1:])
@pytest.mark.parametrize("integer", [False, True])
def test_on_other_processors(flags: tuple[str, ...], integer: bool):
    for kind in Cell:
        agree(layer(kind, steps=9, batch=2, hidden=75, integer=integer), flags=flags)


@pytest.mark.parametrize("integer", [False, True])
def test_states_beyond_all_bounds(integer: bool):
    """With Relu, states grow to infinity, and then to NaN; as integers they are clamped."""
    relu = (FunctionAttr(Function.RELU),) * 3
    with np.errstate(all="ignore"):
        agree(layer(Cell.LSTM, steps=40, integer=integer, functions=relu))
        agree(layer(Cell.LSTM, steps=40, integer="dynamic", functions=relu))
        agree(layer(Cell.RNN, steps=200, hidden=20, integer=integer, functions=relu))


def test_functions_have_their_parameters():
    functions = (
        FunctionAttr(Function.HARD_SIGMOID, (0.125, 0.375)),
        FunctionAttr(Function.CLIP, (-0.5, 0.75)),
        FunctionAttr(Function.LEAKY_RELU, (0.25,)),
    )
    agree(layer(Cell.LSTM, functions=functions))


def test_a_file_says_it():
    data = written(layer(Cell.GRU, hidden=2, integer=True))
    (record,) = read(data).layers
    assert record.attributes[:4] == (1, 4, 0, 0) and len(record.attributes) == 1 + 6 + 1 + 6
    assert record.attributes[7] == 2**32 - 14
    assert "recurrence on cpu" in dump(data)


def _words(file: bytes) -> int:
    return offset_of(read(file), file, "attributes")


INTEGER, FLOATS = (
    written(layer(Cell.LSTM, batch=2, hidden=3, integer=integer)) for integer in (True, False)
)
DYNAMIC = written(layer(Cell.LSTM, batch=2, hidden=3, integer="dynamic"))

# (content of the file, word of the attributes, value, message of the reader)
CRAFTED = [
    (INTEGER, 0, 4, "unknown attribute"),
    (INTEGER, 0, 1, "3 or 4 operands expected"),
    (INTEGER, 1, 0, "unknown function"),
    (INTEGER, 1, 256 + 4, "unknown function"),
    (INTEGER, 2, 0x7FC00000, "not a number"),
    (INTEGER, 10, 61, "an exponent exceeds 60"),
    (INTEGER, 22, 2**32 - 61, "an exponent exceeds 60"),
    (DYNAMIC, 10, 2**32 - 14, "23 attributes expected"),
    (INTEGER, 10, 2**31, "24 attributes expected"),
    (DYNAMIC, 11, 128, "the zero point is no int8"),
    (DYNAMIC, 12, 0xBF800000, "a scale is negative or infinite"),
    (DYNAMIC, 23, 0x7F800000, "a scale is negative or infinite"),
    (DYNAMIC, 13, 0x7FC00000, "a scale is negative or infinite"),
    (FLOATS, 4, 2**32 - 1, "unknown function"),
    (FLOATS, 9, 0xFFFFFFFF, "not a number"),
]


@pytest.mark.parametrize(("data", "word", "value", "message"), CRAFTED)
def test_crafted_attributes_are_refused(
    tmp_path: Path, data: bytes, word: int, value: int, message: str
):
    changed = resealed(data, _words(data) + 4 * word, struct.pack("<I", value))
    with pytest.raises(InputError, match=message):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


# (operand, byte of the tensor, replacement, message of the reader)
TENSORS = [
    (0, 32, struct.pack("<2I", 1, 10), "state: wrong shape"),
    (0, 5, b"\x02", "weights of rank 2 and input of 3|reserved bytes|extent"),
    (1, 8, struct.pack("<f", 0.5), "scale 1"),
    (1, 12, struct.pack("<i", 1), "without zero point"),
    (1, 4, b"\x02", "weights of 8 bits"),
    (1, 32, struct.pack("<2I", 3, 12), "weights: wrong shape"),
    (2, 32, struct.pack("<2I", 3, 2), "state: wrong shape"),
    (3, 32, struct.pack("<2I", 1, 6), "state: wrong shape"),
    (4, 32, struct.pack("<I", 11), "bias: wrong shape"),
]


@pytest.mark.parametrize(("operand", "at", "value", "message"), TENSORS)
def test_crafted_tensors_are_refused(
    tmp_path: Path, operand: int, at: int, value: bytes, message: str
):
    file = read(INTEGER)
    record = offset_of(file, INTEGER, "tensors") + 64 * file.layers[0].operands[operand]
    changed = resealed(INTEGER, record + at, value)
    with pytest.raises(InputError, match=message):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


def test_a_result_without_the_cell_state_is_refused(tmp_path: Path):
    file = read(INTEGER)
    record = offset_of(file, INTEGER, "tensors") + 64 * file.layers[0].result
    changed = resealed(INTEGER, record + 32, struct.pack("<I", 5))
    with pytest.raises(InputError, match="result: wrong shape"):
        read(changed)
    refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


def test_operands_that_are_others_are_refused(tmp_path: Path):
    """Computed weights, states that are not float tensors, and wrong shapes are refused."""
    file = read(INTEGER)
    operands = offset_of(file, INTEGER, "operands")
    x, weights, state, *_ = file.layers[0].operands
    for at, tensor, message in (
        (1, state, "constant weights"),
        (2, weights, "float tensors"),
        (0, weights, "float tensors"),
        (4, x, "wrong shape"),
    ):
        changed = resealed(INTEGER, operands + 4 * at, struct.pack("<I", tensor))
        with pytest.raises(InputError, match=message):
            read(changed)
        refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


def test_sums_that_could_overflow_are_refused(tmp_path: Path):
    """The engine derives the bound from the weights: a row of 1024 values of -128 reaches 2^32."""
    data = written(layer(Cell.RNN, steps=1, hidden=1024, integer=True))
    at = offset_of(read(data), data, "weights")
    changed = resealed(data, at, bytes([128]) * 1024)
    assert "may overflow 32 bits" in refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)


def test_one_that_asks_for_years_is_refused(tmp_path: Path):
    """The file has a sequence of layers with 2^38 products and 4 MiB of weights each."""
    net = Network([((1 << 16, 1, 2048), f32), ((1, 2048), f32)])
    x, state = net.inputs
    for _ in range(4):
        x = recurrence(net, Cell.RNN, x, state, biased=False, integer=True)
    data = written(net.module(x))
    assert "exceeds the work limit" in refuse(build(SANITIZERS), tmp_path / "bad.nnet", data)
