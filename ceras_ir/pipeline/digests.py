"""
SHA-256 of every file of a compiled folder that anything runs: taken as it is written, checked
before it runs. Texts of levels (`--save-temps`) are there to be read and edited.

A folder whose files were changed, lost or mixed up is refused instead of computing something else.
This is no signature: who can change the files can change the manifest.
"""

import io
from collections.abc import Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, BinaryIO

from xdsl.utils.hints import isa

from ceras_ir.network.artefacts import Artefact
from ceras_ir.support.diagnostics import InputError
from ceras_ir.targets.execution import Manifest

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
