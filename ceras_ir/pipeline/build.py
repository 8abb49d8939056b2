"""
Compile a network for a target: run its stages, collect its artefacts, describe and check them.

`manifest.json` says what each file is, which command made it, and what the network's ends look
like; it is all that `ceras-run` needs to execute the folder. It has the SHA-256 of every file that
a run reads: taken when the file is written, checked before it runs. A folder whose files were
changed, lost or mixed up is refused instead of computing something else. This is no signature: who
can change the files can change the manifest. Texts of levels (`--save-temps`) may be edited.
"""

import io
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import file_digest, sha256
from importlib.metadata import requires, version
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
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.stages import all_stages, run_stages, target_stages
from ceras_ir.support.diagnostics import InputError, UnsupportedError
from ceras_ir.support.terminal import progress
from ceras_ir.targets.capabilities import Compiled, Executable, Manifest
from ceras_ir.targets.protocol import PLACED, Emission, Stage
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.placement.place import state_findings

SHA256 = "sha256"
"""The entry of the manifest: file -> digest in hexadecimal."""
UNCHECKED = "unchecked"
"""The entry of the manifest: files that nothing runs, which may be edited or deleted."""


class _Hashing(io.BytesIO):
    """Hands on what is written, if to anybody, and hashes it."""

    def __init__(self, stream: BinaryIO | None):
        super().__init__()
        self.stream, self.hash = stream, sha256()

    def write(self, data: Any, /) -> int:
        self.hash.update(data)
        return len(data) if self.stream is None else self.stream.write(data)


class Digests:
    """The digests of some artefacts; those in `artefacts` leave theirs when they are written."""

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
        """All of them; what was not written yet is written nowhere."""
        for artefact in self._plain:
            if artefact.path not in self._known:
                self._take(artefact, None)
        return {artefact.path: self._known[artefact.path] for artefact in self._plain}


def check_digests(folder: Path, manifest: Manifest) -> None:
    """Refuse a folder in which a file is not what the manifest was written for."""
    expected = manifest.content.get(SHA256)
    if not isa(expected, dict[str, str]):
        raise InputError("its manifest has no digests; compile again", str(folder))
    files, unchecked = manifest.content.get("files"), manifest.content.get(UNCHECKED, [])
    missing = set(files) - set(expected) if isa(files, dict[str, str]) else set[str]()
    if isa(unchecked, list[str]):
        missing -= set(unchecked)
    if missing:
        raise InputError(
            f"its manifest has no digest of '{min(missing)}'; compile again", str(folder)
        )
    for name, digest in expected.items():
        path = folder / name
        try:
            with open(path, "rb") as stream:
                found = file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise InputError(
                f"cannot be read: {error.strerror}; compile again", str(path)
            ) from None
        if found != digest:
            raise InputError("is not the file that was compiled; compile again", str(path))


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


def run_all(
    executable: Executable, samples: Samples | StreamedSamples, declared: Sequence[TensorInfo]
) -> dict[str, Array]:
    """The outputs of all samples by name, in the types that the model has `declared`."""
    results = list(progress(executable.run(list(samples)), "running", len(samples)))
    return as_declared(join(results, batched=samples.batched), declared)


DISTRIBUTION = "ceras-ir"

FOLDER = "DIR"
"""What stands for the output folder: reports of one compile are the same wherever they are."""


def provenance(
    tool: str, argv: Sequence[str], model: str, options: BuildOptions
) -> dict[str, object]:
    """The entry `provenance` of a report."""
    data = [part for part in (options.calibration or "").split(",") if part]
    target = {
        field.name: spelled
        for field in fields(options.target)
        if (spelled := getattr(options.target, field.name)) != field.default
    }
    quantized = {"quantized": options.is_quantized}
    if options.is_quantized:
        quantized |= {"recipe": list(options.recipe), "silu": options.silu}
        quantized |= {"rows": options.rows}
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
    """Of Python, this package and those that it needs."""
    needed = [text for text in requires(DISTRIBUTION) or () if "extra ==" not in text]
    names = sorted(match[0] for text in needed if (match := re.match(r"[\w.-]+", text)))
    return {"python": python_version(), **{name: version(name) for name in (DISTRIBUTION, *names)}}


def command_line(tool: str, argv: Sequence[str]) -> str:
    """The command as one types it, with `DIR` for the output folder."""
    words = [tool]
    for previous, word in zip(["", *argv], argv, strict=False):
        if previous == "-o":
            words.append(FOLDER)
        elif word.startswith("-o") and word != "-o" and not word.startswith("--"):
            words.append(f"-o{FOLDER}")
        else:
            words.append(shlex.quote(word))
    return " ".join(words)


def digest(path: Path) -> str:
    """SHA-256 of a file; of a folder, of its files' names and digests."""
    if path.is_dir():
        whole = sha256()
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            whole.update(f"{file.relative_to(path).as_posix()} {digest(file)}\n".encode())
        return whole.hexdigest()
    if not path.is_file():
        return ""
    with open(path, "rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
