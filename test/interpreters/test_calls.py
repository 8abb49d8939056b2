"""Check the cache of loops and branches, and the release of values."""

import warnings
import weakref
from typing import Any

import loop_networks
import numpy as np
import pytest
from c_harness import make_network
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, FunctionAttr
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters import calls as remembered
from ceras_ir.interpreters.calls import RememberedCalls
from ceras_ir.interpreters.float_functions import for_statistics
from ceras_ir.interpreters.network import run
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.transforms.rebuilding import replace_constant

ROWS = np.ones((5, 3), np.float32)


def loop_of(module: ModuleOp) -> graph.LoopOp:
    return next(op for op in module.walk() if isinstance(op, graph.LoopOp))


class Counted(RememberedCalls):
    """Counts the computed results."""

    computed = 0

    def result(self, op: graph.LoopOp, *arrays: NDArray[np.float32]) -> NDArray[np.int8]:
        return self.get(op, arrays, self._compute)

    def _compute(self) -> NDArray[np.int8]:
        self.computed += 1
        return np.full(8, self.computed, np.int8)


def test_the_same_loop_is_computed_once() -> None:
    """The same computation is needed for a copy of the network, after another pass or level."""
    module, calls = import_model(loop_networks.recurrent()), Counted()
    first = calls.result(loop_of(module), ROWS, ROWS)
    assert calls.result(loop_of(module.clone()), ROWS.copy(), ROWS) is first
    assert calls.computed == 1 and not first.flags.writeable


def test_other_values_and_other_bodies_are_computed() -> None:
    module, calls = import_model(loop_networks.recurrent()), Counted()
    calls.result(loop_of(module), ROWS, ROWS)
    calls.result(loop_of(module), ROWS, 2 * ROWS)
    calls.result(loop_of(module), ROWS.reshape(3, 5), ROWS)
    assert calls.computed == 3
    calls.result(loop_of(import_model(loop_networks.counted())), ROWS, ROWS)
    assert calls.computed == 4
    product = next(op for op in module.walk() if isinstance(op, graph.MatmulOp))
    replace_constant(product, product.weights, np.zeros((3, 3), np.float32))
    calls.result(loop_of(module), ROWS, ROWS)
    assert calls.computed == 5


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MAX_CACHED_BYTES", 16)
    monkeypatch.setattr(remembered, "MAX_CACHED_BODIES", 1)
    loop, calls = loop_of(import_model(loop_networks.recurrent())), Counted()
    for factor in (1, 2, 3, 3, 1):
        calls.result(loop, ROWS, np.float32(factor) * ROWS)
    assert (calls.computed, calls.size) == (4, 16)
    calls.result(loop_of(import_model(loop_networks.counted())), ROWS)
    assert (calls.computed, calls.size, len(calls.bodies)) == (5, 8, 1)


def test_what_calibration_computed_is_no_result() -> None:
    """Functions are then approximate: in fuzz seeds 400032 and 410177, a loop differed from C."""
    loop, calls = loop_of(import_model(loop_networks.recurrent())), Counted()
    with for_statistics():
        rough = calls.result(loop, ROWS)
        assert calls.result(loop, ROWS) is rough
    assert calls.result(loop, ROWS) is not rough


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
    assert len(alive) == 4 and max(alive) == 2  # The operand and the result.


def test_one_operation_warns_of_nothing() -> None:
    """Calibration runs single operations; users would see the warnings of numpy."""

    def quotient(x: SSAValue) -> list[SSAValue]:
        return [graph.BinaryOp(Binary.DIV, x, x, result_element=f32).result]

    module = make_network([(f32, (2,))], quotient)
    (op,) = (op for op in module.walk() if isinstance(op, graph.BinaryOp))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zeros = np.zeros(2, np.float32)
        (found,) = interpreter_of(module).run_op(op, (zeros, zeros))
    assert np.isnan(found).all()
