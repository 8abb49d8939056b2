"""
The dialect `sparse`: constants without zeros, and masks of pruned weights.

The dialect has only attributes. A `graph.constant` contains an encoding. Its `counts`, `places` and
`values` have a count for each filter, the positions, and the stored weights. A mask is an attribute
of a layer; the verifier checks that weights outside of it are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, BytesAttr, IntAttr, TensorType
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.sparse.encoded import (
    Encoded,
    Stored,
    nonzero_bits,
    pack,
    packed_bytes,
    parse_bytes,
)
from ceras_ir.dialects.sparse.lists import CooAttr, CsrAttr, SparseBlockAttr


@irdl_attr_definition
class BitmapAttr(Encoded):
    """
    A bit for each weight, filter by filter: whether the weight is stored.

    `#sparse.bitmap<counts "0x", places "0x05", values "0x0102" : tensor<1x4xi8>>`; `counts` is
    empty.
    """

    name = "sparse.bitmap"

    @classmethod
    def of(cls, array: NDArray[np.generic], element: Attribute) -> BitmapAttr:
        """
        Encode `array` with a bit for each element, and the elements with a bit of 1. `element` is
        the stored element type.
        """
        nonzero = nonzero_bits(array)
        values = np.ascontiguousarray(array).reshape(nonzero.shape)[nonzero]
        places = BytesAttr(pack(nonzero, 1))
        kind = TensorType(element, array.shape)
        return cls(kind, BytesAttr(b""), places, BytesAttr(values.tobytes()))

    @property
    def spelling(self) -> str:
        return "bitmap"

    @property
    def elements(self) -> Stored:
        raw = np.frombuffer(self.places.data, np.uint8)
        bits = np.unpackbits(raw, count=prod(self.shape), bitorder="little")
        return Stored(*np.nonzero(bits.reshape(self.matrix)))

    def verify_positions(self) -> None:
        size = prod(self.shape)
        if self.counts.data:
            raise VerifyException("a bitmap has no counts")
        if len(self.places.data) != packed_bytes(size, 1):
            raise VerifyException(
                f"{size} bits take {packed_bytes(size, 1)} bytes, got {len(self.places.data)}"
            )
        if size % 8 and self.places.data[-1] >> size % 8:
            raise VerifyException("bits after the last of places must be zero")
        set_bits = int.from_bytes(self.places.data, "little").bit_count()
        if set_bits != (items := len(self.values.data) // self.dtype.itemsize):
            raise VerifyException(f"{set_bits} bits are set, but {items} values are stored")

    @classmethod
    def parse_widths(cls, parser: AttrParser) -> Sequence[Attribute]:
        return []

    def print_widths(self, printer: Printer) -> None:
        pass


MASK = "sparse.mask"
"""The discardable attribute of `graph.conv2d` and `graph.matmul`."""


@irdl_attr_definition
class MaskAttr(ParametrizedAttribute):
    """
    The weights that may be nonzero: `#sparse.mask<6 of [4, 3], "0x..">`, a bit for each weight in
    row-major order, the lowest of a byte first.
    """

    name = "sparse.mask"

    kept: IntAttr
    extents: ArrayAttr[IntAttr]
    bits: BytesAttr

    @classmethod
    def of(cls, kept: NDArray[np.bool_]) -> MaskAttr:
        """Return the mask that permits nonzero weights at the positions at which `kept` is true."""
        bits = np.packbits(kept.reshape(-1), bitorder="little").tobytes()
        extents = ArrayAttr([IntAttr(n) for n in kept.shape])
        return cls(IntAttr(int(np.count_nonzero(kept))), extents, BytesAttr(bits))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n.data for n in self.extents)

    @property
    def array(self) -> NDArray[np.bool_]:
        """The mask as a read-only array: true for each weight that may be nonzero."""
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
            raise VerifyException("bits after the last weight must be zero")
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
        """
        Return an error message if a weight outside of this mask is not zero, or if the shapes
        differ; otherwise `None`. `nonzero` is true for each weight that is not zero.
        """
        if nonzero.shape != self.shape:
            return f"{MASK} of shape {self.shape} does not fit weights of shape {nonzero.shape}"
        lost = nonzero & ~self.array
        if not lost.any():
            return None
        first = tuple(map(int, np.argwhere(lost)[0]))
        return (
            f"{MASK} leaves out {int(lost.sum())} weights that are not zero, the first at {first}: "
            "prune again, or remove the mask"
        )


Sparse = Dialect("sparse", [], [CooAttr, CsrAttr, BitmapAttr, SparseBlockAttr, MaskAttr])
