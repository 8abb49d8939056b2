"""
The interface of the importers of operators: an operator with its tensors, options and values.

A value is an IR value, or a constant that becomes an operation when it is used. The integers of a
quantized tensor have the type `!quant.uniform` of that tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ConstantOp, Function, FunctionAttr, element_of
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.folding import computed
from ceras_ir.frontends.onnx.emission.registry import OPERATORS as ONNX_OPERATORS
from ceras_ir.frontends.onnx.emission.values import Constant, Value, name_loc, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.tflite.fixed_point import requant_of, rounded
from ceras_ir.frontends.tflite.model.schema import ABSENT, Model, Operator, Subgraph, Tensor
from ceras_ir.frontends.tflite.variables import Variables
from ceras_ir.network import integer
from ceras_ir.support.diagnostics import InputError, UnsupportedError

ONNX_OPSET = 20
"""The version of the ONNX operators through which float operators are imported."""

ACTIVATIONS: tuple[tuple[Function, tuple[float, ...]] | None, ...] = (
    None,
    (Function.RELU, ()),
    (Function.CLIP, (-1.0, 1.0)),
    (Function.CLIP, (0.0, 6.0)),
    (Function.TANH, ()),
)
"""Fused functions by their number in the schema."""

CLIPS = {1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""The bounds of fused functions that clip."""


@dataclass(frozen=True)
class Stored(Constant):
    """
    A constant with a scale. Unlike for other constants, `load` returns the stored integers of type
    `element`, not the real values.
    """

    kind: Callable[[], Attribute] = field(kw_only=True, repr=False)

    @property
    def element(self) -> UniformType:
        found = self.kind()
        assert isinstance(found, UniformType)
        return found


@dataclass
class Operation:
    """
    The operator that is being imported: the tensors and options, and the values of the operands.
    """

    operator: Operator
    graph: Subgraph
    emitter: Emitter
    values: dict[int, Value]
    constants: dict[int, SSAValue]
    """The constants that were emitted, by the index of the tensor."""
    variables: Variables
    model: Model
    inlined: Callable[[int, Sequence[Value]], Sequence[Value]]
    """Emits a subgraph for values of its inputs, and returns the results."""

    @property
    def name(self) -> str:
        return self.operator.name

    def wrong(self, message: str) -> InputError:
        return self.emitter.node.wrong(message)

    def unsupported(self, message: str) -> UnsupportedError:
        return self.emitter.node.unsupported(message)

    def reordered(self, order: Sequence[int]) -> Operation:
        """
        Return the same operator with the operands at the indices in `order`, in this order.
        Operands that are absent are omitted.
        """
        inputs = self.operator.inputs
        chosen = tuple(inputs[i] for i in order if i < len(inputs))
        return replace(self, operator=replace(self.operator, inputs=chosen))

    def has_input(self, index: int) -> bool:
        inputs = self.operator.inputs
        return index < len(inputs) and inputs[index] != ABSENT

    def input(self, index: int) -> Tensor:
        """Return the tensor (type, shape and name) of operand `index`."""
        if not self.has_input(index):
            raise self.wrong(f"operand {index} is missing")
        return self.graph.tensors[self.operator.inputs[index]]

    @property
    def output(self) -> Tensor:
        """The tensor (type, shape and name) of the first result."""
        if not self.operator.outputs or self.operator.outputs[0] == ABSENT:
            raise self.wrong("the result is missing")
        return self.graph.tensors[self.operator.outputs[0]]

    @property
    def count(self) -> int:
        """The number of operands, including absent operands."""
        return len(self.operator.inputs)

    @property
    def is_quantized(self) -> bool:
        """Whether the first operand and the first result are quantized to 8 or 16 bits."""
        return all(
            tensor.is_quantized and tensor.kind in ("int8", "uint8", "int16")
            for tensor in (self.input(0), self.output)
        )

    def value(self, index: int) -> Value:
        """Return the value of operand `index`. A constant is not emitted as an operation."""
        self.input(index)
        place = self.operator.inputs[index]
        if place not in self.values:
            raise self.wrong(f"operand {index} ('{self.input(index).name}') is not computed before")
        return self.values[place]

    def tensor(self, index: int) -> SSAValue:
        """Return the value of operand `index`. A constant is emitted as an operation."""
        value = self.value(index)
        if isinstance(value, Stored):
            return self.stored(value, self.operator.inputs[index])
        return self.emitter.materialize(value)

    def stored(self, value: Stored, key: int | None = None) -> SSAValue:
        """
        Emit a quantized constant. If `key`, the index of the tensor, is given, it is emitted only
        once.
        """
        if key is not None and key in self.constants:
            return self.constants[key]
        op = ConstantOp.from_array(value.load(), value.element, location=name_loc(value.name))
        self.emitter.block.add_op(op)
        if key is not None:
            self.constants[key] = op.result
        return op.result

    def shape(self, index: int) -> tuple[int, ...]:
        return shape_of_value(self.value(index))

    def element(self, index: int) -> UniformType:
        """Return the type of operand `index`, which must be quantized with a single scale."""
        return self.single_scale(self.input(index))

    @property
    def result_element(self) -> UniformType:
        """The type of the result, which must be quantized with a single scale."""
        return self.single_scale(self.output)

    def single_scale(self, tensor: Tensor) -> UniformType:
        element = tensor.element
        if not isinstance(element, UniformType):
            raise self.unsupported(f"'{tensor.name}' of {tensor.kind} without a scale")
        if element.is_per_axis:
            raise self.unsupported(f"several scales of '{tensor.name}'; use one")
        return element

    def array(self, index: int) -> NDArray[np.generic]:
        """Return operand `index`, which must be a constant, as an array of stored elements."""
        value = self.value(index)
        if not isinstance(value, Constant):
            raise self.unsupported(
                f"operand {index} ('{self.input(index).name}') is computed, but it must be a "
                "constant; convert the network with fixed shapes"
            )
        return value.load()

    def integers(self, index: int) -> tuple[int, ...]:
        """
        Return operand `index`, which must be a constant list of at most 64 integers, such as axes.
        """
        array = self.array(index)
        if array.dtype.kind not in "iu" or array.ndim > 2 or array.size > 64:
            raise self.wrong(f"operand {index} must be a short list of integers")
        return tuple(int(i) for i in array.reshape(-1))

    def axis(self, value: int, rank: int) -> int:
        return self.emitter.node.axis(value, rank)

    def activation(self, field: int) -> FunctionAttr | None:
        """
        Return the activation that is fused into a float operator, from option number `field`, or
        `None`.
        """
        number = self.operator.options.integer(field, "b")
        if not 0 <= number < len(ACTIVATIONS):
            raise self.unsupported(f"the fused function {number}; convert the network without it")
        found = ACTIVATIONS[number]
        return None if found is None else FunctionAttr(*found)

    def activated(self, value: Value, field: int) -> Value:
        """Apply the activation in option number `field`, if there is one, to a float value."""
        if (function := self.activation(field)) is None:
            return value
        return self.emitter.emit(graph.UnaryOp(self.emitter.materialize(value), function))

    def clamp(self, field: int) -> tuple[int, int]:
        """
        Return the lowest and highest integer of a quantized result: the range of the type, limited
        by the activation in option number `field`.
        """
        element, number = self.result_element, self.operator.options.integer(field, "b")
        low, high = element.low, element.high
        if number and number not in CLIPS:
            raise self.unsupported(f"the fused function {number} of integers")
        bounds = CLIPS.get(number, (None, None))
        scale, point = np.float32(element.scale), element.zero_point
        if bounds[0] is not None:
            low = max(low, point + rounded(float(np.float32(bounds[0]) / scale)))
        if bounds[1] is not None:
            high = min(high, point + rounded(float(np.float32(bounds[1]) / scale)))
        if low > high:
            raise self.unsupported("a fused function whose bounds exclude all integers")
        return low, high

    def requant(
        self, factors: Sequence[float], bounds: tuple[int, int], *, wide: bool = False
    ) -> RequantAttr:
        """
        Return the requantization to the result by `factors`, one for each output channel or a
        single one, clamped to `bounds`. It rounds twice, as in TensorFlow Lite. The sums have 32
        bits, or 64 if `wide`. Raise an error for factors that are too large.
        """
        found = requant_of(factors, self.result_element.zero_point, *bounds, wide=wide)
        return self.checked(found, factors)

    def checked(self, found: RequantAttr | None, factors: Sequence[float]) -> RequantAttr:
        """
        Return `found`, or raise an error that there is no requantization by `factors` if it is
        `None`.
        """
        if found is None:
            raise self.unsupported(
                f"scales by which the result is up to {max(factors):.3g} times the sum; quantize "
                "the network again"
            )
        return found

    def onnx(
        self, operator: str, values: Sequence[Value | None], **attributes: int
    ) -> Sequence[Value]:
        """
        Emit the ONNX operator `operator` of `values` (floats or plain integers) by the importer of
        that operator, and return the results.
        """
        emitter = self.emitter
        names = ["" if v is None else f"operand {i}" for i, v in enumerate(values)]
        emitter.values = {n: v for n, v in zip(names, values, strict=True) if v is not None}
        known = {n for n, v in emitter.values.items() if isinstance(v, Constant)}
        proto = onnx.helper.make_node(operator, names, [self.output.name], name=emitter.node.name)
        proto.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in attributes.items())
        outer, emitter.node = emitter.node, Node(proto, ONNX_OPSET, known)

        def imported() -> Sequence[Value]:
            found = ONNX_OPERATORS[operator](emitter.node, emitter)
            return [found] if isinstance(found, SSAValue | Constant) else found

        try:
            given = [v for v in values if v is not None]
            if given and all(isinstance(v, Constant) for v in given):
                return computed(emitter.node, emitter, imported)
            return imported()
        finally:
            emitter.node = outer

    def one(self, operator: str, values: Sequence[Value | None], **attributes: int) -> Value:
        """
        Emit the ONNX operator `operator` of `values` by the importer of that operator, and return
        the first result.
        """
        return self.onnx(operator, values, **attributes)[0]

    def real(self, index: int) -> Value:
        """
        Return operand `index`, which must be float, or a constant; a quantized constant is
        dequantized.
        """
        value = self.value(index)
        if isinstance(value, Stored):
            stored = value
            array = integer.dequantize(stored.load(), stored.element)
            return Constant.of(stored.name, array)
        if isinstance(value, Constant):
            return value.in_float32()
        if element_of(value) != f32:
            raise self.unsupported(f"operand {index} of {element_of(value)}, expected floats")
        return value


SAME_SCALE = 2.0**-24
"""The relative difference up to which two scales are equal."""


def implied_scales(op: Operation, requant: RequantAttr) -> list[float]:
    """
    Return the scales of weights for which the rounded factors of `requant` are exact, one for each
    factor: factor * scale of the result / scale of operand 0.
    """
    unit = op.result_element.scale / op.element(0).scale / 2.0**requant.shift.data
    return [multiplier * unit for multiplier in requant.multipliers]


def signed_type(element: UniformType) -> UniformType:
    """
    Return the type with int8 storage for the same real values. A signed type is returned unchanged;
    for a type of unsigned bytes, the zero point is smaller by 128.
    """
    if element.is_signed:
        return element
    return UniformType(element.scale, element.zero_point - element.high // 2 - 1)


def in_signed_bytes(op: Operation, emit: Callable[[SSAValue], SSAValue]) -> SSAValue:
    """
    Return the result of `emit`, which works on int8, for a quantized operand 0 that may be uint8:
    convert it to int8, call `emit`, and convert the result to the type that the file declares.
    """
    kinds = {op.input(0).kind, op.output.kind}
    if len(kinds) > 1 or "int16" in kinds:
        raise op.unsupported(f"of {op.input(0).kind}; quantize to int8")
    result = emit(_restored(op, op.tensor(0), signed_type(op.element(0))))
    return _restored(op, result, op.result_element)


def _restored(op: Operation, value: SSAValue, element: UniformType) -> SSAValue:
    """Convert `value` between int8 and uint8, so that it has the type `element`."""
    if element_of(value) == element:
        return value
    low, high = element.low, element.high
    requant = RequantAttr(0, zero_point=element.zero_point, low=low, high=high)
    return op.emitter.emit(graph.RequantizeOp(value, element, requant))


OperatorImporter: TypeAlias = Callable[[Operation], "Value | Sequence[Value]"]

OPERATORS: dict[str, OperatorImporter] = {}
"""The importers, by the names of operators."""


def operator(*names: str) -> Callable[[OperatorImporter], OperatorImporter]:
    """
    Register the decorated function as the importer of the TensorFlow Lite operators `names`. It
    returns the result, or a list of all results.
    """

    def register(function: OperatorImporter) -> OperatorImporter:
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[name] = function
        return function

    return register


def expect_type(operation: Operation, value: Value, expected: Attribute) -> None:
    """
    Raise an error if the element type of `value` is not `expected`, the type that the file
    declares.
    """
    if isinstance(value, SSAValue) and element_of(value) != expected:
        raise operation.unsupported(
            f"a result of {expected} from {element_of(value)}: an operator that moves elements "
            "must keep their scale; quantize the network again"
        )
