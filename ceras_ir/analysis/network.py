"""The network of a module: its function `main`, and what the user's file calls its ends."""

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.traits import SymbolTable

from ceras_ir.diagnostics import InputError

NAME = "graph.name"


def main_function(module: ModuleOp) -> FuncOp:
    """The network of a module."""
    main = SymbolTable.lookup_symbol(module, "main")
    if not isinstance(main, FuncOp) or not main.body.blocks:
        raise InputError("the module has no function @main with a body")
    return main


def result_values(main: FuncOp) -> tuple[SSAValue, ...]:
    """What the network returns."""
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    return tuple(last.arguments)


def _names(attributes: ArrayAttr[DictionaryAttr] | None, count: int, default: str) -> list[str]:
    names: list[str] = []
    for i in range(count):
        name = None if attributes is None else attributes.data[i].data.get(NAME)
        names.append(name.data if isinstance(name, StringAttr) else f"{default}{i}")
    return names


def input_names(main: FuncOp) -> list[str]:
    """The model's own names of its inputs, in order; `input0` and so on without names."""
    return _names(main.arg_attrs, len(main.body.block.args), "input")


def output_names(main: FuncOp) -> list[str]:
    """The model's own names of its outputs, in order; `output0` and so on without names."""
    return _names(main.res_attrs, len(main.function_type.outputs), "output")
