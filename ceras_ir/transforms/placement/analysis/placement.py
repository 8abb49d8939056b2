"""
Which side runs each operation so that the modelled time is least: a minimum cut.

Operations on the source's side of the cut run on the accelerator. A value costs its transfer once
in each direction that it crosses, however many operations read it; the network's arguments and
results are the CPU's.
"""

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.network.function import result_values
from ceras_ir.targets.capabilities import Cost
from ceras_ir.transforms.memory.analysis.liveness import steps
from ceras_ir.transforms.placement.analysis.min_cut import INFINITE, SINK, SOURCE, FlowGraph

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
