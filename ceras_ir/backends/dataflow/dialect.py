"""
The `dataflow` dialect: the ports of a pipeline, and how much of a layer it computes at once.

A kernel on this device is a function over buffers whose body is operations of `graph` between
one `dataflow.receive` and one `dataflow.send`. Every operation is a block of the circuit.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, MemRefType, StringAttr, TensorType
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.plan import BlockLanes
from ceras_ir.backends.dataflow.storage import WeightEncoding
from ceras_ir.dialects.graph import storage_type
from ceras_ir.dialects.graph.operation import Tensor

LANES = "dataflow.lanes"
"""The discardable attribute of a convolution or product in a pipeline."""


@irdl_attr_definition
class LanesAttr(ParametrizedAttribute):
    """
    What is computed at once of a layer: `#dataflow.lanes<rows = R, filters = M, slots = S, coo>`.
    S slots of input rows are kept. Weights are stored `dense`, as `coo` (every non-zero with its
    place), or as `delta` (how many weights behind the last it is). With `parts = P` before the
    encoding, each weight meets a part of the columns after the other.
    """

    name = "dataflow.lanes"

    rows: IntAttr
    filters: IntAttr
    slots: IntAttr
    parts: IntAttr
    encoding: StringAttr

    def __init__(self, lanes: BlockLanes):
        super().__init__(
            IntAttr(lanes.rows),
            IntAttr(lanes.filters),
            IntAttr(lanes.slots),
            IntAttr(lanes.parts),
            StringAttr(lanes.encoding.value),
        )

    @property
    def lanes(self) -> BlockLanes:
        encoding = WeightEncoding(self.encoding.data)
        return BlockLanes(
            self.rows.data, self.filters.data, encoding, self.slots.data, self.parts.data
        )

    def verify(self) -> None:
        numbers = (self.rows.data, self.filters.data, self.slots.data, self.parts.data)
        if min(numbers) < 1:
            got = ", ".join(map(str, numbers))
            raise VerifyException(f"rows, filters, slots and parts must be at least 1, got {got}")
        if self.encoding.data not in list(WeightEncoding):
            known = ", ".join(WeightEncoding)
            raise VerifyException(f"an encoding is one of {known}, got {self.encoding.data}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            numbers: list[IntAttr] = []
            for name in ("rows", "filters", "slots"):
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                numbers.append(IntAttr(parser.parse_integer()))
                parser.parse_punctuation(",")
            parts = 1
            if parser.parse_optional_keyword("parts") is not None:
                parser.parse_punctuation("=")
                parts = parser.parse_integer()
                parser.parse_punctuation(",")
            return (*numbers, IntAttr(parts), StringAttr(parser.parse_identifier()))

    def print_parameters(self, printer: Printer) -> None:
        parts = "" if self.parts.data == 1 else f"parts = {self.parts.data}, "
        printer.print_string(
            f"<rows = {self.rows.data}, filters = {self.filters.data}, "
            f"slots = {self.slots.data}, {parts}{self.encoding.data}>"
        )


def lanes_of(op: Operation) -> BlockLanes | None:
    """The lanes of a layer, if they have been chosen."""
    attribute = op.attributes.get(LANES)
    return attribute.lanes if isinstance(attribute, LanesAttr) else None


def _expect_stored(buffer: SSAValue, tensor: SSAValue) -> None:
    """Refuse a buffer that does not hold the stored integers of a tensor."""
    kind, value = buffer.type, tensor.type
    assert isa(kind, MemRefType) and isa(value, Tensor)
    same = kind.get_shape() == value.get_shape()
    if not same or kind.element_type != storage_type(value.element_type):
        raise VerifyException(f"a buffer of the stored integers expected, got {kind} for {value}")


@irdl_op_definition
class ReceiveOp(IRDLOperation):
    """What the input port reads: the tensor whose stored integers are in `buffer`."""

    name = "dataflow.receive"

    buffer = operand_def(MemRefType)
    result = result_def(TensorType)

    assembly_format = "$buffer attr-dict `:` type($buffer) `->` type($result)"

    def __init__(self, buffer: SSAValue, kind: Tensor):
        super().__init__(operands=[buffer], result_types=[kind])

    def verify_(self) -> None:
        _expect_stored(self.buffer, self.result)


@irdl_op_definition
class SendOp(IRDLOperation):
    """What the output port writes: the stored integers of `value`, into `buffer`."""

    name = "dataflow.send"

    value = operand_def(TensorType)
    buffer = operand_def(MemRefType)

    assembly_format = "$value `,` $buffer attr-dict `:` type($value) `,` type($buffer)"

    def __init__(self, value: SSAValue, buffer: SSAValue):
        super().__init__(operands=[value, buffer])

    def verify_(self) -> None:
        _expect_stored(self.buffer, self.value)


@register_impls
class DataflowFunctions(InterpreterFunctions):
    """What the ports mean, in numpy."""

    @impl(ReceiveOp)
    def receive(self, interpreter: Interpreter, op: ReceiveOp, args: PythonValues):
        return (args[0].copy(),)

    @impl(SendOp)
    def send(self, interpreter: Interpreter, op: SendOp, args: PythonValues):
        args[1][...] = args[0]
        return ()


Dataflow = Dialect("dataflow", [ReceiveOp, SendOp], [LanesAttr])
