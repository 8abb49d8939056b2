"""
The `dataflow` dialect: the ports of a pipeline, and the lanes of each layer.

A kernel is a function on buffers, with operations of `graph` between a `dataflow.receive` and a
`dataflow.send`. Each operation is a block of the circuit.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, IntAttr, MemRefType, StringAttr, TensorType
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.plan import BlockLanes
from ceras_ir.backends.dataflow.weights import WeightEncoding
from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph import storage_type
from ceras_ir.dialects.graph.operation import Tensor

LANES = "dataflow.lanes"
"""The name of the discardable attribute that holds the lanes of a convolution or product."""


@irdl_attr_definition
class LanesAttr(ParametrizedAttribute):
    """
    The lanes of a layer: `#dataflow.lanes<rows = R, filters = M, slots = S, coo>`.

    The block computes R rows of M filters in parallel, and stores S input rows. Weights are
    `dense`, `by_row` (in the order of the rows of the window), `coo` (each nonzero weight with the
    position), or `delta` (each nonzero weight with the distance to the previous). With `parts = P`
    before the encoding, each weight is multiplied by P parts of the columns in sequence. With `lut`
    before the encoding, lookup tables multiply, instead of multipliers of the FPGA. With
    `terms = K` before `lut`, K channels are multiplied in a cycle.
    """

    name = "dataflow.lanes"

    rows: IntAttr
    filters: IntAttr
    slots: IntAttr
    parts: IntAttr
    terms: IntAttr
    lut: BoolAttr
    encoding: StringAttr

    def __init__(self, lanes: BlockLanes):
        numbers = (lanes.rows, lanes.filters, lanes.slots, lanes.parts, lanes.terms)
        in_tables = BoolAttr.from_bool(lanes.in_tables)
        super().__init__(*map(IntAttr, numbers), in_tables, StringAttr(lanes.encoding.value))

    @property
    def lanes(self) -> BlockLanes:
        encoding = WeightEncoding(self.encoding.data)
        numbers = (self.slots.data, self.parts.data)
        flags = (bool(self.lut), self.terms.data)
        return BlockLanes(self.rows.data, self.filters.data, encoding, *numbers, *flags)

    def verify(self) -> None:
        numbers = (self.rows.data, self.filters.data, self.slots.data, self.parts.data)
        if min(numbers) < 1:
            got = ", ".join(map(str, numbers))
            raise VerifyException(f"rows, filters, slots and parts must be >= 1, got {got}")
        terms = self.terms.data
        if terms < 1 or terms & (terms - 1) or (terms > 1 and not self.lut):
            raise VerifyException(f"terms must be a power of two, and 1 without lut, got {terms}")
        if self.encoding.data not in list(WeightEncoding):
            known = ", ".join(WeightEncoding)
            raise VerifyException(f"encoding must be one of {known}, got {self.encoding.data}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def number() -> IntAttr:
            parser.parse_punctuation("=")
            value = IntAttr(parser.parse_integer())
            parser.parse_punctuation(",")
            return value

        with parser.in_angle_brackets():
            numbers: list[IntAttr] = []
            for name in ("rows", "filters", "slots"):
                parser.parse_keyword(name)
                numbers.append(number())
            for name in ("parts", "terms"):
                has_number = parser.parse_optional_keyword(name) is not None
                numbers.append(number() if has_number else IntAttr(1))
            in_tables = parser.parse_optional_keyword("lut") is not None
            if in_tables:
                parser.parse_punctuation(",")
            flag = BoolAttr.from_bool(in_tables)
            return (*numbers, flag, StringAttr(parser.parse_identifier()))

    def print_parameters(self, printer: Printer) -> None:
        parts = "" if self.parts.data == 1 else f"parts = {self.parts.data}, "
        tables = "" if self.terms.data == 1 else f"terms = {self.terms.data}, "
        tables += "lut, " if self.lut else ""
        printer.print_string(
            f"<rows = {self.rows.data}, filters = {self.filters.data}, "
            f"slots = {self.slots.data}, {parts}{tables}{self.encoding.data}>"
        )


def lanes_of(op: Operation) -> BlockLanes | None:
    """
    Return the lanes (parallel multipliers) that `allot-lanes` has chosen for a layer, or `None`
    before this pass.
    """
    attribute = op.attributes.get(LANES)
    return attribute.lanes if isinstance(attribute, LanesAttr) else None


def _expect_stored(buffer: SSAValue, tensor: SSAValue) -> None:
    kind, value = buffer.type, tensor.type
    assert isa(kind, MemRefType) and isa(value, Tensor)
    same = kind.get_shape() == value.get_shape()
    if not same or kind.element_type != storage_type(value.element_type):
        raise VerifyException(f"the buffer must hold the integers of {value}, got {kind}")


@irdl_op_definition
class ReceiveOp(IRDLOperation):
    """
    Read a tensor through the input port; `buffer` has the stored integers.

        %x = dataflow.receive %buffer
            : memref<1x4x4x2xi8, "dram"> -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
    """

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
    """
    Write the stored integers of `value` to `buffer` through the output port.

        dataflow.send %x, %buffer
            : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>, memref<1x4x4x2xi8, "dram">
    """

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
    """Executes the ports of a pipeline in the interpreter."""

    @impl(ReceiveOp)
    def receive(self, interpreter: Interpreter, op: ReceiveOp, args: PythonValues):
        return (args[0].copy(),)

    @impl(SendOp)
    def send(self, interpreter: Interpreter, op: SendOp, args: PythonValues):
        args[1][...] = args[0]
        return ()


Dataflow = Dialect("dataflow", [ReceiveOp, SendOp], [LanesAttr])
