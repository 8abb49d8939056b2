"""
How the `vta` dialect spells the fields of an instruction as properties: numbers as `i64`,
pairs as arrays that are left out when zero, token flags as units.
"""

from functools import lru_cache

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum


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
TRANSFER = "`sram` $sram_base `dram` $dram_base `size` $size `stride` $stride "
LOOP = "`uops` $uops `iter` $iter (`dst` $dst_factors^)? (`src` $src_factors^)? "

ZERO_UNLESS_GIVEN = frozenset({"pad", "dst_factors", "src_factors", "wgt_factors"})


# Attributes are immutable, and a stream repeats most of them.
@lru_cache(1 << 14)
def integer(value: int) -> IntegerAttr[I64]:
    return IntegerAttr(value, i64)


@lru_cache(1 << 14)
def spelled(name: str, values: tuple[int, ...]) -> Attribute | None:
    """The property `name` with one number or several; None where it is left out."""
    if len(values) == 1:
        return integer(values[0])
    left_out = name in ZERO_UNLESS_GIVEN and not any(values)
    return None if left_out else DenseArrayBase.from_list(i64, values)


def numbers_of(attribute: Attribute | None, name: str, length: int) -> tuple[int, ...]:
    """What the property `name` says; zeros where it is left out."""
    if isinstance(attribute, IntegerAttr):
        return (attribute.value.data,)
    if not isinstance(attribute, DenseArrayBase):
        return (0,) * length
    values = tuple(int(v) for v in attribute.get_values())
    if len(values) != length:
        key = name.removesuffix("_factors")
        raise VerifyException(f"{key} must have {length} values, got {len(values)}")
    return values
