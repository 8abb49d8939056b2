"""What the passes of `quantize` that learn from calibration data have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp

from ceras_ir.network.function import module_of
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.options import SampleOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ceras_ir.transforms.quantization.analysis.sensitivity import Sample


@dataclass(frozen=True)
class CalibratedPass(SampleOptions, FloatNetworkPass):
    """
    Change a float network so that its integers become better, as `samples` samples of `calibration`
    show. Without data nothing is done. `improve` is the change that a pass makes.
    """

    def change(self, main: FuncOp) -> None:
        if self.calibration is not None:
            self.improve(main)

    @abstractmethod
    def improve(self, main: FuncOp) -> None:
        """Change `main`, of which there is data."""

    def data(
        self, main: FuncOp, what: str = "calibrating", most: int | None = None
    ) -> Iterator[Sample]:
        """The samples, `most` at most, one by one, with a progress bar that says `what` is done."""
        from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples

        assert self.calibration is not None
        module = module_of(main)
        return calibration_samples(module, self.calibration, self.samples, what, self.draw, most)
