"""Read a network that is to be compiled."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.pipeline.context import load_context, load_universe
from ceras_ir.pipeline.parsing import is_model, load_module
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import InputError


def read_network(
    path: str,
    *,
    batch: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    states: Mapping[str, str] | None = None,
) -> ModuleOp:
    """
    The float graph of an ONNX file, or the module of an IR text, verified; inputs in `states` are
    the outputs of the call before that they are there with.
    """
    if not is_model(path) and not path.endswith(".mlir"):
        raise InputError("expected a model ending in .onnx or IR text ending in .mlir", path)
    ctx = load_context(None if is_model(path) else load_universe())
    module = load_module(ctx, path, batch=batch, shapes=shapes, values=values)
    verify_module(module)
    if states:
        from ceras_ir.network.states import declare_states

        declare_states(module, states)
    return module
