"""
The table for a function of one argument between `graph.dequantize` and `graph.quantize`.

Before the function may stand what a table on 16 bits has instead of more entries, a clip, and
around it powers of two for the channels, as products with constants.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, LookupOp
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import UniformType
from ceras_ir.transforms.quantization.analysis.quantized_constants import (
    lookup_table,
    lookup_tables,
)
from ceras_ir.transforms.quantization.rewrites.quantized_functions import FUNCTION, set_exponents

NARROW = 256
"""Entries of a table on 8 bits."""


def function_form(op: GraphOperation, target: UniformType) -> LookupOp | None:
    """The table that computes `quantize(op)`; None where `op` is no such function."""
    value, after = _unscaled(op.output)
    match value.owner:
        case graph.UnaryOp(channel_exponents=None) as unary:
            function = unary.function
            argument, before = _unscaled(unary.input)
        case graph.BinaryOp(activation=graph.FunctionAttr() as function):
            # The function was fused into the product before it.
            argument, before = _unscaled(value, activated=True)
        case _:
            return None
    if function.clip_range is not None or target.storage != i8 or target.is_per_axis:
        return None
    bounds = None
    if isinstance(clip := argument.owner, graph.UnaryOp) and clip.function.kind is Function.CLIP:
        argument, bounds = clip.input, clip.function.values
    if not isinstance(argument.owner, graph.DequantizeOp):
        return None
    stored = argument.owner.input
    source = graph.stored_element(stored)
    entries = _entries(source, bounds)
    if entries is None:
        return None
    if before is None and after is None:
        made = LookupOp(stored, lookup_table(function, source, target, entries), target)
    else:
        channels = graph.shape_of(stored)[-1]
        lists = [[0] * channels if e is None else _each(e, channels) for e in (before, after)]
        if len(lists[0]) != channels or len(lists[1]) != channels:
            return None
        pairs = [(a, -b) for a, b in zip(*lists, strict=True)]
        distinct = sorted(set(pairs))
        tables = lookup_tables(function, source, target, distinct, entries)
        made = LookupOp(stored, tables, target, [distinct.index(pair) for pair in pairs])
        set_exponents(made, [a for a, _ in pairs], [b for _, b in pairs])
    made.attributes[FUNCTION] = function
    return made


def _entries(source: UniformType, bounds: tuple[float, ...] | None) -> int | None:
    """How many entries a table has, from the clip that stands for its ends."""
    if source.is_per_axis:
        return None
    if source.storage == i8:
        return NARROW if bounds is None else None
    if bounds is None or source.storage.width.data != 16 or not source.is_signed:
        return None
    if source.zero_point:
        return None  # A table on 16 bits has zero in its middle.
    low, high = bounds[0] / source.scale, bounds[1] / source.scale
    if not np.isfinite([low, high]).all():
        return None
    entries = int(high) + 1 - int(low)
    symmetric = low == -entries // 2 and high == entries // 2 - 1
    return entries if symmetric and entries.bit_count() == 1 and entries >= NARROW else None


def _unscaled(value: SSAValue, *, activated: bool = False) -> tuple[SSAValue, list[int] | None]:
    """
    What is multiplied by constant powers of two, and their exponents, one or one a channel; of a
    product with a function behind it if it is `activated`.
    """
    product = value.owner
    if not isinstance(product, graph.BinaryOp) or (product.activation is not None) != activated:
        return value, None
    if product.function is not graph.Binary.MUL or product.is_quantized:
        return value, None
    for operand, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        factors = graph.constant_array(other)
        if factors is None or factors.dtype != np.float32 or operand.type != value.type:
            continue
        shape = factors.shape
        if any(extent != 1 for extent in shape[:-1]):
            continue
        mantissas, exponents = np.frexp(factors.reshape(-1).astype(np.float64))
        if bool((mantissas == 0.5).all()):
            return operand, [int(e) - 1 for e in exponents]
    return value, None


def _each(exponents: list[int], channels: int) -> list[int]:
    return exponents * channels if len(exponents) == 1 else exponents
