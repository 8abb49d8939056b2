"""Define the options of a build that passes depend on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.support.diagnostics import UsageError, did_you_mean, remark
from ceras_ir.support.options import given_flags, option, options
from ceras_ir.targets.protocol import Target
from ceras_ir.transforms.quantization_options import QuantizationOptions

Quantize: TypeAlias = Literal["auto", "int8", "none"]
Io: TypeAlias = Literal["model", "int8"]


@dataclass(frozen=True)
class Insertion:
    """Passes of the user after a level."""

    level: str
    pipeline: str
    passes: tuple[ModulePass, ...]


@options
class TargetOptions:
    """The target and the arithmetic of a network."""

    target: Target = field(default_factory=Target)
    """The default target has any arithmetic, and is no particular machine."""
    quantize: Quantize = option("auto", shows_default=True)
    """
    Compute in int8 (int8) or in the types of the model (none); auto selects int8 if the model has
    Q/DQ, calibration data is given, or the target has no floating point.
    """


@dataclass(frozen=True)
class BuildOptions(QuantizationOptions, TargetOptions):
    """A target with options, and the quantization of the network for this target."""

    io: Io = option("model")
    """Give inputs and outputs the model's own types, or int8."""
    prune: str | None = option(None, metavar="OPTIONS")
    """
    Set the least important weights to zero: "threshold=0.01", "sparsity=0.9" of each layer,
    "method=filter sparsity=0.9" of each filter, "ratios=conv1:0.9,fc*:0.8", or the proposal of a
    scan for "target-bytes=..."; see the pass prune. The pass runs if the option is given, even
    empty.
    """
    title: str = "model"
    """The name of the network, in comments and as a sketch."""
    insertions: tuple[Insertion, ...] = ()

    @property
    def is_quantized(self) -> bool:
        """Return whether the network becomes int8: by request, by calibration, or by the target."""
        if self.quantize == "auto":
            return self.calibration is not None or not self.target.arithmetic.floats
        return self.quantize == "int8"

    @property
    def keeps_precision(self) -> bool:
        """
        Return whether an option is given that affects only a quantized network: `int16`, `float` or
        `budget`.
        """
        return bool(self.int16 or self.float or self.budget is not None)

    def resolved(self, module: ModuleOp) -> "BuildOptions":
        """
        Resolve `auto` for this network: int8 if it has Q/DQ, else `none`. A note reports text with
        calibrated ranges that are not used. Options that contradict the network are refused.
        """
        options = self._decided(module)
        options._check_quantized()
        options._check_precision(module)
        return options

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
        """Refuse options that contradict each other, before any work."""
        if not self.is_quantized and not self.target.arithmetic.floats:
            raise UsageError(
                f"target {self.target.name} computes on int8: use --quantize int8, or a target "
                "that computes in float"
            )
        if self.quantize != "auto":
            self._check_quantized()
        if self.quantize == "none" and self.calibration is not None:
            raise UsageError("--calibrate has no effect with --quantize none: remove one of them")
        if self.budget is not None and not self.budget >= 0:
            raise UsageError(f"budget must be >= 0, got {self.budget:g}")
        self.target.check()

    def _check_quantized(self) -> None:
        if self.io == "int8" and not self.is_quantized:
            raise UsageError("--io int8 needs a quantized network: add --quantize int8")
        if not self.is_quantized and self.keeps_precision:
            raise UsageError(
                "--int16, --float and --budget need a quantized network: add --quantize int8"
            )

    def _check_precision(self, module: ModuleOp) -> None:
        from ceras_ir.transforms.quantization.analysis.qdq import (
            COMES_QUANTIZED,
            carries_quantization,
        )

        # If scales become powers of two, the network is quantized again.
        kept = self.is_quantized and self.target.arithmetic.multipliers
        if not kept or not carries_quantization(module):
            return
        if self.int16 or self.float:
            raise UsageError(f"--int16 and --float: {COMES_QUANTIZED}")
        if idle := given_flags(QuantizationOptions, self):
            remark(f"note: options without effect: {', '.join(idle)}: {COMES_QUANTIZED}")

    def inserted(self, level: str) -> tuple[ModulePass, ...]:
        """Return the passes of the user after a level."""
        return tuple(p for each in self.insertions if each.level == level for p in each.passes)

    def check_levels(self, known: Sequence[str]) -> None:
        """Refuse passes after levels that do not exist."""
        for level in (each.level for each in self.insertions):
            if level not in known:
                near = f"{did_you_mean(level, known)} (levels: {', '.join(dict.fromkeys(known))})"
                raise UsageError(f"--at: there is no level '{level}'{near}")
