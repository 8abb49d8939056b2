"""
Export PyTorch modules by `torch.export` and the ONNX exporter of PyTorch.

Nodes get the names of the modules in the module tree, such as `blocks.0.conv`, which diagnostics
and reports print. PyTorch is imported when a module is exported.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ceras_ir.frontends.exporters import Export, NetworkExporter, rename_nodes
from ceras_ir.support.diagnostics import InputError, UnsupportedError, UsageError
from ceras_ir.support.extras import install_command

if TYPE_CHECKING:
    import onnx

EXTRA = "pytorch"
SCOPES = "pkg.torch.onnx.name_scopes"
"""The key of the names of modules, outermost first, that contain the operation of a node."""


class TorchExporter(NetworkExporter):
    """Converts `torch.nn.Module` and `torch.export.ExportedProgram` to ONNX."""

    def exports(self, network: object, example_inputs: Sequence[object] | None) -> Sequence[Export]:
        if find_spec("onnxscript") is None:
            raise UsageError(
                f"the ONNX exporter of PyTorch needs onnxscript: {install_command(EXTRA)}"
            )
        torch = cast(Any, import_module("torch"))
        program = network
        if not isinstance(network, torch.export.ExportedProgram):
            with _explained("by torch.export", DRAFT):
                program = _program(torch, network, example_inputs)

        def core() -> onnx.ModelProto:
            # In the core operators, a recurrent layer is a list of operations for each step. The
            # exporter knows only some of the arguments of functions that it exports as a whole.
            with _explained("by the ONNX exporter of PyTorch", REWRITE):
                return _exported(torch, cast(Any, program).run_decompositions())

        def whole() -> onnx.ModelProto:
            with _explained("by the ONNX exporter of PyTorch", REWRITE):
                return _exported(torch, program)

        return [whole, core]

    def title(self, network: object) -> str:
        return type(network).__name__


DRAFT = (
    "keep control flow and sizes independent of data; torch.export.draft_export(module, "
    "example_inputs) shows where they depend on them"
)
REWRITE = "compute this layer with other operations"


@contextmanager
def _explained(exporter: str, remedy: str) -> Generator[None]:
    """
    Raise an `UnsupportedError` for an error of PyTorch. Its warnings and the graphs that it prints
    are for developers of PyTorch, and are not shown.
    """
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    except (InputError, ImportError):
        raise
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        text = next((line for line in str(cause).splitlines() if line.strip()), "no message")
        raise UnsupportedError(
            f"unsupported {exporter} ({type(cause).__name__}: {text.strip()}): {remedy}"
        ) from error


def _exported(torch: Any, program: object) -> onnx.ModelProto:
    # The optimizer of the exporter would give a convolution the name of the next batch norm.
    exported = torch.onnx.export(program, dynamo=True, verbose=False, optimize=False)
    model: onnx.ModelProto = exported.model_proto
    name_nodes(model)
    return model


def _program(torch: Any, network: Any, example_inputs: Sequence[object] | None) -> object:
    if example_inputs is None:
        raise UsageError(
            "a PyTorch module needs example inputs: ceras.load(module, example_inputs), a tuple of "
            "tensors or arrays with the shapes and types of the inputs"
        )
    inputs = tuple(
        torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in example_inputs
    )
    # The modes of all modules are restored.
    modes = [(module, module.training) for module in network.modules()]
    try:
        return torch.export.export(network.eval(), inputs)
    finally:
        for module, mode in modes:
            module.training = mode


def name_nodes(model: onnx.ModelProto) -> None:
    """
    Rename each node after the innermost PyTorch module that contains it, such as `blocks.0.conv`;
    the operator is appended if the module has several nodes. Nodes outside of submodules keep their
    names.
    """
    rename_nodes(model, [_scope(node) for node in model.graph.node])


def _scope(node: onnx.NodeProto) -> str:
    import ast

    for entry in node.metadata_props:
        if entry.key == SCOPES:
            names: object = ast.literal_eval(entry.value)
            assert isinstance(names, list)
            modules = [str(name) for name in cast("list[object]", names)[:-1] if name]
            return modules[-1] if modules else ""
    return ""
