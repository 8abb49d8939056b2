"""
Check the cycles of the HLS source, its long lists of micro-ops, and schedules for all its models.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from backends.vta_lowering.layers import Layer, check_all_levels, random_array, random_layer

from ceras_ir.backends.vta.machine.board import HlsModel, VtaBoard, load_board, parse_board
from ceras_ir.backends.vta.machine.encoding import MicroOps, micro_ops
from ceras_ir.backends.vta.machine.hls_models import MODELS
from ceras_ir.backends.vta.machine.instruction_plans import iteration_indices
from ceras_ir.backends.vta.machine.isa import Alu, AluOpcode, Gemm, Load, MemoryType, Store
from ceras_ir.backends.vta.machine.micro_op_lists import lengthen_lists
from ceras_ir.backends.vta.machine.time import Timing, simulate_time
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.cost import estimate, worst_losses
from ceras_ir.backends.vta.schedule.search import best_blocks
from ceras_ir.support.diagnostics import InputError

BOARD = load_board("zcu104")
MODEL = HlsModel(refill=12, latency=60, bytes_per_cycle=8, instruction=5)
TIMING = Timing.hls(MODEL, BOARD)


def test_cycles_of_instructions():
    """
    Each entry of a loop over micro-ops refills the pipeline, and each row waits for the latency.
    The ALU starts a micro-op in alternate cycles.
    """
    assert TIMING.compute_cycles(Gemm(0, 16, 3, 4)) == 5 + 12 * (12 + 16)
    assert TIMING.compute_cycles(Alu(AluOpcode.MAX, 0, 8, 1, 10, use_imm=True)) == 5 + 10 * (
        12 + 16
    )
    assert TIMING.store_cycles(Store(0, 0, 3, 4, 9)) == 5 + 3 * (60 + 4 * 16 // 8)
    load = Load(MemoryType.INP, 0, 0, 3, 4, 9, x_pad_left=1)
    assert (TIMING.load_bursts(load), TIMING.after_load(load)) == ([8, 8, 8], 5 + 3)
    run = simulate_time([load], BOARD, TIMING)
    # The instruction is fetched first; then three rows follow, one after the other.
    assert run.cycles == 60 + 2 + 1 + 3 * (60 + 8) + 5 + 3


def indices(i: Gemm | Alu, uops: MicroOps) -> list[tuple[int, ...]]:
    """Return the destination, source and weights of all iterations, in order."""
    wgt = i.wgt_factors if isinstance(i, Gemm) else (0, 0)
    factors = i.dst_factors, i.src_factors, wgt
    columns = [iteration_indices(uops[:, k], i, pair) for k, pair in enumerate(factors)]
    return list(zip(*(c.tolist() for c in columns), strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_lists_run_what_loops_ran(seed: int):
    rng = np.random.default_rng(seed)
    count, outer, inner = (int(v) for v in rng.integers(1, (7, 9, 160)))
    uops = micro_ops(rng.integers(0, 30, (count, 3)).tolist())
    dst, src, wgt = (tuple(int(v) for v in rng.integers(0, 8, 2)) for _ in range(3))
    d, s = (dst[0], dst[1]), (src[0], src[1])
    i = Alu(AluOpcode.ADD, 0, 1, outer, inner, *d, *s)
    if seed % 2:
        i = Gemm(0, 1, outer, inner, *d, *s, wgt[0], wgt[1])
    if not seed % 2:
        uops[:, 2] = 0
    longer = lengthen_lists([(i, uops)], BOARD)
    ran: list[tuple[int, ...]] = []
    for part, listed in longer:
        assert isinstance(part, Gemm | Alu) and listed is not None
        ran += indices(part, listed)
    assert ran == indices(i, uops)
    cycles = [
        sum(
            TIMING.compute_cycles(replace(part, uop_bgn=0, uop_end=len(listed)))
            for part, listed in parts
            if isinstance(part, Gemm | Alu) and listed is not None
        )
        for parts in (longer, [(i, uops)])
    ]
    assert cycles[0] <= cycles[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_every_level_is_exact(seed: int):
    layer = random_layer(500 + seed)
    check_all_levels(layer.module(), layer.inputs, layer.expected(), TilePass(board="zcu104"))


def product(board: str) -> int:
    """Return the cycles of a product on zcu104 with the stream that is compiled for `board`."""
    rng = np.random.default_rng(0)
    x, w = random_array(rng, (128, 128)), random_array(rng, (128, 128))
    layer = Layer(x, w)
    image = check_all_levels(layer.module(), layer.inputs, layer.expected(), TilePass(board=board))
    (launch,) = image.launches
    return simulate_time(launch.program.instructions, BOARD, TIMING).cycles


@pytest.mark.slow
def test_streams_are_made_for_the_source():
    assert product("zcu104") < 0.6 * product("de10nano")


SHAPE = Contraction(1, 16, 1, 256, 16, 1, 256, shifts=1, bias_cycles=0)


@pytest.mark.slow
def test_one_schedule_loses_little_in_any_model():
    """
    The schedule loses less than 8% to the best schedule of each model, which requires a known
    model.
    """
    blocks = best_blocks(SHAPE, BOARD)
    assert blocks is not None
    for model in MODELS:
        known = replace(BOARD, hls=model)
        own = best_blocks(SHAPE, known)
        assert own is not None
        assert estimate(SHAPE, blocks, known) < 1.08 * estimate(SHAPE, own, known)


def test_worst_losses():
    times = np.array([[1.0, 2.0, 1.5], [4.0, 2.0, 3.0]])
    assert worst_losses(times).tolist() == [2.0, 2.0, 1.5]


def board_with(**keys: object) -> VtaBoard:
    return parse_board(json.dumps({**load_board("zcu104").config(), **keys}))


def test_keys_of_a_board():
    calibrated = {"HLS_REFILL": 9, "HLS_LATENCY": 70, "HLS_BYTES_PER_CYCLE": 8}
    board = board_with(**calibrated, HLS_INSTRUCTION=4)
    assert board.hls == HlsModel(9, 70, 8, 4)
    assert board.config()["HLS_LATENCY"] == 70
    for keys, message in (
        ({"TIMING": "fast"}, "TIMING must be one of chisel, hls, got 'fast'"),
        (calibrated, "belong together, and to TIMING hls, got HLS_REFILL, HLS_LATENCY"),
        ({**calibrated, "HLS_INSTRUCTION": 4, "TIMING": "chisel"}, "belong together"),
        (
            {**calibrated, "HLS_INSTRUCTION": -1},
            "HLS_INSTRUCTION must be an integer in .0, 2.31 - 1., got -1",
        ),
        (
            {**calibrated, "HLS_BYTES_PER_CYCLE": 0, "HLS_INSTRUCTION": 1},
            "in .1, 2.31 - 1., got 0",
        ),
    ):
        with pytest.raises(InputError, match=message):
            board_with(**keys)
