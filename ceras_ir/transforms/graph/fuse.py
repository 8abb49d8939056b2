"""The pipeline `fuse`: what the hardware does in one operation becomes one operation."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.transforms.pipeline import PipelinePass


@dataclass(frozen=True)
class FusePass(PipelinePass):
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
        from ceras_ir.transforms.graph.batch_norm_to_depthwise import BatchNormToDepthwisePass
        from ceras_ir.transforms.graph.distribute_concat import DistributeConcatPass
        from ceras_ir.transforms.graph.drop_expands import DropExpandsPass
        from ceras_ir.transforms.graph.drop_nan_guards import DropNanGuardsPass
        from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass
        from ceras_ir.transforms.graph.fold_affine_forward import FoldAffineForwardPass
        from ceras_ir.transforms.graph.fold_batch_norm import FoldBatchNormPass
        from ceras_ir.transforms.graph.fold_crop import FoldCropPass
        from ceras_ir.transforms.graph.fold_identities import FoldIdentitiesPass
        from ceras_ir.transforms.graph.fold_stride import FoldStridePass
        from ceras_ir.transforms.graph.fuse_activation import FuseActivationPass
        from ceras_ir.transforms.graph.fuse_affine import FuseAffinePass
        from ceras_ir.transforms.graph.fuse_bias import FuseBiasPass
        from ceras_ir.transforms.graph.fuse_branches import FuseBranchesPass
        from ceras_ir.transforms.graph.fuse_clips import FuseClipsPass
        from ceras_ir.transforms.graph.fuse_functions import FuseFunctionsPass
        from ceras_ir.transforms.graph.fuse_mean import FuseMeanPass
        from ceras_ir.transforms.graph.fuse_pad import FusePadPass
        from ceras_ir.transforms.graph.fuse_residual import FuseResidualPass
        from ceras_ir.transforms.graph.fuse_softmax import FuseSoftmaxPass
        from ceras_ir.transforms.graph.matmul_to_convolution import MatmulToConvolutionPass
        from ceras_ir.transforms.graph.split_phases import SplitPhasesPass
        from ceras_ir.transforms.graph.swish_to_hard_swish import SwishToHardSwishPass

        return (
            DropNanGuardsPass(),
            DropExpandsPass(),
            FuseFunctionsPass(),
            FuseSoftmaxPass(),
            EliminateTransposesPass(),
            FoldIdentitiesPass(),
            DistributeConcatPass(),
            FuseMeanPass(),
            FusePadPass(),
            FoldCropPass(),
            FoldStridePass(),
            FuseClipsPass(),
            FuseAffinePass(),
            FoldBatchNormPass(),
            FuseBiasPass(),
            # Crops that a batch normalization kept from their convolution.
            FoldCropPass(),
            MatmulToConvolutionPass(),
            FoldAffineForwardPass(),
            BatchNormToDepthwisePass(),
            *((SwishToHardSwishPass(),) if self.hard_swish else ()),
            FuseBranchesPass(),
            FuseResidualPass(),
            FuseActivationPass(),
            SplitPhasesPass(),
        )
