"""Define target onnx: an ONNX model that computes the same integers as the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.targets import PLACED, Arithmetic, Emission, Manifest, Stage, Target

if TYPE_CHECKING:
    from pathlib import Path

    from ceras_ir.backends.onnx.export import Reimported


@dataclass(frozen=True)
class OnnxTarget(Target):
    """Export an ONNX model with the same quantization as the network."""

    name = "onnx"
    arithmetic = Arithmetic(rows=False, kernels=False, weight_widths=(2, 4, 8))
    writes_models = True
    text = "ceras_ir.backends.onnx.export:OnnxText"

    def lower(self) -> list[Stage]:
        from ceras_ir.transforms.placement import PlacePass

        return [Stage(PLACED, (PlacePass(),))]

    def emit(self, module: ModuleOp, title: str) -> Emission:
        from ceras_ir.backends.onnx.export import emit

        return Emission(emit(module, title))

    @classmethod
    def viewer_model(cls, module: ModuleOp, title: str) -> tuple[str, bytes]:
        from ceras_ir.backends.onnx.export import export_model, serialized

        return ".onnx", serialized(export_model(module, title, exact=False, silent=True))

    def open(self, folder: Path, manifest: Manifest) -> Reimported:
        from ceras_ir.backends.onnx.export import MODEL_FILE, Reimported

        return Reimported(folder / MODEL_FILE)
