"""
Chains of two or three layers, and boards of other sizes, give the same integers at each level.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from backends.vta_lowering.layers import check_all_levels, random_layer
from backends.vta_lowering.random_networks import random_board, random_chain
from slow_cases import first_fast
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.passes.launches import ConvertTileToVtaPass
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.support.diagnostics import UnsupportedError


@pytest.mark.sample(8)
@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(4, range(16)))
def test_chain(seed: int):
    check_all_levels(*random_chain(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_other_buffers(tmp_path: Path, seed: int):
    """
    Buffers have an eighth to four times the usual size, in any proportion that the encoding
    accepts.
    """
    path = tmp_path / "board.json"
    path.write_text(json.dumps(random_board(np.random.default_rng(seed)).config()))
    layer = random_layer(seed)
    case = layer.module(), layer.inputs, layer.expected()
    check_all_levels(*case, TilePass(board=str(path)))
    check_all_levels(*random_chain(100 + seed), TilePass(board=str(path)))


def test_larger_buffers_are_not_for_the_dialect(tmp_path: Path):
    path = tmp_path / "board.json"
    path.write_text(json.dumps(VtaBoard(log_inp=12, log_wgt=9).config()))
    module = ModuleOp([])
    with pytest.raises(UnsupportedError, match="indices for the published buffer sizes"):
        ConvertTileToVtaPass(str(path)).apply(Context(), module)


@pytest.mark.parametrize("name", ["pynq", "ultra96", "zcu104", "de10nano"])
def test_published_boards(name: str):
    layer = random_layer(3)
    image = check_all_levels(layer.module(), layer.inputs, layer.expected(), TilePass(board=name))
    assert image.board == load_board(name)


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1080, 20))
def test_many(start: int):
    """Run a few of the cases of `make fuzz-vta`."""
    for seed in range(start, start + 20):
        check_all_levels(*random_chain(seed))
