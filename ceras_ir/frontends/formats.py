"""
Find the importer of a model by the ending of its file.

ONNX is part of the core. An extension registers an importer in the entry point group
`ceras_ir.frontends`, under the ending without the dot. The importer is loaded when a file with that
ending is read.
"""

from __future__ import annotations

import os
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


def model_endings() -> list[str]:
    """Return the file endings of all models that can be imported, `.onnx` first."""
    points = without_deleted(entry_points(group=FRONTENDS))
    return [ONNX, *sorted(f".{point.name}" for point in points)]
