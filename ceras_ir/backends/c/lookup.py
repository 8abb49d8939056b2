"""
Print table lookups: 8 or 16 bits to integers or floats, with a table for all elements or tables of
channels.
"""

from math import lcm, prod

import numpy as np

from ceras_ir.backends.c.layer import Layer, from_row, prints
from ceras_ir.backends.c.register_tiles import LANES_PER_VECTOR
from ceras_ir.backends.c.values import (
    value_type,
)
from ceras_ir.dialects.graph import LookupOp, shape_of

MAX_TABLE_PARTS = 8
"""
The maximum number of lookup instructions for 64 elements in the order of the channels; beyond, a
transposition is faster.
"""

MAX_TURNED_ENTRIES = 1 << 12
"""The maximum entries of a table for which a transposition is faster than gathers."""

GATHERED = 16
"""The elements that a gather loads together (`lookup_rows.c`)."""


@prints(LookupOp)
def lookup(layer: Layer, op: LookupOp) -> None:
    entries = op.tables.shape[1]
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    source, target = value_type(op.input), value_type(op.result)
    if target == "float":
        _lookup_floats(layer, op, x, y)
        return
    if source == "int8_t" and target == "int16_t" and not op.has_pixel_input:
        _lookup_halves(layer, op, x, y)
        return
    tables = op.tables
    if op.has_pixel_input:
        # Unsigned bytes are indices as signed bytes, into tables with exchanged halves.
        tables, source = np.roll(tables, entries // 2, axis=1), "int8_t"
    name = layer.constant("table", target, tables.size, tables.itemsize, lambda: tables)
    size = prod(shape_of(op.result))
    if op.has_pixel_input:
        layer.line(f"const int8_t *const bytes = (const int8_t *){x};")
        x = "bytes"
    if op.channel_rows is None and source == target == "int8_t":
        kernel = byte_lookup_kernel(layer)
        layer.rows(
            size,
            size,
            lambda first, count: (
                f"{kernel}({from_row(y, first, 1)}, {from_row(x, first, 1)}, {name}, {count});"
            ),
            LANES_PER_VECTOR * 4,
        )
        return
    if source == target == "int8_t":
        _lookup_channels(layer, size, (y, x, target), (name, "0"), _first_entries(layer, op))
        return
    first, channels = _first_entries(layer, op, GATHERED if layer.options.vectors else 1)
    name_of_types = f"{source}_{target}"
    kernel = layer.kernels.use("lookup_rows", NAME=name_of_types, X=source, Y=target)
    unit = 1
    if layer.options.vectors and not op.has_pixel_input:
        if target == "int8_t" and _max_table_parts(op) <= MAX_TABLE_PARTS:
            kernel, unit = layer.kernels.use("lookup_finer"), LOOKUP_ROWS
        elif entries <= MAX_TURNED_ENTRIES:
            kernel = layer.kernels.use("lookup_turned", NAME=name_of_types, Y=target)
            unit = LOOKUP_ROWS
    rest = f"{name}, {first}, {entries // 2}, {channels}"
    _call_for_rows(layer, kernel, (y, x), rest, (size, channels), unit)


def byte_lookup_kernel(layer: Layer) -> str:
    """Return the C function that looks up bytes in a single table."""
    if not layer.options.helium:
        return layer.kernels.use("lookup")
    from ceras_ir.backends.c.helium_elementwise import lookup_kernel

    return lookup_kernel(layer)


def _lookup_floats(layer: Layer, op: LookupOp, x: str, y: str) -> None:
    rows, entries = op.tables.shape
    half = entries // 2
    name = layer.constant("table", "float", rows * entries, 4, lambda: op.tables)
    at = f"{x}[i]"
    if not op.has_pixel_input:
        if value_type(op.input) == "int16_t":
            at = f"(v < {-half} ? {-half} : v >= {half} ? {half - 1} : v)".replace("v", at)
        at = f"{at} + {half}"
    if op.channel_rows is not None:
        starts = np.array(op.channel_rows, np.int32) * entries
        at = f"{layer.array('first', starts, 'int32_t')}[i % {len(starts)}] + {at}"
    layer.each(prod(shape_of(op.result)), [f"{y}[i] = {name}[{at}];"])


def _max_table_parts(op: LookupOp) -> int:
    """
    Return an upper bound of the number of table parts, of 128 entries each, in which a vector of 64
    elements must look up entries. Channels with different tables need more parts.
    """
    entries = op.tables.shape[1]
    rows = np.array(op.channel_rows or [0])
    lanes = np.resize(rows, (lcm(len(rows), 64) // 64, 64))
    return max(len(set(group)) for group in lanes.tolist()) * max(entries // 128, 1)


def _first_entries(layer: Layer, op: LookupOp, unit: int = 1) -> tuple[str, int]:
    """
    Add an array with the index of the table entry for input 0 of each channel, and return its C
    name and its length. If all channels have the same table, the index is repeated to fill a
    vector; otherwise the channels are repeated to a multiple of `unit` that divides the elements.
    """
    entries = op.tables.shape[1]
    starts = np.array(op.channel_rows or [0] * LANES_PER_VECTOR, np.int32) * entries + entries // 2
    period = lcm(len(starts), unit)
    if prod(shape_of(op.result)) % period == 0:
        starts = np.resize(starts, period)
    return layer.array("first", starts, "int32_t"), len(starts)


LOOKUP_ROWS = 64
"""
The unit of rows for threads, of elements of all channels: a multiple of the 16 rows that
`lookup_blocks.c` looks up together, after it has collected the tables of the channels.
"""


def _lookup_halves(layer: Layer, op: LookupOp, x: str, y: str) -> None:
    """
    Print a table lookup from 8 to 16 bits for vector instructions: the low and the high bytes of
    the results are looked up in two tables.
    """
    entries = op.tables.astype(np.int16)
    low, high = (
        layer.constant(
            name, ctype, entries.size, 1, lambda n=shift: (entries >> n).astype(np.uint8)
        )
        for name, ctype, shift in (("low", "uint8_t", 0), ("high", "int8_t", 8))
    )
    size, starts = prod(shape_of(op.result)), _first_entries(layer, op)
    _lookup_channels(layer, size, (y, x, "int16_t"), (low, high), starts)


def _lookup_channels(
    layer: Layer,
    size: int,
    values: tuple[str, str, str],
    tables: tuple[str, str],
    starts: tuple[str, int],
) -> None:
    """
    Print a lookup of `size` bytes in tables of channels. `values` are the result, the input, and
    the C type of the result; `starts` is the result of `_first_entries`.
    """
    (y, x, target), (first, channels) = values, starts
    low = "int8_t" if target == "int8_t" else "uint8_t"
    kernel = layer.kernels.use("lookup_channels", NAME=target, Y=target, LOW=low)
    if layer.options.vectors:
        kernel = layer.kernels.use("lookup_blocks", NAME=target, Y=target, LOW=low)
    arguments = f"{', '.join(tables)}, {first}, {channels}"
    _call_for_rows(layer, kernel, (y, x), arguments, (size, channels), LOOKUP_ROWS)


def _call_for_rows(
    layer: Layer,
    kernel: str,
    pointers: tuple[str, str],
    arguments: str,
    extents: tuple[int, int],
    unit: int = 1,
) -> None:
    """
    Print calls of a C function for rows of elements of all channels, which threads share in
    multiples of `unit`. The arguments are the result, the input, `arguments`, and a number of
    elements. `extents` are the number of elements and of channels.
    """
    (y, x), (size, channels) = pointers, extents
    whole = size % channels == 0
    layer.rows(
        size // channels if whole else 1,
        size,
        lambda at, count: (
            f"{kernel}({from_row(y, at, channels)}, {from_row(x, at, channels)}, {arguments}, "
            f"{f'{count} * {channels}' if whole else size});"
        ),
        unit,
    )
