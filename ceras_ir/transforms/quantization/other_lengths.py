"""
Apply the quantization of a network at one length of an input to the network at another length.

The float networks of both lengths have the same operations, with other shapes. Each operation of
the quantized network gets the shape that follows from its operands or, for operations that contain
shapes, such as slices, the shape and properties of the float operation at the other length.
Weights, scales, tables and rounding remain, so both lengths have the same decisions. A network for
which this is impossible is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ConstantOp, GraphOperation, element_of, shape_of
from ceras_ir.dialects.graph.attributes import View
from ceras_ir.dialects.graph.calls import CallingOperation
from ceras_ir.dialects.graph.operation import WrongShapeError, quantized_element
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.network.function import input_names, main_function
from ceras_ir.network.integer import dequantize, quantize
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.transforms.quantization.integer_forms import average_requant

REMEDY = "compile each length as a separate program, or in float with --quantize none"


@dataclass
class _Networks:
    """The float operations at both lengths, in pairs."""

    pairs: list[tuple[GraphOperation, GraphOperation]]
    constants: list[tuple[ConstantOp, ConstantOp]] = field(
        default_factory=list[tuple[ConstantOp, ConstantOp]]
    )
    """The constants that differ."""
    used: set[int] = field(default_factory=set[int])
    """The indices of `constants` that were found in the quantized network."""

    @classmethod
    def of(cls, base: FuncOp, other: FuncOp) -> "_Networks":
        """Pair the operations of two networks; refuse networks with other operations."""
        pairs: list[tuple[GraphOperation, GraphOperation]] = []
        values: dict[SSAValue, SSAValue] = dict(
            zip(base.body.block.args, other.body.block.args, strict=True)
        )
        ops, others = list(base.body.block.ops), list(other.body.block.ops)
        for op, same in zip(ops, others, strict=False):
            operands = [values.get(v) for v in op.operands]
            if type(op) is not type(same) or operands != list(same.operands):
                rest = ops[ops.index(op) :]
                named = next((o for o in rest if not isinstance(o, ConstantOp)), op)
                raise _refusal(named, "the network has other operations at another length")
            values.update(zip(op.results, same.results, strict=True))
            if isinstance(op, GraphOperation) and isinstance(same, GraphOperation):
                pairs.append((op, same))
        if len(ops) != len(others):
            raise _refusal(ops[-1], "the network has other operations at another length")
        found = cls(pairs)
        for op, same in pairs:
            is_equal = op.properties == same.properties and op.output.type == same.output.type
            if not is_equal and isinstance(op, ConstantOp) and isinstance(same, ConstantOp):
                found.constants.append((op, same))
        return found

    def images(self, op: GraphOperation, old: "_Shapes") -> list[tuple[GraphOperation, ...]]:
        """
        Return the pairs of float operations that correspond to a quantized operation: of the same
        class, with the same shapes and the same properties where any operation of the class has
        another value at the other length. Of several, pairs with the same name are preferred, then
        pairs whose properties are all equal.
        """
        same = [(a, b) for a, b in self.pairs if type(a) is type(op)]
        changing = {name for a, b in same for name in _changes(a, b)}
        found = [
            (a, b)
            for a, b in same
            if old.operands[:1] == [shape_of(v) for v in a.operands[:1]]
            and old.result == shape_of(a.output)
            and all(op.properties.get(k) == a.properties.get(k) for k in changing)
        ]
        found = [(a, b) for a, b in found if node_name(a) == node_name(op)] or found
        equal = [(a, b) for a, b in found if not _changes(op, a)]
        return [*(equal or found)]


@dataclass(frozen=True)
class _Shapes:
    operands: list[tuple[int, ...]]
    result: tuple[int, ...]


def _changes(op: GraphOperation, other: GraphOperation) -> dict[str, Attribute]:
    """Return the properties of `other` that differ from the properties of `op`."""
    return {k: v for k, v in other.properties.items() if op.properties.get(k) != v}


def _refusal(op: Operation, message: str) -> UnsupportedError:
    return UnsupportedError([Finding(node_name(op), op.name, f"unsupported: {message}; {REMEDY}")])


def at_length(quantized: ModuleOp, base: ModuleOp, other: ModuleOp) -> ModuleOp:
    """
    Return the network `quantized`, which was quantized from the fused network `base`, with the
    shapes of the fused network `other`.
    """
    networks = _Networks.of(main_function(base), main_function(other))
    result = quantized.clone()
    main = main_function(result)
    shapes = dict(
        zip(input_names(main_function(other)), main_function(other).body.block.args, strict=True)
    )
    old = {
        op: _Shapes([shape_of(v) for v in op.operands], shape_of(op.results[0]))
        for op in main.body.block.ops
        if isinstance(op, GraphOperation)
    }
    for name, argument in zip(input_names(main), main.body.block.args, strict=True):
        _set_shape(argument, shape_of(shapes[name]))
    for op in list(main.body.block.ops):
        if isinstance(op, ConstantOp):
            _change_constant(op, networks)
        elif isinstance(op, CallingOperation):
            raise _refusal(op, "loops and branches are quantized at one length only")
        elif isinstance(op, GraphOperation):
            _change(op, old[op], networks)
    for i, (constant, _) in enumerate(networks.constants):
        if i not in networks.used:
            raise _refusal(constant, "quantization changed a constant that depends on the length")
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    main.function_type = FunctionType.from_lists(
        [a.type for a in main.body.block.args], [v.type for v in last.operands]
    )
    return result


def _set_shape(value: SSAValue, shape: Sequence[int]) -> None:
    if shape_of(value) != tuple(shape):
        kind = TensorType(element_of(value), shape)
        Rewriter.replace_value_with_new_type(value, kind)


def _change(op: GraphOperation, old: _Shapes, networks: _Networks) -> None:
    """Set the shape of the result, and the properties that contain shapes."""
    operands = [shape_of(v) for v in op.operands]
    images = [
        (a, b)
        for a, b in networks.images(op, old)
        if operands[:1] == [shape_of(v) for v in b.operands[:1]]
    ]
    outcomes = {(shape_of(b.output), tuple(_changes(a, b).items())) for a, b in images}
    if len(outcomes) > 1:
        raise _refusal(op, "the shape at another length is not known")
    for shape, changes in outcomes:
        _set_properties(op, dict(changes))
        _set_shape(op.output, shape)
    if not outcomes and op.has_trait(View):
        _set_shape(op.output, _reshaped(op, old, operands[0]))
    try:
        op.verify_()
    except WrongShapeError as error:
        if error.name != "result":
            raise _refusal(op, str(error)) from None
        _set_shape(op.output, error.expected)
    except VerifyException as error:
        if not isinstance(op, graph.ConcatOp):
            raise _refusal(op, str(error)) from None
        axis = op.axis.value.data
        shape = list(operands[0])
        shape[axis] = sum(each[axis] for each in operands)
        _set_shape(op.output, shape)
    try:
        op.verify_()
    except VerifyException as error:
        raise _refusal(op, str(error)) from None


def _set_properties(op: GraphOperation, changes: dict[str, Attribute]) -> None:
    """Change properties. The division of an average by the size of its window follows."""
    if not isinstance(op, graph.Pool2dOp) or op.requant is None or op.function is not Pool.AVERAGE:
        op.properties.update(changes)
        return
    before = _division(op)
    op.properties.update(changes)
    after = _division(op)
    if after == before:
        return
    if before != op.requant or op.divides is not None:
        raise _refusal(op, "the window of an average has another size")
    op.requant = after


def _division(op: graph.Pool2dOp) -> RequantAttr:
    """Return the requantization with which the average was quantized, and the clamp it has now."""
    assert op.requant is not None
    found = average_requant(op, op.input, graph.stored_element(op.result))
    return found.replaced(low=op.requant.low.data, high=op.requant.high.data)


def _reshaped(op: GraphOperation, old: _Shapes, shape: tuple[int, ...]) -> list[int]:
    """
    Return the shape of a view that quantization added: the dimension that was a multiple of the
    changed extents changes by the same factor.
    """
    before, after = prod(old.operands[0]), prod(shape)
    fitting = [i for i, n in enumerate(old.result) if n * after % before == 0 and n > 1]
    if before == after:
        return list(old.result)
    if len(fitting) != 1:
        raise _refusal(op, "the shape at another length is not known")
    found = list(old.result)
    found[fitting[0]] = found[fitting[0]] * after // before
    return found


def _change_constant(op: ConstantOp, networks: _Networks) -> None:
    """Replace a constant that depends on the length."""
    found = [i for i, (a, _) in enumerate(networks.constants) if _is_stored(a, op)]
    if not found:
        return
    named = [i for i in found if node_name(networks.constants[i][0]) == node_name(op)]
    found = named or found
    other = networks.constants[found[0]][1]
    array = other.array()
    if any(not np.array_equal(array, networks.constants[i][1].array()) for i in found):
        raise _refusal(op, "the value at another length is not known")
    if not named and any(_equals(a, op) for a, _ in _equal_constants(networks)):
        raise _refusal(op, "the value at another length is not known")
    element = quantized_element(op.result)
    if element is not None:
        floats = array.astype(np.float32)
        array = quantize(floats, element)
        error = np.abs(dequantize(array, element) - floats)
        if float(error.max(initial=0)) > element.scale * 0.5001:
            raise _refusal(op, "a constant is out of range at another length")
    new = ConstantOp.from_array(array, element_of(op.result), location=op.location)
    new.attributes.update(op.attributes)
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.result.replace_all_uses_with(new.result)
    Rewriter.erase_op(op)
    networks.used.update(found)


def _equal_constants(networks: _Networks) -> Iterator[tuple[ConstantOp, ConstantOp]]:
    changed = {a for a, _ in networks.constants}
    for a, b in networks.pairs:
        if isinstance(a, ConstantOp) and isinstance(b, ConstantOp) and a not in changed:
            yield a, b


def _equals(constant: ConstantOp, op: ConstantOp) -> bool:
    return node_name(constant) == node_name(op) and _is_stored(constant, op)


def _is_stored(constant: ConstantOp, op: ConstantOp) -> bool:
    """Return whether `op` stores the elements of a float constant."""
    if shape_of(constant.result) != shape_of(op.result):
        return False
    array: NDArray[np.generic] = constant.array()
    element = quantized_element(op.result)
    if element is not None:
        if element_of(constant.result) != f32 or element.is_per_axis:
            return False
        array = quantize(array.astype(np.float32), element)
    return np.array_equal(array, op.array())
