"""Map values of the network to values of the exported function, and add constants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float16Type, Float32Type, IntegerType, TensorType, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.mlir.integers import centred, signless
from ceras_ir.backends.mlir.scalars import Scalars
from ceras_ir.backends.mlir.tensors import Array, Body, Element, Tensors
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.constant import is_integer, storage_type
from ceras_ir.network import integer


def stored_type(element: Float32Type | IntegerType) -> Element:
    """Return the element type in the exported network: integers become signless, f32 remains."""
    return signless(element) if is_integer(element) else element


def tensor_of(value: SSAValue) -> TensorType[Element]:
    """
    Return the tensor type that `value` has in the exported network: the same shape, stored
    elements.
    """
    return TensorType(element_type(value), graph.shape_of(value))


def element_type(value: SSAValue) -> Element:
    """
    Return the element type that `value` has in the exported network: f32, or a signless integer.
    """
    stored = storage_type(graph.element_of(value))
    assert not isinstance(stored, Float16Type)
    return stored_type(stored)


def is_signed(value: SSAValue) -> bool:
    """
    Return whether the stored integers of `value` are signed; the exported types do not specify it.
    """
    return graph.numpy_dtype(graph.element_of(value)).kind == "i"


class Network:
    """
    Maps each value of the network to the value of the exported function that has its stored
    elements.
    """

    def __init__(self, tensors: Tensors):
        self.tensors = tensors
        self.values: dict[SSAValue, SSAValue] = {}

    def get(self, value: SSAValue) -> SSAValue:
        """
        Return the exported tensor of `value`, which must be built already or a constant. A constant
        is added at the first use.
        """
        if value not in self.values:
            owner = value.owner
            assert isinstance(owner, graph.ConstantOp), owner
            location, self.tensors.location = self.tensors.location, owner.location
            self.values[value] = self.tensors.constant(owner.array())
            self.tensors.location = location
        return self.values[value]

    def centred(self, value: SSAValue) -> SSAValue:
        """
        Return an exported tensor of i32: the stored integers of a quantized `value` minus the zero
        point.
        """
        if (constant := centred_constant(value)) is not None:
            return self.tensors.constant(constant.astype(np.int32))
        element = graph.stored_element(value)

        def body(s: Scalars, stored: SSAValue) -> SSAValue:
            return centred(s, stored, element, i32)

        return self.tensors.elementwise([self.get(value)], graph.shape_of(value), i32, body)

    def signed(self, value: SSAValue) -> tuple[SSAValue, int]:
        """
        Return a tensor of signed integers of the same width for the stored integers of `value`, and
        their zero point. Unsigned integers are reduced by half of their range (128 for 8 bits), and
        so is the zero point.
        """
        element, stored = graph.stored_element(value), self.get(value)
        if element.is_signed:
            return stored, element.zero_point
        half, type = 1 << element.storage.width.data - 1, signless(element.storage)

        def body(s: Scalars, stored: SSAValue) -> SSAValue:
            return s.differing(stored, s.integer(-half, type))

        moved = self.tensors.elementwise([stored], graph.shape_of(value), type, body)
        return moved, element.zero_point - half

    def mapped(self, op: graph.GraphOperation, operands: list[SSAValue], body: Body) -> SSAValue:
        """
        Return the result of an elementwise operation with the type of the result of `op`. `body`
        computes an element from the elements of the tensors in `operands`, which are broadcast.
        """
        shape = graph.shape_of(op.output)
        return self.tensors.elementwise(operands, shape, element_type(op.output), body)


def centred_constant(value: SSAValue) -> Array | None:
    """
    Return the integers of a constant minus the zero points, in int8, int16 or int32, whichever is
    the first that holds them; `None` if `value` is not constant.
    """
    if (array := graph.constant_array(value)) is None:
        return None
    points = integer.zero_points(graph.stored_element(value), array.ndim)
    centred: NDArray[np.int64] = array.astype(np.int64) - points
    for dtype in (np.int8, np.int16):
        info = np.iinfo(dtype)
        if info.min <= centred.min() and centred.max() <= info.max:
            return centred.astype(dtype)
    return centred.astype(np.int32)
