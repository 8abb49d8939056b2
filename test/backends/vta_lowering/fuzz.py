"""
Random layers, schedules and poolings through every level down to the stream: as many as wanted.

    python test/backends/vta_lowering/fuzz.py [--count 2000] [--seed 0] [--runner CMD]

Every stream is checked, run in the simulator and, with --runner, in somebody else's.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from backends.vta_lowering.layers import BOARD, Layer, check_all_levels, random_layer
from backends.vta_lowering.test_pooling import expected, pooled

from ceras_ir.backends.vta.cosimulation import run_on_vta
from ceras_ir.backends.vta.rules import why_not
from ceras_ir.transforms.schedule_tiles import Schedule
from ceras_ir.transforms.tile import TilePass

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def random_tile(layer: Layer, rng: np.random.Generator) -> TilePass:
    """The search, blocks of any size, or an algorithm of S3 where there is one."""
    if layer.input.ndim == 2 and layer.residual is None and rng.random() < 0.4:
        algorithms: tuple[Schedule, ...] = ("alg1", "alg2", "alg3")
        return TilePass(algorithms[int(rng.integers(3))], board=BOARD)
    if rng.random() < 0.5:
        return TilePass(board=BOARD)
    m, k, n = (int(v) for v in rng.integers(1, (41, 5, 6)))
    return TilePass("serial" if rng.random() < 0.3 else "auto", m, 16 * k, 16 * n, BOARD)


def pooling(rng: np.random.Generator, runner: str | None) -> bool:
    """One pooling; False if the rules leave it to the CPU."""
    kernel, strides = (tuple(int(v) for v in rng.integers(1, 6, 2)) for _ in range(2))
    h, w = (int(v) for v in rng.integers(5, 30, 2))
    relu = bool(rng.random() < 0.5)
    pads = [int(rng.integers(0, k)) for k in (*kernel, *kernel)] if relu else [0] * 4
    shape = (1, h, w, int(rng.integers(1, 40)))
    window, steps = (kernel[0], kernel[1]), (strides[0], strides[1])
    module, pool = pooled(shape, window, steps, (pads[0], pads[1], pads[2], pads[3]), relu=relu)
    if why_not(pool) is not None:
        return False
    x = rng.integers(-128, 128, shape).astype(np.int8)
    result = expected(x, pool, 0 if relu else -128)
    image = check_all_levels(module, {"input0": x}, result)
    if runner is not None:
        (found,) = run_on_vta(image, {"input0": x}, runner).values()
        np.testing.assert_array_equal(found, result)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="random layers on VTA")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runner", help="also run streams in: CMD {config} {dram} {insns} {out}")
    arguments = parser.parse_args()
    start, layers, pools, skipped, instructions = time.perf_counter(), 0, 0, 0, 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        rng = np.random.default_rng(seed)
        try:
            if rng.random() < 0.15:
                ran = pooling(rng, arguments.runner)
                pools, skipped = pools + ran, skipped + (not ran)
                continue
            layer = random_layer(seed)
            tile = random_tile(layer, rng)
            image = check_all_levels(layer.module(), layer.inputs, layer.expected(), tile)
            if arguments.runner is not None:
                (found,) = run_on_vta(image, layer.inputs, arguments.runner).values()
                np.testing.assert_array_equal(found, layer.expected())
        except BaseException:
            print(f"seed {seed}", file=sys.stderr)
            raise
        layers += 1
        instructions += sum(len(launch.program.instructions) for launch in image.launches)
    seconds = time.perf_counter() - start
    print(
        f"{layers} layers and {pools} poolings exact at every level, {instructions:,} instructions "
        f"without findings, {skipped} poolings for the CPU, in {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
