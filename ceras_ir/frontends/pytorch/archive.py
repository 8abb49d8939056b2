"""
Read exported programs in `.pt2` files without executing a pickle.

`torch.export.load` unpickles example inputs, and tensors and constants that the file marks, and
evaluates symbolic sizes. A copy of the archive has only raw tensors and the graph in JSON. A file
that needs more, or that calls functions other than operators, is refused.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from ceras_ir.support.diagnostics import InputError, MissingToolError, UnsupportedError
from ceras_ir.support.extras import install_command
from ceras_ir.support.user_files import regular

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

COPIED = re.compile(
    r"[^/]*/(archive_format|archive_version|byteorder|\.data/\w+|models/\w+\.json"
    r"|data/(weights|constants)/\w+(\.json)?)"
)
"""The members with the graph and raw tensors. The first part is the name of the archive."""
EXAMPLES = re.compile(r"[^/]*/data/sample_inputs/\w+\.pt")
"""Example inputs, which are a pickle."""
OPERATOR = re.compile(r"torch\.ops\.aten\.\w+\.\w+|_operator\.getitem")
"""The functions that nodes may name."""
MODULES = "nn_module_stack"
"""The metadata with the names of modules."""
CONFIGURATION = re.compile(r"[^/]*/data/(weights|constants)/\w+\.json")


def import_file(
    path: str,
    *,
    batch: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
) -> ModuleOp:
    """
    Import the exported PyTorch program in the `.pt2` file `path`, as `ceras_ir.frontends.onnx`
    imports an ONNX file. Raise a `MissingToolError` without PyTorch.
    """
    archive = without_pickles(path)
    if find_spec("torch") is None:
        from ceras_ir.frontends.pytorch import EXTRA

        raise MissingToolError(
            f"unsupported on this machine: a .pt2 file needs PyTorch: {install_command(EXTRA)}"
        )
    from ceras_ir.frontends.exporters import import_exported
    from ceras_ir.frontends.pytorch import TorchExporter

    torch = cast(Any, import_module("torch"))
    program = torch.export.load(io.BytesIO(archive))
    return import_exported(
        TorchExporter(), program, None, batch=batch, shapes=shapes, values=values, name=path
    )


def without_pickles(path: str) -> bytes:
    """
    Return a copy of the `.pt2` archive at `path` that contains no pickles and no code, so that
    loading it executes no code of the file. Raise an error if the program needs them.
    """
    copy = io.BytesIO()
    try:
        with zipfile.ZipFile(regular(path)) as source, zipfile.ZipFile(copy, "w") as target:
            names = source.namelist()
            if len(set(names)) != len(names):
                raise InputError("two members of the archive have the same name", path)
            for name in names:
                if EXAMPLES.fullmatch(name):
                    target.writestr(name, b"")
                elif COPIED.fullmatch(name):
                    data = source.read(name)
                    if CONFIGURATION.fullmatch(name):
                        _check_configuration(data, path)
                    elif name.endswith(".json"):
                        data = json.dumps(_checked(json.loads(data))).encode()
                    target.writestr(name, data)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RecursionError) as error:
        raise InputError(f"not an archive of torch.export.save: {error}", path) from None
    if not any(name.endswith("/archive_format") for name in names):
        raise InputError(
            "not an archive of torch.export.save of PyTorch 2.8 or later; export it again", path
        )
    return copy.getvalue()


def _checked(content: object) -> object:
    # Return the graph without guards, which are code, and without metadata other than the names of
    # modules. PyTorch calls the functions that nodes name, and evaluates symbolic sizes.
    if isinstance(content, list):
        return [_checked(value) for value in cast("list[object]", content)]
    if not isinstance(content, dict):
        return content
    found = dict[str, object]()
    for key, value in cast("dict[str, object]", content).items():
        if key == "target" and not OPERATOR.fullmatch(str(value)):
            raise UnsupportedError(
                f"unsupported operator '{value}' in an exported program; ceras.load(module, "
                "example_inputs) exports the module without a file"
            )
        if key == "expr_str":
            raise UnsupportedError(
                "unsupported symbolic sizes in an exported program; export it with fixed shapes"
            )
        if key == "metadata" and isinstance(value, dict):
            metadata = cast("dict[str, object]", value)
            value = {MODULES: metadata[MODULES]} if MODULES in metadata else {}
        found[key] = [] if key == "guards_code" else _checked(value)
    return found


def _check_configuration(data: bytes, path: str) -> None:
    content: object = json.loads(data)
    entries: object = None
    if isinstance(content, dict):
        entries = cast("dict[str, object]", content).get("config")
    if not isinstance(entries, dict):
        raise InputError("not a list of tensors in the archive", path)
    for name, entry in cast("dict[str, object]", entries).items():
        if not isinstance(entry, dict) or not _is_tensor(cast("dict[str, object]", entry)):
            raise InputError(
                f"'{name}' is stored as a pickle, which could execute code; export the module "
                "again with plain tensors, or use ceras_ir.load(module, example_inputs)",
                path,
            )


def _is_tensor(entry: Mapping[str, object]) -> bool:
    name = entry.get("path_name")
    is_raw = entry.get("use_pickle") is False
    return is_raw and isinstance(name, str) and name.startswith(("weight_", "tensor_"))
