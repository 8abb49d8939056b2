"""Functions that a model defines for itself: their calls become the nodes of their bodies."""

import onnx

from ceras_ir.support.diagnostics import InputError

MAX_INLINED_NODES = 1 << 20
"""Nodes that calls may expand to; functions that call each other could multiply without end."""


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` without functions of its own; the model itself where it has none."""
    if not model.functions:
        return model
    _check_expansion(model)
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise InputError(f"local functions cannot be inlined: {reason}") from None


def _check_expansion(model: onnx.ModelProto) -> None:
    """Refuse recursion, and more nodes than any network has."""
    bodies = {(f.domain, f.name): f for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    active: set[tuple[str, str]] = set()

    def size(key: tuple[str, str]) -> int:
        if key in active or len(active) > 64:
            raise InputError(f"function '{key[1]}' calls itself, or calls are nested too deeply")
        if key not in sizes:
            active.add(key)
            sizes[key] = sum(
                size(called) if (called := (n.domain, n.op_type)) in bodies else 1
                for n in bodies[key].node
            )
            active.remove(key)
        return sizes[key]

    total = sum(
        size(called) for n in model.graph.node if (called := (n.domain, n.op_type)) in bodies
    )
    if total > MAX_INLINED_NODES:
        raise InputError(f"local functions expand to {total} nodes, at most {MAX_INLINED_NODES}")
