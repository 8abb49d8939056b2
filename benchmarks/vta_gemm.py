"""
Measure the cycles of S3's matrix products on VTA, with the algorithms of S3 and `schedule=auto`.

The timed simulator counts cycles on the 64-bit board. All streams are checked and, unless --fast is
given, run exactly.

    python benchmarks/vta_gemm.py [--fast] [--macs N] [--picture F.svg]
    python benchmarks/vta_gemm.py --default [--board pynq]

With `--default`, the products are float networks of seeded normal weights and inputs, which are
compiled with the default options of quantization and with `--recipe none`.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from networks import save
from onnx import TensorProto, helper, numpy_helper
from xdsl.utils.hints import isa

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

from backends.vta_lowering.cosimulation import run_on_vta
from vta_layers import S3_GEMMS, gemm, lowered

from ceras_ir.backends.vta.execution.performance import timeline
from ceras_ir.backends.vta.machine.check import check_program
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.tiling import Schedule, TilePass
from ceras_ir.backends.vta.target import VtaTarget
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.timeline import (
    BARS_WIDTH,
    LABEL,
    MARGIN,
    ROW,
    TIMELINE_STYLE,
    Timeline,
    height_of,
    legend,
    timeline_picture,
)

BOARD, BUS_BYTES, MACS_A_CYCLE = "de10nano", 8, 256
REACHED = (14.7, 85.3, 597, 4469, 662, 629, 160, 612, 308, 604)
"""The thousands of cycles of a good hand-made schedule on the RTL, from the VTA notes."""
CALIBRATED = 16
"""The number of calibration samples of a product."""
S3_MILLISECONDS = (0.6, 2.6, 10.6, 58.4, 19.1, 10.3, 4.7, 14.2, 14.4, 28.1)
"""Table 2 of S3, optimized algorithm, on a ZCU102 at 333 MHz with a wider bus."""


def cycles(size: tuple[int, int, int], schedule: Schedule, *, exact: bool) -> int:
    """
    Return the cycles of a product. The stream must have no findings and, if requested, exact
    results.
    """
    module, x, w = gemm(*size)
    image = lowered(module, TilePass(schedule=schedule, board=BOARD))
    (launch,) = image.launches
    assert check_program(launch.program, image.board, image.size) == []
    if exact:
        (result,) = run_on_vta(image, {"input0": x}).values()
        sums = x.astype(np.int64) @ w.astype(np.int64).T
        np.testing.assert_array_equal(result, np.clip(sums >> 9, -128, 127))
    return simulate_time(launch.program.instructions, image.board).cycles


def svg(launches: Sequence[Timeline]) -> str:
    """Return the timelines in a standalone picture, on white."""
    width = LABEL + BARS_WIDTH + MARGIN
    height = ROW * 2 + sum(height_of(launch) + ROW * 2 for launch in launches)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>{TIMELINE_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, (kind, colour) in enumerate(legend(launches[0]).items() if launches else ()):
        x = LABEL + place * 120
        parts.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="19">{kind}</text>')
    y = ROW * 2
    for launch in launches:
        text = f"{escape(launch.name)}: {launch.cycles:,} cycles, {launch.note}"
        parts.append(f'<text x="{LABEL}" y="{y}">{text}</text>')
        size = f'y="{y + 8}" width="{width}" height="{height_of(launch)}"'
        parts.append(timeline_picture(launch, size))
        y += height_of(launch) + ROW * 2
    return "\n".join([*parts, "</svg>"]) + "\n"


def picture(size: tuple[int, int, int]) -> str:
    """
    Return a picture of load, compute and store over time, with Algorithm 3 and with the search.
    """
    launches: list[Timeline] = []
    for schedule in ("alg3", "auto"):
        image = lowered(gemm(*size)[0], TilePass(schedule=schedule, board=BOARD))
        (launch,) = image.launches
        stream = launch.program.instructions
        name = f"{'x'.join(map(str, size))}, {schedule}"
        launches.append(timeline(name, stream, simulate_time(stream, image.board)))
    return svg(launches)


def float_product(size: tuple[int, int, int], model: Path, samples: Path) -> None:
    """Write a product of a float input with constant weights, and calibration samples."""
    m, k, n = size
    random = np.random.default_rng(0)
    weights = random.normal(size=(k, n)).astype(np.float32) / np.float32(np.sqrt(k))
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, m, k]), ("y", [1, m, n]))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = helper.make_graph([node], "product", [x], [y], [numpy_helper.from_array(weights, "w")])
    opset = helper.make_opsetid("", 17)
    save(helper.make_model(graph, opset_imports=[opset], ir_version=8), model)
    inputs = random.standard_normal((CALIBRATED, m, k), np.float32)
    np.savez(samples, allow_pickle=False, x=inputs)


def compare_defaults(board: str) -> None:
    """Print the cycles of the products, compiled without and with the default passes."""
    print("| M K N | recipe none | default | more |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        model, samples = Path(folder) / "m.onnx", Path(folder) / "x.npz"
        for size in S3_GEMMS:
            float_product(size, model, samples)
            counts = list[int]()
            for recipe in (("none",), ()):
                options = BuildOptions(
                    VtaTarget(board=board), calibration=str(samples), recipe=recipe
                )
                totals = build(read_network(str(model)), options).report["totals"]
                assert isa(totals, dict[str, object])
                cycles = totals["vta_cycles"]
                assert isinstance(cycles, int)
                counts.append(cycles)
            shown = " | ".join(f"{count:,}" for count in counts)
            name = " ".join(map(str, size))
            print(f"| {name} | {shown} | {counts[1] / counts[0] - 1:+.1%} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="S3's matrix products on VTA")
    parser.add_argument("--fast", action="store_true", help="only time, do not run the streams")
    parser.add_argument(
        "--macs",
        type=int,
        default=2**24,
        help="largest product for algorithms 1 and 2, whose streams are long (%(default)s)",
    )
    parser.add_argument("--picture", metavar="F.svg", help="draw the smallest product instead")
    parser.add_argument(
        "--default", action="store_true", help="compare default options with --recipe none instead"
    )
    parser.add_argument("--board", default="pynq", help="for --default (%(default)s)")
    arguments = parser.parse_args()
    if arguments.default:
        compare_defaults(arguments.board)
        return
    if arguments.picture is not None:
        Path(arguments.picture).write_text(picture(S3_GEMMS[0]), encoding="utf-8")
        return
    print("thousands of cycles; gain is alg3 / auto")
    header = "M K N|MAC bound|DRAM bound|alg1|alg2|alg3|auto|reached|util|gain|ms at 333 MHz|S3 ms"
    print(f"| {' | '.join(header.split('|'))} |\n|{'---|' * 12}")
    gains: list[float] = []
    for size, reached, milliseconds in zip(S3_GEMMS, REACHED, S3_MILLISECONDS, strict=True):
        m, k, n = size
        macs = m * k * n
        counts = {
            s: cycles(size, s, exact=not arguments.fast)
            for s in ("alg1", "alg2", "alg3", "auto")
            if s not in ("alg1", "alg2") or macs <= arguments.macs
        }
        auto = counts["auto"]
        gains.append(counts["alg3"] / auto)
        cells = [
            f"{m} {k} {n}",
            f"{macs / MACS_A_CYCLE / 1000:.1f}",
            f"{(m * k + k * n + m * n) / BUS_BYTES / 1000:.1f}",
            *(f"{counts[s] / 1000:.1f}" if s in counts else "-" for s in ("alg1", "alg2")),
            f"{counts['alg3'] / 1000:.1f}",
            f"{auto / 1000:.1f}",
            f"{reached:.1f}",
            f"{macs / MACS_A_CYCLE / auto:.0%}",
            f"{gains[-1]:.2f}",
            f"{auto / 333e3:.2f}",
            f"{milliseconds}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\ngain: {min(gains):.2f} at least, {np.mean(gains):.2f} on average")


if __name__ == "__main__":
    main()
