"""Test per-channel tables, tables of int16 and shift swish: C against the interpreter."""

import numpy as np
import pytest
from c_harness import SANITIZE, check, make_network
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType, f32, i8, i16
from xdsl.ir import Attribute, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr, integers
from ceras_ir.dialects.graph.elementwise import BENDS
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.quant import RequantAttr, UniformType

INT8, INT16 = UniformType(0.5), UniformType(2.0**-10, storage=i16)


def tables(rows: int, entries: int) -> DenseIntOrFPElementsAttr:
    """Return random tables, a table per row, or a single table."""
    data = np.random.default_rng(rows).integers(-128, 128, (rows, entries)).astype(np.int8)
    shape = [rows, entries] if rows > 1 else [entries]
    return DenseIntOrFPElementsAttr(TensorType(i8, shape), BytesAttr(data.tobytes()))


def every(dtype: type[np.int8] | type[np.int16], channels: int) -> NDArray[np.signedinteger]:
    """Return all stored values in all channels."""
    info = np.iinfo(dtype)
    values = np.arange(info.min, info.max + 1).astype(dtype)
    return np.repeat(values[:, None], channels, axis=1)


@pytest.mark.parametrize("entries", [256, 1024, 65536])
def test_int16_tables(entries: int) -> None:
    x = every(np.int16, 1)
    module = make_network(
        [(INT16, x.shape)], lambda v: [graph.LookupOp(v, tables(1, entries), INT8).result]
    )
    check(module, {"input0": x})


@pytest.mark.parametrize(("element", "entries"), [(INT8, 256), (INT16, 512)])
def test_tables_of_channels(element: UniformType, entries: int) -> None:
    x = every(np.int8 if element is INT8 else np.int16, 3)
    module = make_network(
        [(element, x.shape)],
        lambda v: [graph.LookupOp(v, tables(2, entries), INT8, rows=(1, 0, 1)).result],
    )
    check(module, {"input0": x})


NATIVE = ("-O2", "-march=native")


@pytest.mark.parametrize("flags", [SANITIZE, NATIVE])
@pytest.mark.parametrize("channels", [3, 48])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("result", "dtype"), [(INT8, "int8"), (INT16, "int16"), (f32, "float32")])
@pytest.mark.parametrize("source", [BYTE, INT8])
def test_bytes_of_any_sign_become_anything(
    source: Attribute,
    result: Attribute,
    dtype: str,
    rows: int,
    channels: int,
    flags: tuple[str, ...],
) -> None:
    """
    Check plain pixels or stored int8, to integers or floats, in a single table or per channel.
    """
    data = (np.random.default_rng(rows).normal(size=(rows, 256)) * 100).astype(dtype)
    storage = result.storage if isinstance(result, UniformType) else f32
    shape = [rows, 256] if rows > 1 else [256]
    table = DenseIntOrFPElementsAttr(TensorType(storage, shape), BytesAttr(data.tobytes()))
    chosen = None if rows == 1 else [c % 2 for c in range(channels)]
    x = every(np.int8, channels)
    module = make_network(
        [(source, x.shape)], lambda v: [graph.LookupOp(v, table, result, chosen).result]
    )
    check(module, {"input0": x.view(np.uint8) if source == BYTE else x}, flags=flags)


@pytest.mark.parametrize("element", [INT8, INT16])
def test_shift_swish(element: UniformType) -> None:
    x = every(np.int8 if element is INT8 else np.int16, 2)
    bends = [[round(b * 2.0**s) for b in BENDS] for s in (10, 15)]
    module = make_network(
        [(element, x.shape)],
        lambda v: [
            graph.ShiftSwishOp(v, [*bends[0], *bends[1]], INT8, RequantAttr(4)).result,
            graph.ShiftSwishOp(v, bends[0], INT8, RequantAttr(0, low=-3, high=100)).result,
        ],
    )
    check(module, {"input0": x})


@pytest.mark.parametrize(
    "function",
    [
        FunctionAttr(Function.SWISH),
        FunctionAttr(Function.SOFTSIGN),
        FunctionAttr(Function.LEAKY_RELU, (0.1,)),
        FunctionAttr(Function.RELU),
    ],
    ids=lambda function: str(function.data),
)
def test_functions_of_scaled_channels(function: FunctionAttr) -> None:
    x = np.random.default_rng(1).normal(0, 4, (50, 3)).astype(np.float32)

    def scaled(v: SSAValue) -> SSAValue:
        op = graph.UnaryOp(v, function)
        op.properties["input_exponents"] = integers((0, 5, -7))
        op.properties["result_exponents"] = integers((-3, 0, 64))
        return op.result

    module = make_network([(f32, x.shape)], lambda v: [scaled(v)])
    check(module, {"input0": x})
