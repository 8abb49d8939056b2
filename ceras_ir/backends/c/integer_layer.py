"""What the printers of quantized sums of products work with: one layer, analysed and named."""

from collections.abc import Sequence
from dataclasses import dataclass

from ceras_ir.backends.c.epilogue import multipliers, residual_factor, residual_factors
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.operands import quantized
from ceras_ir.backends.c.requant import Rescaling, rescaling
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.sums import Sums
from ceras_ir.backends.c.types import less, value_type, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation


@dataclass(frozen=True)
class IntegerLayer:
    """A quantized convolution or matrix product; names are those of its pointers."""

    layer: Layer
    op: LinearOperation
    geometry: Geometry
    sums: Sums
    rescale: Rescaling
    x: str
    y: str
    residual: str
    """Empty where there is none, as the next three."""
    multipliers: str
    """Of every output."""
    factors: str
    """Of the residuals of every output."""
    terms: Sequence[str]
    """What is added to a sum beside its bias: the residual."""
    bias: str = ""
    """The constant, once its printer has made it."""

    @classmethod
    def of(
        cls, layer: Layer, op: LinearOperation, geometry: Geometry, sums: Sums, padded: int
    ) -> "IntegerLayer":
        """Name the operands; arrays of every output have zeros up to `padded`."""
        requant = op.requant
        assert requant is not None
        scales = ""
        if requant.is_per_channel:
            scales = layer.array("multipliers", multipliers(op, padded), "int32_t")
        rescale = rescaling(
            requant,
            sums.bound,
            value_type(op.result),
            half_folded=sums.half_folded,
            multiplier=f"{scales}[{_channel(geometry, sums)}]" if scales else None,
            scaled_bound=sums.products_bound(requant),
        )
        x, y = layer.read(op.input, "x"), layer.write(op.result)
        terms: list[str] = []
        residual, factors = "", ""
        if op.residual is not None:
            residual = layer.read(op.residual, "residual")
            point = zero_point_of(quantized(op.residual, "residual"))
            term = less(f"{residual}[at + o]", point)
            term = f"({term})" if point else term
            factors = residual_factors(layer, op, padded)
            factor = residual_factor(factors, op, _channel(geometry, sums))
            cast = "(int64_t)" if rescale.type == "int64_t" and factor else ""
            terms.append(f"{cast}{term}{factor}")
        return cls(layer, op, geometry, sums, rescale, x, y, residual, scales, factors, terms)

    @property
    def window(self) -> Conv2dOp:
        """The operation, where it is known to be a convolution."""
        assert isinstance(self.op, Conv2dOp)
        return self.op

    def epilogue(self, *values: str) -> list[str]:
        """Statements that make of a sum of values the output `o` of the position at `at`."""
        return self.rescale.lines([*values, *self.terms], f"{self.y}[at + o]")

    def epilogue_at(self, value: str, distance: int) -> list[str]:
        """The same for one of a group's outputs, so far from its corner."""
        lines = self.epilogue(value)
        return [f"{{ const int32_t at = corner + {distance};", *(f"  {t}" for t in lines), "}"]


def _channel(geometry: Geometry, sums: Sums) -> str:
    """Which of all output channels `o` is."""
    in_columns = geometry.depthwise and sums.weight_type != "int32_t"
    grouped = geometry.groups > 1 and not in_columns
    return f"g * {geometry.n} + o" if grouped else "o"
