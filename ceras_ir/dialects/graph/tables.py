"""
Tables of a function of one stored integer: as arrays, and what holds of them.

A table has `n` entries; a list of tables is read by channel, through `rows`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float32Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BYTE_ENTRIES = 256
"""Of a table for numbers of 8 bits."""


def table_shape(table: DenseIntOrFPElementsAttr) -> tuple[int, int]:
    """How many tables there are, and the entries of each."""
    type = table.type
    assert isinstance(type, TensorType)
    rows, entries = (1, *type.get_shape())[-2:]
    return rows, entries


def table_arrays(
    table: DenseIntOrFPElementsAttr,
) -> NDArray[np.int8 | np.int16 | np.float32]:
    """The tables, one a row."""
    import numpy as np

    shape, element = table_shape(table), table.get_element_type()
    if isinstance(element, Float32Type):
        kind = "float32"
    else:
        assert isinstance(element, IntegerType)
        kind = f"int{element.width.data}"
    stored = np.frombuffer(table.data.data, kind)
    # One number stands for all of them.
    return np.broadcast_to(stored, prod(shape)).reshape(shape)


def rows_of_channels(rows: DenseArrayBase[IntegerType] | None) -> tuple[int, ...] | None:
    """Which table each channel uses, if they differ."""
    return None if rows is None else tuple(int(v) for v in rows.get_values())


def expect_tables(
    table: DenseIntOrFPElementsAttr,
    rows: DenseArrayBase[IntegerType] | None,
    storage: Attribute,
    channels: int,
) -> None:
    """Refuse tables of other entries than `storage`, or rows that do not name one per channel."""
    type = table.type
    shape: list[int] = list(type.get_shape()) if isinstance(type, TensorType) else []
    if len(shape) != (1 if rows is None else 2):
        raise VerifyException(f"one table, or 'rows' and a list of tables expected: {type}")
    if type.get_element_type() != storage:
        raise VerifyException(f"a table has entries of {storage}, got {type}")
    listed = rows_of_channels(rows)
    if listed is not None and (
        len(listed) != channels or any(not 0 <= r < shape[0] for r in listed)
    ):
        raise VerifyException(
            f"a row below {shape[0]} for each of {channels} channels expected, got {list(listed)}"
        )
