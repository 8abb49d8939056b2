"""Show the instruction stream of every launch."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.dialect import operations as vta
from ceras_ir.backends.vta.encoding import DEFAULT_BOARD
from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
from ceras_ir.backends.vta.launches import lower_launches
from ceras_ir.backends.vta.program import program_to_op
from ceras_ir.support.diagnostics import UnsupportedError

LOGS = ("log_uops", "log_inp", "log_wgt", "log_acc")


@dataclass(frozen=True)
class ConvertTileToVtaPass(ModulePass):
    """
    Append `vta.program @launch_<i>` for the i-th `mem.launch`. It is the kernels of the launch, and
    of those that start together with it (`mem.continues`), with all loops expanded, at the
    addresses that `mem.block` gives their operands.

    Launches and kernels stay as the meaning that programs are held to. Values must have their
    places already. Boards with larger buffers than the published ones are refused, because indices
    would not fit the dialect.
    """

    name = "convert-tile-to-vta"

    board: str = DEFAULT_BOARD_NAME
    """The board: a name or VTA's .json file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        board = load_board(self.board)
        if any(getattr(board, log) > getattr(DEFAULT_BOARD, log) for log in LOGS):
            raise UnsupportedError(
                f"unsupported board '{self.board}': the vta dialect has indices for the published "
                "buffer sizes; look at the streams as text (ceras-compile --save-temps)"
            )
        for old in [o for o in op.body.block.ops if isinstance(o, vta.ProgramOp)]:
            old.detach()
            old.erase()
        for index, launch in enumerate(lower_launches(op, board)):
            op.body.block.add_op(program_to_op(launch.program, f"launch_{index}"))
