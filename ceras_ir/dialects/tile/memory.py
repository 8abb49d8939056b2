"""Operations of the `tile` dialect that address and move vectors, and schedules."""

from collections.abc import Sequence
from math import prod
from typing import ClassVar, TypeAlias, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    StringAttr,
    i8,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import integers

DRAM, INP, WGT, ACC = "dram", "inp", "wgt", "acc"
SCRATCHPAD_TYPES: dict[str, IntegerType] = {INP: i8, WGT: i8, ACC: i32}
"""The element type of each scratchpad."""
VECTOR_RANK = 2
"""The trailing dimensions of a vector: rows and lanes, or outputs and inputs of a tile."""

MemRef: TypeAlias = MemRefType[Attribute]


def memref_type(value: SSAValue) -> MemRef:
    """Return the type of a value that is known to be a buffer."""
    kind = value.type
    # `isa` is too slow: verification of the loops of a network has 100,000 calls.
    assert isinstance(kind, MemRefType)
    return cast(MemRef, kind)


def space_of(value: SSAValue) -> str:
    """
    Return the name of the memory of a buffer, such as "dram", or an empty text if the type has no
    memory space.
    """
    space = memref_type(value).memory_space
    return space.data if isinstance(space, StringAttr) else ""


def buffer_type(space: str, shape: Sequence[int], vector: tuple[int, int]) -> MemRef:
    """
    Return the type of a buffer in the scratchpad `space`: `shape` vectors, each with the rows and
    lanes `vector`.
    """
    return MemRefType(SCRATCHPAD_TYPES[space], (*shape, *vector), NoneAttr(), StringAttr(space))


def vector_of(value: SSAValue) -> tuple[int, ...]:
    """
    Return the rows and lanes of the vectors in a scratchpad buffer, or the outputs and inputs of
    the tiles.
    """
    return memref_type(value).get_shape()[-VECTOR_RANK:]


def vectors_in(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a scratchpad buffer counted in vectors: [3, 4, 1, 16] -> [3, 4]."""
    return memref_type(value).get_shape()[:-VECTOR_RANK]


def packed_vector(value: SSAValue) -> tuple[int, ...]:
    """
    Return the shape of a vector, [B] or [R, B], of packed feature maps in DRAM, which are the
    trailing axes. Raise a `VerifyException` for other shapes.
    """
    if len(shape := memref_type(value).get_shape()) not in (5, 6):
        raise VerifyException(
            f"input must be [N, C/B, H, W, B] or [N/R, C/B, H, W, R, B], got {value.type}"
        )
    return shape[4:]


def expect_scratchpad(name: str, value: SSAValue, spaces: Sequence[str]) -> None:
    """
    Raise a `VerifyException` if the operand `name` is not in one of the scratchpads `spaces`, or
    has another element type than the scratchpad.
    """
    space = space_of(value)
    if space not in spaces:
        raise VerifyException(f"{name} must be in memory {' or '.join(spaces)}, got {value.type}")
    kind = memref_type(value)
    if kind.element_type != SCRATCHPAD_TYPES[space] or kind.get_num_dims() < VECTOR_RANK:
        raise VerifyException(
            f"{name} must hold vectors of rows x lanes x {SCRATCHPAD_TYPES[space]} in {space}, got "
            f"{kind}"
        )


def expect_indices(name: str, value: SSAValue, count: int) -> None:
    """Raise a `VerifyException` if the operand `name` has more indices than axes of vectors."""
    rank = len(vectors_in(value))
    if count > rank:
        raise VerifyException(f"{name} of {rank} dimensions of vectors got {count} indices")


@irdl_op_definition
class ViewOp(IRDLOperation):
    """
    Return the same bytes in row-major order with a different shape.

        %v = tile.view %x : memref<4x9x16xi8, "dram"> to memref<1x4x1x9x16xi8, "dram">
    """

    name = "tile.view"

    source = operand_def(MemRefType)
    result = result_def(MemRefType)

    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, shape: Sequence[int]):
        kind = memref_type(source)
        result = MemRefType(kind.element_type, shape, kind.layout, kind.memory_space)
        super().__init__(operands=[source], result_types=[result])

    def verify_(self) -> None:
        source, result = memref_type(self.source), memref_type(self.result)
        if (source.element_type, source.memory_space) != (
            result.element_type,
            result.memory_space,
        ) or prod(source.get_shape()) != prod(result.get_shape()):
            raise VerifyException(
                f"a view keeps memory, element type and size, got {source} to {result}"
            )


@irdl_op_definition
class RotateOp(IRDLOperation):
    """
    Return the next buffer along the first dimension of `ring`: the k-th execution returns buffer `k
    mod stages`.

        %acc = tile.rotate %ring : memref<2x4x56x1x16xi32, "acc"> to memref<4x56x1x16xi32, "acc">
    """

    name = "tile.rotate"

    ring = operand_def(MemRefType)
    buffer = result_def(MemRefType)

    assembly_format = "$ring attr-dict `:` type($ring) `to` type($buffer)"

    def __init__(self, ring: SSAValue):
        kind = memref_type(ring)
        shape = kind.get_shape()[1:]
        result = MemRefType(kind.element_type, shape, kind.layout, kind.memory_space)
        super().__init__(operands=[ring], result_types=[result])

    def verify_(self) -> None:
        expect_scratchpad("ring", self.ring, (INP, WGT, ACC))
        ring, buffer = memref_type(self.ring), memref_type(self.buffer)
        if (buffer.element_type, buffer.memory_space, buffer.get_shape()) != (
            ring.element_type,
            ring.memory_space,
            ring.get_shape()[1:],
        ):
            raise VerifyException(f"a buffer of ring {ring} cannot be {buffer}")


class _TransferOp(IRDLOperation):
    """
    A transfer of `box` (rows, columns) vectors between DRAM and a scratchpad, in which the vectors
    are contiguous. The last two indices in DRAM are the row and the column of the first vector.
    """

    source = operand_def(MemRefType)
    source_indices = var_operand_def(IndexType)
    target = operand_def(MemRefType)
    target_indices = var_operand_def(IndexType)
    box = prop_def(DenseArrayBase.constr(i64))

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$source `[` $source_indices `]` `to` $target `[` $target_indices `]` attr-dict `:` "
        "type($source) `to` type($target)"
    )

    def __init__(
        self,
        source: SSAValue,
        source_indices: Sequence[SSAValue],
        target: SSAValue,
        target_indices: Sequence[SSAValue],
        box: tuple[int, int],
        **properties: Attribute,
    ):
        super().__init__(
            operands=[source, source_indices, target, target_indices],
            properties={"box": integers(box), **properties},
        )

    @property
    def extents(self) -> tuple[int, int]:
        rows, columns = self.box.get_values()
        return rows, columns

    def verify_box(self, dram: SSAValue, dram_indices: int, chip: SSAValue) -> None:
        if space_of(dram) != DRAM:
            raise VerifyException(f"expected a buffer in memory dram, got {dram.type}")
        kind, (rows, *lanes) = memref_type(dram), vector_of(chip)
        vector = kind.get_shape()[dram_indices:]
        # In DRAM, vectors of a single row may omit that dimension.
        if not dram_indices or vector not in ((rows, *lanes), tuple(lanes) if rows == 1 else ()):
            raise VerifyException(
                f"{dram_indices} indices of {kind} do not select a vector of {chip.type}"
            )
        box = self.box.get_values()
        if len(box) != 2 or min(box) < 1 or (dram_indices == 1 and box[0] != 1):
            raise VerifyException(f"box must be rows and columns of {kind}, got {list(box)}")
        if prod(box) > prod(vectors_in(chip)):
            raise VerifyException(f"a box of {box[0]}x{box[1]} vectors does not fit {chip.type}")


@irdl_op_definition
class LoadOp(_TransferOp):
    """
    Copy a box from DRAM. Row `r` of the box is row `r * row_step` after the index. Elements outside
    the source, for negative or too large indices, are zero.

        tile.load %x[%row, %column] to %inp[] {box = array<i64: 5, 4>}
            : memref<3x3x16xi8, "dram"> to memref<5x4x1x16xi8, "inp">
    """

    name = "tile.load"

    row_step = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(1, i64))

    def __init__(
        self,
        source: SSAValue,
        source_indices: Sequence[SSAValue],
        target: SSAValue,
        target_indices: Sequence[SSAValue],
        box: tuple[int, int],
        row_step: int = 1,
    ):
        step = IntegerAttr(row_step, i64)
        super().__init__(source, source_indices, target, target_indices, box, row_step=step)

    def verify_(self) -> None:
        expect_scratchpad("target", self.target, (INP, WGT, ACC))
        expect_indices("target", self.target, len(self.target_indices))
        self.verify_box(self.source, len(self.source_indices), self.target)
        if memref_type(self.source).element_type != memref_type(self.target).element_type:
            raise VerifyException("a load keeps the element type")
        if (step := self.row_step.value.data) < 1:
            raise VerifyException(f"row_step must be at least 1, got {step}")


@irdl_op_definition
class StoreOp(_TransferOp):
    """
    Copy the low 8 bits of a box of accumulators to DRAM, except elements outside the target.

    A store of vectors that were only loaded or cleared is undefined, because hardware stores
    results of arithmetic.

        tile.store %acc[] to %y[%row, %column] {box = array<i64: 3, 4>}
            : memref<3x4x1x16xi32, "acc"> to memref<3x3x16xi8, "dram">
    """

    name = "tile.store"

    def verify_(self) -> None:
        expect_scratchpad("source", self.source, (ACC,))
        expect_indices("source", self.source, len(self.source_indices))
        self.verify_box(self.target, len(self.target_indices), self.source)
        if memref_type(self.target).element_type != i8:
            raise VerifyException(f"a store writes i8, got {self.target.type}")


class Order(StrEnum):
    """
    The loops over blocks from the outside in. An operand that an inner loop does not change is
    loaded outside of it: with a single K-block, `nmk` keeps weights on chip and `mnk` inputs.
    `alg1`, `alg2` and `alg3` are the loop nests of paper S3, see `backends/vta/kernels/s3.py`.
    """

    NMK = "nmk"
    MNK = "mnk"
    ALG1 = "alg1"
    ALG2 = "alg2"
    ALG3 = "alg3"

    @property
    def is_s3(self) -> bool:
        """
        Whether the loop over blocks of input channels (K) is outside of the loop over blocks of
        output channels (N), as in the algorithms of the paper S3 (see `docs/papers.md`).
        """
        return self not in (Order.NMK, Order.MNK)


@irdl_attr_definition
class OrderAttr(EnumAttribute[Order], SpacedOpaqueSyntaxAttribute):
    name = "tile.order"


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """
    Two-stage tiling: blocks of `rows` x `columns` output positions (M), `kblock` vectors of input
    channels (K) and `nblock` vectors of output channels (N), each consisting of intrinsics.

    `*_stages` buffers of each kind are used in rotation, so that transfers can overlap computation.
    With `resident`, the operand that the inner loop over blocks does not change remains on chip
    although it has several K-blocks. `drain` is the number of output vectors that are stored
    together as soon as they are ready; 0 means all. With `kn2row`, each K-block belongs to a single
    tap of the window, and the shifted inputs are loaded.
    """

    name = "tile.schedule"
    FIELDS: ClassVar = (
        "rows",
        "columns",
        "kblock",
        "nblock",
        "inp_stages",
        "wgt_stages",
        "acc_stages",
    )

    rows: IntAttr
    columns: IntAttr
    kblock: IntAttr
    nblock: IntAttr
    inp_stages: IntAttr
    wgt_stages: IntAttr
    acc_stages: IntAttr
    order: OrderAttr
    resident: IntAttr
    drain: IntAttr
    kn2row: IntAttr

    def __init__(
        self,
        rows: int,
        columns: int,
        kblock: int,
        nblock: int,
        stages: tuple[int, int, int] = (1, 1, 1),
        order: Order = Order.NMK,
        resident: bool = False,
        drain: int = 0,
        kn2row: bool = False,
    ):
        integers = (rows, columns, kblock, nblock, *stages)
        super().__init__(
            *(IntAttr(i) for i in integers),
            OrderAttr(order),
            IntAttr(int(resident)),
            IntAttr(drain),
            IntAttr(int(kn2row)),
        )

    @property
    def loop_order(self) -> Order:
        return self.order.data

    @property
    def integers(self) -> tuple[int, ...]:
        m = (self.rows, self.columns, self.kblock, self.nblock)
        stages = (self.inp_stages, self.wgt_stages, self.acc_stages)
        return tuple(value.data for value in (*m, *stages))

    def verify(self) -> None:
        for field, value in zip(self.FIELDS, self.integers, strict=True):
            if value < 1:
                raise VerifyException(f"{field} must be at least 1, got {value}")
        if not 0 <= self.drain.data <= self.nblock.data:
            raise VerifyException(
                f"drain must be in [0, nblock = {self.nblock.data}], got {self.drain.data}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: list[Attribute] = []
        with parser.in_angle_brackets():
            for field in cls.FIELDS:
                parser.parse_keyword(field)
                parser.parse_punctuation("=")
                values.append(IntAttr(parser.parse_integer()))
                parser.parse_punctuation(",")
            parser.parse_keyword("order")
            parser.parse_punctuation("=")
            values.append(OrderAttr(parser.parse_str_enum(Order)))
            resident, drain, kn2row = 0, 0, 0
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("resident"):
                    resident = 1
                elif parser.parse_optional_keyword("kn2row"):
                    kn2row = 1
                else:
                    parser.parse_keyword("drain")
                    parser.parse_punctuation("=")
                    drain = parser.parse_integer()
        return [*values, IntAttr(resident), IntAttr(drain), IntAttr(kn2row)]

    def print_parameters(self, printer: Printer) -> None:
        fields = [f"{f} = {v}" for f, v in zip(self.FIELDS, self.integers, strict=True)]
        fields.append(f"order = {self.order.data}")
        if self.resident.data:
            fields.append("resident")
        if self.drain.data:
            fields.append(f"drain = {self.drain.data}")
        if self.kn2row.data:
            fields.append("kn2row")
        printer.print_string(f"<{', '.join(fields)}>")
