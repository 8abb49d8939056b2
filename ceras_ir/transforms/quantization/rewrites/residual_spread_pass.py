"""What the passes that depend on how a target shifts residuals have in common."""

from dataclasses import dataclass

from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.quantization.options import ResidualSpreadOptions


@dataclass(frozen=True)
class ResidualSpreadPass(ResidualSpreadOptions, NetworkPass):
    """Does something else where the residual of each channel has a shift of its own."""

    def __post_init__(self) -> None:
        if not 0 <= self.residual_spread <= ROW_SPREAD:
            raise ValueError(
                f"residual_spread must be in [0, {ROW_SPREAD}], got {self.residual_spread}"
            )
