"""
Access the network of a module: the function `main`, names of inputs and outputs, states, missing
values.

A state is an argument that is a result of the previous call. `graph.state = "hn"` on the argument
names the result, and the function remains pure. Callers pass the result to the next step; the first
step receives zeros. Both have the same type at each level, so that a quantized state has a single
scale. Missing values are NaN in an input that the network replaces, as imputers and `nan_to_num`
do.

An operation is quantized if it has a quantized form, unless `graph.precision = "f32"` keeps it in
float. A data movement operation is quantized if an operand or a consumer is.
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
from ceras_ir.network.storage import attributes_of, is_kept_in_float, network_values, set_attribute
from ceras_ir.support.diagnostics import InputError, did_you_mean

NAME = "graph.name"
MODEL_TYPE = "graph.model_type"
"""The numpy type of an input or output in the user's model, if the value has another."""
LABELS = "graph.labels"
"""The texts of the user's model that the integers of an output represent, from 0."""


def main_function(module: ModuleOp) -> FuncOp:
    """
    Return the network of a module: the function `main`. Raise `InputError` if it is missing, has
    several blocks or does not end with `func.return`.
    """
    main = SymbolTable.lookup_symbol(module, "main")
    if not isinstance(main, FuncOp) or not main.body.blocks:
        raise InputError("the module has no function @main with a body")
    if main.body.first_block is not main.body.last_block:
        raise InputError("the function @main has several blocks, but a network has one")
    if not isinstance(main.body.block.last_op, ReturnOp):
        raise InputError("the function @main does not end with func.return")
    return main


def module_of(op: Operation) -> ModuleOp:
    """Return the module that contains `op`."""
    module = op.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    return module


def result_values(main: FuncOp) -> tuple[SSAValue, ...]:
    """Return the graph outputs."""
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    return tuple(last.arguments)


def _texts(attributes: ArrayAttr[DictionaryAttr] | None, count: int, key: str) -> list[str | None]:
    found = [None if attributes is None else attributes.data[i].data.get(key) for i in range(count)]
    return [text.data if isinstance(text, StringAttr) else None for text in found]


def _names(attributes: ArrayAttr[DictionaryAttr] | None, count: int, default: str) -> list[str]:
    names = _texts(attributes, count, NAME)
    return [f"{default}{i}" if name is None else name for i, name in enumerate(names)]


def input_names(main: FuncOp) -> list[str]:
    """
    Return the names of graph inputs in the model; `input0`, `input1`, ... for inputs without a
    name.
    """
    return _names(main.arg_attrs, len(main.body.block.args), "input")


def output_names(main: FuncOp) -> list[str]:
    """
    Return the names of graph outputs in the model; `output0`, `output1`, ... for outputs without a
    name.
    """
    return _names(main.res_attrs, len(main.function_type.outputs), "output")


def input_model_types(main: FuncOp) -> list[str | None]:
    """
    Return, for each graph input, the name of the type in the model, such as `float64`, or `None` if
    the compiled input has this type.
    """
    return _texts(main.arg_attrs, len(main.body.block.args), MODEL_TYPE)


def output_model_types(main: FuncOp) -> list[str | None]:
    """
    Return, for each graph output, the name of the type in the model, such as `float64`, or `None`
    if the compiled output has this type.
    """
    return _texts(main.res_attrs, len(main.function_type.outputs), MODEL_TYPE)


def output_labels(main: FuncOp) -> list[tuple[str, ...]]:
    """
    Return, for each graph output, the texts that the integers 0, 1, ... represent (class names in
    the model), or an empty tuple.
    """
    if main.res_attrs is None:
        return [()] * len(main.function_type.outputs)
    lists = [entries.data.get(LABELS) for entries in main.res_attrs]
    return [
        tuple(text.data for text in texts) if isa(texts, ArrayAttr[StringAttr]) else ()
        for texts in lists
    ]


STATE = "graph.state"


class State(NamedTuple):
    """
    A value that a network keeps from call to call: a graph input and the graph output that replaces
    it.
    """

    name: str
    """The name of the argument."""
    argument: BlockArgument
    result_name: str
    position: int
    """The index of the result."""
    result: SSAValue


def states_of(main: FuncOp) -> list[State]:
    """
    Return the states of a network (inputs that are outputs of the previous call) in the order of
    arguments.
    """
    names, results = output_names(main), result_values(main)
    found: list[State] = []
    for name, argument in zip(input_names(main), main.body.block.args, strict=True):
        if (result := _result_of(argument)) is not None and result in names:
            position = names.index(result)
            found.append(State(name, argument, result, position, results[position]))
    return found


def _result_of(argument: BlockArgument) -> str | None:
    found = attributes_of(argument).get(STATE)
    return found.data if isinstance(found, StringAttr) else None


def state_refusals(main: FuncOp) -> Iterator[str]:
    """
    Yield an error message for each wrong declaration of a state: the output is missing, belongs to
    another state, or has another type than the input.
    """
    names, used = output_names(main), set[str]()
    for name, argument in zip(input_names(main), main.body.block.args, strict=True):
        if (result := _result_of(argument)) is None:
            continue
        if result not in names:
            yield f"state '{name}': there is no result '{result}'{did_you_mean(result, names)}"
        elif result in used:
            yield (
                f"state '{name}': the result '{result}' already belongs to a state; add an "
                "output with an Identity of it to the model"
            )
        elif (kind := main.function_type.outputs.data[names.index(result)]) != argument.type:
            yield (
                f"state '{name}' is {argument.type}, but the result '{result}' is {kind}: both "
                "must have the same shape and type"
            )
        used.add(result)


def declare_states(module: ModuleOp, pairs: Mapping[str, str]) -> None:
    """
    Declare graph inputs as states. `pairs` maps the name of an input to the name of the output that
    it receives from the previous call. Raise `InputError` for wrong names or types.
    """
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
    """
    Return the tensor of a state before the first call: the real value 0, stored as the zero point.
    """
    element = quantized_element(state.argument)
    zero = 0 if element is None else element.zero_point
    return np.full(shape_of(state.argument), zero, numpy_dtype(element_of(state.argument)))


class ReplacedNan(NamedTuple):
    """A value, and the value `by` that replaces it where it is NaN."""

    value: SSAValue
    by: SSAValue


def replaced_nan(op: graph.SelectOp) -> ReplacedNan | None:
    """
    If `op` is `where(isnan(x), y, x)`, return `x` and `y`; otherwise return `None`. The condition
    may be negated: `where(not isnan(x), x, y)`.
    """
    condition, kept, other = op.condition.owner, op.lhs, op.rhs
    if isinstance(condition, graph.BinaryOp) and condition.function is Binary.XOR:
        truth = graph.constant_array(condition.rhs)
        if truth is None or not truth.all():
            return None
        condition, kept, other = condition.lhs.owner, op.rhs, op.lhs
    if not isinstance(condition, graph.CompareOp) or condition.function is not Compare.EQUAL:
        return None
    return ReplacedNan(kept, other) if condition.lhs is condition.rhs is kept else None


def inputs_with_missing_values(main: FuncOp) -> frozenset[str]:
    """
    Return the names of float inputs in which NaN can mark a missing value, because NaN cannot reach
    a graph output.

    On each path from such an input, a selection replaces NaN, or a comparison or tree ensemble
    consumes the value. A tree ensemble has a branch for NaN. Only data movement and elementwise
    operations may precede.
    """
    sources: dict[SSAValue, frozenset[str]] = {
        value: frozenset({name})
        for name, value in zip(input_names(main), main.body.block.args, strict=True)
        if isinstance(graph.element_of(value), AnyFloat)
    }
    found = frozenset[str]().union(*sources.values())
    for op in main.body.block.ops:
        missing = _sources(op, sources)
        if not missing or isinstance(op, graph.CompareOp | graph.TreeEnsembleOp):
            continue
        if isinstance(op, graph.UnaryOp | graph.BinaryOp | graph.SelectOp) or keeps_scale(op):
            sources[op.results[0]] = missing
        else:
            found -= missing
    return found


def _sources(op: Operation, sources: Mapping[SSAValue, frozenset[str]]) -> frozenset[str]:
    read = set(op.operands)
    if isinstance(op, graph.SelectOp) and (replaced := replaced_nan(op)) is not None:
        read = {replaced.by}
    return frozenset[str]().union(*(sources.get(value, frozenset()) for value in read))


SNAPPED = "graph.snapped"
"""Marks a function that `snap-scales` converted back to float, to be quantized again."""


def is_alias(op: Operation | Block) -> bool:
    """
    Return whether the result has the elements of a single operand in another order or shape, and
    possibly zeros as padding.
    """
    return isinstance(op, GraphOperation) and op.is_alias


def keeps_scale(op: Operation | Block) -> bool:
    """
    Return whether operands and result of `op` must have the same scale, as in a reshape or a
    maximum pooling.
    """
    return isinstance(op, GraphOperation) and op.keeps_scale


def is_join(op: Operation) -> bool:
    """
    Return whether an operation such as a concatenation moves elements of several operands, each of
    which can be requantized to the scale of the result.
    """
    return keeps_scale(op) and len(data_operands(op)) > 1


def has_quantized_form(op: Operation) -> bool:
    """
    Return whether `op` is arithmetic with a quantized form, in which the result has a separate
    scale.
    """
    return isinstance(op, GraphOperation) and op.rescales


def uses_after_moves(value: SSAValue, *, joined: bool) -> Iterator[Use]:
    """
    Yield the uses of `value`. A use by a data movement operation is replaced by the uses of the
    result of that operation.

    A data movement operation with several operands, such as a concatenation, is replaced only if
    `joined` is true; otherwise the use is yielded.
    """
    pending, visited = [value], {value}
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if not keeps_scale(op) or (is_join(op) and not joined):
                yield use
            elif op.results[0] not in visited:
                visited.add(op.results[0])
                pending.append(op.results[0])


def is_aligned_sum(op: Operation) -> bool:
    """
    Return whether `op` adds or subtracts two computed values of equal shapes. Accelerators compute
    only such sums; the host broadcasts.
    """
    if not isinstance(op, graph.BinaryOp) or op.function not in (Binary.ADD, Binary.SUB):
        return False
    is_computed = not any(isinstance(v.owner, graph.ConstantOp) for v in (op.lhs, op.rhs))
    return is_computed and shape_of(op.lhs) == shape_of(op.rhs)


def is_copy(op: Operation) -> bool:
    """
    Return whether `op` is a clip without bounds, which copies the operand. Quantization can give
    the copy another scale or width.
    """
    return isinstance(op, graph.UnaryOp) and op.function.clip_range == (-inf, inf)


def data_operands(op: Operation) -> Sequence[SSAValue]:
    """Return the operands that are quantized as activations, not as weights or biases."""
    return op.data_operands if isinstance(op, GraphOperation) else op.operands


def quantized_operations(main: FuncOp) -> dict[Operation, None]:
    """
    Return the operations of a float network that will be quantized, in order; the values of the
    dictionary are `None`. They are the arithmetic operations with a quantized form, and data
    movement operations next to a quantized operation, except operations that are kept in float.
    """
    ops = [op for op in main.body.block.ops if not is_kept_in_float(op)]
    chosen = {op: None for op in ops if has_quantized_form(op)}
    moves = [op for op in ops if keeps_scale(op)]
    count = -1
    while count != len(chosen):
        count = len(chosen)
        # A pass in each direction propagates the choice along a chain.
        for op in (*moves, *reversed(moves)):
            consumers = (use.operation for use in op.results[0].uses)
            producers = (value.owner for value in data_operands(op))
            if any(neighbor in chosen for neighbor in (*producers, *consumers)):
                chosen[op] = None
    return {op: None for op in ops if op in chosen}


def stored_in_integers(main: FuncOp) -> Callable[[SSAValue], bool]:
    """
    Return a predicate of values of a float network. It is true if a quantized operation will define
    or consume the value.
    """
    chosen = quantized_operations(main)
    return lambda v: v.owner in chosen or any(use.operation in chosen for use in v.uses)


def quantized_layers(main: FuncOp) -> list[graph.LinearOperation]:
    """Return the convolutions and matrix products of a float network that will be quantized."""
    return [op for op in quantized_operations(main) if isinstance(op, graph.LinearOperation)]


def observed_values(main: FuncOp) -> list[SSAValue]:
    """
    Return the tensors for which calibration must observe a range: arguments and results of
    operations.

    Constants are left out because their elements are known. The result of an alias, such as a
    reshape, is left out because it is stored like the operand.
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
    return isinstance(op, GraphOperation) and op.is_alias and not is_kept_in_float(op)


def values_after_layers(main: FuncOp) -> set[SSAValue]:
    """
    Return the results of convolutions and matrix products, and all values that depend on them.
    """
    found: set[SSAValue] = set()
    for op in main.body.block.ops:
        if isinstance(op, graph.LinearOperation) or not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def is_quantized(main: FuncOp) -> bool:
    """
    Return whether any value of the network has a quantized type. Return False after `snap-scales`,
    which converts the network back to float so that it is quantized again.
    """
    return SNAPPED not in main.attributes and any(
        isinstance(value.type, TensorType) and graph.quantized_element(value) is not None
        for value in network_values(main.body.block)
    )
