"""
Assign a device to each operation with a reason: the pass `place`.

A minimum cut of a graph yields the placement with the shortest modelled time. The pass `explain`
prints the placement. The pass `check-operations` refuses operations that a target does not support,
before the calibration for the target.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects import mem
from ceras_ir.dialects.mem import COST, DEVICE, REASON
from ceras_ir.network.function import (
    has_quantized_form,
    is_quantized,
    keeps_scale,
    main_function,
    module_of,
    result_values,
    states_of,
)
from ceras_ir.support.diagnostics import (
    Finding,
    InputError,
    UnsupportedError,
    UsageError,
    did_you_mean,
    node_name,
    node_names,
)
from ceras_ir.support.options import inherited
from ceras_ir.targets.capabilities import Accelerator, Cost
from ceras_ir.targets.definitions import require_device
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets, find_target
from ceras_ir.targets.shared_options import (
    BoardOptions,
    ScheduleJobsOptions,
    TargetNameOptions,
)
from ceras_ir.transforms.memory.liveness import steps
from ceras_ir.transforms.pass_kinds import NetworkPass

SOURCE_NODE, SINK_NODE = 0, 1
"""The indices of source and sink of a flow graph."""
INFINITE = 1 << 60


class FlowGraph:
    """
    A flow network from a source to a sink. Capacities are integers, so that the minimum cut is
    equal on all machines.
    """

    def __init__(self) -> None:
        # The edges of each node; edge e ^ 1 is the reverse of edge e.
        self._edges: list[list[int]] = [[], []]
        self._targets: list[int] = []
        self._capacities: list[int] = []

    def add_node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int) -> None:
        for a, b, limit in ((start, end, capacity), (end, start, 0)):
            self._edges[a].append(len(self._targets))
            self._targets.append(b)
            self._capacities.append(limit)

    def cut(self) -> tuple[int, set[int]]:
        """
        Return the capacity of the minimum cut, and the nodes on the side of the source (Dinic's
        algorithm).
        """
        total = 0
        while SINK_NODE in (levels := self._levels()):
            used = [0] * len(self._edges)
            while flow := self._augment(levels, used):
                total += flow
        return total, set(self._levels())

    def _levels(self) -> dict[int, int]:
        # The distance from the source along edges with remaining capacity.
        levels = {SOURCE_NODE: 0}
        queue = deque([SOURCE_NODE])
        while queue:
            node = queue.popleft()
            for edge in self._edges[node]:
                target = self._targets[edge]
                if self._capacities[edge] and target not in levels:
                    levels[target] = levels[node] + 1
                    queue.append(target)
        return levels

    def _augment(self, levels: dict[int, int], used: list[int]) -> int:
        # Send flow along a shortest path; 0 if no path remains.
        path: list[int] = []
        node = SOURCE_NODE
        while node != SINK_NODE:
            edges = self._edges[node]
            while used[node] < len(edges):
                edge = edges[used[node]]
                target = self._targets[edge]
                if self._capacities[edge] and levels.get(target) == levels[node] + 1:
                    break
                used[node] += 1
            else:
                if node == SOURCE_NODE:
                    return 0
                # A dead end: the predecessor tries the next edge.
                node = self._targets[path.pop() ^ 1]
                used[node] += 1
                continue
            path.append(edge)
            node = target
        flow = min(self._capacities[edge] for edge in path)
        for edge in path:
            self._capacities[edge] -= flow
            self._capacities[edge ^ 1] += flow
        return flow


NANOSECONDS_PER_MICROSECOND = 1000


def cheapest(
    main: FuncOp,
    costs: Mapping[Operation, Cost],
    pins: Mapping[Operation, bool],
    price_of: Callable[[SSAValue], float],
    host_operands: Callable[[Operation], Sequence[int]] = lambda op: (),
) -> tuple[float, set[Operation]]:
    """
    Return the shortest modelled time of an inference in microseconds, and the operations that run
    on the accelerator in it. A minimum cut finds it, in which the side of the source is the
    accelerator.

    `costs` has the time of each operation on each device, and `price_of` is the time to transfer a
    value. A value is transferred at most a single time in each direction. `pins` fixes the device
    of operations (true: the accelerator). `host_operands` returns the indices of operands that the
    CPU uses in any case. Graph inputs and outputs are on the CPU.
    """
    graph = FlowGraph()
    nodes = {op: graph.add_node() for op in steps(main)}
    for op, node in nodes.items():
        cost = costs[op]
        graph.add_edge(
            node, SINK_NODE, INFINITE if cost.accelerator is None else _ns(cost.accelerator)
        )
        graph.add_edge(SOURCE_NODE, node, _ns(cost.cpu))
        if op in pins:
            edge = (SOURCE_NODE, node) if pins[op] else (node, SINK_NODE)
            graph.add_edge(*edge, INFINITE)
    returned = set(result_values(main))
    for value in [*main.body.block.args, *(v for op in nodes for v in op.results)]:
        producer = nodes[value.owner] if isinstance(value.owner, Operation) else SINK_NODE
        consumers = sorted(
            {
                SINK_NODE if use.index in host_operands(use.operation) else nodes[use.operation]
                for use in value.uses
                if use.operation in nodes
            }
        )
        if value in returned:
            consumers.append(SINK_NODE)
        price = _ns(price_of(value))
        to_cpu, to_accelerator = graph.add_node(), graph.add_node()
        graph.add_edge(producer, to_cpu, price)
        graph.add_edge(to_accelerator, producer, price)
        for consumer in consumers:
            graph.add_edge(to_cpu, consumer, INFINITE)
            graph.add_edge(consumer, to_accelerator, INFINITE)
    total, source = graph.cut()
    return total / NANOSECONDS_PER_MICROSECOND, {op for op, node in nodes.items() if node in source}


def _ns(microseconds: float) -> int:
    return round(microseconds * NANOSECONDS_PER_MICROSECOND)


PACKING = mem.PackOp | mem.PackWindowsOp | mem.PackTilesOp | mem.FoldZeroPointOp | mem.UnpackOp
BORDER = mem.LaunchOp | PACKING
"""Operations that only occur in a placed network, and keep their device."""


@dataclass(frozen=True)
class PlacePass(ScheduleJobsOptions, BoardOptions, TargetNameOptions, NetworkPass):
    """
    Assign a device to each operation (`mem.device`): the accelerator of `target` if its rules admit
    the operation, else the CPU. `mem.reason` states the rule as a sentence. Without an accelerator
    the CPU runs all operations. No value changes.

    With `board` the rules are those of the board, and the placement has the shortest modelled time,
    transfers included. `mem.cost` on each operation has the time on each device. A target can
    require its device regardless of the cost.

    Before:

        %y = graph.unary <relu> %x : tensor<4xf32>

    After:

        %y = graph.unary <relu> %x {mem.device = #mem.device<cpu>} : tensor<4xf32>
    """

    name = "place"

    target: str | None = inherited(TargetNameOptions, "target", None)
    """The target with the accelerator."""
    cpu: tuple[str, ...] = ()
    """Nodes that must run on the CPU."""
    accelerator: tuple[str, ...] = ()
    """Nodes that must run on the accelerator."""

    def change(self, main: FuncOp) -> None:
        found = None if self.target is None else find_target(self.target)
        device = None if found is None else found.accelerator(self.board, self.jobs)
        if self.target is not None and device is not None:
            require_device(self.target, device)
        if device is None and (self.cpu or self.accelerator or self.board):
            raise UsageError("place: cpu, accelerator and board require a target with accelerator")
        reasons: dict[Operation, str] = {}
        for operation in steps(main):
            operation.attributes.pop(COST, None)
            if device is None or isinstance(operation, BORDER):
                continue
            if (reason := device.why_not(operation)) is not None:
                reasons[operation] = reason
        pins = self._pins(main, reasons)
        for operation, pin in pins.items():
            if not pin:
                reasons.setdefault(operation, "pinned to the CPU by the user")
        if device is not None and device.has_costs:
            _place_by_cost(main, device, reasons, pins)
        for operation in steps(main):
            reason = reasons.get(operation)
            operation.attributes.pop(REASON, None)
            is_on_cpu = reason is not None or isinstance(operation, PACKING)
            name = mem.CPU if device is None or is_on_cpu else device.device
            operation.attributes[DEVICE] = mem.DeviceAttr(name)
            if reason is not None:
                operation.attributes[REASON] = StringAttr(reason)

    def _pins(self, main: FuncOp, reasons: dict[Operation, str]) -> dict[Operation, bool]:
        # The operations of the named nodes, and whether they must run on the accelerator.
        found: dict[str, list[Operation]] = {}
        for operation in steps(main):
            found.setdefault(node_name(operation), []).append(operation)
        pins: dict[Operation, bool] = {}
        for names, wanted in ((self.cpu, False), (self.accelerator, True)):
            for name in names:
                if name not in found:
                    raise UsageError(f"place: {unknown_node(module_of(main), name)}")
                for operation in found[name]:
                    if pins.setdefault(operation, wanted) != wanted:
                        raise UsageError(f"place: node '{name}' is in both cpu and accelerator")
        refused = [
            Finding(node_name(o), o.name, f"pinned to the accelerator, but {reasons[o]}")
            for o, wanted in pins.items()
            if wanted and o in reasons
        ]
        if refused:
            raise InputError(refused)
        return pins


def _place_by_cost(
    main: FuncOp,
    device: Accelerator,
    reasons: dict[Operation, str],
    pins: dict[Operation, bool],
) -> None:
    order = [op for op in steps(main) if not isinstance(op, BORDER)]
    admitted = [op for op in order if op not in reasons]
    device.prepare(admitted)
    costs = {op: device.cost(op, admitted=op not in reasons) for op in order}
    pins = {op: True for op in admitted if device.must_run(op)} | pins
    fixed = {op: Cost(0.0, 0.0, device.device) for op in steps(main) if op not in costs}
    pins = pins | {op: isinstance(op, mem.LaunchOp) for op in fixed}
    _, chosen = cheapest(main, costs | fixed, pins, device.transfer, device.host_operands)
    for op, cost in costs.items():
        op.attributes[COST] = StringAttr(str(cost))
        if op not in reasons and op not in chosen:
            reasons[op] = f"less total time on the CPU ({cost}, plus transfers)"


@dataclass(frozen=True)
class ExplainPass(ModulePass):
    """
    Print the device of each operation and the reason to stderr, with a line per operation.

    The line has the node, the device and, if the accelerator does not run it, the reason. If
    `place` had a board, it also has the time on each device. The pass does not change the network.

    Before:

        #reason = "the array has no circuit for tanh"
        %y = graph.unary <tanh> %x {mem.device = #mem.device<cpu>, mem.reason = #reason}
            : tensor<4xf32> loc("y")

    Message:

        y (graph.unary) on the cpu; the array has no circuit for tanh
    """

    name = "explain"

    node: str | None = None
    """Print only this node."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lines = explanation(op, self.node)
        if not lines:
            raise UsageError(f"explain: {unknown_node(op, str(self.node))}")
        sys.stderr.write("".join(f"{line}\n" for line in lines))


def explanation(module: ModuleOp, node: str | None = None) -> list[str]:
    """
    Return a line for each operation of a placed network: the device and the reason. With `node`,
    return only the operations of this node of the model.
    """
    found = steps(main_function(module))
    if node is not None:
        found = [op for op in found if node == node_name(op) or node in node_names(op)]
    return ["; ".join(_parts(op)) for op in found]


MAX_NODES = 8
"""The number of nodes that a message lists."""


def unknown_node(module: ModuleOp, node: str) -> str:
    """
    Return an error message that the network has no node `node`, with a similar name or the first
    names.
    """
    known = list(dict.fromkeys(map(node_name, steps(main_function(module)))))
    more = ", ..." if len(known) > MAX_NODES else ""
    listed = f" (nodes: {', '.join(known[:MAX_NODES])}{more})" if known else ""
    return f"no node '{node}' in the network{did_you_mean(node, known) or listed}"


def _parts(op: Operation) -> Iterator[str]:
    yield f"{node_name(op)} ({op.name}) on the {mem.device_of(op)}"
    texts = [op.attributes.get(COST), op.attributes.get(REASON)]
    cost, reason = (text.data if isinstance(text, StringAttr) else "" for text in texts)
    # A reason that follows from the cost contains it.
    yield from (text for text in (cost if cost not in reason else "", reason) if text)


@dataclass(frozen=True)
class CheckOperationsPass(NetworkPass):
    """
    Refuse the operations of a float network that remain float and that `target` does not support.

    1. Operations with a quantized form and data movement operations are checked by later levels.
    2. All other operations remain unchanged; the unsupported operations are reported together.
    3. A node that became several operations is reported a single time, with the last refused
       operation. It is the computation of the node; the operations before it only reshape operands.
    4. The states of a network are reported too if the target keeps no states.

    The pass does not change the network, and accepts each quantized network.
    """

    name = "check-operations"

    target: str
    """The target that is checked."""

    def change(self, main: FuncOp) -> None:
        found = find_target(self.target)
        states = state_findings(main, found)
        findings: dict[str, Finding] = {}
        for inner in () if is_quantized(main) else steps(main):
            if has_quantized_form(inner) or keeps_scale(inner):
                continue
            if (reason := found.why_not(inner)) is not None:
                name = node_name(inner)
                findings[name] = Finding(name, inner.name, f"unsupported: {reason}")
        if states or findings:
            raise UnsupportedError([*states, *findings.values()])


def state_findings(main: FuncOp, target: type[Target]) -> list[Finding]:
    """
    Return an error for each state of the network (an input that is an output of the previous call)
    if `target` does not support states.
    """
    states = states_of(main)
    if target.keeps_states or not states:
        return []
    keeping = ", ".join(cls.name for cls in all_targets() if cls.keeps_states and cls.compiles)
    return [
        Finding(
            state.name,
            "input",
            f"unsupported on target {target.name}, which keeps no states: leave out "
            f"--state {state.name}={state.result_name}, and hand the output back as the input, of "
            f"which calibration data needs examples; {keeping} keep states",
        )
        for state in states
    ]
