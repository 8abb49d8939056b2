"""The pipeline `fuse`: what the hardware does in one operation becomes one operation."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.transforms.graph.fuse_epilogues import EpilogueOptions, FuseEpiloguesPass
from ceras_ir.transforms.pass_kinds import PipelinePass


@dataclass(frozen=True)
class FusePass(EpilogueOptions, PipelinePass):
    """
    Fuse batch normalization, Swish, residuals and activations of a float network into its
    convolutions, matrix products and binary operations.

    Operations that change nothing go, the heads of attention stay apart, and transposed
    convolutions multiply no zeros.
    Values change by the rounding of folded constants only. `hard-swish=true` also adds the error
    that `swish-to-hard-swish` documents. Residuals go before activations, because an epilogue adds
    before it applies its function.
    """

    name = "fuse"

    hard_swish: bool = False
    """Approximate swish by hard_swish; off by up to 0.142 per value."""

    def passes(self) -> tuple[ModulePass, ...]:
        from ceras_ir.transforms.graph.branches import DistributeConcatPass, FuseBranchesPass
        from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass
        from ceras_ir.transforms.graph.fold_affine import FoldAffinePass
        from ceras_ir.transforms.graph.fold_identities import FoldIdentitiesPass
        from ceras_ir.transforms.graph.fuse_functions import FuseFunctionsPass, SwishToHardSwishPass
        from ceras_ir.transforms.graph.fuse_windows import FuseWindowsPass
        from ceras_ir.transforms.graph.split_phases import SplitPhasesPass

        return (
            FoldIdentitiesPass(),
            FuseFunctionsPass(rules=("elementwise", "softmax")),
            EliminateTransposesPass(),
            DistributeConcatPass(),
            FuseWindowsPass(),
            FoldAffinePass(),
            *((SwishToHardSwishPass(),) if self.hard_swish else ()),
            FuseBranchesPass(),
            FuseEpiloguesPass(self.integers),
            SplitPhasesPass(),
        )
