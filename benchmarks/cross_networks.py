"""
Count the instructions of whole networks for `cross_layers.py`.

Ours are those of `model_run`. A peer runs the convolutions and matrix products of the network one
after the other, without the other operations and without functions between layers. Weights are
random, and int8 networks have 8 bits everywhere.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cross import Cross, caller, instructions_of_run
from cross_peers import description
from firmware import write_files
from networks import ds_cnn, mobilenet_v2, resnet8

from ceras_ir.backends.c.target import CTarget
from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import Build, build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions

NETWORKS: Mapping[str, Callable[[Path], None]] = {
    "keyword spotter": ds_cnn, "ResNet-8": resnet8, "MobileNetV2": mobilenet_v2,
}  # fmt: skip

CALIBRATION_SAMPLES = 32
FLOAT_ERROR = 1e-4
"""The relative error of a deep float network with sums in another order."""


@dataclass(frozen=True)
class Network:
    """A network as C, with a sample, and the layers as peers describe them."""

    title: str
    result: Build
    layers: tuple[str, ...]

    @property
    def is_float(self) -> bool:
        return self.title.startswith("float")

    def measure(self, cross: Cross, plugin: Path, kernels: str) -> int:
        """Return the instructions of an inference, and assert that the results are correct."""
        module, main = self.result.module, main_function(self.result.module)
        ends = network_inputs(main), network_outputs(main)
        flags = cross.builds[kernels]
        with tempfile.TemporaryDirectory(prefix="ceras-cross-") as name:
            work = Path(name)
            write_files(self.result.files(), work)
            rng = np.random.default_rng(1)
            shape, dtype = ends[0][0].shape, ends[0][0].dtype
            x = rng.standard_normal(shape) if self.is_float else rng.integers(-128, 128, shape)
            sample = {ends[0][0].name: x.astype(dtype)}
            got = cross.run(cross.build(work, work / "main.c", flags), sample, *ends)
            for key, expected in run(module, sample).items():
                wide = expected.astype(np.float32)
                error = np.abs(got[key].astype(np.float32) - wide).max()
                most = FLOAT_ERROR * np.abs(wide).max() if self.is_float else 0
                assert error <= most, (self.title, key, error)
            kind = "float" if self.is_float else "int8_t"
            program = cross.build(work, caller(work, kind, *ends), flags)
            return instructions_of_run(cross.emulator, plugin, program)


def networks(titles: tuple[str, ...]) -> tuple[Network, ...]:
    """Compile networks to C, in int8 and in float."""
    found: list[Network] = []
    for title in titles:
        with tempfile.TemporaryDirectory(prefix="ceras-cross-") as name:
            path, data = Path(name) / "model.onnx", Path(name) / "data.npz"
            NETWORKS[title](path)
            module = read_network(str(path))
            (info,) = network_inputs(main_function(module))
            drawn = np.random.default_rng(0).standard_normal((CALIBRATION_SAMPLES, *info.shape[1:]))
            np.savez(data, allow_pickle=False, **{info.name: drawn.astype(np.float32)})
            target = CTarget(optimize="speed")
            plain = build(module, BuildOptions(target, quantize="none"))
            options = BuildOptions(
                target, quantize="int8", calibration=str(data), io="int8", recipe=("none",)
            )
            whole = build(read_network(str(path)), options)
        ops = [op for op in plain.module.walk() if isinstance(op, LinearOperation)]
        for kind, result in (("", whole), ("float ", plain)):
            layers = tuple(description(op, is_float=bool(kind)) for op in ops)
            found.append(Network(kind + title, result, layers))
    return tuple(found)
