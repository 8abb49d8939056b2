"""Compute layers with values of 16 bits by layers of 8 bits, for accelerators of 8 bits."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.transforms.quantization.options import ResidualSpreadOptions
from ceras_ir.transforms.quantization.split_wide_inputs import WideInputRule
from ceras_ir.transforms.quantization.split_wide_results import WideResultRule
from ceras_ir.transforms.rule_pass import RulePass


@dataclass(frozen=True)
class SplitWidePass(ResidualSpreadOptions, RulePass):
    """
    Compute a layer that has 16 bits in its result or input by two layers that have 8 bits, which
    an accelerator of 8 bits computes.
    """

    name = "split-wide"

    def table(self) -> tuple[ModulePass, ...]:
        return WideResultRule(self.residual_spread), WideInputRule(self.residual_spread)
