"""
Describe the window buffer of a convolution.

A block that computes several output rows in parallel has a bank of memory for each row. A slot
stores the input rows by which two adjacent groups of these output rows differ.
`hdl/window_buffer.sv` describes slots, phases and addresses.
"""

from dataclasses import dataclass
from functools import cached_property

from ceras_ir.backends.dataflow.blocks import Convolution


def ceiling(a: int, b: int) -> int:
    """Return a / b, rounded up."""
    return -(-a // b)


def bits(values: int) -> int:
    """
    Return the number of bits that can represent `values` different values: `bits(5)` is 3; at least
    1.
    """
    return max(1, (values - 1).bit_length())


@dataclass(frozen=True, eq=False)
class WindowBuffer:
    """
    The on-chip memory for the input rows of a convolution while it computes `banks` output rows in
    parallel.
    """

    layer: Convolution
    banks: int
    slots: int
    """
    The number of slots. A slot stores the input rows by which two groups of output rows differ;
    further rows are written to the remaining slots while a group is computed.
    """
    parts: int = 1
    """
    The number of parts of the columns, which are computed in sequence. Each part has separate
    words.
    """
    terms: int = 1
    """The number of channels with the same address, which are read together."""

    @property
    def groups(self) -> int:
        """
        The number of groups of `banks` output rows in a frame, computed in sequence. Each group
        reads all weights.
        """
        return ceiling(self.layer.feature.rows, self.banks)

    @property
    def slot_rows(self) -> int:
        """The number of input rows that a slot stores; rows of padding count."""
        return self.layer.windows.strides[0] * self.banks

    @property
    def last_rows(self) -> int:
        """The number of input rows that the windows of a frame span; rows of padding count."""
        w = self.layer.windows
        return w.strides[0] * (self.layer.feature.rows - 1) + w.reach[0] + 1

    @property
    def first_rows(self) -> int:
        """
        The number of input rows that the first group of output rows needs; rows of padding count.
        """
        w = self.layer.windows
        return min(self.last_rows, w.strides[0] * (self.banks - 1) + w.reach[0] + 1)

    def needed_rows(self, group: int) -> int:
        """
        Return the number of input rows that must be complete before the group with index `group` of
        output rows can be computed; rows of padding count.
        """
        return min(self.last_rows, self.first_rows + group * self.slot_rows)

    @property
    def padded_rows(self) -> int:
        """
        The number of input rows of a frame; rows of padding and rows that no window reads count.
        """
        return max(self.layer.windows.before[0] + self.layer.input.rows, self.last_rows)

    @property
    def frame_slots(self) -> int:
        return ceiling(self.padded_rows, self.slot_rows)

    @cached_property
    def residues(self) -> tuple[int, ...]:
        """
        The remainders of the columns that windows read, divided by the stride. With stride 2, a
        window of width 1 reads only even columns: (0,); a wider window reads all: (0, 1). Columns
        of padding count.
        """
        w = self.layer.windows
        steps = range(0, w.kernel[1] * w.dilations[1], w.dilations[1])
        return tuple(sorted({step % w.strides[1] for step in steps}))

    @property
    def phases(self) -> int:
        """
        The number of words in which the buffer stores a row of a channel: one for each part of the
        columns and each element of `residues`.
        """
        return self.parts * len(self.residues)

    @property
    def part_columns(self) -> int:
        """The number of output columns of a part; they are computed in parallel."""
        return ceiling(self.layer.feature.columns, self.parts)

    @property
    def starts(self) -> list[int]:
        """
        The input column of the first element in each of the words that store a row of a channel;
        negative in the padding on the left.
        """
        w = self.layer.windows
        return [
            w.strides[1] * (part * self.part_columns + self.columns.start) + residue - w.before[1]
            for part in range(self.parts)
            for residue in self.residues
        ]

    @property
    def max_shift(self) -> int:
        """
        The distance in input columns between the first and the last column of a window, divided by
        the stride and rounded down.
        """
        w = self.layer.windows
        return w.reach[1] // w.strides[1]

    @cached_property
    def columns(self) -> range:
        """
        The columns that a word stores, in multiples of the stride, relative to the first column of
        a part. With several parts, all columns are stored; otherwise, columns without any input are
        omitted.
        """
        if self.parts > 1:
            return range(self.part_columns + self.max_shift)
        w, width = self.layer.windows, self.layer.input.columns
        inside = [
            k
            for k in range(self.layer.feature.columns + self.max_shift)
            if any(0 <= w.strides[1] * k + r - w.before[1] < width for r in self.residues)
        ]
        return range(inside[0], inside[-1] + 1) if inside else range(1)

    @property
    def slot_words(self) -> int:
        """The number of words of a bank that belong to a slot."""
        return self.layer.windows.strides[0] * self.row_words

    @property
    def row_words(self) -> int:
        """The number of words of a bank in which a row is stored."""
        return self.layer.input.channels // self.terms * self.phases

    @property
    def depth(self) -> int:
        """The number of words of a bank."""
        return self.slots * self.slot_words

    @property
    def address_bits(self) -> int:
        return bits(self.depth)

    @property
    def rotation_bits(self) -> int:
        return bits(self.banks)

    @property
    def shift_bits(self) -> int:
        return bits(self.max_shift + 1)

    def row_position(self, row: int) -> tuple[int, int]:
        """
        Return the bank and the address in the bank of an input row. `row` is counted from the first
        row of padding of a frame.
        """
        stride = self.layer.windows.strides[0]
        slot, bank = row // self.slot_rows, row // stride % self.banks
        within = row % stride * self.row_words
        return bank, slot % self.slots * self.slot_words + within

    def tap_row(self, j: int) -> tuple[int, int]:
        """
        Return the address and the rotation of row `j` of a window, relative to the first row. The
        rotation is the number of banks by which the row is moved.
        """
        w = self.layer.windows
        strides, within = divmod(j * w.dilations[0], w.strides[0])
        address = strides // self.banks * self.slot_words
        return address + within * self.row_words, strides % self.banks

    def tap_column(self, i: int) -> tuple[int, int]:
        """
        Return the location of column `i` of a window: the word of a row (the phase), and the shift
        in this word, which is the distance to the first column in multiples of the stride.
        """
        w = self.layer.windows
        shift, residue = divmod(i * w.dilations[1], w.strides[1])
        return self.residues.index(residue), shift
