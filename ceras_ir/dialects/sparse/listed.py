"""Encodings that list places: how many weights of each filter are stored, and where each stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BytesAttr
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.sparse.encoded import (
    Encoded,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.dialects.sparse.places import Stored


class Listed(Encoded, ABC):
    """An encoding by filters: how many weights of each are stored, and where each stands."""

    def _counts(self, filters: int, width: int) -> NDArray[np.int64]:
        import numpy as np

        from ceras_ir.dialects.sparse.bits import unpack

        if width == 0:
            items = len(self.values.data) // (self.dtype.itemsize * self.unit)
            return np.full(filters, items // filters, np.int64)
        return unpack(self.counts.data, width, filters).astype(np.int64)

    def _verify_lists(self, counts_width: int, place_width: int) -> None:
        from ceras_ir.dialects.sparse.bits import packed_bytes

        if not 0 <= counts_width <= 32 or not 0 <= place_width <= 32:
            raise VerifyException("widths must be in [0, 32]")
        items = len(self.values.data) // (self.dtype.itemsize * self.unit)
        rows, columns = self.grid
        for name, section, size, width in (
            ("counts", self.counts.data, rows, counts_width),
            ("places", self.places.data, items, place_width),
        ):
            if len(section) != packed_bytes(size, width):
                raise VerifyException(
                    f"{size} {name} of {width} bits take {packed_bytes(size, width)} bytes, "
                    f"got {len(section)}"
                )
            spare = len(section) * 8 - size * width
            if spare and section[-1] >> 8 - spare:
                raise VerifyException(f"bits behind the last of {name} must be zero")
        counts = self._counts(rows, counts_width)
        if int(counts.sum()) != items:
            raise VerifyException(f"counts add up to {int(counts.sum())}, but {items} are stored")
        places = self.listed
        if items and (int(places.columns.max()) >= columns or int(places.columns.min()) < 0):
            raise VerifyException(f"a place is beyond the {columns} of a filter")
        import numpy as np

        same = places.rows[1:] == places.rows[:-1]
        if (np.diff(places.columns)[same] <= 0).any():
            raise VerifyException("places of a filter must ascend")

    @property
    def unit(self) -> int:
        """Elements that stand in each place."""
        return 1

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of what places count."""
        return self.matrix

    @property
    @abstractmethod
    def listed(self) -> Stored:
        """Rows and columns of the grid, as listed."""

    @property
    def elements(self) -> Stored:
        return self.listed

    def _listed(self, counts_width: int, place_width: int, *, is_distance: bool) -> Stored:
        import numpy as np

        from ceras_ir.dialects.sparse.bits import unpack
        from ceras_ir.dialects.sparse.places import Stored, summed

        rows, _ = self.grid
        items = len(self.values.data) // (self.dtype.itemsize * self.unit)
        index = np.repeat(np.arange(rows), self._counts(rows, counts_width))[:items]
        places = unpack(self.places.data, place_width, items).astype(np.int64)[: index.size]
        return Stored(index, summed(index, places) if is_distance else places)


def sections(
    places: Stored, filters: int, numbers: NDArray[np.generic], width: int, *, whole: bool
) -> tuple[BytesAttr, BytesAttr, int]:
    """The sections of counts and places, and the width of counts; of whole bytes if asked for."""
    import numpy as np

    from ceras_ir.dialects.sparse.bits import pack, width_of

    counts = np.bincount(places.rows, minlength=filters)
    largest = int(counts.max(initial=0))
    bits = width_of(largest)
    if whole:
        bits = 8 if largest < 1 << 8 else 16 if largest < 1 << 16 else 32
    elif (counts == largest).all():
        bits = 0
    packed = pack(counts, bits) if bits else b""
    return BytesAttr(packed), BytesAttr(pack(numbers, width)), bits
