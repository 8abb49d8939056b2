"""Values of a network are forgotten when their last reader has run, and no value is warned of."""

import warnings
import weakref
from typing import Any

import numpy as np
from c_harness import make_network
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, FunctionAttr
from ceras_ir.interpreters.network import run
from ceras_ir.interpreters.registry import interpreter_of


def test_dead_values_are_forgotten() -> None:
    def chain(x: SSAValue) -> list[SSAValue]:
        for kind in (Function.EXP, Function.RELU, Function.TANH, Function.SIGMOID):
            x = graph.UnaryOp(x, FunctionAttr(kind)).result
        return [x]

    seen: list[weakref.ref[np.ndarray[Any, Any]]] = []
    alive: list[int] = []

    def look(op: Operation, results: tuple[np.ndarray[Any, Any], ...]) -> None:
        seen.append(weakref.ref(results[0]))
        alive.append(sum(ref() is not None for ref in seen))

    module = make_network([(f32, (4,))], chain)
    run(module, {"input0": np.ones(4, np.float32)}, look)
    assert len(alive) == 4 and max(alive) == 2  # What is read, and what is made.


def test_one_operation_warns_of_nothing() -> None:
    """Calibration runs operations one by one; users would read numpy's warnings."""

    def quotient(x: SSAValue) -> list[SSAValue]:
        return [graph.BinaryOp(Binary.DIV, x, x, result_element=f32).result]

    module = make_network([(f32, (2,))], quotient)
    (op,) = (op for op in module.walk() if isinstance(op, graph.BinaryOp))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zeros = np.zeros(2, np.float32)
        (found,) = interpreter_of(module).run_op(op, (zeros, zeros))
    assert np.isnan(found).all()
