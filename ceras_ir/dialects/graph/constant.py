"""The constant of the `graph` dialect: bytes with a tensor type, and numpy views."""

from __future__ import annotations

from typing import ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray
from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float16Type,
    Float32Type,
    IntAttr,
    IntegerType,
    LocationAttr,
    Signedness,
    TensorType,
    f32,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import prop_def, traits_def
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.operation import GraphOperation, Tensor, is_tensor, tensor_type
from ceras_ir.dialects.quant import BYTE_BITS, UniformType, stored_dtype
from ceras_ir.dialects.sparse import Encoded
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_ir.support.digests import sha256


def storage_type(element: Attribute) -> Float16Type | Float32Type | IntegerType:
    """
    Return the type in which `element` is stored in memory: the integer type of a quantized element,
    otherwise `element`.
    """
    if isinstance(element, UniformType):
        return element.storage
    assert isinstance(element, Float16Type | Float32Type) or is_integer(element)
    return element


def is_integer(type: Attribute) -> TypeGuard[IntegerType]:
    """Return whether `type` is an integer."""
    return isinstance(type, IntegerType)


def numpy_dtype(element: Attribute) -> np.dtype[np.generic]:
    """Return the numpy type in which `element` is stored: a float, bool or integer type."""
    if is_bipolar(element):
        return np.dtype(np.int8)
    return stored_dtype(storage_type(element))


def is_bipolar(element: Attribute) -> bool:
    """Return whether the elements are -1 and 1, stored in a bit."""
    return isinstance(element, UniformType) and element.is_bipolar


def plain_element(dtype: np.dtype[np.generic]) -> Float32Type | IntegerType | None:
    """
    Return the element type (without scale) for the numpy type `dtype`, or `None` for other types
    than float32, bool and integers.
    """
    if dtype == "float32":
        return f32
    if dtype.kind not in "iub":
        return None
    width = 1 if dtype.kind == "b" else 8 * dtype.itemsize
    unsigned = dtype.kind == "u"
    return IntegerType(width, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS)


def expect_stored(name: str, array: NDArray[np.generic], element: UniformType) -> None:
    """Raise a `VerifyException` if `element` cannot store an integer of `array`."""
    for extreme in (int(array.min()), int(array.max())):
        if not element.low <= extreme <= element.high:
            raise VerifyException(
                f"{name} must be in [{element.low}, {element.high}], got {extreme}"
            )


def is_splat(flat: NDArray[np.generic]) -> bool:
    """
    Return whether all elements of a vector have equal bits, so that a single element can represent
    them.
    """
    bits = flat.view(f"u{flat.dtype.itemsize}")
    return bool(bits[-1] == bits[0]) and bool((bits == bits[0]).all())


@irdl_op_definition
class ConstantOp(GraphOperation, HasFolderInterface):
    """
    A constant tensor, row-major. `value` has the stored elements: floats, or the integers of a
    quantized type; of i1, true for 1 and false for -1. An attribute of the dialect `sparse` lists
    the nonzero elements.

        %w = graph.constant dense<[0.5, -1.0]> : tensor<2xf32> : tensor<2xf32>
        %q = graph.constant dense<[1, -2]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32, 0.5>>
    """

    name = "graph.constant"
    ADMITS_INTEGERS: ClassVar = True
    ADMITS_HALVES: ClassVar = True

    value = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr | Encoded)

    traits = traits_def(ConstantLike())
    assembly_format = "$value attr-dict `:` type($result)"

    def __init__(
        self,
        value: DenseIntOrFPElementsAttr | DenseResourceAttr | Encoded,
        result_type: Tensor | None = None,
        *,
        location: LocationAttr | None = None,
    ):
        assert is_tensor(value.type)
        super().__init__(properties={"value": value}, result_types=[result_type or value.type])
        if location is not None:
            self.location = location

    @classmethod
    def from_array(
        cls,
        array: NDArray[np.generic],
        element: Attribute = f32,
        *,
        location: LocationAttr | None = None,
    ) -> ConstantOp:
        """
        Create a constant of `element` from an array, which must have the numpy type in which
        `element` is stored.
        """
        assert array.dtype == numpy_dtype(element), (array.dtype, element)
        stored = TensorType(storage_type(element), array.shape)
        raw = np.ascontiguousarray(array == 1 if is_bipolar(element) else array)
        # A splat is stored as a single element, which saves text and memory.
        if raw.size > 1 and is_splat(raw.reshape(-1)):
            raw = raw.reshape(-1)[:1]
        dense = DenseIntOrFPElementsAttr(stored, BytesAttr(raw.tobytes()))
        return cls(dense, TensorType(element, array.shape), location=location)

    def array(self) -> NDArray[np.generic]:
        """
        Return the elements as stored (integers of a quantized constant), read-only, if possible
        without a copy. Raise `InputError` if the text of the constant was elided.
        """
        kind = tensor_type(self.result)
        shape = kind.get_shape()
        if isinstance(self.value, DenseResourceAttr):
            raise InputError(
                f"constant '{node_name(self)}' was elided when this text was printed; "
                "print it again without --elide-constants"
            )
        if isinstance(self.value, Encoded):
            return self.value.array
        flat = np.frombuffer(self.value.data.data, stored_dtype(storage_type(kind.element_type)))
        if is_bipolar(kind.element_type):
            flat = np.where(flat, np.int8(1), np.int8(-1))
        return np.broadcast_to(flat[0], shape) if flat.size == 1 else flat.reshape(shape)

    def digest(self) -> bytes:
        """Return a hash of the stored type and elements, to find equal constants."""
        array = np.ascontiguousarray(self.array())
        width = storage_type(tensor_type(self.result).element_type).bitwidth
        return sha256(f"{array.dtype.str}:{width}".encode(), array.data)

    @property
    def encoded(self) -> Encoded | None:
        """The sparse encoding, or `None` if all elements are stored."""
        return self.value if isinstance(self.value, Encoded) else None

    @property
    def is_elided(self) -> bool:
        """Whether the constant was parsed from text in which the elements are omitted."""
        return isinstance(self.value, DenseResourceAttr)

    def nonzero(self) -> NDArray[np.bool_]:
        """
        Return a mask that is true for each element other than 0; of a quantized constant, for each
        integer other than the zero point.
        """
        element, array = tensor_type(self.result).element_type, self.array()
        if not isinstance(element, UniformType):
            return array != 0
        points = np.array([point.data for point in element.zero_points], np.int64)
        if isinstance(element.axis, IntAttr):
            axis = element.axis.data
            points = points.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
        return array != points.astype(array.dtype)

    def fold(self):
        return (self.value,)

    def verify_semantics(self) -> None:
        held, result = self.value.type, tensor_type(self.result)
        if not is_tensor(held) or held.get_shape() != result.get_shape():
            raise VerifyException(f"value of type {held} cannot be a constant of type {result}")
        if held.element_type != storage_type(result.element_type):
            raise VerifyException(
                f"value must be stored as {storage_type(result.element_type)}, "
                f"got {held.element_type}"
            )
        element = result.element_type
        # Wider elements fill their numpy type.
        if isinstance(element, UniformType) and element.width < BYTE_BITS and not self.is_elided:
            expect_stored("value", self.array(), element)


class MaterializeConstant(ConstantMaterializationInterface):
    """Lets folders of the dialect create constants from attributes."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        if is_tensor(type) and (isinstance(value, Encoded) or isa(value, DenseIntOrFPElementsAttr)):
            return ConstantOp(value, type)
        return None


def constant_array(value: SSAValue) -> NDArray[np.generic] | None:
    """
    Return the elements of `value` as stored (integers if quantized), or `None` if it is not a
    constant.
    """
    owner = value.owner
    return owner.array() if isinstance(owner, ConstantOp) else None


def constant_number(value: SSAValue) -> float | None:
    """
    Return the stored element of `value` if it is a constant with a single element, otherwise
    `None`.
    """
    array = constant_array(value)
    return None if array is None or array.size != 1 else float(array.reshape(-1)[0])


def known_array(value: SSAValue) -> NDArray[np.generic]:
    """Return the elements of the constant `value` as stored (integers if quantized)."""
    assert isinstance(value.owner, ConstantOp)
    return value.owner.array()
