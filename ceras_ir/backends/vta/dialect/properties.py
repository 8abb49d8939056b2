"""
How the `vta` dialect spells the fields of an instruction as properties: numbers as `i64`,
pairs as arrays that are left out when zero, token flags as units.
"""

from functools import lru_cache

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.backends.vta.isa import Instruction


class Memory(StrEnum):
    """`isa.MemoryType` as text."""

    UOP = "uop"
    WGT = "wgt"
    INP = "inp"
    ACC = "acc"
    ACC_8BIT = "acc_8bit"


class AluOperator(StrEnum):
    """`isa.AluOpcode` as text."""

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
    """What an ALU instruction computes."""

    name = "vta.alu_operator"


INTEGER = IntegerAttr[I64].constr(type=i64)
PAIR = DenseArrayBase.constr(i64)
TOKENS = (
    "(`pop_prev` $pop_prev^)? (`pop_next` $pop_next^)? "
    "(`push_prev` $push_prev^)? (`push_next` $push_next^)? attr-dict"
)
LOOP = "`uops` $uops `iter` $iter (`dst` $dst_factors^)? (`src` $src_factors^)? "


FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")


# Attributes are immutable, and a stream repeats most of them.
@lru_cache(1 << 14)
def integer(value: int) -> IntegerAttr[I64]:
    return IntegerAttr(value, i64)


@lru_cache(1 << 14)
def array_property(*values: int) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i64, values)


def integers(*values: int) -> DenseArrayBase[IntegerType] | None:
    """An array property, or None where all values are the default zero."""
    return array_property(*values) if any(values) else None


def values(attr: DenseArrayBase[IntegerType] | None, name: str, length: int) -> tuple[int, ...]:
    """The values of an array property; None stands for zeros."""
    values = (0,) * length if attr is None else tuple(attr.get_values())
    if len(values) != length:
        raise VerifyException(f"{name} must have {length} values, got {len(values)}")
    return values


def pair(attr: DenseArrayBase[IntegerType] | None, name: str) -> tuple[int, int]:
    first, second = values(attr, name, 2)
    return first, second


def instruction_properties(
    i: Instruction, **properties: Attribute | None
) -> dict[str, Attribute | None]:
    """`properties` and the token flags of `i`."""
    flags = {name: UnitAttr() for name in FLAGS if getattr(i, name)}
    return {**properties, **flags}
