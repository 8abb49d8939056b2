"""
Prove operations on two or four narrow values in a word: packed sums, and paired products.

No circuit here packs two products into a multiplier of the FPGA.
"""

import numpy as np
from proofs.registry import every, identity, same, signed, solver, valid

DSP = "ceras_ir/backends/c/runtime/dsp.c"
PAIRS = "ceras_ir/backends/c/runtime/dsp_pairs.c"
VECTORS = "ceras_ir/backends/c/runtime/vectors_256.c"
NEON = "ceras_ir/backends/c/runtime/dots_neon.c"
TILED = "ceras_ir/backends/c/linear_tiled.py"
PANELS = "ceras_ir/backends/c/tile_panels.py"
LANES = "ceras_ir/backends/nnet/runtime/lanes.h"


@identity(
    relied_on={
        PAIRS: "return ((a + b) & 0xffff) | ((a & 0xffff0000u) + (b & 0xffff0000u));"
        "}"
        "static inline uint32_t dsp_sub(uint32_t a, uint32_t b)"
        "{"
        "return ((a - b) & 0xffff) | ((a & 0xffff0000u) - (b & 0xffff0000u));",
    },
    requires="none: halves wrap around",
    by="z3, all words",
)
def packed_sums() -> None:
    """A word holds two sums, or differences, of 16 bits: no carry passes between them."""
    z3 = solver()
    a, b = z3.BitVec("a", 32), z3.BitVec("b", 32)
    high = 0xFFFF0000
    total = ((a + b) & 0xFFFF) | ((a & high) + (b & high))
    difference = ((a - b) & 0xFFFF) | ((a & high) - (b & high))
    halves = [(z3.Extract(i + 15, i, a), z3.Extract(i + 15, i, b)) for i in (16, 0)]
    valid(total == z3.Concat(*(x + y for x, y in halves)))
    valid(difference == z3.Concat(*(x - y for x, y in halves)))


@identity(
    relied_on={
        DSP: """
  const uint32_t low = (uint16_t)(int8_t)(bytes & 0xff);
  return low | (uint32_t)(uint16_t)(int8_t)(bytes >> 16 & 0xff) << 16;
"""
    },
    requires="little-endian words",
    checked_by={"ceras_ir/backends/c/weights_file.py": "__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__"},
    by="z3, all words",
)
def bytes_as_pairs() -> None:
    """Even bytes of a word are two 16-bit values; odd bytes are those of the shifted word."""
    z3 = solver()
    word = z3.BitVec("word", 32)

    def even(bits: object) -> object:
        low, high = z3.Extract(7, 0, bits), z3.Extract(23, 16, bits)
        return z3.ZeroExt(16, z3.SignExt(8, low)) | (z3.ZeroExt(16, z3.SignExt(8, high)) << 16)

    byte = [z3.SignExt(8, z3.Extract(8 * i + 7, 8 * i, word)) for i in range(4)]
    valid(even(word) == z3.Concat(byte[2], byte[0]))
    valid(even(z3.LShR(word, 8)) == z3.Concat(byte[3], byte[1]))


@identity(
    relied_on={VECTORS: "DOT_WORDS_256(sum, EVEN_U8(x), EVEN_I8(w))"},
    requires="one factor of 8 bits, the other of at most 16",
    checked_by={TILED: 'and sums.weight_type == "int8_t"'},
    by="the corners of a bilinear form",
)
def two_products_fit_32_bits() -> None:
    """A sum of two products of 16 by 8 bits, as vpmaddwd computes it, has 32 bits."""
    ends = [-(1 << 15), (1 << 15) - 1]
    narrow = [-128, 127]
    sums = [a * w + b * u for a in ends for b in ends for w in narrow for u in narrow]
    sums += [a * w + b * u for a in (0, 255) for b in (0, 255) for w in narrow for u in narrow]
    assert all(signed(total) == total for total in sums)


@identity(
    relied_on={
        NEON: "vpadalq_s16(vpadalq_s16(sum, vmull_s8(vget_low_s8(x), vget_low_s8(w))), "
        "vmull_high_s8(x, w))"
    },
    requires="int8 by int8",
    checked_by={"ceras_ir/backends/c/linear_integer.py": "int8_t"},
    by="all pairs of int8",
)
def a_product_fits_16_bits() -> None:
    """A product of two int8, as vmull_s8 keeps it, has 16 bits."""
    products = every(8)[:, None] * every(8)[None, :]
    same(products.astype(np.int16).astype(np.int64), products)


@identity(
    relied_on={
        PANELS: "values = sums.bias - offset * sums.per_output",
        VECTORS: "_mm256_xor_si256(SPLAT_256(p), _mm256_set1_epi8(-128))",
        LANES: "return static_cast<uint8_t>(value ^ -128);",
    },
    requires="none modulo 2^32; |sum| < 2^31 for the result",
    checked_by={TILED: "and sums.raw_bound < LIMIT"},
    by="all pairs of int8; linear in the products",
)
def bytes_moved_by_128() -> None:
    """`(x ^ 128) w`, unsigned by signed, less `128 w` is `x w`."""
    x, w = every(8)[:, None], every(8)[None, :]
    moved = (x.astype(np.uint8) ^ np.uint8(128)).astype(np.int64)
    same(moved * w - 128 * w, x * w, x, w)
