"""
Find the importer of a model by the ending of its file.

ONNX is part of the core. An extension registers an importer in the entry point group
`ceras_ir.frontends`, under the ending without the dot. The importer is loaded when a file with that
ending is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

from ceras_ir.support.extensions import without_deleted

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

FRONTENDS = "ceras_ir.frontends"
"""The group of entry points of importers."""

ONNX, TEXT = ".onnx", ".mlir"

BINARIES = {
    re.compile(rb"ML\xefR"): "; it is MLIR bytecode: print it as text with mlir-opt",
    re.compile(rb"[\s\S]{4}TFL3"): "; it is a TensorFlow Lite model: rename it to end in .tflite",
    # The version of the IR, then the producer, its version, or the graph.
    re.compile(
        rb"\x08[\x01-\x1f][\x12\x1a\x3a]"
    ): "; it is an ONNX model: rename it to end in .onnx",
    re.compile(rb"\x7fELF"): "; it is a compiled program or object (ELF): give the model itself",
    re.compile(rb"\x1f\x8b"): "; it is compressed: unpack it with gunzip",
    re.compile(rb"PK\x03\x04"): "; it is a ZIP archive: unpack it, or rename a .pt2 file to end so",
    re.compile(
        rb"\x89HDF"
    ): "; it is an HDF5 file, as Keras writes: ceras.load(model) loads models",
    re.compile(rb"\xff\xfe|\xfe\xff"): "; it is text in UTF-16: save it as UTF-8",
}
"""The first bytes of other files, and the end of the message if such a file is read as text."""

CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f")
"""Bytes that no text has, whatever the encoding of characters in 8 bits."""


class FileImporter(Protocol):
    """Imports the model in a file as a module with one `func.func @main`."""

    def __call__(
        self,
        path: str,
        *,
        batch: int,
        shapes: Mapping[str, Sequence[int]] | None,
        values: Mapping[str, Sequence[float]] | None,
    ) -> ModuleOp:
        """
        Import the model at `path`. A first dimension of unknown extent becomes `batch`, inputs in
        `shapes` get these shapes, and inputs in `values` become constants. Raises `InputError` for
        an invalid file, and `UnsupportedError` for a valid model that is not supported.
        """
        ...


def ending_of(path: str) -> str:
    """
    Return the ending of the file `path` in lower case, such as `.onnx`. It is longer, such as
    `.tosa.mlir`, for IR text of another dialect that an extension imports.
    """
    stem, ending = os.path.splitext(path)
    ending = ending.lower()
    if ending != TEXT:
        return ending
    longer = os.path.splitext(stem)[1].lower() + ending
    return ending if extension_importer(longer) is None else longer


def is_model(path: str) -> bool:
    """
    Return whether an importer reads the file `path`, which follows from the ending. Other files are
    IR text.
    """
    return ending_of(path) == ONNX or extension_importer(ending_of(path)) is not None


@cache
def extension_importer(ending: str) -> FileImporter | None:
    """
    Return the importer that an extension registers for files with this ending, such as `.tflite`,
    or `None`.
    """
    if len(ending) < 2 or ending in (ONNX, TEXT):
        return None
    for point in without_deleted(entry_points(group=FRONTENDS, name=ending[1:])):
        return point.load()
    return None


def text_of(data: bytes, path: str) -> str:
    """
    Return the text in `data`, the content of the file `path`. Raise `InputError` for bytes that are
    no UTF-8 text; if they are a model of a known format, the message has the remedy.
    """
    from ceras_ir.support.diagnostics import InputError

    remedy = next((text for known, text in BINARIES.items() if known.match(data)), "")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        if not remedy and len(data.translate(None, CONTROL)) == len(data):
            remedy = "; it is text in another encoding, such as Latin-1: save it as UTF-8"
    else:
        if not remedy:
            return text
        found = "it has control characters"
    raise InputError(f"not UTF-8 text ({found}){remedy}", path) from None


def model_endings() -> list[str]:
    """Return the file endings of all models that can be imported, `.onnx` first."""
    points = without_deleted(entry_points(group=FRONTENDS))
    return [ONNX, *sorted(f".{point.name}" for point in points)]
