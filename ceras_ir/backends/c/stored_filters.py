"""
Which layers get their filters transformed beforehand (Winograd's F(2x2, 3x3), 16-bit numbers):
flash that the model leaves free is spent where a byte saves the most instructions.
"""

from ceras_ir.backends.c.board import Board
from ceras_ir.backends.c.dsp_costs import Way, cheapest
from ceras_ir.backends.c.linear_dsp import fits_dsp
from ceras_ir.backends.c.model import Model
from ceras_ir.backends.c.options import COptions
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.sizes import Footprint
from ceras_ir.backends.c.sums import analyse
from ceras_ir.backends.c.workspace import Occupied
from ceras_ir.dialects.graph import Conv2dOp


def stored_filters(model: Model, footprint: Footprint, board: Board) -> frozenset[int]:
    """Indices of layers; the margin of the estimate of code is left free."""
    flash = board.free_flash - footprint.flash - int(board.known_core.code_margin * footprint.code)
    arena, occupied = board.free_sram - footprint.buffers, Occupied(model.program)
    found: list[tuple[float, int, int]] = []
    for layer in model.layers:
        if not isinstance(layer.op, Conv2dOp) or not layer.op.is_quantized:
            continue
        now, then = _choices(layer.op, model.options)
        more = then.flash - now.flash
        end = occupied.place(layer.index, then.scratch) + then.scratch
        if then.kind != now.kind and end <= arena:
            found.append(((now.instructions - then.instructions) / more, layer.index, more))
    chosen: set[int] = set()
    for _, index, more in sorted(found, key=lambda item: (-item[0], item[1])):
        if more <= flash:
            chosen.add(index)
            flash -= more
    return frozenset(chosen)


def _choices(op: Conv2dOp, options: COptions) -> tuple[Way, Way]:
    """The best way without and with transformed filters in flash."""
    geometry, sums = Geometry.of(op), analyse(op)
    if not options.dsp or geometry.direct or not fits_dsp(op, geometry, sums):
        none = Way("smlad", 0, 0, 0)
        return none, none
    now, then = (
        cheapest(op, geometry, sums, options.workspace, may_store=stored)
        for stored in (False, True)
    )
    return now, then
