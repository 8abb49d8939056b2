"""Reshapes below elementwise operations, and constants in the shape that these can do with."""

from math import prod

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects.graph import (
    BinaryOp,
    ConstantOp,
    GraphOperation,
    ReshapeOp,
    constant_array,
    element_of,
    is_per_axis,
    shape_of,
)
from ceras_ir.dialects.graph.attributes import Elementwise
from ceras_ir.transforms.graph.transposes.order import lifted_shape


class SinkReshapeThroughUnary(RewritePattern):
    """`f(reshape(x))` is `reshape(f(x))`: each element is computed from itself alone."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOperation, rewriter: PatternRewriter, /):
        if len(op.operands) != 1 or not isinstance(reshape := op.operands[0].owner, ReshapeOp):
            return
        if not op.has_trait(Elementwise) or op.depends_on_channel:
            return
        new = op.rebuilt([reshape.input], shape=shape_of(reshape.input))
        below = ReshapeOp(new.output, shape_of(op.output))
        below.location = op.location
        rewriter.replace(op, (new, below))


class SinkReshapeThroughBinary(RewritePattern):
    """
    `op(reshape(x), y)` is `reshape(op(x, z))` where `z` meets the same elements of `x`: `y` is
    another reshape from the same shape, a vector along a last dimension that stays, or a constant
    and the reshape only moves ones, as transposes of an average pooling's results do.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BinaryOp, rewriter: PatternRewriter, /):
        for value in (op.lhs, op.rhs):
            reshape = value.owner
            if not isinstance(reshape, ReshapeOp) or shape_of(value) != shape_of(op.result):
                continue
            source = shape_of(reshape.input)
            operands = [_before(v, reshape) for v in (op.lhs, op.rhs)]
            if operands[0] is None or operands[1] is None or is_per_axis(op.result):
                continue
            constants = [v for v in operands if isinstance(v, ConstantOp)]
            rewriter.insert(constants)
            new = op.rebuilt([SSAValue.get(v) for v in operands if v is not None], shape=source)
            below = ReshapeOp(new.output, shape_of(op.result))
            below.location = op.location
            rewriter.replace(op, (new, below))
            return


def _before(value: SSAValue, reshape: ReshapeOp) -> SSAValue | ConstantOp | None:
    """
    What meets the elements of the operand of `reshape` as `value` meets those of its result; a
    constant of another shape is new.
    """
    source, target = shape_of(reshape.input), shape_of(reshape.result)
    if isinstance(owner := value.owner, ReshapeOp) and shape_of(value) == target:
        return owner.input if shape_of(owner.input) == source else None
    shape = shape_of(value)
    is_vector = len(shape) <= 1 and (prod(shape) == 1 or source[-1:] == target[-1:])
    if is_vector and len(source) >= len(shape):
        return value
    dense = [[i for i, extent in enumerate(s) if extent != 1] for s in (source, target)]
    same = [source[i] for i in dense[0]] == [target[i] for i in dense[1]]
    array = constant_array(value)
    if array is None or not isinstance(owner, ConstantOp) or is_per_axis(value) or not same:
        return None
    lifted = (*(1,) * (len(target) - len(shape)), *shape)
    moved = [1] * len(source)
    for to, at in zip(*dense, strict=True):
        moved[to] = lifted[at]
    return ConstantOp.from_array(array.reshape(moved), element_of(value), location=owner.location)


class ShortenConstant(RewritePattern):
    """
    A constant operand has no leading ones that broadcasting would add, so that one value per
    channel is a vector: `[1, 1, 1, C]` becomes `[C]`.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BinaryOp, rewriter: PatternRewriter, /):
        rank = len(shape_of(op.result))
        for i, (value, other) in enumerate(((op.lhs, op.rhs), (op.rhs, op.lhs))):
            shape = shape_of(value)
            if not isinstance(owner := value.owner, ConstantOp) or len(shape_of(other)) < rank:
                continue
            if len(shape) < 2 or shape[0] != 1 or is_per_axis(value):
                continue
            array = constant_array(value)
            if array is None:
                continue
            first = next((d for d in range(len(shape) - 1) if shape[d] != 1), len(shape) - 1)
            short = ConstantOp.from_array(
                array.reshape(shape[first:]), element_of(value), location=owner.location
            )
            rewriter.insert(short)
            operands = [short.result, other] if i == 0 else [other, short.result]
            rewriter.replace(op, op.rebuilt(operands, shape=lifted_shape(op.result, rank)))
            return


ELEMENTWISE_PATTERNS: tuple[RewritePattern, ...] = (
    SinkReshapeThroughUnary(),
    SinkReshapeThroughBinary(),
    ShortenConstant(),
)
