"""
Cheapest way to cut a directed graph in two, by maximum flow (Dinic's algorithm).

Nodes are numbers; node 0 is the source, node 1 the sink. Capacities are integers, so that
the cut is the same everywhere.
"""

from collections import deque

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
