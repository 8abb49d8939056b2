"""
Emit operations of `graph` for the nodes of a model. Each is verified and located at the node.

A constant becomes an operation when an operation uses it, a single time in each block.
"""

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType, UnitAttr, f16, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ConstantOp, LinearOperation, TransposeOp, element_of, shape_of
from ceras_ir.dialects.graph.calls import packed_offsets, tensors_of
from ceras_ir.dialects.graph.operation import Tensor, broadcast_shape
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.extents import ExtentTable
from ceras_ir.frontends.onnx.emission.values import (
    Constant,
    QuantizedConstant,
    Value,
    dtype_of_value,
    name_loc,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.model_file import MAX_TENSOR_ELEMENTS, Array
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.network.function import result_values
from ceras_ir.network.storage import FLOAT, FLOAT_REASON, PRECISION
from ceras_ir.support.diagnostics import Finding, InputError
from ceras_ir.transforms.rebuilding import erase_unused


class Builder:
    """
    Appends operations of `graph` to `block`, with the name of the current ONNX `node` as their
    location.
    """

    def __init__(self, block: Block):
        self.block = block
        self.scope: tuple[str, ...] = ()
        """The functions and subgraphs around the node, outermost first."""
        self.values: dict[str, Value] = {}
        """The values of the tensor names of the model."""
        self.labels: dict[SSAValue, tuple[str, ...]] = {}
        """The labels of values that are text in the model and integers here."""
        self.rounded: set[SSAValue] = set()
        """Inputs that are float64 in the arrays of callers, and are rounded to float32."""
        self.declared: dict[str, tuple[int, ...]] = {}
        """The shapes of results that the model declares without open dimensions."""
        self.table = ExtentTable()
        """The extents that data decide."""
        self.assumed: list[Finding] = []
        """The findings about values with such extents without a stated maximum."""
        self.widened: list[str] = []
        """The names of constants of less than 8 bits that become float constants."""
        self.functions: list[FuncOp] = []
        """The bodies of loops and branches, which the module has in addition to `main`."""
        self.is_in_loop_body = False
        self.integer_bounds: dict[SSAValue, tuple[int, int, SSAValue]] = {}
        """
        The lowest and the highest integer of a value that a node clamps, and the real value before
        the clamp.
        """
        """Whether the current block is in the body of a loop, which remains float."""
        self.node = Node(onnx.NodeProto(), 0)
        """The node being imported, to which errors and locations refer."""
        self._precision: StringAttr | None = None
        self._materialized: dict[tuple[Hashable, ...], SSAValue] = {}

    @staticmethod
    def is_float(value: Value) -> bool:
        return dtype_of_value(value) == np.float32

    @contextmanager
    def separate_block(self) -> Generator[Block]:
        """
        Emit the operations of the `with` block into a new block instead of the current block.
        Constants that they use are emitted there too.
        """
        block, materialized = self.block, self._materialized
        self.block, self._materialized = Block(), {}
        try:
            yield self.block
        finally:
            self.block, self._materialized = block, materialized

    @contextmanager
    def in_loop_body(self) -> Generator[None]:
        """
        Mark the operations of the `with` block as the body of a loop. An `If` in a loop then
        computes only the chosen branch.
        """
        before, self.is_in_loop_body = self.is_in_loop_body, True
        try:
            yield
        finally:
            self.is_in_loop_body = before

    @contextmanager
    def trial(self) -> Generator[Block]:
        """
        Emit the operations of the `with` block into a new block. At the end they are erased, unless
        they were moved to another block, or the new block became the body of a function.
        """
        known = len(self.functions)
        with self.separate_block() as block:
            try:
                yield block
            finally:
                if block.parent is None and block.first_op is not None:
                    del self.functions[known:]
                    for op in reversed(list(block.ops)):
                        op.detach()
                        op.erase(safe_erase=False)

    @contextmanager
    def in_float(self) -> Generator[None]:
        """
        Mark the operations of the `with` block to remain in float when the network is quantized.
        """
        before, self._precision = self._precision, StringAttr(FLOAT)
        try:
            yield
        finally:
            self._precision = before

    def emit(self, op: graph.GraphOperation) -> SSAValue:
        """
        Append `op` and return the result. An error that the verifier finds is reported as an error
        of the current node.
        """
        op.location = name_loc(self.node.name)
        if self._precision is not None:
            op.attributes[PRECISION] = self._precision
        if not op.ADMITS_INTEGERS:
            for value in op.operands:
                if isinstance(element := element_of(value), IntegerType):
                    message = (
                        f"operand of {element} elements, expected float32: insert a Cast to float"
                    )
                    raise self.node.unsupported(message)
        if isinstance(op, LinearOperation):
            for array in map(graph.constant_array, op.operands):
                if array is not None and not np.isfinite(array).all():
                    raise self.node.wrong("weights and biases must be finite")
        try:
            op.verify()
        except VerifyException as e:
            raise self._unlike(op.operands, str(e)) from None
        shapes = [shape_of(op.output)]
        if isinstance(op, graph.Conv2dOp | graph.Pool2dOp):
            # A target may have to store the padded input.
            n, h, w, c = shape_of(op.input)
            top, left, bottom, right = op.padding.get_values()
            shapes.append((n, top + h + bottom, left + w + right, c))
        for shape in shapes:
            if prod(shape) > MAX_TENSOR_ELEMENTS:
                raise self.node.wrong(f"a result of shape {list(shape)} is too large")
        self.block.add_op(op)
        return op.output

    def materialize(self, value: Value) -> SSAValue:
        """
        Return `value` as an IR value. A constant of the import becomes a `graph.constant`, once per
        block.
        """
        if isinstance(value, SSAValue):
            return value
        value = value.in_float32()
        if value.key is not None and (known := self._materialized.get(value.key)):
            return known
        element = f16 if value.dtype == np.float16 else graph.plain_element(value.dtype)
        if element is None:
            raise self.node.unsupported(
                f"'{value.name}' has elements of type {value.dtype}; "
                "feature maps and weights are floats, integers or booleans"
            )
        if not prod(value.shape):
            raise self.node.unsupported(
                f"'{value.name}' has no elements: shape {list(value.shape)}; remove its consumers"
            )
        location = name_loc(value.name)
        if isinstance(value, QuantizedConstant):
            stored = ConstantOp.from_array(value.stored(), value.element, location=location)
            self.block.add_op(stored)
            op = graph.DequantizeOp(stored.result)
            op.location = location
        else:
            op = ConstantOp.from_array(value.load(), element, location=location)
        self.block.add_op(op)
        if value.key is not None:
            self._materialized[value.key] = op.result
        return op.result

    def constant(self, array: Array, suffix: str) -> Constant:
        """
        Return a constant that the importer computes for the current node, with the name
        NODE/`suffix`.
        """
        return Constant.of(f"{self.node.name}/{suffix}", array)

    def transposed(self, value: Value, permutation: Sequence[int]) -> Value:
        """
        Return `value` with permuted dimensions: dimension `i` of the result is dimension
        `permutation[i]` of `value`. Consecutive transposes are merged, and constants are transposed
        at import.
        """
        if tuple(permutation) == tuple(range(len(permutation))):
            return value
        if isinstance(value, Constant):
            return value.transposed(permutation)
        # Consecutive transposes, such as around NHWC operations, are merged.
        if isinstance(inner := value.owner, TransposeOp):
            order = inner.permutation.get_values()
            return self.transposed(inner.input, [order[p] for p in permutation])
        return self.emit(TransposeOp(value, permutation))

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the elements of `value` in another shape. The number of elements must be equal."""
        old = shape_of_value(value)
        if old == tuple(shape):
            return value
        if prod(old) != prod(shape):
            raise self.node.wrong(f"{list(old)} has {prod(old)} elements, expected {prod(shape)}")
        if isinstance(value, Constant):
            return value.reshaped(shape)
        return self.emit(graph.ReshapeOp(value, shape))

    def named(self, value: SSAValue, labels: Sequence[str]) -> SSAValue:
        """
        Return a copy of the integers `value` with the texts that they represent: i represents
        `labels[i]`, as in the labels of a classifier.
        """
        result = self.emit(graph.ReshapeOp(value, shape_of(value)))
        self.labels[result] = tuple(labels)
        return result

    def binary(self, kind: graph.Binary, lhs: Value, rhs: Value) -> SSAValue:
        """
        Emit the elementwise function `kind` of two operands, which are broadcast. Types must be
        equal.
        """
        a, b = shape_of_value(lhs), shape_of_value(rhs)
        if broadcast_shape(a, b) is None:
            raise self.node.wrong(f"shapes {list(a)} and {list(b)} do not broadcast")
        # A scalar broadcasts as a vector of one element does.
        if isinstance(lhs, Constant) and not a and b:
            lhs = lhs.reshaped((1,))
        if isinstance(rhs, Constant) and not b and a:
            rhs = rhs.reshaped((1,))
        left, right = self.materialize(lhs), self.materialize(rhs)
        if element_of(left) != element_of(right):
            types = f"{element_of(left)} and {element_of(right)}"
            raise self._unlike((left, right), f"operands of types {types}, expected equal ones")
        return self.emit(graph.BinaryOp(kind, left, right, result_element=element_of(left)))

    def _unlike(self, operands: Sequence[SSAValue], message: str) -> InputError:
        elements = [element_of(value) for value in operands]
        plain = {e.bitwidth for e in elements if isinstance(e, IntegerType)}
        stored = {e.storage.bitwidth for e in elements if isinstance(e, UniformType)}
        if plain.isdisjoint(stored):
            return self.node.wrong(message)
        return self.node.unsupported(
            "integers of QuantizeLinear and integers without a scale as operands; quantize the "
            "float model with --calibrate, in which states are floats as well"
        )


LOOP_BODY_REASON = "a loop that is not unrolled remains float, and so does a branch with it"

EmitStep = Callable[[SSAValue, Sequence[SSAValue], Sequence[SSAValue]], Sequence[Value]]
"""Emits a step for the number of the step, the carried values and the scanned elements."""


@dataclass(frozen=True)
class LoopBody:
    """
    The body of a loop as a function that is not in the module yet. `captured` are the values
    outside of the loop that it uses; they are the last arguments of the function.
    """

    function: FuncOp
    captured: list[SSAValue]
    inner: list[FuncOp]
    """The bodies of nested loops."""

    @property
    def results(self) -> tuple[SSAValue, ...]:
        return result_values(self.function)

    def without_first_result(self) -> "LoopBody":
        """Remove the first result of the function in place, and return the body."""
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
    builder: Builder, carried: Sequence[SSAValue], elements: Sequence[Tensor], step: EmitStep
) -> LoopBody:
    """
    Emit the body of a loop as a separate function, and return it. `step` emits the operations of a
    step: it is called with the number of the step (i64), arguments with the types of `carried` (the
    values that each step passes to the next), and arguments of the types `elements` (the slices of
    inputs that the step reads). It returns the results of the step.
    """
    kinds = [TensorType(i64, []), *map(graph.tensor_type, carried), *elements]
    known = len(builder.functions)
    with builder.in_loop_body(), builder.trial() as block:
        number, *rest = [block.insert_arg(kind, i) for i, kind in enumerate(kinds)]
        emitted = step(number, rest[: len(carried)], rest[len(carried) :])
        results = [builder.materialize(value) for value in emitted]
        captured = _captured(block, results)
        function = _function(block, results, captured)
    inner = builder.functions[known:]
    del builder.functions[known:]
    return LoopBody(function, captured, inner)


def _captured(block: Block, results: Sequence[SSAValue]) -> list[SSAValue]:
    inside: set[SSAValue] = {*block.args, *(v for op in block.ops for v in op.results)}
    read = dict.fromkeys([*(v for op in block.ops for v in op.operands), *results])
    return [value for value in read if value not in inside]


def _function(block: Block, results: Sequence[SSAValue], captured: Sequence[SSAValue]) -> FuncOp:
    """
    Create a private function with the operations of `block` that returns `results`. The values
    outside of the block that it uses (`captured`) become arguments.
    """
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
    builder: Builder,
    body: LoopBody,
    steps: int,
    carried: Sequence[SSAValue],
    scanned: Sequence[SSAValue] = (),
    *,
    condition: SSAValue | None = None,
    backwards: Sequence[int] = (),
) -> list[SSAValue]:
    """
    Emit a loop of `steps` steps over a body. Return the final values of `carried`, the values that
    each step passes to the next, and then the outputs of all steps, stacked along a new first
    dimension. A step reads a slice of each value in `scanned`, from the last to the first for the
    indices in `backwards`. The loop stops early if `condition` becomes false. Refuse carried values
    of a changing type, and quantized values in the body.
    """
    node, function = builder.node, body.function
    outputs = tensors_of(function)[condition is not None :]
    for value, kind in zip(carried, outputs, strict=False):
        if value.type != kind:
            raise node.unsupported(
                f"a carried value of shape {list(shape_of(value))} and {element_of(value)} that "
                f"is {list(kind.get_shape())} and {kind.element_type} after a step, in a loop that "
                "is too long to unroll; pad it to a constant shape"
            )
    builder.functions += body.inner
    _add(builder, function, "loop")
    op = graph.LoopOp(
        function, steps, carried, scanned, body.captured, condition=condition, backwards=backwards
    )
    return _extracted(builder, op, op.packed_types_of(op.body, tensors_of(function)))


@dataclass(frozen=True)
class Branches:
    """
    The two branches of an `If` as functions that are not in the module yet. `captured` are the
    outer values that either branch uses; both functions have them as arguments.
    """

    taken: FuncOp
    other: FuncOp
    captured: list[SSAValue]
    """The outer values that either branch uses."""

    @classmethod
    def of(cls, *branches: tuple[Block, Sequence[SSAValue]]) -> "Branches":
        """
        Create the branches from a block and the results of each: first if the condition is true,
        then if it is false.
        """
        found = (v for block, results in branches for v in _captured(block, results))
        captured = list(dict.fromkeys(found))
        taken, other = (_function(block, results, captured) for block, results in branches)
        return cls(taken, other, captured)


def emit_branch(builder: Builder, condition: SSAValue, branches: Branches) -> list[SSAValue]:
    """
    Emit an operation that calls only the branch that the scalar `condition` chooses, and return the
    results.
    """
    _add(builder, branches.taken, "branch")
    _add(builder, branches.other, "branch")
    op = graph.BranchOp(condition, branches.taken, branches.other, branches.captured)
    return _extracted(builder, op, tensors_of(branches.taken))


def _add(builder: Builder, function: FuncOp, kind: str) -> None:
    for op in function.body.block.ops:
        if any(graph.quantized_element(value) is not None for value in (*op.operands, *op.results)):
            raise builder.node.unsupported(
                "quantized values in a loop that is too long to unroll, or in a branch with one; "
                "export the body in float"
            )
    function.sym_name = StringAttr(f"{kind}_{len(builder.functions)}")
    builder.functions.append(function)


def _extracted(
    builder: Builder, op: graph.CallingOperation, kinds: Sequence[Tensor]
) -> list[SSAValue]:
    op.attributes[FLOAT_REASON] = StringAttr(LOOP_BODY_REASON)
    packed = builder.emit(op)
    return [
        builder.emit(graph.ExtractOp(packed, offset, kind))
        for offset, kind in zip(packed_offsets(kinds), kinds, strict=False)
    ]
