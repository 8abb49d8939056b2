"""
Run an exported network in IREE, if the Python packages of its compiler and run time are installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import MissingToolError
from ceras_ir.support.extras import install_command
from ceras_ir.targets.capabilities import Array, Manifest, Sample, Trace

EXTRA = "mlir"
FLAGS = [
    "--iree-llvmcpu-target-cpu=generic",
    "--iree-opt-level=O1",
    "--iree-llvmcpu-stack-allocation-limit=1048576",
]
"""
The options of the compiler. A generic processor has no fused multiply-add, so each float operation
is rounded separately. IREE stores rows that it recomputes on the stack, which can need more than
the default of 32 KiB.
"""


class Invocable(Protocol):
    """A function of a module that IREE has loaded."""

    def __call__(self, *arguments: Array) -> object: ...


class Loaded(Protocol):
    main: Invocable


class Compiler(Protocol):
    def compile_str(
        self, text: bytes, *, target_backends: Sequence[str], extra_args: Sequence[str]
    ) -> bytes: ...


class Runtime(Protocol):
    def load_vm_flatbuffer(self, program: bytes, *, driver: str) -> Loaded: ...


class IreeNetwork:
    """
    The network in the MLIR file `path`, compiled by IREE for this processor. `manifest` has the
    inputs and outputs. A `MissingToolError` is raised if IREE is not installed.
    """

    def __init__(self, path: Path, manifest: Manifest):
        try:
            compiler = cast(Compiler, import_module("iree.compiler"))
            runtime = cast(Runtime, import_module("iree.runtime"))
        except ImportError:
            raise MissingToolError(
                f"unsupported on this machine: IREE is not installed: {install_command(EXTRA)}"
            ) from None
        program = compiler.compile_str(
            path.read_bytes(), target_backends=["llvm-cpu"], extra_args=FLAGS
        )
        self.main = runtime.load_vm_flatbuffer(program, driver="local-sync").main
        self.manifest = manifest

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        for sample in samples:
            given = [np.asarray(sample[t.name], order="C") for t in self.manifest.inputs]
            found = self.main(*given)
            results = found if isa(found, tuple[object, ...]) else (found,)
            outputs = zip(self.manifest.outputs, results, strict=True)
            # The memory of a result belongs to IREE, which reuses it.
            yield {
                tensor.name: np.array(result).view(tensor.dtype).reshape(tensor.shape)
                for tensor, result in outputs
            }

    def trace(self, sample: Sample, trace: Trace) -> None:
        """Call `trace` for no value, because IREE merges operations."""
