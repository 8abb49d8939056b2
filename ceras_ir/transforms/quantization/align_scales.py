"""Bring the scales of a network together, so that only shifts remain (S1, section 3.1.4)."""

from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.network.function import states_of
from ceras_ir.network.quantizable import quantized_operations
from ceras_ir.network.storage import (
    LONGEST,
    WEIGHT_EXPONENT,
    factor_exponents,
    row_exponents,
    set_exponent,
    set_width,
    set_zero_point,
    weight_exponent,
)
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.accumulator_bounds import Magnitudes, fits
from ceras_ir.transforms.quantization.analysis.before_after import (
    REQUANTIZATIONS,
    alignment,
    note,
)
from ceras_ir.transforms.quantization.analysis.function_forms import Form, form_of
from ceras_ir.transforms.quantization.analysis.scale_classes import ScaleClasses, requantizations


@dataclass(frozen=True)
class AlignScalesPass(FloatNetworkPass):
    """
    Choose the final `graph.exponent` of every value, so that few values are rescaled at run time.
    `graph.requantizations` on the function counts those that remain.

    1. If all readers of a value ask for another scale, its producer makes it at that scale. The
       shift moves into the producer's own.
    2. Exponents are then raised until nothing changes: a result is no finer than its accumulator,
       no shift exceeds 31, and no accumulator can exceed 32 bits.

    A state (`graph.state`) and the result that it was have one scale.

    Changes no value of the float network.
    """

    name = "align-scales"

    def change(self, main: FuncOp) -> None:
        ops = quantized_operations(main)
        # If it was aligned before, what was counted then is the truth.
        known = alignment(main)
        before = requantizations(ops) if known is None else known[0]
        classes = ScaleClasses(ops, states_of(main))
        for value in classes.root:
            set_width(value, classes.storage(value).bits)
            set_zero_point(value, classes.storage(value).zero_point)
        _Alignment(classes).run()
        for value in classes.root:
            set_exponent(value, classes[value])
        note(main, REQUANTIZATIONS, before=before, after=requantizations(ops))


@dataclass
class _Alignment:
    """Raises exponents until every operation can be computed."""

    classes: ScaleClasses
    magnitudes: dict[Operation, Magnitudes] = field(default_factory=dict[Operation, Magnitudes])

    def run(self) -> None:
        # Exponents only grow and are bounded, so this ends.
        while sum(self._adjust(op) for op in self.classes.ops):
            pass

    def _adjust(self, op: Operation) -> bool:
        """Enforce the rules of one operation; whether an exponent changed."""
        match op:
            case graph.LinearOperation():
                changed = self._adjust_weights(op)
                accumulator = sum(factor_exponents(op, self.classes.__getitem__))
                return self.classes.coarsen(op.result, accumulator) or changed
            case graph.BinaryOp():
                lhs, rhs = self.classes[op.lhs], self.classes[op.rhs]
                finest = lhs + rhs if op.function is graph.Binary.MUL else min(lhs, rhs)
                return self.classes.coarsen(op.result, finest)
            case graph.UnaryOp() if form_of(op) is Form.SHIFTS:
                return self.classes.coarsen(op.result, self.classes[op.input])
            case _:
                return False

    def _adjust_weights(self, op: graph.LinearOperation) -> bool:
        """Coarsen constant weights until the accumulator fits 32 bits and the shift is legal."""
        chosen = weight_exponent(op)
        if chosen is None:
            return False
        if op not in self.magnitudes:
            self.magnitudes[op] = Magnitudes.of(op)
        magnitudes, source = self.magnitudes[op], self.classes[op.input]
        target = self.classes[op.result]
        finest = min(row_exponents(op) or (0,))
        exponent = max(chosen, target - source - finest - LONGEST)
        while not fits(magnitudes.bound(source, exponent), max(target - source - exponent, 0)):
            exponent += 1
        op.attributes[WEIGHT_EXPONENT] = IntegerAttr(exponent, i64)
        return exponent != chosen
