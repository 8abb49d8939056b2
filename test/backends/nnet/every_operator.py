"""Build an nnet file with each opcode, quantized and float, on both devices."""

import numpy as np
from backends.nnet.drawn import function_tables
from backends.nnet.networks import written
from graph_networks import Network, integer_normalize, integer_softmax, random_array, recurrence
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    f32,
    i8,
    i32,
    i64,
)
from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Cell, Function, FunctionAttr, Pad, Pool, Resize
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.transforms.rebuilding import rebuild_linear

INT8, INT32 = UniformType(0.5), UniformType(0.25, storage=i32)
INT4, INT2 = (UniformType(0.5, storage=IntegerType(bits)) for bits in (4, 2))
SHIFTED = UniformType(0.5, -7)


def every_operator() -> bytes:
    """Return a file with each opcode, quantized and float, on both devices."""
    arguments = [((1, 4, 4, 6), f32), ((1, 4, 4, 6), SHIFTED), ((1, 5), f32), ((1, 3), i64)]
    net = Network(arguments)
    x, y, state, indices = net.inputs

    def convolve(x: SSAValue, groups: int, device: str) -> SSAValue:
        kind = {1: INT4, 2: INT2}.get(groups, INT8)
        weights = net.constant(random_array((6, 3, 3, 6 // groups), kind, 1), kind)
        bias = net.constant(np.arange(6, dtype=np.int32), INT32)
        op = graph.Conv2dOp(
            x, weights, bias, x, result_element=SHIFTED, padding=(1, 1, 1, 1), groups=groups,
            requant=RequantAttr(8, zero_point=-7), residual_shift=2,
        )  # fmt: skip
        return net.add(op, device)

    def tabulated(x: SSAValue, device: str) -> SSAValue:
        """Return a product with per-channel tables, and all copies of the floats of a lookup."""
        rows = graph.integers((0, 2, 1, 1, 0, 2))
        flat = net.add(graph.ReshapeOp(x, (16, 6)), device)
        weights = net.constant(random_array((6, 6), INT8, 4), INT8)
        plain = graph.MatmulOp(flat, weights, result_element=INT8, requant=RequantAttr(5))
        table = function_tables(np.random.default_rng(2), 3, None)
        m = net.add(rebuild_linear(plain, {"table": table, "rows": rows}), device)
        plain.drop_all_references()
        table = function_tables(np.random.default_rng(2), None, f32)
        m = net.add(
            graph.LookupOp(net.add(graph.ReshapeOp(m, (1, 4, 4, 6)), device), table, f32), device
        )
        m = net.add(graph.ResizeOp(Resize.NEAREST, m, (8, 4), (2.0, 1.0)), device)
        m = net.add(graph.SliceOp(m, (0, 7, 0, 1), (1, 4, 4, 5), (1, -2, 1, 1)), device)
        m = net.add(graph.TransposeOp(m, (0, 2, 1, 3)), device)
        return net.add(graph.ConcatOp([m, m], 2), device)

    def of_activations(x: SSAValue, device: str) -> SSAValue:
        """Return a product with computed weights, with fewer channels than a tile of the array."""
        flat = net.add(graph.ReshapeOp(x, (16, 6)), device)
        scores = net.add(graph.RequantizeOp(flat, INT8, RequantAttr(1)))
        op = graph.MatmulOp(flat, scores, result_element=SHIFTED, requant=RequantAttr(5))
        return net.add(op, device)

    q = net.add(graph.QuantizeOp(x, SHIFTED))
    ends = [tabulated(q, device) for device in (CPU, FPGA)]
    ends += [of_activations(q, device) for device in (CPU, FPGA)]
    a = convolve(convolve(convolve(convolve(q, 1, FPGA), 2, CPU), 6, CPU), 6, FPGA)
    requant = RequantAttr(2, zero_point=-7)
    for device in (CPU, FPGA):
        a = net.add(graph.Pool2dOp(Pool.MAX, a, (2, 2), result_element=SHIFTED), device)
        y = net.add(
            graph.Pool2dOp(Pool.AVERAGE, y, (2, 2), result_element=SHIFTED, requant=requant)
        )
        op = graph.BinaryOp(
            Binary.ADD, a, y, result_element=SHIFTED, shifts=(1, 0), requant=requant
        )
        a = net.add(op, device)
    table = DenseIntOrFPElementsAttr(TensorType(i8, (256,)), BytesAttr(bytes(range(256))))
    b = net.add(graph.ConcatOp([a, net.add(graph.LookupOp(a, table, SHIFTED))], 3))
    b = net.add(graph.RequantizeOp(b, SHIFTED, requant))
    b = net.add(graph.ResizeOp(Resize.NEAREST, b, (3, 5), (1.5, 2.5)))
    b = net.add(graph.PadOp(Pad.CONSTANT, b, (0, 1, 0, 0), (0, 0, 2, 0), interior=(0, 0, 1, 0)))
    b = net.add(graph.SliceOp(b, (0, 3, 0, 0), (1, 3, 5, 12), (1, -1, 2, 1)))
    c = net.add(graph.DequantizeOp(net.add(graph.TransposeOp(b, (0, 3, 1, 2)))))
    c = net.add(graph.ResizeOp(Resize.LINEAR, c, (20, 4), (20 / 12, 4 / 3)))
    c = net.add(graph.Pool2dOp(Pool.AVERAGE, c, (4, 2), result_element=f32, strides=(4, 2)))
    kernel = net.constant(random_array((2, 1, 1, 5), f32, 2))
    c = net.add(graph.Conv2dOp(c, kernel, result_element=f32))
    c = net.add(
        graph.BinaryOp(Binary.MUL, c, net.constant(np.ones(2, np.float32)), result_element=f32)
    )
    for kind in (Binary.DIV, Binary.MIN, Binary.MAX, Binary.POW):
        c = net.add(graph.BinaryOp(kind, c, c, result_element=f32))
    c = net.add(graph.UnaryOp(c, FunctionAttr(Function.SWISH)))
    flat = net.add(graph.ReshapeOp(c, (1, 20)))
    flat = net.add(graph.ReduceOp(graph.Reduce.SUM, flat, (0,)))
    matrix = net.constant(random_array((7, 20), f32, 3))
    d = net.add(graph.SoftmaxOp(net.add(graph.MatmulOp(flat, matrix, result_element=f32)), 1))
    scale = net.constant(random_array((7,), f32, 5))
    d = net.add(graph.NormalizeOp(d, scale, scale, epsilon=1e-5, centred=True))
    d = integer_softmax(net, net.add(graph.QuantizeOp(d, INT8)), 1)
    d = integer_normalize(net, d, centred=True)
    steps = net.add(graph.ReshapeOp(flat, (1, 1, 20)))
    for integer in (False, True):
        cells = recurrence(net, Cell.LSTM, steps, state, cell=state, integer=integer)
        steps = net.add(graph.ConcatOp([cells, cells], 2))
        steps = net.add(graph.ReshapeOp(steps, (1, 1, 20)))
    rows = net.add(graph.SliceOp(steps, (0, 0, 0), (1, 1, 15), (1, 1, 1)))
    rows = recurrence(net, Cell.GRU_RESET_FIRST, rows, state, integer=True)
    last = net.add(graph.ReshapeOp(rows, (1, 5)))
    at = net.add(graph.ReshapeOp(net.add(graph.ConcatOp([indices, indices], 1)), (6,)))
    taken = net.add(graph.TakeOp(net.constant(random_array((4, 3), INT8, 7), INT8), at))
    taken = net.add(graph.PutOp(taken, at, taken))
    less = net.add(graph.CompareOp(graph.Compare.LESS, at, net.constant(np.arange(6), i64)))
    chosen = net.add(graph.SelectOp(less, at, net.add(graph.GatherOp(at, 0, (5, 4, 3, 3, 1, 0)))))
    for kind in (Binary.DIV, Binary.POW):
        chosen = net.add(graph.BinaryOp(kind, chosen, at, result_element=i64))
    chosen = net.add(graph.ReshapeOp(chosen, (2, 3)))
    chosen = net.add(graph.PadOp(Pad.REFLECT, chosen, (1, 2), (0, 1)))
    most = net.add(graph.ArgOp(graph.Reduce.MAX, net.add(graph.CastOp(chosen, f32)), 1))
    first = net.add(graph.TopKOp(graph.Reduce.MIN, chosen, 2))
    outputs = (d, last, taken, less, most, first, *ends)
    return written(net.module(*outputs, strategy="slices", states={"input2": "output1"}))
