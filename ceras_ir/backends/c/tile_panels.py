"""
Add the weights of a layer in the order of register tiles, as bytes or packed in fewer bits.

Packed weights are expanded to the workspace: all of them, or a panel before it is multiplied.
`packed_weights.py` has the constants and the C functions that expand them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.amx_tiles import AMX, AmxTile
from ceras_ir.backends.c.constants import QUADS, Array
from ceras_ir.backends.c.integer_layer import Epilogue, IntegerLayer, padded
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.packed_rows import joined_steps, unpacking
from ceras_ir.backends.c.packed_weights import (
    EXPANDED,
    EXPANDED_BYTES,
    WeightPanels,
    stored_bits,
)
from ceras_ir.backends.c.packed_words import VECTOR_WORDS, WORD_BYTES, Format
from ceras_ir.backends.c.quads import (
    LANES,
    has_quads,
    order_size,
    ordered_places,
    ordered_weights,
    quad_order,
    step_places,
)
from ceras_ir.backends.c.register_tiles import (
    BYTE_LANES,
    CONDITION,
    NEON,
    RVV,
    TILES,
    WORDS,
    WORDS_BY_FOUR,
    Lanes,
    lanes_of,
)
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.values import value_type
from ceras_ir.dialects.quant import BYTE_BITS

PANEL = "unpacked"
"""The C name of the address of the weights of a panel, if they are packed."""


@dataclass(frozen=True)
class Panels:
    """
    The C names of the bias, and of the weights in the layout of register tiles: [panels, runs,
    steps, outputs, bytes of a step]. A run is a contiguous part of a window, and a step is the
    elements that an instruction multiplies.
    """

    weights: str
    bias: str
    amx_bias: str = ""
    """The bias for tiles of AMX, which multiply signed bytes in place without an offset."""
    order: str = ""
    """The order of the steps of each vector of outputs, if weights are constant bytes."""
    packed: tuple[WeightPanels, ...] = ()
    """
    The weights of less than 8 bits, and the weights for AMX if they differ. They are a single panel
    if AMX may load them, because a tile of AMX may have the outputs of several panels.
    """
    is_whole: bool = False
    """Whether packed weights are expanded together, before the loops over panels."""

    @property
    def _memory(self) -> tuple[str, str, int, int]:
        size = max(packed.padded for packed in self.packed) // WORD_BYTES
        return "uint32_t", EXPANDED, size, WORD_BYTES

    def reserve(self, layer: Layer, *, each_thread: bool) -> list[str]:
        """
        Reserve memory for the bytes of packed weights: all, or a panel for `each_thread`. Return
        the C statements that declare it in each thread.
        """
        if self.packed and each_thread and not self.is_whole:
            return layer.own_scratch(*self._memory)
        if self.packed:
            layer.scratch(*self._memory)
        return []

    @property
    def bytes(self) -> str:
        """The C expression of the address of the weights, or of the expanded panel."""
        return EXPANDED_BYTES if self.packed else self.weights

    def expand_panel(self, layer: Layer, nest: Nest) -> list[str]:
        """
        Return the C statements that expand the panel of output `b` of group `g` and declare a
        pointer `panel` to it, unless all are expanded together.
        """
        if not self.packed or self.is_whole:
            return []
        expand = self.packed[0].expand(layer, EXPANDED, _panel_index(nest))
        return [expand, f"const int8_t *const {PANEL} = {EXPANDED_BYTES};"]

    def expand_for_others(self, layer: Layer, nest: Nest) -> list[str]:
        """
        Return statements like `expand_panel`. On processors that unpack weights in registers,
        `panel` points to the packed weights.
        """
        form = self.packed[0].format
        assert form is not None
        packed = f"(const int8_t *)({self.packed[0].at(_panel_index(nest))})"
        return [
            f"#if {unpacking(form.bits)}",
            f"(void){EXPANDED};",
            f"const int8_t *const {PANEL} = {packed};",
            "#else",
            *self.expand_panel(layer, nest),
            "#endif",
        ]

    def expand_whole(self, layer: Layer, *, for_amx: bool = False) -> None:
        """Print the statements that expand all weights, if they are expanded together."""
        if self.is_whole:
            self.packed[-1 if for_amx else 0].expand_whole(layer, EXPANDED)


def _panel_index(nest: Nest) -> str:
    """Return the C expression of the number of the panel of output `b` of group `g`."""
    each = nest.panels // nest.groups
    group = f"g * {each} + " if nest.groups > 1 else ""
    return f"({group}b / {nest.tile.width})"


MakePanels: TypeAlias = Callable[[IntegerLayer, Nest, Epilogue | None, int, AmxTile | None], Panels]
"""
Creates the panels of a layer. The last argument is the tiles of AMX, if any, which multiply signed
bytes in place. RISC-V vectors multiply these without an offset, too.
"""


def adds_offset_on_load(of: IntegerLayer, nest: Nest) -> bool:
    """
    Return whether a tile loads int8 inputs directly and adds 128 to each as it is loaded, because
    the processor multiplies unsigned by signed bytes.
    """
    return nest.in_place and value_type(of.op.input) == "int8_t"


def unpacks_in_registers(nest: Nest, lanes: Lanes, form: Format | None) -> bool:
    """
    Return whether vectors unpack the weights of a tile in registers: a single position uses each
    weight a single time. Expanded weights of more positions are faster.
    """
    joins_ends = nest.runs > 1 and nest.taps % lanes.step == 1
    return (
        form is not None
        and lanes.dot == BYTE_LANES.dot
        and nest.tile.positions == 1
        and not (joins_ends or nest.ends_in_half)
        and nest.tile.blocks % form.words == 0
    )


def constant_panels(
    of: IntegerLayer, nest: Nest, epilogue: Epilogue | None, offset: int, amx: AmxTile | None
) -> Panels:
    layer, sums, lanes = of.layer, of.sums, lanes_of(value_type(of.op.input))

    def packed(step: int) -> Array:
        panels, runs, steps, width, _ = nest.panel_shape(step)
        padded = np.zeros((panels * width, runs, steps * step), np.int8)
        padded[:, :, : nest.taps] = nest.split(sums.centred()).reshape(panels * width, runs, -1)
        split = padded.reshape(panels, width, runs, steps, step)
        return np.ascontiguousarray(split.transpose(0, 2, 3, 1, 4))

    def bias(condition: str, offset: int, name: str = "bias") -> str:
        values = sums.bias - offset * sums.per_output + (epilogue.extra if epilogue else 0)
        count = nest.padded_outputs
        return layer.constant(name, "int32_t", count, 4, lambda: padded(values, count), condition)

    is_wide = amx is not None and lanes is WORDS

    bits, count = stored_bits(sums), nest.panels if amx is None else 1

    def weights(step: int, condition: str) -> WeightPanels:
        size = prod(nest.panel_shape(step)) // count
        return WeightPanels.add(layer, bits, count, size, partial(packed, step), condition)

    by_four = [weights(WORDS_BY_FOUR.step, AMX)] if is_wide else []
    is_moved, late = lanes is BYTE_LANES, adds_offset_on_load(of, nest)
    walk = nest.walk(lanes.step)
    # A file of weights that is loaded would have the weights of all processors.
    is_loaded = layer.options.weights == "file"
    form = None if bits >= BYTE_BITS else Format(bits, VECTOR_WORDS)
    in_registers = unpacks_in_registers(nest, lanes, form) and joined_steps(bits) > 0
    is_ordered = is_moved and not (is_loaded or in_registers) and has_quads(walk, lanes.step)
    w = weights(lanes.step, f"!{QUADS}" if is_ordered else f"!{AMX}" if is_wide else "")
    b = bias(others(late=late) if is_moved else TILES, offset)
    if is_moved:
        # Vectors of Arm move unsigned bytes by -128, and load signed bytes as they are.
        bias(f"({RVV} || {NEON})" if late else NEON, offset - 128)
    is_signed = amx is not None and amx.multiplies_signed(value_type(of.op.input))
    order = ""
    if is_ordered:
        shape = nest.panels, walk.all_steps, nest.tile.width, lanes.step
        places = step_places(walk, lanes.step)

        def steps() -> Array:
            return packed(lanes.step).reshape(shape)

        @cache
        def ordering() -> tuple[NDArray[np.intp], NDArray[np.intp]]:
            return quad_order(steps())

        def in_order() -> Array:
            return ordered_weights(steps(), ordering()[0])

        def listed() -> Array:
            return ordered_places(*ordering(), places)

        WeightPanels.add(layer, bits, count, prod(shape) // count, in_order, QUADS)
        size = nest.panels * nest.tile.width // LANES * order_size(walk)
        order = layer.constant("order", "uint16_t", size, 2, listed, QUADS)
    stored = (w, *by_four) if w.format is not None else ()
    is_whole = bool(stored) and count == 1 and (amx is not None or nest.tile.positions > 1)
    amx_bias = bias(AMX, 0, "amx_bias") if is_signed else b
    return Panels(w.name, b, amx_bias, order, stored, is_whole)


def others(*, late: bool) -> str:
    return CONDITION if late else f"({CONDITION} || {RVV})"
