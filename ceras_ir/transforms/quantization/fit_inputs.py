"""
Let the steps of inputs fit their data: scale them in float, before they are quantized.

The pass `fold-factor` folds such a multiplication into the quantization of its result.
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
from ceras_ir.transforms.quantization.analysis.scale_classes import layers_behind
from ceras_ir.transforms.quantization.channel_scales import multiply
from ceras_ir.transforms.quantization.keep_in_float import SUMS
from ceras_ir.transforms.quantization.tabulate_pixels import byte_values
from ceras_ir.transforms.rebuilding import replace_constant

Array = NDArray[np.generic]

STEPS = 255
"""Between the least and the greatest number of int8."""

WORTHWHILE = 1.1
"""How much shorter steps must become to be worth a multiplication for each element."""

CLIPPED = 1 / 64
"""Share of the range that may lie beyond the last number of a power of two that serves."""

REASON = "divides an input by the step that fits its data"

MARGIN = 1 + 1e-5
"""What keeps the ends of the range inside after float has rounded them."""


@dataclass(frozen=True)
class FitInputsPass(CalibratedPass):
    """
    Divide inputs by a step at which the elements that reach a layer, and zero, fill all 256 numbers
    of int8. The weights of the layers are multiplied by the step. Scales remain powers of two. Data
    of 8 bits, such as images and spectra, are then stored unchanged.

    Elements that reach no layer are ignored, such as padding that a maximum pooling never returns.

    This costs one float multiplication per input element. An input is left if its steps would not
    become shorter by at least a tenth, if it has 16 bits, or if anything reads it but convolutions
    and matrix products with constant weights (moves in between are allowed). Such an input needs
    `choose-zero-points` to fit. Without data nothing is done.

    What floats compute of inputs before the first layers, such as a normalization by mean and
    deviation, counts as an input.

    What is computed of single pixels of a uint8 image counts as an input whose range is that of all
    256 bytes. There the multiplication is free, because `tabulate-pixels` makes a table of all.
    """

    name = "fit-inputs"

    def improve(self, main: FuncOp) -> None:
        named = zip(main.body.block.args, input_names(main), strict=True)
        names: dict[SSAValue, str] = dict(named)
        # A state has the scale in which the network makes it.
        kept = {state.argument for state in states_of(main)}
        pixels = self._fit_pixels(main)
        given = [value for value in names if value not in kept]
        steps = _head(main, given)
        made = [
            op.output
            for op in steps
            if is_kept_in_float(op) and not isinstance(op, SUMS) and op.output not in pixels
        ]
        readers = {
            value: layers
            for value in (*given, *made)
            if width(value) == NARROW and (layers := _integer_layers(main, value))
        }
        if not readers:
            return
        low, high = dict.fromkeys(readers, 0.0), dict.fromkeys(readers, 0.0)
        steps = _leading_to(steps, [layer.input for found in readers.values() for layer in found])
        for sample in self.data(main):
            seen = _computed(steps, {value: sample[names[value]] for value in given})
            for value, layers in readers.items():
                read = [seen[layer.input] for layer in layers]
                low[value] = min(low[value], *(float(array.min()) for array in read))
                high[value] = max(high[value], *(float(array.max()) for array in read))
        for value, layers in readers.items():
            step = fitting_step(low[value], high[value])
            if step is not None:
                owner = value.owner
                name = node_name(owner) if isinstance(owner, Operation) else names[value]
                _divide(value, layers, step, name)

    def _fit_pixels(self, main: FuncOp) -> set[SSAValue]:
        """Fit what is computed of single pixels, which is returned."""
        for value, function in byte_values(list(main.body.block.ops)).items():
            if width(value) != NARROW or not (layers := layers_behind(main, value)):
                continue
            reals = function.evaluate().astype(np.float64)
            low, high = min(float(reals.min()), 0.0), max(float(reals.max()), 0.0)
            # The division is free: nothing needs to be clipped to save it.
            step = fitting_step(low, high, 0.0)
            if step is not None:
                _divide(value, layers, step, node_name(function.steps[-1]))
        return set(byte_values(list(main.body.block.ops)))


def _integer_layers(main: FuncOp, value: SSAValue) -> list[graph.LinearOperation]:
    """The layers that read a value; none if anything else does, or one of them in float."""
    layers = layers_behind(main, value)
    return [] if any(map(is_kept_in_float, layers)) else layers


def _head(main: FuncOp, given: Sequence[SSAValue]) -> list[graph.GraphOperation]:
    """What is computed in float of inputs and constants alone, in order, and moves of that."""
    known, steps = set(given), list[graph.GraphOperation]()
    for op in main.body.block.ops:
        if not isinstance(op, graph.GraphOperation) or isinstance(op, graph.ConstantOp):
            continue
        computed = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
        is_float = is_kept_in_float(op) or keeps_scale(op)
        is_sum = isinstance(op, SUMS) and not keeps_scale(op)
        if is_float and computed and known.issuperset(computed) and not is_sum:
            known.update(op.results)
            steps.append(op)
    return steps


def _leading_to(
    steps: Sequence[graph.GraphOperation], values: Iterable[SSAValue]
) -> list[graph.GraphOperation]:
    """Those of the operations that lead to the values."""
    wanted, found = set(values), list[graph.GraphOperation]()
    for op in reversed(steps):
        if not wanted.isdisjoint(op.results):
            wanted.update(op.operands)
            found.append(op)
    return found[::-1]


def _computed(
    steps: Sequence[graph.GraphOperation], given: Mapping[SSAValue, Array]
) -> Mapping[SSAValue, Array]:
    """What the operations make of inputs."""
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


def fitting_step(low: float, high: float, clipped: float = CLIPPED) -> float | None:
    """
    The step at which 256 numbers hold a range around zero; None if a power of two serves, beyond
    which lies `clipped` of the range at most.
    """
    extent = high - low
    # Beyond them neither a step nor one over it is a normal float32 number.
    if not ldexp(STEPS, MIN_SCALE_EXPONENT) < extent < ldexp(1.0, MAX_SCALE_EXPONENT):
        return None
    below = -low / extent * STEPS
    # A side that is not empty needs a step, even if it is a tiny share of the range.
    least, most = int(low < 0), STEPS - int(high > 0)
    counts = (min(max(n, least), most) for n in (floor(below), ceil(below)))
    step = min(max(_part(-low, n), _part(high, STEPS - n)) for n in counts)
    power = ldexp(1.0, ceil(log2(step * (1 - clipped))))
    return step * MARGIN if power > WORTHWHILE * step else None


def _part(extent: float, steps: int) -> float:
    return extent / steps if steps > 0 else (inf if extent > 0 else 0.0)


def _divide(value: SSAValue, layers: list[graph.LinearOperation], step: float, name: str) -> None:
    location = NameLoc(StringAttr(name), UnknownLoc())
    multiply(value, np.array(1 / step, np.float32), REASON, location)
    for layer in layers:
        weights = graph.known_array(layer.weights)
        replace_constant(layer, layer.weights, weights.astype(np.float32) * np.float32(step))


# Fold multiplications by a constant into the quantization of their results.


class FoldFactor(RewritePattern):
    """`quantize(x * c)` becomes `scaled_quantize(x) {factor = c}`, c one float32 number."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /):
        product = op.input.owner
        element = graph.stored_element(op.result)
        if element.is_per_axis or not isinstance(product, graph.BinaryOp):
            return
        if product.function is not graph.Binary.MUL or product.activation is not None:
            return
        # Where others read the product too, it is computed anyway.
        if not op.input.has_one_use():
            return
        for x, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            factor = graph.constant_array(other)
            if factor is None or factor.size != 1 or not np.isfinite(factor).all():
                continue
            # A constant of more dimensions than the other operand may add some.
            if x.type == op.input.type:
                folded = graph.ScaledQuantizeOp(x, factor.item(), element)
                folded.attributes.update(op.attributes)
                folded.location = op.location
                rewriter.replace(op, folded)
                rewriter.erase(product)
                return


class FoldFactorPass(PatternPass):
    """
    Make `graph.scaled_quantize` of `graph.quantize` and a multiplication by one number before it,
    such as those of `fit-inputs`. No product in float is stored: an image is read once, and has no
    copy in float.

    A product that something else reads stays, and so does one with an activation or whose constant
    has several numbers. Exact: the product is rounded to float32 as before.
    """

    name = "fold-factor"
    pattern = GreedyRewritePatternApplier([FoldFactor()])
