"""Test the bounds of `ceras-verify` for differences between two implementations."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from c_harness import make_network
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, BinaryOp, Function, FunctionAttr
from ceras_ir.dialects.quant import UniformType
from ceras_ir.driver.verify.bounded_evaluation import BoundedEvaluation
from ceras_ir.driver.verify.real_values import UNIT, Array, Doubles, gamma
from ceras_ir.driver.verify.rounding_rules import has_rule, within
from ceras_ir.network.function import main_function, result_values

Build = Callable[..., SSAValue]


def bounded(
    build: Build, *operands: Array, errors: Sequence[float | Sequence[float]] = ()
) -> tuple[Array, Doubles]:
    """Compute a result of float operands, and the bound for bounds of the operands."""

    def results(*arguments: SSAValue) -> list[SSAValue]:
        return [build(*arguments)]

    module = make_network([(f32, a.shape) for a in operands], results)
    evaluation = BoundedEvaluation(module, lambda name: None)
    main = main_function(module)
    known = [*errors, *(0.0 for _ in operands[len(errors) :])]
    for argument, array, error in zip(main.body.block.args, operands, known, strict=True):
        evaluation.set(argument, array, np.array(error, np.float64))
    for op in main.body.block.ops:
        if op.results:
            evaluation.compute(op)
    (result,) = result_values(main)
    return evaluation.values[result], evaluation.error_of(result)


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def quantized(x: SSAValue) -> SSAValue:
    return graph.QuantizeOp(x, UniformType(1.0)).result


def test_an_integer_is_a_step_off_next_to_a_tie_only():
    """127.6 saturates on both sides of the tie."""
    x = floats(0.5001, 0.4999, 0.6, 2.5, 127.6)
    values, bound = bounded(quantized, x, errors=[2e-4])
    assert values.tolist() == [1, 0, 1, 2, 127]
    assert bound.tolist() == [1, 1, 0, 1, 0]


def test_an_integer_of_an_exact_float_is_exact():
    values, bound = bounded(quantized, floats(0.5, 1.5, -2.5, 1e9))
    assert values.tolist() == [0, 2, -2, 127]
    assert not bound.any()


def test_a_sum_of_products_is_off_by_its_magnitudes():
    """1 - 1 is 0, and the bound is that for terms of 1."""
    x, w = floats(1, 1)[None], floats(1, -1)[None]

    def product(a: SSAValue, b: SSAValue) -> SSAValue:
        return graph.MatmulOp(a, b, result_element=f32).result

    values, bound = bounded(product, x, w)
    assert values.item() == 0
    assert bound.item() == pytest.approx(2 * gamma(2))
    assert gamma(2) == pytest.approx(4 * 2.0**-24)


def test_errors_of_operands_are_multiplied_by_the_other_operand():
    def product(a: SSAValue, b: SSAValue) -> SSAValue:
        return BinaryOp(Binary.MUL, a, b, result_element=f32).result

    _, bound = bounded(product, floats(3), floats(-5), errors=[0.5, 0.25])
    assert bound.item() == pytest.approx(3 * 0.25 + 5 * 0.5 + 0.5 * 0.25, rel=1e-6)


def test_exact_arithmetic_has_no_rounding():
    def total(a: SSAValue, b: SSAValue) -> SSAValue:
        return BinaryOp(Binary.ADD, a, b, result_element=f32).result

    _, bound = bounded(total, floats(2.5, 1), floats(0.5, 2.0**-30))
    assert bound[0] == 0
    assert bound[1] == pytest.approx(UNIT)


def test_a_step_function_is_off_where_a_bound_reaches_the_step():
    function = FunctionAttr(Function.FLOOR)
    x = floats(0.99, 1.01, 1.5)

    def floor(x: SSAValue) -> SSAValue:
        return graph.UnaryOp(x, function).result

    _, bound = bounded(floor, x, errors=[0.02])
    assert bound.tolist() == [1, 1, 0]


@pytest.mark.parametrize("function", list(Function))
def test_functions_have_a_bound_that_holds_for_doubles(function: Function):
    """The interpreter's results for the next float are within the bound of the distance."""
    low = 0.01 if function is Function.LOG else -6
    x = np.linspace(low, 6, 4001, dtype=np.float32)
    parameters = {Function.CLIP: (-1.0, 2.0)}.get(function, (0.25, 0.5))
    attribute = FunctionAttr(function, parameters[: len(function.facts.parameters)])

    def build(x: SSAValue) -> SSAValue:
        return graph.UnaryOp(x, attribute).result

    moved = np.nextafter(x, np.float32(9))
    apart = (moved.astype(np.float64) - x).tolist()
    values, bound = bounded(build, x, errors=[apart])
    others, _ = bounded(build, moved)
    assert within(others, values, bound).all()
    assert np.median(bound) < 1e-5


def test_an_unknown_operand_makes_an_unknown_product():
    """0 times infinity is no bound of 0."""

    def product(a: SSAValue, b: SSAValue) -> SSAValue:
        return BinaryOp(Binary.MUL, a, b, result_element=f32).result

    _, bound = bounded(product, floats(0), floats(0), errors=[np.inf, 0.0])
    assert bound.item() == np.inf


def test_overflow_is_infinite_in_one_implementation_only():
    largest, infinite = floats(3e38, 3e38, 1e30), floats(np.inf, -np.inf, np.inf)
    assert within(infinite, largest, np.zeros(3)).tolist() == [True, False, False]


def test_large_integers_that_are_the_same_double_are_not_equal():
    """2^53 + 1 becomes 2^53 as a double."""
    a, b = np.array([2**53, 2**53 + 1]), np.array([2**53, 2**53])
    assert within(a, b, np.zeros(2)).tolist() == [True, False]


def test_operations_that_importers_emit_have_a_rule():
    made_by_quantization = {"requantize", "scaled_quantize", "lookup", "shift_swish"}
    made_by_quantization |= {"integer_normalize", "integer_softmax"}
    made_by_lowering = {"update", "strided_matmul"}
    integers = {"suppress", "decode_frame", "fixed_point_softmax"}
    others = made_by_quantization | made_by_lowering | integers | {"constant"}
    for op in graph.Graph.operations:
        name = op.name.removeprefix("graph.")
        if name not in others:
            assert has_rule(op), name
