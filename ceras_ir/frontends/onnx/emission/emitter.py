"""
Makes `graph` operations for the nodes of a model, each verified and located at its node.

Values keep the model's own layout (NCHW) between nodes; importers of operators that are NHWC in
`graph` go through `feature_map` and `from_feature_map`, which put explicit transposes around
them. `eliminate-transposes` takes these out again.
"""

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, NameLoc, NoneAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph import (
    Binary,
    BinaryOp,
    ConstantOp,
    Conv2dOp,
    DequantizeOp,
    FunctionAttr,
    GraphOperation,
    LinearOperation,
    Pool2dOp,
    ReshapeOp,
    TransposeOp,
    UnaryOp,
    constant_array,
    element_of,
    numpy_dtype,
    plain_element,
    shape_of,
)
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.constants import Constant, QuantizedConstant, Value
from ceras_ir.frontends.onnx.model.model_file import MAX_ELEMENTS, Array
from ceras_ir.frontends.onnx.model.node import Node, fix_with_set
from ceras_ir.network.precision import FLOAT, PRECISION
from ceras_ir.support.diagnostics import InputError

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)


def name_loc(name: str) -> NameLoc:
    """The location of what came from the part of the model called `name`."""
    return NameLoc(StringAttr(name), NoneAttr())


def shape_of_value(value: Value) -> tuple[int, ...]:
    """The shape of an IR value or constant."""
    return value.shape if isinstance(value, Constant) else shape_of(value)


def dtype_of_value(value: Value) -> np.dtype[np.generic]:
    """The numpy type of the elements of an IR value or constant."""
    return value.dtype if isinstance(value, Constant) else numpy_dtype(element_of(value))


Subgraph: TypeAlias = "Callable[[str, Emitter, Mapping[str, Value]], Sequence[Value]]"
"""What emits a subgraph of the current node: its outputs, for values of its inputs."""


class Emitter:
    """Appends operations to `block` on behalf of the current `node`."""

    def __init__(self, block: Block, subgraph: "Subgraph | None" = None):
        self.block = block
        self._subgraph = subgraph
        self.scope: tuple[str, ...] = ()
        """The functions and subgraphs around the node, outermost first."""
        self.values: dict[str, Value] = {}
        """What the model's tensor names stand for so far."""
        self.labels: dict[SSAValue, tuple[str, ...]] = {}
        """Values that are numbers where the model has text: numbers of these names."""
        self.rounded: set[SSAValue] = set()
        """Inputs that callers have in 64 bits."""
        self.declared: dict[str, tuple[int, ...]] = {}
        """The shapes that the model declares of outputs, where nothing is open."""
        self.functions: list[FuncOp] = []
        """Bodies of loops and branches, which the module has beside `main`."""
        self.is_called = False
        """Whether what is emitted is in the body of a loop, which stays float."""
        self.node = Node(onnx.NodeProto(), 0)
        """The node being imported, to which errors and locations refer."""
        self._precision: StringAttr | None = None
        self._materialized: dict[tuple[Hashable, ...], SSAValue] = {}

    # Operands of the node.

    def value(self, index: int) -> Value:
        """Operand `index`; floats of any width are float32."""
        if not self.node.has_input(index):
            raise self.node.wrong(
                f"operand {index} is missing, got {len(self.node.inputs)} operands"
            )
        value = self.values[self.node.inputs[index]]
        return value.in_float32() if isinstance(value, Constant) else value

    def tensor(self, index: int) -> SSAValue:
        """Operand `index` as an IR value."""
        return self.materialize(self.value(index))

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of operand `index`."""
        return shape_of_value(self.value(index))

    def array(self, index: int) -> Array:
        """Operand `index`, which a rule of the operator says is a constant."""
        value = self.value(index)
        if not isinstance(value, Constant):
            decided = self.node.deciding(index)
            remedy = "make it an initializer, or fold it with a tool such as onnxsim"
            raise self.node.unsupported(
                f"operand {index} ('{self.node.inputs[index]}') must be a constant; "
                f"{fix_with_set(decided) if decided else remedy}"
            )
        return value.load()

    def stored(self, index: int) -> Array:
        """Operand `index`, a constant, in the model's own type."""
        value = self.values[self.node.inputs[index]]
        assert isinstance(value, Constant)
        return value.load()

    def floats(self, index: int) -> NDArray[np.float32]:
        """A constant operand of float32 elements."""
        array = self.array(index)
        if array.dtype != np.float32:
            raise self.node.wrong(f"operand {index} must be float32, got {array.dtype}")
        return array.astype(np.float32, copy=False)

    def integers(self, index: int) -> tuple[int, ...]:
        """A constant operand that is a list of integers: a shape, axes, pads."""
        array = self.array(index)
        if array.ndim > 1 or not np.issubdtype(array.dtype, np.integer):
            raise self.node.wrong(
                f"operand {index} must be a list of integers, "
                f"got {array.dtype} of shape {list(array.shape)}"
            )
        if array.size > 64:
            raise self.node.wrong(f"operand {index} has {array.size} entries, expected a few")
        return tuple(int(i) for i in array.reshape(-1))

    @staticmethod
    def is_float(value: Value) -> bool:
        """Whether a value has float32 elements."""
        return dtype_of_value(value) == np.float32

    def subgraph(self, name: str, bound: Mapping[str, Value]) -> Sequence[Value]:
        """The outputs of a subgraph of the node, whose inputs are `bound`, emitted here."""
        assert self._subgraph is not None
        return self._subgraph(name, self, bound)

    @contextmanager
    def aside(self) -> Generator[Block]:
        """Emit into a separate block, constants included."""
        block, materialized = self.block, self._materialized
        self.block, self._materialized = Block(), {}
        try:
            yield self.block
        finally:
            self.block, self._materialized = block, materialized

    @contextmanager
    def called(self) -> Generator[None]:
        """Emit into the body of a loop."""
        before, self.is_called = self.is_called, True
        try:
            yield
        finally:
            self.is_called = before

    @contextmanager
    def trial(self) -> Generator[Block]:
        """
        As `aside`, for what is erased again with its functions, unless the operations are moved
        elsewhere or the block becomes a part of something.
        """
        known = len(self.functions)
        with self.aside() as block:
            try:
                yield block
            finally:
                if block.parent is None and block.first_op is not None:
                    del self.functions[known:]
                    for op in reversed(list(block.ops)):
                        op.detach()
                        op.erase(safe_erase=False)

    # Operations.

    @contextmanager
    def in_float(self) -> Generator[None]:
        """What is emitted here stays float when the network is quantized."""
        before, self._precision = self._precision, StringAttr(FLOAT)
        try:
            yield
        finally:
            self._precision = before

    def emit(self, op: GraphOperation) -> SSAValue:
        """Append `op`; what its verifier refuses is an error of the node."""
        op.location = name_loc(self.node.name)
        if self._precision is not None:
            op.attributes[PRECISION] = self._precision
        if not op.ADMITS_INTEGERS:
            for value in op.operands:
                if isinstance(element := element_of(value), IntegerType):
                    raise self.node.unsupported(
                        f"operand of {element} elements; it is taken on float32: "
                        "put a Cast to float before it"
                    )
        if isinstance(op, LinearOperation):
            for array in map(constant_array, op.operands):
                if array is not None and not np.isfinite(array).all():
                    raise self.node.wrong("weights and biases must be finite")
        try:
            op.verify()
        except VerifyException as e:
            raise self._unlike(op.operands, str(e)) from None
        shapes = [shape_of(op.output)]
        if isinstance(op, Conv2dOp | Pool2dOp):
            # With its padding, which somebody may have to write out.
            n, h, w, c = shape_of(op.input)
            top, left, bottom, right = op.padding.get_values()
            shapes.append((n, top + h + bottom, left + w + right, c))
        for shape in shapes:
            if prod(shape) > MAX_ELEMENTS:
                raise self.node.wrong(f"a result of shape {list(shape)} is too large")
        self.block.add_op(op)
        return op.output

    def materialize(self, value: Value) -> SSAValue:
        """`value` in the IR: a constant becomes a `graph.constant`, once."""
        if isinstance(value, SSAValue):
            return value
        value = value.in_float32()
        if value.key is not None and (known := self._materialized.get(value.key)):
            return known
        if (element := plain_element(value.dtype)) is None:
            raise self.node.unsupported(
                f"'{value.name}' has elements of type {value.dtype}; "
                "feature maps and weights are floats, integers or booleans"
            )
        if not prod(value.shape):
            raise self.node.unsupported(
                f"'{value.name}' has no elements: shape {list(value.shape)}; remove what reads it"
            )
        location = name_loc(value.name)
        if isinstance(value, QuantizedConstant):
            stored = ConstantOp.from_array(value.stored(), value.element, location=location)
            self.block.add_op(stored)
            op = DequantizeOp(stored.result)
            op.location = location
        else:
            op = ConstantOp.from_array(value.load(), element, location=location)
        self.block.add_op(op)
        if value.key is not None:
            self._materialized[value.key] = op.result
        return op.result

    def constant(self, array: Array, suffix: str) -> Constant:
        """A constant that the node's operands were folded into."""
        return Constant.of(f"{self.node.name}/{suffix}", array)

    def transposed(self, value: Value, permutation: Sequence[int]) -> Value:
        """`value` with dimension `i` being its dimension `permutation[i]`."""
        if tuple(permutation) == tuple(range(len(permutation))):
            return value
        if isinstance(value, Constant):
            return value.transposed(permutation)
        # Two in a row are one or none: most transposes around NHWC operations end here.
        if isinstance(inner := value.owner, TransposeOp):
            order = inner.permutation.get_values()
            return self.transposed(inner.input, [order[p] for p in permutation])
        return self.emit(TransposeOp(value, permutation))

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        old = shape_of_value(value)
        if old == tuple(shape):
            return value
        if prod(old) != prod(shape):
            raise self.node.wrong(
                f"{list(old)} has {prod(old)} elements, expected {prod(shape)} for {list(shape)}"
            )
        if isinstance(value, Constant):
            return value.reshaped(shape)
        return self.emit(ReshapeOp(value, shape))

    def named(self, value: SSAValue, labels: Sequence[str]) -> SSAValue:
        """`value` as numbers of `labels`, apart from the same numbers that are not."""
        # Two names for one value, of which an operation makes two values.
        result = self.emit(ReshapeOp(value, shape_of(value)))
        self.labels[result] = tuple(labels)
        return result

    def unary(self, value: Value, function: FunctionAttr) -> SSAValue:
        """An elementwise function of one argument."""
        return self.emit(UnaryOp(self.materialize(value), function))

    def binary(self, kind: Binary, lhs: Value, rhs: Value) -> SSAValue:
        """An elementwise function of two arguments, which are broadcast."""
        a, b = shape_of_value(lhs), shape_of_value(rhs)
        if broadcast_shape(a, b) is None:
            raise self.node.wrong(f"shapes {list(a)} and {list(b)} do not broadcast")
        # One number is a vector of one, which broadcasts the same way.
        if isinstance(lhs, Constant) and not a and b:
            lhs = lhs.reshaped((1,))
        if isinstance(rhs, Constant) and not b and a:
            rhs = rhs.reshaped((1,))
        left, right = self.materialize(lhs), self.materialize(rhs)
        if element_of(left) != element_of(right):
            types = f"{element_of(left)} and {element_of(right)}"
            raise self._unlike((left, right), f"operands of types {types}, expected equal ones")
        return self.emit(BinaryOp(kind, left, right, result_element=element_of(left)))

    def feature_map(self, value: Value) -> SSAValue:
        """`value`, [N, C, W] or [N, C, H, W] in the model, as [N, H, W, C]."""
        shape = shape_of_value(value)
        if len(shape) == 3:
            value = self.reshaped(value, (*shape[:2], 1, shape[2]))
        return self.materialize(self.transposed(value, TO_NHWC))

    def from_feature_map(self, value: SSAValue, rank: int) -> Value:
        """The inverse of `feature_map` for a result of the model's `rank`."""
        result = self.transposed(value, TO_NCHW)
        if rank == 3:
            n, _, w, c = shape_of(value)
            return self.reshaped(result, (n, c, w))
        return result

    def _unlike(self, operands: Sequence[SSAValue], what: str) -> InputError:
        """What is wrong with operands that do not go together."""
        elements = [element_of(value) for value in operands]
        plain = {e.bitwidth for e in elements if isinstance(e, IntegerType)}
        stored = {e.storage.bitwidth for e in elements if isinstance(e, UniformType)}
        if plain.isdisjoint(stored):
            return self.node.wrong(what)
        return self.node.unsupported(
            "integers that QuantizeLinear made meet plain ones, which have no scale; quantize the "
            "model as it was in float with --calibrate, where states are floats as well"
        )
