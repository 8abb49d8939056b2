"""Create seeded random networks of all families for the commands: `random_case(family, seed)`."""

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import onnx_random
from narrow_networks import narrow_network
from onnx_compare import SHARED
from onnx_models import Array, value_shape
from qdq_widths import widened
from random_images import random_image_model
from streaming_random import random_streaming

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx import import_model
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.support.diagnostics import UnsupportedError, node_name
from ceras_ir.transforms.graph.fuse import FusePass

GENERATOR = SHARED / "tools" / "fuzz_models.py"
SAMPLES = 16
"""The number of samples; with fewer, calibration warns and does not clip."""
SIZE = 6
"""The maximum number of blocks of the generator's networks."""


@dataclass(frozen=True)
class Case:
    """A network, the data to calibrate and run it, and its states."""

    model: onnx.ModelProto
    data: Mapping[str, Array]
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    quantized: bool = False
    """Whether the model specifies the quantization; then options choose no layers."""
    keeps_scales: bool = False
    """Whether no target quantizes the model again."""

    @property
    def layers(self) -> list[str]:
        """Name the operations that options can choose; empty if the model is not supported."""
        try:
            module = import_model(self.model)
        except UnsupportedError:
            return []
        FusePass().apply(load_context(), module)
        kinds = (graph.Conv2dOp, graph.MatmulOp, graph.BinaryOp, graph.Pool2dOp, graph.UnaryOp)
        ops = main_function(module).body.block.ops
        return list(dict.fromkeys(node_name(op) for op in ops if isinstance(op, kinds)))

    def save(self, folder: Path) -> list[str]:
        """Write `model.onnx` and `data.npz`, and return the options for the states."""
        (folder / "model.onnx").write_bytes(self.model.SerializeToString())
        save_arrays(str(folder / "data.npz"), self.data)
        return [word for pair in self.states.items() for word in ("--state", "=".join(pair))]


def images(seed: int) -> Case:
    model, samples = random_image_model(seed)
    return Case(model, {"x": samples})


def convolutions(seed: int) -> Case:
    """Create convolutions with any attributes, and attention over the pixels of a feature map."""
    model = onnx_random.random_network(seed, kinds=[*onnx_random.STEPS, "head"])
    return Case(model, _samples(model, seed))


def streaming(seed: int) -> Case:
    """Create states, recurrent layers, attention, loops and branches; samples are steps."""
    model, states, steps = random_streaming(seed)
    return Case(model, {"x": steps[:, 0]}, states)


def operators(seed: int) -> Case | None:
    """Create a float network of more operators; None if the generator drops the seed."""
    return _generated(seed, "none")


def quantized(seed: int) -> Case | None:
    """Create a Q/DQ network, half of these with 16-bit values, or a QLinear network."""
    return _generated(seed, "qdq" if seed % 3 else "qop")


def narrow(seed: int) -> Case | None:
    """Create a QONNX, Q/DQ or float network for weights of 1 to 8 bits."""
    network = narrow_network(seed)
    samples = network.samples(seed, SAMPLES)
    if not samples:
        return None
    data = {"x": network.stacked(samples)}
    comes_quantized = network.form != "float"
    # Scales can be powers of two, which VTA keeps.
    return Case(network.model, data, quantized=comes_quantized, keeps_scales=comes_quantized)


FAMILIES: dict[str, Callable[[int], Case | None]] = {
    family.__name__: family
    for family in (images, convolutions, streaming, operators, quantized, narrow)
}


def random_case(family: str, seed: int) -> Case | None:
    """Return the network of a seed; None if there is no such network."""
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
