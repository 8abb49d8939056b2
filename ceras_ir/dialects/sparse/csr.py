"""Compressed rows, in whole bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BytesAttr, IntAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.sparse.encoded import (
    DISTANCE,
    StoredType,
    nonzero_bits,
    parse_width,
    stored_type,
)
from ceras_ir.dialects.sparse.listed import Listed, sections

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.dialects.sparse.places import Stored


@irdl_attr_definition
class CsrAttr(Listed):
    """
    Compressed rows in whole bytes, which a microcontroller reads as they are.

    `#sparse.csr<counts 8, delta 8, counts "0x..", places "0x..", values "0x.." : tensor<2x9xf32>>`:
    a count of 8, 16 or 32 bits for each filter; places are distances of 8 bits, or columns of 16
    with `index 16` (S4).
    """

    name = "sparse.csr"

    type: StoredType
    counts: BytesAttr
    places: BytesAttr
    values: BytesAttr
    counts_width: IntAttr
    delta: IntAttr
    index: IntAttr

    @classmethod
    def of(cls, array: NDArray[np.generic], element: Attribute, *, delta: bool = True) -> CsrAttr:
        """`array` by distances of 8 bits, or by columns of 16."""
        import numpy as np

        from ceras_ir.dialects.sparse.places import distances, stored

        nonzero = nonzero_bits(array)
        places = stored(nonzero, 255 if delta else None)
        values = np.ascontiguousarray(array).reshape(nonzero.shape)[places.rows, places.columns]
        numbers = distances(places.rows, places.columns) if delta else places.columns
        width = 8 if delta else 16
        counts, packed, bits = sections(places, len(nonzero), numbers, width, whole=True)
        kind = stored_type(array, element)
        widths = IntAttr(bits), IntAttr(8 if delta else 0), IntAttr(0 if delta else 16)
        return cls(kind, counts, packed, BytesAttr(values.tobytes()), *widths)

    @property
    def spelling(self) -> str:
        return "csr_delta8" if self.delta.data else "csr_index16"

    @property
    def listed(self) -> Stored:
        width = self.delta.data or self.index.data
        return self._listed(self.counts_width.data, width, is_distance=self.delta.data > 0)

    def verify_places(self) -> None:
        if self.counts_width.data not in (8, 16, 32):
            raise VerifyException(
                f"counts must have 8, 16 or 32 bits, got {self.counts_width.data}"
            )
        if (self.delta.data, self.index.data) not in ((8, 0), (0, 16)):
            raise VerifyException("places must be 'delta 8' or 'index 16'")
        if self.index.data and self.matrix[1] > 1 << 16:
            raise VerifyException(
                f"at most 65536 columns have 16-bit indices, got {self.matrix[1]}"
            )
        self._verify_lists(self.counts_width.data, self.delta.data or self.index.data)

    @classmethod
    def parse_widths(cls, parser: AttrParser) -> Sequence[Attribute]:
        counts = parse_width(parser, "counts")
        parser.parse_punctuation(",")
        delta = parser.parse_optional_keyword(DISTANCE) is not None
        if not delta:
            parser.parse_keyword("index")
        width = parser.parse_integer(allow_negative=False)
        parser.parse_punctuation(",")
        return [IntAttr(counts), IntAttr(width if delta else 0), IntAttr(0 if delta else width)]

    def print_widths(self, printer: Printer) -> None:
        name, width = (DISTANCE, self.delta.data) if self.delta.data else ("index", self.index.data)
        printer.print_string(f"counts {self.counts_width.data}, {name} {width}, ")
