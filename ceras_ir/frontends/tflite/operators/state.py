"""Import variables, which are states of the network."""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ceras_ir.frontends.onnx.emission.values import Constant, Value
from ceras_ir.frontends.tflite.operation import Operation, operator
from ceras_ir.frontends.tflite.operators.movement import moved


@operator("VAR_HANDLE")
def handle(op: Operation) -> Value:
    """
    Import VAR_HANDLE: a constant with the name of a variable, by which READ_VARIABLE and
    ASSIGN_VARIABLE find it.
    """
    return Constant.of(op.operator.options.text(1), np.zeros((), np.int32))


def _name(op: Operation) -> str:
    value = op.value(0)
    if not isinstance(value, Constant) or op.input(0).kind != "resource":
        raise op.wrong("operand 0 must be a variable")
    return value.name


@operator("READ_VARIABLE")
def read(op: Operation) -> Value:
    """Import READ_VARIABLE: the current value of a variable."""
    return op.variables.read(_name(op), op.output)


@operator("ASSIGN_VARIABLE")
def assign(op: Operation) -> Sequence[Value]:
    """
    Import ASSIGN_VARIABLE: set the value of a variable for later operators, and for the next call.
    """
    value = moved(op, 1)
    name, stored = _name(op), op.emitter.materialize(value)
    known = op.variables.current.get(name)
    if isinstance(known, SSAValue) and known.type != stored.type:
        raise op.unsupported(f"a variable of {known.type} that becomes {stored.type}")
    op.variables.current[name] = stored
    return []


@operator("CALL_ONCE")
def call_once(op: Operation) -> Sequence[Value]:
    """
    Import CALL_ONCE: record the constants that the named subgraph assigns to variables before the
    first call.
    """
    op.variables.initialize(op.model, op.operator.options.integer(0, "i"))
    return []
