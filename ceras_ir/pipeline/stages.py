"""
Define the passes from a model to the last level of a target, by the level they lead to.

All tools that compile use these stages, so `ceras-verify` checks exactly the network that
`ceras-compile` writes. The front stages decide the values of the network. Later stages of a target
change no value.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.pipeline.instrumentation import PassRunner, Watching
from ceras_ir.pipeline.options import BuildOptions, Insertion
from ceras_ir.pipeline.pass_options import build
from ceras_ir.support.options import with_options_of
from ceras_ir.targets.protocol import Stage

if TYPE_CHECKING:
    from ceras_ir.transforms.quantization.quantize import QuantizePass

FUSED, QUANTIZED = "fused graph", "quantized graph"
"""Names of levels."""


def all_stages(options: BuildOptions) -> list[Stage]:
    """Return the stages from an imported network to the last level, with passes of the user."""
    stages = [*_front(options), *options.target.lower()]
    options.check_levels([stage.level for stage in stages])
    return list(_with_insertions(stages, options.insertions))


def front_stages(options: BuildOptions) -> list[Stage]:
    """Return the stages that decide the values: fusion, quantization, encodings."""
    return list(_with_insertions(_front(options), options.insertions))


def computing_stages(options: BuildOptions) -> list[Stage]:
    """Return the front stages without final encodings, which change only the storage of weights."""
    found, last = front_stages(options), graph_stages(options)[-1].level
    while found[-1].level != last and not found[-1].added:
        del found[-1]
    return found


def target_stages(options: BuildOptions) -> list[Stage]:
    """Return the stages that the target adds to the graph: devices, tiles and memory."""
    return list(_with_insertions(options.target.lower(), options.insertions))


def quantize_pass(options: BuildOptions) -> "QuantizePass":
    """Return quantization with the options of the user, in the arithmetic of the target."""
    from ceras_ir.transforms.quantization.quantize import QuantizePass

    return with_options_of(
        QuantizePass,
        options,
        target=getattr(options.target, "name", None),
        board=options.target.board_name,
        tail="int8" if options.io == "int8" else "float",
    )


def pruning(options: BuildOptions) -> tuple[ModulePass, ...]:
    """Return the pass that `prune` requests, if any."""
    if options.prune is None:
        return ()
    from ceras_ir.transforms.pruning.prune import PrunePass

    pruning = build(PrunePass, options.prune)
    if pruning.bits is None and options.is_quantized:
        pruning = replace(pruning, bits=8)
    return (pruning,)


def _with_insertions(stages: Sequence[Stage], insertions: Sequence[Insertion]) -> Iterator[Stage]:
    for stage in stages:
        yield stage
        for insertion in insertions:
            if insertion.level == stage.level:
                yield Stage(stage.level, insertion.passes, added=insertion.pipeline)


def graph_stages(options: BuildOptions) -> list[Stage]:
    """Return fusion, pruning and quantization, which depend on the target but not on its stages."""
    from ceras_ir.transforms.graph.fuse import FusePass
    from ceras_ir.transforms.memory.allocate_blocks import ClearPlanPass

    checks: tuple[ModulePass, ...] = ()
    if not options.is_quantized:
        from ceras_ir.transforms.quantization.fold_qdq import FoldQdqPass

        checks = (FoldQdqPass(rules=("constants",)), *_checking(options))
    stages = [Stage(FUSED, (ClearPlanPass(), FusePass(integers=options.is_quantized), *checks))]
    if options.silu == "hardswish" and not options.is_quantized:
        from ceras_ir.transforms.graph.fuse_functions import SwishToHardSwishPass

        # For integers, `set-functions` does this.
        stages.append(Stage("HardSwish graph", (SwishToHardSwishPass(),), changes_values=True))
    if pruned := pruning(options):
        stages.append(Stage("pruned graph", pruned, changes_values=True))
    if options.is_quantized:
        passes = (*_checking(options), *_snapping(options), quantize_pass(options))
        stages.append(Stage(QUANTIZED, passes, changes_values=True))
        if options.io == "int8":
            from ceras_ir.transforms.quantization.quantize_graph import (
                StripBorderQuantizationPass,
            )

            border = StripBorderQuantizationPass()
            stages.append(Stage("int8 border", (border,), changes_values=True))
    return stages


def _front(options: BuildOptions) -> list[Stage]:
    return [*graph_stages(options), *options.target.encode()]


def _checking(options: BuildOptions) -> tuple[ModulePass, ...]:
    """Refuse operations that the target cannot run, before calibration."""
    if (name := getattr(options.target, "name", None)) is None:
        return ()
    from ceras_ir.transforms.placement import CheckOperationsPass

    return (CheckOperationsPass(name),)


def _snapping(options: BuildOptions) -> tuple[ModulePass, ...]:
    """Snap scales of a Q/DQ network to powers of two for a target without multipliers."""
    if options.target.arithmetic.multipliers:
        return ()
    from ceras_ir.transforms.quantization.snap_scales import SnapScalesPass

    return (SnapScalesPass(),)


def run_stages(
    ctx: Context,
    module: ModuleOp,
    stages: list[Stage],
    after: Callable[[Stage, ModuleOp], None] | None = None,
    watching: Watching | None = None,
) -> None:
    """
    Run `stages` in place; `after` receives the module at the end of each stage. At the start of a
    stage that changes no value, `watching` returns the check after each pass.
    """
    plain = PassRunner()
    for stage in stages:
        watched = watching is not None and not stage.changes_values
        runner = replace(plain, watch=watching(module)) if watching and watched else plain
        runner.run(ctx, module, stage.passes, stage.title)
        if after is not None:
            after(stage, module)
