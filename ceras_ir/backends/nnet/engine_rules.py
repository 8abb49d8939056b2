"""
Decide whether the engine can execute an operation on the CPU, with a rule per function.

A rule returns None if the condition in its docstring is satisfied; otherwise, it returns a sentence
with the finding and the limit. The engine refuses the same operations when it loads a file
(`runtime/`), but only the compiler knows the node. The docstrings are printed in the documentation.
"""

from collections.abc import Callable
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.circuits import number
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import is_plain, quantized_element, stored_element
from ceras_ir.dialects.graph.operation import NO_KERNELS, GraphOperation
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.memory.slices import row_bytes

MAX_WINDOW = number("runtime/format.h", "MAX_WINDOW")
MAX_ARENA_BYTES = number("runtime/format.h", "MAX_ARENA_BYTES")
MAX_STATE_WEIGHTS = number("runtime/format.h", "MAX_STATE_WEIGHTS")

MAX_OPERAND_BITS = 16

Rule = Callable[[Operation], str | None]


def operands_are_narrow(op: Operation) -> str | None:
    """Quantized elementwise operations must have operands of at most 16 bits."""
    if not isinstance(op, graph.BinaryOp) or is_plain(op.result):
        return None
    for value in op.operands:
        if (_bits(value) or 0) > MAX_OPERAND_BITS:
            return f"the engine requires operands of at most 16 bits, got {_bits(value)}"
    return None


def quantizations_fill_bytes(op: Operation) -> str | None:
    """A quantization must have a result of 8 bits or more."""
    if not isinstance(op, graph.QuantizeOp):
        return None
    # The engine clamps to the range of the stored bytes.
    bits = _bits(op.result)
    if bits is not None and bits < BYTE_BITS:
        return f"the engine quantizes to 8 bits or more, got {bits}"
    return None


def products_are_narrow(op: Operation) -> str | None:
    """
    Quantized convolutions and matrix products must have weights of at most 8 bits, and an input of
    8 bits, or of 16 bits without zero point. All channels must multiply the residual by the same
    factor.
    """
    if not isinstance(op, graph.LinearOperation) or not op.is_quantized:
        return None
    element = stored_element(op.input)
    if (_bits(op.weights) or 0) > BYTE_BITS:
        return f"the engine requires weights of at most 8 bits, got {_bits(op.weights)}"
    is_wide = _bits(op.input) == 16 and element.is_signed and not element.zero_point
    if _bits(op.input) != 8 and not is_wide:
        return (
            f"the engine requires an input of 8 bits, or of i16 without zero point, got {element}; "
            "quantize to 8 bits, to int16 without zero point, or compile for target c"
        )
    if op.residual is not None and _bits(op.residual) not in (8, 16):
        return f"the engine requires a residual of 8 or 16 bits, got {_bits(op.residual)}"
    if len(factors := _residual_factors(op)) > 1:
        return (
            "the engine multiplies the residual of all channels by the same factor, got "
            f"{', '.join(map(str, sorted(factors)[:3]))}: separate the residual from the layer "
            "(split-residual), or quantize weights per-tensor"
        )
    return None


def _residual_factors(op: graph.LinearOperation) -> set[int]:
    if op.residual is None or op.requant is None:
        return set()
    channels = graph.shape_of(op.weights)[0]
    multipliers, shifts = (
        values * channels if len(values) == 1 else values
        for values in (tuple(op.requant.multipliers), op.residual_shifts)
    )
    return {m << shift for m, shift in zip(multipliers, shifts, strict=True)}


def pad_values_fit(op: Operation) -> str | None:
    """The value of a constant padding must be a float or an integer of 32 bits."""
    if not isinstance(op, graph.PadOp) or isinstance(value := op.stored_value, float):
        return None
    if -(1 << 31) <= value < 1 << 31:
        return None
    return f"the engine requires padding values of 32 bits, got {value}"


def recurrent_weights_are_constant(op: Operation) -> str | None:
    """Recurrent layers must have constant weights, at most 33554432."""
    if not isinstance(op, graph.RecurrenceOp):
        return None
    if not isinstance(op.weights.owner, graph.ConstantOp):
        return (
            "the engine requires constant weights of a recurrent layer; make them initializers, or "
            "compile for target c"
        )
    if (count := prod(graph.shape_of(op.weights))) > MAX_STATE_WEIGHTS:
        return f"the engine accepts at most {MAX_STATE_WEIGHTS} recurrent weights, got {count}"
    return None


def puts_replace_rows(op: Operation) -> str | None:
    """A put must replace rows. It cannot combine new rows with existing rows."""
    if not isinstance(op, graph.PutOp) or op.function is None:
        return None
    return (
        f"the engine only replaces rows, got '{op.function.value}' of old and new rows; leave it "
        "to the application, or compile for target c"
    )


def sizes_fit(op: Operation) -> str | None:
    """
    Tensors may have at most 2 GiB; strides, padding, dilations and kernels must be at most 32768.
    """
    for value in (*op.operands, *op.results):
        if (size := byte_size(value)) > MAX_ARENA_BYTES:
            return f"the engine accepts tensors of at most {MAX_ARENA_BYTES} bytes, got {size}"
    if isinstance(op, graph.Conv2dOp | graph.Pool2dOp):
        is_pool = isinstance(op, graph.Pool2dOp)
        kernel = op.kernel.get_values() if is_pool else graph.shape_of(op.weights)[1:3]
        fields = (op.strides, op.padding, op.dilations)
        largest = max(*kernel, *(v for field in fields for v in field.get_values()))
        if largest > MAX_WINDOW:
            return f"the engine accepts window attributes of at most {MAX_WINDOW}, got {largest}"
    return None


def why_without_gaps(op: Operation, value: SSAValue) -> str | None:
    """
    Return why `op` cannot access the operand or result `value` if there are unused bytes (gaps)
    between its rows in memory, or `None` if it can.

    An operand of a concatenation along the last axis has such gaps if it is stored in the result.
    All operations support them, except for weights and for reshapes that change the rows.
    """
    if isinstance(op, graph.LinearOperation) and value is op.weights:
        return "weights have no gaps between rows"
    if isinstance(op, graph.ReshapeOp) and row_bytes(op.input) != row_bytes(op.result):
        return "the reshape changes the rows"
    return None


ENGINE_RULES: tuple[Rule, ...] = (
    operands_are_narrow,
    quantizations_fill_bytes,
    products_are_narrow,
    pad_values_fit,
    recurrent_weights_are_constant,
    puts_replace_rows,
    sizes_fit,
)


def why_refused(op: Operation) -> str | None:
    """
    Return the reason of the first rule of the engine that `op` breaks, or `None` if `op` breaks no
    rule.
    """
    if isinstance(op, GraphOperation) and op.has_kernel_form:
        return NO_KERNELS
    return next((reason for rule in ENGINE_RULES if (reason := rule(op)) is not None), None)


def _bits(value: SSAValue) -> int | None:
    element = quantized_element(value)
    return None if element is None else element.storage.width.data
