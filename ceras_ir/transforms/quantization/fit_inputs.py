"""
Scale inputs in float before they are quantized, so that their integers use the full range.

The pass `fold-factor` folds such a multiplication into the quantization of the result.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, ldexp, log2

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import input_names, keeps_scale, module_of, states_of
from ceras_ir.network.integer import MAX_SCALE_EXPONENT, MIN_SCALE_EXPONENT
from ceras_ir.network.storage import NARROW, is_kept_in_float, width
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.pass_kinds import PatternPass
from ceras_ir.transforms.quantization.analysis.calibration import CalibratedPass
from ceras_ir.transforms.quantization.analysis.scale_classes import consuming_layers
from ceras_ir.transforms.quantization.channel_scales import multiply
from ceras_ir.transforms.quantization.keep_in_float import SUMMING_OPERATIONS
from ceras_ir.transforms.quantization.tabulate_pixels import byte_values
from ceras_ir.transforms.rebuilding import replace_constant

Array = NDArray[np.generic]

INT8_STEPS = 255
"""The number of steps between the minimum and the maximum of int8."""

MIN_STEP_RATIO = 1.1
"""The minimum ratio of the steps before and after, for which a multiplication per element pays."""

MAX_CLIPPED_SHARE = 1 / 64
"""The maximum share of the range that a power-of-two scale may clip."""

INPUTS_REASON = "divides an input by the step that fits the data"

ROUNDING_MARGIN = 1 + 1e-5
"""A factor that keeps the bounds of the range representable after rounding to float32."""


@dataclass(frozen=True)
class FitInputsPass(CalibratedPass):
    """
    Divide inputs by a step, so that zero and the elements that reach a layer use all 256 integers
    of int8. The weights of these layers are multiplied by the step, and scales remain powers of
    two. Data of 8 bits, such as images and spectra, are then stored unchanged.

    Elements that reach no layer are ignored, such as padding that a maximum pooling never returns.

    An input costs one float multiplication per element. It is left unchanged in each of these
    cases:

    1. The step would become shorter by less than a tenth.
    2. The input has 16 bits.
    3. It has consumers other than convolutions and matrix products with constant weights. Data
       movement operations in between are allowed. `choose-zero-points` can fit such an input.
    4. There is no calibration data.

    Float operations on inputs before the first layers, such as a normalization by mean and
    deviation, count as inputs.

    A function of single pixels of a uint8 image counts as an input with the range of all 256 bytes.
    Here the multiplication is free, because `tabulate-pixels` replaces the function by a table.

    Before, with `calibration=samples.npz`:

        func.func @main(%x: tensor<1x2xf32> {graph.input_range = array<f32: 0.0, 1.5>})
            -> tensor<1x1xf32> {
          %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }

    After:

        func.func @main(%x: tensor<1x2xf32> {graph.input_range = array<f32: 0.0, 1.5>})
            -> tensor<1x1xf32> {
          %f = graph.constant dense<170.473938> : tensor<f32> : tensor<f32>
          %q = graph.binary mul %x, %f {graph.precision = "f32",
              graph.float_reason = "divides an input by the step that fits the data"}
              : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32>
          %w = graph.constant dense<[[0.0058659995, 0.011731999]]>
              : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %q, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }
    """

    name = "fit-inputs"

    def improve(self, main: FuncOp) -> None:
        named = zip(main.body.block.args, input_names(main), strict=True)
        names: dict[SSAValue, str] = dict(named)
        # The scale of a state is that of the result that the network computes for it.
        states = {state.argument for state in states_of(main)}
        pixels = self._fit_pixels(main)
        inputs = [value for value in names if value not in states]
        operations = _input_operations(main, inputs)
        computed = [
            op.output
            for op in operations
            if is_kept_in_float(op)
            and not isinstance(op, SUMMING_OPERATIONS)
            and op.output not in pixels
        ]
        consumers = {
            value: layers
            for value in (*inputs, *computed)
            if width(value) == NARROW
            and (layers := consuming_layers(main, value))
            and not any(map(is_kept_in_float, layers))
        }
        if not consumers:
            return
        low, high = dict.fromkeys(consumers, 0.0), dict.fromkeys(consumers, 0.0)
        used = [layer.input for found in consumers.values() for layer in found]
        operations = _producers_of(operations, used)
        for sample in self.data(main):
            known = _evaluate(operations, {value: sample[names[value]] for value in inputs})
            for value, layers in consumers.items():
                arrays = [known[layer.input] for layer in layers]
                low[value] = min(low[value], *(float(array.min()) for array in arrays))
                high[value] = max(high[value], *(float(array.max()) for array in arrays))
        for value, layers in consumers.items():
            step = fitting_step(low[value], high[value])
            if step is not None:
                owner = value.owner
                name = node_name(owner) if isinstance(owner, Operation) else names[value]
                _divide(value, layers, step, name)

    def _fit_pixels(self, main: FuncOp) -> set[SSAValue]:
        for value, function in byte_values(list(main.body.block.ops)).items():
            if width(value) != NARROW or not (layers := consuming_layers(main, value)):
                continue
            reals = function.evaluate().astype(np.float64)
            low, high = min(float(reals.min()), 0.0), max(float(reals.max()), 0.0)
            # The division is free, so no clipping is accepted to avoid it.
            step = fitting_step(low, high, 0.0)
            if step is not None:
                _divide(value, layers, step, node_name(function.steps[-1]))
        return set(byte_values(list(main.body.block.ops)))


def _input_operations(main: FuncOp, given: Sequence[SSAValue]) -> list[graph.GraphOperation]:
    """
    Return, in order, the operations that depend only on the `given` values (inputs) and constants,
    and remain in float or keep the scale, such as data movement. Sums of products, averages and
    interpolations are not included.
    """
    known, steps = set(given), list[graph.GraphOperation]()
    for op in main.body.block.ops:
        if not isinstance(op, graph.GraphOperation) or isinstance(op, graph.ConstantOp):
            continue
        computed = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
        is_float = is_kept_in_float(op) or keeps_scale(op)
        is_sum = isinstance(op, SUMMING_OPERATIONS) and not keeps_scale(op)
        if is_float and computed and known.issuperset(computed) and not is_sum:
            known.update(op.results)
            steps.append(op)
    return steps


def _producers_of(
    steps: Sequence[graph.GraphOperation], values: Iterable[SSAValue]
) -> list[graph.GraphOperation]:
    wanted, found = set(values), list[graph.GraphOperation]()
    for op in reversed(steps):
        if not wanted.isdisjoint(op.results):
            wanted.update(op.operands)
            found.append(op)
    return found[::-1]


def _evaluate(
    steps: Sequence[graph.GraphOperation], given: Mapping[SSAValue, Array]
) -> Mapping[SSAValue, Array]:
    values = dict(given)
    interpreter = interpreter_of(module_of(steps[0])) if steps else None
    for op in steps:
        assert interpreter is not None
        operands = [
            v.owner.array() if isinstance(v.owner, graph.ConstantOp) else values[v]
            for v in op.operands
        ]
        with np.errstate(all="ignore"):
            results = interpreter.run_op(op, tuple(operands))
        values.update(zip(op.results, results, strict=True))
    return values


def fitting_step(low: float, high: float, clipped: float = MAX_CLIPPED_SHARE) -> float | None:
    """
    Return the scale at which 256 integers represent the range [`low`, `high`], which contains 0.
    Return `None` if a power of two is as good; such a scale may clip at most the share `clipped` of
    the range.
    """
    extent = high - low
    # Outside these limits, the step or its reciprocal is not a normal float32 number.
    if not ldexp(INT8_STEPS, MIN_SCALE_EXPONENT) < extent < ldexp(1.0, MAX_SCALE_EXPONENT):
        return None
    below = -low / extent * INT8_STEPS
    # A side that is not empty needs a step, however small its share of the range.
    min_steps, max_steps = int(low < 0), INT8_STEPS - int(high > 0)
    counts = (min(max(n, min_steps), max_steps) for n in (floor(below), ceil(below)))
    step = min(max(_part(-low, n), _part(high, INT8_STEPS - n)) for n in counts)
    power = ldexp(1.0, ceil(log2(step * (1 - clipped))))
    return step * ROUNDING_MARGIN if power > MIN_STEP_RATIO * step else None


def _part(extent: float, steps: int) -> float:
    return extent / steps if steps > 0 else (inf if extent > 0 else 0.0)


def _divide(value: SSAValue, layers: list[graph.LinearOperation], step: float, name: str) -> None:
    location = NameLoc(StringAttr(name), UnknownLoc())
    multiply(value, np.array(1 / step, np.float32), INPUTS_REASON, location)
    for layer in layers:
        weights = graph.known_array(layer.weights)
        replace_constant(layer, layer.weights, weights.astype(np.float32) * np.float32(step))


class FoldFactor(RewritePattern):
    """
    Replace `quantize(x * c)` by `scaled_quantize(x) {factor = c}`, if `c` is a float32 constant
    with a single element and the product has no other consumer.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /):
        product = op.input.owner
        element = graph.stored_element(op.result)
        if element.is_per_axis or op.has_kernel_form or not isinstance(product, graph.BinaryOp):
            return
        if product.function is not graph.Binary.MUL or product.activation is not None:
            return
        # A product with several uses is computed anyway.
        if not op.input.has_one_use():
            return
        for x, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            factor = graph.constant_array(other)
            if factor is None or factor.size != 1 or not np.isfinite(factor).all():
                continue
            # A constant with more dimensions than `x` may add dimensions.
            if x.type == op.input.type:
                folded = graph.ScaledQuantizeOp(x, factor.item(), element)
                folded.attributes.update(op.attributes)
                folded.location = op.location
                rewriter.replace(op, folded)
                rewriter.erase(product)
                return


class FoldFactorPass(PatternPass):
    """
    Replace a multiplication by a scalar and the following `graph.quantize` by a single
    `graph.scaled_quantize`. `fit-inputs` creates such multiplications.

    No float product is stored: an image is read once and has no float copy.

    A product is left unchanged if it has several uses or an activation, or if the constant has
    several elements. Exact: the product is rounded to float32 as before.

    Before:

        %f = graph.constant dense<53.5> : tensor<f32> : tensor<f32>
        %a = graph.binary mul %x, %f : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %y = graph.quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.0>>

    After:

        %y = graph.scaled_quantize %x {factor = 53.5 : f32}
            : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.0>>
    """

    name = "fold-factor"
    pattern = GreedyRewritePatternApplier([FoldFactor()])
