"""
Store the table of exponentials of an integer softmax in the fewest bytes of flash.

An exponential is the product of a coarse and a fine one: `exp(-(64 i + j) s) = exp(-64 i s) exp(-j
s)`. Both are stored in units of 2^-31, and the C rounds the 64-bit product. The compiler computes
all products, and uses factors only if each rounds to the entry of the table.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.layer import Layer
from ceras_ir.dialects.graph import constant_array, stored_element
from ceras_ir.dialects.graph.normalization import EXP_TABLE_BITS, IntegerSoftmaxOp

FACTOR_BITS = 31
"""The fraction bits of a factor."""

PRODUCT_SHIFT = 2 * FACTOR_BITS - EXP_TABLE_BITS
"""The right shift from the product of two factors to an entry of the table."""

DISTANCE_BITS = range(2, 9)
"""The numbers of bits of a distance from the maximum that may index the fine factors."""


@dataclass(frozen=True)
class Exponentials:
    """The C text with which a kernel finds the exponential of a distance `d`."""

    name: str
    """The suffix of the name of the kernel."""
    parameters: str
    arguments: str
    entry: str
    """The expression of the exponential of `d`, a `uint32_t`."""


def exponentials(layer: Layer, op: IntegerSoftmaxOp) -> Exponentials:
    """
    Add the constants of a softmax to `layer`: the table, or on processors without vectors two
    tables of factors that are exact and smaller.
    """
    entries = None if layer.options.vectors else constant_array(op.table)
    found = None if entries is None else _factors(entries, stored_element(op.input).scale)
    if found is None:
        table = layer.read(op.table, "table")
        return Exponentials("", "const int32_t *restrict table", table, "(uint32_t)table[d]")
    coarse, fine = found
    bits = fine.size.bit_length() - 1
    product = f"(uint64_t)coarse[d >> {bits}] * fine[d & {fine.size - 1}u]"
    half = 1 << (PRODUCT_SHIFT - 1)
    return Exponentials(
        f"_{bits}",
        "const uint32_t *restrict coarse, const uint32_t *restrict fine",
        f"{layer.array('coarse', coarse, 'uint32_t')}, {layer.array('fine', fine, 'uint32_t')}",
        f"(uint32_t)((({product}) + UINT64_C({half})) >> {PRODUCT_SHIFT})",
    )


def _factors(
    entries: NDArray[np.generic], step: float
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]] | None:
    """
    Return coarse and fine exponentials of distances in units of `step`, of which the rounded
    products are `entries`; `None` if there are none that are smaller than the entries.
    """
    for bits in sorted(DISTANCE_BITS, key=lambda bits: (entries.size >> bits) + (1 << bits)):
        distances = np.arange(entries.size, dtype=np.uint64)
        coarse, fine = (
            np.rint(np.exp(-step * each) * 2.0**FACTOR_BITS).astype(np.uint64)
            for each in (np.arange(0, entries.size, 1 << bits), np.arange(1 << bits))
        )
        if coarse.size + fine.size >= entries.size:
            continue
        products = coarse[distances >> np.uint64(bits)] * fine[distances & np.uint64(fine.size - 1)]
        rounded = (products + np.uint64(1 << (PRODUCT_SHIFT - 1))) >> np.uint64(PRODUCT_SHIFT)
        if np.array_equal(rounded, entries):
            return coarse.astype(np.uint32), fine.astype(np.uint32)
    return None
