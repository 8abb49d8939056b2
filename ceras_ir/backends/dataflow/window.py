"""
How the window buffer of a convolution is laid out: slots, banks, phases and addresses.

`hdl/window_buffer.sv` says what these are. A block computes `rows` output rows at once, so that
as many banks are read in every cycle. An address that a weight carries is counted from the first
slot of the rows at hand; its rotation says in which bank their first row is.
"""

from dataclasses import dataclass
from functools import cached_property

from ceras_ir.backends.dataflow.blocks import Convolution


def ceiling(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def bits(values: int) -> int:
    """Bits that tell so many values apart, at least one."""
    return max(1, (values - 1).bit_length())


@dataclass(frozen=True, eq=False)
class WindowBuffer:
    """The buffer of a convolution that computes `banks` rows at once."""

    layer: Convolution
    banks: int
    slots: int
    """Those that a group reads, and those that are written meanwhile."""
    parts: int = 1
    """In how many parts columns are computed; each has words of its own."""

    @cached_property
    def reach(self) -> int:
        """Rows below its first that a window has, in strides."""
        w = self.layer.windows
        return (w.kernel[0] - 1) * w.dilations[0] // w.strides[0]

    @property
    def groups(self) -> int:
        """How often a frame's weights are read: once for every `banks` output rows."""
        return ceiling(self.layer.feature.rows, self.banks)

    @property
    def slot_rows(self) -> int:
        """Padded rows of a slot."""
        return self.layer.windows.strides[0] * self.banks

    @property
    def last_rows(self) -> int:
        """Padded rows that all windows of a frame need."""
        w = self.layer.windows
        return w.strides[0] * (self.layer.feature.rows - 1) + (w.kernel[0] - 1) * w.dilations[0] + 1

    @property
    def first_rows(self) -> int:
        """Padded rows that the first group needs."""
        w = self.layer.windows
        rows = w.strides[0] * (self.banks - 1) + (w.kernel[0] - 1) * w.dilations[0] + 1
        return min(self.last_rows, rows)

    @property
    def padded_rows(self) -> int:
        """Rows of a frame that are written, those that no window reads included."""
        return max(self.layer.windows.before[0] + self.layer.input.rows, self.last_rows)

    @property
    def frame_slots(self) -> int:
        return ceiling(self.padded_rows, self.slot_rows)

    @cached_property
    def residues(self) -> tuple[int, ...]:
        """Those of padded columns modulo the stride that windows read."""
        w = self.layer.windows
        steps = range(0, w.kernel[1] * w.dilations[1], w.dilations[1])
        return tuple(sorted({step % w.strides[1] for step in steps}))

    @property
    def phases(self) -> int:
        """Words for each row of a channel."""
        return self.parts * len(self.residues)

    @property
    def part_columns(self) -> int:
        """Columns of the result that are computed at once."""
        return ceiling(self.layer.feature.columns, self.parts)

    @property
    def starts(self) -> list[int]:
        """Which input column is the first that each phase stores."""
        w = self.layer.windows
        return [
            w.strides[1] * (part * self.part_columns + self.columns.start) + residue - w.before[1]
            for part in range(self.parts)
            for residue in self.residues
        ]

    @property
    def most_shift(self) -> int:
        """Columns, in strides, that a window's last is right of its first."""
        w = self.layer.windows
        return (w.kernel[1] - 1) * w.dilations[1] // w.strides[1]

    @cached_property
    def columns(self) -> range:
        """
        Columns of a part, in strides, that are stored: those with an input at any residue, or all
        where there are several parts.
        """
        if self.parts > 1:
            return range(self.part_columns + self.most_shift)
        w, width = self.layer.windows, self.layer.input.columns
        inside = [
            k
            for k in range(self.layer.feature.columns + self.most_shift)
            if any(0 <= w.strides[1] * k + r - w.before[1] < width for r in self.residues)
        ]
        return range(inside[0], inside[-1] + 1) if inside else range(1)

    @property
    def slot_words(self) -> int:
        """Words of a slot in each bank."""
        return self.layer.windows.strides[0] * self.layer.input.channels * self.phases

    @property
    def depth(self) -> int:
        """Words of a bank."""
        return self.slots * self.slot_words

    @property
    def address_bits(self) -> int:
        return bits(self.depth)

    @property
    def rotation_bits(self) -> int:
        return bits(self.banks)

    @property
    def shift_bits(self) -> int:
        return bits(self.most_shift + 1)

    def row_place(self, row: int) -> tuple[int, int, int]:
        """Slot in the frame, bank and address of a padded row, if the frame begins at 0."""
        stride = self.layer.windows.strides[0]
        slot, bank = row // self.slot_rows, row // stride % self.banks
        within = row % stride * self.layer.input.channels * self.phases
        return slot, bank, slot % self.slots * self.slot_words + within

    def tap_row(self, j: int) -> tuple[int, int]:
        """Address and rotation of row `j` of a window."""
        w = self.layer.windows
        strides, within = divmod(j * w.dilations[0], w.strides[0])
        address = strides // self.banks * self.slot_words
        return address + within * self.layer.input.channels * self.phases, strides % self.banks

    def tap_column(self, i: int) -> tuple[int, int]:
        """Phase and shift of column `i` of a window."""
        w = self.layer.windows
        shift, residue = divmod(i * w.dilations[1], w.strides[1])
        return self.residues.index(residue), shift
