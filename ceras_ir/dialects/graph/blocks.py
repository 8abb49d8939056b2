"""
Matrix products and table lookups with packed weights that have a float scale for each block.

A row of weights is divided into blocks of `block` consecutive elements along the input axis. The
scales and zero points are operands, because there are too many for a type. The real weight is
`scale * (q - zero_point)`, with `q` an unsigned integer of `bits` bits: 2, 4 or 8. Without
`points`, all zero points are half of the range, `2^(bits - 1)`. Scales of f16 are converted to
float32, which is exact, before they are used.

Integers are stored as in MatMulNBits of ONNX Runtime: without gaps, the low bits of a byte first.
The last block of a row is complete; elements beyond the row are arbitrary.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    f16,
    f32,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.constant import ConstantOp, known_array
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    expect_rank,
    expect_shape,
    is_plain,
    shape_of,
)
from ceras_ir.dialects.quant import BYTE_BITS, unpacked

BLOCK_WIDTHS = (2, 4, 8)
"""The bits of an integer."""

STEP_BYTES = 4
"""The bytes of a row that products load together. A block has a multiple of them."""

UI8 = IntegerType(BYTE_BITS, Signedness.UNSIGNED)

Rows: TypeAlias = slice | NDArray[np.integer]
ALL = slice(None)


def block_unit(bits: int) -> int:
    """Return the number of elements of which a block has a multiple: 8 with 4 bits."""
    return STEP_BYTES * BYTE_BITS // bits


def unpacked_blocks(
    weights: NDArray[np.uint8], points: NDArray[np.uint8] | None, bits: int, size: int
) -> NDArray[np.int16]:
    """
    Return the integers of packed rows [N, bytes] minus their zero points: [N, blocks, size].
    `points` [N, blocks] are the zero points, or `None` for half of the range of `bits` bits.
    """
    flat = np.ascontiguousarray(weights).reshape(-1)
    integers = unpacked(flat, weights.size * BYTE_BITS // bits, bits)
    split = integers.reshape(len(weights), -1, size).astype(np.int16)
    return split - (1 << bits - 1 if points is None else points[..., None].astype(np.int16))


def real_weights(
    integers: NDArray[np.int16], scales: NDArray[np.float32], columns: int
) -> NDArray[np.float32]:
    """
    Return the products of the integers [N, blocks, size] and the scales [N, blocks] of their
    blocks, rounded to float32: [N, columns].
    """
    real = integers.astype(np.float32) * scales[..., None]
    return np.ascontiguousarray(real.reshape(len(integers), -1)[:, :columns])


def stored_scales(scales: NDArray[np.generic]) -> NDArray[np.floating]:
    """Return scales in float16 if this is exact, otherwise in float32."""
    wide = scales.astype(np.float32)
    with np.errstate(over="ignore"):
        half = wide.astype(np.float16)
    return half if (half == wide).all() else wide


class BlockOperation(GraphOperation, ABC):
    """An operation on constant packed weights [N, bytes] with constant scales [N, blocks]."""

    ADMITS_INTEGERS: ClassVar = True
    ADMITS_HALVES: ClassVar = True

    weights = operand_def(TensorType)
    scales = operand_def(TensorType)
    points = opt_operand_def(TensorType)
    bits = prop_def(IntegerAttr[IntegerType])
    block = prop_def(IntegerAttr[IntegerType])

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))

    @property
    def width(self) -> int:
        """The bits of an integer."""
        return self.bits.value.data

    @property
    def block_size(self) -> int:
        """The number of elements of a block."""
        return self.block.value.data

    @property
    def block_count(self) -> int:
        """The number of blocks of a row."""
        return shape_of(self.scales)[1]

    @property
    def spelling(self) -> str:
        return f"{super().spelling} {self.width} bits"

    def known_integers(self, rows: Rows = ALL) -> NDArray[np.int16]:
        """Return the integers of `rows` minus their zero points: [rows, blocks, block]."""
        points = None if self.points is None else known_array(self.points)[rows].astype(np.uint8)
        weights = known_array(self.weights)[rows].astype(np.uint8)
        return unpacked_blocks(weights, points, self.width, self.block_size)

    def known_scales(self, rows: Rows = ALL) -> NDArray[np.float32]:
        """Return the scales of `rows` in float32: [rows, blocks]."""
        return known_array(self.scales)[rows].astype(np.float32)

    def known_weights(self, columns: int, rows: Rows = ALL) -> NDArray[np.float32]:
        """Return the real weights of `rows`, rounded to float32: [rows, columns]."""
        return real_weights(self.known_integers(rows), self.known_scales(rows), columns)

    def verify_blocks(self, columns: int) -> None:
        """Check weights, scales and zero points of rows with `columns` elements."""
        if self.width not in BLOCK_WIDTHS:
            raise VerifyException(f"bits must be 2, 4 or 8, got {self.width}")
        unit, size = block_unit(self.width), self.block_size
        if size < 1 or size % unit:
            raise VerifyException(f"block must be a positive multiple of {unit}, got {size}")
        for name, value in (("weights", self.weights), ("scales", self.scales)):
            expect_rank(name, value, 2)
            if not isinstance(value.owner, ConstantOp):
                raise VerifyException(f"{name} must be a constant")
        if element_of(self.weights) != UI8:
            raise VerifyException(f"weights must be packed in ui8, got {element_of(self.weights)}")
        blocks, rows = -(-columns // size), shape_of(self.weights)[0]
        expect_shape("weights", self.weights, (rows, blocks * size * self.width // BYTE_BITS))
        expect_shape("scales", self.scales, (rows, blocks))
        if element_of(self.scales) not in (f16, f32):
            raise VerifyException(f"scales must be f16 or f32, got {element_of(self.scales)}")
        if self.points is not None:
            expect_shape("points", self.points, (rows, blocks))
            if element_of(self.points) != UI8 or not isinstance(self.points.owner, ConstantOp):
                raise VerifyException("points must be a constant of ui8")
        self._verify_values()

    def _verify_values(self) -> None:
        def known(value: SSAValue | None) -> NDArray[np.generic]:
            constant = None if value is None else value.owner
            if isinstance(constant, ConstantOp) and not constant.is_elided:
                return constant.array()
            return np.zeros(1, np.uint8)

        if not np.isfinite(known(self.scales)).all():
            raise VerifyException("scales must be finite")
        if (point := int(known(self.points).max())) >= 1 << self.width:
            raise VerifyException(f"points must be in [0, {(1 << self.width) - 1}], got {point}")


@irdl_op_definition
class BlockMatmulOp(BlockOperation):
    """
    Matrix product of `input` [M, K] with transposed packed weights [N, K]. A block of a row of the
    input is quantized to 8 bits:

    1. `m` is the largest magnitude. If it is below 2^-100, the scale `s` and all integers `x` are
       0. If it is infinite or the block contains NaN, `s` is NaN and all integers are 0.
    2. Otherwise `s = m / 127`, and `x = round(input * (127 / m))`. Each step is rounded to float32.

    `dot` is the exact sum of `x * (q - zero_point)` over a block, in 32 bits. The sums of blocks
    are added in order, each step rounded to float32, without fused steps:

    `acc = 0; for each block b: acc = acc + float32(dot[b]) * (s[b] * scale[b])`

    The result is `acc`, or `acc + bias`. After MatMulNBits of ONNX Runtime with `accuracy_level` 4.

        %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
        %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
        %y = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64}
            : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
    """

    name = "graph.block_matmul"

    input = operand_def(TensorType)
    bias = opt_operand_def(TensorType)

    assembly_format = (
        "$input `,` $weights `scales` $scales `:` type($scales) "
        "(`points` $points^ `:` type($points))? (`bias` $bias^ `:` type($bias))? "
        "attr-dict `:` `(` type($input) `,` type($weights) `)` `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        weights: SSAValue,
        scales: SSAValue,
        points: SSAValue | None = None,
        bias: SSAValue | None = None,
        *,
        bits: int,
        block: int,
    ):
        shape = (shape_of(input)[0], shape_of(weights)[0])
        super().__init__(
            operands=[input, bias, weights, scales, points],
            result_types=[TensorType(f32, shape)],
            properties={"bits": IntegerAttr(bits, i64), "block": IntegerAttr(block, i64)},
        )

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input,)

    @property
    def macs(self) -> int:
        (m, k), n = shape_of(self.input), shape_of(self.weights)[0]
        return m * n * k

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 2)
        if element_of(self.input) != f32:
            raise VerifyException(f"input must be f32, got {element_of(self.input)}")
        m, k = shape_of(self.input)
        self.verify_blocks(k)
        n = shape_of(self.weights)[0]
        expect_shape("result", self.result, (m, n))
        if element_of(self.result) != f32:
            raise VerifyException(f"result must be f32, got {element_of(self.result)}")
        if self.bias is not None:
            expect_shape("bias", self.bias, (n,))
            if element_of(self.bias) != f32:
                raise VerifyException(f"bias must be f32, got {element_of(self.bias)}")


@irdl_op_definition
class BlockTakeOp(BlockOperation):
    """
    Row `n` of the result [M, K] has the real values `scale * float32(q - zero_point)` of row
    `indices[n]` of the packed table `weights`, rounded to float32. A negative index counts from the
    end, and an index out of range is clamped. After GatherBlockQuantized of ONNX Runtime.

        %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
        %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
        %y = graph.block_take %w[%i] scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64}
            : (tensor<1x4xui8>, tensor<2xi64>) -> tensor<2x8xf32>
    """

    name = "graph.block_take"

    indices = operand_def(TensorType)

    assembly_format = (
        "$weights `[` $indices `]` `scales` $scales `:` type($scales) "
        "(`points` $points^ `:` type($points))? "
        "attr-dict `:` `(` type($weights) `,` type($indices) `)` `->` type($result)"
    )

    def __init__(
        self,
        weights: SSAValue,
        indices: SSAValue,
        scales: SSAValue,
        points: SSAValue | None = None,
        *,
        columns: int,
        bits: int,
        block: int,
    ):
        super().__init__(
            operands=[indices, weights, scales, points],
            result_types=[TensorType(f32, (shape_of(indices)[0], columns))],
            properties={"bits": IntegerAttr(bits, i64), "block": IntegerAttr(block, i64)},
        )

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return ()

    def verify_semantics(self) -> None:
        expect_rank("indices", self.indices, 1)
        if not is_plain(self.indices) or element_of(self.indices) == IntegerType(1):
            raise VerifyException(f"indices must be integers, got {element_of(self.indices)}")
        expect_rank("result", self.result, 2)
        columns = shape_of(self.result)[1]
        expect_shape("result", self.result, (shape_of(self.indices)[0], columns))
        if element_of(self.result) != f32:
            raise VerifyException(f"result must be f32, got {element_of(self.result)}")
        self.verify_blocks(columns)
