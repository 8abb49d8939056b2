"""Read a network that is to be compiled."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.pipeline.context import load_context, load_universe
from ceras_ir.pipeline.parsing import check_ending, is_model, load_module
from ceras_ir.pipeline.verification import verify_module

if TYPE_CHECKING:
    from ceras_ir.frontends.onnx import Observer


def read_network(
    path: str,
    *,
    batch: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    states: Mapping[str, str] | None = None,
    observe: "Observer | None" = None,
) -> ModuleOp:
    """
    The float graph of an ONNX file, or the module of an IR text (`-` for the standard input),
    verified; inputs in `states` are the outputs of the call before that they are there with.
    `observe` receives the import of an ONNX file before transposes are eliminated.
    """
    check_ending(path)
    ctx = load_context(None if is_model(path) else load_universe())
    module = load_module(ctx, path, batch=batch, shapes=shapes, values=values, observe=observe)
    verify_module(module)
    if states:
        from ceras_ir.network.states import declare_states

        declare_states(module, states)
    return module
