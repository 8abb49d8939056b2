"""
Bytes of a model: the `.onnx` file itself and the external data that it names.

External data is read only from regular files below the folder of the model, after all links are
followed, and only as many bytes as the declared shape of the tensor needs. So a model cannot cause
other files to be read. Two more folders are allowed, because caches and users link models:
the folder of the file that the model is a link to, and the cache of Hugging Face around the model.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from shlex import quote

import onnx
from google.protobuf.message import DecodeError

from ceras_ir.support.diagnostics import InputError

LFS = b"version https://git-lfs.github.com/spec/"
"""How the files begin that Git LFS leaves where it has not fetched the real ones."""

MAX_FILE_BYTES = (1 << 31) - 1
"""What protobuf can hold in one message."""


def read_model(path: str | Path) -> onnx.ModelProto:
    """The protobuf message in `path`, of which nothing is known yet but that it parses."""
    file = Path(path)
    try:
        if file.is_dir():
            raise InputError("a folder, expected an ONNX file", str(path))
        if (size := file.stat().st_size) > MAX_FILE_BYTES:
            raise InputError(
                f"{size} bytes exceed the 2 GiB of a protobuf file; "
                "save the model with external data",
                str(path),
            )
        data = file.read_bytes()
    except OSError as e:
        raise InputError(f"cannot read: {e.strerror or e}", str(path)) from None
    if not data:
        raise InputError("empty file, expected an ONNX model", str(path))
    if data.startswith(LFS):
        raise InputError("a pointer of Git LFS to a model: fetch it by git lfs pull", str(path))
    try:
        return onnx.ModelProto.FromString(data)
    except DecodeError:
        raise InputError(
            f"not an ONNX model, or a truncated one: {len(data)} bytes do not decode", str(path)
        ) from None


@dataclass(frozen=True)
class DataFolder:
    """The folder to which locations of external data are relative."""

    path: Path
    linked: Path | None = None
    """The folder of the model itself, if the user gave a link to the model."""

    @classmethod
    def of_model(cls, model: Path) -> DataFolder:
        """Return the folder of the model in the file `model`, which may be a link."""
        return cls(model.parent, model.resolve().parent)

    def file(self, location: str) -> Path:
        """Return the file at `location`; ValueError if it is not in an allowed folder."""
        inside = "a path below the model's folder"
        parts = PurePosixPath(location).parts
        if not parts or ".." in parts or "\0" in location:
            raise ValueError(f"external data at '{location}', expected {inside}")
        if location.startswith("/") or PureWindowsPath(location).anchor or "\\" in location:
            raise ValueError(f"external data at '{location}', expected {inside}")
        # Path.resolve raises an error at a link that leads to itself.
        path = Path(os.path.realpath(self.path / location))
        if not any(path.is_relative_to(folder) for folder in self._allowed()):
            raise ValueError(
                f"external data '{location}' leads out by a link, expected {inside}; replace links "
                f"by files: cp -rL {quote(str(self.path))} COPY"
            )
        if not path.is_file():
            raise ValueError(f"external data file '{location}' is missing")
        return path

    def _allowed(self) -> list[Path]:
        folder = self.path.resolve()
        allowed = [folder, *([self.linked] if self.linked else [])]
        for parent in folder.parents:
            # Files of a snapshot of Hugging Face are links to files in blobs.
            if parent.name == "snapshots" and (blobs := parent.parent / "blobs").resolve() == blobs:
                allowed += [parent, blobs]
        return allowed


def read_external(tensor: onnx.TensorProto, folder: DataFolder | None, size: int) -> bytes:
    """The `size` bytes of a tensor whose data is in a file of its own; ValueError if it is not."""
    entries = {str(entry.key): str(entry.value) for entry in tensor.external_data}
    if folder is None:
        raise ValueError("external data, but the model was not read from a file")
    path = folder.file(entries.get("location", ""))
    offset = _count(entries, "offset", 0)
    if (length := _count(entries, "length", size)) != size:
        raise ValueError(f"external data of {length} bytes, expected {size} for its shape")
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) != size:
        raise ValueError(
            f"'{path.name}' ends after {offset + len(data)} bytes, expected {offset + size}"
        )
    return data


def _count(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not text.isdecimal() or len(text) > 18:
        raise ValueError(f"external data {key} must be a count of bytes, got '{text}'")
    return int(text)
