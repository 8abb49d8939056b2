"""Build a small network for each family of kernels, on which an analysis of the C code is fast."""

from collections.abc import Callable

import numpy as np
from c_harness import constant, make_network
from graph_networks import FUNCTIONS
from loop_networks import NETWORKS
from xdsl.context import Context
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    ModuleOp,
    TensorType,
    f32,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Cell, Function, FunctionAttr, Pad, Pool, Reduce, Resize
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.frontends.onnx import import_model
from ceras_ir.transforms.graph.fuse import FusePass

Q, WIDE = UniformType(0.5), UniformType(2.0**-8, storage=i16)
MAP = (1, 4, 5, 3)


def _weights(*shape: int, seed: int = 0) -> SSAValue:
    values = np.random.default_rng(seed).integers(-128, 128, shape)
    return constant(values.astype(np.int8), Q)


def _floats(*shape: int, seed: int = 0) -> SSAValue:
    return constant(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def _convolutions(x: SSAValue) -> list[SSAValue]:
    dense = graph.Conv2dOp(
        x, _weights(4, 3, 3, 3), result_element=Q, padding=(1, 1, 1, 1), requant=RequantAttr(9)
    )
    deep = graph.Conv2dOp(
        x, _weights(3, 3, 3, 1), result_element=Q, groups=3, strides=(2, 1), requant=RequantAttr(7)
    )
    return [dense.result, deep.result]


def _float_convolutions(x: SSAValue) -> list[SSAValue]:
    dense = graph.Conv2dOp(x, _floats(4, 3, 3, 3), result_element=f32, padding=(1, 1, 1, 1))
    deep = graph.Conv2dOp(x, _floats(3, 3, 3, 1), result_element=f32, groups=3)
    return [dense.result, deep.result]


def _products(x: SSAValue, y: SSAValue) -> list[SSAValue]:
    fixed = graph.MatmulOp(x, _weights(5, 6), result_element=Q, requant=RequantAttr(8))
    computed = graph.MatmulOp(x, y, result_element=Q, requant=RequantAttr(8))
    return [fixed.result, computed.result]


def _float_products(x: SSAValue, y: SSAValue) -> list[SSAValue]:
    fixed = graph.MatmulOp(x, _floats(5, 6), result_element=f32)
    computed = graph.MatmulOp(x, y, result_element=f32)
    return [fixed.result, computed.result]


def _pools(x: SSAValue, y: SSAValue) -> list[SSAValue]:
    mean = RequantAttr(24, multiplier=(1 << 24) // 4)
    return [
        graph.Pool2dOp(Pool.MAX, x, (2, 3), result_element=Q, padding=(1, 0, 0, 1)).result,
        graph.Pool2dOp(Pool.AVERAGE, x, (2, 2), result_element=Q, requant=mean).result,
        graph.Pool2dOp(Pool.MAX, y, (2, 3), result_element=f32, padding=(1, 0, 0, 1)).result,
        graph.Pool2dOp(Pool.AVERAGE, y, (2, 2), result_element=f32).result,
    ]


def _elementwise(x: SSAValue, y: SSAValue, z: SSAValue) -> list[SSAValue]:
    row = constant(np.arange(3, dtype=np.int64), i64)
    both = graph.BinaryOp(Binary.ADD, x, x, result_element=Q, shifts=(1, 0), requant=RequantAttr(2))
    floats = [
        graph.BinaryOp(k, y, y, result_element=f32).result
        for k in (Binary.ADD, Binary.MUL, Binary.DIV, Binary.MAX)
    ]
    integers = [
        graph.BinaryOp(k, z, row, result_element=i64).result
        for k in (Binary.ADD, Binary.SUB, Binary.MUL, Binary.DIV, Binary.AND)
    ]
    functions = (Function.SIGMOID, Function.TANH, Function.EXP, Function.SQRT)
    unary = [graph.UnaryOp(y, FunctionAttr(f)).result for f in functions]
    chosen = graph.SelectOp(graph.CompareOp(graph.Compare.LESS, z, row).result, z, row).result
    return [both.result, *floats, *integers, *unary, chosen, graph.CastOp(y, i32).result]


def _conversions(x: SSAValue, y: SSAValue) -> list[SSAValue]:
    return [
        graph.QuantizeOp(x, Q).result,
        graph.DequantizeOp(y).result,
        graph.RequantizeOp(y, Q, RequantAttr(3, multiplier=5)).result,
    ]


def _tables(x: SSAValue, y: SSAValue) -> list[SSAValue]:
    data = np.arange(512, dtype=np.int16).astype(np.int8)
    one = DenseIntOrFPElementsAttr(TensorType(i8, (256,)), BytesAttr(data[:256].tobytes()))
    two = DenseIntOrFPElementsAttr(TensorType(i8, (2, 256)), BytesAttr(data.tobytes()))
    return [
        graph.LookupOp(x, one, Q).result,
        graph.LookupOp(x, two, Q, rows=(1, 0, 1)).result,
        graph.LookupOp(y, one, Q).result,
    ]


def _softmax(x: SSAValue) -> list[SSAValue]:
    table = np.rint(2.0**15 * np.exp(-np.arange(90) / 8)).astype(np.int32)
    entries = constant(table, UniformType(2.0**-15, storage=i32))
    requant = RequantAttr(23, zero_point=-128)
    probabilities = UniformType(2.0**-8, -128)
    return [
        graph.IntegerSoftmaxOp(x, entries, axis, probabilities, requant).result for axis in (0, 1)
    ]


def _float_rows(x: SSAValue) -> list[SSAValue]:
    scale = _floats(5)
    normal = graph.NormalizeOp(x, scale, scale, epsilon=1e-5, centred=True)
    return [graph.SoftmaxOp(x, 1).result, graph.SoftmaxOp(x, 0).result, normal.result]


def _normalize(x: SSAValue) -> list[SSAValue]:
    scale = constant(np.arange(5, dtype=np.int16), UniformType(2.0**-14, storage=i16))
    bias = constant(np.arange(5, dtype=np.int32), UniformType(2.0**-26, storage=i32))
    how = RequantAttr(17, low=-32768, high=32767)
    return [
        graph.IntegerNormalizeOp(
            x, scale, bias, epsilon=1 << 10, centred=True, element=WIDE, requant=how
        ).result
    ]


def _reductions(x: SSAValue, y: SSAValue) -> list[SSAValue]:
    found = [
        graph.ReduceOp(k, v, (1,)).result
        for v in (x, y)
        for k in (Reduce.SUM, Reduce.MAX, Reduce.MIN)
    ]
    found += [graph.ArgOp(Reduce.MAX, v, 1).result for v in (x, y)]
    return [*found, *(graph.TopKOp(Reduce.MAX, v, 3).result for v in (x, y))]


def _movement(x: SSAValue) -> list[SSAValue]:
    value = FloatAttr(-1.5, f32)
    return [
        graph.TransposeOp(x, (2, 0, 1)).result,
        graph.ConcatOp([x, x], 1).result,
        graph.SliceOp(x, (1, 4, 0), (1, 3, 2), (1, -2, 3)).result,
        graph.GatherOp(x, 1, (4, 0, 0, 2)).result,
        graph.PadOp(Pad.CONSTANT, x, (0, 1, 2), (3, 0, 1), value=value).result,
        graph.PadOp(Pad.REFLECT, x, (0, 3, 1), (0, 1, 2), value=value).result,
    ]


def _resizes(x: SSAValue) -> list[SSAValue]:
    return [
        graph.ResizeOp(k, x, (8, 7), (2.0, 1.4)).result for k in (Resize.NEAREST, Resize.LINEAR)
    ]


def _rows(x: SSAValue, indices: SSAValue) -> list[SSAValue]:
    taken = graph.TakeOp(x, indices).result
    return [taken, graph.PutOp(x, indices, taken).result]


def _recurrence(x: SSAValue, state: SSAValue) -> list[SSAValue]:
    cell = graph.RecurrenceOp(
        Cell.LSTM, x, _floats(12, 3), state, FUNCTIONS, cell=state, bias=_floats(12)
    )
    gru = graph.RecurrenceOp(
        Cell.GRU_RESET_FIRST, graph.SliceOp(x, (0, 0, 0), (3, 2, 9), (1, 1, 1)).result,
        _floats(9, 3), state, FUNCTIONS[:2],
    )  # fmt: skip
    return [cell.result, gru.result]


def _loop() -> ModuleOp:
    module = import_model(NETWORKS["recurrent"]())
    FusePass().apply(Context(), module)
    return module


KERNELS: dict[str, Callable[[], ModuleOp]] = {
    "convolutions": lambda: make_network([(Q, MAP)], _convolutions),
    "float convolutions": lambda: make_network([(f32, MAP)], _float_convolutions),
    "products": lambda: make_network([(Q, (3, 6)), (Q, (4, 6))], _products),
    "float products": lambda: make_network([(f32, (3, 6)), (f32, (4, 6))], _float_products),
    "pools": lambda: make_network([(Q, MAP), (f32, MAP)], _pools),
    "elementwise": lambda: make_network([(Q, (2, 3)), (f32, (2, 3)), (i64, (2, 3))], _elementwise),
    "conversions": lambda: make_network([(f32, (2, 3)), (WIDE, (2, 3))], _conversions),
    "tables": lambda: make_network([(Q, (2, 3)), (WIDE, (2, 3))], _tables),
    "integer softmax": lambda: make_network([(Q, (2, 5))], _softmax),
    "integer normalization": lambda: make_network([(Q, (2, 5))], _normalize),
    "softmax and normalization": lambda: make_network([(f32, (2, 5))], _float_rows),
    "reductions": lambda: make_network([(f32, (2, 5)), (i32, (2, 5))], _reductions),
    "movement": lambda: make_network([(f32, (2, 5, 4))], _movement),
    "resizes": lambda: make_network([(f32, MAP)], _resizes),
    "rows": lambda: make_network([(f32, (5, 3)), (i64, (4,))], _rows),
    "recurrence": lambda: make_network([(f32, (3, 2, 12)), (f32, (2, 3))], _recurrence),
    "loop": _loop,
}
"""The networks by the names of their kernels."""
