"""Import functions of one argument, and lookup tables."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, i1, i8, i32, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Function
from ceras_ir.frontends.onnx.emission.values import Value as EmittedValue
from ceras_ir.frontends.onnx.emission.values import shape_of_value
from ceras_ir.frontends.tosa.operation import PLAIN, Operation, operation, refused
from ceras_ir.frontends.tosa.text.reader import REGIONS
from ceras_ir.frontends.tosa.values import Total, Value, stored_type

FUNCTIONS = {
    "ceil": Function.CEIL, "cos": Function.COS, "erf": Function.ERF, "exp": Function.EXP,
    "floor": Function.FLOOR, "log": Function.LOG, "sigmoid": Function.SIGMOID, "sin": Function.SIN,
    "tanh": Function.TANH,
}  # fmt: skip

ENTRIES, INTERPOLATED_ENTRIES = 256, 513
"""The entries of tables for 8 and 16 bits."""

FRACTION = 1 << 7
"""The steps between two entries of a table for 16 bits."""

SPECTRUM = "complex values are not in the IR; compute the spectrum in the application"

refused(SPECTRUM, "fft2d", "rfft2d")

SHAPES = "computed shapes are not imported; export the network with fixed shapes"

BLOCKS = "elements in blocks with a common scale are not imported; convert the network to f32"

DRAFT = "an operation after TOSA 1.0; export the network for TOSA 1.0"

refused(
    SHAPES, "add_shape", "assert_equal_shape", "avg_pool2d_adaptive", "concat_shape", "dim",
    "div_ceil_shape", "div_floor_shape", "div_shape", "exp2_shape", "log2_ceil_shape",
    "log2_floor_shape", "max_pool2d_adaptive", "max_shape", "min_shape", "mod_shape", "mul_shape",
    "slice_shape", "sub_shape",
)  # fmt: skip
refused(
    BLOCKS, "cast_from_block_scaled", "cast_to_block_scaled", "conv2d_block_scaled",
    "matmul_t_block_scaled", "reshape_block_scaled", "row_gather_block_scaled",
)  # fmt: skip
refused(DRAFT, "matmul_t", "row_gather")
refused(REGIONS, "cond_if", "while_loop", "yield")


@operation("custom")
def custom(op: Operation) -> Value:
    """Raise an error with the name of a custom operation, which cannot be imported."""
    name = op.word("operator_name", op.word("identifier", "unknown"))
    raise op.unsupported(f"the operation '{name}'; end the network before it, or convert without")


@operation(*FUNCTIONS)
def function(op: Operation) -> Value:
    """Import a function of one float argument that `graph` has too, such as tanh."""
    return op.emitter.unary(FUNCTIONS[op.name], op.real(0))


@operation("reciprocal", "rsqrt")
def reciprocal(op: Operation) -> Value:
    """Import reciprocal, or rsqrt: the reciprocal of the square root."""
    emitter, x = op.emitter, op.real(0)
    if op.name == "rsqrt":
        x = emitter.unary(Function.SQRT, x)
    return emitter.div(emitter.number(1.0), x)


@operation("abs")
def absolute(op: Operation) -> Value:
    """Import abs. The magnitude of the lowest integer saturates at the highest."""
    emitter = op.emitter
    if op.is_float:
        return emitter.unary(Function.ABS, op.real(0))
    x = emitter.cast(op.plain(0), i64)
    magnitude = emitter.binary(Binary.MAX, x, emitter.sub(emitter.number(0, x), x))
    highest = {"i8": 127, "i16": (1 << 15) - 1}.get(op.element(0), (1 << 31) - 1)
    return op.plain_result(
        emitter.binary(Binary.MIN, magnitude, emitter.number(highest, magnitude))
    )


@operation("bitwise_not")
def bitwise_not(op: Operation) -> Value:
    """Import bitwise_not: all bits are inverted."""
    x = op.plain(0)
    return op.emitter.binary(Binary.XOR, x, op.emitter.number(-1, x))


@operation("logical_not")
def logical_not(op: Operation) -> Value:
    """Import logical_not: true where the operand is false."""
    shape = (1,) * max(len(op.shape(0)), 1)
    true = op.emitter.constant(np.full(shape if op.shape(0) else (), True), "true")
    return op.emitter.binary(Binary.XOR, op.emitter.cast(op.plain(0), i1), true)


@operation("clz")
def leading_zeros(op: Operation) -> Value:
    """Import clz: the number of leading zeros in the 32 bits of each integer."""
    emitter = op.emitter
    x: EmittedValue = emitter.cast(op.plain(0), i64)
    x = emitter.binary(Binary.AND, x, emitter.number((1 << 32) - 1, x))
    zeros: EmittedValue = emitter.cast(emitter.compare(Compare.EQUAL, x, emitter.number(0, x)), i64)
    for bits in (16, 8, 4, 2, 1):
        # The upper bits are free: shift them out.
        free = emitter.compare(Compare.LESS, x, emitter.number(1 << 32 - bits, x))
        factor = emitter.number(1 << bits, x), emitter.number(1, x)
        x = emitter.mul(x, emitter.select(free, *factor))
        steps = emitter.number(bits, x), emitter.number(0, x)
        zeros = emitter.add(zeros, emitter.select(free, *steps))
    return op.plain_result(zeros)


@operation("table")
def table(op: Operation) -> Value:
    """
    Import table. For 8 bits it has an entry for each of the 256 integers. For 16 bits it has an
    entry for each 128th integer, with linear interpolation between entries; the results have 7 more
    bits.
    """
    given = op.entries("table")
    entries = op.array(1).reshape(-1) if given is None else np.array(given, np.int64)
    if op.element(0) == "i8":
        if entries.size != ENTRIES:
            raise op.wrong(f"a table of {entries.size} entries, expected {ENTRIES}")
        value = op.value(0)
        known = graph.quantized_element(value) if isinstance(value, SSAValue) else None
        x = op.stored(0, 0 if known is None else known.zero_point)
        attribute = DenseIntOrFPElementsAttr.from_list(
            TensorType(i8, [ENTRIES]), entries.astype(np.int8).tolist()
        )
        element = stored_type(i8, op.result_zero_point)
        return op.emitter.emit(graph.LookupOp(x, attribute, element))
    if op.element(0) != "i16" or entries.size != INTERPOLATED_ENTRIES:
        raise op.unsupported(f"of {op.element(0)} with {entries.size} entries; use i8 or i16")
    emitter = op.emitter
    x = emitter.cast(op.plain(0), i32)
    moved = emitter.add(x, emitter.number(1 << 15, x))
    step = emitter.number(FRACTION, moved)
    index = emitter.binary(Binary.DIV, moved, step)
    rest = emitter.sub(moved, emitter.mul(index, step))
    integers = entries.astype(np.int32)
    place = emitter.cast(index, i64)
    base = emitter.lookup(emitter.constant(integers[:-1].reshape(-1, 1), "entries"), place)
    slope = emitter.lookup(emitter.constant(np.diff(integers).reshape(-1, 1), "slopes"), place)
    scaled = emitter.mul(base, step)
    return op.plain_result(emitter.add(scaled, emitter.mul(slope, rest)))


@operation("reduce_all", "reduce_any")
def reduce_logical(op: Operation) -> Value:
    """Import reduce_all or reduce_any: whether all or any elements along an axis are true."""
    kind = graph.Reduce.MIN if op.name == "reduce_all" else graph.Reduce.MAX
    axis = op.axis(len(op.shape(0)))
    found = op.emitter.reduce(kind, op.emitter.cast(op.plain(0), i8), [axis])
    return op.emitter.cast(found, i1)


REDUCTIONS = {
    "reduce_sum": graph.Reduce.SUM, "reduce_product": graph.Reduce.PRODUCT,
    "reduce_prod": graph.Reduce.PRODUCT, "reduce_max": graph.Reduce.MAX,
    "reduce_min": graph.Reduce.MIN,
}  # fmt: skip


@operation(*REDUCTIONS)
def reduce(op: Operation) -> Value:
    """Import a sum, product or extreme along an axis, which remains as an extent of 1."""
    kind, axis = REDUCTIONS[op.name], op.axis(len(op.shape(0)))
    if kind is graph.Reduce.SUM and (total := Total.of(op.value(0), axis)) is not None:
        return total
    is_extreme = kind in (graph.Reduce.MAX, graph.Reduce.MIN)
    if is_extreme:
        op.keeps_nan()
    return op.emitter.reduce(kind, op.moved(0) if is_extreme else op.plain(0), [axis])


@operation("argmax")
def argmax(op: Operation) -> Value:
    """
    Import argmax: the index of the first maximum along an axis, which is removed from the shape.
    """
    op.keeps_nan()
    emitter, shape = op.emitter, op.shape(0)
    axis = op.axis(len(shape))
    index = emitter.emit(graph.ArgOp(graph.Reduce.MAX, emitter.materialize(op.moved(0)), axis))
    rest = [n for i, n in enumerate(shape_of_value(index)) if i != axis]
    return emitter.cast(emitter.reshaped(index, rest), PLAIN[op.result_element])
