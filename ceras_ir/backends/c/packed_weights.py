"""
Store weights of 1 to 7 bits in flash, and print the C function that expands them to bytes.

A kernel keeps the order of weights. The weights are divided into panels, and a panel is expanded to
the workspace before it is multiplied. The kernel therefore computes the same integers as with
weights of 8 bits.

`packed_words.py` has the order of the bits. Adding a constant to all bytes of a word and changing
the signs restores the weights. No addition carries into the next byte.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.layer import Layer, from_row
from ceras_ir.backends.c.packed_words import BYTES, VECTOR_WORDS, WORD_BYTES, Format
from ceras_ir.backends.c.sums import Sums
from ceras_ir.dialects.graph import LinearOperation, element_of, shape_of
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.network.storage import weight_type

MIN_BITS = 2

EXPANDED, EXPANDED_BYTES = "expanded", "(const int8_t *)expanded"
"""The C name of the memory to which packed weights are expanded, and its address as bytes."""

SIGNED_BYTES = 0x80808080
"""The sign bits of the bytes of a word."""

UNSIGNED_FIRST = 0x80008000
"""The sign bits that change if 128 is added to the first and third byte of a word."""


def stored_bits(sums: Sums) -> int:
    """
    Return the bits in which kernels with panels store the weights of a layer minus their zero
    points: the bits of the type, or more if a zero point needs them.
    """
    assert sums.weights is not None
    element = element_of(sums.weights.result)
    assert isinstance(element, UniformType)
    if element.width >= BYTE_BITS:
        return BYTE_BITS
    centred = sums.centred()
    reach = max(int(centred.max()), -int(centred.min()) - 1)
    return max(MIN_BITS, element.width, reach.bit_length() + 1)


def flash_bytes(bits: int, panels: int, size: int) -> int:
    """
    Return the bytes of flash of `panels` panels of `size` weights with `bits` bits, for processors
    without vectors.
    """
    return panels * (size if bits >= BYTE_BITS else Format(bits, 1).padded(size) * bits // 8)


def expanded_bytes(bits: int, size: int) -> int:
    """Return the workspace in which these processors expand `size` weights: none for bytes."""
    return 0 if bits >= BYTE_BITS else Format(bits, 1).padded(size)


def smaller_bits(layer: Layer, sums: Sums, size: int) -> int:
    """
    Return the bits in which panels of `size` weights of a layer need the least memory: 8 if padding
    to complete words takes more than packing saves.
    """
    bits = stored_bits(sums)
    if bits >= BYTE_BITS:
        return BYTE_BITS
    padded = Format(bits, _lanes(layer)).padded(size)
    return bits if padded * bits < size * BYTE_BITS else BYTE_BITS


def _lanes(layer: Layer) -> int:
    return VECTOR_WORDS if layer.options.vectors else 1


@dataclass(frozen=True)
class WeightPanels:
    """The panels of the weights of a layer in flash, of equal size."""

    name: str
    """The C name of the constant."""
    count: int
    size: int
    """The number of weights of a panel."""
    format: Format | None
    """The order of the bits, or `None` for weights of 8 bits."""

    @classmethod
    def add(
        cls,
        layer: Layer,
        bits: int,
        count: int,
        size: int,
        data: Callable[[], Array],
        condition: str = "",
    ) -> "WeightPanels":
        """
        Add `count` panels of `size` weights with `bits` bits to the constants. `data` returns all
        bytes. With `condition`, they exist only if this preprocessor condition holds.

        Processors without vectors read the weights -1 and 1 as signs of a bit, if no zeros fill the
        panels.
        """
        if bits >= BYTE_BITS:
            name = layer.constant("weights", "int8_t", count * size, 1, data, condition)
            return cls(name, count, size, None)
        if bits == MIN_BITS and _has_signs(layer) and not layer.options.vectors:
            assert isinstance(layer.op, LinearOperation)
            bits = 1 if count * size == prod(shape_of(layer.op.weights)) else bits
        form = Format(bits, _lanes(layer))

        def packed() -> NDArray[np.uint32]:
            return form.pack(data().reshape(count, size).view(np.int8))

        layer.packed_bits = bits
        words = count * form.padded(size) * bits // 32
        name = layer.constant("weights", "uint32_t", words, 4, packed, condition)
        return cls(name, count, size, form)

    @property
    def padded(self) -> int:
        """The number of bytes to which a panel expands."""
        return self.size if self.format is None else self.format.padded(self.size)

    def at(self, panel: str) -> str:
        """Return the C expression of the address of a panel."""
        if self.format is None:
            return f"{self.name} + {panel} * {self.size}"
        return f"{self.name} + {panel} * {self.padded * self.format.bits // 32}"

    def expand(self, layer: Layer, to: str, panel: str, sign: int = SIGNED_BYTES) -> str:
        """
        Return the C statement that expands a panel to words at the C address `to`. `sign` has the
        bits of a word that change after 128 was added to all weights.
        """
        assert self.format is not None
        function = _bytes_function(layer, self.format, sign)
        return f"{function}({to}, {self.at(panel)}, {self.padded // self.format.unit});"

    @property
    def whole(self) -> str:
        """The C expression of the address of the bytes of a single panel, see `expand_all`."""
        return self.name if self.format is None else EXPANDED_BYTES

    def expand_all(self, layer: Layer) -> None:
        """Print the code that expands a single panel to the workspace, unless it has bytes."""
        if self.format is not None:
            layer.scratch("uint32_t", EXPANDED, self.padded // WORD_BYTES, WORD_BYTES)
            self.expand_whole(layer, EXPANDED)

    def expand_whole(self, layer: Layer, to: str) -> None:
        """Print the code that expands a single panel to `to`, in parts that threads share."""
        assert self.format is not None
        function = _bytes_function(layer, self.format, SIGNED_BYTES)
        words = self.format.unit // WORD_BYTES
        stored = words * self.format.bits // BYTE_BITS

        def call(first: str, units: str) -> str:
            at = f"{from_row(to, first, words)}, {from_row(self.name, first, stored)}"
            return f"{function}({at}, {units});"

        layer.rows(self.padded // self.format.unit, self.padded, call)

    def expanded(self, layer: Layer, panel: str, sign: int = SIGNED_BYTES) -> tuple[str, list[str]]:
        """
        Return the C expression of the address of the bytes of a panel, and the C statements that
        expand it to the workspace. See `expand` for `sign`.
        """
        if self.format is None:
            return self.at(panel), []
        layer.scratch("uint32_t", EXPANDED, self.padded // WORD_BYTES, WORD_BYTES)
        return EXPANDED_BYTES, [self.expand(layer, EXPANDED, panel, sign)]

    def widen(self, layer: Layer, to: str, panel: str) -> str:
        """
        Return the C statement that expands a panel to pairs of 16 bits at the C address `to`, in
        the order of the C function `dsp_widen`.
        """
        if self.format is None:
            layer.kernels.use("dsp_widen")
            return f"dsp_widen({to}, {self.at(panel)}, {self.size});"
        function = _pairs_function(layer, self.format)
        return f"{function}({to}, {self.at(panel)}, {self.padded // self.format.unit});"


def _has_signs(layer: Layer) -> bool:
    """Return whether all weights are -1 and 1 by their type."""
    element = weight_type(layer.op)
    return element is not None and element.is_bipolar


def _loads(form: Format) -> str:
    at = [
        f"from[{i * form.lanes}{' + i' if form.lanes > 1 else ''}]"
        for i in range(form.packed_words)
    ]
    return "\n".join(f"    const uint32_t p{i} = {text};" for i, text in enumerate(at))


def _bytes_function(layer: Layer, form: Format, sign: int) -> str:
    lane = " + i" if form.lanes > 1 else ""
    steps = [
        f"    to[{w * form.lanes}{lane}] = "
        f"({form.fields(w, BYTES)} + 0x{BYTES * (128 - form.half):08x}u) ^ 0x{sign:08x}u;"
        for w in range(form.words)
    ]
    return layer.kernels.use(
        "expand_weights",
        NAME=f"{form.bits}" + ("" if sign == SIGNED_BYTES else "_unsigned_first"),
        BITS=str(form.bits),
        LANES=f"for (int32_t i = 0; i < {form.lanes}; ++i) {{" if form.lanes > 1 else "{",
        LOADS=_loads(form),
        STEPS="\n".join(steps),
        WORDS=str(form.words * form.lanes),
        PACKED=str(form.packed_words * form.lanes),
    )


def _pairs_function(layer: Layer, form: Format) -> str:
    """Return the name of the C function that expands weights to pairs of 16 bits."""
    steps = [
        f"    to[{2 * w + odd}] = dsp_sub({form.fields(w, 0x00010001, 8 * odd)}, "
        f"0x{form.half * 0x00010001:08x}u);"
        for w in range(form.words)
        for odd in (0, 1)
    ]
    return layer.kernels.use(
        "dsp_expand",
        NAME=str(form.bits),
        BITS=str(form.bits),
        LOADS=_loads(form),
        STEPS="\n".join(steps),
        WORDS=str(2 * form.words),
        PACKED=str(form.packed_words),
    )
