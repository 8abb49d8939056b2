"""
What the engine runs at all, on the CPU, one rule per function.

A rule returns None where it is met, and otherwise one sentence that names what was found and
what the engine takes. The engine refuses the same when it loads a file (`runtime/`);
here the node is known by its name. The docstrings are printed in the documentation.
"""

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.encoding import ENCODERS
from ceras_ir.backends.nnet.layers.binary import BINARIES
from ceras_ir.backends.nnet.layers.resizing import repeats_image
from ceras_ir.backends.nnet.limits import limit
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import element_of, quantized_element, stored_element
from ceras_ir.transforms.memory.analysis.liveness import byte_size
from ceras_ir.transforms.memory.analysis.slices import row_bytes

MAX_WINDOW = limit("format.h", "MAX_WINDOW")
MAX_BYTES = limit("format.h", "MAX_ARENA_BYTES")
MAX_STATE_WEIGHTS = limit("format.h", "MAX_STATE_WEIGHTS")

Rule = Callable[[Operation], str | None]


def binaries_are_known(op: Operation) -> str | None:
    """
    Elementwise operations of two operands are add, sub and mul, quantized on 8 or 16 bits, and of
    floats also div, min and max.
    """
    if not isinstance(op, graph.BinaryOp):
        return None
    if op.function not in BINARIES:
        known = ", ".join(kind.value for kind in BINARIES)
        return f"the engine has no elementwise '{op.function.value}', of floats it has {known}"
    for value in op.operands:
        if _bits(value) not in (None, 8, 16):
            return f"the engine takes operands of 8 or 16 bits, got {_bits(value)}"
    return None


def sums_are_of_bytes(op: Operation) -> str | None:
    """
    A quantized sum of products takes 8-bit weights, and 8 bits or 16 without zero point. Its
    residual has one shift.
    """
    if not isinstance(op, graph.LinearOperation) or not op.is_quantized:
        return None
    element = stored_element(op.input)
    if _bits(op.weights) != 8:
        return f"the engine takes weights of 8 bits, got {_bits(op.weights)}"
    is_wide = _bits(op.input) == 16 and element.is_signed and not element.zero_point
    if _bits(op.input) != 8 and not is_wide:
        return f"the engine takes an input of 8 bits, or of i16 without zero point, got {element}"
    if op.residual is not None and _bits(op.residual) not in (8, 16):
        return f"the engine takes a residual of 8 or 16 bits, got {_bits(op.residual)}"
    if len(op.residual_shifts) > 1:
        return (
            "the engine shifts a residual by one number of bits: take it out of the layer "
            "(split-residual), or quantize with one scale of weights"
        )
    return None


def borders_are_of_images(op: Operation) -> str | None:
    """Borders that repeat elements are above, below, left and right of images [N,H,W,C]."""
    if not isinstance(op, graph.PadOp) or op.function is graph.Pad.CONSTANT or repeats_image(op):
        return None
    low, high = (list(field.get_values()) for field in (op.low, op.high))
    return (
        f"the engine repeats rows and columns of [N,H,W,C] at their border, got {low} elements "
        f"before and {high} after; a constant border may be anywhere"
    )


def recurrent_weights_are_constant(op: Operation) -> str | None:
    """Weights of recurrent layers are constant, and at most 33554432."""
    if not isinstance(op, graph.RecurrenceOp):
        return None
    if not isinstance(op.weights.owner, graph.ConstantOp):
        return "the engine takes constant weights of a recurrent layer"
    if (count := prod(graph.shape_of(op.weights))) > MAX_STATE_WEIGHTS:
        return f"the engine takes at most {MAX_STATE_WEIGHTS} recurrent weights, got {count}"
    return None


MOVED = graph.ReshapeOp | graph.SliceOp | graph.ConcatOp | graph.TransposeOp


def rows_are_replaced(op: Operation) -> str | None:
    """A put replaces rows, and combines none with what is there."""
    if not isinstance(op, graph.PutOp) or op.function is None:
        return None
    return f"the engine puts rows in place of others, got '{op.function.value}' of both"


def wide_integers_are_indices(op: Operation) -> str | None:
    """
    Integers of 64 bits are computed or inputs, take and put read them as indices, and reshapes,
    slices, concatenations and transposes move them.
    """
    wide = [v for v in (*op.operands, *op.results) if element_of(v) == i64]
    if not wide or type(op) not in ENCODERS:
        return None
    rows = isinstance(op, graph.TakeOp | graph.PutOp) and op.input not in wide
    if not rows and not isinstance(op, MOVED):
        return "the engine takes integers of 64 bits as indices of rows alone, got i64"
    if any(isinstance(value.owner, graph.ConstantOp) for value in wide):
        return "the engine takes integers of 64 bits that are no constants"
    return None


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
    binaries_are_known,
    sums_are_of_bytes,
    borders_are_of_images,
    recurrent_weights_are_constant,
    rows_are_replaced,
    wide_integers_are_indices,
    sizes_fit,
)


def why_refused(op: Operation) -> str | None:
    """None where the engine can run `op`; otherwise the first rule that it breaks, in words."""
    return next((reason for rule in RULES if (reason := rule(op)) is not None), None)


def _bits(value: SSAValue) -> int | None:
    element = quantized_element(value)
    return None if element is None else element.storage.width.data
