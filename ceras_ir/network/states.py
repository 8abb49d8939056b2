"""
States: arguments of a network that are results of its previous call.

The function stays pure: a state is an argument and a result like any others, and
`graph.state = "hn"` on the argument names the result. Who calls the function step by step keeps the
one for the other; the first step reads zeros. Both have one type at every level, so that a state in
integers has one scale.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from ceras_ir.dialects.graph import element_of, numpy_dtype, quantized_element, shape_of
from ceras_ir.network.function import input_names, main_function, output_names, result_values
from ceras_ir.network.ranges import attributes_of, set_attribute
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.suggestions import did_you_mean

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
