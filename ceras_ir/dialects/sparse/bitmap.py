"""A bit for each weight."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BytesAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.sparse.encoded import (
    Encoded,
    StoredType,
    nonzero_bits,
    stored_type,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.dialects.sparse.places import Stored


@irdl_attr_definition
class BitmapAttr(Encoded):
    """
    A bit for every weight, filter by filter, that says whether its value is stored.

    `#sparse.bitmap<counts "0x", places "0x05", values "0x0102" : tensor<1x4xi8>>`; it has no
    counts.
    """

    name = "sparse.bitmap"

    type: StoredType
    counts: BytesAttr
    places: BytesAttr
    values: BytesAttr

    @classmethod
    def of(cls, array: NDArray[np.generic], element: Attribute) -> BitmapAttr:
        """`array` with a bit for each element."""
        import numpy as np

        from ceras_ir.dialects.sparse.bits import pack

        nonzero = nonzero_bits(array)
        values = np.ascontiguousarray(array).reshape(nonzero.shape)[nonzero]
        places = BytesAttr(pack(nonzero, 1))
        kind = stored_type(array, element)
        return cls(kind, BytesAttr(b""), places, BytesAttr(values.tobytes()))

    @property
    def spelling(self) -> str:
        return "bitmap"

    @property
    def elements(self) -> Stored:
        import numpy as np

        from ceras_ir.dialects.sparse.places import Stored

        raw = np.frombuffer(self.places.data, np.uint8)
        bits = np.unpackbits(raw, count=prod(self.shape), bitorder="little")
        return Stored(*np.nonzero(bits.reshape(self.matrix)))

    def verify_places(self) -> None:
        from ceras_ir.dialects.sparse.bits import packed_bytes

        size = prod(self.shape)
        if self.counts.data:
            raise VerifyException("a bitmap has no counts")
        if len(self.places.data) != packed_bytes(size, 1):
            raise VerifyException(
                f"{size} bits take {packed_bytes(size, 1)} bytes, got {len(self.places.data)}"
            )
        if size % 8 and self.places.data[-1] >> size % 8:
            raise VerifyException("bits behind the last of places must be zero")
        ones = int.from_bytes(self.places.data, "little").bit_count()
        items = len(self.values.data) // self.dtype.itemsize
        if ones != items:
            raise VerifyException(f"{ones} bits are set, but {items} values are stored")

    @classmethod
    def parse_widths(cls, parser: AttrParser) -> Sequence[Attribute]:
        return []

    def print_widths(self, printer: Printer) -> None:
        pass
