"""
Operations of the `mem` dialect that put values into an accelerator's layout, and back: channels in
vectors of lanes.
"""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import (
    InputOperation,
    Tensor,
    element_of,
    expect_rank,
    shape_of,
)
from ceras_ir.dialects.graph.traits import CopiesAtBorder


def packed_shape(shape: Sequence[int], vector: Sequence[int]) -> tuple[int, ...]:
    """
    [N, H, W, C] -> [ceil(N/R), ceil(C/B), H, W, R, B]; [M, K] -> [ceil(K/B), ceil(M/R), R, B] for
    a `vector` of [R, B], or of [B], where R is 1 and no dimension.
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
        raise VerifyException("packing keeps the element type")


@irdl_op_definition
class PackOp(InputOperation):
    """
    Channels into vectors of B, the layout of an accelerator with a matrix intrinsic:
    `result[n, c / B, y, x, c % B] = input[n, y, x, c]`, or `result[k / B, m, k % B] = input[m, k]`.
    Where its vectors have R rows, they are of as many images, or rows of the matrix:
    `result[n / R, c / B, y, x, n % R, c % B]`, or `result[k / B, m / R, m % R, k % B]`.
    Lanes past the last channel and rows past the last image are zero.
    """

    name = "mem.pack"

    traits = traits_def(CopiesAtBorder())

    def __init__(self, input: SSAValue, vector: Sequence[int]):
        super().__init__(input, shape=packed_shape(shape_of(input), vector))

    def verify_semantics(self) -> None:
        _expect_packed(shape_of(self.input), self.result)
        _expect_same_type(self)


@irdl_op_definition
class PackWindowsOp(InputOperation):
    """
    Parts of an image side by side, then `mem.pack`: channel `(i * KW + j) * C + c` of position
    [y, x] is `input[n, y * sh + i - top, x * sw + j - left, c]` for a `kernel` of [KH, KW],
    `strides` of [sh, sw] and an `offset` of [top, left]. Outside of the image it is `value`. Behind
    these come channels that are the numbers of `constants` everywhere. The result says how many
    positions there are.
    """

    name = "mem.pack_windows"

    kernel = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))
    offset = prop_def(DenseArrayBase.constr(i64))
    value = prop_def(IntegerAttr[IntegerType])
    constants = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(CopiesAtBorder())

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
        """Of the parts before they are packed."""
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
    """The inverse of `mem.pack`; lanes and rows past the last are dropped."""

    name = "mem.unpack"

    traits = traits_def(CopiesAtBorder())

    def __init__(self, input: SSAValue, result_type: Tensor):
        shape, element = result_type.get_shape(), result_type.element_type
        super().__init__(input, shape=shape, element=element)

    def verify_semantics(self) -> None:
        _expect_packed(shape_of(self.result), self.input)
        _expect_same_type(self)
