"""Conditions of branches and loops: what is known of them, and what they choose."""

from math import prod

import numpy as np

from ceras_ir.dialects.graph import Binary
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.values import Constant, Value


def known_condition(node: Node, emitter: Emitter, value: Value) -> bool | Value:
    """What a condition is, if that is known, else its one element, whatever its rank."""
    shape, dtype = shape_of_value(value), dtype_of_value(value)
    if prod(shape) != 1 or dtype != np.bool_:
        raise node.wrong(f"a condition of one truth value expected, got {list(shape)} of {dtype}")
    if isinstance(value, Constant):
        return bool(value.load().reshape(-1)[0])
    return emitter.reshaped(value, ()) if len(shape) > 1 else value


def both(emitter: Emitter, a: bool | Value, b: bool | Value) -> bool | Value:
    """Whether both hold, if that is known, else where it is computed."""
    if a is False or b is False:
        return False
    if a is True or b is True:
        return b if a is True else a
    return emitter.binary(Binary.AND, emitter.reshaped(a, ()), emitter.reshaped(b, ()))


def selected(node: Node, emitter: Emitter, condition: Value, a: Value, b: Value) -> Value:
    """`condition ? a : b` of values of one shape and type."""
    if a is b:
        return a
    check_alike(node, a, b)
    return Composer(emitter).select(condition, a, b)


def check_alike(node: Node, a: Value, b: Value) -> None:
    """Refuse values of different shapes or types, of which a condition decides which it is."""
    shapes = [shape_of_value(v) for v in (a, b)]
    if shapes[0] != shapes[1] or dtype_of_value(a) != dtype_of_value(b):
        raise node.unsupported(
            f"results of shapes {list(shapes[0])} and {list(shapes[1])} where the condition is "
            "computed; export the model with one branch, or fix the input that decides with --set"
        )
