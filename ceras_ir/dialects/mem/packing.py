"""Operations of the `mem` dialect that convert layouts at the border of an accelerator."""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import ConvertsLayout, integers
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    Tensor,
    element_of,
    expect_rank,
    expect_shape,
    quantized_element,
    shape_of,
)


def packed_shape(shape: Sequence[int], vector: Sequence[int]) -> tuple[int, ...]:
    """
    Return the shape of a tensor with channels packed in vectors of B lanes. `vector` is [B], or [R,
    B] for vectors that contain R images or rows of a matrix.

    [N, H, W, C] -> [ceil(N/R), ceil(C/B), H, W, R, B]; [M, K] -> [ceil(K/B), ceil(M/R), R, B]. For
    a `vector` of [B], R is 1, and the result has no axis for it.
    """
    rows, blocks = -(-shape[0] // prod(vector[:-1])), -(-shape[-1] // vector[-1])
    if len(shape) == 4:
        return (rows, blocks, shape[1], shape[2], *vector)
    if len(shape) == 2:
        return (blocks, rows, *vector)
    raise VerifyException(f"only tensors of rank 2 and 4 can be packed, got shape {tuple(shape)}")


def _expect_packed(shape: Sequence[int], packed: SSAValue) -> None:
    vector = shape_of(packed)[len(shape) :]
    if len(vector) not in (1, 2) or min(vector) < 1:
        raise VerifyException(f"a packed shape ends with [B] or [R, B], got {shape_of(packed)}")
    if shape_of(packed) != (expected := packed_shape(shape, vector)):
        raise VerifyException(f"packed shape must be {expected}, got {shape_of(packed)}")


def _expect_same_type(op: InputOperation) -> None:
    if element_of(op.input) != element_of(op.output):
        raise VerifyException("input and result must have the same element type")


@irdl_op_definition
class PackOp(InputOperation):
    """
    Pack channels into vectors of B lanes, the layout of an accelerator with a matrix intrinsic:
    `result[n, c / B, y, x, c % B] = input[n, y, x, c]`, or `result[k / B, m, k % B] = input[m, k]`.
    A vector with R rows contains R images, or rows of the matrix: `result[n / R, c / B, y, x, n %
    R, c % B]`, or `result[k / B, m / R, m % R, k % B]`. Lanes after the last channel and rows after
    the last image are zero.

        %p = mem.pack %x : (tensor<1x8x8x3x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<1x1x8x8x16x!quant.uniform<i8:f32, 0.5>>
    """

    name = "mem.pack"

    traits = traits_def(ConvertsLayout())

    def __init__(self, input: SSAValue, vector: Sequence[int]):
        super().__init__(input, shape=packed_shape(shape_of(input), vector))

    def verify_semantics(self) -> None:
        _expect_packed(shape_of(self.input), self.result)
        _expect_same_type(self)


@irdl_op_definition
class PackWindowsOp(InputOperation):
    """
    Pack the windows of an image as channels (im2col): channel `(i * KW + j) * C + c` of position
    [y, x] is `input[n, y * sh + i - top, x * sw + j - left, c]` for a `kernel` of [KH, KW],
    `strides` of [sh, sw] and an `offset` of [top, left]. Outside of the image it is `value`. The
    following channels have the values of `constants`. The shape of the result specifies the number
    of positions.

        %p = mem.pack_windows %x {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>,
            offset = array<i64: 1, 0>, value = -9 : i64, constants = array<i64>}
            : (tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5>>
    """

    name = "mem.pack_windows"

    kernel = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))
    offset = prop_def(DenseArrayBase.constr(i64))
    value = prop_def(IntegerAttr[IntegerType])
    constants = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(ConvertsLayout())

    def __init__(
        self,
        input: SSAValue,
        shape: Sequence[int],
        *,
        kernel: Sequence[int],
        strides: Sequence[int],
        offset: Sequence[int],
        value: int,
        constants: Sequence[int] = (),
    ):
        properties: dict[str, Attribute] = {
            "kernel": integers(kernel),
            "strides": integers(strides),
            "offset": integers(offset),
            "value": IntegerAttr(value, i64),
            "constants": integers(constants),
        }
        super().__init__(input, properties, shape=shape)

    @property
    def plain_shape(self) -> tuple[int, ...]:
        """
        The shape [N, H, W, C] of the gathered windows before packing, in which C counts the
        elements of a window and the constants.
        """
        n, *_, channels = shape_of(self.input)
        parts = channels * prod(self.kernel.get_values())
        return n, *shape_of(self.result)[2:4], parts + len(self.constants)

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 4)
        for name in ("kernel", "strides", "offset"):
            values = getattr(self, name).get_values()
            if len(values) != 2 or min(values) < (name != "offset"):
                raise VerifyException(f"{name} must have two extents, got {list(values)}")
        if len(shape_of(self.result)) < 5:
            raise VerifyException(f"a packed image has rank 5 or 6, got {shape_of(self.result)}")
        _expect_packed(self.plain_shape, self.result)
        _expect_same_type(self)


@irdl_op_definition
class UnpackOp(InputOperation):
    """
    Invert `mem.pack`; padding lanes and rows are dropped.

        %x = mem.unpack %p : (tensor<1x1x8x8x16x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<1x8x8x3x!quant.uniform<i8:f32, 0.5>>
    """

    name = "mem.unpack"

    traits = traits_def(ConvertsLayout())

    def __init__(self, input: SSAValue, result_type: Tensor):
        shape, element = result_type.get_shape(), result_type.element_type
        super().__init__(input, shape=shape, element=element)

    def verify_semantics(self) -> None:
        _expect_packed(shape_of(self.result), self.input)
        _expect_same_type(self)


@irdl_op_definition
class PackTilesOp(InputOperation):
    """
    Pack computed weights [N, K] of a matrix product into tiles of B x B: `result[n / B, k / B, 0,
    0, n % B, k % B] = input[n, k]`. For an input [K, N] that is `transposed`, it is `input[k, n]`.
    Rows and lanes after the last are zero.

        %tiles = mem.pack_tiles %w : (tensor<20x7x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>
    """

    name = "mem.pack_tiles"

    transposed = opt_prop_def(UnitAttr)

    traits = traits_def(ConvertsLayout())

    def __init__(self, input: SSAValue, lanes: int, *, transposed: bool = False):
        n, k = shape_of(input)[::-1] if transposed else shape_of(input)
        shape = (-(-n // lanes), -(-k // lanes), 1, 1, lanes, lanes)
        super().__init__(input, {"transposed": UnitAttr() if transposed else None}, shape=shape)

    @property
    def plain_shape(self) -> tuple[int, int]:
        """The shape `(N, K)` of the weights before packing."""
        rows, columns = shape_of(self.input)
        return (rows, columns) if self.transposed is None else (columns, rows)

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 2)
        expect_rank("result", self.result, 6)
        lanes = shape_of(self.result)[-1]
        n, k = (-(-extent // lanes) for extent in self.plain_shape)
        expect_shape("result", self.result, (n, k, 1, 1, lanes, lanes))
        _expect_same_type(self)


@irdl_op_definition
class FoldZeroPointOp(GraphOperation):
    """
    Subtract the contribution of an input zero point to products with computed `tiles` from `bias`,
    in int32: `result[o, .., b] = bias[o, .., b] - zero_point * sum over c, k of tiles[o, c, 0, 0,
    b, k]` for a bias [O/B, B], or [O/B, R, B] with equal rows. The sum must be proven to fit 32
    bits.

        %c = mem.fold_zero_point %b, %tiles {zero_point = -128 : i64}
            : (tensor<2x16x!quant.uniform<i32:f32, 0.25>>,
            tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<2x16x!quant.uniform<i32:f32, 0.25>>
    """

    name = "mem.fold_zero_point"

    bias = operand_def(TensorType)
    tiles = operand_def(TensorType)
    zero_point = prop_def(IntegerAttr[IntegerType])

    assembly_format = "$bias `,` $tiles attr-dict `:` functional-type(operands, results)"

    def __init__(self, bias: SSAValue, tiles: SSAValue, zero_point: int):
        super().__init__(
            operands=[bias, tiles],
            result_types=[TensorType(element_of(bias), shape_of(bias))],
            properties={"zero_point": IntegerAttr(zero_point, i64)},
        )

    def verify_semantics(self) -> None:
        expect_rank("tiles", self.tiles, 6)
        blocks, *_, lanes, _ = shape_of(self.tiles)
        shape = shape_of(self.bias)
        if len(shape) not in (2, 3) or (shape[0], shape[-1]) != (blocks, lanes):
            raise VerifyException(
                f"bias must be [{blocks}, {lanes}] or [{blocks}, R, {lanes}], got shape {shape}"
            )
        expect_shape("result", self.result, shape)
        if element_of(self.result) != element_of(self.bias):
            raise VerifyException("the result and the bias must have the same element type")
        for name, value, bits in (("bias", self.bias, 32), ("tiles", self.tiles, 8)):
            element = quantized_element(value)
            if element is None or not element.is_signed or element.storage.width.data != bits:
                raise VerifyException(f"{name} must be stored in int{bits}, got {value.type}")
