"""
Layers that one C function computes, because they differ in nothing but their places: the steps of
an unrolled loop, and the heads of attention.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

from ceras_ir.backends.c.constants import ConstantPool
from ceras_ir.backends.c.layer import Layer

CONSTANT = re.compile(r"\bLAYER_\d+_\w+")
"""What a layer calls a constant of its own."""


def shared_functions(layers: Sequence[Layer], pool: ConstantPool) -> dict[int, int]:
    """
    Of each layer that has something to do, the first one with the same parameters and the same
    text; constants that are stored once are the same. Both by their index.
    """
    stored = _stored_names(pool)
    first: dict[str, int] = {}
    shared: dict[int, int] = {}
    for layer in layers:
        if layer.lines:
            text = "\n".join([declared(layer), *layer.lines])
            text = CONSTANT.sub(lambda name: stored.get(name[0], name[0]), text)
            shared[layer.index] = first.setdefault(text, layer.index)
    return shared


def declared(layer: Layer) -> str:
    """The parameters of a layer's function."""
    return ", ".join(text for text, _ in layer.parameters) or "void"


def _stored_names(pool: ConstantPool) -> dict[str, str]:
    """Of constants that are not stored, the one that is, where all variants agree on it."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    for copy, constant in pool.copies:
        known[copy.name].add(constant.name)
    for constant in pool.constants:
        known[constant.name].add(constant.name)
    return {name.upper(): next(iter(to)).upper() for name, to in known.items() if len(to) == 1}
