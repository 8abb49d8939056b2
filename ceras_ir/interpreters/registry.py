"""
Which classes say in numpy what the operations of a dialect mean; imported when a module needs them.

A dialect from elsewhere registers its own beside its definition, by name or as a class:

    register("toy", "toy.meaning:ToyFunctions")

A target names them in `Target.interpreters`; in a file that a tool loads as a dialect plugin,
every `InterpreterFunctions` is registered anyway.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import ModuleOp

if TYPE_CHECKING:
    from xdsl.interpreter import Interpreter, InterpreterFunctions

Meaning: TypeAlias = "str | Callable[[], InterpreterFunctions]"
"""`module:class`, or what makes the functions."""

_MEANINGS: dict[str, list[Meaning]] = {
    "arith": ["xdsl.interpreters.arith:ArithFunctions"],
    "func": ["ceras_ir.interpreters.calls:FuncFunctions"],
    "graph": [
        "ceras_ir.interpreters.calls:CallFunctions",
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
"""By the name of the dialect, which is what operations' names begin with."""


def register(dialect: str, meaning: Meaning) -> None:
    """Interpret operations of `dialect` by `meaning` too; registered twice it counts once."""
    known = _MEANINGS.setdefault(dialect, [])
    if meaning not in known:
        known.append(meaning)


def interpreter_of(
    module: ModuleOp, listeners: "Sequence[Interpreter.Listener]" = ()
) -> "Interpreter":
    """An interpreter that knows the dialects of a module."""
    from ceras_ir.interpreters.calls import LocatedInterpreter

    interpreter = LocatedInterpreter(module, listeners)
    dialects = {op.name.partition(".")[0] for op in module.walk()}
    meanings = [m for d in sorted(dialects) for m in _MEANINGS.get(d, ())]
    for meaning in dict.fromkeys(meanings):
        interpreter.register_implementations(_made(meaning))
    return interpreter


def _made(meaning: Meaning) -> "InterpreterFunctions":
    return _imported(meaning) if isinstance(meaning, str) else meaning()


@cache
def _imported(meaning: str) -> "InterpreterFunctions":
    """Made once: functions keep nothing between calls but what is the same in all."""
    from xdsl.interpreter import InterpreterFunctions

    module, _, name = meaning.partition(":")
    functions: object = getattr(import_module(module), name)()
    assert isinstance(functions, InterpreterFunctions), meaning
    return functions
