"""Choose the blocks of contractions by the cycles of executed candidates."""

import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.utils.hints import isa

from ceras_ir.backends.vta.execution.image import build_image
from ceras_ir.backends.vta.execution.performance import measure
from ceras_ir.backends.vta.execution.runner import VtaRunner
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.scratchpads import constant_tiles
from ceras_ir.backends.vta.passes.launches import MergeLaunchesPass
from ceras_ir.backends.vta.passes.tiling import ExpandTilesPass, ScheduleTilesPass, WindowOptions
from ceras_ir.backends.vta.schedule.blocks import Blocks, longest_row
from ceras_ir.backends.vta.schedule.contraction import contraction_of
from ceras_ir.backends.vta.schedule.search import Convolution, Limits, good_blocks
from ceras_ir.dialects import graph, mem, tile
from ceras_ir.dialects.tile import ScheduleAttr
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import progress, remark
from ceras_ir.support.files import ContentCache, key_of
from ceras_ir.support.native import cache_folder
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

CANDIDATES = 6
"""
The number of schedules that are executed for each contraction (convolution or matrix product).
"""

Choices = dict[int, int]
"""
The candidate number for the index of a contraction; others use candidate 0, the choice of the cost
model.
"""


@dataclass(frozen=True)
class TunedTiles:
    """
    The schedules in which tuning differs from the cost model, and the cycles of the network without
    and with them.
    """

    schedules: Sequence[tuple[tile.Conv2dOp, ScheduleAttr]]
    before: int
    after: int
    seconds: float
    """The duration of the search in seconds."""

    def line(self) -> str:
        count = len(self.schedules)
        return (
            f"tuned: {self.after:,} cycles instead of {self.before:,}, {count or 'no'} "
            f"schedule{'' if count == 1 else 's'} changed; the search took {self.seconds:.0f} s"
        )


class Tuner:
    """
    Searches schedules for the contractions (convolutions and matrix products) of a module by
    executing candidates.
    """

    def __init__(
        self,
        module: ModuleOp,
        board: str,
        convolution: Convolution,
        tiling: Sequence[ModulePass],
        *,
        merged: bool,
        runner: str | None,
    ):
        """
        Compute the candidate schedules of each contraction.

        `convolution` selects the method for windows of several taps. The passes `tiling` schedule
        and expand all contractions. `runner` is the command that executes a stream on a device;
        `None` is the timed simulator. `merged` specifies whether launches are merged before
        execution.
        """
        self.module, self.board, self.tiling = module, load_board(board), tiling
        self.merged, self.runner = merged and runner is None, runner
        self.contractions = _contractions(module)
        limits, max_row = Limits(convolution=convolution), longest_row(self.board)
        shapes = [contraction_of(op).flattened(max_row) for op in self.contractions]
        known = {shape: good_blocks(shape, self.board, limits) for shape in dict.fromkeys(shapes)}
        self.candidates: list[Sequence[Blocks]] = [known[shape][:CANDIDATES] for shape in shapes]

    def tuned(self) -> TunedTiles:
        """
        Return the schedules with the fewest cycles. A search is repeated only if the module, the
        board or the runner changed; otherwise the result is from the cache.
        """
        cache = ContentCache(cache_folder() / "tuning")
        config = json.dumps(self.board.config())
        key = key_of("vta 1", self._printed(), config, str(self.merged), self.runner or "")
        found: object = json.loads(cache.computed(key, self._searched))
        assert isa(found, dict[str, object])
        choices, before, after = (found[name] for name in ("choices", "before", "after"))
        assert isa(choices, list[list[int]]) and isinstance(before, int) and isinstance(after, int)
        seconds = found["seconds"]
        assert isinstance(seconds, float)
        schedules = [
            (self.contractions[i], self.candidates[i][number].attribute()) for i, number in choices
        ]
        return TunedTiles(schedules, before, after, seconds)

    def _printed(self) -> str:
        """
        Return the text of the module without constants, as part of the cache key. Of weights, only
        the positions of zero tiles affect times.
        """
        stream = io.StringIO()
        printer = Printer(stream)
        for op in self.module.walk():
            if isinstance(op, FuncOp) and op is not main_function(self.module):
                printer.print_op(op)
            elif isinstance(op, mem.LaunchOp | graph.GraphOperation) and not isinstance(
                op, graph.ConstantOp
            ):
                types = [value.type for value in (*op.operands, *op.results)]
                kernel = op.kernel.string_value() if isinstance(op, mem.LaunchOp) else ""
                stream.write(f"{op.name} {kernel} {' '.join(map(str, types))}\n")
                for i, tiles in enumerate(map(constant_tiles, op.operands)):
                    if tiles is not None:
                        stream.write(f"operand {i} {np.packbits(tiles).tobytes().hex()}\n")
        return stream.getvalue()

    def _searched(self) -> bytes:
        started = time.monotonic()
        before = self._cycles({})
        best = {i: (cycles, 0) for i, cycles in self._by_contraction(before).items()}
        for number in progress(range(1, CANDIDATES), "tuning"):
            tried = {i: number for i, c in enumerate(self.candidates) if number < len(c)}
            if not tried:
                break
            cycles = self._by_contraction(self._cycles(tried))
            for i in tried:
                if i in best and cycles[i] < best[i][0]:
                    best[i] = cycles[i], number
        initial = self._by_contraction(before)
        better = [i for i, (_, number) in best.items() if number]
        better.sort(key=lambda i: best[i][0] - initial[i])
        choices: Choices = {}
        lowest = total = sum(cycles for _, cycles in before)
        # Layers that share a stream affect each other: if all choices together are not faster, add
        # them one by one, the largest gain first.
        for added in [better, *([i] for i in better)]:
            trial = choices | {i: best[i][1] for i in added}
            if trial == choices:
                continue
            after = sum(cycles for _, cycles in self._cycles(trial))
            if after < lowest:
                choices, lowest = trial, after
        found = {
            "choices": sorted(choices.items()),
            "before": total,
            "after": lowest,
            "seconds": round(time.monotonic() - started, 1),
        }
        return json.dumps(found).encode()

    def _by_contraction(self, cycles: Sequence[tuple[str, int]]) -> dict[int, int]:
        sums: dict[str, int] = {}
        for kernel, count in cycles:
            sums[kernel] = sums.get(kernel, 0) + count
        kernels = [_kernel_of(op) for op in self.contractions]
        return {i: sums[kernel] for i, kernel in enumerate(kernels) if kernel in sums}

    def _cycles(self, choices: Choices) -> list[tuple[str, int]]:
        """
        Execute the network with the schedules `choices`, and return the name of the kernel and the
        cycles of each launch.
        """
        module = self.module.clone()
        for i, op in enumerate(_contractions(module)):
            if i in choices:
                op.schedule = self.candidates[i][choices[i]].attribute()
        merging = (MergeLaunchesPass(),) if self.merged else ()
        for step in (*self.tiling, AllocateBlocksPass(), *merging):
            step.apply(Context(), module)
        image = build_image(module, self.board)
        kernels = [op.kernel.string_value() for launch in image.launches for op in launch.ops]
        if self.runner is None:
            costs = measure(image.launches, self.board)
            cycles = [layer.run.cycles for cost in costs for layer in cost.layers]
        else:
            streams = [x.program.instruction_bytes(self.board) for x in image.launches]
            runner, dram = VtaRunner(streams, self.board, self.runner), image.dram()
            cycles = [runner.cycles(index, dram) for index in range(len(streams))]
        return list(zip(kernels, cycles, strict=True))


def _contractions(module: ModuleOp) -> list[tile.Conv2dOp]:
    return [op for op in module.walk() if isinstance(op, tile.Conv2dOp) and op.schedule is None]


def _kernel_of(op: tile.Conv2dOp) -> str:
    kernel = op.parent_op()
    assert isinstance(kernel, FuncOp)
    return kernel.sym_name.data


@dataclass(frozen=True)
class TuneTilesPass(WindowOptions, ModulePass):
    """
    Set the schedules with the fewest executed cycles on `tile.conv2d` operations.

    The candidates are the best schedules of the cost model. The fastest candidates of all
    operations are tried together, then one by one. Where the network gains no cycles, no schedule
    is set, and `schedule-tiles` chooses. No value changes: a schedule only determines the order.
    """

    name = "tune-tiles"

    merged: bool = True
    """Whether layers share streams, which the timed simulator then simulates."""
    runner: str | None = None
    """
    The command that runs each layer, with placeholders {config}, {dram}, {insns} and {out}. It
    prints the cycles as its last line. The default is the timed simulator.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        tiling = (
            ScheduleTilesPass(board=self.board, convolution=self.convolution),
            ExpandTilesPass(self.board),
        )
        found = Tuner(
            *(op, self.board, self.convolution, tiling), merged=self.merged, runner=self.runner
        ).tuned()
        for contraction, schedule in found.schedules:
            contraction.schedule = schedule
        remark(f"{self.name}: note: {found.line()}")
