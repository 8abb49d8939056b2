"""What the user asked for, as far as passes depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.remarks import remark
from ceras_ir.support.suggestions import did_you_mean
from ceras_ir.targets.protocol import Target
from ceras_ir.transforms.quantization.analysis.observer_names import (
    DEFAULT_OBSERVER,
    ObserverName,
)

if TYPE_CHECKING:
    from ceras_ir.transforms.quantization.set_functions import Rows, Silu


@dataclass(frozen=True)
class PrecisionOptions:
    """Which layers keep more than int8; see the pass `quantize`."""

    int16: tuple[str, ...] = ()
    in_float: tuple[str, ...] = ()
    budget: float | None = None
    """Share of the modelled time that further values in 16 bits may take, if not the default."""


@dataclass(frozen=True)
class CalibrationOptions:
    """How much of the calibration data is looked at; see the pass `quantize`."""

    samples: int = 64
    draw: int | None = None
    """The seed that chooses them; the first ones without."""


@dataclass(frozen=True)
class Insertion:
    """Passes of the user's behind a level."""

    level: str
    pipeline: str
    passes: tuple[ModulePass, ...]


@dataclass(frozen=True)
class BuildOptions:
    """A target with its own options, and how the network is quantized for it."""

    target: Target = field(default_factory=Target)
    """By default no machine in particular: one of any arithmetic."""
    quantize: str = "auto"
    calibrate: str | None = None
    calibration: CalibrationOptions = CalibrationOptions()
    io: str = "model"
    prune: str | None = None
    """Options of the pass `prune`, which runs if they are given, even empty."""
    title: str = "model"
    """What the network is called, in comments and as a sketch."""
    recipe: tuple[str, ...] = ()
    """The optional passes that run; by default what the targets need. See the pass `quantize`."""
    rows: Rows = "auto"
    """How softmax and normalization are computed; see the pass `set-functions`."""
    silu: Silu = "auto"
    """How SiLU is computed; see the pass `set-functions`."""
    observer: ObserverName = DEFAULT_OBSERVER
    """How calibration chooses scales; see the pass `observe-ranges`."""
    precision: PrecisionOptions = PrecisionOptions()
    """Which layers keep more than int8."""
    insertions: tuple[Insertion, ...] = ()

    @property
    def is_quantized(self) -> bool:
        """Whether the network becomes int8: asked for, calibrated, or the target's only way."""
        if self.quantize == "auto":
            return self.calibrate is not None or not self.target.arithmetic.floats
        return self.quantize == "int8"

    def resolved(self, module: ModuleOp) -> BuildOptions:
        """
        What `auto` means for this network, once and for all: int8 if it has Q/DQ, else none. Of
        text with calibrated ranges, a note says that they are not used. Options that contradict
        the network are refused.
        """
        options = self._decided(module)
        options._check_quantized()
        options._check_precision(module)
        return options

    def _decided(self, module: ModuleOp) -> BuildOptions:
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
        if self.quantize == "none" and self.calibrate is not None:
            raise UsageError("--calibrate is for quantization, and --quantize none forbids it")
        if self.precision.budget is not None and not self.precision.budget >= 0:
            raise UsageError(f"budget must be at least 0, got {self.precision.budget:g}")
        self.target.check()

    def _check_quantized(self) -> None:
        """Refuse what only a quantized network has; `auto` decides that by the network."""
        if self.io == "int8" and not self.is_quantized:
            raise UsageError("--io int8 needs a quantized network: add --quantize int8")
        if not self.is_quantized and self.precision != PrecisionOptions():
            raise UsageError(
                "--int16, --float and --budget say how a network is quantized: add --quantize int8"
            )

    def _check_precision(self, module: ModuleOp) -> None:
        """Refuse layers to choose in a network that comes quantized, and note idle options."""
        from ceras_ir.transforms.quantization.analysis.qdq import (
            COMES_QUANTIZED,
            carries_quantization,
        )

        # Where scales move to powers of two, the network is quantized again.
        kept = self.is_quantized and self.target.arithmetic.multipliers
        if not kept or not carries_quantization(module):
            return
        if self.precision.int16 or self.precision.in_float:
            raise UsageError(f"--int16 and --float: {COMES_QUANTIZED}")
        given = {
            "--calibrate": self.calibrate is not None,
            "--observer": self.observer != DEFAULT_OBSERVER,
            "--recipe": bool(self.recipe),
            "--silu": self.silu != "auto",
            "--rows": self.rows != "auto",
            "--budget": self.precision.budget is not None,
        }
        if idle := [flag for flag, is_given in given.items() if is_given]:
            remark(f"note: {', '.join(idle)} decided nothing: {COMES_QUANTIZED}")

    def inserted(self, level: str) -> tuple[ModulePass, ...]:
        """The user's passes behind a level."""
        return tuple(p for each in self.insertions if each.level == level for p in each.passes)

    def check_levels(self, known: Sequence[str]) -> None:
        """Refuse passes behind levels that do not exist."""
        for level in (each.level for each in self.insertions):
            if level not in known:
                near = f"{did_you_mean(level, known)} (levels: {', '.join(dict.fromkeys(known))})"
                raise UsageError(f"--at: there is no level '{level}'{near}")
