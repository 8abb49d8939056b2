"""
Compile a network for a target: run its stages, collect its artefacts, describe them.

`manifest.json` says what each file is and what the network's ends look like; it is all that
`ceras-run` needs to execute the folder.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.command.exit_status import phase
from ceras_ir.command.named_file import naming
from ceras_ir.command.output_folder import MANIFEST, REPORT, is_inside, write_artefacts
from ceras_ir.network.artefacts import (
    Artefact,
    TensorInfo,
    network_inputs,
    network_outputs,
    network_states,
)
from ceras_ir.network.function import main_function
from ceras_ir.pipeline import report
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.digests import SHA256, UNCHECKED, Digests, check_digests
from ceras_ir.pipeline.instrumentation import Watching
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.stages import all_stages, run_stages, target_stages
from ceras_ir.support.diagnostics import InputError, UnsupportedError
from ceras_ir.targets.execution import Compiled, Manifest
from ceras_ir.targets.protocol import PLACED, Emission, Stage
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.placement.check_operations import state_findings

MANIFEST_VERSION = 1


@dataclass
class Build:
    """A compiled network: its module at the last level, and the files made of it."""

    options: BuildOptions
    module: ModuleOp
    emission: Emission
    report: dict[str, object]

    def manifest(self, digests: Digests, others: Mapping[str, str]) -> dict[str, object]:
        main = main_function(self.module)
        return {
            "version": MANIFEST_VERSION,
            "target": self.options.target.name,
            "files": {a.path: a.description for a in self.emission.artefacts} | dict(others),
            SHA256: digests.to_json(),
            **({UNCHECKED: sorted(others)} if others else {}),
            "inputs": [tensor.to_json() for tensor in network_inputs(main)],
            "outputs": [tensor.to_json() for tensor in network_outputs(main)],
            **({"states": states} if (states := network_states(main)) else {}),
            **self.emission.manifest,
        }

    def files(self, others: Mapping[str, str] | None = None) -> list[Artefact]:
        """
        All files of the output folder, but for `others` that somebody else describes; the manifest
        last: it has the digests of those before it.
        """
        report = Artefact.of_text(REPORT, "costs per layer and in total", _json(self.report))
        digests = Digests([*self.emission.artefacts, report])

        def write(stream: BinaryIO) -> None:
            stream.write(_json(self.manifest(digests, others or {})).encode())

        return [*digests.artefacts, Artefact(MANIFEST, "this description", write)]

    def write(self, folder: Path) -> Manifest:
        """Write all files into `folder`; the manifest, as those that run it read it."""
        write_artefacts(folder, self.files())
        return read_manifest(folder)


def _json(content: dict[str, object]) -> str:
    return json.dumps(content, indent=2) + "\n"


Observer: TypeAlias = Callable[[Stage, ModuleOp], None]
"""Sees the module at the end of each stage."""


def build(
    module: ModuleOp,
    options: BuildOptions,
    after: Observer | None = None,
    watching: Watching | None = None,
) -> Build:
    """Compile `module`, which is consumed; `watching` is that of `run_stages`."""
    options = options.resolved(module)
    return _run(module, options, all_stages(options), after, watching)


def build_target(
    module: ModuleOp,
    options: BuildOptions,
    after: Observer | None = None,
    watching: Watching | None = None,
) -> Build:
    """Lower a fused and, if asked for, quantized graph to the target; `module` is consumed."""
    # Targets that share a graph were not all asked when it was made.
    if findings := state_findings(main_function(module), type(options.target)):
        raise UnsupportedError(findings)
    return _run(module, options, target_stages(options), after, watching)


def _run(
    module: ModuleOp,
    options: BuildOptions,
    stages: list[Stage],
    after: Observer | None,
    watching: Watching | None = None,
) -> Build:
    layers: list[report.Layer] = []
    ends: dict[str, int | str] = {}
    weights = 0

    def observe(stage: Stage, module: ModuleOp) -> None:
        nonlocal weights, ends
        if stage.level == PLACED:
            layers[:] = report.layers(module)
            ends = report.results(module)
            weights = report.weight_bytes(module)
        if after is not None:
            after(stage, module)

    run_stages(load_context(), module, stages, observe, watching)
    target = options.target
    with phase(f"emission for target {target.name}"):
        emission = target.emit(module, options.title)
    content = report.report(module, layers, ends, weights, emission, options)
    return Build(options, module, emission, content)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a compiled folder, checked as far as any target relies on it."""
    path = folder / MANIFEST
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"no {MANIFEST} in it: not a folder that ceras-compile wrote", str(folder)
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"not a readable manifest: {error}", str(path)) from None
    if not isa(content, dict[str, object]) or content.get("version") != MANIFEST_VERSION:
        raise InputError(f"not a manifest of version {MANIFEST_VERSION}; compile again", str(path))
    target = content.get("target")
    if not isinstance(target, str):
        raise InputError("names no target; compile again", str(path))
    files = content.get("files")
    if not isa(files, dict[str, object]) or not all(is_inside(folder, name) for name in files):
        raise InputError("has no list of files of this folder", str(path))
    inputs, outputs = (_tensors(content, key, path) for key in ("inputs", "outputs"))
    return Manifest(target, inputs, outputs, content)


def _tensors(content: dict[str, object], key: str, path: Path) -> list[TensorInfo]:
    """The `inputs` or `outputs` that a manifest describes."""
    entries = content.get(key)
    if not isa(entries, list[dict[str, object]]):
        raise InputError(f"has no list of {key}", str(path))
    with naming(str(path)):
        return [TensorInfo.from_json(entry) for entry in entries]


def open_folder(folder: Path) -> Compiled:
    """What `ceras-compile` wrote into `folder`, ready to run."""
    manifest = read_manifest(folder)
    check_digests(folder, manifest)
    return find_target(manifest.target)().open(folder, manifest)
