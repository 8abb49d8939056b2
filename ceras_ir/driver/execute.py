"""
Run a compiled folder: on the host's compiler, in the C++ engine, or in a VTA simulator.

Each returns the outputs by name, and shows a tracer the bytes of every step's results, in the
order of the steps of the module that was compiled.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.diagnostics import InputError
from ceras_ir.driver.build import read_manifest

Array: TypeAlias = NDArray[np.generic]
StepTracer: TypeAlias = Callable[[int, bytes], None]
"""Called with the number of a step and the stored bytes of its result."""


class Executable(Protocol):
    """A compiled network that can be run, one sample a time."""

    def run(
        self, inputs: Mapping[str, Array], trace: StepTracer | None = None
    ) -> dict[str, Array]: ...


class Interpreted:
    """A module at any level, run by the interpreter; in its arena if it has one."""

    def __init__(self, module: ModuleOp):
        self.module = module

    def run(self, inputs: Mapping[str, Array], trace: StepTracer | None = None) -> dict[str, Array]:
        from ceras_ir.analysis.network import main_function
        from ceras_ir.dialects.mem import arena_of
        from ceras_ir.interpreters.arena import run_in_arena
        from ceras_ir.interpreters.network import run

        del trace
        placed = arena_of(main_function(self.module)) is not None
        return (run_in_arena if placed else run)(self.module, inputs)


def open_folder(folder: Path, vta_runner: str | None = None) -> Executable:
    """What `ceras-compile` wrote into `folder`, ready to run."""
    manifest = read_manifest(folder)
    match manifest.get("target"):
        case "c" | "arduino":
            from ceras_ir.backends.c.runner import CModel

            return CModel(folder)
        case "nnet":
            from ceras_ir.backends.nnet.runner import NnetModel

            return NnetModel(folder)
        case "vta":
            from ceras_ir.backends.vta.runner import VtaModel

            return VtaModel(folder, vta_runner)
        case target:
            raise InputError(f"no way to run target {target!r}", str(folder))
