"""All kinds of layers give the same integers at each level on boards with other intrinsics."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from backends.vta_lowering.layers import (
    BOARD,
    Layer,
    apply,
    by_channel,
    check_all_levels,
    network,
    place,
    random_array,
    random_layer,
    stored,
)
from backends.vta_lowering.random_networks import Chain, Int8, random_chain
from slow_cases import first_fast, slow
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block

from ceras_ir.backends.vta.execution.image import build_image
from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.passes.tiling import Schedule, TilePass
from ceras_ir.dialects import mem
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.interpreters.network import Array
from ceras_ir.support.diagnostics import UnsupportedError
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

SHAPES = [(0, 5), (1, 3), (0, 3), (1, 4), (1, 5)]
"""The log2 of rows and of lanes."""

Case = tuple[ModuleOp, dict[str, Array], Array]


def board_file(folder: Path, batch: int, block: int) -> str:
    path = folder / f"{batch}_{block}.json"
    path.write_text(json.dumps(VtaBoard(log_batch=batch, log_block=block).config()))
    return str(path)


def case_of(layer: Layer) -> Case:
    return layer.module(), layer.inputs, layer.expected()


def convolution(rng: np.random.Generator) -> Case:
    """
    Return a convolution of three images with zero points, padding and a residual. No size is a
    multiple of a vector.
    """
    bias = rng.integers(-900, 900, 21).astype(np.int32)
    layer = Layer(
        random_array(rng, (3, 5, 6, 11)),
        random_array(rng, (21, 3, 2, 11)),
        bias,
        random_array(rng, (3, 3, 3, 21)),
        strides=(2, 2),
        padding=(1, 1, 1, 0),
        residual_shift=7,
        requant=RequantAttr(9, low=-100, high=110, zero_point=3),
        points=(-5, 9),
    )
    return case_of(layer)


def matmul(rng: np.random.Generator) -> Case:
    bias = rng.integers(-900, 900, 37).astype(np.int32)
    return case_of(Layer(random_array(rng, (7, 41)), random_array(rng, (37, 41)), bias))


def shifted_by_channel(rng: np.random.Generator) -> Case:
    """
    Return a convolution with shifts of 2 to 12 to the right, and a shift of 3 to the left. Lanes
    and rows are not full.
    """
    shifts = rng.integers(2, 13, 21)
    shifts[4] = -3
    return case_of(
        Layer(
            random_array(rng, (3, 5, 6, 11)),
            random_array(rng, (21, 3, 2, 11)),
            rng.integers(-900, 900, 21).astype(np.int32),
            random_array(rng, (3, 4, 6, 21)),
            padding=(1, 1, 0, 0),
            residual_shift=2,
            requant=by_channel(RequantAttr(0), shifts.tolist()),
            points=(-5, 9),
        )
    )


def step(name: str) -> Callable[[np.random.Generator], Case]:
    """Return the builder of a single layer of a random chain, on two images of 7x6."""

    def build(rng: np.random.Generator) -> Case:
        x: Int8 = random_array(rng, (2, 7, 6, 20))
        chain = Chain(rng, Block(), False)
        chain.values.append((chain.block.insert_arg(TensorType(stored(0), x.shape), 0), x))
        getattr(chain, name)()
        value, expected = chain.values[-1]
        return network(chain.block, value), {"input0": x}, expected

    return build


KINDS = {
    "convolution": convolution,
    "matmul": matmul,
    "shifted_by_channel": shifted_by_channel,
    **{name: step(name) for name in ("pool", "group", "average", "add", "swish")},
}


@pytest.mark.parametrize(("batch", "block"), [*SHAPES[:2], *(slow(*s) for s in SHAPES[2:])])
@pytest.mark.parametrize("kind", KINDS)
def test_every_level(kind: str, batch: int, block: int, tmp_path: Path):
    case = KINDS[kind](np.random.default_rng(2))
    image = check_all_levels(*case, TilePass(board=board_file(tmp_path, batch, block)))
    assert len(image.launches) == 1


@pytest.mark.parametrize("schedule", first_fast(1, ["serial", "alg1", "alg2", "alg3"]))
@pytest.mark.parametrize(("batch", "block"), [(0, 3), (1, 4)])
def test_schedules(schedule: Schedule, batch: int, block: int, tmp_path: Path):
    """The algorithms of S3 use blocks with as many positions as a tile has outputs."""
    case, board = matmul(np.random.default_rng(1)), board_file(tmp_path, batch, block)
    check_all_levels(*case, TilePass(schedule, board=board))


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "images"), [(0, 2), (1, 1)])
def test_rows_are_images(batch: int, images: int, tmp_path: Path):
    """
    Two images in the rows of vectors need as many iterations as a single image. Two images in turn
    need twice as many.
    """
    x = random_array(rng := np.random.default_rng(0), (2, 12, 12, 32))
    layer = Layer(x, random_array(rng, (32, 3, 3, 32)), padding=(1, 1, 1, 1))
    board = board_file(tmp_path, batch, 4)
    (launch,) = check_all_levels(*case_of(layer), TilePass(board=board)).launches
    run = simulate_time(launch.program.instructions, load_board(board))
    assert run.gemm_iterations == images * 144 * 9 * 2 * 2


def test_another_board_is_refused(tmp_path: Path):
    """The types contain the vector sizes for which a kernel was compiled."""
    board = load_board(board_file(tmp_path, 1, 3))
    module = matmul(np.random.default_rng(0))[0]
    place(module, load_board(BOARD))
    apply(module, ConvertGraphToTilePass(BOARD), TilePass(board=BOARD), AllocateBlocksPass())
    message = r"vectors of inp are \(1, 16\), the board's \(2, 8\)"
    with pytest.raises(UnsupportedError, match=message):
        build_image(module, board)


def test_places_are_aligned(tmp_path: Path):
    """
    Tiles of 32x32 begin at multiples of 1024 bytes, because an element index cannot address any
    other byte.
    """
    board = board_file(tmp_path, 0, 5)
    module, inputs, expected = matmul(np.random.default_rng(0))
    image = check_all_levels(module, inputs, expected, TilePass(board=board))
    (launch,) = (op for op in module.walk() if isinstance(op, mem.LaunchOp))
    weights = launch.inputs[1].owner
    block = mem.block_of(launch.inputs[1])
    assert block is not None and not block.offset.data % 1024
    moved = mem.BlockAttr(block.id.data, block.offset.data + 256, block.size.data)
    assert not isinstance(weights, Block)
    weights.attributes[mem.BLOCK] = moved
    message = "the operand at byte [0-9]+ is not aligned to 1024 bytes"
    with pytest.raises(UnsupportedError, match=message):
        build_image(module, image.board)


@pytest.mark.sample(4)
@pytest.mark.slow
@pytest.mark.parametrize(("batch", "block"), [*SHAPES, (2, 2), (2, 4)])
def test_random_networks(batch: int, block: int, tmp_path: Path):
    board = board_file(tmp_path, batch, block)
    for seed in range(8):
        check_all_levels(*case_of(random_layer(seed)), TilePass(board=board))
        check_all_levels(*random_chain(seed), TilePass(board=board))
