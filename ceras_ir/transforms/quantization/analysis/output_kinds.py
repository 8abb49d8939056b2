"""
Derive the kind of each output of a network from the graph, and the goal of its signal-to-noise
ratio.

Noise is measured at the last integers before the float operations at the end of a network, for
example before an ArgMax or a sigmoid. The operations after this value show its use.
"""

from collections.abc import Collection, Iterator
from enum import Enum

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import result_values, states_of
from ceras_ir.transforms.quantization_options import DEFAULT_BUDGET, SIGNAL_BUDGET


class OutputKind(Enum):
    """
    The use of an output, such as scores of classes, with the name in messages, the signal-to-noise
    ratio in dB that is good enough, and the share of the modelled time that 16-bit values may add
    on a host to reach it.
    """

    SCORES = "scores of classes", 30.0, DEFAULT_BUDGET
    DETECTIONS = "detections", 30.0, DEFAULT_BUDGET
    PROBABILITIES = "probabilities", 36.0, DEFAULT_BUDGET
    REGRESSION = "regression", 40.0, DEFAULT_BUDGET
    MASK = "mask", 50.0, DEFAULT_BUDGET
    SIGNAL = "image or sound", 50.0, SIGNAL_BUDGET

    @property
    def text(self) -> str:
        """The name of the kind in messages."""
        return self.value[0]

    @property
    def goal(self) -> float:
        """The signal-to-noise ratio in decibels from which more precision is not noticed."""
        return self.value[1]

    @property
    def budget(self) -> float:
        """The share of the modelled time that 16-bit values may add on a host."""
        return self.value[2]


INDEX_BYTES = 8

MAX_REGRESSED = 4
"""The maximum number of elements of a vector without a function that counts as a regression."""


def kind_of(main: FuncOp, value: SSAValue) -> OutputKind:
    """
    Return the use of `value`, from the operations that follow it until the graph outputs:

    1. Selection of candidates (NMS, TopK) follows: detections.
    2. The result has at least half the extents of an input: a mask if ArgMax, softmax or sigmoid
       follows, else an image or sound.
    3. ArgMax or softmax follows: scores of classes. A sigmoid follows: probabilities.
    4. A vector with at most four elements is a regression. Other values, such as logits and boxes,
       count as scores.
    """
    following = list(_following(value))
    functions = {op.function.data for op in following if isinstance(op, graph.UnaryOp)}
    if isinstance(value.owner, graph.UnaryOp):
        functions.add(value.owner.function.data)
    if any(isinstance(op, graph.SuppressOp | graph.TopKOp) for op in following):
        return OutputKind.DETECTIONS
    is_class = any(isinstance(op, graph.ArgOp | graph.SoftmaxOp) for op in following)
    is_class = is_class or isinstance(value.owner, graph.SoftmaxOp)
    is_gate = not functions.isdisjoint({graph.Function.SIGMOID, graph.Function.HARD_SIGMOID})
    if _has_extents_of_input(main, [value, *(op.results[0] for op in following)]):
        return OutputKind.MASK if is_class or is_gate else OutputKind.SIGNAL
    if is_class:
        return OutputKind.SCORES
    if is_gate:
        return OutputKind.PROBABILITIES
    sizes = [extent for extent in graph.shape_of(value) if extent > 1]
    if len(sizes) < 2 and all(extent <= MAX_REGRESSED for extent in sizes):
        return OutputKind.REGRESSION
    return OutputKind.SCORES


def _following(value: SSAValue) -> Iterator[Operation]:
    pending, visited = [value], {value}
    while pending:
        for use in pending.pop().uses:
            for result in use.operation.results:
                if result not in visited:
                    visited.add(result)
                    pending.append(result)
                    yield use.operation


def _has_extents_of_input(main: FuncOp, values: Collection[SSAValue]) -> bool:
    """
    Return whether the result has at least half of the extents of an input. It is a graph output
    among `values`, and the two largest extents count; two vectors must have equal extents. States,
    indices and tiny inputs do not count.
    """
    states = {state.argument for state in states_of(main)}
    inputs = [
        _largest(argument)
        for argument in main.body.block.args
        if argument not in states
        and graph.numpy_dtype(graph.element_of(argument)).itemsize != INDEX_BYTES
        and max(graph.shape_of(argument), default=1) > MAX_REGRESSED
    ]
    results = [_largest(value) for value in result_values(main) if value in values]
    return any(_is_as_large(mine, theirs) for mine in results for theirs in inputs)


def _is_as_large(mine: tuple[int, int], theirs: tuple[int, int]) -> bool:
    if theirs[1] == 1:
        return mine == theirs
    return 2 * mine[0] >= theirs[0] and 2 * mine[1] >= theirs[1]


def _largest(value: SSAValue) -> tuple[int, int]:
    ordered = sorted((1, 1, *graph.shape_of(value)))
    return ordered[-1], ordered[-2]
