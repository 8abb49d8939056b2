"""
ONNX models as `graph` modules.

Importing this package is cheap: protobuf and numpy are loaded by the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import onnx
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.frontends.onnx.emission.values import Value
    from ceras_ir.frontends.onnx.model.model_file import DataFolder


class NamedImport(NamedTuple):
    """An imported graph before transposes are eliminated, in the layouts of the model."""

    module: ModuleOp
    named: Mapping[str, Value]
    """The value or constant that the importer made of each tensor of the model's own graph."""


Observer: TypeAlias = "Callable[[NamedImport], None]"
"""Receives the graph of an import before transposes are eliminated, and owns it."""


def import_file(
    path: str | Path,
    *,
    batch: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    observe: Observer | None = None,
) -> ModuleOp:
    """
    The model in the file `path` as a module with one `func.func @main`.

    `batch` is put for an unknown first dimension of the inputs, `shapes` for whole shapes, and
    inputs in `values` are constants of those, no inputs any more. Raises
    `InputError` for a file that is not a consistent model and `UnsupportedError` for one that
    is not taken.
    """
    from ceras_ir.frontends.onnx.model.model_file import DataFolder, read_model

    model, folder = read_model(path), DataFolder.of_model(Path(path))
    return _imported(model, batch, shapes, values, str(path), folder, observe)


def import_model(
    model: onnx.ModelProto,
    *,
    batch: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    name: str | None = None,
    folder: Path | None = None,
) -> ModuleOp:
    """
    As `import_file`, for a model in memory: `name` is what diagnostics call it, and `folder`
    where its external data lies, if it has any.
    """
    from ceras_ir.frontends.onnx.model.model_file import DataFolder

    data = DataFolder(folder) if folder else None
    return _imported(model, batch, shapes, values, name, data)


def import_with_names(
    model: onnx.ModelProto,
    *,
    batch: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    folder: DataFolder | None = None,
) -> NamedImport:
    """As `import_model`, before transposes are eliminated."""
    from ceras_ir.frontends.onnx.importer import Importer

    shapes, values = shapes or {}, values or {}
    importer = Importer(model, batch=batch, shapes=shapes, values=values, name=None, folder=folder)
    return NamedImport(importer.module(), importer.named)


def _imported(
    model: onnx.ModelProto,
    batch: int,
    shapes: Mapping[str, Sequence[int]] | None,
    values: Mapping[str, Sequence[float]] | None,
    name: str | None,
    folder: DataFolder | None,
    observe: Observer | None = None,
) -> ModuleOp:
    """Import a model, and eliminate transposes where possible."""
    from xdsl.context import Context

    from ceras_ir.frontends.onnx.importer import Importer
    from ceras_ir.frontends.onnx.remedies import imported
    from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass
    from ceras_ir.transforms.pass_kinds import run_step

    shapes, values = shapes or {}, values or {}
    importer = Importer(model, batch=batch, shapes=shapes, values=values, name=name, folder=folder)
    module = imported(importer)
    if observe is not None:
        observe(NamedImport(module, importer.named))
        module = module.clone()
    run_step(EliminateTransposesPass.name, EliminateTransposesPass(), Context(), module)
    return module
