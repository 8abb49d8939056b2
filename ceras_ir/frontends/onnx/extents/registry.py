"""
Register importers of operators on values with extents that data decide, and call them.

The standard importer of an operator emits the operations for the maximum shape; most importers here
prepare the operands, call it, and give the result the extents.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import OPERATORS, OperatorImporter
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node

IMPORTERS: dict[str, OperatorImporter] = {}
"""The importers by operator."""

F = TypeVar("F", bound=OperatorImporter)


def sized(*names: str) -> Callable[[F], F]:
    """Register the importer of the operators `names` on values with extents that data decide."""

    def register(function: F) -> F:
        IMPORTERS.update(dict.fromkeys(names, function))
        return function

    return register


def imported(node: Node, emitter: Emitter) -> Value | Sequence[Value]:
    """
    Emit a node with an operand that has, or decides, extents that are known only at run time.
    Refuse an operator without an importer for them.
    """
    assert __package__
    for module in iter_modules(import_module(__package__).__path__, f"{__package__}."):
        import_module(module.name)
    if (importer := IMPORTERS.get(node.operator)) is None:
        names = [n for n in node.inputs if n and _is_sized(emitter, n)]
        raise refused(emitter, f"of '{names[0]}'")
    return importer(node, emitter)


def _is_sized(emitter: Emitter, name: str) -> bool:
    value = emitter.values[name]
    return emitter.table.of(value) != shape_of_value(value)


def refused(emitter: Emitter, what: str) -> Exception:
    """Return the error that the current node has no result for extents that data decide."""
    return emitter.node.unsupported(
        f"{what}, which has extents that data decide; resize to a fixed size before it, or state "
        "them as numbers with --shape, only if they are always these numbers: zeros follow "
        "otherwise"
    )


def standard(node: Node, emitter: Emitter, operands: Mapping[int, Value]) -> Value:
    """
    Call the standard importer of the current node with these `operands`, by index, and return the
    first result.
    """
    with _replaced(emitter, {node.inputs[i]: value for i, value in operands.items()}):
        result = OPERATORS[node.operator](node, emitter)
    return result[0] if isinstance(result, Sequence) else result


@contextmanager
def _replaced(emitter: Emitter, values: Mapping[str, Value]) -> Generator[None]:
    before = {name: emitter.values[name] for name in values}
    emitter.values.update(values)
    try:
        yield
    finally:
        emitter.values.update(before)
