"""
Reduce constants and shapes of a module.

All occurrences of an extent in types and constants are replaced, because equal extents of a network
usually belong together. The verifier then determines the shapes of results.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IntegerType,
    MemRefType,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ceras_ir.dialects.graph import GraphOperation
from ceras_ir.dialects.graph.attributes import View
from ceras_ir.dialects.graph.operation import WrongShapeError, shape_of

VALUE = "value"
"""The property with the elements of a constant."""


def shape_of_type(type: Attribute) -> tuple[int, ...] | None:
    """Return the shape of a tensor or buffer type, or `None` for other types."""
    if isinstance(type, TensorType | MemRefType):
        return type.get_shape()
    return None


def _with_shape(type: Attribute, shape: Sequence[int]) -> Attribute:
    if isa(type, TensorType[Attribute]):
        return TensorType(type.element_type, shape, type.encoding)
    if isa(type, MemRefType[Attribute]):
        return MemRefType(type.element_type, shape, type.layout, type.memory_space)
    return type


def flatten(op: Operation) -> bool:
    """
    Set all elements of the constant `op` to the first element. Return whether any element changes.
    """
    dense = op.properties.get(VALUE)
    if not isa(dense, DenseIntOrFPElementsAttr):
        return False
    data, size = dense.data.data, dense.get_element_type().compile_time_size
    if len(data) <= size or data[size:] == data[:-size]:
        return False
    op.properties[VALUE] = DenseIntOrFPElementsAttr(dense.type, BytesAttr(data[:size]))
    return True


def shrunk(module: ModuleOp, extent: int, smaller: int, *, attributes: bool) -> ModuleOp | None:
    """
    Return a copy of `module` in which the extent `smaller` replaces each extent equal to `extent`
    in types and constants. With `attributes`, numbers in array attributes (such as kernels) change,
    too. Return `None` if a constant cannot be cut to the new shape.
    """
    copy = module.clone()

    def replaced(shape: Sequence[int]) -> list[int]:
        return [smaller if e == extent else e for e in shape]

    def change(value: SSAValue) -> None:
        if (shape := shape_of_type(value.type)) is not None:
            _set_type(value, _with_shape(value.type, replaced(shape)))

    for op in copy.walk():
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    change(argument)
        for result in op.results:
            change(result)
        if attributes:
            for name, array in op.properties.items():
                if isa(array, DenseArrayBase[IntegerType]) and name != "operandSegmentSizes":
                    numbers = replaced([int(n) for n in array.get_values()])
                    op.properties[name] = DenseArrayBase.from_list(array.elt_type, numbers)
        if isa(dense := op.properties.get(VALUE), DenseIntOrFPElementsAttr):
            if (new := _sliced(dense, replaced(dense.get_shape()))) is None:
                return None
            op.properties[VALUE] = new
        elif isinstance(op, GraphOperation):
            _infer(op)
    for op in copy.walk():
        if isinstance(op, FuncOp) and isinstance(last := op.body.block.last_op, ReturnOp):
            op.function_type = FunctionType.from_lists(
                [a.type for a in op.body.block.args], [v.type for v in last.operands]
            )
    return copy


def _set_type(value: SSAValue, type: Attribute) -> None:
    if value.type != type:
        Rewriter.replace_value_with_new_type(value, type)


def _sliced(
    dense: DenseIntOrFPElementsAttr, shape: Sequence[int]
) -> DenseIntOrFPElementsAttr | None:
    element, old = dense.get_element_type(), dense.get_shape()
    data, size = dense.data.data, element.compile_time_size
    kind = TensorType(element, shape)
    if len(data) == size:
        return DenseIntOrFPElementsAttr(kind, dense.data)
    if len(data) != size * prod(old):
        return None  # Elements of less than a byte.
    array = np.frombuffer(data, np.dtype((np.void, size))).reshape(old)
    part = array[tuple(slice(e) for e in shape)]
    return DenseIntOrFPElementsAttr(kind, BytesAttr(np.ascontiguousarray(part).tobytes()))


def _infer(op: GraphOperation) -> None:
    # Set the result to the shape that the verifier expects, if the error specifies it.
    if op.has_trait(View):
        shape = _reshaped(shape_of(op.operands[0]), shape_of(op.output))
        _set_type(op.output, _with_shape(op.output.type, shape))
    try:
        op.verify_()
    except WrongShapeError as error:
        if error.name == "result":
            _set_type(op.output, _with_shape(op.output.type, error.expected))
    # Other errors are found again when the candidate is verified.
    except VerifyException:
        pass


def _reshaped(source: Sequence[int], target: Sequence[int]) -> list[int]:
    # Change the last possible extent of `target` so that both have the same number of elements.
    if prod(source) == prod(target):
        return list(target)
    for i in reversed(range(len(target))):
        rest = prod(target) // target[i]
        if prod(source) % rest == 0:
            return [*target[:i], prod(source) // rest, *target[i + 1 :]]
    return list(target)
