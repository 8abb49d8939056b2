"""Find the zeros around and between the input elements of a convolution."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ceras_ir.dialects import graph


@dataclass(frozen=True)
class ZeroPadding:
    """
    A `graph.pad` before a convolution that adds only zeros (or zero points) along height and width,
    around the elements and between them.
    """

    pad: graph.PadOp
    between_layouts: graph.TransposeOp | graph.ReshapeOp | None
    """A layout conversion after the pad: a transpose, or a reshape if there is a single channel."""
    order: Sequence[int]
    """For each axis of the convolution the axis of the pad."""
    low: Sequence[int]
    """Elements before height and width; `high` after them, `between` two adjacent elements."""
    high: Sequence[int]
    between: Sequence[int]

    @classmethod
    def of(cls, op: graph.Conv2dOp) -> "ZeroPadding | None":
        """
        Return the zero padding that produces the input of `op`, or `None` if the input is not
        padded in this way.
        """
        pad, moved, order = op.input.owner, None, _order(op.input.owner)
        if isinstance(pad, graph.TransposeOp | graph.ReshapeOp):
            pad, moved = pad.input.owner, pad
        if not isinstance(pad, graph.PadOp) or pad.function is not graph.Pad.CONSTANT:
            return None
        if order is None:
            return None
        element = graph.quantized_element(pad.input)
        low, high, between = (
            [sizes.get_values()[i] for i in order] for sizes in (pad.low, pad.high, pad.interior)
        )
        elsewhere = (low[0], low[3], high[0], high[3], between[0], between[3])
        if pad.stored_value != (0 if element is None else element.zero_point) or any(elsewhere):
            return None
        return cls(pad, moved, order, low[1:3], high[1:3], between[1:3])

    def insert_source(self, rewriter: PatternRewriter) -> SSAValue:
        """
        Return the value without padding, in the layout that the convolution requires. A transpose
        or reshape between pad and convolution is repeated on the operand of the pad.
        """
        if self.between_layouts is None:
            return self.pad.input
        source = self.pad.input
        if isinstance(self.between_layouts, graph.ReshapeOp):
            shape = graph.shape_of(source)
            above = graph.ReshapeOp(source, [shape[i] for i in self.order])
        else:
            above = graph.TransposeOp(source, self.order)
        above.location = self.between_layouts.location
        rewriter.insert(above)
        return above.result

    def erase_unused(self, rewriter: PatternRewriter) -> None:
        """Erase the pad, and the layout conversion after it, if they have no uses."""
        for unused in (self.between_layouts, self.pad):
            if unused is not None and unused.results[0].first_use is None:
                rewriter.erase(unused)


def _order(moved: object) -> Sequence[int] | None:
    # The permutation that an operation performs; None for other reshapes.
    match moved:
        case graph.TransposeOp():
            return moved.permutation.get_values()
        case graph.ReshapeOp():
            shape, result = graph.shape_of(moved.input), graph.shape_of(moved.result)
            last = 0, 2, 3, 1
            is_move = len(shape) == 4 and shape[1] == 1 and result == tuple(shape[i] for i in last)
            return last if is_move else None
        case _:
            return range(4)
