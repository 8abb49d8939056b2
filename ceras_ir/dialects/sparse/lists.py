"""
Define encodings with the position of each stored weight: coordinates with the fewest bits,
compressed rows in bytes, and blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, IntAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.sparse.encoded import (
    DISTANCE,
    Listed,
    Stored,
    distances,
    nonzero_bits,
    parse_width,
    sections,
    stored,
    unpack,
)


@irdl_attr_definition
class CooAttr(Listed):
    """
    Weights with positions of the minimum width: column, row and channel (paper S5), or the distance
    from the previous weight.

    `#sparse.coo<counts 5, column 2 row 2 channel 4, counts "0x..", places "0x..", values "0x.." :
    tensor<8x3x3x16xi8>>`: a count of 5 bits for each filter, or `counts 0` if all filters store the
    same number of weights. Positions have 8 bits, the column lowest. With `delta 6` instead of the
    fields, a position is a distance of 6 bits, and stored zeros bridge longer distances. A matrix
    has only `channel`.
    """

    name = "sparse.coo"

    column: IntAttr
    row: IntAttr
    channel: IntAttr

    @classmethod
    def of(
        cls, array: NDArray[np.generic], element: Attribute, delta: int | None = None
    ) -> CooAttr:
        """
        Encode `array` with the row, column and channel of each stored weight, or with distances of
        `delta` bits from the previous weight. `element` is the stored element type.
        """
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
        counts, packed, bits = sections(places, len(nonzero), numbers, width, in_bytes=False)
        fields = (IntAttr(n) for n in (bits, delta or 0, column, row, channel))
        return cls(
            TensorType(element, array.shape), counts, packed, BytesAttr(values.tobytes()), *fields
        )

    @property
    def spelling(self) -> str:
        return f"coo_delta{self.delta.data}" if self.delta.data else "coo"

    @property
    def place_width(self) -> int:
        return self.delta.data or self.column.data + self.row.data + self.channel.data

    @property
    def listed(self) -> Stored:
        found = super().listed
        if self.delta.data:
            return found
        _, columns, channels = window_extents(self.shape)
        column, row = self.column.data, self.row.data
        at = found.columns
        tap = (at >> column & (1 << row) - 1) * columns + (at & (1 << column) - 1)
        return found._replace(columns=tap * channels + (at >> column + row))

    def verify_positions(self) -> None:
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
        self._verify_lists()
        if not self.delta.data and len(self.values.data):
            _, columns, _ = window_extents(self.shape)
            raw = unpack(self.places.data, self.place_width, self._items).astype(int)
            if int((raw & (1 << self.column.data) - 1).max()) >= columns:
                raise VerifyException(f"a column must be below {columns}, the width of a window")

    @classmethod
    def parse_widths(cls, parser: AttrParser) -> Sequence[Attribute]:
        counts = parse_width(parser, "counts")
        parser.parse_punctuation(",")
        if parser.parse_optional_keyword(DISTANCE):
            widths = [parser.parse_integer(allow_negative=False), 0, 0, 0]
            if not widths[0]:
                parser.raise_error("a distance must have >= 1 bits")
        else:
            widths = [0, *(parse_width(parser, name) for name in ("column", "row", "channel"))]
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
    """
    Return the number of rows, columns and channels of a filter for weights of `shape`. A row of a
    matrix is a filter with a single row and column.
    """
    if len(shape) == 4:
        return shape[1], shape[2], shape[3]
    return 1, 1, prod(shape[1:])


@irdl_attr_definition
class CsrAttr(Listed):
    """
    Compressed rows in bytes, which a microcontroller uses without unpacking.

    `#sparse.csr<counts 8, delta 8, counts "0x..", places "0x..", values "0x.." : tensor<2x9xf32>>`:
    a count of 8, 16 or 32 bits for each filter. Positions are distances of 8 bits, or columns of 16
    bits with `index 16` (paper S4).
    """

    name = "sparse.csr"

    index: IntAttr

    @classmethod
    def of(cls, array: NDArray[np.generic], element: Attribute, *, delta: bool = True) -> CsrAttr:
        """
        Encode `array` with a distance of 8 bits from the previous stored weight (`delta`), or with
        a column of 16 bits. `element` is the stored element type.
        """
        nonzero = nonzero_bits(array)
        places = stored(nonzero, 255 if delta else None)
        values = np.ascontiguousarray(array).reshape(nonzero.shape)[places.rows, places.columns]
        numbers = distances(places.rows, places.columns) if delta else places.columns
        width = 8 if delta else 16
        counts, packed, bits = sections(places, len(nonzero), numbers, width, in_bytes=True)
        kind = TensorType(element, array.shape)
        widths = IntAttr(bits), IntAttr(8 if delta else 0), IntAttr(0 if delta else 16)
        return cls(kind, counts, packed, BytesAttr(values.tobytes()), *widths)

    @property
    def spelling(self) -> str:
        return "csr_delta8" if self.delta.data else "csr_index16"

    @property
    def place_width(self) -> int:
        return self.delta.data or self.index.data

    def verify_positions(self) -> None:
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
        self._verify_lists()

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
class SparseBlockAttr(Listed):
    """
    Blocks of `rows` filters by `columns` products that contain a nonzero element.

    `#sparse.block<rows 4 columns 1, counts 5, delta 6, counts "0x..", places "0x..", values "0x.."
    : tensor<8x3x3x16xi8>>`: the count of each row of blocks, distances in blocks, and the elements
    of each block row by row. Blocks divide the matrix.
    """

    name = "sparse.block"

    rows: IntAttr
    columns: IntAttr

    @classmethod
    def of(
        cls, array: NDArray[np.generic], element: Attribute, block: tuple[int, int], delta: int
    ) -> SparseBlockAttr:
        """
        Encode the blocks of `array` that contain a nonzero element. `block` is the number of
        filters and of products of a block, and distances between blocks have `delta` bits.
        `element` is the stored element type.
        """
        high, wide = block
        flat = np.ascontiguousarray(array).reshape(array.shape[0], -1)
        grid = flat.shape[0] // high, flat.shape[1] // wide
        assert (grid[0] * high, grid[1] * wide) == flat.shape, (block, flat.shape)
        blocks = flat.reshape(grid[0], high, grid[1], wide).transpose(0, 2, 1, 3)
        nonzero = nonzero_bits(blocks.reshape(grid[0], -1)).reshape(*grid, -1)
        places = stored(np.any(nonzero, axis=2), (1 << delta) - 1)
        numbers = distances(places.rows, places.columns)
        counts, packed, bits = sections(places, grid[0], numbers, delta, in_bytes=False)
        values = BytesAttr(np.ascontiguousarray(blocks[places.rows, places.columns]).tobytes())
        widths = (IntAttr(n) for n in (bits, delta, high, wide))
        return cls(TensorType(element, array.shape), counts, packed, values, *widths)

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
    def elements(self) -> Stored:
        found, (high, wide) = self.listed, (self.rows.data, self.columns.data)
        inside = np.arange(high * wide)
        rows = found.rows[:, None] * high + inside // wide
        columns = found.columns[:, None] * wide + inside % wide
        return Stored(rows.reshape(-1), columns.reshape(-1))

    def verify_positions(self) -> None:
        high, wide = self.rows.data, self.columns.data
        filters, products = self.matrix
        if high < 1 or wide < 1 or filters % high or products % wide:
            raise VerifyException(
                f"blocks of {high}x{wide} do not divide {filters} filters of {products} products"
            )
        if len(self.values.data) % (self.unit * self.dtype.itemsize):
            raise VerifyException(f"values are not a multiple of blocks of {high}x{wide}")
        if not self.delta.data:
            raise VerifyException("a distance must have >= 1 bits")
        self._verify_lists()

    @classmethod
    def parse_widths(cls, parser: AttrParser) -> Sequence[Attribute]:
        high, wide = parse_width(parser, "rows"), parse_width(parser, "columns")
        parser.parse_punctuation(",")
        counts = parse_width(parser, "counts")
        parser.parse_punctuation(",")
        delta = parse_width(parser, DISTANCE)
        parser.parse_punctuation(",")
        return [IntAttr(n) for n in (counts, delta, high, wide)]

    def print_widths(self, printer: Printer) -> None:
        printer.print_string(
            f"rows {self.rows.data} columns {self.columns.data}, "
            f"counts {self.counts_width.data}, {DISTANCE} {self.delta.data}, "
        )
