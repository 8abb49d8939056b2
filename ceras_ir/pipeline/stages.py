"""
Define the options of a build, and the passes from a model to the last level of a target.

A stage is the list of passes that lead to a level. All tools that compile use these stages, so
`ceras-verify` checks exactly the network that `ceras-compile` writes. The front stages decide the
values of the network. Later stages of a target change no value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.command.conditions import byte_count
from ceras_ir.pipeline.instrumentation import PassRunner, Watching
from ceras_ir.pipeline.pass_options import build
from ceras_ir.support.diagnostics import UsageError, did_you_mean, remark
from ceras_ir.support.option_uses import record_use, warn_without_effect
from ceras_ir.support.options import idle_flags, option, options, options_of, with_options_of
from ceras_ir.targets.protocol import Stage, Target
from ceras_ir.transforms.quantization_options import (
    CALIBRATED,
    CHOOSE_PRECISION,
    SAMPLES,
    SCALES,
    SILU,
    QuantizationOptions,
)

if TYPE_CHECKING:
    from ceras_ir.transforms.quantization.quantize import QuantizePass


Quantize: TypeAlias = Literal["auto", "int8", "none"]
Io: TypeAlias = Literal["model", "int8"]


COMPUTED_IN_FLOAT = "the network is computed in float: add --quantize int8"
WITHOUT_SAMPLES = "there are no samples: add --calibrate DATA.npz"


def warn_idle(cls: type, values: object, unmet: Mapping[str, str]) -> None:
    """
    Print warnings about options of the dataclass `cls` that are set in `values`, but have no
    effect. `unmet` maps each condition that does not hold, such as that the network is quantized,
    to the reason for the warning.
    """
    for each, described in options_of(cls):
        if any(need in unmet for need in described.needs):
            # The conditions are the reason, and a second report would not help.
            record_use(each.name)
    for reason, flags in idle_flags(cls, values, unmet).items():
        warn_without_effect(flags, reason)


@dataclass(frozen=True)
class Insertion:
    """Passes that the user adds after a level. `pipeline` is their text."""

    level: str
    pipeline: str
    passes: tuple[ModulePass, ...]


@options
class TargetOptions:
    """The target and the arithmetic of a network."""

    target: Target = field(default_factory=Target)
    """The default target has any arithmetic, and is no particular machine."""
    quantize: Quantize = option("auto", shows_default=True, usual=True)
    """
    Compute in int8 (int8) or in the types of the model (none); auto selects int8 if the model has
    Q/DQ, calibration data is given, or the target has no floating point.
    """


@dataclass(frozen=True)
class BuildOptions(QuantizationOptions, TargetOptions):
    """A target with options, and the quantization of the network for this target."""

    io: Io = option("model", usual=True)
    """Give inputs and outputs the model's own types, or int8."""
    prune: str | None = option(None, metavar="OPTIONS")
    """
    Set the least important weights to zero: "threshold=0.01", "sparsity=0.9" of each layer,
    "method=filter sparsity=0.9" of each filter, "ratios=conv1:0.9,fc*:0.8", or the proposal of a
    scan for "target-bytes=..."; see the pass prune. The pass runs if the option is given, even
    empty.
    """
    flash: int | None = option(None, metavar="SIZE", read=byte_count, usual=True)
    """
    For targets that pack weights in flash (c, arduino): choose the width of the weights of each
    layer, 2 to 8 bits, so that the total flash_bytes of the report is at most SIZE, such as 64K,
    with the least noise at the outputs on the samples of --calibrate. Layers of --weight-bits keep
    the given width. The network is compiled 2 to 8 times.
    """
    title: str = "model"
    """The name of the network, in comments and as a sketch."""
    insertions: tuple[Insertion, ...] = ()
    has_applied_quantization: bool = False
    """
    Whether the options of quantization were applied to the network already. They remain for
    targets that quantize again, and other targets do not report them as options without effect.
    """
    has_blocks: bool = True
    """Whether the network can have weights with a scale for each block; see `resolved`."""

    @property
    def is_quantized(self) -> bool:
        """
        Whether the network becomes int8: by request, because calibration data is given, or because
        the target has no floating point. With `auto`, a model with Q/DQ is recognized only by
        `resolved`.
        """
        if self.quantize == "auto":
            return self.calibration is not None or not self.target.arithmetic.floats
        return self.quantize == "int8"

    @property
    def has_block_weights(self) -> bool:
        """Whether products of a float network get weights in blocks (`block-weights`)."""
        return bool(self.weight_bits and not self.is_quantized and self.target.arithmetic.blocks)

    @property
    def keeps_precision(self) -> bool:
        """
        Whether an option is given that affects only a quantized network: `int16`, `float`,
        `activation_bits` or `budget`, and `weight_bits` if the target has no weights in blocks.
        """
        weights = self.weight_bits and not self.target.arithmetic.blocks
        layers = self.int16 or self.float or self.activation_bits or weights
        return bool(layers or self.budget is not None)

    def applied(self) -> "BuildOptions":
        """Return the options for a network that was quantized with these options."""
        return replace(
            self,
            int16=(),
            float=(),
            activation_bits=(),
            weight_bits=(),
            weight_bytes=None,
            flash=None,
            has_applied_quantization=True,
        )

    def resolved(self, module: ModuleOp) -> "BuildOptions":
        """
        Resolve `auto` for this network: int8 if it has Q/DQ, else `none`. A note reports text with
        calibrated ranges that are not used. Options that contradict the network are refused.
        """
        options = self._decided(module).of_network(module)
        options._check_quantized()
        options.report_idle(module)
        return options

    def of_network(self, module: ModuleOp) -> "BuildOptions":
        """Return the options without stages that this network does not need."""
        from ceras_ir.dialects.graph import BlockOperation

        has_blocks = any(isinstance(op, BlockOperation) for op in module.walk())
        return replace(self, has_blocks=has_blocks)

    def report_idle(self, module: ModuleOp) -> None:
        """
        Print warnings about options that have no effect on this network. The value `auto` must be
        resolved.
        """
        if self.has_applied_quantization:
            return
        warn_idle(BuildOptions, self, self._unmet(module))

    def _decided(self, module: ModuleOp) -> "BuildOptions":
        if self.quantize != "auto" or self.is_quantized:
            return self
        from ceras_ir.network.function import main_function
        from ceras_ir.transforms.quantization.analysis.qdq import (
            carries_exponents,
            carries_quantization,
        )

        if carries_quantization(module):
            return replace(self, quantize="int8")
        if carries_exponents(main_function(module)):
            remark(
                "note: computed in float; --quantize int8 uses the calibrated ranges in the text"
            )
        return replace(self, quantize="none")

    def check(self) -> None:
        """Raise `UsageError` for options that contradict each other, before any work."""
        if not self.is_quantized and not self.target.arithmetic.floats:
            raise UsageError(
                f"target {self.target.name} computes on int8: use --quantize int8, or a target "
                "that computes in float"
            )
        if self.quantize != "auto":
            self._check_quantized()
        if self.quantize == "none" and self.calibration is not None and not self.has_block_weights:
            raise UsageError("--calibrate has no effect with --quantize none: remove one of them")
        if self.budget is not None and not self.budget >= 0:
            raise UsageError(f"budget must be >= 0, got {self.budget:g}")
        if self.budget is not None and self.budget > 1:
            remark(
                f"warning: --budget {self.budget:g} permits {self.budget:.0%} more time: it is a "
                f"share, and {self.budget:g}% is --budget {self.budget / 100:g}"
            )
        self.target.check()

    def _check_quantized(self) -> None:
        if self.io == "int8" and not self.is_quantized:
            raise UsageError("--io int8 needs a quantized network: add --quantize int8")
        if not self.is_quantized and self.keeps_precision:
            raise UsageError(
                "--int16, --float, --activation-bits, --weight-bits and --budget need a quantized "
                "network: add --quantize int8"
            )

    def _unmet(self, module: ModuleOp) -> dict[str, str]:
        """
        Map the conditions of options that do not hold for this network to the reasons, for
        warnings. Raise `UsageError` for `--int16`, `--float`, `--activation-bits` and
        `--weight-bits` if the model already has the scales.
        """
        from ceras_ir.transforms.quantization.analysis.qdq import (
            COMES_QUANTIZED,
            carries_quantization,
        )

        if not self.is_quantized:
            unmet = {SCALES: COMPUTED_IN_FLOAT}
            if not self.has_block_weights:
                unmet[CALIBRATED] = COMPUTED_IN_FLOAT
            elif self.calibration is None:
                unmet[SAMPLES] = WITHOUT_SAMPLES
            return unmet if self.silu == "hardswish" else {**unmet, SILU: COMPUTED_IN_FLOAT}
        # If scales become powers of two, the network is quantized again.
        if self.target.arithmetic.multipliers and carries_quantization(module):
            if self.int16 or self.float or self.activation_bits or self.weight_bits:
                raise UsageError(
                    f"--int16, --float, --activation-bits and --weight-bits: {COMES_QUANTIZED}"
                )
            return dict.fromkeys((SCALES, CALIBRATED, SILU), COMES_QUANTIZED)
        unmet = {} if self.calibration is not None else {SAMPLES: WITHOUT_SAMPLES}
        if self.recipe and CHOOSE_PRECISION not in self.recipe:
            unmet[CHOOSE_PRECISION] = (
                f"the recipe leaves out {CHOOSE_PRECISION}: add it to --recipe"
            )
        return unmet

    def inserted(self, level: str) -> tuple[ModulePass, ...]:
        """Return the passes that the user adds after `level`."""
        return tuple(p for each in self.insertions if each.level == level for p in each.passes)

    def check_levels(self, known: Sequence[str]) -> None:
        """
        Raise `UsageError` if the user adds passes after a level that is not in `known`. The level
        of the imported graph always exists.
        """
        known = [IMPORTED, *known]
        for level in (each.level for each in self.insertions):
            if level not in known:
                near = f"{did_you_mean(level, known)} (levels: {', '.join(dict.fromkeys(known))})"
                raise UsageError(f"--at: there is no level '{level}'{near}")


IMPORTED, FUSED, QUANTIZED = "imported graph", "fused graph", "quantized graph"
"""Names of levels."""


def all_stages(options: BuildOptions) -> list[Stage]:
    """
    Return the stages (lists of passes that lead to a level) from an imported network to the last
    level of the target, including passes of the user.
    """
    stages = [*_front(options), *options.target.lower()]
    options.check_levels([stage.level for stage in stages])
    return [*_after(IMPORTED, options.insertions), *_with_insertions(stages, options.insertions)]


def front_stages(options: BuildOptions) -> list[Stage]:
    """
    Return the stages that decide the results of the network: fusion, pruning, quantization, and the
    encoding of weights. Later stages of the target change no value.
    """
    stages = _with_insertions(_front(options), options.insertions)
    return [*_after(IMPORTED, options.insertions), *stages]


def computing_stages(options: BuildOptions) -> list[Stage]:
    """
    Return the front stages without the last stages that only encode weights, which change the
    storage but no value.
    """
    found, last = front_stages(options), graph_stages(options)[-1].level
    while found[-1].level != last and not found[-1].added:
        del found[-1]
    return found


def target_stages(options: BuildOptions) -> list[Stage]:
    """Return the stages of the target after the front stages: devices, tiles and memory."""
    return list(_with_insertions(options.target.lower(), options.insertions))


def quantize_pass(options: BuildOptions) -> "QuantizePass":
    """Return the pass `quantize` with the options of the user, for the arithmetic of the target."""
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
        yield from _after(stage.level, insertions)


def _after(level: str, insertions: Sequence[Insertion]) -> Iterator[Stage]:
    for each in insertions:
        if each.level == level:
            yield Stage(level, each.passes, added=each.pipeline)


def graph_stages(options: BuildOptions) -> list[Stage]:
    """
    Return the stages of fusion, pruning and quantization. They depend on properties of the target,
    such as the arithmetic, but are not defined by it.
    """
    from ceras_ir.transforms.graph.fuse import FusePass
    from ceras_ir.transforms.memory.allocate_blocks import ClearPlanPass
    from ceras_ir.transforms.quantization.widen_weights import FloatWeightsPass

    checks: tuple[ModulePass, ...] = ()
    if not options.is_quantized:
        from ceras_ir.transforms.quantization.fold_qdq import FoldQdqPass

        checks = (FoldQdqPass(rules=("constants",)), *_checking(options))
    stages = [
        *_without_blocks(options),
        Stage(
            FUSED,
            (
                ClearPlanPass(),
                FloatWeightsPass(options.is_quantized),
                *_widening(options, "activations"),
                FusePass(integers=options.is_quantized),
                *checks,
            ),
        ),
    ]
    if options.silu == "hardswish" and not options.is_quantized:
        from ceras_ir.transforms.graph.fuse_functions import SwishToHardSwishPass

        # For integers, `set-functions` does this.
        stages.append(Stage("HardSwish graph", (SwishToHardSwishPass(),), changes_values=True))
    if pruned := pruning(options):
        stages.append(Stage("pruned graph", pruned, changes_values=True))
    if options.has_block_weights:
        from ceras_ir.transforms.quantization.block_weights import BlockWeightsPass

        in_blocks = (with_options_of(BlockWeightsPass, options),)
        stages.append(Stage("weights in blocks", in_blocks, changes_values=True))
    if options.is_quantized:
        passes = (
            *_unfolding(options),
            *_checking(options),
            *_snapping(options),
            quantize_pass(options),
            *_widening(options, "weights"),
            *(_widening(options, "activations") if options.activation_bits else ()),
        )
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
    """
    Return the pass that refuses operations which the target cannot run, so that errors appear
    before calibration. Without a target, no pass is returned.
    """
    if (name := getattr(options.target, "name", None)) is None:
        return ()
    from ceras_ir.transforms.placement import CheckOperationsPass

    return (CheckOperationsPass(name),)


def _unfolding(options: BuildOptions) -> tuple[ModulePass, ...]:
    """
    Return the pass that converts integer operations of the model to float, if the target does not
    compute such operations; otherwise no pass.
    """
    arithmetic, name = options.target.arithmetic, getattr(options.target, "name", None)
    if name is None or (arithmetic.multipliers and arithmetic.kernels):
        return ()
    from ceras_ir.transforms.quantization.unfold_qdq import UnfoldQdqPass

    return (UnfoldQdqPass(name),)


def _snapping(options: BuildOptions) -> tuple[ModulePass, ...]:
    """
    Return the passes that replace the scales of a Q/DQ network by powers of two, if the target has
    no multipliers; otherwise no pass. New scales need the bits that the target stores.
    """
    if options.target.arithmetic.multipliers:
        return ()
    from ceras_ir.transforms.quantization.snap_scales import SnapScalesPass

    folding: tuple[ModulePass, ...] = ()
    if options.target.arithmetic.thresholds:
        from ceras_ir.transforms.quantization.fold_shifts import FoldShiftsPass

        folding = (FoldShiftsPass(options.target.arithmetic.residual_spread),)
    return (*_widening(options, "weights"), *folding, SnapScalesPass())


def _widening(
    options: BuildOptions, kind: Literal["weights", "activations"]
) -> tuple[ModulePass, ...]:
    """
    Return the pass that widens weights or activations which the target does not store in so few
    bits. Without a target, no pass is returned.
    """
    if (name := getattr(options.target, "name", None)) is None:
        return ()
    from ceras_ir.transforms.quantization.widen_weights import (
        WidenActivationsPass,
        WidenWeightsPass,
    )

    return (WidenWeightsPass(name) if kind == "weights" else WidenActivationsPass(name),)


def _without_blocks(options: BuildOptions) -> tuple[Stage, ...]:
    """
    Return the stage that replaces weights in blocks by float weights, if the target stores no such
    blocks. Without a target, no stage is returned.
    """
    target = options.target
    if not options.has_blocks or target.arithmetic.blocks or getattr(target, "name", None) is None:
        return ()
    from ceras_ir.transforms.quantization.float_blocks import FloatBlocksPass

    replacing = (FloatBlocksPass(options.is_quantized),)
    return (Stage("graph without blocks", replacing, changes_values=True),)


def run_stages(
    ctx: Context,
    module: ModuleOp,
    stages: list[Stage],
    after: Callable[[Stage, ModuleOp], None] | None = None,
    watching: Watching | None = None,
) -> None:
    """
    Run the passes of `stages` on `module` in place. `after` receives the module at the end of each
    stage. For each stage that changes no value, `watching` receives the module before the stage,
    and returns a check that runs after each pass.
    """
    plain = PassRunner()
    for stage in stages:
        watched = watching is not None and not stage.changes_values
        runner = replace(plain, watch=watching(module)) if watching and watched else plain
        runner.run(ctx, module, stage.passes, stage.title)
        if after is not None:
            after(stage, module)
