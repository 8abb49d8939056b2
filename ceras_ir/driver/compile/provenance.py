"""What a compile was made of: versions, options, digests of its inputs, and its command."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import fields
from hashlib import file_digest, sha256
from importlib.metadata import requires, version
from pathlib import Path
from platform import python_version

from ceras_ir.pipeline.options import BuildOptions

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
