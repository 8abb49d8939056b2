"""What the passes of `quantize` that learn from calibration data have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.network.function import main_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ceras_ir.transforms.quantization.analysis.sensitivity import Sample


@dataclass(frozen=True)
class CalibratedPass(ModulePass):
    """
    Change a float network so that its integers become better, as `samples` samples of `calibration`
    show. Without data nothing is done. `improve` is the change that a pass makes.
    """

    calibration: str | None = None
    """`FILE.npz` with samples, see `observe-ranges`; without it nothing is done."""
    samples: int = 64
    """How many of them may be used."""
    draw: int | None = None
    """Seed that chooses them; without it they lie at even distances in the data."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from ceras_ir.network.quantizable import is_quantized

        if self.calibration is not None and not is_quantized(main_function(op)):
            self.improve(ctx, op)

    @abstractmethod
    def improve(self, ctx: Context, op: ModuleOp) -> None:
        """Change `op`, of which there is data."""

    def data(
        self, op: ModuleOp, what: str = "calibrating", most: int | None = None
    ) -> Iterator[Sample]:
        """The samples, `most` at most, one by one, with a progress bar that says `what` is done."""
        from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples

        assert self.calibration is not None
        return calibration_samples(op, self.calibration, self.samples, what, self.draw, most)
