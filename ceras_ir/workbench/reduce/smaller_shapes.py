"""
Smaller constants and shapes of a module.

An extent is shrunk wherever it stands, in types and constants: in networks equal extents mostly are
the same one. What operations make of their operands is then asked of the verifier, which knows.
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
"""The property in which constants have their elements."""


def shape_of_type(type: Attribute) -> tuple[int, ...] | None:
    """The shape of a tensor or buffer; None for anything else."""
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
    """Give all elements of the constant `op` the value of the first; whether that changes any."""
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
    A copy in which `smaller` stands for `extent`, in lists of attributes too if asked for, as of
    kernels; None where a constant cannot be cut.
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
    """The first elements of each dimension."""
    element, old = dense.get_element_type(), dense.get_shape()
    data, size = dense.data.data, element.compile_time_size
    kind = TensorType(element, shape)
    if len(data) == size:
        return DenseIntOrFPElementsAttr(kind, dense.data)
    if len(data) != size * prod(old):
        return None  # Elements of parts of a byte.
    array = np.frombuffer(data, np.dtype((np.void, size))).reshape(old)
    part = array[tuple(slice(e) for e in shape)]
    return DenseIntOrFPElementsAttr(kind, BytesAttr(np.ascontiguousarray(part).tobytes()))


def _infer(op: GraphOperation) -> None:
    """Give the result the shape that the verifier wants, as far as it says which."""
    if op.has_trait(View):
        shape = _reshaped(shape_of(op.operands[0]), shape_of(op.output))
        _set_type(op.output, _with_shape(op.output.type, shape))
    try:
        op.verify_()
    except WrongShapeError as error:
        if error.name == "result":
            _set_type(op.output, _with_shape(op.output.type, error.expected))
    # Whatever else is wrong, the verifier says again of the whole candidate.
    except VerifyException:
        pass


def _reshaped(source: Sequence[int], target: Sequence[int]) -> list[int]:
    """`target` with one extent changed, the last that will do, to have as many elements."""
    if prod(source) == prod(target):
        return list(target)
    for i in reversed(range(len(target))):
        others = prod(target) // target[i]
        if prod(source) % others == 0:
            return [*target[:i], prod(source) // others, *target[i + 1 :]]
    return list(target)
