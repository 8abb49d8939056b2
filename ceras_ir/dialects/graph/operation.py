"""
Define the base classes of `graph` operations, and queries of their tensors.

An operation is *quantized* if its result is. Then all operands are quantized, and the operation has
a `#graph.requant`. Float operations do not have it.
"""

from abc import ABC
from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar, Self, TypeAlias, TypeGuard

from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float16Type,
    Float32Type,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.attributes import (
    Elementwise,
    FunctionAttr,
    MovesElements,
    View,
    integers,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType

Tensor: TypeAlias = TensorType[Attribute]
"""A ranked tensor; the verifier accepts float32, quantized and, for some operations, integers."""

INTEGER_WIDTHS = (1, 8, 16, 32, 64)
"""The widths of plain integer elements. An i1 is a truth value, stored in a byte."""


def is_tensor(type: Attribute) -> TypeGuard[Tensor]:
    """Return whether `type` is a tensor type."""
    return isinstance(type, TensorType)


def tensor_type(value: SSAValue) -> Tensor:
    """Return the type of a tensor value."""
    assert is_tensor(value.type)
    return value.type


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a tensor value."""
    return tensor_type(value).get_shape()


def element_of(value: SSAValue) -> Attribute:
    """Return the element type of a tensor value."""
    return tensor_type(value).element_type


def quantized_element(value: SSAValue) -> UniformType | None:
    """Return the quantized element type of a tensor value, or `None` for other elements."""
    element = element_of(value)
    return element if isinstance(element, UniformType) else None


def stored_element(value: SSAValue) -> UniformType:
    """Return the element type of a value that must be quantized."""
    element = element_of(value)
    assert isinstance(element, UniformType)
    return element


def scale_of(value: SSAValue) -> float:
    """Return the scale of a value that is quantized per tensor."""
    return stored_element(value).scale


def is_plain(value: SSAValue) -> bool:
    """Return whether `value` is a tensor of integers without a scale, such as indices."""
    return is_tensor(value.type) and isinstance(value.type.element_type, IntegerType)


def is_per_axis(value: SSAValue) -> bool:
    """
    Return whether a value has a scale per index of an axis. Such an axis must not be moved or
    sliced.
    """
    element = quantized_element(value)
    return element is not None and element.is_per_axis


def type_with_element(value: SSAValue, element: Attribute) -> Tensor:
    """Return the type of `value` with another element type."""
    return TensorType(element, shape_of(value))


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...] | None:
    """Return the common shape of a broadcast, or `None` if the shapes are incompatible."""
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes), strict=True)
    extents = [{extent for extent in column if extent != 1} or {1} for column in columns]
    return tuple(max(e) for e in extents) if all(len(e) == 1 for e in extents) else None


def window_extent(size: int, dilation: int) -> int:
    """
    Return the number of elements from the first to the last element of a window of `size` elements
    with `dilation`: (3, 2) -> 5.
    """
    return (size - 1) * dilation + 1


def window_output(
    size: int, before: int, after: int, kernel: int, stride: int, dilation: int
) -> int:
    """
    Return the number of positions of a window of `kernel` elements in an axis of `size` elements
    with `before` and `after` elements of padding.
    """
    return (size + before + after - window_extent(kernel, dilation)) // stride + 1


class GraphOperation(IRDLOperation, ABC):
    """
    A pure operation with one tensor result and static shapes.

    Analyses use traits and the properties below. The defaults are safe for an unknown operation: it
    remains in float, and it needs all elements of all operands.
    """

    result = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    ADMITS_INTEGERS: ClassVar = False
    """
    Whether tensors may have plain integer elements, which wrap around like unsigned integers in C.
    """

    ADMITS_HALVES: ClassVar = False
    """Whether tensors may have elements of f16."""

    DIMENSIONS: ClassVar[tuple[str, ...]] = ()
    """Properties that name dimensions of the operand."""

    PER_DIMENSION: ClassVar[tuple[str, ...]] = ()
    """Properties with an entry for each dimension of the operand."""

    @property
    def is_quantized(self) -> bool:
        return quantized_element(self.results[0]) is not None

    @property
    def has_kernel_form(self) -> bool:
        """
        Whether the operation rounds exactly as a kernel of TensorFlow Lite: it rounds twice, has
        multipliers of more than 31 bits, requantizes the operands of a sum, divides, or rounds ties
        of floats away from zero.
        """
        requant = self.properties.get("requant")
        is_normalized = isinstance(requant, RequantAttr) and requant.is_normalized
        return is_normalized or not self.properties.keys().isdisjoint(KERNEL_PROPERTIES)

    @property
    def output(self) -> SSAValue:
        return self.results[0]

    @property
    def spelling(self) -> str:
        """
        The name of the operation and its function in reports, such as `conv2d` or `pool2d max`.
        """
        return self.name.removeprefix("graph.")

    @property
    def macs(self) -> int:
        """The number of multiplications of a layer; 0 for other operations."""
        return 0

    @property
    def window(self) -> tuple[int, ...]:
        """The height and width of the sliding window of a pooling; empty for other operations."""
        return ()

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        """
        The operands that quantization stores as activations, without constant weights and biases.
        """
        return self.operands

    @property
    def is_alias(self) -> bool:
        """
        Whether the result has the elements of a single operand in another order or shape, and
        possibly zeros as padding.
        """
        return self.has_trait(MovesElements) and not is_plain(self.results[0])

    @property
    def keeps_scale(self) -> bool:
        """
        Whether operands and result must have the same scale, as in data movement or a maximum.
        """
        return self.is_alias

    @property
    def rescales(self) -> bool:
        """Whether the operation has a quantized form in which the result has a separate scale."""
        return False

    def quantized(self, operands: Sequence[SSAValue], element: UniformType) -> "GraphOperation":
        """
        Return the quantized form of the operation on quantized `operands`, with a result of
        `element`. An operation that `keeps_scale` remains the same operation; other operations
        override this method.
        """
        return self.rebuilt(operands, element=element)

    def rebuilt(
        self,
        operands: Sequence[SSAValue],
        *,
        shape: Sequence[int] | None = None,
        element: Attribute | None = None,
        changed: Mapping[str, Attribute] | None = None,
    ) -> Self:
        """
        Return a copy with other operands. If given, `shape` and `element` replace the type of the
        result, and `changed` replaces properties.
        """
        kind = TensorType(
            element_of(self.output) if element is None else element,
            shape_of(self.output) if shape is None else shape,
        )
        return type(self).create(
            operands=operands,
            result_types=[kind],
            properties={**self.properties, **(changed or {})},
            attributes=dict(self.attributes),
            location=self.location,
        )

    @property
    def keeps_channels(self) -> bool:
        """
        Whether channel `c` (index of the last axis) of the result depends only on channel `c` of
        the operands, and a positive factor of that channel is a factor of the result.
        """
        return False

    @property
    def depends_on_channel(self) -> bool:
        """
        Whether the function differs between channels (indices of the last axis), as with a scale
        per channel.
        """
        return any(map(is_per_axis, (*self.operands, *self.results)))

    def reordered(self, order: Sequence[int]) -> Mapping[str, Attribute] | None:
        """
        Return the properties that change if transposes of all operands by the permutation `order`
        are replaced by a transpose of the result. Return `None` if the elements of the result would
        differ.
        """
        declared = self.has_trait(Elementwise) or self.DIMENSIONS or self.PER_DIMENSION
        if not declared or self.depends_on_channel:
            return None
        changed: dict[str, Attribute] = {}
        for name in self.DIMENSIONS:
            attribute = self.properties[name]
            if isinstance(attribute, IntegerAttr):
                changed[name] = IntegerAttr(order[attribute.value.data], i64)
            elif isinstance(attribute, DenseArrayBase):
                changed[name] = integers([order[int(d)] for d in attribute.get_values()])
        for name in self.PER_DIMENSION:
            if isinstance(attribute := self.properties[name], DenseArrayBase):
                entries = [int(v) for v in attribute.get_values()]
                changed[name] = integers([entries[order.index(i)] for i in range(len(order))])
        return changed

    def verify_(self) -> None:
        for value in (*self.operands, *self.results):
            if not is_tensor(value.type):
                raise VerifyException(f"tensor expected, got {value.type}")
            if any(extent < 1 for extent in value.type.get_shape()):
                raise VerifyException(f"static, non-empty shape expected, got {value.type}")
            element = value.type.element_type
            if isinstance(element, IntegerType) and self.ADMITS_INTEGERS:
                if element.bitwidth not in INTEGER_WIDTHS:
                    raise VerifyException(
                        f"integers must have 1, 8, 16, 32 or 64 bits, got {element}"
                    )
            elif isinstance(element, Float16Type) and self.ADMITS_HALVES:
                continue
            elif not isinstance(element, Float32Type | UniformType):
                raise VerifyException(f"elements must be f32 or quantized, got {element}")
        if self.has_trait(Elementwise):
            shapes = [shape_of(value) for value in self.operands]
            if (shape := broadcast_shape(*shapes)) is None:
                raise VerifyException(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
            expect_shape("result", self.output, shape)
        if self.has_trait(MovesElements):
            expect_same_element(self)
        if self.has_trait(View):
            source, target = shape_of(self.operands[0]), shape_of(self.output)
            if prod(source) != prod(target):
                raise VerifyException(
                    f"shape {source} has {prod(source)} elements, {target} has {prod(target)}"
                )
        self.verify_semantics()

    def verify_semantics(self) -> None:
        """
        Check conditions of this operation in addition to types and traits, which are already
        verified.
        """


class InputOperation(GraphOperation, ABC):
    """An operation with one tensor operand, `input`."""

    input = operand_def(TensorType)

    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        input: SSAValue,
        properties: Mapping[str, Attribute | None] | None = None,
        *,
        shape: Sequence[int] | None = None,
        element: Attribute | None = None,
    ):
        """
        Create the operation. The result has the shape and element type of the operand, unless they
        are given.
        """
        kind = tensor_type(input)
        if shape is not None or element is not None:
            kind = TensorType(
                kind.element_type if element is None else element,
                kind.get_shape() if shape is None else shape,
            )
        super().__init__(operands=[input], result_types=[kind], properties=properties or {})


KERNEL_PROPERTIES = ("lhs_requant", "rhs_requant", "divides")
"""The properties with which an operation computes as a kernel of TensorFlow Lite."""

NO_KERNELS = (
    "it computes as a kernel of TensorFlow Lite, and unfold-qdq found no equal float operation, "
    "because its factor contradicts its scales: use target c, or quantize the float network here"
)
"""The reason why a target without `Arithmetic.kernels` refuses an operation with a kernel form."""


def only_clips(activation: FunctionAttr | None) -> bool:
    """
    Return whether there is no activation, or an activation that only clips, so that the clamp of a
    requantization can compute it.
    """
    return activation is None or activation.clip_range is not None


def expect_same_element(op: GraphOperation) -> None:
    """Raise a `VerifyException` if an operand has another element type than the result."""
    for value in op.operands:
        if element_of(value) != element_of(op.output):
            raise VerifyException(
                f"element types must be equal, got {element_of(value)} -> {element_of(op.output)}"
            )


class WrongShapeError(VerifyException):
    """The operand or result `name` does not have the shape `expected`."""

    def __init__(self, name: str, expected: tuple[int, ...], shape: tuple[int, ...]):
        super().__init__(f"{name} must have shape {expected}, got {shape}")
        self.name, self.expected = name, expected


def expect_shape(name: str, value: SSAValue, expected: Sequence[int]) -> None:
    """Raise an error if the operand or result `name` does not have the shape `expected`."""
    if (shape := shape_of(value)) != tuple(expected):
        raise WrongShapeError(name, tuple(expected), shape)


def expect_rank(name: str, value: SSAValue, rank: int) -> None:
    """Raise a `VerifyException` if the operand or result `name` does not have the rank `rank`."""
    if len(shape := shape_of(value)) != rank:
        raise VerifyException(f"{name} must have rank {rank}, got shape {shape}")


def expect_axis(axis: int, rank: int) -> None:
    """Raise a `VerifyException` if `axis` is not in `[0, rank)`."""
    if not 0 <= axis < rank:
        raise VerifyException(f"axis must be in [0, {rank}), got {axis}")


def expect_length(name: str, values: Sequence[int], length: int, minimum: int) -> None:
    """
    Raise a `VerifyException` if the list `values` has another length, or an entry below `minimum`.
    """
    if len(values) != length or any(v < minimum for v in values):
        raise VerifyException(f"{name} must be {length} integers >= {minimum}, got {list(values)}")


def expect_rescaling(op: Operation, requant: RequantAttr | None, channels: int = 0) -> None:
    """
    Raise a `VerifyException` unless all operands and the result are quantized and `requant` is
    given, or all are float and it is not. `requant` may have a single multiplier, or `channels`
    multipliers.
    """
    quantized = [quantized_element(v) is not None for v in (*op.operands, *op.results)]
    if any(quantized) != all(quantized):
        raise VerifyException("operands and result must be all float or all quantized")
    if quantized[-1] and requant is None:
        raise VerifyException(
            "a quantized operation needs 'requant', with its shift, rounding and clamp range"
        )
    if not quantized[-1] and requant is not None:
        raise VerifyException("a float operation cannot have 'requant'")
    if requant is not None:
        expect_multipliers(requant, channels)
        expect_storable(op.results[0], requant)


def expect_multipliers(requant: RequantAttr, channels: int) -> None:
    """
    Raise a `VerifyException` if a requantization has multipliers per channel, but not `channels` of
    them.
    """
    if requant.is_per_channel and len(requant.channels) != channels:
        raise VerifyException(
            f"'requant' has {len(requant.channels)} multipliers, expected {channels or 1}"
        )


def expect_storable(result: SSAValue, requant: RequantAttr) -> None:
    """
    Raise a `VerifyException` if the clamp range of `requant` exceeds the integers that `result` can
    store.
    """
    element = quantized_element(result)
    if element is None:
        raise VerifyException(f"quantized result expected, got {result.type}")
    if requant.low.data < element.low or requant.high.data > element.high:
        raise VerifyException(
            f"clamp range [{requant.low.data}, {requant.high.data}] exceeds {element.storage}"
        )
