"""
Run a compiled folder: C through the host's compiler, nnet in the C++ engine, VTA's launches in
a simulator with the C host part around them.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.runner import CModel, Launch, Trace
from ceras_ir.driver.pipeline.build import manifest_tensors, read_manifest
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError

Array: TypeAlias = NDArray[np.generic]
Sample: TypeAlias = Mapping[str, Array]

NNET_CHUNK = 16
"""Samples that the engine runs in one process; between two of them progress shows."""


class Executable(Protocol):
    """A network that can be run."""

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        """The outputs of each sample, by name, as they come."""
        ...


class Compiled(Executable, Protocol):
    """A compiled network, which can also show what it computes on the way."""

    def trace(self, sample: Sample, trace: Trace) -> None:
        """Run once; `trace` sees the number and the stored bytes of each step's result."""
        ...


class Interpreted:
    """A module at any level, run by the interpreter; in its arena if it has one."""

    def __init__(self, module: ModuleOp):
        self.module = module

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        from ceras_ir.dialects.mem import arena_of
        from ceras_ir.interpreters.arena import run_in_arena
        from ceras_ir.interpreters.network import run
        from ceras_ir.network.function import main_function

        placed = arena_of(main_function(self.module)) is not None
        for sample in samples:
            yield (run_in_arena if placed else run)(self.module, sample)


class CompiledC:
    """A folder for target C, or the host part of one for VTA."""

    def __init__(self, folder: Path, inputs: list[TensorInfo], outputs: list[TensorInfo]):
        self.folder, self.inputs, self.outputs = folder, inputs, outputs
        self.launch: Launch | None = None
        self.image: NDArray[np.uint8] | None = None

    def build(self, trace: Trace | None = None) -> CModel:
        model = CModel(self.folder, self.inputs, self.outputs, trace=trace, launch=self.launch)
        if self.image is not None:
            model.use_arena(self.image)
        return model

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        model = self.build()
        for sample in samples:
            yield model.run(sample)

    def trace(self, sample: Sample, trace: Trace) -> None:
        self.build(trace).run(sample)


class CompiledVta(CompiledC):
    """A folder for target VTA: the host part in C, each launch in a simulator."""

    def __init__(
        self,
        folder: Path,
        inputs: list[TensorInfo],
        outputs: list[TensorInfo],
        command: str | None,
    ):
        from ceras_ir.backends.vta.package import open_package

        super().__init__(folder, inputs, outputs)
        image, runner = open_package(folder, command)
        self.launch = runner.launch
        # Without launches it is C like any other, with a workspace in an arena of its own.
        self.image = image if runner.streams else None


class CompiledNnet:
    """A folder for target nnet, run in the C++ engine."""

    def __init__(self, folder: Path):
        from ceras_ir.backends.nnet.runner import NnetModel

        self.model = NnetModel(folder)

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        for start in range(0, len(samples), NNET_CHUNK):
            chunk = samples[start : start + NNET_CHUNK]
            stacked = {name: np.stack([s[name] for s in chunk]) for name in chunk[0]}
            results = self.model.run_samples(stacked)
            for i in range(len(chunk)):
                yield {name: array[i] for name, array in results.items()}

    def trace(self, sample: Sample, trace: Trace) -> None:
        self.model.run(sample, trace)


class Reimported(Interpreted):
    """A folder for target onnx: its model imported again, and run by the interpreter."""

    def __init__(self, path: Path):
        from ceras_ir.driver.pipeline.context import load_context
        from ceras_ir.driver.pipeline.stages import (
            BuildOptions,
            front_stages,
            read_network,
            run_stages,
        )

        module = read_network(str(path))
        options = BuildOptions("interp").resolved(module)
        if options.is_quantized:
            run_stages(load_context(), module, front_stages(options))
        super().__init__(module)

    def trace(self, sample: Sample, trace: Trace) -> None:
        """Nothing: its operations are others than the steps of what was exported."""


def open_folder(folder: Path, vta_runner: str | None = None) -> Compiled:
    """What `ceras-compile` wrote into `folder`, ready to run."""
    manifest = read_manifest(folder)
    inputs, outputs = (manifest_tensors(manifest, k, folder) for k in ("inputs", "outputs"))
    match manifest.get("target"):
        case "c":
            return CompiledC(folder, inputs, outputs)
        case "arduino":
            sketch = manifest.get("sketch")
            if not isinstance(sketch, str) or not (folder / sketch / "model.c").is_file():
                raise InputError("has no sketch with a model.c; compile again", str(folder))
            return CompiledC(folder / sketch, inputs, outputs)
        case "nnet":
            return CompiledNnet(folder)
        case "vta":
            return CompiledVta(folder, inputs, outputs, vta_runner)
        case "onnx":
            from ceras_ir.backends.onnx.export import MODEL

            return Reimported(folder / MODEL)
        case target:
            raise InputError(f"no way to run target {target!r}", str(folder))
