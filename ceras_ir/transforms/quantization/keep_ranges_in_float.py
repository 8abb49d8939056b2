"""
Keep in float the operations that lead to logarithms, divisors and roots of squares: the rule
`ranges` of `keep-in-float`.
"""

from collections.abc import Collection, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import Elementwise
from ceras_ir.network.function import keeps_scale, states_of
from ceras_ir.network.storage import keep_in_float
from ceras_ir.transforms.graph.fuse import split_activation
from ceras_ir.transforms.pass_kinds import FloatNetworkPass

SMALL_REASON = "leads to a logarithm, a divisor or a root of squares, where small values matter"

FRONT_REASON = "computes a spectrum of the input, in which small values matter"

SPECTRAL = (graph.Function.LOG, graph.Function.SQRT)

FRONT_FUNCTIONS = (graph.Function.ABS, graph.Function.SQRT, graph.Function.CLIP)
"""The functions between the layers of a spectrum."""


class RangeRule(FloatNetworkPass):
    """
    Keep in float each logarithm, quotient with its arc tangent, and root of squares, and the
    elementwise operations, reductions, averages, softmax and data movement from a layer to them.

    Examples are magnitudes of a spectrum, angles, and variances of an instance normalization. The
    operations get `graph.precision = "f32"`. The reasons are:

    1. A logarithm has equal results for equal ratios, and so has a quotient for its divisor, but
       the steps of int8 are equal for small and large values.
    2. Squares double the dynamic range, and a root halves it again: 255 steps of a square are 16
       steps of the root. If a layer, such as the filters of a spectrum, uses squares, both also
       remain in float.
    3. Operations from a logarithm to an exponential, and the exponential, also remain in float: in
       a sum of logarithms, a step of int8 would be a factor.
    4. Products of inputs with constants from which a logarithm or a root of squares is computed,
       such as a Fourier transform and the filters of a spectrum, also remain in float: bins differ
       by orders of magnitude, and the rounding of a weight in a large bin exceeds a small bin. A
       divisor does not count, because a normalization follows many first layers.
    5. A layer before them can end in a clip with a positive lower bound, such as 1e-7. The bound
       would round to 0 and the logarithm to minus infinity, so the clip becomes a float operation.

    Changes no value.

    Before:

        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %b = graph.unary <abs> %a : tensor<1x2xf32>
        %y = graph.unary <log> %b : tensor<1x2xf32>

    After:

        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %b = graph.unary <abs> %a {graph.precision = "f32", graph.float_reason =
            "leads to a logarithm, a divisor or a root of squares, where small values matter"}
            : tensor<1x2xf32>
        %y = graph.unary <log> %b {graph.precision = "f32", graph.float_reason =
            "leads to a logarithm, a divisor or a root of squares, where small values matter"}
            : tensor<1x2xf32>
    """

    name = "ranges"

    def change(self, main: FuncOp) -> None:
        ops = list(main.body.block.ops)
        logarithms, front = _logarithms(ops), _front_ends(main)
        leading: set[SSAValue] = set()
        # Values that lead to a logarithm, or to a root of squares that is no divisor.
        spectral: set[SSAValue] = set()
        for inner in reversed(ops):
            reason, sensitive = SMALL_REASON, list[SSAValue]()
            is_spectral = not spectral.isdisjoint(inner.results)
            if leading.isdisjoint(inner.results):
                sensitive = list(_sensitive_operands(inner, logarithms))
                is_spectral = isinstance(inner, graph.UnaryOp) and inner.function.data in SPECTRAL
            elif _keeps_sensitivity(inner):
                sensitive = list(inner.operands)
            elif isinstance(inner, graph.LinearOperation):
                if (bounds := _positive_bounds(inner)) is not None:
                    assert isinstance(inner, graph.Conv2dOp | graph.MatmulOp)
                    keep_in_float(split_activation(inner, bounds), SMALL_REASON)
                if is_spectral and inner.results[0] in front:
                    reason, sensitive = FRONT_REASON, [inner.input]
                elif _has_squares(inner.input):
                    sensitive = [inner.input]
            if sensitive:
                leading.update(sensitive)
                spectral.update(sensitive if is_spectral else ())
                keep_in_float(inner, reason)


def _sensitive_operands(op: Operation, logarithms: Collection[SSAValue]) -> Sequence[SSAValue]:
    match op:
        case graph.BinaryOp(function=graph.Binary.DIV, rhs=divisor):
            return [] if isinstance(divisor.owner, graph.ConstantOp) else [divisor]
        case graph.UnaryOp(input=value):
            match op.function.data:
                case graph.Function.LOG:
                    counts = True
                case graph.Function.EXP:
                    counts = value in logarithms
                case graph.Function.SQRT:
                    counts = _has_squares(value)
                case graph.Function.ATAN:
                    counts = _is_quotient(value)
                case _:
                    counts = False
            return [value] if counts else []
        case _:
            return []


def _positive_bounds(op: Operation) -> graph.FunctionAttr | None:
    """
    Return the activation of a layer if it is a clip with a positive lower bound, which int8 would
    round to 0; otherwise `None`.
    """
    function = op.activation if isinstance(op, graph.LinearOperation) else None
    bounds = None if function is None else function.clip_range
    return function if bounds is not None and bounds[0] > 0 else None


def _is_quotient(value: SSAValue) -> bool:
    match value.owner:
        case graph.BinaryOp(function=graph.Binary.DIV, rhs=divisor):
            return not isinstance(divisor.owner, graph.ConstantOp)
        case graph.UnaryOp(function=graph.FunctionAttr(data=graph.Function.SQRT), input=inner):
            return _is_quotient(inner)
        case Operation() as op if keeps_scale(op):
            return any(map(_is_quotient, op.operands))
        case _:
            return False


def _logarithms(ops: Sequence[Operation]) -> set[SSAValue]:
    found = set[SSAValue]()
    for op in ops:
        kind = op.function.data if isinstance(op, graph.UnaryOp) else None
        leads = _keeps_sensitivity(op) and kind is not graph.Function.EXP
        if kind is graph.Function.LOG or (leads and not found.isdisjoint(op.operands)):
            found.update(op.results)
    return found


def _keeps_sensitivity(op: Operation) -> bool:
    """
    Return whether the operands of `op` must be kept in float too if the result must be: `op` is
    elementwise, a reduction, an average, a softmax or data movement, but not a convolution or
    matrix product.
    """
    if isinstance(op, graph.ReduceOp | graph.SoftmaxOp) or keeps_scale(op):
        return True
    if isinstance(op, graph.Pool2dOp):
        return op.function is graph.Pool.AVERAGE
    return op.has_trait(Elementwise, value_if_unregistered=False)


def _has_squares(value: SSAValue) -> bool:
    """
    Return whether a value is computed from a product of a value with itself, without a convolution
    or matrix product in between.
    """
    pending, visited = [value], set[SSAValue]()
    while pending:
        at = pending.pop()
        if at in visited or not isinstance(op := at.owner, Operation):
            continue
        if not _keeps_sensitivity(op):
            continue
        visited.add(at)
        if isinstance(op, graph.BinaryOp) and op.function is graph.Binary.MUL and op.lhs is op.rhs:
            return True
        pending += op.operands
    return False


def _front_ends(main: FuncOp) -> set[SSAValue]:
    """
    Return the values that are computed from graph inputs only by operations that can be part of a
    spectrum: data movement, sums, products, magnitudes, and layers with constant weights without an
    activation.
    """
    states = {state.argument for state in states_of(main)}
    found: set[SSAValue] = {v for v in main.body.block.args if v not in states}
    for op in main.body.block.ops:
        computed = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
        if computed and all(v in found for v in computed) and _is_of_front_end(op):
            found.update(op.results)
    return found


def _is_of_front_end(op: Operation) -> bool:
    match op:
        case graph.LinearOperation():
            bounds = None if op.activation is None else op.activation.clip_range
            constant = isinstance(op.weights.owner, graph.ConstantOp)
            return constant and (op.activation is None or (bounds is not None and bounds[0] > 0))
        case graph.UnaryOp():
            return op.function.data in FRONT_FUNCTIONS
        case graph.BinaryOp():
            return op.activation is None
        case _:
            return isinstance(op, graph.ReduceOp) or keeps_scale(op)
