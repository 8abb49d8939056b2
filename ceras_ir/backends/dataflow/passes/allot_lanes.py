"""Choose how many rows and filters each layer of the pipeline computes at once."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.backends.dataflow.board import DEFAULT, load_board
from ceras_ir.backends.dataflow.circuit import kernel_of, pipeline_of
from ceras_ir.backends.dataflow.dialect import LANES, LanesAttr, lanes_of
from ceras_ir.backends.dataflow.lanes import Budget, choose


@dataclass(frozen=True)
class AllotLanesPass(ModulePass):
    """
    Choose the `dataflow.lanes` of every convolution, product and average of `@pipeline`. Lanes say
    how many rows and filters are computed at once, and how weights are stored. The slowest layer
    becomes as fast as the multipliers and memories of `board` allow.

    A pipeline that has lanes keeps them. A network that the board cannot hold is refused, with the
    layer and the resource. Changes no value.
    """

    name = "allot-lanes"

    board: str = DEFAULT
    """The board: a name or a file."""
    dsp: int = 0
    """Multipliers to use; 0, all."""
    ram18: int = 0
    """Memories of 18 kbit to use; 0, all."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernel = kernel_of(op)
        if kernel is None or any(lanes_of(o) is not None for o in kernel.body.block.ops):
            return
        board, pipeline = load_board(self.board), pipeline_of(kernel)
        plan = choose(pipeline, board, Budget.of(board, self.dsp, self.ram18))
        for operation, block in pipeline.operations.items():
            if (planned := plan.convolutions.get(block)) is not None:
                operation.attributes[LANES] = LanesAttr(planned.lanes)
