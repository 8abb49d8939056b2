"""Blocks of weights, as whole."""

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
class BlockAttr(Listed):
    """
    Whole blocks of `rows` filters by `columns` products, of which any is not zero.

    `#sparse.block<rows 4 columns 1, counts 5, delta 6, counts "0x..", places "0x..",
    values "0x.." : tensor<8x3x3x16xi8>>`: counts of each row of blocks, distances between blocks
    in blocks, and the elements of each block row by row. Blocks divide the matrix.
    """

    name = "sparse.block"

    type: StoredType
    counts: BytesAttr
    places: BytesAttr
    values: BytesAttr
    rows: IntAttr
    columns: IntAttr
    counts_width: IntAttr
    delta: IntAttr

    @classmethod
    def of(
        cls, array: NDArray[np.generic], element: Attribute, block: tuple[int, int], delta: int
    ) -> BlockAttr:
        """`array` in blocks, by distances of so many bits."""
        import numpy as np

        from ceras_ir.dialects.sparse.places import distances, stored

        high, wide = block
        flat = np.ascontiguousarray(array).reshape(array.shape[0], -1)
        grid = flat.shape[0] // high, flat.shape[1] // wide
        assert (grid[0] * high, grid[1] * wide) == flat.shape, (block, flat.shape)
        blocks = flat.reshape(grid[0], high, grid[1], wide).transpose(0, 2, 1, 3)
        nonzero = nonzero_bits(blocks.reshape(grid[0], -1)).reshape(*grid, -1)
        places = stored(np.any(nonzero, axis=2), (1 << delta) - 1)
        numbers = distances(places.rows, places.columns)
        counts, packed, bits = sections(places, grid[0], numbers, delta, whole=False)
        values = BytesAttr(np.ascontiguousarray(blocks[places.rows, places.columns]).tobytes())
        widths = (IntAttr(n) for n in (high, wide, bits, delta))
        return cls(stored_type(array, element), counts, packed, values, *widths)

    @property
    def spelling(self) -> str:
        return f"block_{self.rows.data}x{self.columns.data}"

    @property
    def unit(self) -> int:
        return self.rows.data * self.columns.data

    @property
    def grid(self) -> tuple[int, int]:
        filters, products = self.matrix
        return filters // self.rows.data, products // self.columns.data

    @property
    def filter_counts(self) -> NDArray[np.int64]:
        """How many places each row lists."""
        return self._counts(self.grid[0], self.counts_width.data)

    @property
    def listed(self) -> Stored:
        return self._listed(self.counts_width.data, self.delta.data, is_distance=True)

    @property
    def elements(self) -> Stored:
        import numpy as np

        from ceras_ir.dialects.sparse.places import Stored

        found, (high, wide) = self.listed, (self.rows.data, self.columns.data)
        inside = np.arange(high * wide)
        rows = found.rows[:, None] * high + inside // wide
        columns = found.columns[:, None] * wide + inside % wide
        return Stored(rows.reshape(-1), columns.reshape(-1))

    def verify_places(self) -> None:
        high, wide = self.rows.data, self.columns.data
        filters, products = self.matrix
        if high < 1 or wide < 1 or filters % high or products % wide:
            raise VerifyException(
                f"blocks of {high}x{wide} do not divide {filters} filters of {products} products"
            )
        if len(self.values.data) % (self.unit * self.dtype.itemsize):
            raise VerifyException(f"values are no whole blocks of {high}x{wide}")
        if not self.delta.data:
            raise VerifyException("a distance has at least one bit")
        self._verify_lists(self.counts_width.data, self.delta.data)

    @classmethod
    def parse_widths(cls, parser: AttrParser) -> Sequence[Attribute]:
        high, wide = parse_width(parser, "rows"), parse_width(parser, "columns")
        parser.parse_punctuation(",")
        counts = parse_width(parser, "counts")
        parser.parse_punctuation(",")
        delta = parse_width(parser, DISTANCE)
        parser.parse_punctuation(",")
        return [IntAttr(n) for n in (high, wide, counts, delta)]

    def print_widths(self, printer: Printer) -> None:
        printer.print_string(
            f"rows {self.rows.data} columns {self.columns.data}, "
            f"counts {self.counts_width.data}, {DISTANCE} {self.delta.data}, "
        )
