"""Swish of integers without a table or a product: what a shifter, an adder and MIN/MAX can do."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import (
    InputOperation,
    expect_rescaling,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.graph.traits import Elementwise, MayOverwrite
from ceras_ir.dialects.quant import RequantAttr

BENDS = (0.0523, 0.2669, 0.492, 0.3321, 0.112)
"""The real numbers behind `bends`; with them `|y - swish(x)|` stays below 0.012, but for floors."""


@irdl_op_definition
class ShiftSwishOp(InputOperation):
    """
    Swish made of straight pieces, element by element, on the stored integer `q` of `input` (int8
    or int16, no zero point) in 32 bits; `>>` is the arithmetic shift, which floors:

    `p = max(q, -q)`, `m = min(q, -q)`, `tail = min((p >> 3) - k2, (p >> 4) - k3, (p >> 6) - k4, 0)`

    `result = requant(max(q, 0) + max(m >> 1, (m >> 2) - k0, -k1, tail))`, a shift.

    `bends = array<i64: k0, k1, k2, k3, k4>` has the constants 0.0523, 0.2669, 0.492, 0.3321 and
    0.112 in steps of the input's scale; or five of them for each channel, channel after channel,
    where channels of the last dimension stand for multiples of the scale. Each is in [0, 2^15).

    One operation instead of a `graph.binary` for each step: a loop computes an element at once, and
    a device takes all of it or nothing.
    """

    name = "graph.shift_swish"

    MAX_BEND: ClassVar = (1 << 15) - 1

    bends = prop_def(DenseArrayBase.constr(i64))
    requant = prop_def(RequantAttr)

    traits = traits_def(Elementwise(), MayOverwrite())

    def __init__(
        self,
        input: SSAValue,
        bends: Sequence[int],
        result_element: Attribute,
        requant: RequantAttr,
    ):
        properties = {"bends": integers(bends), "requant": requant}
        super().__init__(input, properties, element=result_element)

    @property
    def depends_on_channel(self) -> bool:
        return len(self.channel_bends) > 1

    @property
    def channel_bends(self) -> list[tuple[int, ...]]:
        """The five constants, of all elements or of each channel."""
        values = [int(v) for v in self.bends.get_values()]
        return [tuple(values[i : i + 5]) for i in range(0, len(values), 5)]

    def verify_semantics(self) -> None:
        source = quantized_element(self.input)
        if source is None or source.storage.width.data > 16 or not source.is_signed:
            raise VerifyException(f"int8 or int16 elements expected, got {self.input.type}")
        if source.is_per_axis or source.zero_point:
            raise VerifyException(f"one scale without zero point expected, got {source}")
        channels = (1, *shape_of(self.input))[-1]
        bends = [int(v) for v in self.bends.get_values()]
        if len(bends) not in (5, 5 * channels):
            raise VerifyException(f"5 or {5 * channels} bends expected, got {len(bends)}")
        if any(not 0 <= k <= self.MAX_BEND for k in bends):
            raise VerifyException(f"bends must be in [0, {self.MAX_BEND}]")
        if not self.requant.is_shift:
            raise VerifyException("'requant' must be a shift")
        expect_rescaling(self, self.requant)
