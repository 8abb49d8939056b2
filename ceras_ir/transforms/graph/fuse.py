"""Fuse operations that the hardware executes in a single step: the pipeline `fuse`."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.transforms.graph.fuse_epilogues import EpilogueOptions, FuseEpiloguesPass
from ceras_ir.transforms.pass_kinds import PipelinePass


@dataclass(frozen=True)
class FusePass(EpilogueOptions, PipelinePass):
    """
    Fuse batch normalization, Swish, residuals and activations of a float network into convolutions,
    matrix products and binary operations.

    Identity operations are removed, the heads of attention are separated, and transposed
    convolutions are computed without multiplications by zeros. Values change only by the rounding
    of folded constants. `hard-swish=true` adds the error that `swish-to-hard-swish` documents.
    Residuals are fused before activations, because an output stage adds before it applies the
    function.
    """

    name = "fuse"

    hard_swish: bool = False
    """Approximate swish by hard_swish; each value changes by at most 0.142."""

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
