"""Keep in float the operations for which int8 has no steps."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.transforms.graph.affine_forward import DepthwiseRule
from ceras_ir.transforms.quantization.float_rules.ends import HeadRule, TailRule
from ceras_ir.transforms.quantization.float_rules.masks import FillRule, MaskRule
from ceras_ir.transforms.quantization.float_rules.moves import (
    CellStateRule,
    FloatPixelRule,
    ForkRule,
    MoveRule,
)
from ceras_ir.transforms.quantization.float_rules.ranges import FactorRule, RangeRule
from ceras_ir.transforms.quantization.options import ExceptionOptions
from ceras_ir.transforms.rule_pass import RulePass

INSIDE = ("fills", "masks", "factors", "depthwise", "ranges", "pixels", "cell-states")
"""Rules that also apply where a caller hands over and receives int8."""


@dataclass(frozen=True)
class KeepInFloatPass(ExceptionOptions, RulePass):
    """
    Keep in float the operations for which int8 has no steps. They get `graph.precision = "f32"`.

    They are less than a thousandth of the work of a network. `graph.float_reason` has the reason.
    """

    name = "keep-in-float"

    def table(self) -> tuple[ModulePass, ...]:
        return (
            HeadRule(self.besides),
            TailRule(self.besides),
            FillRule(),
            MaskRule(),
            FactorRule(self.besides),
            # The factors of channels that `factors` leaves get per-channel scales.
            DepthwiseRule(rows=True),
            RangeRule(),
            FloatPixelRule(),
            MoveRule(),
            ForkRule(),
            CellStateRule(),
        )
