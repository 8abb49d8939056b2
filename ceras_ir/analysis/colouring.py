"""
Interference graphs and their colouring: values that live at the same time never share a block.

Lifetimes on a line make an interval graph, for which colouring in the order of birth is
optimal; the graph is built and coloured all the same as a graph, so that any interference
can be added to it. After the block allocation of S2.
"""

from collections.abc import Mapping, Sequence

from ceras_ir.analysis.liveness import Buffer


def interference(buffers: Sequence[Buffer]) -> dict[int, set[int]]:
    """Which buffers (by index) are alive together, by a sweep over the steps."""
    graph: dict[int, set[int]] = {i: set() for i in range(len(buffers))}
    alive: list[int] = []
    for i in sorted(graph, key=lambda i: (buffers[i].lower, i)):
        alive = [j for j in alive if buffers[j].upper > buffers[i].lower]
        for j in alive:
            graph[i].add(j)
            graph[j].add(i)
        alive.append(i)
    return graph


def colour(graph: Mapping[int, set[int]], order: Sequence[int]) -> dict[int, int]:
    """The least free colour for each node in `order`: fewest colours if `order` is by birth."""
    colours: dict[int, int] = {}
    for node in order:
        taken = {colours[other] for other in graph[node] if other in colours}
        colours[node] = next(c for c in range(len(taken) + 1) if c not in taken)
    return colours


def fewest_blocks(buffers: Sequence[Buffer]) -> list[int]:
    """For each buffer the number of its block; as many blocks as the most alive at once."""
    order = sorted(range(len(buffers)), key=lambda i: (buffers[i].lower, i))
    colours = colour(interference(buffers), order)
    return [colours[i] for i in range(len(buffers))]
