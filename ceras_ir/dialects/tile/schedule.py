"""The schedule of a contraction: its blocks, their order, and how many buffers they have."""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


class Order(StrEnum):
    """
    Loops over blocks from the outside in. What an inner loop does not change is loaded outside
    of it: with one K-block, `nmk` keeps weights on chip and `mnk` inputs.
    """

    NMK = "nmk"
    MNK = "mnk"


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """
    Two-stage tiling: blocks of `rows` x `columns` output positions (M), `kblock` vectors of 16
    input channels (K) and `nblock` of 16 output channels (N), each made of 16x16 intrinsics.
    `*_stages` buffers of each kind take turns, so that a transfer can overlap computation.
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
    order: StringAttr

    def __init__(
        self,
        rows: int,
        columns: int,
        kblock: int,
        nblock: int,
        stages: tuple[int, int, int] = (1, 1, 1),
        order: Order = Order.NMK,
    ):
        integers = (rows, columns, kblock, nblock, *stages)
        super().__init__(*(IntAttr(i) for i in integers), StringAttr(order.value))

    @property
    def loop_order(self) -> Order:
        return Order(self.order.data)

    @property
    def integers(self) -> tuple[int, ...]:
        """The values of `FIELDS`."""
        m = (self.rows, self.columns, self.kblock, self.nblock)
        stages = (self.inp_stages, self.wgt_stages, self.acc_stages)
        return tuple(value.data for value in (*m, *stages))

    def verify(self) -> None:
        for field, value in zip(self.FIELDS, self.integers, strict=True):
            if value < 1:
                raise VerifyException(f"{field} must be at least 1, got {value}")
        if self.order.data not in set(Order):
            raise VerifyException(f"order must be one of {', '.join(Order)}, got {self.order.data}")

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
            values.append(StringAttr(parser.parse_identifier()))
        return values

    def print_parameters(self, printer: Printer) -> None:
        fields = [f"{f} = {v}" for f, v in zip(self.FIELDS, self.integers, strict=True)]
        printer.print_string(f"<{', '.join(fields)}, order = {self.order.data}>")
