"""How the left factors of a convolution become contiguous rows, and the loop over them."""

from dataclasses import dataclass, replace
from math import prod

from xdsl.ir import SSAValue

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.types import value_type
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, Pool2dOp, shape_of


@dataclass(frozen=True)
class Geometry:
    """A multiply-accumulate operation as `positions` rows times `groups` matrices [k, n]."""

    positions: int
    k: int
    """Products per output."""
    n: int
    """Outputs per group."""
    groups: int
    taken: int
    """Input channels per group."""
    direct: bool
    """Rows lie in the input as they are: a matrix product, or a 1x1 window of stride 1."""
    depthwise: bool

    @classmethod
    def of(cls, op: LinearOperation) -> "Geometry":
        outputs, *kernel = shape_of(op.weights)
        positions, k = prod(shape_of(op.result)[:-1]), prod(kernel)
        if not isinstance(op, Conv2dOp):
            return cls(positions, k, outputs, 1, k, direct=True, depthwise=False)
        groups, taken = op.group_count, kernel[2]
        direct = (
            groups == 1
            and kernel[:2] == [1, 1]
            and op.strides.get_values() == (1, 1)
            and not any(op.padding.get_values())
        )
        depthwise = taken == 1 and groups == outputs and groups > 1
        return cls(positions, k, outputs // groups, groups, taken, direct, depthwise)

    def together(self, count: int) -> "Geometry":
        """The same with so many groups as one."""
        return replace(
            self, k=self.k * count, n=self.n * count, groups=self.groups // count,
            taken=self.taken * count,
        )  # fmt: skip


def window(layer: Layer, op: Conv2dOp | Pool2dOp) -> str:
    """Declare the window of an operation; returns the expression for its address."""
    _, height, width, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    kernel = shape_of(op.weights)[1:3] if isinstance(op, Conv2dOp) else op.kernel.get_values()
    top, left = op.padding.get_values()[:2]
    layer.kernels.use("window")
    layer.line("static const struct window window = {")
    layer.line(f"{height}, {width}, {channels}, {rows}, {columns}, /* map, then positions */", 1)
    numbers = (*kernel, *op.strides.get_values(), top, left, *op.dilations.get_values())
    layer.line(", ".join(map(str, numbers)) + "};", 1)
    return "&window"


def rows_at_once(layer: Layer, geometry: Geometry, bytes_per_row: int) -> int:
    """How many rows the workspace has room for; even, since kernels take two at a time."""
    room = min(layer.options.workspace // bytes_per_row, layer.options.MAX_ROWS)
    return min(max(room - room % 2, 1), geometry.positions)


def open_row_loop(layer: Layer, geometry: Geometry, rows: int) -> int:
    """Begin the loop over blocks of `rows` positions; returns the depth of its body."""
    if rows == geometry.positions:
        layer.line("{")
        layer.line(f"const int32_t first = 0, count = {rows};", 1)
    else:
        layer.line(f"for (int32_t first = 0; first < {geometry.positions}; first += {rows}) {{")
        if geometry.positions % rows:
            rest = f"{geometry.positions} - first"
            layer.line(f"const int32_t count = {rest} < {rows} ? {rest} : {rows};", 1)
        else:
            layer.line(f"const int32_t count = {rows};", 1)
    return 1


UNSIGNED_OFFSET = 128
"""What is taken off unsigned bytes, so that their rows are like those of signed ones."""


def row_type(value: SSAValue) -> tuple[str, str]:
    """
    The type of row elements for an integer operand, and how a stored number becomes one: wide
    enough for itself and its border, narrow enough for dot-product instructions.
    """
    match value_type(value):
        case "int8_t":
            return "model_row", " + MODEL_ROW_OFFSET"
        case "uint8_t":
            return "model_row", f" - {UNSIGNED_OFFSET} + MODEL_ROW_OFFSET"
        case "int16_t":
            return "int16_t", ""
        case "uint16_t" | "int32_t":
            return "int32_t", ""
        case other:
            raise AssertionError(other)


ROW_TYPES = {"model_row": ("bytes", 2), "int16_t": ("i16", 2), "int32_t": ("i32", 4)}
"""What functions of a row type are called, and the most bytes that an element has."""


def dot_rows(layer: Layer, row: str, weight: str) -> str:
    """The products of rows; of bytes with Arm's vectors where there are."""
    neon = ("", "")
    if row == "model_row" and layer.options.vectors:
        function = layer.kernels.use("dots_neon")
        neon = (
            f"#if MODEL_NEON\n  {function}(count, k, rows, n, k, weights, sums);\n#else\n",
            "#endif\n",
        )
    holes = {"NAME": f"{ROW_TYPES[row][0]}_{weight}", "ROW": row, "WEIGHT": weight}
    return layer.kernels.use("dot_rows", NEON=neon[0], END=neon[1], **holes)
