"""The network of a module: its function `main`, and what the user's file calls its ends."""

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import SymbolTable
from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import InputError

NAME = "graph.name"
MODEL_TYPE = "graph.model_type"
"""The numpy type that the user's file gives an end of the network, where it is not the value's."""


LABELS = "graph.labels"
"""The names of an output whose numbers stand for text of the user's model: 0 for the first."""


def main_function(module: ModuleOp) -> FuncOp:
    """The network of a module."""
    main = SymbolTable.lookup_symbol(module, "main")
    if not isinstance(main, FuncOp) or not main.body.blocks:
        raise InputError("the module has no function @main with a body")
    if main.body.first_block is not main.body.last_block:
        raise InputError("the function @main has several blocks, and a network is one")
    if not isinstance(main.body.block.last_op, ReturnOp):
        raise InputError("the function @main does not end with func.return")
    return main


def module_of(op: Operation) -> ModuleOp:
    """The module that a network, or an operation of one, is in."""
    module = op.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    return module


def result_values(main: FuncOp) -> tuple[SSAValue, ...]:
    """What the network returns."""
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    return tuple(last.arguments)


def _texts(attributes: ArrayAttr[DictionaryAttr] | None, count: int, key: str) -> list[str | None]:
    """An attribute of every argument or result, None where it is absent."""
    found = [None if attributes is None else attributes.data[i].data.get(key) for i in range(count)]
    return [text.data if isinstance(text, StringAttr) else None for text in found]


def _names(attributes: ArrayAttr[DictionaryAttr] | None, count: int, default: str) -> list[str]:
    names = _texts(attributes, count, NAME)
    return [f"{default}{i}" if name is None else name for i, name in enumerate(names)]


def input_names(main: FuncOp) -> list[str]:
    """The model's own names of its inputs, in order; `input0` and so on without names."""
    return _names(main.arg_attrs, len(main.body.block.args), "input")


def output_names(main: FuncOp) -> list[str]:
    """The model's own names of its outputs, in order; `output0` and so on without names."""
    return _names(main.res_attrs, len(main.function_type.outputs), "output")


def input_model_types(main: FuncOp) -> list[str | None]:
    """The float types of the model's inputs, in order, where they are not those of the values."""
    return _texts(main.arg_attrs, len(main.body.block.args), MODEL_TYPE)


def output_model_types(main: FuncOp) -> list[str | None]:
    """The float types of the model's outputs, in order, where they are not those of the values."""
    return _texts(main.res_attrs, len(main.function_type.outputs), MODEL_TYPE)


def output_labels(main: FuncOp) -> list[tuple[str, ...]]:
    """The names that the numbers of each output stand for; none where they stand for themselves."""
    if main.res_attrs is None:
        return [()] * len(main.function_type.outputs)
    lists = [entries.data.get(LABELS) for entries in main.res_attrs]
    return [
        tuple(text.data for text in texts) if isa(texts, ArrayAttr[StringAttr]) else ()
        for texts in lists
    ]
