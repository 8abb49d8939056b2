"""Define target mlir: the network in upstream dialects of MLIR, which IREE compiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.targets import PLACED, ROW_SPREAD, Arithmetic, Emission, Manifest, Stage, Target

if TYPE_CHECKING:
    from pathlib import Path

    from ceras_ir.backends.mlir.runner import IreeNetwork


@dataclass(frozen=True)
class MlirTarget(Target):
    """Export the network as MLIR in upstream dialects, for IREE and other compilers."""

    name = "mlir"
    # Equal to target c, so that both quantize a float network in the same way.
    arithmetic = Arithmetic(residual_spread=ROW_SPREAD)
    passes: ClassVar = {
        "convert-graph-to-linalg": "ceras_ir.backends.mlir.export:ConvertGraphToLinalgPass"
    }

    def lower(self) -> list[Stage]:
        from ceras_ir.transforms.placement import PlacePass
        from ceras_ir.transforms.quantization.channel_slopes import SeparateSlopesPass

        return [Stage(PLACED, (SeparateSlopesPass(), PlacePass()))]

    def emit(self, module: ModuleOp, title: str) -> Emission:
        from ceras_ir.backends.mlir.export import emit

        return Emission(emit(module))

    def open(self, folder: Path, manifest: Manifest) -> IreeNetwork:
        from ceras_ir.backends.mlir.export import MODEL_FILE
        from ceras_ir.backends.mlir.runner import IreeNetwork

        return IreeNetwork(folder / MODEL_FILE, manifest)
