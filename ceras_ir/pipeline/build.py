"""
Compile a network for a target: run the stages, collect the files, describe and check them.

`manifest.json` describes each file, the command, and the graph inputs and outputs; `ceras-run`
needs no other description. It has the SHA-256 of each file that a run loads. The digest is computed
when the file is written and checked before each run, so a folder with changed, missing or exchanged
files is refused. The digests are no signature: a person who can change the files can change the
manifest. Texts of levels (`--save-temps`) may be edited.
"""

import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import file_digest, sha256
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, BinaryIO, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.command.exit_status import naming, phase
from ceras_ir.command.output_files import MANIFEST, REPORT, is_inside, write_artefacts
from ceras_ir.data.sample_stream import StreamedSamples
from ceras_ir.data.samples import Array, Samples, as_declared, join
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
from ceras_ir.pipeline.instrumentation import Watching
from ceras_ir.pipeline.stages import BuildOptions, all_stages, run_stages, target_stages
from ceras_ir.support.diagnostics import InputError, UnsupportedError, progress, remark
from ceras_ir.support.extensions import DISTRIBUTION, required_packages
from ceras_ir.support.option_uses import reporting_unused
from ceras_ir.support.user_files import read_text, regular
from ceras_ir.targets.capabilities import Compiled, Executable, Manifest
from ceras_ir.targets.protocol import PLACED, Emission, Stage
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.placement import state_findings

SHA256 = "sha256"
"""The entry of the manifest that maps each file to its digest in hexadecimal."""
UNCHECKED = "unchecked"
"""The entry of the manifest that lists files without a digest, which may be edited or deleted."""


class _Hashing(io.BytesIO):
    def __init__(self, stream: BinaryIO | None):
        super().__init__()
        self.stream, self.hash = stream, sha256()

    def write(self, data: Any, /) -> int:
        self.hash.update(data)
        return len(data) if self.stream is None else self.stream.write(data)


class Digests:
    """
    The SHA-256 digests of the files of a build, for the manifest. Each file in `artefacts` records
    a digest when it is written, so that the content is created only a single time.
    """

    def __init__(self, artefacts: Sequence[Artefact]):
        self._plain = artefacts
        self._known: dict[str, str] = {}
        self.artefacts = [
            Artefact(a.path, a.description, lambda stream, a=a: self._take(a, stream))
            for a in artefacts
        ]

    def _take(self, artefact: Artefact, stream: BinaryIO | None) -> None:
        hashing = _Hashing(stream)
        artefact.write(hashing)
        self._known[artefact.path] = hashing.hash.hexdigest()

    def to_json(self) -> dict[str, str]:
        """
        Return the digest of each file by path. A file that was not written yet is hashed without
        being written.
        """
        for artefact in self._plain:
            if artefact.path not in self._known:
                self._take(artefact, None)
        return {artefact.path: self._known[artefact.path] for artefact in self._plain}


def check_digests(folder: Path, manifest: Manifest) -> None:
    """
    Raise `InputError` if a file in `folder` differs from the digest in the manifest, is missing, or
    has no digest.
    """
    expected = manifest.content.get(SHA256)
    if not isa(expected, dict[str, str]):
        raise InputError("the manifest has no digests; compile again", str(folder))
    files, unchecked = manifest.content.get("files"), manifest.content.get(UNCHECKED, [])
    missing = set(files) - set(expected) if isa(files, dict[str, str]) else set[str]()
    if isa(unchecked, list[str]):
        missing -= set(unchecked)
    if missing:
        raise InputError(
            f"the manifest has no digest of '{min(missing)}'; compile again", str(folder)
        )
    for name, digest in expected.items():
        path = folder / name
        try:
            with open(regular(path), "rb") as stream:
                found = file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise InputError(
                f"cannot be read: {error.strerror}; compile again", str(path)
            ) from None
        if found != digest:
            raise InputError("differs from the compiled file; compile again", str(path))


MANIFEST_VERSION = 1


@dataclass
class Build:
    """
    A compiled network: the module at the last level, and the files of the target (`emission`).
    """

    options: BuildOptions
    module: ModuleOp
    emission: Emission
    report: dict[str, object]

    def measure(self) -> "Build":
        """
        Add measured figures to the report, such as the size of machine code, for which a tool (a C
        compiler) must be installed. The files of the target do not change. Return this build.
        """
        if self.emission.measure is not None:
            found = self.emission.measure()
            totals = self.report["totals"]
            assert isa(totals, dict[str, object])
            self.report |= {**found.details, "totals": {**totals, **found.totals}}
            self.emission.figures = {**self.emission.figures, **found.figures}
            self.emission.manifest |= found.manifest
            if found.warning:
                remark(found.warning)
        return self

    def manifest(self, digests: Digests, other_files: Mapping[str, str]) -> dict[str, object]:
        main = main_function(self.module)
        return {
            "version": MANIFEST_VERSION,
            "target": self.options.target.name,
            "files": {a.path: a.description for a in self.emission.artefacts} | dict(other_files),
            SHA256: digests.to_json(),
            **({UNCHECKED: sorted(other_files)} if other_files else {}),
            "inputs": [tensor.to_json() for tensor in network_inputs(main)],
            "outputs": [tensor.to_json() for tensor in network_outputs(main)],
            **({"states": states} if (states := network_states(main)) else {}),
            **self.emission.manifest,
        }

    def files(self, other_files: Mapping[str, str] | None = None) -> list[Artefact]:
        """
        Return the files of the output folder: the files of the target, the report and the manifest.
        `other_files` maps paths that the caller writes itself to descriptions for the manifest. The
        manifest is last, because it has the digests of the other files.
        """
        report = Artefact.of_text(REPORT, "costs per layer and in total", _json(self.report))
        digests = Digests([*self.emission.artefacts, report])

        def write(stream: BinaryIO) -> None:
            stream.write(_json(self.manifest(digests, other_files or {})).encode())

        return [*digests.artefacts, Artefact(MANIFEST, "this description", write)]

    def write(self, folder: Path) -> Manifest:
        """Write all files into `folder`, and return the manifest as parsed from the file."""
        write_artefacts(folder, self.files())
        return read_manifest(folder)


def _json(content: dict[str, object]) -> str:
    return json.dumps(content, indent=2) + "\n"


StageObserver: TypeAlias = Callable[[Stage, ModuleOp], None]
"""A function that receives the module at the end of each stage."""


def build(
    module: ModuleOp,
    options: BuildOptions,
    after: StageObserver | None = None,
    watching: Watching | None = None,
) -> Build:
    """
    Compile `module`, which is changed in place and must not be used again. `after` receives the
    module at the end of each stage. `watching` receives the module before a stage and returns the
    check that runs after each pass.
    """
    with reporting_unused(options, options.target):
        options = options.resolved(module)
        return _run(module, options, all_stages(options), after, watching)


def build_target(
    module: ModuleOp,
    options: BuildOptions,
    after: StageObserver | None = None,
    watching: Watching | None = None,
) -> Build:
    """
    Lower `module` to the target: a fused graph, which is quantized if requested. The module is
    changed in place and must not be used again. For `after` and `watching` see `build`.
    """
    # Not all targets that share a graph were checked when it was created.
    if findings := state_findings(main_function(module), type(options.target)):
        raise UnsupportedError(findings)
    return _run(module, options, target_stages(options), after, watching)


class PlacedFigures:
    """
    An observer of stages that keeps the entries of the placed graph for the report, because later
    stages replace its operations. It calls `after` at the end of each stage.
    """

    def __init__(self, after: StageObserver | None):
        self._after = after
        self._layers: list[report.LayerEntry] = []
        self._result_layers: dict[str, int | str] = {}
        self._weight_bytes = 0

    def __call__(self, stage: Stage, module: ModuleOp) -> None:
        if stage.level == PLACED:
            self._layers = report.layers(module)
            self._result_layers = report.results(module)
            self._weight_bytes = report.weight_bytes(module)
        if self._after is not None:
            self._after(stage, module)

    def build(self, options: BuildOptions, module: ModuleOp, emission: Emission) -> Build:
        """Return the result of a compilation. `module` is at the last level."""
        content = report.report(
            module, self._layers, self._result_layers, self._weight_bytes, emission, options
        )
        return Build(options, module, emission, content)


def _run(
    module: ModuleOp,
    options: BuildOptions,
    stages: list[Stage],
    after: StageObserver | None,
    watching: Watching | None = None,
) -> Build:
    placed = PlacedFigures(after)
    run_stages(load_context(), module, stages, placed, watching)
    target = options.target
    with phase(f"emission for target {target.name}"):
        emission = target.emit(module, options.title)
    return placed.build(options, module, emission)


def read_manifest(folder: Path) -> Manifest:
    """
    Parse the manifest of a compiled folder, and check the entries that all targets use. Raise
    `InputError` if it is missing or invalid.
    """
    path = folder / MANIFEST
    try:
        content: object = json.loads(read_text(path))
    except FileNotFoundError:
        raise InputError(
            f"no {MANIFEST}: expected a folder that ceras-compile wrote", str(folder)
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"not a readable manifest: {error}; compile again", str(path)) from None
    if not isa(content, dict[str, object]) or content.get("version") != MANIFEST_VERSION:
        raise InputError(f"not a manifest of version {MANIFEST_VERSION}; compile again", str(path))
    target = content.get("target")
    if not isinstance(target, str):
        raise InputError("the manifest has no target; compile again", str(path))
    files = content.get("files")
    if not isa(files, dict[str, object]) or not all(is_inside(folder, name) for name in files):
        raise InputError(
            "the manifest has no list of files in this folder; compile again", str(path)
        )
    inputs, outputs = (_tensors(content, key, path) for key in ("inputs", "outputs"))
    return Manifest(target, inputs, outputs, content)


def _tensors(content: dict[str, object], key: str, path: Path) -> list[TensorInfo]:
    entries = content.get(key)
    if not isa(entries, list[dict[str, object]]):
        raise InputError(f"the manifest has no list of {key}; compile again", str(path))
    with naming(str(path)):
        return [TensorInfo.from_json(entry) for entry in entries]


def open_folder(folder: Path) -> Compiled:
    """
    Return the compiled network in `folder`, ready to run. Raise `InputError` if a file was changed
    since the compilation.
    """
    manifest = read_manifest(folder)
    check_digests(folder, manifest)
    return find_target(manifest.target)().open(folder, manifest)


def run_all(
    executable: Executable, samples: Samples | StreamedSamples, declared: Sequence[TensorInfo]
) -> dict[str, Array]:
    """
    Run all samples with a progress display. Return the outputs by name, with the element types that
    the model has for the outputs in `declared`.
    """
    results = list(progress(executable.run(list(samples)), "running", len(samples)))
    return as_declared(join(results, batched=samples.batched), declared)


FOLDER_PLACEHOLDER = "DIR"
"""The name of the output folder in reports, so that reports do not depend on it."""


def provenance(
    tool: str, argv: Sequence[str], model: str, options: BuildOptions
) -> dict[str, object]:
    """
    Return the entry `provenance` of a report: the command, the versions of packages, the options,
    and the digests of the model file and of the calibration data. `tool` is the name of the
    command, and `argv` the arguments.
    """
    data = [part for part in (options.calibration or "").split(",") if part]
    target = {
        field.name: spelled
        for field in fields(options.target)
        if (spelled := getattr(options.target, field.name)) != field.default
    }
    quantized = {"quantized": options.is_quantized}
    if options.is_quantized:
        quantized |= {"recipe": list(options.recipe), "silu": options.silu}
        quantized |= {
            "rows": options.rows,
            "weight_bits": list(options.weight_bits),
            "activation_bits": list(options.activation_bits),
        }
    found: dict[str, object] = {
        "command": command_line(tool, argv),
        "versions": versions(),
        "options": {**target, **quantized, "io": options.io},
        "model": {"file": model, "sha256": digest(Path(model))},
    }
    if options.target.board_name is not None:
        found["board"] = options.target.board_name
    if data:
        found["data"] = {path: digest(Path(path)) for path in data}
    return found


def versions() -> dict[str, str]:
    """Return the versions of Python, this package and the packages that it requires."""
    names = DISTRIBUTION, *required_packages()
    return {"python": python_version(), **{name: version(name) for name in names}}


def command_line(tool: str, argv: Sequence[str]) -> str:
    """
    Return the command as a user types it, with `DIR` in place of the output folder, so that reports
    do not depend on it.
    """
    words = [tool]
    for previous, word in zip(["", *argv], argv, strict=False):
        if previous == "-o":
            words.append(FOLDER_PLACEHOLDER)
        elif word.startswith("-o") and word != "-o" and not word.startswith("--"):
            words.append(f"-o{FOLDER_PLACEHOLDER}")
        else:
            words.append(shlex.quote(word))
    return " ".join(words)


def digest(path: Path) -> str:
    """
    Return the SHA-256 of a file. For a folder, return the digest of the names and digests of all
    files in it; for a missing path, an empty text.
    """
    if path.is_dir():
        total = sha256()
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            total.update(f"{file.relative_to(path).as_posix()} {digest(file)}\n".encode())
        return total.hexdigest()
    if not path.is_file():
        return ""
    with open(path, "rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
