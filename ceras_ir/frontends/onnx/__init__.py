"""
Import ONNX models as `graph` modules.

Importing this package is cheap: protobuf and numpy are loaded by the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import onnx
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue

    from ceras_ir.frontends.onnx.emission.values import Value
    from ceras_ir.frontends.onnx.model.model_file import DataFolder


class NamedImport(NamedTuple):
    """
    An imported graph before transposes are eliminated, so that values have the layouts of the model
    (NCHW).
    """

    module: ModuleOp
    named: Mapping[str, Value]
    """The value or constant of each tensor of the main graph, by the name in the model."""
    sized: Collection[SSAValue]
    """The values with extents that data decide. They have the maximum shape."""


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
    Import the model in the file `path` as a module with one `func.func @main`.

    `batch` is the extent of unknown first dimensions of the inputs. `shapes` has complete shapes of
    inputs and, with `UpTo` for an extent that data decide, of inner values. Inputs in `values`
    become constants. Raises `InputError` for a file that is not a consistent model, and
    `UnsupportedError` for a model that is not supported.
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
    Import a model that is in memory, like `import_file`. `name` is the file in diagnostics, and
    `folder` has external data of the model.
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
    """
    Import a model like `import_model`, but keep the transposes between NCHW and NHWC, and return
    the value of each tensor by name. `ceras-verify` compares these with ONNX Runtime.
    """
    from ceras_ir.frontends.onnx.importer import Importer

    shapes, values = shapes or {}, values or {}
    importer = Importer(model, batch=batch, shapes=shapes, values=values, name=None, folder=folder)
    return NamedImport(importer.module(), importer.named, importer.sized)


def _imported(
    model: onnx.ModelProto,
    batch: int,
    shapes: Mapping[str, Sequence[int]] | None,
    values: Mapping[str, Sequence[float]] | None,
    name: str | None,
    folder: DataFolder | None,
    observe: Observer | None = None,
) -> ModuleOp:
    from xdsl.context import Context

    from ceras_ir.frontends.onnx.importer import Importer
    from ceras_ir.frontends.onnx.remedies import imported
    from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass
    from ceras_ir.transforms.pass_kinds import run_step

    shapes, values = shapes or {}, values or {}
    importer = Importer(model, batch=batch, shapes=shapes, values=values, name=name, folder=folder)
    module = imported(importer)
    if observe is not None:
        observe(NamedImport(module, importer.named, importer.sized))
        module = module.clone()
    run_step(EliminateTransposesPass.name, EliminateTransposesPass(), Context(), module)
    return module
