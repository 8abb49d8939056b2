"""Put what stands for zero around inputs where an accelerator would put the number zero."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.transforms.reshaped_convolution import inserting_before, padded_input

Padding = tuple[int, ...]


@dataclass(frozen=True)
class ExpandPaddingPass(ModulePass):
    """
    A padded convolution whose input has a zero point becomes `graph.pad` by the zero point and a
    convolution without padding. Only of convolutions that VTA, with `board`, takes then and
    does not take as they are: its loads pad with the number zero. Those that read the same input
    with the same padding share one `graph.pad`. The inverse is *fuse-pad*.

    Exact, because `x - zero_point` is 0 of what is put around, and so adds nothing, as padding.
    """

    name = "expand-padding"

    board: str = "zcu102"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from ceras_ir.backends.vta.board import load_board
        from ceras_ir.backends.vta.rules import needs_expanded_padding

        board = load_board(self.board)
        padded: dict[tuple[SSAValue, Padding], SSAValue] = {}
        for conv in list(op.walk()):
            if not isinstance(conv, graph.Conv2dOp) or not needs_expanded_padding(conv, board):
                continue
            key = conv.input, tuple(conv.padding.get_values())
            if key not in padded:
                padded[key] = inserting_before(conv)(padded_input(conv))
            conv.operands[0] = padded[key]
            conv.properties["padding"] = integers((0, 0, 0, 0))
