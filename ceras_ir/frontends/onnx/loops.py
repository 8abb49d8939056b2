"""
Loops with one body: the step of a loop as a function, and the `graph.loop` that calls it.

A step is emitted into a block of its own. What it reads of the operations around it becomes an
argument; constants are the step's own. Its sums are `ordered`, so that every target computes the
same bits: a difference in one step would grow in all that follow.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr, TensorType, UnitAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ceras_ir.dialects.graph import (
    ExtractOp,
    LinearOperation,
    LoopOp,
    element_of,
    quantized_element,
    shape_of,
    tensor_type,
)
from ceras_ir.dialects.graph.loops import packed_offsets
from ceras_ir.dialects.graph.operation import Tensor, is_tensor
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.values import Value
from ceras_ir.network.function import result_values
from ceras_ir.network.precision import FLOAT_REASON
from ceras_ir.transforms.rebuilding import erase_unused

REASON = "the body of a loop that is not unrolled stays float"

Step = Callable[[SSAValue, Sequence[SSAValue], Sequence[SSAValue]], Sequence[Value]]
"""Emits a step: from its number, the carried values and the elements to what it returns."""


@dataclass(frozen=True)
class Body:
    """A step as a function, which is not in the module yet."""

    function: FuncOp
    captured: list[SSAValue]
    inner: list[FuncOp]
    """The bodies of its own loops."""

    @property
    def results(self) -> tuple[SSAValue, ...]:
        """What a step returns."""
        return result_values(self.function)

    def without_first_result(self) -> "Body":
        """The same body, changed so that it returns one value less."""
        end = self.function.body.block.last_op
        assert end is not None
        end.detach()
        self.function.body.block.add_op(ReturnOp(*end.operands[1:]))
        end.erase()
        self.function.update_function_type()
        for op in reversed(list(self.function.body.block.ops)):
            if op.results:
                erase_unused(op)
        return self


def outlined(
    emitter: Emitter, carried: Sequence[SSAValue], elements: Sequence[Tensor], step: Step
) -> Body:
    """The body that `step` emits, of values of the types of `carried` and of `elements`."""
    kinds = [TensorType(i64, []), *map(tensor_type, carried), *elements]
    known = len(emitter.functions)
    with emitter.trial() as block:
        arguments = [block.insert_arg(kind, i) for i, kind in enumerate(kinds)]
        number, *rest = arguments
        made = step(number, rest[: len(carried)], rest[len(carried) :])
        results = [emitter.materialize(value) for value in made]
        captured = _capture(block, results)
        results = [captured.get(v, v) for v in results]
        block.add_op(ReturnOp(*results))
        types = [argument.type for argument in block.args], [v.type for v in results]
        function = FuncOp("body", types, Region(block), visibility="private")
    for op in block.ops:
        if isinstance(op, LinearOperation):
            op.ordered = UnitAttr()
    inner = emitter.functions[known:]
    del emitter.functions[known:]
    return Body(function, list(captured), inner)


def _capture(block: Block, results: Sequence[SSAValue]) -> Mapping[SSAValue, SSAValue]:
    """Make arguments of the values that a block reads and that are not of it; which of which."""
    inside: set[SSAValue] = {*block.args, *(v for op in block.ops for v in op.results)}
    places = [(op, i) for op in block.ops for i in range(len(op.operands))]
    read = dict.fromkeys([*(op.operands[i] for op, i in places), *results])
    captured = {v: block.insert_arg(v.type, len(block.args)) for v in read if v not in inside}
    for op, i in places:
        if (argument := captured.get(op.operands[i])) is not None:
            op.operands[i] = argument
    return captured


def emit_loop(
    emitter: Emitter,
    body: Body,
    steps: int,
    carried: Sequence[SSAValue],
    scanned: Sequence[SSAValue] = (),
    *,
    going: SSAValue | None = None,
    backwards: Sequence[int] = (),
) -> list[SSAValue]:
    """
    The loop over a body, and its results: what is carried, then what is stacked along a new first
    dimension. What is carried must have kept its type, and what is quantized stays outside.
    """
    node, function = emitter.node, body.function
    outputs = [k for k in function.function_type.outputs if is_tensor(k)][going is not None :]
    for value, kind in zip(carried, outputs, strict=False):
        if value.type != kind:
            raise node.unsupported(
                f"a carried value of shape {list(shape_of(value))} and {element_of(value)} that "
                f"is {list(kind.get_shape())} and {kind.element_type} after a step, in a loop that "
                "is too long to unroll; pad it to one shape"
            )
    for op in function.body.block.ops:
        values = (*op.operands, *op.results)
        if any(quantized_element(value) is not None for value in values):
            raise node.unsupported(
                "quantized values in a loop that is too long to unroll; export its body in float"
            )
    kinds = [
        *outputs[: len(carried)],
        *(TensorType(k.element_type, (steps, *k.get_shape())) for k in outputs[len(carried) :]),
    ]
    offsets = packed_offsets(kinds)
    for inner in (*body.inner, function):
        emitter.functions.append(inner)
        inner.sym_name = StringAttr(f"loop_{len(emitter.functions) - 1}")
    op = LoopOp(function, steps, carried, scanned, body.captured, going=going, backwards=backwards)
    op.attributes[FLOAT_REASON] = StringAttr(REASON)
    packed = emitter.emit(op)
    return [
        emitter.emit(ExtractOp(packed, offset, kind))
        for offset, kind in zip(offsets, kinds, strict=False)
    ]
