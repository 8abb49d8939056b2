"""The zeros around and between the elements that a convolution reads."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ceras_ir.dialects import graph


@dataclass(frozen=True)
class ZeroPadding:
    """A `graph.pad` with zeros, or zero points, along height and width alone."""

    pad: graph.PadOp
    transpose: graph.TransposeOp | None
    """What stands between the pad and the convolution at the border of a network, where the
    model's own layout is padded."""
    low: Sequence[int]
    """Before the elements, of height and width; `high` behind, `between` two of them."""
    high: Sequence[int]
    between: Sequence[int]

    @classmethod
    def of(cls, op: graph.Conv2dOp) -> "ZeroPadding | None":
        """That of the input of `op`, if it is padded so."""
        pad, transpose = op.input.owner, None
        if isinstance(pad, graph.TransposeOp):
            pad, transpose = pad.input.owner, pad
        if not isinstance(pad, graph.PadOp) or pad.function is not graph.Pad.CONSTANT:
            return None
        element = graph.quantized_element(pad.input)
        order = range(4) if transpose is None else transpose.permutation.get_values()
        low, high, between = (
            [sizes.get_values()[i] for i in order] for sizes in (pad.low, pad.high, pad.interior)
        )
        elsewhere = (low[0], low[3], high[0], high[3], between[0], between[3])
        if pad.stored_value != (0 if element is None else element.zero_point) or any(elsewhere):
            return None
        return cls(pad, transpose, low[1:3], high[1:3], between[1:3])

    def insert_source(self, rewriter: PatternRewriter) -> SSAValue:
        """What is padded, in the layout of the convolution, before the operation that matched."""
        if self.transpose is None:
            return self.pad.input
        above = graph.TransposeOp(self.pad.input, self.transpose.permutation.get_values())
        above.location = self.transpose.location
        rewriter.insert(above)
        return above.result

    def erase_unused(self, rewriter: PatternRewriter) -> None:
        """Erase what nobody reads any more."""
        for unused in (self.transpose, self.pad):
            if unused is not None and unused.results[0].first_use is None:
                rewriter.erase(unused)
