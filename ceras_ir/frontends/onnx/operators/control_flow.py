"""
Control flow: a network is one list of operations, so branches stand side by side and the steps of
loops one after the other. Loops too long for that are one operation, which calls a function for
every step. Weights of a body are one constant, whatever the number of steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from ceras_ir.dialects.graph import (
    CallingOperation,
    LinearOperation,
    RecurrenceOp,
    constant_array,
)
from ceras_ir.frontends.onnx.calls import Body, Branches, emit_branch, emit_loop, outlined
from ceras_ir.frontends.onnx.conditions import (
    V,
    both,
    check_alike,
    known_condition,
    results_of_both,
    selected,
)
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import MalformedError, Node
from ceras_ir.frontends.onnx.operators.scan import (
    MAX_STEPS,
    all_outputs,
    read_outputs,
    stacked,
)
from ceras_ir.frontends.onnx.quantized_constant import QuantizedConstant
from ceras_ir.frontends.onnx.recurrent_loops import RecurrentLoop
from ceras_ir.frontends.onnx.registry import WHERE_COMPUTED, constant_operands, operator
from ceras_ir.frontends.onnx.tensors import text
from ceras_ir.frontends.onnx.values import Constant, Value
from ceras_ir.support.diagnostics import InputError, UnsupportedError

MAX_ENDLESS_STEPS = (1 << 31) - 1
"""Of a loop that nothing ends earlier."""

MAX_TRIPS = (1 << 63) - 1
"""Of one that a condition ends, which exporters write for any number."""

BRANCHES = {"then": "then_branch", "else": "else_branch"}
"""The attributes of an If that are its branches."""

NUMBER_OF_OUTPUTS = (
    "outputs of every step, of which a computed condition decides the number; carry them through "
    "the loop instead"
)

constant_operands({"Loop": [0]}, "the trip count must be a constant", WHERE_COMPUTED)


@operator("If")
def if_(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    The branch that a constant condition takes; of a computed one both, of which the condition
    selects every result. Only one is computed where one of them has a loop that is not unrolled,
    and in such a loop. Both must have results of one shape and type.
    """
    condition = known_condition(node, emitter, emitter.value(0))
    node.ignore(*BRANCHES.values())
    if isinstance(condition, bool):
        return emitter.subgraph(BRANCHES["then" if condition else "else"], {})
    if emitter.is_called or node.has_loops():
        return _called(node, emitter, condition)
    then, other = (_attempt(emitter, name, lambda value: value) for name in BRANCHES)
    branches = results_of_both(node, then, other)
    return [selected(node, emitter, condition, a, b) for a, b in zip(*branches, strict=True)]


def _attempt(
    emitter: Emitter, branch: str, convert: Callable[[Value], V]
) -> Sequence[V] | InputError:
    """The converted results of a branch, or what is wrong in it for these shapes and values."""
    try:
        return [convert(value) for value in emitter.subgraph(BRANCHES[branch], {})]
    except MalformedError:
        raise
    except InputError as error:
        if not error.findings:
            raise
        return error


def _called(node: Node, emitter: Emitter, condition: Value) -> Sequence[Value]:
    """
    The results of the branch that is taken, which alone is computed if one of them costs
    something. Outside of loops that is a loop: whatever else there is can be quantized and run on
    every target, if both branches are in the list.
    """
    costly = (CallingOperation, LinearOperation, RecurrenceOp)
    kinds = costly if emitter.is_called else (CallingOperation,)
    outer, branches = emitter.block, None
    with emitter.trial() as first:
        then = _attempt(emitter, "then", emitter.materialize)
        with emitter.trial() as second:
            a, b = results_of_both(node, then, _attempt(emitter, "else", emitter.materialize))
            for x, y in zip(a, b, strict=True):
                check_alike(node, x, y)
            ops = [*first.ops, *second.ops]
            if any(isinstance(op, kinds) for op in ops):
                branches = Branches.of((first, a), (second, b))
            else:
                _move(ops, outer)
    if branches is None:
        return [selected(node, emitter, condition, x, y) for x, y in zip(a, b, strict=True)]
    return emit_branch(emitter, emitter.materialize(emitter.reshaped(condition, ())), branches)


def _move(ops: Sequence[Operation], to: Block) -> None:
    """Keep operations that were emitted on trial: at the end of a block."""
    for op in ops:
        op.detach()
        to.add_op(op)


@operator("Loop")
def loop(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    The body as often as a constant trip count says, or until its condition is false. A recurrent
    layer if it is the cell of one; else unrolled, or with one body if there are more than 1024
    steps, or it is not known how many.
    """
    found = _Loop.of(node, emitter)
    states = len(found.carried)
    results = _results(found)
    return [*results[:states], *all_outputs(results[states:], found.read, found.scans)]


def _results(found: "_Loop") -> Sequence[Value]:
    """What is carried at the end, and the outputs of every step that are read."""
    node, emitter = found.node, found.emitter
    is_short = found.trips is not None and found.trips <= MAX_STEPS
    body, refusal = None, None
    # No cell has loops, and each of nested ones would come twice.
    if not is_short or not node.has_loops():
        try:
            body = found.body()
        except (InputError, UnsupportedError) as error:
            refusal = error
    if body is not None and (results := found.as_layer(body)) is not None:
        return results
    if is_short:
        results = found.unrolled()
        assert results is not None
        return results
    # Within a body nothing is gained by unrolling, and each of nested loops would come twice.
    if body is not None and (emitter.is_called or not found.can_end_early(body)):
        return found.with_body(body)
    # What ends it may be computed of constants alone.
    outer = emitter.block
    with emitter.trial() as block:
        if (results := found.unrolled()) is not None:
            _move(list(block.ops), outer)
            return results
    if body is None:
        assert refusal is not None
        raise refusal
    return found.with_body(body)


@dataclass(frozen=True)
class _Loop:
    """The operands of a node `Loop`."""

    node: Node
    emitter: Emitter
    names: Sequence[str]
    """Of the inputs of the body: step, condition, and what is carried."""
    trips: int | None
    going: bool | Value
    """The condition of the first step."""
    carried: Sequence[Value]
    scans: int
    """How many outputs have an element of every step."""
    read: Sequence[int]
    """Which of those something reads; others are not made."""

    @classmethod
    def of(cls, node: Node, emitter: Emitter) -> "_Loop":
        body = node.subgraph("body")
        names = [text(value.name) for value in body.input]
        carried = [emitter.value(i) for i in range(2, len(node.inputs))]
        if len(names) != len(carried) + 2:
            raise node.wrong(f"a body of {len(names)} inputs, expected {len(carried) + 2}")
        if (scans := len(body.output) - 1 - len(carried)) < 0:
            raise node.wrong(
                f"a body of {len(body.output)} outputs, expected {len(carried) + 1} or more"
            )
        read = read_outputs(node, len(carried), scans)
        trips = int(emitter.array(0).reshape(-1)[0]) if node.has_input(0) else None
        going: bool | Value = True
        if node.has_input(1):
            going = known_condition(node, emitter, emitter.value(1))
        return cls(node, emitter, names, trips, going, carried, scans, read)

    def step(
        self, number: Value, going: bool | Value, carried: Sequence[Value]
    ) -> tuple[bool | Value, Sequence[Value]]:
        """Whether there is another step, and the other outputs of the body that are read."""
        taken = going if isinstance(going, Value) else Constant.of(self.names[1], np.array(going))
        bound = dict(zip(self.names, (number, taken, *carried), strict=True))
        again, *made = self.emitter.subgraph("body", bound)
        states = len(self.carried)
        results = [*made[:states], *(made[states + i] for i in self.read)]
        return known_condition(self.node, self.emitter, again), results

    def unrolled(self) -> Sequence[Value] | None:
        """
        One step after the other. Where a condition is computed, the steps behind its end are
        computed too and not taken. None where the number of steps is not known to be `MAX_STEPS`
        or less.
        """
        node, emitter, going, carried = self.node, self.emitter, self.going, self.carried
        scanned: list[list[Value]] = [[] for _ in self.read]
        bounded = self.trips is not None and self.trips <= MAX_STEPS
        step = 0
        while going is not False and (self.trips is None or step < self.trips):
            if step >= MAX_STEPS or (going is not True and not bounded):
                return None
            number = Constant.of(self.names[0], np.array(step, np.int64))
            again, results = self.step(number, going, carried)
            new, outputs = results[: len(carried)], results[len(carried) :]
            if going is not True:
                if scanned:
                    raise node.unsupported(NUMBER_OF_OUTPUTS)
                pairs = zip(new, carried, strict=True)
                new = [selected(node, emitter, going, a, b) for a, b in pairs]
            carried = new
            for values, value in zip(scanned, outputs, strict=True):
                values.append(value)
            going = both(emitter, going, again)
            step += 1
        return [*carried, *(stacked(node, emitter, values, 0) for values in scanned)]

    @property
    def changing(self) -> Sequence[int]:
        """Which of the carried values a body changes: exporters carry weights too."""
        ends = [text(value.name) for value in self.node.subgraph("body").output]
        found = [
            i
            for i, value in enumerate(self.carried)
            if self.names[i + 2] != ends[i + 1] or isinstance(value, QuantizedConstant)
        ]
        return found or range(len(self.carried))

    def body(self) -> Body:
        """
        A step, which first returns whether there is another. Where it runs, it may. It takes and
        returns the carried values that change.
        """
        changing = self.changing

        def step(
            number: SSAValue, carried: Sequence[SSAValue], elements: Sequence[SSAValue]
        ) -> list[Value]:
            again, results = self.step(number, True, self.merged(carried))
            if isinstance(again, bool):
                again = Constant.of(self.names[1], np.array(again))
            changed = [results[i] for i in changing]
            return [self.emitter.reshaped(again, ()), *changed, *results[len(self.carried) :]]

        carried = [self.emitter.materialize(self.carried[i]) for i in changing]
        return outlined(self.emitter, carried, [], step)

    def merged(self, changed: Sequence[Value]) -> Sequence[Value]:
        """All carried values, of those that change; what else there is comes behind them."""
        values = list(self.carried)
        for i, value in zip(self.changing, changed, strict=False):
            values[i] = value
        return [*values, *changed[len(self.changing) :]]

    def as_layer(self, body: Body) -> Sequence[Value] | None:
        """The results of a recurrent layer, if the loop is one."""
        carried = [self.carried[i] for i in self.changing]
        if self.going is not True:
            return None
        unread = [at for at, i in enumerate(self.changing) if not self.node.has_output(i)]
        layer = RecurrentLoop(
            self.emitter, body, carried, trips=self.trips, has_condition=True, unread=unread
        )
        results = layer.results()
        return None if results is None else self.merged(results)

    def can_end_early(self, body: Body) -> bool:
        """Whether a condition decides how many steps there are."""
        again = constant_array(body.results[0])
        return self.going is not True or again is None or not again.item()

    def with_body(self, body: Body) -> Sequence[Value]:
        """The loop that calls `body`."""
        node, emitter = self.node, self.emitter
        steps = MAX_TRIPS if self.trips is None else min(self.trips, MAX_TRIPS)
        going: SSAValue | None = None
        if self.can_end_early(body):
            if self.read:
                raise node.unsupported(NUMBER_OF_OUTPUTS)
            given = self.going
            if isinstance(given, bool):
                given = emitter.constant(np.array(given), "condition")
            going = emitter.materialize(emitter.reshaped(given, ()))
        elif self.trips is None or self.trips > MAX_ENDLESS_STEPS:
            raise node.unsupported(
                f"more than {MAX_ENDLESS_STEPS:,} steps and no condition that ends them; export it "
                "with a smaller trip count"
            )
        else:
            body = body.without_first_result()
        if len(body.results) == (going is not None):
            raise node.wrong("nothing is carried, and nothing is an output")
        carried = [emitter.materialize(self.carried[i]) for i in self.changing]
        backwards = [0] * len(self.read)
        return self.merged(
            emit_loop(emitter, body, steps, carried, going=going, backwards=backwards)
        )
