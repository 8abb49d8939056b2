"""
Check random layers, chains, schedules, poolings and boards at all levels down to the stream.

    python test/backends/vta_lowering/fuzz.py [--count 2000] [--seconds S] [--seed 0] [--runner CMD]
        [--configuration NAME|FILE.json|all]

Each stream is checked and run in the simulator. With --runner, an external runner also executes
streams for boards of the usual sizes or of a named configuration. The memory contains noise before
a run. Without --configuration, boards are also random.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from backends.vta_lowering.configurations import CONFIGURATIONS
from backends.vta_lowering.cosimulation import run_on_vta
from backends.vta_lowering.layers import BOARD, Layer, check_all_levels, merged, random_layer
from backends.vta_lowering.random_networks import random_board, random_chain
from backends.vta_lowering.test_pooling import expected, pooled
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.vta.execution.image import VtaImage
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.passes.reshape_convolutions import Im2colPass, apply_windows, has_windows
from ceras_ir.backends.vta.passes.sort_channels import SortChannelsPass
from ceras_ir.backends.vta.passes.tiling import Schedule, TilePass
from ceras_ir.backends.vta.rules.admission import why_not
from ceras_ir.backends.vta.rules.placement import WindowSplit
from ceras_ir.backends.vta.schedule.search import Convolution
from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import Array
from ceras_ir.support.diagnostics import UnsupportedError

Case = tuple[ModuleOp, dict[str, Array], Array]


def random_tile(rng: np.random.Generator, board: str, layer: Layer | None = None) -> TilePass:
    """Choose the search, blocks of any size, or an algorithm of S3 for a product."""
    if layer is not None and layer.input.ndim == 2 and layer.residual is None:
        algorithms: tuple[Schedule, ...] = ("alg1", "alg2", "alg3")
        if rng.random() < 0.4:
            return TilePass(algorithms[int(rng.integers(3))], board=board)
    way: Convolution = "kn2row" if rng.random() < 0.25 else "auto"
    if rng.random() < 0.5:
        return TilePass(board=board, convolution=way)
    m, k, n = (int(v) for v in rng.integers(1, (41, 5, 6)))
    block = load_board(board).block
    return TilePass("serial" if rng.random() < 0.3 else "auto", m, block * k, block * n, board, way)


def random_pooling(rng: np.random.Generator, board: str) -> Case | None:
    """Return a random maximum pooling, or None if the rules leave it to the CPU."""
    kernel, strides = (tuple(int(v) for v in rng.integers(1, 6, 2)) for _ in range(2))
    h, w = (int(v) for v in rng.integers(5, 30, 2))
    relu = bool(rng.random() < 0.5)
    pads = [int(rng.integers(0, k)) for k in (*kernel, *kernel)]
    shape = (int(rng.integers(1, 4)), h, w, int(rng.integers(1, 40)))
    window, steps = (kernel[0], kernel[1]), (strides[0], strides[1])
    module, pool = pooled(shape, window, steps, (pads[0], pads[1], pads[2], pads[3]), relu=relu)
    if why_not(pool, load_board(board)) is not None:
        return None
    x = rng.integers(-128, 128, shape).astype(np.int8)
    return module, {"input0": x}, expected(x, pool, 0 if relu else -128)


def take_apart(module: ModuleOp, rng: np.random.Generator, vector: Sequence[int]) -> None:
    """Move a random part of the window of a convolution to channels, if possible."""
    for op in list(module.walk()):
        if not isinstance(op, graph.Conv2dOp) or not has_windows(op):
            continue
        if set(op.dilations.get_values()) != {1}:
            continue
        _, kh, kw, _ = graph.shape_of(op.weights)
        sh, sw = op.strides.get_values()
        ways = list(WindowSplit.of((kh, kw), (sh, sw)))
        if ways:
            apply_windows(op, ways[int(rng.integers(len(ways)))], vector)


def run_case(
    seed: int, folder: Path, runner: str | None, chosen: str | None = None
) -> tuple[str, VtaImage | None]:
    """
    Run a random case on the board `chosen` or on a random board. Return the kind of case, and the
    image if there is one.
    """
    rng = np.random.default_rng(seed)
    kinds = ["layer", "chain", "pooling", "odd board"]
    kind = str(rng.choice(kinds, p=[0.3, 0.2, 0.1, 0.4] if chosen is None else [0.7, 0.2, 0.1, 0]))
    board, case, layer = chosen or BOARD, None, None
    if kind == "odd board":
        path = folder / f"{seed}.json"
        path.write_text(json.dumps(random_board(rng).config()))
        board = str(path)
    elif chosen is None and rng.random() < 0.3:
        board = str(rng.choice(["pynq", "ultra96", "zcu104", "de10nano"]))
    if kind == "pooling" or (kind == "odd board" and rng.random() < 0.1):
        if (case := random_pooling(rng, board)) is None:
            return "left to the CPU", None
    elif kind == "chain" or (kind == "odd board" and rng.random() < 0.5):
        case = random_chain(seed)
    else:
        layer = random_layer(seed)
        case = layer.module(), layer.inputs, layer.expected()
        if (draw := rng.random()) < 0.1:
            Im2colPass(convolution="im2col").apply(Context(), case[0])
        elif draw < 0.3:
            take_apart(case[0], rng, load_board(board).vector)
    if rng.random() < 0.5:
        SortChannelsPass(board).apply(Context(), case[0])
    try:
        image = check_all_levels(*case, random_tile(rng, board, layer))
    except UnsupportedError:
        # The board is too small for the requested block sizes, or for the algorithm of S3.
        return f"{kind} refused", None
    if runner is not None and kind != "odd board":
        _, inputs, wanted = case
        for each in filter(None, (image, merged(image))):
            (found,) = run_on_vta(each, inputs, runner, garbage=seed).values()
            np.testing.assert_array_equal(found, wanted)
    return kind, image


def board_files(configuration: str | None, folder: Path) -> Sequence[str | None]:
    """Return the boards that the cases use in turn. None means a random board."""
    if configuration is None:
        return [None]
    if configuration not in (*CONFIGURATIONS, "all"):
        load_board(configuration)
        return [configuration]
    files: list[str] = []
    for name in CONFIGURATIONS if configuration == "all" else [configuration]:
        (path := folder / f"{name}.json").write_text(json.dumps(CONFIGURATIONS[name].config()))
        files.append(str(path))
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description="random networks on VTA")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runner", help="also run streams in: CMD {config} {dram} {insns} {out}")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument(
        "--configuration", help=f"a board, or 'all' in turns: {', '.join(CONFIGURATIONS)}"
    )
    arguments = parser.parse_args()
    start, kinds, launches, instructions = time.perf_counter(), Counter[str](), 0, 0
    with tempfile.TemporaryDirectory(prefix="ceras-fuzz-") as folder:
        boards = board_files(arguments.configuration, Path(folder))
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            board = boards[seed % len(boards)]
            if time.perf_counter() - start > arguments.seconds:
                break
            try:
                kind, image = run_case(seed, Path(folder), arguments.runner, board)
            except BaseException:
                print(f"seed {seed}", file=sys.stderr)
                raise
            kinds[kind if board is None else f"{kind} ({Path(board).stem})"] += 1
            for launch in () if image is None else image.launches:
                launches += 1
                instructions += len(launch.program.instructions)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    seconds = time.perf_counter() - start
    print(
        f"{counts}; {launches:,} launches of {instructions:,} instructions exact at every level "
        f"and without findings, in {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
