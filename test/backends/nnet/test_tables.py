"""Tables by channel, tables of int16 and shift swish are exact in the engine, bit for bit."""

import struct
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.networks import SANITIZERS, agree, resealed, written
from backends.nnet.test_format import offset_of, refuse
from graph_networks import Network
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType, f32, i16
from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.engine import build
from ceras_ir.backends.nnet.reader import read
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr, integers
from ceras_ir.dialects.graph.elementwise import BENDS
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.support.diagnostics import InputError

pytestmark = pytest.mark.usefixtures("apart")

INT8, WIDE = UniformType(0.5), UniformType(0.125, storage=i16)


def tables(rows: int, entries: int, made: UniformType) -> DenseIntOrFPElementsAttr:
    """Return random tables, a table per row or a single table."""
    data = np.random.default_rng(rows).integers(made.low, made.high + 1, (rows, entries))
    stored = data.astype(np.int8 if made is INT8 else np.int16)
    shape = [rows, entries] if rows > 1 else [entries]
    return DenseIntOrFPElementsAttr(TensorType(made.storage, shape), BytesAttr(stored.tobytes()))


@pytest.mark.parametrize("made", [INT8, WIDE], ids=str)
@pytest.mark.parametrize("element", [INT8, WIDE], ids=str)
def test_tables(element: UniformType, made: UniformType) -> None:
    net = Network([((700, 3), element)])
    x = net.inputs[0]
    ends: list[SSAValue] = []
    for entries in (256,) if element is INT8 else (256, 1024, 1 << 16):
        ends.append(net.add(graph.LookupOp(x, tables(1, entries, made), made)))
        ends.append(net.add(graph.LookupOp(x, tables(2, entries, made), made, rows=(1, 0, 1))))
    agree(net.module(*ends))


def test_pixels() -> None:
    """Plain bytes are looked up without conversion, and become floats."""
    net = Network([((90, 3), BYTE)])
    x = net.inputs[0]
    ends = [net.add(graph.CastOp(x, f32))]
    for made in (INT8, WIDE):
        ends.append(net.add(graph.LookupOp(x, tables(1, 256, made), made)))
        ends.append(net.add(graph.LookupOp(x, tables(2, 256, made), made, rows=(1, 0, 1))))
    agree(net.module(*ends))


@pytest.mark.parametrize("element", [INT8, WIDE], ids=str)
def test_shift_swish(element: UniformType) -> None:
    net = Network([((700, 2), element)])
    bends = [[round(b * 2.0**s) for b in BENDS] for s in (4, 12)]
    ends = [
        net.add(graph.ShiftSwishOp(net.inputs[0], ks, INT8, requant))
        for ks, requant in (
            (bends[0], RequantAttr(0)),
            (bends[1], RequantAttr(7, low=-3, high=100)),
            ([*bends[0], *bends[1]], RequantAttr(3)),
        )
    ]
    agree(net.module(*ends))


def test_functions_of_scaled_channels() -> None:
    net = Network([((50, 3), f32)])
    op = graph.UnaryOp(net.inputs[0], FunctionAttr(Function.SWISH))
    op.properties["input_exponents"] = integers((0, 5, -7))
    op.properties["result_exponents"] = integers((-3, 0, 64))
    agree(net.module(net.add(op)))


def test_a_table_has_at_most_65536_entries(tmp_path: Path) -> None:
    """Both refuse a longer table, also if the file has as many entries."""
    net = Network([((3, 2), WIDE)])
    op = graph.LookupOp(net.inputs[0], tables(2, 1 << 16, INT8), INT8, rows=(1, 0))
    data = written(net.module(net.add(op)))
    file = read(data)
    (layer,) = file.layers
    assert layer.attributes[0] == 1 << 16 and len(file.sections["tables"]) == 1 << 17
    changed = struct.pack("<3I", 1 << 17, 0, 0)
    changed = resealed(data, offset_of(file, data, "attributes"), changed)
    with pytest.raises(InputError, match="a power of two from 256 to 65536"):
        read(changed)
    assert "entries" in refuse(build(SANITIZERS), tmp_path / "bad.nnet", changed)
