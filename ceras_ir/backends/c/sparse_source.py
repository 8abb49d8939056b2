"""Listed weights as kernels read them: a filter at a time, each weight with its input's place."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i8

from ceras_ir.backends.c.layer import Layer
from ceras_ir.dialects.graph import LinearOperation, shape_of
from ceras_ir.dialects.sparse import BlockAttr, CooAttr

WIDTHS = range(2, 12)
"""Bits of distances that are tried."""

WIDEST = 25
"""Bits that kernels read at once."""

BEHIND = 3
"""Bytes that they read with the last one."""


@dataclass(frozen=True)
class SparseSource:
    """The constants of a layer's listed weights, declared in its function as `source`."""

    layer: Layer
    encoded: CooAttr | BlockAttr
    unit: int
    """Weights in each place."""
    kind: str
    """Of entries."""
    taps: str

    @classmethod
    def of(
        cls,
        layer: Layer,
        op: LinearOperation,
        weights: NDArray[np.generic],
        taps: list[int],
        *,
        scale: int = 1,
    ) -> "SparseSource":
        """
        Of weights [filters, products], in entries times `scale`; `taps` are where inputs of the
        window's elements are.
        """
        is_float = weights.dtype == np.float32
        kind, value, wide = ("f32", "float", "float") if is_float else ("i8", "int8_t", "int32_t")
        kind = kind if scale == 1 else f"{kind}_{scale}"
        factor = f"{scale} * " if scale > 1 else ""
        layer.kernels.use("sparse_entries", NAME=kind, VALUE=value, WIDE=wide, SCALE=factor)
        encoded, unit = readable(weights, op)
        places = layer.array("taps", np.array(taps, np.int32), "int32_t")
        return cls(layer, encoded, unit, kind, places)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Weights of each filter."""
        return self.encoded.filter_counts.astype(np.int64) * self.unit

    def reserve(self, multiple: int = 1) -> None:
        """Declare `entries`, for a filter's and none more, in whole groups."""
        most = int(self.counts.max(initial=0)) + 1
        most = -(-most // multiple) * multiple
        self.layer.scratch(f"struct sparse_entry_{self.kind}", "entries", most, 8)

    def declare(self, depth: int) -> None:
        """Declare the source, at the first filter."""
        layer, encoded = self.layer, self.encoded
        counts, places = (
            layer.array(name, np.frombuffer(data + bytes(BEHIND), np.uint8), "uint8_t")
            for name, data in (("counts", encoded.counts.data), ("places", encoded.places.data))
        )
        held = encoded.elements_of_values
        held = held if held.size else np.zeros(1, held.dtype)
        values = layer.array("values", held, "float" if held.dtype == np.float32 else "int8_t")
        layer.line(
            f"struct sparse_source_{self.kind} source = {{{counts}, {places}, {values}, 0, 0}};",
            depth,
        )

    def next_filter(self, channels: int, pitch: int) -> str:
        """
        The expression that reads the next filter's weights into `entries`, and says how many they
        are; inputs of a place's channels are `pitch` apart.
        """
        encoded = self.encoded
        equal = 0 if encoded.counts.data else int(encoded.filter_counts[0])
        return (
            f"sparse_entries_{self.kind}(entries, &source, {encoded.counts_width.data}, {equal}, "
            f"{encoded.delta.data}, {self.unit}, {self.taps}, {channels}, {pitch})"
        )


def readable(weights: NDArray[np.generic], op: LinearOperation) -> tuple[CooAttr | BlockAttr, int]:
    """
    The weights as kernels read them, and how many stand in each place: as the constant lists them
    where that is distances, or blocks of neighbours, else by distances of the best width.
    """
    encoded, channels = op.encoded_weights, shape_of(op.weights)[-1]
    if isinstance(encoded, CooAttr | BlockAttr) and encoded.counts_width.data <= WIDEST:
        # Zero points make other numbers of the weights.
        is_same = np.array_equal(encoded.array.reshape(weights.shape), weights)
        is_distance = 0 < encoded.delta.data <= WIDEST
        unit = 1 if isinstance(encoded, CooAttr) else encoded.columns.data
        in_row = isinstance(encoded, CooAttr) or encoded.rows.data == 1
        if is_same and is_distance and in_row and channels % unit == 0:
            return encoded, unit
    return smallest_distances(weights), 1


def smallest_distances(weights: NDArray[np.generic]) -> CooAttr:
    """Coordinates as distances of the width that takes the fewest bytes."""
    element = f32 if weights.dtype == np.float32 else i8
    return min((CooAttr.of(weights, element, w) for w in WIDTHS), key=lambda coo: coo.nbytes)
