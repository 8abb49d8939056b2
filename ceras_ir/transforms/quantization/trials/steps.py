"""
The passes that make integers, in order: `quantize` runs them, and trials run them on copies.

A recipe is set between `prepare` and `measure`; `quantize` may choose precisions before `finish`.
"""

from xdsl.passes import ModulePass

from ceras_ir.transforms.graph.fuse_pad import FusePadPass
from ceras_ir.transforms.quantization.align_scales import AlignScalesPass
from ceras_ir.transforms.quantization.calibrate import CalibratePass
from ceras_ir.transforms.quantization.check_scales import CheckScalesPass
from ceras_ir.transforms.quantization.choose_row_exponents import ChooseRowExponentsPass
from ceras_ir.transforms.quantization.choose_weight_exponents import ChooseWeightExponentsPass
from ceras_ir.transforms.quantization.choose_zero_points import ChooseZeroPointsPass
from ceras_ir.transforms.quantization.correct_bias import CorrectBiasPass
from ceras_ir.transforms.quantization.drop_tie_breakers import DropTieBreakersPass
from ceras_ir.transforms.quantization.fit_inputs import FitInputsPass
from ceras_ir.transforms.quantization.fold_dequantized_constants import FoldDequantizedConstantsPass
from ceras_ir.transforms.quantization.fold_qdq import FoldQdqPass
from ceras_ir.transforms.quantization.hoist_quantize import HoistQuantizePass
from ceras_ir.transforms.quantization.make_signed import MakeSignedPass
from ceras_ir.transforms.quantization.prove_accumulators import ProveAccumulatorsPass
from ceras_ir.transforms.quantization.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.quantization.round_weights import RoundWeightsPass
from ceras_ir.transforms.quantization.set_precision import SetPrecisionPass
from ceras_ir.transforms.quantization.sink_dequantize import SinkDequantizePass
from ceras_ir.transforms.quantization.unfuse_residual import UnfuseResidualPass


def prepare() -> tuple[ModulePass, ...]:
    """What a network that comes with Q/DQ needs; a float one stays as it is."""
    return (
        MakeSignedPass(),
        SinkDequantizePass(),
        HoistQuantizePass(),
        DropTieBreakersPass(),
        FoldQdqPass(),
        FusePadPass(),
        FoldDequantizedConstantsPass(),
    )


def measure(
    calibrate: CalibratePass, precision: SetPrecisionPass, *, one_shift: bool
) -> tuple[ModulePass, ...]:
    """What gives the values of a network with a recipe ranges, exponents, widths, zero points."""
    return (
        FitInputsPass(calibrate.calibration, calibrate.samples, when_chosen=True),
        calibrate,
        precision,
        ChooseZeroPointsPass(one_shift, when_chosen=True),
    )


def finish(calibration: str | None, samples: int) -> tuple[ModulePass, ...]:
    """What makes integers of a network whose values have ranges, exponents and widths."""
    data = (calibration, samples, True)
    return (
        ChooseRowExponentsPass(when_chosen=True),
        ChooseWeightExponentsPass(),
        AlignScalesPass(),
        UnfuseResidualPass(),
        RoundWeightsPass(*data),
        CorrectBiasPass(*data),
        QuantizeGraphPass(),
        CheckScalesPass(),
        ProveAccumulatorsPass(),
    )
