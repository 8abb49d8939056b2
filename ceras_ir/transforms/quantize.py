"""The pipeline `quantize`: from a float network to integers."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.transforms.align_scales import AlignScalesPass
from ceras_ir.transforms.calibrate import CalibratePass
from ceras_ir.transforms.check_scales import CheckScalesPass
from ceras_ir.transforms.choose_weight_exponents import ChooseWeightExponentsPass
from ceras_ir.transforms.pipeline import PipelinePass
from ceras_ir.transforms.prove_accumulators import ProveAccumulatorsPass
from ceras_ir.transforms.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.unfuse_residual import UnfuseResidualPass


@dataclass(frozen=True)
class QuantizePass(PipelinePass):
    """
    Quantize a float network to symmetric int8 with power-of-two scales and 32-bit biases.

    Ranges come from the first `samples` samples of `calibration=FILE.npz`, else from the IR,
    else from synthetic samples drawn with `seed`; see `observe-ranges`. A network that is
    quantized already stays as it is.
    """

    name = "quantize"

    calibration: str | None = None
    samples: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        self.passes()  # Refuses options out of range before anything runs.

    def passes(self) -> tuple[ModulePass, ...]:
        return (
            CalibratePass(self.calibration, self.samples, self.seed),
            ChooseWeightExponentsPass(),
            AlignScalesPass(),
            UnfuseResidualPass(),
            QuantizeGraphPass(),
            CheckScalesPass(),
            ProveAccumulatorsPass(),
        )
