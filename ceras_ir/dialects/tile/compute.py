"""Operations of the `tile` dialect that compute on vectors, and poolings before expansion."""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    i8,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import window_output
from ceras_ir.dialects.tile.memory import (
    ACC,
    DRAM,
    INP,
    WGT,
    expect_indices,
    expect_scratchpad,
    memref_type,
    packed_vector,
    space_of,
    vector_of,
    vectors_in,
)


class _BoxOp(IRDLOperation):
    """
    An operation on boxes of vectors: nested loops, in each of which the position in a buffer
    advances by a stride.

    `extents` are the numbers of iterations, outermost loop first. `*_strides` are the distances in
    vectors by which each loop advances in a buffer. Indices select the first vector; omitted
    trailing indices are zero.
    """

    extents = prop_def(DenseArrayBase.constr(i64))

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))

    @property
    def loops(self) -> tuple[int, ...]:
        return tuple(self.extents.get_values())

    def verify_loops(self) -> None:
        if not self.loops or min(self.loops) < 1:
            raise VerifyException(f"extents must be at least 1, got {list(self.loops)}")

    def verify_operand(
        self,
        name: str,
        value: SSAValue,
        space: str,
        indices: int,
        strides: DenseArrayBase[IntegerType],
    ) -> None:
        expect_scratchpad(name, value, (space,))
        expect_indices(name, value, indices)
        steps = strides.get_values()
        if len(steps) != len(self.loops) or any(s < 0 for s in steps):
            raise VerifyException(
                f"{name} needs a stride of at least 0 for each of {len(self.loops)} loops, "
                f"got {list(steps)}"
            )
        reach = 1 + sum((e - 1) * s for e, s in zip(self.loops, steps, strict=True))
        size = prod(vectors_in(value))
        if reach > size:
            raise VerifyException(f"{name} has {size} vectors, the box reaches {reach}")


@irdl_op_definition
class ClearOp(_BoxOp):
    """
    Compute `target = 0` for `extents` consecutive accumulators (a single extent).

        tile.clear %acc[] {extents = array<i64: 12>} : memref<3x4x1x16xi32, "acc">
    """

    name = "tile.clear"

    target = operand_def(MemRefType)
    target_indices = var_operand_def(IndexType)

    assembly_format = "$target `[` $target_indices `]` attr-dict `:` type($target)"

    def __init__(self, target: SSAValue, indices: Sequence[SSAValue], count: int):
        super().__init__(operands=[target, indices], properties={"extents": integers((count,))})

    def verify_(self) -> None:
        self.verify_loops()
        self.verify_operand("target", self.target, ACC, len(self.target_indices), integers((1,)))


@irdl_op_definition
class GemmOp(_BoxOp):
    """
    Apply the matrix intrinsic over a box. Each iteration computes

    `acc += inp . transpose(wgt)`

    with int8 rows x inputs, an int8 tile of outputs x inputs, and wrapping int32 rows x outputs.
    Loops in which `acc` does not move are reductions, in any order.

        tile.gemm %acc[], %inp[], %wgt[]
            {extents = array<i64: 3, 4>, acc_strides = array<i64: 4, 1>,
             inp_strides = array<i64: 4, 1>, wgt_strides = array<i64: 0, 0>}
            : memref<3x4x1x16xi32, "acc">, memref<5x4x1x16xi8, "inp">, memref<1x16x16xi8, "wgt">
    """

    name = "tile.gemm"

    acc = operand_def(MemRefType)
    acc_indices = var_operand_def(IndexType)
    inp = operand_def(MemRefType)
    inp_indices = var_operand_def(IndexType)
    wgt = operand_def(MemRefType)
    wgt_indices = var_operand_def(IndexType)
    acc_strides = prop_def(DenseArrayBase.constr(i64))
    inp_strides = prop_def(DenseArrayBase.constr(i64))
    wgt_strides = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$acc `[` $acc_indices `]` `,` $inp `[` $inp_indices `]` `,` $wgt `[` $wgt_indices `]` "
        "attr-dict `:` type($acc) `,` type($inp) `,` type($wgt)"
    )

    def __init__(
        self,
        acc: tuple[SSAValue, Sequence[SSAValue]],
        inp: tuple[SSAValue, Sequence[SSAValue]],
        wgt: tuple[SSAValue, Sequence[SSAValue]],
        loops: Sequence[tuple[int, int, int, int]],
    ):
        """
        Create the operation. An operand is a buffer with indices. Each loop is a tuple: the number
        of iterations, and the strides in `acc`, `inp` and `wgt` in vectors.
        """
        extents, acc_strides, inp_strides, wgt_strides = zip(*loops, strict=True)
        super().__init__(
            operands=[*acc, *inp, *wgt],
            properties={
                "extents": integers(extents),
                "acc_strides": integers(acc_strides),
                "inp_strides": integers(inp_strides),
                "wgt_strides": integers(wgt_strides),
            },
        )

    def verify_(self) -> None:
        self.verify_loops()
        self.verify_operand("acc", self.acc, ACC, len(self.acc_indices), self.acc_strides)
        self.verify_operand("inp", self.inp, INP, len(self.inp_indices), self.inp_strides)
        self.verify_operand("wgt", self.wgt, WGT, len(self.wgt_indices), self.wgt_strides)
        (rows, inputs), (outputs, _) = vector_of(self.inp), vector_of(self.wgt)
        if vector_of(self.wgt)[1] != inputs or vector_of(self.acc) != (rows, outputs):
            shapes = [vector_of(value) for value in (self.inp, self.wgt, self.acc)]
            raise VerifyException(
                "vectors must be (rows, inputs) . (outputs, inputs) to (rows, outputs), got "
                f"{shapes[0]} . {shapes[1]} to {shapes[2]}"
            )


class AluFunction(StrEnum):
    """A function of int32 lanes, with wrapping arithmetic."""

    ADD = "add"
    MAX = "max"
    MIN = "min"
    SHR = "shr"
    """`target >> other`, arithmetic (floor); a negative amount shifts left."""


@irdl_attr_definition
class AluAttr(EnumAttribute[AluFunction], SpacedOpaqueSyntaxAttribute):
    name = "tile.alu"


@irdl_op_definition
class AluOp(_BoxOp):
    """
    Compute `target = kind(target, other)` in each iteration, where `other` is `source` or the
    `immediate` in each lane.

    All iterations use the values from before the operation: only a later iteration may write an
    operand. `uniform` has, for each vector of `source`, the value of all lanes, or -1. Then only
    the outermost loop steps over these vectors, with step 1.

        tile.alu add %acc[] with %bias[] : memref<1x1x16xi32, "acc">
            {extents = array<i64: 12>, target_strides = array<i64: 1>,
             source_strides = array<i64: 0>} : memref<3x4x1x16xi32, "acc">
    """

    name = "tile.alu"

    kind = prop_def(AluAttr)
    target = operand_def(MemRefType)
    target_indices = var_operand_def(IndexType)
    source = opt_operand_def(MemRefType)
    source_indices = var_operand_def(IndexType)
    target_strides = prop_def(DenseArrayBase.constr(i64))
    source_strides = opt_prop_def(DenseArrayBase.constr(i64))
    immediate = opt_prop_def(IntegerAttr[IntegerType])
    uniform = opt_prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$kind $target `[` $target_indices `]` "
        "(`with` $source^ `[` $source_indices `]` `:` type($source))? attr-dict "
        "`:` type($target)"
    )

    def __init__(
        self,
        kind: AluFunction,
        target: tuple[SSAValue, Sequence[SSAValue]],
        loops: Sequence[tuple[int, ...]],
        *,
        source: tuple[SSAValue, Sequence[SSAValue]] | None = None,
        immediate: int | None = None,
        uniform: Sequence[int] | None = None,
    ):
        """
        Create the operation. An operand is a buffer with indices. Each loop is a tuple: the number
        of iterations, and the strides in `target` and, if given, `source` in vectors.
        """
        columns = list(zip(*loops, strict=True))
        properties: dict[str, Attribute | None] = {
            "kind": AluAttr(kind),
            "extents": integers(columns[0]),
            "target_strides": integers(columns[1]),
            "source_strides": None if source is None else integers(columns[2]),
            "immediate": None if immediate is None else IntegerAttr(immediate, i64),
            "uniform": None if uniform is None else integers(uniform),
        }
        super().__init__(
            operands=[*target, *((None, []) if source is None else source)],
            properties=properties,
        )

    @property
    def function(self) -> AluFunction:
        return self.kind.data

    def verify_(self) -> None:
        if (self.source is None) == (self.immediate is None):
            raise VerifyException("expected either a source or an immediate")
        if (self.source is None) != (self.source_strides is None):
            raise VerifyException("source_strides belong to a source")
        if self.uniform is not None:
            strides = () if self.source_strides is None else self.source_strides.get_values()
            if any(stride != (i == 0) for i, stride in enumerate(strides)) or not strides:
                raise VerifyException("uniform belongs to a source with strides of 1, 0, ...")
        self.verify_loops()
        self.verify_operand(
            "target", self.target, ACC, len(self.target_indices), self.target_strides
        )
        if self.source is not None and self.source_strides is not None:
            indices = len(self.source_indices)
            self.verify_operand("source", self.source, ACC, indices, self.source_strides)
            if (got := vector_of(self.source)) != (expected := vector_of(self.target)):
                raise VerifyException(f"source must have vectors of {expected}, got {got}")


class _PoolOp(IRDLOperation):
    """Base class of poolings of packed feature maps in DRAM, by windows of rows and columns."""

    kernel = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))
    padding = prop_def(DenseArrayBase.constr(i64))

    irdl_options = (ParsePropInAttrDict(),)

    def __init__(
        self,
        operands: Sequence[SSAValue],
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        **numbers: int,
    ):
        windows = {"kernel": kernel, "strides": strides, "padding": padding}
        lists = {name: integers(values) for name, values in windows.items()}
        attributes = {name: IntegerAttr(value, i64) for name, value in numbers.items()}
        super().__init__(operands=operands, properties={**lists, **attributes})

    def verify_windows(
        self,
        source: SSAValue,
        target: SSAValue,
        *constants: tuple[str, SSAValue, tuple[int, ...]],
    ) -> None:
        """
        Check the windows and the types of operands. `constants` are other operands: the name, the
        value and the expected shape.
        """
        vector = packed_vector(source)
        for value in self.operands:
            if space_of(value) != DRAM:
                raise VerifyException(f"operands must be in memory dram, got {value.type}")
        for name, length in (("kernel", 2), ("strides", 2), ("padding", 4)):
            values = getattr(self, name).get_values()
            if len(values) != length or min(values) < (name != "padding"):
                raise VerifyException(f"{name} must be {length} integers, got {list(values)}")
        n, c, h, w, *_ = memref_type(source).get_shape()
        (kh, kw), (sh, sw) = self.kernel.get_values(), self.strides.get_values()
        top, left, bottom, right = self.padding.get_values()
        oh = window_output(h, top, bottom, kh, sh, 1)
        ow = window_output(w, left, right, kw, sw, 1)
        for name, value, expected in (
            ("input", source, (n, c, h, w, *vector)),
            *constants,
            ("output", target, (n, c, oh, ow, *vector)),
        ):
            element = i32 if name == "bias" else i8
            if memref_type(value).element_type != element:
                raise VerifyException(f"{name} must be {element}, got {value.type}")
            if (got := memref_type(value).get_shape()) != expected:
                raise VerifyException(f"{name} must have shape {expected}, got {got}")


@irdl_op_definition
class MaxPoolOp(_PoolOp):
    """
    Compute the maximum over windows of a packed buffer in DRAM, lane by lane:

    `output[n, c, y, x] = max over i, j of input[n, c, y*sh + i - top, x*sw + j - left]`

    Positions outside `input` have the value `least`. `identity` is the BxB unit matrix, which moves
    vectors to the accumulators. Types: int8.

        tile.max_pool %x, %identity to %y {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>,
            padding = array<i64: 1, 1, 0, 0>, least = -128 : i64}
            : memref<1x2x8x8x16xi8, "dram">, memref<16x16xi8, "dram">
            to memref<1x2x4x4x16xi8, "dram">
    """

    name = "tile.max_pool"

    input = operand_def(MemRefType)
    identity = operand_def(MemRefType)
    output = operand_def(MemRefType)
    least = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(0, i64))

    assembly_format = (
        "$input `,` $identity `to` $output attr-dict `:` type($input) `,` type($identity) `to` "
        "type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        identity: SSAValue,
        output: SSAValue,
        *,
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        least: int = 0,
    ):
        super().__init__([input, identity, output], kernel, strides, padding, least=least)

    def verify_(self) -> None:
        if not -128 <= (least := self.least.value.data) <= 0:
            raise VerifyException(f"least must be in [-128, 0], got {least}")
        identity = ("identity", self.identity, packed_vector(self.input)[-1:] * 2)
        self.verify_windows(self.input, self.output, identity)


@irdl_op_definition
class AveragePoolOp(_PoolOp):
    """
    Compute a scaled sum over windows of a packed buffer in DRAM, lane by lane:

    `sum[n, c, y, x, t] = sum over i, j of
       input[n, c, y*sh + i - top, x*sw + j - left] . transpose(weights[t])`
    `acc = sum[0]`, or `acc = (sum[0] << 7) + sum[1]` with two tiles of weights
    `output = clamp((acc + bias) >> shift, low, high)`

    Positions outside `input` contribute zero. Types: int8 input and output; weights [1 or 2, B, B],
    int8; bias [B], int32, with `addend` in each lane.

        tile.average_pool %x, %w, %b to %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
            padding = array<i64: 0, 0, 0, 0>, addend = 2, shift = 2, low = -128, high = 127}
            : memref<1x2x8x8x16xi8, "dram">, memref<1x16x16xi8, "dram">, memref<16xi32, "dram">
            to memref<1x2x4x4x16xi8, "dram">
    """

    name = "tile.average_pool"

    DIGIT_BITS: ClassVar = 7

    input = operand_def(MemRefType)
    weights = operand_def(MemRefType)
    bias = operand_def(MemRefType)
    output = operand_def(MemRefType)
    addend = prop_def(IntegerAttr[IntegerType])
    shift = prop_def(IntegerAttr[IntegerType])
    low = prop_def(IntegerAttr[IntegerType])
    high = prop_def(IntegerAttr[IntegerType])

    assembly_format = (
        "$input `,` $weights `,` $bias `to` $output attr-dict `:` type($input) `,` "
        "type($weights) `,` type($bias) `to` type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        weights: SSAValue,
        bias: SSAValue,
        output: SSAValue,
        *,
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        addend: int,
        shift: int,
        low: int,
        high: int,
    ):
        numbers = {"addend": addend, "shift": shift, "low": low, "high": high}
        super().__init__([input, weights, bias, output], kernel, strides, padding, **numbers)

    def verify_(self) -> None:
        tiles = memref_type(self.weights).get_shape()[0]
        if tiles not in (1, 2):
            raise VerifyException(f"expected one or two tiles of weights, got {tiles}")
        vector = packed_vector(self.input)
        weights = ("weights", self.weights, (tiles, *vector[-1:] * 2))
        bias = ("bias", self.bias, vector)
        self.verify_windows(self.input, self.output, weights, bias)
        if not 0 <= self.shift.value.data <= 31:
            raise VerifyException(f"shift must be in [0, 31], got {self.shift.value.data}")
        low, high = self.low.value.data, self.high.value.data
        if not -128 <= low <= high <= 127:
            raise VerifyException(f"[low, high] must be a range of int8, got [{low}, {high}]")
