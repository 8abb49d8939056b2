"""
Decide whether the circuits of the FPGA can execute an operation, with a rule per function.

A rule returns None if the condition in its docstring is satisfied; otherwise, it returns a sentence
with the finding and the limit. The sentence becomes `mem.reason` and a line of the report. The
docstrings are printed in the documentation.
"""

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.circuits import number
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Pool, element_of, quantized_element, shape_of
from ceras_ir.dialects.quant import BYTE_BITS, RequantAttr, Rounding, UniformType
from ceras_ir.interpreters.selection import nearest_indices

FPGA = "fpga"
"""The name of the accelerator in `#mem.device`."""

_LIMITS = "runtime/fpga.h"
MAX_PATCH = number(_LIMITS, "FPGA_MAX_PATCH")
MAX_FPGA_SHIFT = number(_LIMITS, "FPGA_MAX_SHIFT")
MAX_LEFT_SHIFT = number(_LIMITS, "FPGA_MAX_LEFT_SHIFT")
MAX_FPGA_EXTENT = number(_LIMITS, "FPGA_MAX_EXTENT")
MAX_FPGA_TAPS = number(_LIMITS, "FPGA_MAX_TAPS")
MAX_TABLES = number(_LIMITS, "FPGA_MAX_TABLES")
MAX_FPGA_RANK = number(_LIMITS, "FPGA_MAX_RANK")
MAX_LINE_BYTES = number(_LIMITS, "FPGA_LINE_BYTES")

Rule = Callable[[Operation], str | None]


MOVERS = graph.ConcatOp | graph.SliceOp | graph.TransposeOp | graph.ResizeOp | graph.ReshapeOp
"""
The operations that the copy circuit of the FPGA executes. Operands that are already stored in the
result are not copied.
"""


def has_a_circuit(op: Operation) -> str | None:
    """
    The operation must be conv2d, matmul, pool2d, binary, lookup, concat, slice, transpose, resize
    or reshape.
    """
    computes = graph.LinearOperation | graph.Pool2dOp | graph.BinaryOp | graph.LookupOp
    if isinstance(op, computes | MOVERS):
        return None
    return f"the FPGA has no circuit for {op.name}"


def values_are_int8(op: Operation) -> str | None:
    """
    All operands except the bias, and the result, must be stored as int8 with a per-tensor scale.
    Constants may have less than 8 bits. Weights may have per-channel scales. The result of a lookup
    table may be float.
    """
    linear = op if isinstance(op, graph.LinearOperation) else None
    tabulated = isinstance(op, graph.LookupOp) or (linear is not None and linear.table is not None)
    for value in (*op.operands, *op.results):
        if linear is not None and value is linear.bias:
            continue
        element = element_of(value)
        if not isinstance(element, UniformType):
            if tabulated and value in op.results:
                continue
            if isinstance(op, MOVERS) and _copies_results_of_circuits(op):
                continue
            kind = "float" if isinstance(element, Float32Type) else element
            remedy = ": quantize all operands and the result" if kind == "float" else ""
            return f"the FPGA computes on int8, got {kind}{remedy}"
        by_axis = element.is_per_axis and (linear is None or value is not linear.weights)
        narrow = element.width < BYTE_BITS and _is_constant(value)
        if not (narrow or element.width == BYTE_BITS) or not element.is_signed or by_axis:
            return f"the FPGA computes on int8 with a per-tensor scale, got {element}"
    return None


def _copies_results_of_circuits(op: Operation) -> bool:
    # Circuits compute all floats that `op` copies, possibly through other copies.
    visited, pending = {op}, [op]
    while pending:
        for value in pending.pop().operands:
            if not isinstance(producer := value.owner, Operation):
                return False
            if producer in visited:
                continue
            visited.add(producer)
            is_copy = isinstance(producer, MOVERS) and quantized_element(value) is None
            rules = [rule for rule in FPGA_RULES if not (is_copy and rule is values_are_int8)]
            if any(rule(producer) is not None for rule in rules):
                return False
            if is_copy:
                pending.append(producer)
    return True


def is_int8(value: SSAValue) -> bool:
    """Return whether a value is stored as int8 with a per-tensor scale."""
    element = quantized_element(value)
    if element is None or element.is_per_axis:
        return False
    return element.is_signed and element.storage.width.data == 8


def tables_fit(op: Operation) -> str | None:
    """A layer may have at most 16 tables of 256 entries."""
    if not isinstance(op, graph.LinearOperation | graph.LookupOp) or (tables := op.tables) is None:
        return None
    if len(tables) > MAX_TABLES:
        return f"the FPGA has {MAX_TABLES} tables per layer, got {len(tables)}"
    return None


def copies_fit(op: Operation) -> str | None:
    """
    The operands of data movement operations must be computed and have at most 5 dimensions. A
    resize must repeat each row and column an integer number of times.
    """
    if not isinstance(op, MOVERS):
        return None
    if any(map(_is_constant, op.operands)):
        return "the FPGA copies only computed values, got a constant"
    if isinstance(op, graph.ReshapeOp):
        return None
    if (rank := len(shape_of(op.result))) > MAX_FPGA_RANK:
        return f"the FPGA copies tensors of at most {MAX_FPGA_RANK} dimensions, got {rank}"
    if isinstance(op, graph.ResizeOp) and repetitions(op) is None:
        return "the FPGA repeats rows and columns an integer number of times"
    return None


def repetitions(op: graph.ResizeOp) -> tuple[int, int] | None:
    """
    Return the number of times that a resize repeats each row and each column, such as (2, 2), or
    `None` if it is not such a repetition.
    """
    if op.function is not graph.Resize.NEAREST:
        return None
    factors: list[int] = []
    source, target = shape_of(op.input), shape_of(op.result)
    for axis, scale in zip((1, 2), op.factors, strict=True):
        factor, rest = divmod(target[axis], source[axis])
        found = nearest_indices(
            source[axis], target[axis], scale, op.coordinates.data, op.rounding.data
        )
        if rest or [int(i) for i in found] != [i // factor for i in range(target[axis])]:
            return None
        factors.append(factor)
    return factors[0], factors[1]


def weights_have_no_zero_point(op: Operation) -> str | None:
    """Weights must not have a zero point."""
    if not isinstance(op, graph.LinearOperation):
        return None
    element = quantized_element(op.weights)
    points = [] if element is None else [point.data for point in element.zero_points]
    if any(points):
        return f"the FPGA requires weights without zero point, got {next(filter(None, points))}"
    return None


def extents_fit(op: Operation) -> str | None:
    """Dimensions must be at most 32768."""
    for value in (op.operands[0], *op.results):
        if (largest := max(shape_of(value), default=1)) > MAX_FPGA_EXTENT:
            return f"a dimension of {largest} exceeds the {MAX_FPGA_EXTENT} of the FPGA's counters"
    return None


def rounds_to_nearest(op: Operation) -> str | None:
    """A requantization must round half up or half to even, with a shift of at most 47."""
    if (requant := _requant(op)) is None:
        return None
    if requant.mode not in (Rounding.HALF_UP, Rounding.HALF_EVEN):
        return f"the FPGA rounds half up or half to even, got {requant.mode.value}"
    if requant.shift.data > MAX_FPGA_SHIFT:
        return f"the FPGA shifts by at most {MAX_FPGA_SHIFT}, got {requant.shift.data}"
    return None


def adds_a_zero_point(op: Operation) -> str | None:
    """The zero point that a requantization adds must be in the range of int8."""
    if (requant := _requant(op)) is None or -128 <= requant.zero_point.data <= 127:
        return None
    return f"the FPGA adds a zero point of int8, got {requant.zero_point.data}"


def rescales_by_a_shift(op: Operation) -> str | None:
    """
    Multipliers of requantizations must be powers of two 2^m, except in an average. The right shift
    minus m must be at least -8.
    """
    requant = _requant(op)
    if requant is None or isinstance(op, graph.Pool2dOp):
        return None
    if isinstance(op, graph.BinaryOp) and op.multipliers != (1, 1):
        return f"the FPGA shifts operands, got the multipliers {list(op.multipliers)}"
    for multiplier in requant.multipliers:
        if multiplier & (multiplier - 1):
            return f"the FPGA requantizes by a shift, got the multiplier {multiplier}"
    if (left := -min(requant.net_shifts)) > MAX_LEFT_SHIFT:
        return f"the FPGA shifts left by at most {MAX_LEFT_SHIFT}, got {left}"
    return None


def is_dense_or_depthwise(op: Operation) -> str | None:
    """A convolution must be depthwise or have a single group."""
    if isinstance(op, graph.Conv2dOp) and op.group_count != 1 and not graph.is_depthwise(op):
        outputs, channels = shape_of(op.weights)[0], shape_of(op.input)[3]
        return (
            "the FPGA requires depthwise convolutions or a single group, got "
            f"{channels} channels in {op.group_count} groups to {outputs}"
        )
    return None


def weights_and_bias_are_known(op: Operation) -> str | None:
    """
    The bias, and the weights of a convolution, must be constants. The weights of a matrix product
    may be computed: the CPU packs them before each run.
    """
    if not isinstance(op, graph.LinearOperation):
        return None
    if op.bias is not None and not _is_constant(op.bias):
        return "the FPGA requires a constant bias"
    if isinstance(op, graph.Conv2dOp) and not _is_constant(op.weights):
        return "the FPGA requires constant weights of a convolution"
    return None


def packed_operands(op: Operation) -> tuple[int, ...]:
    """
    Return the indices of the operands that the CPU must reorder before each run: `(1,)` for weights
    that are not constant, otherwise `()`.
    """
    computed = isinstance(op, graph.LinearOperation) and not _is_constant(op.weights)
    return (1,) if computed else ()


def patch_fits(op: Operation) -> str | None:
    """
    A layer may have at most 65536 products per output (kernel height x width x channels), and at
    most 32768 outputs.
    """
    if not isinstance(op, graph.LinearOperation):
        return None
    outputs, *patch = shape_of(op.weights)
    if (products := prod(patch)) > MAX_PATCH:
        return f"{products} products per output exceed the {MAX_PATCH} of the FPGA's counters"
    if outputs > MAX_FPGA_EXTENT:
        return f"{outputs} outputs exceed the {MAX_FPGA_EXTENT} of the FPGA's counters"
    return None


def lines_fit(op: Operation) -> str | None:
    """
    The rows of a window must fit the line buffer of 262144 bytes, except for 1x1 and depthwise
    convolutions.
    """
    if not isinstance(op, graph.Conv2dOp) or is_product(op) or graph.is_depthwise(op):
        return None
    height, dilation = shape_of(op.weights)[1], op.dilations.get_values()[0]
    _, _, width, channels = shape_of(op.input)
    if (size := ((height - 1) * dilation + 1) * width * channels) > MAX_LINE_BYTES:
        return f"rows of {size} bytes exceed the {MAX_LINE_BYTES} of the FPGA's line buffer"
    return None


def is_product(op: graph.Conv2dOp) -> bool:
    """
    Return whether a convolution has 1x1 windows without stride and padding, so that it is a matrix
    product on pixels, which needs no line buffer.
    """
    extents = (*shape_of(op.weights)[1:3], *op.strides.get_values())
    return set(extents) == {1} and not any(op.padding.get_values())


def averages_have_equal_divisors(op: Operation) -> str | None:
    """
    An average must divide all windows by the same number. A window may have at most 65536 elements.
    """
    if not isinstance(op, graph.Pool2dOp):
        return None
    if (taps := prod(op.kernel.get_values())) > MAX_FPGA_TAPS:
        return f"a window of {taps} elements exceeds the {MAX_FPGA_TAPS} that the FPGA adds"
    if op.function is Pool.AVERAGE and any(op.padding.get_values()) and not op.includes_padding:
        return "the FPGA divides all windows by the same number, but padding is not counted"
    return None


def adds_equal_shapes(op: Operation) -> str | None:
    """A binary operation must be `add`, with operands of equal shape."""
    if not isinstance(op, graph.BinaryOp):
        return None
    if op.function is not Binary.ADD:
        return f"the FPGA has no circuit for an elementwise '{op.function.value}'"
    if shape_of(op.lhs) != shape_of(op.rhs):
        return f"the FPGA adds equal shapes, got {shape_of(op.lhs)} and {shape_of(op.rhs)}"
    return None


FPGA_RULES: tuple[Rule, ...] = (
    has_a_circuit,
    values_are_int8,
    tables_fit,
    copies_fit,
    weights_have_no_zero_point,
    extents_fit,
    rounds_to_nearest,
    adds_a_zero_point,
    rescales_by_a_shift,
    is_dense_or_depthwise,
    weights_and_bias_are_known,
    patch_fits,
    lines_fit,
    averages_have_equal_divisors,
    adds_equal_shapes,
)


def why_not(op: Operation) -> str | None:
    """
    Return the reason of the first rule of the FPGA that `op` breaks, or `None` if the FPGA can
    execute it.
    """
    return next((reason for rule in FPGA_RULES if (reason := rule(op)) is not None), None)


def _requant(op: Operation) -> RequantAttr | None:
    if isinstance(op, graph.LinearOperation | graph.Pool2dOp | graph.BinaryOp):
        return op.requant
    return None


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, graph.ConstantOp)
