"""Fold factors and addends of channels into the layers next to them."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.transforms.graph.affine_backward import BatchNormRule, BiasRule
from ceras_ir.transforms.graph.affine_forward import DepthwiseRule, ForwardRule, PixelRule
from ceras_ir.transforms.graph.affine_functions import AffineFunctionRule, ClipRule
from ceras_ir.transforms.graph.fuse_windows import CropRule
from ceras_ir.transforms.rule_pass import RulePass


@dataclass(frozen=True)
class FoldAffinePass(RulePass):
    """
    Fold factors and addends, such as batch normalization, into the layers next to them.

    A function next to them computes them, else the layer before, else the layers after. Between
    layers, the remaining factors and addends of channels become a depthwise convolution.
    """

    name = "fold-affine"

    def table(self) -> tuple[ModulePass, ...]:
        return (
            ClipRule(),
            AffineFunctionRule(),
            BatchNormRule(),
            BiasRule(),
            # `fuse-windows` cannot fold a crop after a batch normalization; `batch-norms` frees it.
            CropRule(),
            PixelRule(),
            ForwardRule(),
            DepthwiseRule(),
        )
