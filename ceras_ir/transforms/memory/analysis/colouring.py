"""
Interference graphs and their colouring: values that live at the same time never share a block.

Lifetimes on a line make an interval graph, for which colouring in the order of birth with any
free colour is optimal; which one it is decides how large the blocks become. After the block
allocation of S2.
"""

from collections.abc import Sequence

from ceras_ir.transforms.memory.analysis.liveness import Buffer


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


def fewest_blocks(buffers: Sequence[Buffer]) -> list[int]:
    """
    For each buffer the number of its block; as many blocks as the most alive at once. Of the
    free blocks a buffer takes the smallest that holds it, else the largest, which then grows.
    """
    graph = interference(buffers)
    order = sorted(graph, key=lambda i: (buffers[i].lower, i))
    colours: dict[int, int] = {}
    sizes: list[int] = []
    for node in order:
        taken = {colours[other] for other in graph[node] if other in colours}
        free = [c for c in range(len(sizes)) if c not in taken]
        need = buffers[node].size
        holding = [c for c in free if sizes[c] >= need]
        if holding:
            chosen = min(holding, key=lambda c: (sizes[c], c))
        elif free:
            chosen = max(free, key=lambda c: (sizes[c], -c))
            sizes[chosen] = need
        else:
            chosen = len(sizes)
            sizes.append(need)
        colours[node] = chosen
    return [colours[i] for i in range(len(buffers))]
