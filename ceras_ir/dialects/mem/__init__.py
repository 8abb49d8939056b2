"""
The `mem` dialect: the device of an operation, the memory of a value, and transfers.

Operations of other dialects have the discardable attributes `mem.device` and `mem.block`, functions
`mem.arena`. If the arena has several memories, `mem.regions` is an array of `#mem.region`. The
operations run at the border between two devices.
"""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IntAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import (
    Attribute,
    BlockArgument,
    Dialect,
    Operation,
    OpResult,
    ParametrizedAttribute,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.operation import Tensor
from ceras_ir.dialects.mem.packing import (
    FoldZeroPointOp,
    PackOp,
    PackTilesOp,
    PackWindowsOp,
    UnpackOp,
)

DEVICE, BLOCK, ARENA, REASON = "mem.device", "mem.block", "mem.arena", "mem.reason"
REGIONS, ALIGNMENT = "mem.regions", "mem.alignment"
COST, COPIED, CONTINUES = "mem.cost", "mem.copied", "mem.continues"
"""
Names of the discardable attributes. `mem.reason` is the reason for the choice of a device,
`mem.cost` the time on each device, `mem.copied` the reason why a concatenation copies operands.
`mem.alignment` is the minimum alignment in bytes of the values of a function. A launch with the
unit attribute `mem.continues` starts together with the previous launch, as a single program of the
accelerator.
"""

CPU = "cpu"
"""The device of each target; a target can add others."""


@irdl_attr_definition
class DeviceAttr(ParametrizedAttribute):
    """The device that executes an operation, as the target names it: `#mem.device<cpu>`."""

    name = "mem.device"

    device: StringAttr

    def __init__(self, device: str):
        super().__init__(StringAttr(device))

    def verify(self) -> None:
        if not self.device.data.isidentifier():
            raise VerifyException(f"a device name must be an identifier, got '{self.device.data}'")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (StringAttr(parser.parse_identifier()),)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.device.data}>")


class _IntegerFields(ParametrizedAttribute):
    """
    Base class of attributes `<name = integer, ...>` with fields in this order. `OPTIONS` are
    printed if they are not 0, and `WORDS`, as `name = word`, if they are not empty.
    """

    FIELDS: ClassVar[tuple[str, ...]]
    OPTIONS: ClassVar[tuple[str, ...]] = ()
    WORDS: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: list[Attribute] = []
        with parser.in_angle_brackets():
            for i, field in enumerate(cls.FIELDS):
                if i:
                    parser.parse_punctuation(",")
                parser.parse_keyword(field)
                parser.parse_punctuation("=")
                values.append(IntAttr(parser.parse_integer()))
            given: dict[str, Attribute] = {}
            last = (*cls.OPTIONS, *cls.WORDS)
            while parser.parse_optional_punctuation(",") is not None:
                if (field := parser.parse_identifier()) not in last:
                    parser.raise_error(f"expected one of {', '.join(last) or 'no more fields'}")
                last = last[last.index(field) + 1 :]
                parser.parse_punctuation("=")
                given[field] = (
                    StringAttr(parser.parse_identifier())
                    if field in cls.WORDS
                    else IntAttr(parser.parse_integer())
                )
        values += [given.get(field, IntAttr(0)) for field in cls.OPTIONS]
        values += [given.get(field, StringAttr("")) for field in cls.WORDS]
        return values

    def print_parameters(self, printer: Printer) -> None:
        fields = [f"{f} = {getattr(self, f).data}" for f in self.FIELDS]
        last = (*self.OPTIONS, *self.WORDS)
        fields += [f"{f} = {value}" for f in last if (value := getattr(self, f).data)]
        printer.print_string(f"<{', '.join(fields)}>")


@irdl_attr_definition
class BlockAttr(_IntegerFields):
    """
    The memory of a value: bytes [offset, offset + size) of the arena, or of `region`. `id` is the
    number of the block. Values with disjoint live ranges can share a block. An operation with
    several results has a list of blocks.

    `pitch` is the distance in bytes between rows of the last dimension, if the value is columns of
    a wider value.
    """

    name = "mem.block"
    FIELDS: ClassVar = ("id", "offset", "size")
    OPTIONS: ClassVar = ("pitch",)
    WORDS: ClassVar = ("region",)

    id: IntAttr
    offset: IntAttr
    size: IntAttr
    pitch: IntAttr
    region: StringAttr

    def __init__(self, id: int, offset: int, size: int, region: str = "", pitch: int = 0):
        super().__init__(
            IntAttr(id), IntAttr(offset), IntAttr(size), IntAttr(pitch), StringAttr(region)
        )

    def verify(self) -> None:
        if self.pitch.data < 0:
            raise VerifyException(f"a pitch must not be negative, got {self.pitch.data}")
        if self.id.data < 0 or self.offset.data < 0 or self.size.data < 1:
            raise VerifyException(
                "a block needs an id and offset >= 0 and a size >= 1, got "
                f"{self.id.data}, {self.offset.data}, {self.size.data}"
            )


@irdl_attr_definition
class ArenaAttr(_IntegerFields):
    """
    The size in bytes of the memory that contains all blocks of a function; the sum of regions.
    """

    name = "mem.arena"
    FIELDS: ClassVar = ("size", "alignment")

    size: IntAttr
    alignment: IntAttr

    def __init__(self, size: int, alignment: int):
        super().__init__(IntAttr(size), IntAttr(alignment))

    def verify(self) -> None:
        alignment = self.alignment.data
        if self.size.data < 0 or alignment < 1 or alignment & (alignment - 1):
            raise VerifyException(
                "an arena needs a size >= 0 and a power of two as alignment, got "
                f"{self.size.data}, {alignment}"
            )


@irdl_attr_definition
class RegionAttr(_IntegerFields):
    """
    A memory for blocks of a function, if there are several. `size` bytes of `capacity` are used.
    """

    name = "mem.region"
    FIELDS: ClassVar = ("size", "capacity")
    WORDS: ClassVar = ("region",)

    size: IntAttr
    capacity: IntAttr
    region: StringAttr

    def __init__(self, size: int, capacity: int, region: str):
        super().__init__(IntAttr(size), IntAttr(capacity), StringAttr(region))

    def verify(self) -> None:
        if self.size.data < 0 or self.capacity.data < 1 or not self.region.data:
            raise VerifyException(
                "a region needs a name, a size >= 0 and a capacity >= 1, got "
                f"'{self.region.data}', {self.size.data}, {self.capacity.data}"
            )


def device_of(op: Operation) -> str:
    """Return the name of the device that executes `op`; by default the CPU."""
    attribute = op.attributes.get(DEVICE)
    return attribute.device.data if isinstance(attribute, DeviceAttr) else CPU


def block_of(value: SSAValue) -> BlockAttr | None:
    """
    Return the block of memory that a memory plan assigned to `value`. Return `None` for constants,
    values in memory of the caller, and without a plan.
    """
    if isinstance(value, BlockArgument):
        function = value.block.parent_op()
        if not isinstance(function, FuncOp) or function.arg_attrs is None:
            return None
        attributes = function.arg_attrs.data[value.index]
        assert isinstance(attributes, DictionaryAttr)
        block = attributes.data.get(BLOCK)
    else:
        assert isinstance(value, OpResult)
        block = value.owner.attributes.get(BLOCK)
        if not isinstance(block, BlockAttr) and isa(block, ArrayAttr[BlockAttr]):
            return block.data[value.index]
    return block if isinstance(block, BlockAttr) else None


def arena_of(function: FuncOp) -> ArenaAttr | None:
    """Return the arena of a function with a memory plan, or `None`."""
    arena = function.attributes.get(ARENA)
    return arena if isinstance(arena, ArenaAttr) else None


def regions_of(function: FuncOp) -> tuple[RegionAttr, ...]:
    """
    Return the memories into which the arena of a function is divided; empty if the arena is a
    single memory.
    """
    regions = function.attributes.get(REGIONS)
    return regions.data if isa(regions, ArrayAttr[RegionAttr]) else ()


def alignment_of(function: FuncOp) -> int:
    """Return the minimum alignment, in bytes, of the values of `function`."""
    alignment = function.attributes.get(ALIGNMENT)
    return alignment.value.data if isa(alignment, IntegerAttr) else 1


class _KernelExists(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, LaunchOp)
        kernel = SymbolTable.lookup_symbol(op, op.kernel)
        if not isinstance(kernel, FuncOp):
            raise VerifyException(f"no function {op.kernel} to launch")
        if not kernel.body.blocks:
            raise VerifyException(f"kernel {op.kernel} has no body")
        expected = len(op.inputs) + len(op.outputs)
        if (count := len(kernel.function_type.inputs)) != expected:
            raise VerifyException(f"kernel {op.kernel} takes {count} buffers, got {expected}")


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """
    Run a kernel on an accelerator: a function of `memref`s in memory space "dram", the inputs, then
    the outputs, which it writes completely.

        func.func private @kernel(%0: memref<4xi8, "dram">, %1: memref<4xi8, "dram">) {
          func.return
        }
        %y = mem.launch @kernel(%x) : (tensor<4xi8>) -> tensor<4xi8>
    """

    name = "mem.launch"

    kernel = prop_def(FlatSymbolRefAttrConstr)
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)

    traits = traits_def(Pure(), _KernelExists())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$kernel `(` $inputs `)` attr-dict `:` functional-type(operands, results)"

    def __init__(self, kernel: str, inputs: Sequence[SSAValue], output_types: Sequence[Tensor]):
        super().__init__(
            operands=[inputs],
            result_types=[output_types],
            properties={"kernel": SymbolRefAttr(kernel)},
        )


Mem = Dialect(
    "mem",
    [PackOp, PackWindowsOp, PackTilesOp, FoldZeroPointOp, UnpackOp, LaunchOp],
    [DeviceAttr, BlockAttr, ArenaAttr, RegionAttr],
)
