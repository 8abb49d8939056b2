"""
Measure the plans of networks: operations, copies, and bytes of memory compared with the lower
bound.

    python benchmarks/memory_plans.py [--float] MODEL.onnx...

The greedy arena is that of TFLite Micro: the largest value first, each at the lowest gap, no result
in place of an operand, operations in the order of the model. Layers are the operations after
import, and after fusion and quantization. Requantizations are separate operations.
"""

import argparse
import resource
from pathlib import Path

from xdsl.context import Context

from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.report import memory_totals
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass, coloured_plan
from ceras_ir.transforms.memory.liveness import Liveness, analyse, steps
from ceras_ir.transforms.memory.offsets import gap, greedy_plans
from ceras_ir.transforms.memory.reorder_for_memory import ReorderForMemoryPass

ALIGNMENT = 64
HEAD = (
    "| network | layers | fused | requantizations | copied | at least | buffers | greedy by size "
    "| blocks | ours | lower bound | gap | saved | seconds |"
)


def row(path: str, options: BuildOptions) -> str:
    """Return the line of a network."""
    module = read_network(path)
    imported = len(steps(main_function(module)))
    run_stages(load_context(), module, front_stages(options))
    main = main_function(module)
    spans = analyse(main, include_io=True, in_place=False).spans
    _, baseline = next(greedy_plans(spans, ALIGNMENT))  # The plan of TensorFlow Lite Micro.
    fused = steps(main)
    start = _processor_seconds()
    ReorderForMemoryPass(io=True, alignment=ALIGNMENT).apply(Context(), module)
    plan = AllocateBlocksPass(io=True, alignment=ALIGNMENT, in_slices=True, target="nnet")
    plan.apply(Context(), module)
    seconds = _processor_seconds() - start
    totals = memory_totals(module)
    liveness = analyse(main, include_io=True)
    peak, bound = totals["peak_bytes"], totals["lower_bound_bytes"]
    assert isinstance(peak, int) and isinstance(bound, int)
    blocks, size = _blocks(liveness)
    cells = (
        Path(path).stem,
        f"{imported}",
        f"{len(fused)}",
        f"{totals['requantizations']}",
        f"{totals['copied_bytes']:,}",
        f"{totals['copied_bytes_minimum']:,}",
        f"{len(liveness.buffers)}",
        f"{baseline:,}",
        f"{size:,} in {blocks}",
        f"{peak:,}",
        f"{bound:,}",
        f"{gap(peak, bound):.2%}",
        f"{1 - peak / baseline:.1%}",
        f"{seconds:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def _processor_seconds() -> float:
    """Return the processor time of this process and of the searches that it started."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(kind).ru_utime for kind in kinds)


def _blocks(liveness: Liveness) -> tuple[int, int]:
    plan, size = coloured_plan(liveness, ALIGNMENT)
    return len({block.id.data for block in plan.values()}), size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--float", action="store_true", help="without quantization")
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    arguments = parser.parse_args()
    options = BuildOptions(find_target("c" if arguments.float else "nnet")())
    print(HEAD)
    print("|---" + "|---:" * (HEAD.count("|") - 2) + "|")
    for path in arguments.models:
        print(row(path, options), flush=True)


if __name__ == "__main__":
    main()
