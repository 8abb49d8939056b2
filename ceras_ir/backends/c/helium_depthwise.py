"""
Print depthwise convolutions for cores with Helium.

A vector holds 16 channels of int8. VMULLB and VMULLT multiply even and odd bytes to 16 bits. Taps
are added in 16 bits as long as these hold the sum, which depends on the weights, then in 32 bits.
Inputs of int16 are multiplied to 32 bits, 8 channels at a time.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.helium_band import Band
from ceras_ir.backends.c.helium_output import ITEMS, Cost, Finish, HeliumLayer, OutputStage
from ceras_ir.backends.c.helium_tiles import (
    BLOCK,
    BLOCK_ORDER,
    NIBBLE_BITS,
    VECTOR_BYTES,
    added,
    as_nibbles,
    cycles_per_instruction,
    nibble_text,
    unpacked,
)
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.packed_weights import stored_bits
from ceras_ir.backends.c.sums import Sums
from ceras_ir.backends.c.values import value_type
from ceras_ir.dialects.graph import Conv2dOp, shape_of

SUM_BYTES = 4
"""The bytes of a 32-bit sum."""

MAX_GROUP_SUM = 255
"""The maximum sum of weights times bytes that 16 bits hold: 255 * 128 < 2^15."""


def depthwise_groups(weights: NDArray[np.integer]) -> list[list[int]]:
    """
    Split the taps of depthwise weights [channels, taps] into groups. In each channel, the sum of
    the products of a group with int8 inputs fits 16 bits. Return the indices of taps of each group.
    """
    groups: list[list[int]] = []
    total = np.zeros(len(weights), np.int64)
    for tap in range(weights.shape[1]):
        size = np.abs(weights[:, tap].astype(np.int64))
        if not groups or (total + size).max() > MAX_GROUP_SUM:
            groups.append([])
            total = np.zeros(len(weights), np.int64)
        groups[-1].append(tap)
        total += size
    return groups


@dataclass(frozen=True)
class Depthwise:
    """
    A depthwise convolution, and the function in assembler for Helium that computes the sums of all
    channels of an output position.
    """

    taps: NDArray[np.integer]
    """The weights, with axes [channels, taps]."""
    columns: int
    """The number of columns of a window."""
    pitch: int
    """The number of bytes from a row of the input to the next."""
    item: int
    """The bytes of an element of the input."""
    in_order: bool
    """Whether sums are stored in the order of channels, not in the order of blocks."""
    is_packed: bool
    """Whether weights have four bits. A stored vector has those of two taps."""

    @classmethod
    def of(cls, op: Conv2dOp, sums: Sums, stage: OutputStage, pitch: int) -> "Depthwise":
        weights = sums.centred().reshape(shape_of(op.input)[3], -1)
        item = ITEMS[value_type(op.input)]
        # Vectors of a block that is not full would load a residual beyond the end.
        exceeds = op.residual is not None and len(weights) % BLOCK > 0
        in_order = item > 1 or not stage.in_blocks or exceeds
        is_packed = stored_bits(sums) <= NIBBLE_BITS
        # The totals of several groups need all registers.
        is_packed &= item > 1 or len(depthwise_groups(weights)) == 1
        return cls(weights, shape_of(op.weights)[2], pitch, item, in_order, is_packed)

    @property
    def lanes(self) -> int:
        """The number of channels that a vector instruction multiplies."""
        return VECTOR_BYTES // self.item

    @property
    def channels(self) -> int:
        return len(self.taps)

    @property
    def padded(self) -> int:
        """The number of channels, rounded up to complete vectors."""
        return -(-self.channels // self.lanes) * self.lanes

    @property
    def order(self) -> NDArray[np.int64]:
        """The channel of each sum, in the order in which the function stores sums."""
        channels = np.arange(self.padded)
        return (
            channels if self.in_order else channels.reshape(-1, BLOCK)[:, BLOCK_ORDER].reshape(-1)
        )

    def packed(self) -> NDArray[np.int8]:
        """
        Pack the weights as [vector of channels, tap, channel], with zeros for channels after the
        last. Weights of four bits are in pairs of taps.
        """
        full = np.zeros((self.padded, self.taps.shape[1]), np.int8)
        full[: self.channels] = self.taps
        split = full.reshape(-1, self.lanes, self.taps.shape[1])
        ordered = np.ascontiguousarray(split.transpose(0, 2, 1))
        if not self.is_packed:
            return ordered
        pairs = np.pad(ordered, ((0, 0), (0, ordered.shape[1] % 2), (0, 0)))
        return as_nibbles(pairs[:, 0::2], pairs[:, 1::2])

    @property
    def stored_taps(self) -> int:
        """The number of vectors of weights that are stored for a vector of channels."""
        taps = self.taps.shape[1]
        return -(-taps // 2) if self.is_packed else taps

    def function(self, layer: Layer) -> str:
        """Add the C function to the kernels, and return its name."""
        groups = "_".join(str(len(group)) for group in self._groups())
        order = ("s" if self.in_order else "b") + ("_packed" if self.is_packed else "")
        weight = f"w[{self.lanes} * {'(t / 2)' if self.is_packed else 't'} + channel]"
        return layer.kernels.use(
            "helium_depthwise",
            NAME=f"s{8 * self.item}_{self.columns}_{self.channels}_{self.pitch}_{groups}_{order}",
            IN=f"int{8 * self.item}_t",
            STEPS="\n".join(f'    "{line}\\n\\t"' for line in self.steps()),
            TAPS=str(self.taps.shape[1]),
            STORED=str(self.stored_taps),
            WEIGHT=nibble_text(weight, "t") if self.is_packed else weight,
            COLUMNS=str(self.columns),
            CHANNELS=str(self.channels),
            PITCH=str(self.pitch // self.item),
            LANES=str(self.lanes),
            BLOCKS=str(self.padded // self.lanes),
            CHANNEL="i" if self.in_order else "helium_channel(i)",
        )

    def _groups(self) -> list[list[int]]:
        """
        Return the indices of taps in groups; the sum of the products of a group fits 16 bits. Sums
        of 16-bit inputs have 32 bits, so there is a single group.
        """
        taps = self.taps.shape[1]
        return depthwise_groups(self.taps) if self.item == 1 else [list(range(taps))]

    def steps(self) -> list[str]:
        """
        Return the assembler instructions for all blocks of channels. Registers q0 and q1 hold a tap
        of the input and its weights, q2 and q3 the sums of a group, q4 to q7 the sums of all
        groups.
        """
        blocks = self.padded // self.lanes
        lines = ["push {r4, lr}", "vpush {d8-d15}", f"mov lr, #{blocks}", "dls lr, lr", "1:"]
        lines += ["mov r3, r1", "adds r1, #16"]
        lines += self._bytes() if self.item == 1 else self._halves()
        return [*lines, "le lr, 1b", "vpop {d8-d15}", "pop {r4, pc}"]

    def _load(self, tap: int) -> list[str]:
        """
        Return the instructions that load tap number `tap` of the input, and move the address in r3
        to the next tap.
        """
        load = "vldrb.8 q0, [r3]" if self.item == 1 else "vldrh.16 q0, [r3]"
        step = self.channels * self.item
        if (tap + 1) % self.columns == 0:
            step = self.pitch - (self.columns - 1) * step
        if 0 <= step < 128 * self.item and step % self.item == 0:
            return [f"{load}, #{step}"]
        return [load, *added("r3", step)]

    def _tap_of(self, tap: int) -> list[str]:
        """
        Return the instructions that extract the packed weights of a tap. Those of a pair of taps
        are loaded to q6; the first are extracted to q7, the second in place.
        """
        load = "vldrb.8 q6, [r2], #16" if self.item == 1 else "vldrb.s16 q6, [r2], #8"
        low, high = unpacked("q7", "q6", self.item)
        return high if tap % 2 else [load, *low]

    def _packed_bytes(self) -> list[str]:
        """Return the instructions for packed weights: a single group, so q4 to q7 are free."""
        lines: list[str] = []
        for tap in range(self.taps.shape[1]):
            w = "q6" if tap % 2 else "q7"
            lines += [*self._tap_of(tap), *self._load(tap)]
            if tap == 0:
                lines += [f"vmullb.s8 q2, q0, {w}", f"vmullt.s8 q3, q0, {w}"]
                continue
            lines += [f"vmullb.s8 q1, q0, {w}", "vadd.i16 q2, q2, q1"]
            lines += [f"vmullt.s8 q0, q0, {w}", "vadd.i16 q3, q3, q0"]
        return lines

    def _bytes(self) -> list[str]:
        lines = self._packed_bytes() if self.is_packed else list[str]()
        for number, group in enumerate(self._groups()):
            for tap in () if self.is_packed else group:
                lines += self._load(tap)
                if tap == group[0]:
                    lines += ["vldrb.8 q1, [r2], #16", "vmullb.s8 q2, q0, q1"]
                    lines.append("vmullt.s8 q3, q0, q1")
                    continue
                lines += ["vldrb.8 q1, [r2]", "vmullb.s8 q1, q0, q1", "vadd.i16 q2, q2, q1"]
                lines += ["vldrb.8 q1, [r2], #16", "vmullt.s8 q0, q0, q1", "vadd.i16 q3, q3, q0"]
            for i, half in enumerate("btbt"):
                # VST4 stores the lanes of q4 to q7 in turn.
                total = f"q{4 + (i // 2 + 2 * (i % 2) if self.in_order else i)}"
                wide = f"vmovl{half}.s16"
                if number == 0:
                    lines.append(f"{wide} {total}, q{2 + i // 2}")
                else:
                    lines += [f"{wide} q0, q{2 + i // 2}", f"vadd.i32 {total}, {total}, q0"]
        if self.in_order:
            back = ("", "", "", "!")
            return lines + [f"vst4{i}.32 {{q4, q5, q6, q7}}, [r0]{back[i]}" for i in range(4)]
        return lines + [f"vstrw.32 q{4 + i}, [r0], #16" for i in range(4)]

    def _halves(self) -> list[str]:
        lines: list[str] = []
        for tap in range(self.taps.shape[1]):
            w = ("q6" if tap % 2 else "q7") if self.is_packed else "q1"
            lines += self._load(tap)
            lines += self._tap_of(tap) if self.is_packed else ["vldrb.s16 q1, [r2], #8"]
            if tap == 0:
                lines += [f"vmullb.s16 q4, q0, {w}", f"vmullt.s16 q5, q0, {w}"]
            else:
                lines += [f"vmullb.s16 q2, q0, {w}", f"vmullt.s16 q3, q0, {w}"]
                lines += ["vadd.i32 q4, q4, q2", "vadd.i32 q5, q5, q3"]
        return [*lines, "vst20.32 {q4, q5}, [r0]", "vst21.32 {q4, q5}, [r0]!"]


def depthwise_cost(op: Conv2dOp, sums: Sums, stage: OutputStage, workspace: int) -> Cost:
    """
    Return the modelled instructions and cycles of a depthwise layer. Copies of the input use at
    most about `workspace` bytes.
    """
    band = Band.of(op, workspace - SUM_BYTES * shape_of(op.input)[3])
    kernel = Depthwise.of(op, sums, stage, band.row_bytes)
    positions, steps = prod(shape_of(op.result)[1:3]), kernel.steps()
    products = positions * kernel.padded // kernel.lanes * len(steps)
    rows = stage.cost(kernel.padded, has_residual=op.residual is not None)
    rest = band.instructions + 20 * positions
    cycles = products * cycles_per_instruction(steps) + rest
    return Cost(products + rest, cycles) + rows * positions


def depthwise(of: HeliumLayer) -> None:
    layer, op = of.layer, of.window
    channels, out_columns = shape_of(op.input)[3], shape_of(op.result)[2]
    stride_h, stride_w = op.strides.get_values()
    band = Band.of(op, layer.options.workspace - SUM_BYTES * channels)
    kernel = Depthwise.of(op, of.sums, of.stage, band.row_bytes)
    function, size = kernel.function(layer), kernel.stored_taps * kernel.padded
    layer.packed_bits = NIBBLE_BITS if kernel.is_packed else 0
    w = layer.constant("weights", "int8_t", size, 1, kernel.packed)
    layer.scratch("int32_t", "sums", kernel.padded, SUM_BYTES)
    is_padded = not kernel.in_order
    finish = Finish.of(of, kernel.order, kernel.padded, in_blocks=is_padded, is_padded=is_padded)
    band.open(of)
    down, right = stride_h * kernel.pitch // kernel.item, stride_w * channels
    body = [
        f"{function}(sums, band + r * {down} + p * {right}, {w});",
        finish.call(f"((first + r) * {out_columns} + p) * {channels}", "", 1, str(channels)),
    ]
    layer.line(f"for (int32_t r = 0; r < {band.rows}; ++r)", 1)
    layer.loop("p", out_columns, body, 1)
    layer.line("}")
