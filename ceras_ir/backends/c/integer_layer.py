"""What the printers of quantized sums of products work with: one layer, analysed and named."""

from collections.abc import Sequence
from dataclasses import dataclass

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.requant import Rescaling
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.sums import Sums
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
