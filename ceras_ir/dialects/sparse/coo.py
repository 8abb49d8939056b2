"""Coordinates: each weight with its place, in as many bits as the layer needs."""

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

        from ceras_ir.dialects.sparse.places import distances, stored

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
            from ceras_ir.dialects.sparse.bits import unpack

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
