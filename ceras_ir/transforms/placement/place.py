"""
Decide for every operation which device runs it, and say why.

A minimum cut of a graph gives the placement with the least modelled time. The pass `explain` prints
where operations run. The pass `check-operations` refuses what a target cannot run, before anything
is calibrated for the target.
"""

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects.mem import (
    COST,
    CPU,
    DEVICE,
    REASON,
    DeviceAttr,
    FoldZeroPointOp,
    LaunchOp,
    PackOp,
    PackTilesOp,
    PackWindowsOp,
    UnpackOp,
    device_of,
)
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
from ceras_ir.targets.capabilities import Accelerator, Cost
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets, find_target
from ceras_ir.transforms.memory.liveness import steps
from ceras_ir.transforms.pass_kinds import NetworkPass

# Cheapest way to cut a directed graph in two, by maximum flow (Dinic's algorithm).
#
# Nodes are numbers; node 0 is the source, node 1 the sink. Capacities are integers, so that
# the cut is the same everywhere.

SOURCE, SINK = 0, 1
INFINITE = 1 << 60


class FlowGraph:
    """Edges with capacities, and what has flowed."""

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]
        """For each node the numbers of its edges; edge e ^ 1 is edge e backwards."""
        self._targets: list[int] = []
        self._left: list[int] = []

    def add_node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int) -> None:
        for a, b, room in ((start, end, capacity), (end, start, 0)):
            self._edges[a].append(len(self._targets))
            self._targets.append(b)
            self._left.append(room)

    def cut(self) -> tuple[int, set[int]]:
        """What the cheapest cut costs, and the nodes on the source's side of it."""
        total = 0
        while SINK in (levels := self._levels()):
            used = [0] * len(self._edges)
            while flow := self._augment(levels, used):
                total += flow
        return total, set(self._levels())

    def _levels(self) -> dict[int, int]:
        """Distance from the source along edges with room left."""
        levels = {SOURCE: 0}
        queue = deque([SOURCE])
        while queue:
            node = queue.popleft()
            for edge in self._edges[node]:
                target = self._targets[edge]
                if self._left[edge] and target not in levels:
                    levels[target] = levels[node] + 1
                    queue.append(target)
        return levels

    def _augment(self, levels: dict[int, int], used: list[int]) -> int:
        """Send flow along one shortest path; 0 if there is none left."""
        path: list[int] = []
        node = SOURCE
        while node != SINK:
            edges = self._edges[node]
            while used[node] < len(edges):
                edge = edges[used[node]]
                target = self._targets[edge]
                if self._left[edge] and levels.get(target) == levels[node] + 1:
                    break
                used[node] += 1
            else:
                if node == SOURCE:
                    return 0
                # A dead end: its predecessor tries the next edge.
                back = path.pop()
                node = self._targets[back ^ 1]
                used[node] += 1
                continue
            path.append(edge)
            node = target
        flow = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= flow
            self._left[edge ^ 1] += flow
        return flow


# Which side runs each operation so that the modelled time is least: a minimum cut.
#
# Operations on the source's side of the cut run on the accelerator. A value costs its transfer once
# in each direction that it crosses, however many operations read it; the network's arguments and
# results are the CPU's.

NANOSECONDS = 1000


def cheapest(
    main: FuncOp,
    costs: Mapping[Operation, Cost],
    pins: Mapping[Operation, bool],
    price_of: Callable[[SSAValue], float],
    host_operands: Callable[[Operation], Sequence[int]] = lambda op: (),
) -> tuple[float, set[Operation]]:
    """
    The least modelled microseconds of one inference, and what runs on the accelerator for them.
    `pins` says of some operations whether they must; `price_of` is for a value to change sides.
    `host_operands` are those that the CPU reads wherever the operation runs.
    """
    graph = FlowGraph()
    nodes = {op: graph.add_node() for op in steps(main)}
    for op, node in nodes.items():
        cost = costs[op]
        graph.add_edge(node, SINK, INFINITE if cost.accelerator is None else _ns(cost.accelerator))
        graph.add_edge(SOURCE, node, _ns(cost.cpu))
        if op in pins:
            ends = (SOURCE, node) if pins[op] else (node, SINK)
            graph.add_edge(*ends, INFINITE)
    returned = set(result_values(main))
    for value in [*main.body.block.args, *(v for op in nodes for v in op.results)]:
        maker = nodes[value.owner] if isinstance(value.owner, Operation) else SINK
        readers = sorted(
            {
                SINK if use.index in host_operands(use.operation) else nodes[use.operation]
                for use in value.uses
                if use.operation in nodes
            }
        )
        if value in returned:
            readers.append(SINK)
        price = _ns(price_of(value))
        to_cpu, to_accelerator = graph.add_node(), graph.add_node()
        graph.add_edge(maker, to_cpu, price)
        graph.add_edge(to_accelerator, maker, price)
        for reader in readers:
            graph.add_edge(to_cpu, reader, INFINITE)
            graph.add_edge(reader, to_accelerator, INFINITE)
    total, source = graph.cut()
    return total / NANOSECONDS, {op for op, node in nodes.items() if node in source}


def _ns(microseconds: float) -> int:
    return round(microseconds * NANOSECONDS)


PACKING = PackOp | PackWindowsOp | PackTilesOp | FoldZeroPointOp | UnpackOp
BORDER = LaunchOp | PACKING
"""What stands for a network that was placed before, and stays: launches, and what leads to them."""


@dataclass(frozen=True)
class PlacePass(NetworkPass):
    """
    Assign a device to every operation (`mem.device`): the accelerator of `target` where its rules
    admit the operation, else the CPU. `mem.reason` states the rule in one sentence. Without an
    accelerator the CPU runs everything. Changes no value.

    With `board` the rules are those of the board, and the placement is the one of least modelled
    time, transfers included. `mem.cost` on every operation says the time on each side. A target may
    keep operations on its device at any cost.
    """

    name = "place"

    target: str | None = None
    """The target whose accelerator is asked."""
    board: str | None = None
    """The board: a name or a file."""
    jobs: int = 1
    """Processes that search for schedules; the result is the same."""
    cpu: tuple[str, ...] = ()
    """Nodes that must run on the CPU."""
    accelerator: tuple[str, ...] = ()
    """Nodes that must run on the accelerator."""

    def change(self, main: FuncOp) -> None:
        found = None if self.target is None else find_target(self.target)
        device = None if found is None else found.accelerator(self.board, self.jobs)
        if device is not None and not hasattr(device, "device"):
            raise UsageError(
                f"target {self.target}: class {type(device).__name__} has no attribute 'device': "
                'name the device with a word, such as device = "npu"'
            )
        if device is None and (self.cpu or self.accelerator or self.board):
            raise UsageError("place: cpu, accelerator and board are for targets with accelerators")
        reasons: dict[Operation, str] = {}
        for operation in steps(main):
            operation.attributes.pop(COST, None)
            if device is not None and not isinstance(operation, BORDER):
                reason = device.why_not(operation)
                if reason is not None:
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
            where = CPU if device is None or reason is not None else device.device
            if isinstance(operation, PACKING):
                where = CPU
            operation.attributes[DEVICE] = DeviceAttr(where)
            if reason is not None:
                operation.attributes[REASON] = StringAttr(reason)

    def _pins(self, main: FuncOp, reasons: dict[Operation, str]) -> dict[Operation, bool]:
        """Operations of the named nodes; whether each must run on the accelerator."""
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
                        raise UsageError(f"place: node '{name}' is pinned to both sides")
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
    """Add to `reasons` what the cheapest placement leaves to the CPU, and note all costs."""

    order = [op for op in steps(main) if not isinstance(op, BORDER)]
    admitted = [op for op in order if op not in reasons]
    device.prepare(admitted)
    costs = {op: device.cost(op, admitted=op not in reasons) for op in order}
    pins = {op: True for op in admitted if device.must_run(op)} | pins
    fixed = {op: Cost(0.0, 0.0, device.device) for op in steps(main) if op not in costs}
    pins = pins | {op: isinstance(op, LaunchOp) for op in fixed}
    _, chosen = cheapest(main, costs | fixed, pins, device.transfer, device.host_operands)
    for op, cost in costs.items():
        op.attributes[COST] = StringAttr(str(cost))
        if op not in reasons and op not in chosen:
            reasons[op] = f"less time in all on the CPU, transfers included ({cost})"


# Say where operations run, and why.


@dataclass(frozen=True)
class ExplainPass(ModulePass):
    """
    Print the device of each operation and the reason to stderr, one line per operation. The line
    has the node, the device, and the reason where the accelerator does not run it. Where `place`
    had a board it also has the time on each device. Changes nothing.
    """

    name = "explain"

    node: str | None = None
    """Print this node only."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lines = explanation(op, self.node)
        if not lines:
            raise UsageError(f"explain: {unknown_node(op, str(self.node))}")
        sys.stderr.write("".join(f"{line}\n" for line in lines))


def explanation(module: ModuleOp, node: str | None = None) -> list[str]:
    """Return the lines of a placed network, or of a node, which may be part of an operation."""
    found = steps(main_function(module))
    if node is not None:
        found = [op for op in found if node == node_name(op) or node in node_names(op)]
    return [_line(op) for op in found]


MAX_NODES = 8
"""The number of nodes that a message lists."""


def unknown_node(module: ModuleOp, node: str) -> str:
    """Return the message that the network has no `node`, with a similar name or the first names."""
    known = list(dict.fromkeys(map(node_name, steps(main_function(module)))))
    more = ", ..." if len(known) > MAX_NODES else ""
    listed = f" (nodes: {', '.join(known[:MAX_NODES])}{more})" if known else ""
    return f"no node '{node}' in the network{did_you_mean(node, known) or listed}"


def _line(op: Operation) -> str:
    text = f"{node_name(op)} ({op.name}) on the {device_of(op)}"
    for name in (COST, REASON):
        attribute = op.attributes.get(name)
        if isinstance(attribute, StringAttr):
            text += f"; {attribute.data}"
    return text


# Refuse what a target cannot run, before anything is calibrated for it.


@dataclass(frozen=True)
class CheckOperationsPass(NetworkPass):
    """
    Refuse the operations of a float network that stay as they are and that `target` cannot run.

    1. What has a quantized form, or only moves elements, is left to the target's own levels.
    2. Every other operation stays as it is; all that the target has nothing for are named at once.
    3. A node that became several operations is named once, with the last of them that is refused,
       which is what the node computes; those before only bring operands into shape.
    4. The states of any network are named with them where the target keeps none.

    Changes nothing. Operations of a quantized network are not looked at.
    """

    name = "check-operations"

    target: str
    """The target that is asked."""

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
    """The states of a network, if `target` keeps none."""
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
