"""Bring the scales of a network together, so that only shifts remain (S1, section 3.1.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.quantizable import is_quantized, quantized_operations
from ceras_ir.analysis.ranges import WEIGHT_EXPONENT, set_exponent, weight_exponent
from ceras_ir.dialects import graph

if TYPE_CHECKING:
    from ceras_ir.analysis.accumulator_bounds import Magnitudes
    from ceras_ir.analysis.scale_classes import ScaleClasses

REQUANTIZATIONS = "graph.requantizations"
"""Attribute of the function: rescalings at run time `before` and `after` the alignment."""

MAX_SHIFT = 31
"""Of a shifter of 32-bit words."""


@dataclass(frozen=True)
class AlignScalesPass(ModulePass):
    """
    Choose the final `graph.exponent` of every value, so that as few values as possible must
    be rescaled at run time; `graph.requantizations` on the function counts them.

    A value whose only readers ask for another scale is made at that scale: the shift moves
    into its producer's own. Then, until nothing changes: a result is no finer than the
    accumulator it comes from, no shift exceeds 31, and no accumulator can exceed 32 bits;
    exponents are raised where that fails. Changes no value of the float network.
    """

    name = "align-scales"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        from ceras_ir.analysis.scale_classes import ScaleClasses, requantizations

        ops = quantized_operations(main)
        before = requantizations(ops)
        if isinstance(known := main.attributes.get(REQUANTIZATIONS), DictionaryAttr):
            # Aligned before: what was counted then is the truth.
            count = known.data["before"]
            before = count.value.data if isinstance(count, IntegerAttr) else before
        classes = ScaleClasses(ops)
        _Alignment(classes).run()
        for value in classes.root:
            set_exponent(value, classes[value])
        counts = {"before": before, "after": requantizations(ops)}
        main.attributes[REQUANTIZATIONS] = DictionaryAttr(
            {name: IntegerAttr(count, i64) for name, count in counts.items()}
        )


@dataclass
class _Alignment:
    """Raises exponents until every operation can be computed."""

    classes: ScaleClasses
    magnitudes: dict[Operation, Magnitudes] = field(default_factory=dict[Operation, "Magnitudes"])

    def run(self) -> None:
        # Exponents only grow and are bounded, so this ends.
        while sum(self._adjust(op) for op in self.classes.ops):
            pass

    def _adjust(self, op: Operation) -> bool:
        """Enforce the rules of one operation; whether an exponent changed."""
        match op:
            case graph.LinearOperation():
                changed = self._adjust_weights(op)
                accumulator = self.classes[op.input] + self._weights(op)
                return self.classes.coarsen(op.result, accumulator) or changed
            case graph.BinaryOp():
                lhs, rhs = self.classes[op.lhs], self.classes[op.rhs]
                finest = lhs + rhs if op.function is graph.Binary.MUL else min(lhs, rhs)
                return self.classes.coarsen(op.result, finest)
            case _:
                return False

    def _weights(self, op: graph.LinearOperation) -> int:
        known = weight_exponent(op)
        return self.classes[op.weights] if known is None else known

    def _adjust_weights(self, op: graph.LinearOperation) -> bool:
        """Coarsen constant weights until the accumulator fits 32 bits and the shift is legal."""
        from ceras_ir.analysis.accumulator_bounds import Magnitudes, fits

        chosen = weight_exponent(op)
        if chosen is None:
            return False
        if op not in self.magnitudes:
            self.magnitudes[op] = Magnitudes.of(op)
        magnitudes, source = self.magnitudes[op], self.classes[op.input]
        target = self.classes[op.result]
        exponent = max(chosen, target - source - MAX_SHIFT)
        while not fits(magnitudes.bound(source, exponent), max(target - source - exponent, 0)):
            exponent += 1
        op.attributes[WEIGHT_EXPONENT] = IntegerAttr(exponent, i64)
        return exponent != chosen
