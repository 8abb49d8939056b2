"""Values of a network are forgotten when their last reader has run."""

import weakref
from typing import Any

import numpy as np
from c_harness import make_network
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.interpreters.network import run


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
