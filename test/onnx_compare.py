"""Compare the importer with ONNX Runtime: `agree(model)` imports, runs and compares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx_models import Array, random_inputs, run_onnxruntime
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects.graph import TransposeOp
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run

SHARED = Path(__file__).parents[1].parent / "shared"
"""The folder of networks and data next to the checkout; tests that need it skip if it is absent."""

TOLERANCE = 1e-4
"""The tolerance, relative to the maximum magnitude of an output."""


def compare(got: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    """Fail unless all outputs have the same shapes and agree within the tolerance."""
    assert list(got) == list(want)
    for name, expected in want.items():
        assert got[name].shape == expected.shape, name
        scale = max(float(np.abs(expected).max()), 1e-6)
        error = float(np.abs(got[name] - expected).max()) / scale
        assert error <= TOLERANCE, f"output '{name}' differs by {error:.2e} of its range"


def agree(proto: onnx.ModelProto, inputs: Mapping[str, Array] | None = None) -> ModuleOp:
    """Import `proto`, compare its results with ONNX Runtime's, and return the module."""
    module = import_model(proto)
    module.verify()
    arrays = random_inputs(proto) if inputs is None else dict(inputs)
    compare(run(module, arrays), run_onnxruntime(proto, arrays))
    return module


def transposes(module: ModuleOp) -> list[TransposeOp]:
    """Return the transposes that remain."""
    return [op for op in module.walk() if isinstance(op, TransposeOp)]
