"""
Which weights were pruned: an attribute of layers, a bit for every weight.

The weights themselves are the layer's constant; the mask promises that those it leaves out are
zero. `refusal` holds a layer to that, and is part of the verification of a module.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, BytesAttr, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.sparse.encoded import parse_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MASK = "sparse.mask"
"""The discardable attribute of `graph.conv2d` and `graph.matmul`."""


@irdl_attr_definition
class MaskAttr(ParametrizedAttribute):
    """
    The weights that may be other than zero: `#sparse.mask<6 of [4, 3], "0x..">`, one bit for each
    weight as the tensor lies in memory, the lowest of a byte first.
    """

    name = "sparse.mask"

    kept: IntAttr
    extents: ArrayAttr[IntAttr]
    bits: BytesAttr

    @classmethod
    def of(cls, kept: NDArray[np.bool_]) -> MaskAttr:
        """The mask that keeps the weights where `kept` is true."""
        import numpy as np

        bits = np.packbits(kept.reshape(-1), bitorder="little").tobytes()
        extents = ArrayAttr([IntAttr(n) for n in kept.shape])
        return cls(IntAttr(int(np.count_nonzero(kept))), extents, BytesAttr(bits))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n.data for n in self.extents)

    @property
    def array(self) -> NDArray[np.bool_]:
        """Whether each weight is kept, read-only."""
        import numpy as np

        raw = np.frombuffer(self.bits.data, np.uint8)
        result = np.unpackbits(raw, count=prod(self.shape), bitorder="little").astype(np.bool_)
        result.flags.writeable = False
        return result.reshape(self.shape)

    def verify(self) -> None:
        size = prod(self.shape)
        if len(self.bits.data) != -(-size // 8):
            raise VerifyException(
                f"{size} bits take {-(-size // 8)} bytes, got {len(self.bits.data)}"
            )
        if size % 8 and self.bits.data[-1] >> size % 8:
            raise VerifyException("bits behind the last weight must be zero")
        count = int.from_bytes(self.bits.data, "little").bit_count()
        if count != self.kept.data:
            raise VerifyException(f"{count} bits are set, but {self.kept.data} weights are kept")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            kept = parser.parse_integer(allow_negative=False)
            parser.parse_keyword("of")
            extents = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_negative=False)
            )
            parser.parse_punctuation(",")
            bits = parse_bytes(parser)
        return [IntAttr(kept), ArrayAttr([IntAttr(n) for n in extents]), bits]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            extents = ", ".join(map(str, self.shape))
            printer.print_string(
                f'{self.kept.data} of [{extents}], "0x{self.bits.data.hex().upper()}"'
            )

    def refusal(self, nonzero: NDArray[np.bool_]) -> str | None:
        """What is wrong with this mask of weights that are `nonzero`; None if nothing is."""
        import numpy as np

        if nonzero.shape != self.shape:
            return f"{MASK} of shape {self.shape} cannot be of weights of {nonzero.shape}"
        lost = nonzero & ~self.array
        if not lost.any():
            return None
        where = tuple(map(int, np.argwhere(lost)[0]))
        return (
            f"{MASK} leaves out {int(lost.sum())} weights that are not zero, the first at {where}: "
            "prune again, or remove the mask"
        )
