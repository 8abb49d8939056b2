"""The schedule of a contraction: its blocks, their order, and how many buffers they have."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum


class Order(StrEnum):
    """
    Loops over blocks from the outside in. What an inner loop does not change is loaded outside
    of it: with one K-block, `nmk` keeps weights on chip and `mnk` inputs. `alg1`, `alg2` and
    `alg3` are the loop nests of S3, for comparison: see `transforms.expand_s3`.
    """

    NMK = "nmk"
    MNK = "mnk"
    ALG1 = "alg1"
    ALG2 = "alg2"
    ALG3 = "alg3"

    @property
    def is_s3(self) -> bool:
        """Whether it is an algorithm of S3, whose K loop is outside of the N loop."""
        return self not in (Order.NMK, Order.MNK)


@irdl_attr_definition
class OrderAttr(EnumAttribute[Order], SpacedOpaqueSyntaxAttribute):
    name = "tile.order"


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """
    Two-stage tiling: blocks of `rows` x `columns` output positions (M), `kblock` vectors of
    input channels (K) and `nblock` of output channels (N), each made of one intrinsic.
    `*_stages` buffers of each kind take turns, so that a transfer can overlap computation.

    With `resident`, the operand that the inner loop over blocks does not change (weights for
    `nmk`, inputs for `mnk`) stays on chip although it comes in several K-blocks. With `drain`,
    results leave in groups of so many output vectors, each as soon as it is ready; 0 is all.
    With `kn2row`, K-blocks are of one tap of the window each, whose inputs are loaded shifted.
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
        """The values of `FIELDS`."""
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
