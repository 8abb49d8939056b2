"""
Loops with one body, whose layer calls the function of a step, and branches, whose layer calls one
of two functions.

Carried values have two places, the result's own and one in the workspace, which change roles from
step to step. A step reads its elements where they lie and writes what is stacked where it ends up.
The memory that a function works in is planned once and is workspace of the layer, and so free of
everything that is alive around it.
"""

from math import prod

from xdsl.dialects.func import ReturnOp

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.requant import Refused
from ceras_ir.backends.c.types import c_type, int_literal
from ceras_ir.dialects.graph import (
    BranchOp,
    CallingOperation,
    ExtractOp,
    LoopOp,
    numpy_dtype,
    shape_of,
    tensor_type,
)
from ceras_ir.dialects.graph.calls import bytes_of, packed_offsets


@prints(LoopOp)
def loop(layer: Layer, op: LoopOp) -> None:
    """`graph.loop`."""
    body, kinds, steps = layer.bodies[op.body.string_value()], op.packed_types, op.step_count
    starts = [layer.read(v, f"start{i}") for i, v in enumerate(op.carried)]
    whole = [layer.read(v, f"x{i}") for i, v in enumerate(op.scanned)]
    captured = [layer.read(v, f"captured{i}") for i, v in enumerate(op.captured)]
    going = None if op.going is None else layer.read(op.going, "going")
    _unpack(layer, op)
    arena = layer.scratch("unsigned char", "own_arena", body.arena_bytes, 1)
    types = [c_type(kind.element_type) for kind in kinds]
    spares: list[str] = []
    for i, kind in enumerate(kinds[: len(starts)]):
        item = numpy_dtype(kind.element_type).itemsize
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
        for x, t, v in zip(whole, at, op.scanned, strict=False)
    ]
    carried = range(len(starts))
    stacked = [
        f"y{i} + {t} * {prod(kinds[i].get_shape()[1:])}"
        for i, t in zip(range(len(starts), len(kinds)), at[len(whole) :], strict=True)
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


@prints(BranchOp)
def branch(layer: Layer, op: BranchOp) -> None:
    """`graph.branch`."""
    condition = layer.read(op.condition, "condition")
    captured = [layer.read(v, f"captured{i}") for i, v in enumerate(op.captured)]
    _unpack(layer, op)
    bodies = [layer.bodies[name.string_value()] for name in op.callees()]
    size = max(body.arena_bytes for body in bodies)
    arena = layer.scratch("unsigned char", "own_arena", size, 1)
    results = [f"y{i}" for i in range(len(op.packed_types))]
    for begin, body in zip((f"if (*{condition})", "else"), bodies, strict=True):
        layer.line(f"{begin} {body.name}({', '.join((arena, *captured, *results))});")


def _unpack(layer: Layer, op: CallingOperation) -> None:
    """Name the places of the results, `y0` and so on, and clear the bytes between them."""
    if any(isinstance(use.operation, ReturnOp) for use in op.output.uses):
        raise Refused("bytes have no alignment outside; return what is extracted of them")
    kinds, y = op.packed_types, layer.write(op.output)
    offsets = packed_offsets(kinds)
    for i, (kind, start) in enumerate(zip(kinds, offsets, strict=False)):
        ctype = c_type(kind.element_type)
        layer.line(f"{ctype} *y{i} = ({ctype} *)(void *)({y} + {start});")
        if gap := offsets[i + 1] - start - bytes_of(kind):
            layer.line(f"memset({y} + {offsets[i + 1] - gap}, 0, {gap});")


@prints(ExtractOp)
def extract(layer: Layer, op: ExtractOp) -> None:
    """`graph.extract`."""
    x = layer.read(op.input, "x")
    y = layer.write(op.result)
    layer.line(f"memcpy({y}, {x} + {op.start}, {bytes_of(tensor_type(op.result))});")
