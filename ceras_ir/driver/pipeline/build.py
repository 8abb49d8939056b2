"""
Compile a network for a target: run its stages, collect its artefacts, describe them.

`manifest.json` says what each file is and what the network's ends look like; it is all that
`ceras-run` needs to execute the folder.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.command.named_file import naming
from ceras_ir.driver.compile import report
from ceras_ir.driver.pipeline.context import load_context
from ceras_ir.driver.pipeline.stages import BuildOptions, front_stages, run_stages, target_stages
from ceras_ir.network.artefacts import Artefact, TensorInfo, network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import InputError, UsageError

if TYPE_CHECKING:
    from ceras_ir.backends.c.model import Model
    from ceras_ir.backends.c.sizes import Footprint
    from ceras_ir.interpreters.network import Array

MANIFEST = "manifest.json"
REPORT = "report.json"
MANIFEST_VERSION = 1


@dataclass
class Build:
    """A compiled network: its module with placed memory, and the files made of it."""

    options: BuildOptions
    module: ModuleOp
    layers: list[report.Layer]
    report: dict[str, object]
    artefacts: list[Artefact]
    extra: dict[str, object] = field(default_factory=dict[str, object])
    """What only this target puts into the manifest."""
    footprint: "Footprint | None" = None
    """What a microcontroller board has to hold."""

    def manifest(self) -> dict[str, object]:
        main = main_function(self.module)
        return {
            "version": MANIFEST_VERSION,
            "target": self.options.target,
            "files": {a.path: a.description for a in self.artefacts},
            "inputs": [tensor.to_json() for tensor in network_inputs(main)],
            "outputs": [tensor.to_json() for tensor in network_outputs(main)],
            **self.extra,
        }

    def files(self) -> list[Artefact]:
        """All files of the output folder."""
        return [
            *self.artefacts,
            Artefact.of_text(MANIFEST, "this description", _json(self.manifest())),
            Artefact.of_text(REPORT, "costs per layer and in total", _json(self.report)),
        ]


def _json(content: dict[str, object]) -> str:
    return json.dumps(content, indent=2) + "\n"


Observer: TypeAlias = Callable[[str, ModuleOp], None]
"""Sees the module at the end of each level."""


def build(module: ModuleOp, options: BuildOptions, after: Observer | None = None) -> Build:
    """Compile `module`, which is consumed."""
    options.check()
    options = options.resolved(module)
    run_stages(load_context(), module, front_stages(options), after)
    return build_target(module, options, after)


def build_target(module: ModuleOp, options: BuildOptions, after: Observer | None = None) -> Build:
    """Lower a fused and, if asked for, quantized graph to the target; `module` is consumed."""
    layers: list[report.Layer] = []
    weights = 0

    def observe(level: str, module: ModuleOp) -> None:
        nonlocal weights
        if level == "placed graph":
            layers.extend(report.layers(module))
            weights = report.weight_bytes(module)
        if after is not None:
            after(level, module)

    run_stages(load_context(), module, target_stages(options), observe)
    memory = report.memory_totals(module, include_io=options.target == "nnet")
    footprint = None
    if options.target == "arduino":
        from ceras_ir.backends.arduino.emit import emit as emit_arduino

        artefacts, extra, footprint = emit_arduino(module, options.arduino_board, options.title)
        content = report.report(layers, weights, memory, footprint)
    else:
        artefacts, extra = emit(module, options, memory)
        content = report.report(layers, weights, memory)
        if options.target == "vta":
            from ceras_ir.backends.vta.report import add_performance

            add_performance(content, extra)
    if copies := report.copies(module):
        content["copies"] = copies
    if (quantization := report.quantization(module)) is not None:
        content["quantization"] = quantization
    return Build(options, module, layers, content, artefacts, extra, footprint)


def emit(
    module: ModuleOp, options: BuildOptions, memory: dict[str, object]
) -> tuple[list[Artefact], dict[str, object]]:
    """
    The target's files for a module with placed memory, and its part of the manifest; what it
    needs beyond the plan is added to the totals in `memory`.
    """
    match options.target:
        case "nnet":
            from ceras_ir.backends.nnet import emit

            files = emit(module)
            if options.emit_hls:
                from ceras_ir.backends.nnet.hls_package import emit as emit_hls

                files += emit_hls(module, _sample(module, options))
            return files, {}
        case "vta":
            from ceras_ir.backends.c.emitter import emit as emit_host
            from ceras_ir.backends.vta.emit import emit

            artefacts, extra = emit(module, options.board)
            return [*emit_host(module), *artefacts], extra
        case "c":
            from ceras_ir.backends.c.emitter import files_of

            model = _printed(module, options)
            memory["arena_bytes"] = model.arena_bytes
            return files_of(model), {}
        case "onnx":
            from ceras_ir.backends.onnx.export import emit

            return emit(module, options.title), {}
        case other:
            raise InputError(f"no backend for target {other}")


def _sample(module: ModuleOp, options: BuildOptions) -> "Mapping[str, Array]":
    """One input: the first of the calibration data, made up where there is none of its type."""
    main = main_function(module)
    if options.calibrate is not None and options.io == "model":
        from ceras_ir.data.sample_stream import stream_samples

        return next(stream_samples(options.calibrate, network_inputs(main), 1)[1])
    from ceras_ir.data.synthetic_samples import synthetic_samples

    return synthetic_samples(main, 1, 0)[0]


def _printed(module: ModuleOp, options: BuildOptions) -> "Model":
    """The network in C, for its machine; what a microcontroller cannot hold is refused."""
    from ceras_ir.backends.c.emitter import build
    from ceras_ir.backends.c.machine import NATIVE, Machine, bare_machine, load_machine
    from ceras_ir.backends.c.options import COptions

    machine = NATIVE if options.board is None else load_machine(options.board)
    if isinstance(machine, Machine):
        winograd = COptions.winograd if options.winograd else 0
        return build(module, COptions(weights=options.weights, machine=machine, winograd=winograd))
    from ceras_ir.backends.arduino.emit import printed_model
    from ceras_ir.backends.c.fit import check_fit

    if options.weights != "source":
        raise UsageError(f"--weights {options.weights} is for computers: leave it out")
    model, _, footprint = printed_model(module, machine, "model", bare_machine(machine))
    check_fit(model, footprint)
    return model


def read_manifest(folder: Path) -> dict[str, object]:
    """The manifest of a compiled folder, checked as far as any target relies on it."""
    path = folder / MANIFEST
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"no {MANIFEST} in it: not a folder that ceras-compile wrote", str(folder)
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"not a readable manifest: {error}", str(path)) from None
    if not isa(content, dict[str, object]) or content.get("version") != MANIFEST_VERSION:
        raise InputError(f"not a manifest of version {MANIFEST_VERSION}; compile again", str(path))
    return content


def manifest_tensors(manifest: dict[str, object], key: str, folder: Path) -> list[TensorInfo]:
    """The `inputs` or `outputs` that a manifest describes."""
    entries = manifest.get(key)
    if not isa(entries, list[dict[str, object]]):
        raise InputError(f"has no list of {key}", str(folder / MANIFEST))
    with naming(str(folder / MANIFEST)):
        return [TensorInfo.from_json(entry) for entry in entries]
