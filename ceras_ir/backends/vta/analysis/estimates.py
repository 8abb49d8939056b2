"""
How schedules are compared: by the cycles of the Chisel source, which are known; or, for the HLS
source, by what they lose at worst. Several models agree with what is known of a board; the loss
of a schedule is its time over that of the best, in the model where that is most.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.analysis.blocks import Blocks, Schedules
from ceras_ir.backends.vta.analysis.contraction import Contraction
from ceras_ir.backends.vta.analysis.hls_cost import hls_cost
from ceras_ir.backends.vta.analysis.hls_timeline import HlsWalk
from ceras_ir.backends.vta.analysis.tile_cost import cost
from ceras_ir.backends.vta.analysis.tile_timeline import Walk
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.hls_model import HlsModel
from ceras_ir.backends.vta.hls_timing import HlsTiming, models_of
from ceras_ir.backends.vta.timing import Timing

WALKED = 6
"""Models in which timelines are walked: the first, which are farthest from each other."""


def estimate(shape: Contraction, blocks: Blocks, board: VtaBoard) -> float:
    """Cycles of one schedule; for the HLS source, in the model that agrees best."""
    if board.is_hls:
        return _estimate_hls(shape, blocks, board, models_of(board)[0])
    walk = Walk(blocks.view(shape), blocks, Timing.of(board), board.portable_uops)
    return walk.run()


def _estimate_hls(shape: Contraction, blocks: Blocks, board: VtaBoard, model: HlsModel) -> float:
    timing = HlsTiming.with_model(model, board)
    walk = HlsWalk(blocks.view(shape), blocks, timing, board.portable_uops)
    return walk.measure_lists(board).run()


def rough_scores(tables: Sequence[Schedules], board: VtaBoard) -> NDArray[np.floating]:
    """Of all schedules of all tables, the less the better; infinite where they do not fit."""
    fits = np.concatenate([table.fitting(board) for table in tables])
    if not board.is_hls:
        scores = np.concatenate([cost(table, board) for table in tables])
    elif not fits.any():
        scores = np.zeros(len(fits))
    else:
        times = [
            np.concatenate([hls_cost(table, board, model) for table in tables])
            for model in models_of(board)
        ]
        scores = worst_losses(np.where(fits, np.array(times), np.inf))
    return np.where(fits, scores, np.inf)


def scores(shape: Contraction, found: Sequence[Blocks], board: VtaBoard) -> list[float]:
    """Of some schedules, the less the better, by their timelines."""
    if not board.is_hls:
        return [estimate(shape, blocks, board) for blocks in found]
    times = [
        [_estimate_hls(shape, blocks, board, model) for blocks in found]
        for model in models_of(board)[:WALKED]
    ]
    return worst_losses(np.array(times)).tolist()


def worst_losses(times: NDArray[np.floating]) -> NDArray[np.floating]:
    """Of times [models, schedules]: each over the model's best, in the worst of the models."""
    return (times / times.min(axis=1, keepdims=True)).max(axis=0)
