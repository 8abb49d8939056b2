"""
Outline functions that a network calls: the body of a loop, and branches.

Each function is emitted into a separate block. Values of the operations around it become arguments;
constants are copied into it. Sums in it are `ordered`, so that all targets compute the same bits: a
difference in a step would grow in all later steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr, TensorType, UnitAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ceras_ir.dialects.graph import (
    BranchOp,
    CallingOperation,
    ExtractOp,
    LinearOperation,
    LoopOp,
    element_of,
    quantized_element,
    shape_of,
    tensor_type,
)
from ceras_ir.dialects.graph.calls import packed_offsets, tensors_of
from ceras_ir.dialects.graph.operation import Tensor
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.values import Value
from ceras_ir.network.function import result_values
from ceras_ir.network.storage import FLOAT_REASON
from ceras_ir.transforms.rebuilding import erase_unused

LOOP_BODY_REASON = "a loop that is not unrolled remains float, and so does a branch that has one"

EmitStep = Callable[[SSAValue, Sequence[SSAValue], Sequence[SSAValue]], Sequence[Value]]
"""Emits a step for its number, the carried values and the scanned elements."""


@dataclass(frozen=True)
class LoopBody:
    """A step of a loop as a function, which is not in the module yet."""

    function: FuncOp
    captured: list[SSAValue]
    inner: list[FuncOp]
    """The bodies of nested loops."""

    @property
    def results(self) -> tuple[SSAValue, ...]:
        return result_values(self.function)

    def without_first_result(self) -> "LoopBody":
        """Remove the first result of the function, in place."""
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
    emitter: Emitter, carried: Sequence[SSAValue], elements: Sequence[Tensor], step: EmitStep
) -> LoopBody:
    """Return the body that `step` emits for values of the types of `carried` and `elements`."""
    kinds = [TensorType(i64, []), *map(tensor_type, carried), *elements]
    known = len(emitter.functions)
    with emitter.called(), emitter.trial() as block:
        number, *rest = [block.insert_arg(kind, i) for i, kind in enumerate(kinds)]
        made = step(number, rest[: len(carried)], rest[len(carried) :])
        results = [emitter.materialize(value) for value in made]
        captured = _captured(block, results)
        function = _function(block, results, captured)
    inner = emitter.functions[known:]
    del emitter.functions[known:]
    return LoopBody(function, captured, inner)


def _captured(block: Block, results: Sequence[SSAValue]) -> list[SSAValue]:
    inside: set[SSAValue] = {*block.args, *(v for op in block.ops for v in op.results)}
    read = dict.fromkeys([*(v for op in block.ops for v in op.operands), *results])
    return [value for value in read if value not in inside]


def _function(block: Block, results: Sequence[SSAValue], captured: Sequence[SSAValue]) -> FuncOp:
    """Create a private function that returns `results`. Captured values become arguments."""
    arguments = {value: block.insert_arg(value.type, len(block.args)) for value in captured}
    for op in block.ops:
        for i, operand in enumerate(op.operands):
            if operand in arguments:
                op.operands[i] = arguments[operand]
        if isinstance(op, LinearOperation):
            op.ordered = UnitAttr()
    results = [arguments.get(value, value) for value in results]
    block.add_op(ReturnOp(*results))
    types = [argument.type for argument in block.args], [value.type for value in results]
    return FuncOp("body", types, Region(block), visibility="private")


def emit_loop(
    emitter: Emitter,
    body: LoopBody,
    steps: int,
    carried: Sequence[SSAValue],
    scanned: Sequence[SSAValue] = (),
    *,
    going: SSAValue | None = None,
    backwards: Sequence[int] = (),
) -> list[SSAValue]:
    """
    Emit the loop over a body. Return the carried values, then the results that are stacked along a
    new first dimension. Refuse carried values of a changing type, and quantized values in the body.
    """
    node, function = emitter.node, body.function
    outputs = tensors_of(function)[going is not None :]
    for value, kind in zip(carried, outputs, strict=False):
        if value.type != kind:
            raise node.unsupported(
                f"a carried value of shape {list(shape_of(value))} and {element_of(value)} that "
                f"is {list(kind.get_shape())} and {kind.element_type} after a step, in a loop that "
                "is too long to unroll; pad it to one shape"
            )
    emitter.functions += body.inner
    _add(emitter, function, "loop")
    op = LoopOp(
        function, steps, carried, scanned, body.captured, condition=going, backwards=backwards
    )
    return _extracted(emitter, op, op.packed_types_of(op.body, tensors_of(function)))


@dataclass(frozen=True)
class Branches:
    """Two branches as functions, which are not in the module yet."""

    taken: FuncOp
    other: FuncOp
    captured: list[SSAValue]
    """The values that either branch captures."""

    @classmethod
    def of(cls, *branches: tuple[Block, Sequence[SSAValue]]) -> "Branches":
        """Create the branches from two blocks and their results."""
        found = (v for block, results in branches for v in _captured(block, results))
        captured = list(dict.fromkeys(found))
        taken, other = (_function(block, results, captured) for block, results in branches)
        return cls(taken, other, captured)


def emit_branch(emitter: Emitter, condition: SSAValue, branches: Branches) -> list[SSAValue]:
    """Emit the call of a branch, and return the results."""
    _add(emitter, branches.taken, "branch")
    _add(emitter, branches.other, "branch")
    op = BranchOp(condition, branches.taken, branches.other, branches.captured)
    return _extracted(emitter, op, tensors_of(branches.taken))


def _add(emitter: Emitter, function: FuncOp, kind: str) -> None:
    for op in function.body.block.ops:
        if any(quantized_element(value) is not None for value in (*op.operands, *op.results)):
            raise emitter.node.unsupported(
                "quantized values in a loop that is too long to unroll, or in a branch with one; "
                "export its body in float"
            )
    function.sym_name = StringAttr(f"{kind}_{len(emitter.functions)}")
    emitter.functions.append(function)


def _extracted(emitter: Emitter, op: CallingOperation, kinds: Sequence[Tensor]) -> list[SSAValue]:
    """Emit a call, and extract the results from the packed bytes."""
    op.attributes[FLOAT_REASON] = StringAttr(LOOP_BODY_REASON)
    packed = emitter.emit(op)
    return [
        emitter.emit(ExtractOp(packed, offset, kind))
        for offset, kind in zip(packed_offsets(kinds), kinds, strict=False)
    ]
