"""
Seeded random networks of every family, as the commands take them: `random_case(family, seed)`.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import onnx_random
from onnx_compare import SHARED
from onnx_models import Array, value_shape
from qdq_widths import widened
from random_images import random_image_model
from streaming_random import random_streaming

from ceras_ir.data.samples import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx import import_model
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.support.diagnostics import UnsupportedError, node_name
from ceras_ir.transforms.graph.fuse import FusePass

GENERATOR = SHARED / "tools" / "fuzz_models.py"
SAMPLES = 16
"""Below that, calibration warns and clips nothing."""
SIZE = 6
"""Blocks of the generator's networks, at most."""


@dataclass(frozen=True)
class Case:
    """A network, what it is calibrated and run on, and which of its inputs are states."""

    model: onnx.ModelProto
    data: Mapping[str, Array]
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    quantized: bool = False
    """Whether the model says how: layers are not chosen then."""

    @property
    def layers(self) -> list[str]:
        """The names of what computes, as options choose it; none of a model that is refused."""
        try:
            module = import_model(self.model)
        except UnsupportedError:
            return []
        FusePass().apply(load_context(), module)
        kinds = (graph.Conv2dOp, graph.MatmulOp, graph.BinaryOp, graph.Pool2dOp, graph.UnaryOp)
        ops = main_function(module).body.block.ops
        return list(dict.fromkeys(node_name(op) for op in ops if isinstance(op, kinds)))

    def save(self, folder: Path) -> list[str]:
        """Write `model.onnx` and `data.npz`; returns the options that states need."""
        (folder / "model.onnx").write_bytes(self.model.SerializeToString())
        save_arrays(str(folder / "data.npz"), self.data)
        return [word for pair in self.states.items() for word in ("--state", "=".join(pair))]


def images(seed: int) -> Case:
    model, samples = random_image_model(seed)
    return Case(model, {"x": samples})


def convolutions(seed: int) -> Case:
    """Any attributes, and attention over the places of a feature map."""
    model = onnx_random.random_network(seed, kinds=[*onnx_random.STEPS, "head"])
    return Case(model, _samples(model, seed))


def streaming(seed: int) -> Case:
    """States, recurrent layers, attention, loops and branches; samples are steps."""
    model, states, steps = random_streaming(seed)
    return Case(model, {"x": steps[:, 0]}, states)


def operators(seed: int) -> Case | None:
    """A network in float of more operators; None where the generator drops a seed."""
    return _generated(seed, "none")


def quantized(seed: int) -> Case | None:
    """Q/DQ, of which every other one has 16-bit values, or QLinear operators."""
    return _generated(seed, "qdq" if seed % 3 else "qop")


FAMILIES: dict[str, Callable[[int], Case | None]] = {
    family.__name__: family for family in (images, convolutions, streaming, operators, quantized)
}


def random_case(family: str, seed: int) -> Case | None:
    """The network of a seed, or None where there is none."""
    return FAMILIES[family](seed)


def _samples(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in constants]
    shapes = {name: [int(size) for size in value_shape(model, name)] for name in names}
    return {
        name: random.uniform(-1, 1, (SAMPLES, *shape[1:])).astype(np.float32)
        for name, shape in shapes.items()
    }


def _generated(seed: int, kind: str) -> Case | None:
    if not GENERATOR.exists():
        return None
    if str(GENERATOR.parent) not in sys.path:
        sys.path.append(str(GENERATOR.parent))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not str(import_module(GENERATOR.stem).one(seed, folder, SIZE, kind)).startswith("ok"):
            return None
        written = folder / f"s{seed:06d}"
        model = onnx.ModelProto.FromString((written / "model.onnx").read_bytes())
        inputs = {k: np.array(v) for k, v in np.load(written / "in.npz").items()}
    random = np.random.default_rng(seed)
    if kind == "qdq" and seed % 2:
        model = widened(model, seed)
    data = dict[str, Array]()
    for key, array in inputs.items():
        sample = array[0] if len(array) == 1 else array
        factors = random.uniform(0.5, 1.1, (SAMPLES, *sample.shape))
        data[key] = (sample * factors).astype(array.dtype)
    return Case(model, data, quantized=kind != "none")
