"""
A plan: how many rows and filters each convolution computes at once, and how much may wait.

The pass `allot-lanes` makes it and writes it on operations as `#dataflow.lanes`, where it can be
read and changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ceras_ir.backends.dataflow.blocks import Addition, Block, Convolution
from ceras_ir.backends.dataflow.encoding import Encoding, StoredWeights
from ceras_ir.backends.dataflow.window import WindowBuffer


@dataclass(frozen=True)
class Lanes:
    """
    What is computed at once of a layer: `rows` rows for `filters` filters, of all columns, or of
    one of `parts` parts after the other.
    """

    rows: int = 1
    filters: int = 1
    encoding: Encoding = Encoding.DENSE
    slots: int = 2
    """Slots of the window buffer; see `order.py` for how many there must be."""
    parts: int = 1


@dataclass(frozen=True, eq=False)
class PlannedConvolution:
    """A convolution with its lanes: the sizes of all that it is made of."""

    layer: Convolution
    lanes: Lanes
    paired: bool
    """Whether a multiplier may make two products of int8."""

    @cached_property
    def buffer(self) -> WindowBuffer:
        return WindowBuffer(self.layer, self.lanes.rows, self.lanes.slots, self.lanes.parts)

    @cached_property
    def weights(self) -> StoredWeights:
        return StoredWeights(self.layer, self.lanes.filters, self.lanes.encoding)

    @property
    def readers(self) -> int:
        """Copies of the window buffer: filters with indices of their own read each its own."""
        return self.lanes.filters if self.lanes.encoding.is_sparse else 1

    @property
    def decoding(self) -> int:
        """Cycles from a word of the weight memory to what it means: a sum behind the last."""
        return int(self.lanes.encoding is Encoding.DELTA)

    @property
    def is_paired(self) -> bool:
        return self.paired and self.layer.weight_bits <= 8

    @property
    def lane_count(self) -> int:
        """Products of a cycle."""
        return self.lanes.filters * self.lanes.rows * self.buffer.part_columns

    @property
    def multipliers(self) -> int:
        """Those of the chip; a product with more bits than 18 has several."""
        per_filter = self.lanes.rows * self.buffer.part_columns
        return self.lanes.filters * (-(-per_filter // 2) if self.is_paired else per_filter)


@dataclass(frozen=True, eq=False)
class Plan:
    """What was decided for the blocks of a pipeline."""

    convolutions: Mapping[Block, PlannedConvolution]
    capacities: Mapping[Block, int]
    """Rows of the ring in which the second operand of an addition waits: a power of two."""
    delays: Mapping[Block, int]
    """Words of the queue in which the first waits, where it comes earlier."""

    def busy_share(self, cycles: int) -> float:
        """Of all lanes' cycles, where a frame takes so many, those that multiply by no zero."""
        useful = lanes = 0
        for planned in self.convolutions.values():
            feature = planned.layer.feature
            useful += int(planned.layer.non_zeros.sum()) * feature.rows * feature.columns
            lanes += planned.lane_count
        return useful / (lanes * cycles) if lanes else 0.0

    def second(self, block: Block) -> int:
        """Capacity for the second operand of `block`."""
        assert isinstance(block, Addition | Convolution) and len(block.inputs) > 1
        return self.capacities[block]
