"""
What the engine runs at all, on the CPU, one rule per function.

A rule returns None where it is met, and otherwise one sentence that names what was found and
what the engine takes. The engine refuses the same when it loads a file (`runtime/`);
here the node is known by its name. The docstrings are printed in the documentation.
"""

from collections.abc import Callable
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.circuits import number
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import is_plain, quantized_element, stored_element
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.memory.slices import row_bytes

MAX_WINDOW = number("runtime/format.h", "MAX_WINDOW")
MAX_BYTES = number("runtime/format.h", "MAX_ARENA_BYTES")
MAX_STATE_WEIGHTS = number("runtime/format.h", "MAX_STATE_WEIGHTS")

Rule = Callable[[Operation], str | None]


def operands_are_narrow(op: Operation) -> str | None:
    """Quantized elementwise operations take operands of 8 or 16 bits."""
    if not isinstance(op, graph.BinaryOp) or is_plain(op.result):
        return None
    for value in op.operands:
        if _bits(value) not in (None, 8, 16):
            return f"the engine takes operands of 8 or 16 bits, got {_bits(value)}"
    return None


def sums_are_of_bytes(op: Operation) -> str | None:
    """
    A quantized sum of products takes 8-bit weights, and 8 bits or 16 without zero point. Its
    residual is multiplied by one number in all channels.
    """
    if not isinstance(op, graph.LinearOperation) or not op.is_quantized:
        return None
    element = stored_element(op.input)
    if _bits(op.weights) != 8:
        return f"the engine takes weights of 8 bits, got {_bits(op.weights)}"
    is_wide = _bits(op.input) == 16 and element.is_signed and not element.zero_point
    if _bits(op.input) != 8 and not is_wide:
        return (
            f"the engine takes an input of 8 bits, or of i16 without zero point, got {element}; "
            "quantize to 8 bits, to int16 around zero, or compile for target c"
        )
    if op.residual is not None and _bits(op.residual) not in (8, 16):
        return f"the engine takes a residual of 8 or 16 bits, got {_bits(op.residual)}"
    if len(factors := _residual_factors(op)) > 1:
        return (
            "the engine multiplies the residual of all channels by one number, got "
            f"{', '.join(map(str, sorted(factors)[:3]))}: take it out of the layer "
            "(split-residual), or quantize with one scale of weights"
        )
    return None


def _residual_factors(op: graph.LinearOperation) -> set[int]:
    """What channels multiply their residual by in the end: one, if all have the same scales."""
    if op.residual is None or op.requant is None:
        return set()
    channels = graph.shape_of(op.weights)[0]
    multipliers, shifts = (
        values * channels if len(values) == 1 else values
        for values in (tuple(op.requant.multipliers), op.residual_shifts)
    )
    return {m << shift for m, shift in zip(multipliers, shifts, strict=True)}


def borders_fit(op: Operation) -> str | None:
    """The elements of a constant border are floats, or integers of 32 bits."""
    if not isinstance(op, graph.PadOp) or isinstance(value := op.stored_value, float):
        return None
    if -(1 << 31) <= value < 1 << 31:
        return None
    return f"the engine takes borders of 32 bits, got {value}"


def recurrent_weights_are_constant(op: Operation) -> str | None:
    """Weights of recurrent layers are constant, and at most 33554432."""
    if not isinstance(op, graph.RecurrenceOp):
        return None
    if not isinstance(op.weights.owner, graph.ConstantOp):
        return (
            "the engine takes constant weights of a recurrent layer; make them initializers, or "
            "compile for target c"
        )
    if (count := prod(graph.shape_of(op.weights))) > MAX_STATE_WEIGHTS:
        return f"the engine takes at most {MAX_STATE_WEIGHTS} recurrent weights, got {count}"
    return None


def rows_are_replaced(op: Operation) -> str | None:
    """A put replaces rows, and combines none with what is there."""
    if not isinstance(op, graph.PutOp) or op.function is None:
        return None
    return (
        f"the engine puts rows in place of others, got '{op.function.value}' of both; leave it to "
        "the application, or compile for target c"
    )


def sizes_fit(op: Operation) -> str | None:
    """Tensors have at most 2 GiB; strides, padding, dilations and kernels are at most 32768."""
    for value in (*op.operands, *op.results):
        if (size := byte_size(value)) > MAX_BYTES:
            return f"the engine takes tensors of at most {MAX_BYTES} bytes, got {size}"
    if isinstance(op, graph.Conv2dOp | graph.Pool2dOp):
        fields = [op.strides, op.padding, op.dilations]
        if isinstance(op, graph.Pool2dOp):
            fields.append(op.kernel)
        greatest = max(int(v) for field in fields for v in field.get_values())
        if isinstance(op, graph.Conv2dOp):
            greatest = max(greatest, *graph.shape_of(op.weights)[1:3])
        if greatest > MAX_WINDOW:
            return f"the engine takes window attributes of at most {MAX_WINDOW}, got {greatest}"
    return None


def why_without_gaps(op: Operation, value: SSAValue) -> str | None:
    """
    Every operation writes and reads rows with gaps between them (columns of a concatenation),
    but for a reshape that changes the rows; weights have none.
    """
    if isinstance(op, graph.LinearOperation) and value is op.weights:
        return "weights have no gaps between rows"
    if isinstance(op, graph.ReshapeOp) and row_bytes(op.input) != row_bytes(op.result):
        return "it is reshaped to other rows"
    return None


RULES: tuple[Rule, ...] = (
    operands_are_narrow,
    sums_are_of_bytes,
    borders_fit,
    recurrent_weights_are_constant,
    rows_are_replaced,
    sizes_fit,
)


def why_refused(op: Operation) -> str | None:
    """None where the engine can run `op`; otherwise the first rule that it breaks, in words."""
    return next((reason for rule in RULES if (reason := rule(op)) is not None), None)


def _bits(value: SSAValue) -> int | None:
    element = quantized_element(value)
    return None if element is None else element.storage.width.data
