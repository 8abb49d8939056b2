"""
Print recurrent layers, loops and branches.

A recurrent layer is a loop over steps, with the weights of the state packed by columns. The layer
of a loop with a body calls the function of a step, and the layer of a branch calls one of two
functions.
"""

from collections.abc import Callable
from math import prod

import numpy as np
from xdsl.dialects.func import ReturnOp

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.layer import Layer, prints
from ceras_ir.backends.c.recurrence_bytes import Pointers, lstm_of_bytes, state_pitch
from ceras_ir.backends.c.register_tiles import CONDITION, HAS_16_LANES
from ceras_ir.backends.c.values import Refused, c_type, int_literal
from ceras_ir.backends.c.vector_functions import apply_in_loop
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell, FunctionAttr, RecurrenceOp, shape_of
from ceras_ir.dialects.graph.calls import bytes_of, packed_offsets
from ceras_ir.interpreters.float_text import float_literal

WIDE_PANEL, PANEL = 128, 64
"""
Outputs of a panel of weights. Panels are wider if the first-level cache holds all weights: more
sums are computed in parallel, but less of the last panel remains in the cache for the next step.
"""
FIRST_CACHE = 1 << 15
"""The bytes of the first-level cache of a common processor."""

VECTOR = 16
"""
The number of outputs of the longest vector. Elements after the last panel are loaded with it and
dropped.
"""

INTEGER_PANEL = 64
"""Outputs of a panel in `multiply_words.c`: four vectors, or eight shorter vectors."""


@prints(RecurrenceOp)
def recurrence(layer: Layer, op: RecurrenceOp) -> None:
    pointers = Pointers.of(layer, op)
    if op.scales is None:
        _recurrence(layer, op, pointers)
        return
    with layer.variants(HAS_16_LANES) as otherwise:
        lstm_of_bytes(layer, op, pointers)
        otherwise()
        _recurrence(layer, op, pointers)


def _recurrence(layer: Layer, op: RecurrenceOp, pointers: Pointers) -> None:
    kind = op.cell_kind
    steps, batch, width = shape_of(op.input)
    hidden = shape_of(op.state)[1]
    x, start = pointers.x, pointers.start
    cell, bias = pointers.cell, pointers.bias
    # If the last gate depends on the product of other gates, it has a separate matrix.
    joint = 2 * hidden if kind is Cell.GRU_RESET_FIRST else width
    at = f"(t * {batch} + b)" if batch > 1 else "t"
    multiply, last = (
        _product(layer, op, name, first, end, f"{at} % 2", pointers.scale("j"))
        if first < end
        else None
        for name, first, end in (("weights", 0, joint), ("last_weights", joint, width))
    )
    assert multiply is not None
    y = pointers.y or layer.write(op.result)
    layer.scratch("float", "p", max(_in_vectors(joint), joint + _in_vectors(width - joint)), 4)
    if kind is Cell.GRU_RESET_FIRST:
        layer.scratch("float", "reset", hidden, 4)
        layer.line(f"float *last = p + {joint};")
    rows = prod((batch, hidden))
    if cell:
        # The cell state is stored in the result, after the last step.
        layer.line(f"(void)memcpy({y} + {steps * rows}, {cell}, {rows}U * sizeof *{y});")
    layer.line(f"for (int32_t t = 0; t < {steps}; ++t) {{")
    if op.scales is not None:
        before, sizes = (
            f"t ? {y} + (t - 1) * {rows} : {start}",
            f"{batch}, {hidden}, {state_pitch(op)}",
        )
        quantize = layer.kernels.use("quantize_state")
        layer.line(f"const float scale = {quantize}(q, {before}, {sizes});", 1)
    layer.line(f"for (int32_t b = 0; b < {batch}; ++b) {{", 1)
    layer.line(f"const float *in = {x} + {at} * {width};", 2)
    if op.scales is None:
        before = f"{y} + ({at} - {batch}) * {hidden}"
        first = f"{start} + b * {hidden}" if batch > 1 else start
        layer.line(f"const float *h = t ? {before} : {first};", 2)
    layer.line(f"float *to = {y} + {at} * {hidden};", 2)
    if cell:
        layer.line(f"float *c = {y} + ({steps * batch} + b) * {hidden};", 2)
    layer.block(multiply("p", "h"), 2)
    if bias:
        layer.loop("j", joint, [f"p[j] += {bias}[j];"], 2)
    n = hidden

    def map_rows(function: FunctionAttr, x: str, to: str, count: int) -> None:
        """Print statements that apply `function` to `count` elements of `x`."""
        layer.block(apply_in_loop(layer, function, x, to, str(count)).splitlines(), 2)

    def gates(function: FunctionAttr, first: int, count: int) -> None:
        """Print statements that apply `function` to `count` sums from the index `first`."""
        x = f"(p + {first})" if first else "p"
        map_rows(function, x, x, count)

    match kind:
        case Cell.RNN:
            (f,) = op.functions
            layer.loop("j", n, ["p[j] = in[j] + p[j];"], 2)
            map_rows(f, "p", "to", n)
        case Cell.LSTM:
            f, g, k = op.functions
            layer.loop("j", 4 * n, ["p[j] = in[j] + p[j];"], 2)
            gates(f, 0, 3 * n)
            gates(g, 3 * n, n)
            layer.loop("j", n, [f"c[j] = p[{2 * n} + j] * c[j] + p[j] * p[{3 * n} + j];"], 2)
            map_rows(k, "c", "to", n)
            layer.loop("j", n, [f"to[j] = p[{n} + j] * to[j];"], 2)
        case Cell.GRU | Cell.GRU_RESET_FIRST:
            f, g = op.functions
            layer.loop("j", 2 * n, ["p[j] = in[j] + p[j];"], 2)
            gates(f, 0, 2 * n)
            inner = f"p[{n} + j] * p[{2 * n} + j]"
            if last is not None:
                layer.loop("j", n, [f"reset[j] = p[{n} + j] * h[j];"], 2)
                layer.block(last("last", "reset"), 2)
                inner = f"p[{2 * n} + j]"
                if bias:
                    layer.loop("j", n, [f"p[{2 * n} + j] += {bias}[{2 * n} + j];"], 2)
            layer.loop("j", n, [f"p[{2 * n} + j] = in[{2 * n} + j] + {inner};"], 2)
            gates(g, 2 * n, n)
            layer.loop("j", n, [f"to[j] = (1.0f - p[j]) * p[{2 * n} + j] + p[j] * h[j];"], 2)
    layer.line("}", 1)
    layer.line("}")


def _product(
    layer: Layer, op: RecurrenceOp, name: str, first: int, last: int, is_odd: str, scale: str
) -> Callable[[str, str], list[str]]:
    """
    Return a function `(result, state)` of C names that returns the statements of the product of a
    state with the weights of outputs `first` to `last - 1`.

    `name` is the C name of the weights, and `is_odd` a C expression that is true in every second
    step. If the state is quantized dynamically, `scale` is the C expression of the scale of the
    weights of row `j`.
    """
    hidden, outputs = shape_of(op.weights)[1], last - first
    if not op.is_integer:
        panel = WIDE_PANEL if 4 * outputs * hidden < FIRST_CACHE else PANEL
        w = _panels(layer, op, name, first, last, panel)
        multiply = layer.kernels.use("multiply_state")
        sizes = f"{hidden}, {outputs}, {panel}"
        return lambda to, h: [f"{multiply}({to}, {h}, {w}, {sizes}, {is_odd});"]
    w, rows = _integers(layer, op, name, first, last), _in_panels(outputs)
    holes = {"NAME": "i16_int8_t", "ROW": "int16_t", "WEIGHT": "int8_t", "NEON": "", "END": ""}
    dot = layer.kernels.use("dot_rows", **holes)
    multiply = layer.kernels.use("multiply_words", DOT=dot)
    if not first:
        layer.scratch("int16_t", "q", shape_of(op.state)[0] * state_pitch(op), 2)
        layer.scratch("int32_t", "sums", rows, 4)

    def product(to: str, q: str, total: str, scale: str) -> list[str]:
        return [
            f"{multiply}(sums, {q}, {w}, {hidden}, {outputs});",
            f"for (int32_t j = 0; j < {outputs}; ++j) {to}[j] = (float){total} * {scale};",
        ]

    if (exponents := op.exponents) is not None:
        state, of_rows = exponents
        scales = np.exp2(np.array(of_rows[first:last], np.float32) + np.float32(state))
        scale = f"{layer.array(f'{name}_scales', scales, 'float')}[j]"
        rounded, up = layer.kernels.use("round_state"), float_literal(2.0**-state)
        return lambda to, h: [
            f"{rounded}(q, {h}, {hidden}, {up});",
            *product(to, "q", "sums[j]", scale),
        ]
    assert op.scales is not None
    zero_point = op.scales[1]
    q = f"q + b * {state_pitch(op)}" if shape_of(op.state)[0] > 1 else "q"
    if not zero_point:
        return lambda to, _: product(to, q, "sums[j]", f"(scale * {scale})")
    # Each sum contains the zero point of the weights times the sum of `q`.
    total = layer.kernels.use("sum_words")
    return lambda to, _: [
        f"const int32_t moved = {zero_point} * {total}({q}, {hidden});",
        *product(to, q, "(sums[j] - moved)", f"(scale * {scale})"),
    ]


def _in_panels(outputs: int) -> int:
    return -(-outputs // INTEGER_PANEL) * INTEGER_PANEL


def _integers(layer: Layer, op: RecurrenceOp, name: str, first: int, last: int) -> str:
    """
    Add the int8 weights of the outputs [first, last) to the constants: in panels for processors
    with vectors, otherwise by rows. Return the C name `name` of both.
    """
    hidden, outputs = shape_of(op.weights)[1], last - first
    rows, depth = _in_panels(outputs), state_pitch(op)
    weights = graph.constant_array(op.weights)
    assert weights is not None
    part = np.ascontiguousarray(weights[first:last], np.int8)

    def packed() -> Array:
        padded = np.zeros((rows, depth), np.int8)
        padded[:outputs, :hidden] = part
        lanes = padded.reshape(-1, INTEGER_PANEL, depth // 2, 2)
        return lanes.transpose(0, 2, 1, 3).reshape(-1)

    condition = CONDITION if op.scales is None else f"{CONDITION} && !({HAS_16_LANES})"
    w = layer.constant(name, "int8_t", rows * depth, 1, packed, condition)
    layer.constant(name, "int8_t", outputs * hidden, 1, lambda: part, f"!{CONDITION}")
    return w


def _in_vectors(outputs: int) -> int:
    return -(-outputs // VECTOR) * VECTOR


def _panels(layer: Layer, op: RecurrenceOp, name: str, first: int, last: int, panel: int) -> str:
    """
    Return the C name of the float weights of the outputs [first, last) in panels of `panel`
    outputs. Constant weights are packed at compile time, computed weights in each run.
    """
    hidden, outputs = shape_of(op.weights)[1], last - first
    owner, grouped = op.weights.owner, outputs - outputs % panel
    size = outputs * hidden + _in_vectors(outputs) - outputs
    if isinstance(owner, graph.ConstantOp):

        def packed() -> Array:
            rows = np.asarray(owner.array(), np.float32)[first:last]
            panels = (rows[b : b + panel].T.reshape(-1) for b in range(0, outputs, panel))
            return np.concatenate([*panels, np.zeros(size - outputs * hidden, np.float32)])

        return layer.constant(name, "float", size, 4, packed)
    weights = layer.read(op.weights, "w")
    layer.scratch("float", name, size, 4)
    pack = layer.kernels.use("pack_panels")
    for start, end, width in ((0, grouped, panel), (grouped, outputs, outputs - grouped)):
        if start < end:
            source = f"{weights} + {(first + start) * hidden}"
            layer.line(
                f"{pack}({name} + {start * hidden}, {source}, {end - start}, {hidden}, {hidden}, "
                f"{width});"
            )
    return name


# Carried values alternate between the result and the workspace.
# A step loads elements from their place in the operand and stores stacked results in their final
# place. The memory of a function is planned separately and is workspace of the layer, so it does
# not overlap live values.


@prints(graph.LoopOp)
def loop(layer: Layer, op: graph.LoopOp) -> None:
    body, kinds, steps = layer.bodies[op.body.string_value()], op.packed_types, op.step_count
    starts = [layer.read(v, f"start{i}") for i, v in enumerate(op.carried)]
    scanned = [layer.read(v, f"x{i}") for i, v in enumerate(op.scanned)]
    captured = [layer.read(v, f"captured{i}") for i, v in enumerate(op.captured)]
    going = layer.read_if(op.condition, "going")
    _unpack(layer, op)
    arena = layer.scratch("unsigned char", "own_arena", body.arena_bytes, 1)
    types = [c_type(kind.element_type) for kind in kinds]
    spares: list[str] = []
    for i, kind in enumerate(kinds[: len(starts)]):
        item = graph.numpy_dtype(kind.element_type).itemsize
        spares.append(layer.scratch(types[i], f"spare{i}", prod(kind.get_shape()), item))
    for i, (start, spare) in enumerate(zip(starts, spares, strict=True)):
        layer.line(f"const {types[i]} *now{i} = {start};")
        layer.line(f"{types[i]} *next{i} = y{i}, *other{i} = {spare};")
    if going is not None:
        layer.line(f"uint8_t again = *{going};")
    condition = f"{'again && ' if going is not None else ''}t < {int_literal(steps)}"
    layer.line(f"for (int64_t t = 0; {condition}; ++t) {{")
    entries = op.backwards.get_values()
    if any(entries):
        layer.line(f"const int64_t back = {steps - 1} - t;", 1)
    at = ["back" if entry else "t" for entry in entries]
    elements = [
        f"{x} + {t} * {prod(shape_of(v)[1:])}"
        for x, t, v in zip(scanned, at, op.scanned, strict=False)
    ]
    carried = range(len(starts))
    stacked = [
        f"y{i} + {t} * {prod(kinds[i].get_shape()[1:])}"
        for i, t in zip(range(len(starts), len(kinds)), at[len(scanned) :], strict=True)
    ]
    arguments = [
        arena, "&t", *(f"now{i}" for i in carried), *elements, *captured,
        *(["&again"] if going is not None else []), *(f"next{i}" for i in carried), *stacked,
    ]  # fmt: skip
    layer.line(f"{body.name}({', '.join(arguments)});", 1)
    for i in carried:
        layer.line(f"now{i} = next{i};", 1)
        layer.line(f"next{i} = other{i};", 1)
        layer.line(f"other{i} = now{i} == y{i} ? y{i} : {spares[i]};", 1)
    layer.line("}")
    for i in carried:
        layer.line(f"if (now{i} != y{i}) memcpy(y{i}, now{i}, {bytes_of(kinds[i])});")


@prints(graph.BranchOp)
def branch(layer: Layer, op: graph.BranchOp) -> None:
    condition = layer.read(op.condition, "condition")
    captured = [layer.read(v, f"captured{i}") for i, v in enumerate(op.captured)]
    _unpack(layer, op)
    bodies = [layer.bodies[name.string_value()] for name in op.callees()]
    size = max(body.arena_bytes for body in bodies)
    arena = layer.scratch("unsigned char", "own_arena", size, 1)
    results = [f"y{i}" for i in range(len(op.packed_types))]
    for begin, body in zip((f"if (*{condition})", "else"), bodies, strict=True):
        layer.line(f"{begin} {body.name}({', '.join((arena, *captured, *results))});")


def _unpack(layer: Layer, op: graph.CallingOperation) -> None:
    """
    Print pointers `y0`, `y1`, ... to the results of a loop or branch, which are stored one after
    the other in a value of bytes. Bytes between results are cleared.
    """
    if any(isinstance(use.operation, ReturnOp) for use in op.output.uses):
        raise Refused("packed bytes have no alignment outside; return extracted values")
    kinds, y = op.packed_types, layer.write(op.output)
    offsets = packed_offsets(kinds)
    for i, (kind, start) in enumerate(zip(kinds, offsets, strict=False)):
        ctype = c_type(kind.element_type)
        layer.line(f"{ctype} *y{i} = ({ctype} *)(void *)({y} + {start});")
        if gap := offsets[i + 1] - start - bytes_of(kind):
            layer.line(f"(void)memset({y} + {offsets[i + 1] - gap}, 0, {gap});")


@prints(graph.ExtractOp)
def extract(layer: Layer, op: graph.ExtractOp) -> None:
    x = layer.read(op.input, "x")
    y = layer.write(op.result)
    layer.line(f"(void)memcpy({y}, {x} + {op.start}, {bytes_of(graph.tensor_type(op.result))});")
