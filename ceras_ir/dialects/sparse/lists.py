"""
Encodings that list the place of each stored weight.

- Coordinates: each weight with its place, in as many bits as the layer needs.
- Compressed rows, in whole bytes.
- Blocks of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BytesAttr, IntAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.sparse.encoded import (
    DISTANCE,
    Listed,
    Stored,
    StoredType,
    distances,
    nonzero_bits,
    parse_width,
    sections,
    stored,
    stored_type,
    unpack,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@irdl_attr_definition
class CooAttr(Listed):
    """
    Every weight with its place in the window, in as many bits as the layer needs: a column, a row
    and a channel (S5), or its distance from the one before.

    `#sparse.coo<counts 5, column 2 row 2 channel 4, counts "0x..", places "0x..", values "0x.." :
    tensor<8x3x3x16xi8>>`: counts of 5 bits, one for each filter, or `counts 0` and no section
    where all filters have equally many; places of 8 bits, the column lowest. With `delta 6` in
    place of the fields a place is a distance of 6 bits, and zeros are stored where it would not
    do. Fields are of 4-dimensional weights; a matrix has `channel` alone.
    """

    name = "sparse.coo"

    type: StoredType
    counts: BytesAttr
    places: BytesAttr
    values: BytesAttr
    counts_width: IntAttr
    column: IntAttr
    row: IntAttr
    channel: IntAttr
    delta: IntAttr

    @classmethod
    def of(
        cls, array: NDArray[np.generic], element: Attribute, delta: int | None = None
    ) -> CooAttr:
        """`array` by fields, or by distances of so many bits."""
        import numpy as np

        kind = stored_type(array, element)
        nonzero = nonzero_bits(array)
        places = stored(nonzero, None if delta is None else (1 << delta) - 1)
        values = np.ascontiguousarray(array).reshape(nonzero.shape)[places.rows, places.columns]
        column, row, channel = 0, 0, 0
        if delta is None:
            rows, columns, channels = window_extents(array.shape)
            column, row, channel = ((n - 1).bit_length() for n in (columns, rows, channels))
            inside, tap = places.columns % channels, places.columns // channels
            numbers = tap % columns | tap // columns << column | inside << column + row
            width = column + row + channel
        else:
            numbers, width = distances(places.rows, places.columns), delta
        counts, packed, bits = sections(places, len(nonzero), numbers, width, whole=False)
        fields = (IntAttr(n) for n in (bits, column, row, channel, delta or 0))
        return cls(kind, counts, packed, BytesAttr(values.tobytes()), *fields)

    @property
    def spelling(self) -> str:
        return f"coo_delta{self.delta.data}" if self.delta.data else "coo"

    @property
    def place_width(self) -> int:
        """Bits of a place."""
        return self.delta.data or self.column.data + self.row.data + self.channel.data

    @property
    def filter_counts(self) -> NDArray[np.int64]:
        """How many places each row lists."""
        return self._counts(self.grid[0], self.counts_width.data)

    @property
    def listed(self) -> Stored:
        found = self._listed(
            self.counts_width.data, self.place_width, is_distance=self.delta.data > 0
        )
        if self.delta.data:
            return found
        _, columns, channels = window_extents(self.shape)
        column, row = self.column.data, self.row.data
        at = found.columns
        tap = (at >> column & (1 << row) - 1) * columns + (at & (1 << column) - 1)
        return found._replace(columns=tap * channels + (at >> column + row))

    def verify_places(self) -> None:
        if not self.delta.data:
            extents = window_extents(self.shape)
            widths = self.row.data, self.column.data, self.channel.data
            for name, extent, width in zip(
                ("row", "column", "channel"), extents, widths, strict=True
            ):
                if width != (extent - 1).bit_length():
                    raise VerifyException(
                        f"a {name} of {extent} takes {(extent - 1).bit_length()} bits, got {width}"
                    )
        self._verify_lists(self.counts_width.data, self.place_width)
        if not self.delta.data and len(self.values.data):
            _, columns, _ = window_extents(self.shape)
            items = len(self.values.data) // self.dtype.itemsize
            raw = unpack(self.places.data, self.place_width, items).astype(int)
            if int((raw & (1 << self.column.data) - 1).max()) >= columns:
                raise VerifyException(f"a column is beyond the {columns} of a window")

    @classmethod
    def parse_widths(cls, parser: AttrParser) -> Sequence[Attribute]:
        counts = parse_width(parser, "counts")
        parser.parse_punctuation(",")
        if parser.parse_optional_keyword(DISTANCE):
            widths = [0, 0, 0, parser.parse_integer(allow_negative=False)]
            if not widths[3]:
                parser.raise_error("a distance has at least one bit")
        else:
            widths = [parse_width(parser, name) for name in ("column", "row", "channel")] + [0]
        parser.parse_punctuation(",")
        return [IntAttr(n) for n in (counts, *widths)]

    def print_widths(self, printer: Printer) -> None:
        printer.print_string(f"counts {self.counts_width.data}, ")
        if self.delta.data:
            printer.print_string(f"{DISTANCE} {self.delta.data}, ")
        else:
            printer.print_string(
                f"column {self.column.data} row {self.row.data} channel {self.channel.data}, "
            )


def window_extents(shape: Sequence[int]) -> tuple[int, int, int]:
    """Rows, columns and channels of a filter."""
    if len(shape) == 4:
        return shape[1], shape[2], shape[3]
    return 1, 1, prod(shape[1:])


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
