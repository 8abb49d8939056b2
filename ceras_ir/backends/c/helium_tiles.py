"""
Print the tiles of products for cores with Helium, in assembler.

VMLADAVA adds the products of 16 bytes to a sum in an even register of the core. A tile of four
positions by two filters has eight sums, so that 6 loads serve 8 products of vectors.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.packed_weights import stored_bits
from ceras_ir.backends.c.sums import LIMIT, Sums
from ceras_ir.dialects.quant import BYTE_BITS

VECTOR_BYTES = 16
"""The bytes of a Helium vector."""

MAX_STEPS = 12
"""The maximum number of vectors in the body of a loop."""

MAX_OUTPUTS = 64
"""
The maximum number of filters that are computed at a time. Offsets of stores reach four rows of this
number of sums.
"""

BLOCK = 16
"""The number of outputs that the output stage converts to 8 bits together."""

SUM_REGISTERS = ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr")
SOURCE_REGISTERS = ("r1", "r3", "r5", "r9")
WEIGHTS, COUNTER = "r7", "r11"
"""
The registers of the address of weights and of the loop counter. Loads that widen weights need one
of the low registers.
"""

FRAME = 32
"""
Bytes of the stack: the addresses of four positions, of the sums, the end of the weights, and the
number of rows that are left.
"""


def channel_of(index: int) -> int:
    """
    Return the output channel, of the 16 of a block, of the sum at `index` in memory. The
    instructions that narrow sums to bytes require this order. The C function `helium_channel` is
    equal.
    """
    return 4 * (index & 3) + (index >> 1 & 2) + (index >> 3)


BLOCK_ORDER = np.array([channel_of(i) for i in range(BLOCK)])


def output_order(n: int, *, in_blocks: bool) -> NDArray[np.int64]:
    """
    Return the output channel of each sum in memory, for `n` outputs. With `in_blocks`, each
    complete block of 16 is permuted by `channel_of`; otherwise the order is that of channels.
    """
    order = np.arange(n)
    if in_blocks:
        for start in range(0, n - n % BLOCK, BLOCK):
            order[start : start + BLOCK] = start + BLOCK_ORDER
    return order


ARITHMETIC = re.compile(r"v(mla|mul|mov|add|dup|shl|shr)")

NIBBLE_BITS = BYTE_BITS // 2
"""The bits in which weights are stored if they fit: two vectors of weights in 16 bytes."""

NIBBLE_SCALE = 1 << NIBBLE_BITS


def fits_nibbles(sums: Sums) -> bool:
    """
    Return whether weights have at most four bits, and the sums of products with 16 times the
    weights fit 32 bits.
    """
    return stored_bits(sums) <= NIBBLE_BITS and sums.raw_bound * NIBBLE_SCALE < LIMIT


def as_nibbles(first: NDArray[np.int8], second: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return bytes with the first weight in the low four bits, and the second in the high bits."""
    both = (first & (NIBBLE_SCALE - 1)) | (second << NIBBLE_BITS)
    return both.astype(np.uint8).view(np.int8)


def nibble_text(byte: str, index: str) -> str:
    """
    Return the C expression of a weight in `byte`: of the low four bits if the C expression `index`
    is even, else of the high four bits.
    """
    half = NIBBLE_SCALE // 2
    return f"({index} & 1 ? {byte} >> 4 : (({byte} & {NIBBLE_SCALE - 1}) ^ {half}) - {half})"


def cycles_per_instruction(lines: Sequence[str]) -> float:
    """
    Return the modelled mean cycles per instruction of assembler `lines` on a Cortex-M55.

    A vector instruction needs two cycles. Loads and arithmetic overlap: the second cycle is free if
    the next vector instruction is of the other kind.
    """
    kinds = [
        "" if line[0] != "v" else "arithmetic" if ARITHMETIC.match(line) else "memory"
        for line in lines
    ]
    more = sum(bool(kind) and kind == after for kind, after in pairwise(kinds))
    return 1 + more / len(lines)


@dataclass(frozen=True)
class Tile:
    """
    The register tile of a kernel for Helium: output positions by filters. Distances are in elements
    of the input.

    A window has `rows` rows of `vectors` vectors. Elements of a row after the window are multiplied
    by weights of zero.
    """

    positions: int
    rows: int
    vectors: int
    pixel: int
    """The distance between two positions."""
    pitch: int
    """The distance between two rows of a window."""
    item: int
    """The bytes of an element of the input."""
    is_packed: bool
    """Whether weights have four bits. A stored vector has those of two filters."""

    @property
    def filters(self) -> int:
        return 4 if self.positions == 1 else 2

    @property
    def lanes(self) -> int:
        """The number of products that a vector instruction computes."""
        return VECTOR_BYTES // self.item

    @property
    def steps(self) -> int:
        """
        The number of vectors that the body of the unrolled loop multiplies; it divides `vectors`.
        """
        return next(s for s in range(MAX_STEPS, 0, -1) if self.vectors % s == 0)

    @property
    def sums(self) -> int:
        return self.positions * self.filters

    def instructions(self, groups: int) -> float:
        """
        Return the modelled instructions of a call of the tile for `groups` groups of `filters`
        filters.
        """
        loops, is_nested = self.vectors // self.steps, self.vectors > self.steps and self.rows > 1
        weights = self.filters
        if self.is_packed:
            low, high = self._unpacked("q2", "q3")
            weights = self.filters // 2 * (1 + len(low) + len(high))
        each = self.rows * self.vectors * (self.positions + weights + self.sums) + 14
        if self.is_scaled:
            each += self.sums // 2
        if self.rows > 1:
            each += self.rows * (self.positions + 5 * is_nested)
        if self.rows * loops > 1:
            each += 2 * self.rows * loops + 2
        return groups * each + 25

    @property
    def cycles_per_instruction(self) -> float:
        return cycles_per_instruction(self._step())

    def packed(self, weights: NDArray[np.integer]) -> NDArray[np.int8]:
        """
        Pack weights [filters, rows, elements] as [group, row, vector, filter, lane], padded with
        zeros. Weights of four bits are in pairs of filters.
        """
        count, rows, length = weights.shape
        more = ((0, -count % self.filters), (0, 0), (0, self.vectors * self.lanes - length))
        split = np.pad(weights, more).reshape(-1, self.filters, rows, self.vectors, self.lanes)
        ordered = np.ascontiguousarray(split.transpose(0, 2, 3, 1, 4)).astype(np.int8)
        if not self.is_packed:
            return ordered
        return as_nibbles(ordered[:, :, :, 0::2], ordered[:, :, :, 1::2])

    def packed_bytes(self, filters: int) -> int:
        """
        Return the size in bytes of the packed weights for this number of filters, rounded up to
        complete groups.
        """
        groups = -(-filters // self.filters)
        count = groups * self.filters * self.rows * self.vectors * self.lanes
        return count // 2 if self.is_packed else count

    def function(self, layer: Layer) -> str:
        """Add the C function of the tile to the kernels, and return its name."""
        text = "\n".join(f'    "{line}\\n\\t"' for line in self._assembler())
        shape = f"{self.positions}_{self.rows}x{self.vectors}_{self.pixel}_{self.pitch}"
        shape += "_packed" if self.is_packed else ""
        return layer.kernels.use(
            "helium_tile",
            GROUP=str(self.packed_bytes(self.filters)),
            STORED=str(self.filters // 2 if self.is_packed else self.filters),
            FILTER="f / 2" if self.is_packed else "f",
            WEIGHT=nibble_text("filter[k]", "f") if self.is_packed else "filter[k]",
            NAME=f"{'s8' if self.item == 1 else 's16'}_{shape}",
            IN=f"int{8 * self.item}_t",
            POSITIONS=str(self.positions),
            FILTERS=str(self.filters),
            ROWS=str(self.rows),
            VECTORS=str(self.vectors),
            PIXEL=str(self.pixel),
            PITCH=str(self.pitch),
            LANES=str(self.lanes),
            WIDTH=str(MAX_OUTPUTS),
            STEPS=text,
        )

    def _assembler(self) -> list[str]:
        loops = self.vectors // self.steps
        lines = ["push {r4-r11, lr}", f"sub sp, #{FRAME}", f"mov {WEIGHTS}, r2"]
        lines += self._addresses()
        lines += ["str r0, [sp, #16]"]
        lines += _multiplied("r3", self.packed_bytes(self.filters))
        lines += [f"add r3, {WEIGHTS}", "str r3, [sp, #20]", "1:"]
        for p in range(0, self.positions, 2):
            pair = SOURCE_REGISTERS[p : min(p + 2, self.positions)]
            lines.append(
                f"ldrd {pair[0]}, {pair[1]}, [sp, #{4 * p}]"
                if len(pair) == 2
                else f"ldr {pair[0]}, [sp, #{4 * p}]"
            )
        is_nested = loops > 1 < self.rows
        count = loops if loops > 1 else self.rows
        if is_nested:
            lines += [f"mov {COUNTER}, #{self.rows}", f"str {COUNTER}, [sp, #24]"]
        if count > 1:
            lines.append(f"mov {COUNTER}, #{count}")
        lines += self._step(is_first=True)
        if count > 1:
            lines += ["b 3f", "2:", *self._step(), "3:"]
        for _ in range(self.steps - 1):
            lines += self._step()
        if not is_nested and self.rows > 1:
            lines += self._next_row()
        if count > 1:
            lines += [f"subs {COUNTER}, #1", "bne 2b"]
        if is_nested:
            lines += [*self._next_row(), f"ldr {COUNTER}, [sp, #24]", f"subs {COUNTER}, #1"]
            lines += [f"str {COUNTER}, [sp, #24]", f"mov {COUNTER}, #{loops}", "bne 2b"]
        if self.is_scaled:
            lines += [
                f"asr {total}, {total}, #{NIBBLE_BITS}" for total in SUM_REGISTERS[: self.sums : 2]
            ]
        lines.append("ldr r1, [sp, #16]")
        for first in range(0, self.sums, 2):
            position, filters = divmod(first, self.filters)
            place = 4 * (position * MAX_OUTPUTS + filters)
            lines.append(f"strd {SUM_REGISTERS[first]}, {SUM_REGISTERS[first + 1]}, [r1, #{place}]")
        lines += [f"adds r1, #{4 * self.filters}", "str r1, [sp, #16]", "ldr r3, [sp, #20]"]
        lines += [f"cmp {WEIGHTS}, r3", "bne 1b", f"add sp, #{FRAME}", "pop {r4-r11, pc}"]
        return lines

    def _addresses(self) -> list[str]:
        """Return the instructions that store the input address of each position on the stack."""
        lines = ["str r1, [sp]"]
        for p in range(1, self.positions):
            lines += [*added("r1", self.pixel * self.item), f"str r1, [sp, #{4 * p}]"]
        return lines

    def _next_row(self) -> list[str]:
        """
        Return the instructions that advance the input address of each position to the next row of
        the window.
        """
        distance = (self.pitch - self.vectors * self.lanes) * self.item
        return [t for r in SOURCE_REGISTERS[: self.positions] for t in added(r, distance)]

    def _step(self, *, is_first: bool = False) -> list[str]:
        """
        Return the instructions that multiply the next vector of input of each position by the next
        vector of weights of each filter. With `is_first`, the sums start at zero.
        """
        load, widened, kind = ("vldrb.8", "vldrb.8", "s8") if self.item == 1 else (
            "vldrh.16", "vldrb.s16", "s16"
        )  # fmt: skip
        product = "vmladav" if is_first else "vmladava"
        weights = ["q2", "q3"] if self.filters == 2 else ["q1", "q2", "q3", "q1"]
        if self.is_packed and self.filters == 4:
            weights = ["q1", "q2", "q3", "q2"]
        lines: list[str] = []
        for p in range(self.positions):
            x = f"q{p % 2}" if self.filters == 2 else "q0"
            lines.append(f"{load} {x}, [{SOURCE_REGISTERS[p]}], #16")
            for f, w in enumerate(weights):
                if p == 0 and (f % 2 == 0 or not self.is_packed):
                    pair = weights[f + 1] if self.is_packed else w
                    lines.append(f"{widened} {pair}, [{WEIGHTS}], #{self.lanes}")
                if p == 0 and self.is_packed:
                    low, high = self._unpacked(weights[f - f % 2], weights[f - f % 2 + 1])
                    lines += high if f % 2 else low
                total = SUM_REGISTERS[p * self.filters + f]
                lines.append(f"{product}.{kind} {total}, {x}, {w}")
        return lines

    @property
    def is_scaled(self) -> bool:
        """Whether the sums of even filters are 16 times the sums of products."""
        return self.is_packed and self.item == 1

    def _unpacked(self, even: str, both: str) -> tuple[list[str], list[str]]:
        """
        Return the instructions that extract the weights of the even filter from the register `both`
        to `even`, and those that extract the weights of the odd filter in place. Bytes of the even
        filter are 16 times the weights.
        """
        low, high = unpacked(even, both, self.item)
        return low[:1] if self.is_scaled else low, high


def unpacked(low: str, both: str, item: int) -> tuple[list[str], list[str]]:
    """
    Return the instructions that extract the low four bits of elements of `item` bytes from the
    register `both` to `low`, and those that extract the next four bits in place.
    """
    bits = BYTE_BITS * item
    above = bits - NIBBLE_BITS
    shifted = f"vshl.i{bits} {low}, {both}, #{above}"
    return [shifted, f"vshr.s{bits} {low}, {low}, #{above}"], [
        f"vshr.s{bits} {both}, {both}, #{NIBBLE_BITS}"
    ]


def added(register: str, distance: int) -> list[str]:
    """
    Return the instructions that add the constant `distance`, of up to 20 bits and a sign, to a
    register.
    """
    name, size = ("add", distance) if distance >= 0 else ("sub", -distance)
    assert size < 1 << 20, size
    low, high = size % (1 << 12), size >> 12 << 12
    lines = [f"{name}w {register}, {register}, #{low}"] if low else []
    return [*lines, f"{name}.w {register}, {register}, #{high}"] if high else lines


def _multiplied(register: str, factor: int) -> list[str]:
    """
    Return the instructions that multiply a register by the constant `factor`. They overwrite r12.
    """
    upper = [f"movt r12, #{factor >> 16}"] if factor >> 16 else []
    return [f"movw r12, #{factor & 0xFFFF}", *upper, f"mul {register}, {register}, r12"]
