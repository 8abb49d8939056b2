"""
The `vta` dialect: an operation for each instruction of VTA, in the order of the stream.

Fields have the names and ranges of `isa`, which defines them bit for bit: integers are `i64`, and
pairs are arrays that are omitted if zero. All instructions can have the token flags `pop_prev`,
`pop_next`, `push_prev` and `push_next`, unit properties. Verifiers restrict each operation to the
portable subset. An immediate that an ALU instruction does not use is not kept.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    I64,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    UnitAttr,
    i16,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.backends.vta.machine.encoding import DEFAULT_VTA_BOARD, field_limits, micro_op_limits
from ceras_ir.backends.vta.machine.isa import (
    TOKEN_FLAGS,
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Store,
    violations,
)
from ceras_ir.dialects.definition import irdl_op_definition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Memory(StrEnum):
    """The names of the on-chip memories (`isa.MemoryType`) in the IR."""

    UOP = "uop"
    WGT = "wgt"
    INP = "inp"
    ACC = "acc"
    ACC_8BIT = "acc_8bit"


class AluOperator(StrEnum):
    """The names of the ALU functions (`isa.AluOpcode`) in the IR."""

    MIN = "min"
    MAX = "max"
    ADD = "add"
    SHR = "shr"
    MUL = "mul"


@irdl_attr_definition
class MemoryAttr(EnumAttribute[Memory], SpacedOpaqueSyntaxAttribute):
    """An on-chip memory that a load fills."""

    name = "vta.memory"


@irdl_attr_definition
class AluOperatorAttr(EnumAttribute[AluOperator], SpacedOpaqueSyntaxAttribute):
    """The function of an ALU instruction."""

    name = "vta.alu_operator"


INTEGER = IntegerAttr[I64].constr(type=i64)
PAIR_ATTRIBUTE = DenseArrayBase.constr(i64)
TOKENS = (
    "(`pop_prev` $pop_prev^)? (`pop_next` $pop_next^)? "
    "(`push_prev` $push_prev^)? (`push_next` $push_next^)? attr-dict"
)
TRANSFER = "`sram` $sram_base `dram` $dram_base `size` $size `stride` $stride "
LOOP = "`uops` $uops `iter` $iter (`dst` $dst_factors^)? (`src` $src_factors^)? "

ZERO_UNLESS_GIVEN = frozenset({"pad", "dst_factors", "src_factors", "wgt_factors"})


# Attributes are immutable, and a stream repeats most of them.
@lru_cache(1 << 14)
def integer(value: int) -> IntegerAttr[I64]:
    return IntegerAttr(value, i64)


@lru_cache(1 << 14)
def number_attribute(name: str, values: tuple[int, ...]) -> Attribute | None:
    """
    Return the attribute for the property `name` of an instruction: an integer, or an array for
    several `values`. The result is `None` if all values are zero and the property may be omitted.
    """
    if len(values) == 1:
        return integer(values[0])
    return (
        None
        if name in ZERO_UNLESS_GIVEN and not any(values)
        else DenseArrayBase.from_list(i64, values)
    )


def number_values(attribute: Attribute | None, name: str, length: int) -> tuple[int, ...]:
    if isinstance(attribute, IntegerAttr):
        return (attribute.value.data,)
    if not isinstance(attribute, DenseArrayBase):
        return (0,) * length
    values = tuple(int(v) for v in attribute.get_values())
    if len(values) != length:
        key = name.removesuffix("_factors")
        raise VerifyException(f"{key} must have {length} values, got {len(values)}")
    return values


class _InstructionOp(IRDLOperation, ABC):
    """
    The base class of operations for instructions: token flags, and the verification that fields fit
    their bits.
    """

    FIELDS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The properties with one or several integers, and the names of these fields."""

    traits = lazy_traits_def(lambda: (HasParent(ProgramOp),))

    pop_prev = opt_prop_def(UnitAttr)
    pop_next = opt_prop_def(UnitAttr)
    push_prev = opt_prop_def(UnitAttr)
    push_next = opt_prop_def(UnitAttr)

    def __init__(self, i: Instruction, **properties: Attribute | None):
        numbers = {
            name: number_attribute(name, tuple(getattr(i, field) for field in fields))
            for name, fields in self.FIELDS.items()
        }
        flags = {name: UnitAttr() for name in TOKEN_FLAGS if getattr(i, name)}
        super().__init__(properties={**properties, **numbers, **flags})

    @abstractmethod
    def instruction(self) -> Instruction:
        """Return the instruction (`isa`) that this operation represents."""

    def numbers(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, fields in self.FIELDS.items():
            attribute = self.properties.get(name)
            found.update(zip(fields, number_values(attribute, name, len(fields)), strict=True))
        return found

    def flags(self) -> dict[str, bool]:
        return {name: name in self.properties for name in TOKEN_FLAGS}

    def verify_(self) -> None:
        instruction = self.instruction()
        limits = field_limits(type(instruction))
        for name, (low, high) in limits.items():
            value: int = getattr(instruction, name)
            if not low <= value <= high:
                raise VerifyException(f"{name} must be in [{low}, {high}], got {value}")
        for message in violations(instruction):
            raise VerifyException(message)


class _VtaTransferOp(_InstructionOp, ABC):
    """A load or store: a transfer of a box between DRAM and an on-chip memory."""

    FIELDS: ClassVar = {
        "sram_base": ("sram_base",),
        "dram_base": ("dram_base",),
        "size": ("y_size", "x_size"),
        "stride": ("x_stride",),
    }

    sram_base = prop_def(INTEGER)
    dram_base = prop_def(INTEGER)
    size = prop_def(PAIR_ATTRIBUTE)
    """Rows, and elements of a row."""
    stride = prop_def(INTEGER)


@irdl_op_definition
class VtaLoadOp(_VtaTransferOp):
    """
    Load rows from DRAM, with zero padding `[top, bottom, left, right]` (`isa.Load`).

        vta.load inp sram 0 dram 3 size [2, 4] stride 7 pad [1, 1, 0, 2]
    """

    name = "vta.load"
    FIELDS: ClassVar = {
        **_VtaTransferOp.FIELDS,
        "pad": ("y_pad_top", "y_pad_bottom", "x_pad_left", "x_pad_right"),
    }

    memory = prop_def(MemoryAttr)
    pad = opt_prop_def(PAIR_ATTRIBUTE)

    assembly_format = "$memory " + TRANSFER + "(`pad` $pad^)? " + TOKENS

    def __init__(self, i: Load):
        super().__init__(i, memory=MemoryAttr(Memory(i.memory.name.lower())))

    def instruction(self) -> Load:
        return Load(MemoryType[self.memory.data.name], **self.numbers(), **self.flags())


@irdl_op_definition
class VtaStoreOp(_VtaTransferOp):
    """
    Store consecutive elements of OUT to DRAM, in rows `stride` apart (`isa.Store`).

        vta.store sram 0 dram 5 size [1, 8] stride 8 pop_prev push_prev
    """

    name = "vta.store"

    assembly_format = TRANSFER + TOKENS

    def instruction(self) -> Store:
        return Store(**self.numbers(), **self.flags())


class _LoopOp(_InstructionOp, ABC):
    """
    Base class of GEMM and ALU instructions, with their loop nest. Pairs are `[outer, inner]`;
    attributes that are zero are omitted.
    """

    FIELDS: ClassVar = {
        "uops": ("uop_bgn", "uop_end"),
        "iter": ("iter_out", "iter_in"),
        "dst_factors": ("dst_factor_out", "dst_factor_in"),
        "src_factors": ("src_factor_out", "src_factor_in"),
    }

    uops = prop_def(PAIR_ATTRIBUTE)
    """The first micro-op, and the end."""
    iter = prop_def(PAIR_ATTRIBUTE)
    dst_factors = opt_prop_def(PAIR_ATTRIBUTE)
    src_factors = opt_prop_def(PAIR_ATTRIBUTE)


@irdl_op_definition
class VtaGemmOp(_LoopOp):
    """
    Accumulate vectors times transposed tiles, or clear accumulators (`isa.Gemm`).

        vta.gemm uops [0, 2] iter [4, 3] dst [2, 0] src [2, 1] wgt [0, 3] pop_prev push_prev
    """

    name = "vta.gemm"
    FIELDS: ClassVar = {**_LoopOp.FIELDS, "wgt_factors": ("wgt_factor_out", "wgt_factor_in")}

    reset = opt_prop_def(UnitAttr)
    wgt_factors = opt_prop_def(PAIR_ATTRIBUTE)

    assembly_format = "(`reset` $reset^)? " + LOOP + "(`wgt` $wgt_factors^)? " + TOKENS

    def __init__(self, i: Gemm):
        super().__init__(i, reset=UnitAttr() if i.reset else None)

    def instruction(self) -> Gemm:
        return Gemm(**self.numbers(), reset=self.reset is not None, **self.flags())


@irdl_op_definition
class VtaAluOp(_LoopOp):
    """
    Combine accumulators with an immediate or with other accumulators (`isa.Alu`).

        vta.alu add uops [0, 2] iter [4, 1] dst [2, 0] src [2, 0] imm -5
    """

    name = "vta.alu"

    operator = prop_def(AluOperatorAttr)
    imm = opt_prop_def(INTEGER)

    assembly_format = "$operator " + LOOP + "(`imm` $imm^)? " + TOKENS

    def __init__(self, i: Alu):
        operator = AluOperatorAttr(AluOperator(i.opcode.name.lower()))
        super().__init__(i, operator=operator, imm=integer(i.imm) if i.use_imm else None)

    def instruction(self) -> Alu:
        imm = None if self.imm is None else self.imm.value.data
        opcode = AluOpcode[self.operator.data.name]
        return Alu(opcode, **self.numbers(), use_imm=imm is not None, imm=imm or 0, **self.flags())


@irdl_op_definition
class FinishOp(_InstructionOp):
    """
    Signal the end of the program to the host (`isa.Finish`).

        vta.finish
    """

    name = "vta.finish"

    assembly_format = TOKENS

    def instruction(self) -> Finish:
        return Finish(**self.flags())


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """
    The stream of a launch: straight-line code up to `vta.finish`, and the table of micro-ops (rows
    of dst, src, wgt) at 4-byte element `uop_base` of DRAM.

        vta.program @launch uops at 64 dense<[[0, 0, 0]]> : tensor<1x3xi16> {
          vta.load uop sram 0 dram 64 size [1, 1] stride 1
          vta.finish
        }
    """

    name = "vta.program"

    sym_name = prop_def(SymbolNameConstraint())
    uop_base = prop_def(INTEGER)
    micro_ops = prop_def(DenseIntOrFPElementsAttr)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())
    assembly_format = "$sym_name `uops` `at` $uop_base $micro_ops attr-dict-with-keyword $body"

    def __init__(
        self, name: str, micro_ops: "NDArray[np.integer]", uop_base: int, body: Sequence[Operation]
    ):
        table = TensorType(i16, (len(micro_ops), 3))
        data = BytesAttr(micro_ops.astype("<i2").tobytes())
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "uop_base": integer(uop_base),
                "micro_ops": DenseIntOrFPElementsAttr(table, data),
            },
            regions=[Region(Block(body))],
        )

    def verify_(self) -> None:
        shape = self.micro_ops.type.get_shape()
        if self.micro_ops.type.element_type != i16 or len(shape) != 2 or shape[1] != 3:
            raise VerifyException(
                f"micro-ops must be tensor<Nx3xi16> (dst, src, wgt), got {self.micro_ops.type}"
            )
        if not 0 <= (base := self.uop_base.value.data) < 2**32:
            raise VerifyException(f"uops must be at an element in [0, 2**32), got {base}")
        values = array("h", self.micro_ops.data.data)
        for column, limit in enumerate(micro_op_limits(DEFAULT_VTA_BOARD)):
            for row, value in enumerate(values[column::3]):
                if not 0 <= value < limit:
                    raise VerifyException(
                        f"micro-op {row}: index {column} must be in [0, {limit - 1}], got {value}"
                    )
        for op in self.body.block.ops:
            if not isinstance(op, _InstructionOp):
                raise VerifyException(f"a program has only vta instructions, got '{op.name}'")
            if isinstance(op, FinishOp) != (op.next_op is None):
                raise VerifyException("the last instruction must be the only vta.finish")


_OPERATIONS: dict[type[Instruction], type[_InstructionOp]] = {
    Load: VtaLoadOp,
    Store: VtaStoreOp,
    Gemm: VtaGemmOp,
    Alu: VtaAluOp,
    Finish: FinishOp,
}


def from_instruction(instruction: Instruction) -> Operation:
    return _OPERATIONS[type(instruction)](instruction)


Vta = Dialect(
    "vta",
    [ProgramOp, VtaLoadOp, VtaStoreOp, VtaGemmOp, VtaAluOp, FinishOp],
    [MemoryAttr, AluOperatorAttr],
)
