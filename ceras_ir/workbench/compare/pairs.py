"""
Which operations of two networks make the same tensor of the model.

An operation stands for the nodes that were fused into it, and makes what the last of them makes.
Which one is last, the networks say as they were read, where nodes are still apart. Operations that
have no certain partner have none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import node_names

Key: TypeAlias = tuple[str, ...]
"""The node whose tensor an operation makes; all its nodes, sorted, where none is known as last."""
WHOLE = "/"
"""In a key: all that an operation of this name does, of whatever nodes."""


class Nodes:
    """Which node of a network reads which, and which ones only clip."""

    def __init__(self, module: ModuleOp):
        self.readers: dict[str, set[str]] = {}
        self.clips: dict[str, tuple[float, float]] = {}
        for op in layers_of(module):
            names = node_names(op)
            for name in names:
                self.readers.setdefault(name, set())
            # Of several nodes in one operation, one knows only that the last is read.
            if len(names) == 1:
                self.readers[names[0]] |= _readers(op.results[0]) - set(names)
                bounds = op.function.clip_range if isinstance(op, graph.UnaryOp) else None
                if bounds is not None:
                    self.clips[names[0]] = bounds

    def last(self, names: list[str], other: Nodes) -> Key:
        """The one of `names` that none of the others reads, here or in the `other` network."""
        inside = set(names)
        ends = [
            name
            for name in dict.fromkeys(names)
            if not inside & (self.readers.get(name, set()) | other.readers.get(name, set()))
        ]
        return (ends[0],) if len(ends) == 1 else tuple(sorted(inside))


def layers_of(module: ModuleOp) -> Iterator[Operation]:
    """The operations that are layers."""
    for op in main_function(module).body.block.ops:
        border = isinstance(op, graph.ConstantOp | graph.QuantizeOp | graph.DequantizeOp)
        if isinstance(op, GraphOperation) and not border:
            yield op


def pairs(
    first: ModuleOp, second: ModuleOp, nodes: tuple[Nodes, Nodes]
) -> Iterator[tuple[Operation, Operation]]:
    """
    The layers that make the same tensor, by the `nodes` of both networks; without common names
    layers in order, where both networks have the same ones.
    """
    here, there = nodes
    known, others = _by_key(first, here, there), _by_key(second, there, here)
    found = False
    for key, made in known.items():
        partners = others.get(key, [])
        if [shape(op) for op in made] == [shape(op) for op in partners]:
            found = True
            yield from zip(made, partners, strict=True)
    if found:
        return
    one, two = list(layers_of(first)), list(layers_of(second))
    if [(o.name, shape(o)) for o in one] == [(o.name, shape(o)) for o in two]:
        yield from zip(one, two, strict=True)


def _by_key(module: ModuleOp, own: Nodes, other: Nodes) -> dict[Key, list[Operation]]:
    """The operations that make the tensors of nodes; of a node of several results, all."""
    found = defaultdict[Key, list[Operation]](list)
    for op in layers_of(module):
        if not (names := node_names(op)):
            continue
        key = own.last(names, other)
        # What the same node reads is a step on the way to its result.
        if not _readers(op.results[0]) & set(key):
            key = _behind_clip(op, key, own, other)
            found[_exported(names, key, own, other)].append(op)
    return found


def _exported(names: list[str], key: Key, own: Nodes, other: Nodes) -> Key:
    """
    The operation as a whole, where one network is an export of the other: it has the nodes NAME and
    NAME/PART of an operation whose own name is NAME, and the last of them makes what that makes.
    """
    (last, *more), name = key, names[0]
    if more or last in other.readers:
        return key
    if name in other.readers and any(node.startswith(f"{name}/") for node in other.readers):
        return (name, WHOLE)
    name = last.rpartition("/")[0]
    is_step = any(reader.startswith(f"{name}/") for reader in own.readers.get(last, ()))
    return (name, WHOLE) if name in other.readers and not is_step else key


def _behind_clip(op: Operation, key: Key, own: Nodes, other: Nodes) -> Key:
    """
    The tensor behind a ReLU that one network has and the other, as quantizers leave it, lacks:
    it changes none of the numbers that `op` can give.
    """
    element, requant = graph.quantized_element(op.results[0]), op.properties.get("requant")
    while element is not None and len(key) == 1:
        after = other.readers.get(key[0], set())
        (name,) = after if len(after) == 1 else ("",)
        if name not in other.clips or name in own.readers:
            break
        low, high = other.clips[name]
        ends = (element.low, element.high)
        if isinstance(requant, RequantAttr):
            ends = (requant.low.data, requant.high.data)
        least, greatest = ((end - element.zero_point) * element.scale for end in ends)
        # Bounds are rounded to the steps of the storage.
        half = element.scale / 2
        if least < low - half or greatest > high + half:
            break
        key = (name,)
    return key


def _readers(value: SSAValue) -> set[str]:
    """The nodes that read `value`, as it is, or quantized or dequantized in between."""
    found, values = set[str](), [value]
    # Grows while it is read.
    for each in values:
        for use in each.uses:
            op = use.operation
            names = node_names(op)
            if names and not isinstance(op, graph.QuantizeOp | graph.DequantizeOp):
                found.update(names)
            else:
                values.extend(result for result in op.results if result not in values)
    return found


def shape(op: Operation) -> tuple[int, ...]:
    """Of the first result."""
    return graph.shape_of(op.results[0])
