"""The networks of a training run: the one that learns, and the dense one that it learns from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.stages import QUANTIZED, graph_stages, run_stages
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.targets.protocol import Stage
from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.targets.protocol import Target


@dataclass(frozen=True)
class Student:
    """A network ready to be trained, and which of its weights stay zero."""

    module: ModuleOp
    zeros: Mapping[str, NDArray[np.bool_]]
    """By the name of the layer, of its float weights."""

    @property
    def share(self) -> float:
        """Of all weights of layers, those that stay zero."""
        held = sum(int(mask.sum()) for mask in self.zeros.values())
        return held / max(1, sum(mask.size for mask in self.zeros.values()))


def student_of(module: ModuleOp, options: BuildOptions) -> Student:
    """Fuse a network, prune and quantize it if `options` say so, and note its zeros."""
    if not options.is_quantized and carries_quantization(module):
        ops = main_function(module).body.block.ops
        found = [op for op in ops if isinstance(op, graph.QuantizeOp)][:1]
        reason = "unsupported by retraining in float: the network has Q/DQ; add --int8"
        raise UnsupportedError([Finding(node_name(op), op.name, reason) for op in found])
    zeros: dict[str, NDArray[np.bool_]] = {}

    def note(stage: Stage, now: ModuleOp) -> None:
        if stage.level != QUANTIZED:
            zeros.update(_zeros(now))

    run_stages(load_context(), module, graph_stages(options), note)
    return Student(module, zeros)


def teacher_of(module: ModuleOp) -> ModuleOp:
    """The dense network, fused as the other is, so that layers have the same names."""
    run_stages(load_context(), module, graph_stages(replace(BuildOptions(), quantize="none")))
    return module


def check_integers(module: ModuleOp) -> None:
    """Prove again what quantization proved, of the weights that there are now."""
    from ceras_ir.transforms.quantization.accumulators import ProveAccumulatorsPass
    from ceras_ir.transforms.quantization.checks import CheckScalesPass

    for each in (CheckScalesPass(), ProveAccumulatorsPass()):
        each.apply(load_context(), module)


def model_bytes(module: ModuleOp, title: str, target: Target) -> bytes:
    """The network as a model file, as `target` writes it."""
    from io import BytesIO

    (artefact,) = target.emit(module, title).artefacts
    stream = BytesIO()
    artefact.write(stream)
    return stream.getvalue()


def _zeros(module: ModuleOp) -> dict[str, NDArray[np.bool_]]:
    found: dict[str, NDArray[np.bool_]] = {}
    for op in main_function(module).body.block.ops:
        if isinstance(op, graph.LinearOperation):
            array = graph.constant_array(op.weights)
            if array is not None and array.dtype.kind == "f":
                found[node_name(op)] = array == 0
    return found
