"""
Import TOSA text of upstream MLIR as `graph` modules.

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
    Import the text in the file `path` as a module with one `func.func @main`.

    `batch` is the extent of open first dimensions of the inputs, `shapes` has complete shapes.
    Inputs in `values` become constants. Raises `InputError` for a text that is malformed or
    inconsistent, and `UnsupportedError` for a network that is not supported.
    """
    from xdsl.context import Context

    from ceras_ir.frontends.formats import text_of
    from ceras_ir.frontends.tosa.importer import Importer
    from ceras_ir.frontends.tosa.text.reader import read_module
    from ceras_ir.support.diagnostics import InputError
    from ceras_ir.support.user_files import read_bytes
    from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass
    from ceras_ir.transforms.pass_kinds import run_step

    text = text_of(read_bytes(path), path)
    try:
        source = read_module(text, path)
        importer = Importer(source, batch=batch, shapes=shapes or {}, values=values or {})
        module = importer.module()
    except InputError as error:
        error.file = error.file or path
        raise
    run_step(EliminateTransposesPass.name, EliminateTransposesPass(), Context(), module)
    return module
