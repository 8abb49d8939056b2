"""
Import TensorFlow Lite models as `graph` modules.

Importing this package is cheap: numpy and the importer are loaded by the first call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def import_file(
    path: str,
    *,
    batch: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
) -> ModuleOp:
    """
    Import the model in the file `path` as a module with one `func.func @main`.

    `batch` is the extent of open first dimensions of the inputs, `shapes` has complete shapes.
    Inputs in `values` become constants. Raises `InputError` for a file that is not a consistent
    model, and `UnsupportedError` for a model that is not supported.
    """
    from xdsl.context import Context

    from ceras_ir.frontends.tflite.importer import Importer
    from ceras_ir.frontends.tflite.model.schema import Model
    from ceras_ir.support.diagnostics import InputError, UnsupportedError
    from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass
    from ceras_ir.transforms.pass_kinds import run_step

    importer: Importer | None = None
    try:
        model = Model.read(path)
        importer = Importer(model, batch=batch, shapes=shapes or {}, values=values or {})
        module = importer.module()
    except InputError as error:
        error.file = error.file or path
        if importer is None or not (names := importer.open_inputs):
            raise
        first = str(error).splitlines()[0]
        raise UnsupportedError(
            f"unsupported with extents of 1 for open dimensions: {first}; set the shape of "
            f"'{names[0]}' with --shape",
            path,
        ) from None
    run_step(EliminateTransposesPass.name, EliminateTransposesPass(), Context(), module)
    return module
