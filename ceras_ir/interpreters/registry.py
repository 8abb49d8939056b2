"""
Find the classes that interpret the operations of each dialect in numpy, and import them when
needed.

A dialect from elsewhere registers a class, or the name of the class:

    register("toy", "toy.meaning:ToyFunctions")

A target lists them in `Target.interpreters`. In a dialect plugin of a tool, each
`InterpreterFunctions` is registered automatically.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import ModuleOp

if TYPE_CHECKING:
    from xdsl.interpreter import Interpreter, InterpreterFunctions

    from ceras_ir.interpreters.located import LocatedInterpreter

Meaning: TypeAlias = "str | Callable[[], InterpreterFunctions]"
"""`module:class`, or a function that creates the implementation."""

_MEANINGS: dict[str, list[Meaning]] = {
    "arith": ["xdsl.interpreters.arith:ArithFunctions"],
    "func": ["ceras_ir.interpreters.calls:FuncFunctions"],
    "graph": [
        "ceras_ir.interpreters.blocks:BlockFunctions",
        "ceras_ir.interpreters.calls:CallFunctions",
        "ceras_ir.interpreters.camera:CameraFunctions",
        "ceras_ir.interpreters.layers:DetectionFunctions",
        "ceras_ir.interpreters.graph:GraphFunctions",
        "ceras_ir.interpreters.layers:NormalizationFunctions",
        "ceras_ir.interpreters.layers:RecurrenceFunctions",
        "ceras_ir.interpreters.selection:SelectionFunctions",
        "ceras_ir.interpreters.layers:TreeFunctions",
    ],
    "mem": ["ceras_ir.interpreters.network:MemFunctions"],
    "scf": ["xdsl.interpreters.scf:ScfFunctions"],
}
"""The implementations of each dialect, by the name of the dialect."""


def register(dialect: str, meaning: Meaning) -> None:
    """
    Add an implementation of the operations of `dialect` for the interpreter, unless it is already
    registered. `meaning` is the name of a class, `module:class`, or a function that creates an
    instance.
    """
    known = _MEANINGS.setdefault(dialect, [])
    if meaning not in known:
        known.append(meaning)


def interpreter_of(
    module: ModuleOp, listeners: "Sequence[Interpreter.Listener]" = ()
) -> "LocatedInterpreter":
    """
    Return an interpreter of a module, with the implementations of all dialects that it uses.
    `listeners` are notified of each operation.
    """
    from ceras_ir.interpreters.located import LocatedInterpreter

    interpreter = LocatedInterpreter(module, listeners)
    dialects = {op.name.partition(".")[0] for op in module.walk()}
    meanings = [m for d in sorted(dialects) for m in _MEANINGS.get(d, ())]
    for meaning in dict.fromkeys(meanings):
        functions = _imported(meaning) if isinstance(meaning, str) else meaning()
        interpreter.register_implementations(functions)
    return interpreter


# An instance is shared, because functions keep only results that are equal in all calls.
@cache
def _imported(meaning: str) -> "InterpreterFunctions":
    from xdsl.interpreter import InterpreterFunctions

    module, _, name = meaning.partition(":")
    functions: object = getattr(import_module(module), name)()
    assert isinstance(functions, InterpreterFunctions), meaning
    return functions
