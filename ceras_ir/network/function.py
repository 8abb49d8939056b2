"""
The network of a module: its function `main`, the names of its ends, states and missing values.

States are arguments of a network that are results of its previous call. The function stays pure: a
state is an argument and a result like any others, and `graph.state = "hn"` on the argument names
the result. Callers pass the result to the next step; the first step reads zeros. Both have one type
at every level, so that a state in integers has one scale. Missing values are NaN in an input that
the network replaces, as imputers and `nan_to_num` do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use
from xdsl.traits import SymbolTable
from xdsl.utils.hints import isa

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import (
    Binary,
    Compare,
    element_of,
    numpy_dtype,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.graph.operation import GraphOperation, is_plain
from ceras_ir.network.storage import attributes_of, network_values, set_attribute, stays_float
from ceras_ir.support.diagnostics import InputError, did_you_mean

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


STATE = "graph.state"


class State(NamedTuple):
    """One value that stays from call to call."""

    name: str
    """Of the argument."""
    argument: BlockArgument
    result_name: str
    position: int
    """Of the result among all results."""
    result: SSAValue


def states_of(main: FuncOp) -> list[State]:
    """The states of a network, in the order of its arguments."""
    return list(_states(main))


def _states(main: FuncOp) -> Iterator[State]:
    names, results = output_names(main), result_values(main)
    for name, argument in zip(input_names(main), main.body.block.args, strict=True):
        if (result := _result_of(argument)) is not None and result in names:
            position = names.index(result)
            yield State(name, argument, result, position, results[position])


def _result_of(argument: BlockArgument) -> str | None:
    found = attributes_of(argument).get(STATE)
    return found.data if isinstance(found, StringAttr) else None


def state_refusals(main: FuncOp) -> Iterator[str]:
    """What is wrong with the states of a function."""
    names, taken = output_names(main), set[str]()
    for name, argument in zip(input_names(main), main.body.block.args, strict=True):
        if (result := _result_of(argument)) is None:
            continue
        if result not in names:
            yield f"state '{name}': there is no result '{result}'{did_you_mean(result, names)}"
        elif result in taken:
            yield (
                f"state '{name}': the result '{result}' is a state's already; give the model "
                "another output for it, an Identity of this one"
            )
        elif (kind := main.function_type.outputs.data[names.index(result)]) != argument.type:
            yield (
                f"state '{name}' is {argument.type}, and the result '{result}' is {kind}: a state "
                "has one shape and type"
            )
        taken.add(result)


def declare_states(module: ModuleOp, pairs: Mapping[str, str]) -> None:
    """Make inputs states: `pairs` has the output of the previous call that each of them is."""
    if not pairs:
        return
    main = main_function(module)
    arguments = dict(zip(input_names(main), main.body.block.args, strict=True))
    for name, result in pairs.items():
        if name not in arguments:
            hint = did_you_mean(name, arguments) or f"; there are {', '.join(arguments)}"
            raise InputError(f"--state {name}={result}: there is no input '{name}'{hint}")
        set_attribute(arguments[name], STATE, StringAttr(result))
    for refusal in state_refusals(main):
        raise InputError(refusal)


def initial_state(state: State) -> NDArray[np.generic]:
    """What the first call reads: zeros, as they are stored."""
    element = quantized_element(state.argument)
    zero = 0 if element is None else element.zero_point
    return np.full(shape_of(state.argument), zero, numpy_dtype(element_of(state.argument)))


class Replaced(NamedTuple):
    """A value, and what is taken in place of its NaN."""

    value: SSAValue
    by: SSAValue


def replaced_nan(op: graph.SelectOp) -> Replaced | None:
    """What `where(isnan(x), y, x)` replaces, however its condition is turned."""
    condition, kept, other = op.condition.owner, op.lhs, op.rhs
    if isinstance(condition, graph.BinaryOp) and condition.function is Binary.XOR:
        truth = graph.constant_array(condition.rhs)
        if truth is None or not truth.all():
            return None
        condition, kept, other = condition.lhs.owner, op.rhs, op.lhs
    if not isinstance(condition, graph.CompareOp) or condition.function is not Compare.EQUAL:
        return None
    return Replaced(kept, other) if condition.lhs is condition.rhs is kept else None


def inputs_that_may_lack(main: FuncOp) -> frozenset[str]:
    """
    The names of the inputs whose NaN reach no result: on every way from them something else is
    chosen where they are NaN, or a forest reads them, which has a branch for them. Between the
    input and the choice there may be moves and functions of single elements.
    """
    sources: dict[SSAValue, frozenset[str]] = {
        value: frozenset({name})
        for name, value in zip(input_names(main), main.body.block.args, strict=True)
        if isinstance(graph.element_of(value), AnyFloat)
    }
    found = frozenset[str]().union(*sources.values())
    for op in main.body.block.ops:
        lacking = _sources(op, sources)
        if not lacking or isinstance(op, graph.CompareOp | graph.TreeEnsembleOp):
            continue
        if isinstance(op, graph.UnaryOp | graph.BinaryOp | graph.SelectOp) or keeps_scale(op):
            sources[op.results[0]] = lacking
        else:
            found -= lacking
    return found


def _sources(op: Operation, sources: Mapping[SSAValue, frozenset[str]]) -> frozenset[str]:
    """The inputs whose NaN may be in what an operation reads."""
    read = set(op.operands)
    if isinstance(op, graph.SelectOp) and (replaced := replaced_nan(op)) is not None:
        read = {replaced.by}
    return frozenset[str]().union(*(sources.get(value, frozenset()) for value in read))


SNAPPED = "graph.snapped"
"""Attribute of a function whose inside `snap-scales` made float again, to be quantized."""


def is_alias(op: Operation | Block) -> bool:
    """Whether the result has elements of the one operand, in other places, and zeros."""
    return isinstance(op, GraphOperation) and op.is_alias


def keeps_scale(op: Operation | Block) -> bool:
    """Whether operands and result must have one scale, because elements are only moved."""
    return isinstance(op, GraphOperation) and op.keeps_scale


def joins(op: Operation) -> bool:
    """Whether elements of several operands are moved, each of which can be rescaled before."""
    return keeps_scale(op) and len(data_operands(op)) > 1


def computes(op: Operation) -> bool:
    """Whether `op` has a quantized form that rescales its result."""
    return isinstance(op, GraphOperation) and op.rescales


def uses_behind_moves(value: SSAValue, *, joined: bool) -> Iterator[Use]:
    """
    The uses of a value, and of what only moves it instead of its own: of what joins it with others
    too, if `joined`.
    """
    left, seen = [value], {value}
    while left:
        for use in left.pop().uses:
            op = use.operation
            if not keeps_scale(op) or (joins(op) and not joined):
                yield use
            elif op.results[0] not in seen:
                seen.add(op.results[0])
                left.append(op.results[0])


def is_copy(op: Operation) -> bool:
    """Whether an operation is there to store its operand in another way, a clip without bounds."""
    return isinstance(op, graph.UnaryOp) and op.function.clip_range == (-inf, inf)


def data_operands(op: Operation) -> Sequence[SSAValue]:
    """The operands that are quantized like activations: all but constant weights and biases."""
    return op.data_operands if isinstance(op, GraphOperation) else op.operands


def quantized_operations(main: FuncOp) -> dict[Operation, None]:
    """
    The operations of a float network that become quantized, in order: those that compute,
    and those that move elements which come from a quantized operation or go to one.
    """
    ops = [op for op in main.body.block.ops if not stays_float(op)]
    chosen = {op: None for op in ops if computes(op)}
    movers = [op for op in ops if keeps_scale(op)]
    count = -1
    while count != len(chosen):
        count = len(chosen)
        # Once with and once against the order carries the choice along a whole chain.
        for op in (*movers, *reversed(movers)):
            readers = (use.operation for use in op.results[0].uses)
            moved = data_operands(op)
            if any(v.owner in chosen for v in moved) or any(r in chosen for r in readers):
                chosen[op] = None
    return {op: None for op in ops if op in chosen}


def stored_in_integers(main: FuncOp) -> Callable[[SSAValue], bool]:
    """Whether a value of a float network becomes integers: some operation makes or reads it so."""
    chosen = quantized_operations(main)
    return lambda v: v.owner in chosen or any(use.operation in chosen for use in v.uses)


def quantized_layers(main: FuncOp) -> list[graph.LinearOperation]:
    """Those of them that are convolutions and matrix products."""
    return [op for op in quantized_operations(main) if isinstance(op, graph.LinearOperation)]


def observed_values(main: FuncOp) -> list[SSAValue]:
    """
    The values of the network that need a range: arguments and results of operations, but for
    constants, which are known, and for values that are another one in another order, as that one
    is stored.
    """
    return [
        value
        for value in network_values(main.body.block)
        if isinstance(value.type, TensorType)
        and not is_plain(value)
        and not isinstance(value.owner, graph.ConstantOp)
        and not _is_stored_as_operand(value.owner)
    ]


def _is_stored_as_operand(op: Operation | Block) -> bool:
    return isinstance(op, GraphOperation) and op.is_alias and not stays_float(op)


def behind_layers(main: FuncOp) -> set[SSAValue]:
    """What layers make, and what is made of that."""
    found: set[SSAValue] = set()
    for op in main.body.block.ops:
        if isinstance(op, graph.LinearOperation) or not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def is_quantized(main: FuncOp) -> bool:
    """
    Whether some value of the network is quantized already, arguments and results of one whose
    scales were snapped apart.
    """
    return SNAPPED not in main.attributes and any(
        isinstance(value.type, TensorType) and graph.quantized_element(value) is not None
        for value in network_values(main.body.block)
    )
