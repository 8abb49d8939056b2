"""
Build scalar operations of the dialects arith, math, tensor and scf, for the body of a
`linalg.generic`.

Integers are signless, so a method with several meanings has a parameter for the sign. No operation
has fast-math flags: each float operation is rounded separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith, math, scf, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    f32,
    i32,
    i64,
)
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.graph.operation import element_of

INDEX = IndexType()
Carried = Sequence[SSAValue]
"""The values that a loop passes from an iteration to the next."""


def is_float(value: SSAValue) -> bool:
    """Return whether the type of a scalar is a float type."""
    return isinstance(value.type, AnyFloat)


def width_of(value: SSAValue) -> int:
    """Return the number of bits of a scalar, which must have an integer type."""
    assert is_integer(value.type)
    return value.type.width.data


class Scalars:
    """
    Adds scalar operations to the end of `block`, each with `location`. Methods return the result of
    the added operation.
    """

    def __init__(self, block: Block, location: LocationAttr):
        self.builder = Builder(InsertPoint.at_end(block))
        self.location = location

    def add_operation(self, op: Operation) -> SSAValue:
        """Add an operation with a single result, and return the result."""
        op.location = self.location
        self.builder.insert(op)
        return op.results[0]

    def end(self, op: Operation) -> None:
        """Add the terminator of the block."""
        op.location = self.location
        self.builder.insert(op)

    def integer(self, value: int, type: Attribute = i64) -> SSAValue:
        """Return a constant of `type`, which is an integer type or index."""
        if is_integer(type):
            return self.add_operation(arith.ConstantOp(IntegerAttr(value, type)))
        return self.add_operation(arith.ConstantOp(IntegerAttr.from_index_int_value(value)))

    def real(self, value: float) -> SSAValue:
        """Return a constant of type f32."""
        return self.add_operation(arith.ConstantOp(FloatAttr(value, f32)))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add_operation(arith.AddfOp(a, b) if is_float(a) else arith.AddiOp(a, b))

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add_operation(arith.SubfOp(a, b) if is_float(a) else arith.SubiOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add_operation(arith.MulfOp(a, b) if is_float(a) else arith.MuliOp(a, b))

    def div(self, a: SSAValue, b: SSAValue, *, signed: bool = True) -> SSAValue:
        """
        Return the quotient; of integers, it is rounded toward 0, and `b` must not be 0. `signed`
        applies to integers.
        """
        if is_float(a):
            return self.add_operation(arith.DivfOp(a, b))
        return self.add_operation(arith.DivSIOp(a, b) if signed else arith.DivUIOp(a, b))

    def shift_left(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add_operation(arith.ShLIOp(a, b))

    def shift_right(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return the integer `a / 2**b`, rounded down (arithmetic shift)."""
        return self.add_operation(arith.ShRSIOp(a, b))

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return the bitwise and."""
        return self.add_operation(arith.AndIOp(a, b))

    def either(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return the bitwise or."""
        return self.add_operation(arith.OrIOp(a, b))

    def differing(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return the bitwise exclusive or."""
        return self.add_operation(arith.XOrIOp(a, b))

    def min(self, a: SSAValue, b: SSAValue, *, signed: bool = True) -> SSAValue:
        """Return the minimum of two integers, compared as signed or unsigned."""
        return self.add_operation(arith.MinSIOp(a, b) if signed else arith.MinUIOp(a, b))

    def max(self, a: SSAValue, b: SSAValue, *, signed: bool = True) -> SSAValue:
        """Return the maximum of two integers, compared as signed or unsigned."""
        return self.add_operation(arith.MaxSIOp(a, b) if signed else arith.MaxUIOp(a, b))

    def clamp(self, a: SSAValue, low: int, high: int) -> SSAValue:
        """Return `a`, a signed integer, limited to [low, high]."""
        a = self.max(a, self.integer(low, a.type))
        return self.min(a, self.integer(high, a.type))

    def compare(self, kind: str, a: SSAValue, b: SSAValue, *, signed: bool = True) -> SSAValue:
        """
        Return an i1 that is 1 if the relation `kind` holds: `eq`, `ne`, `lt`, `le`, `gt` or `ge`.
        With NaN, only `ne` holds. `signed` applies to integers.
        """
        if is_float(a):
            prefix = "u" if kind == "ne" else "o"
            return self.add_operation(arith.CmpfOp(a, b, prefix + kind))
        prefix = "" if kind in ("eq", "ne") else "s" if signed else "u"
        return self.add_operation(arith.CmpiOp(a, b, prefix + kind))

    def is_nan(self, a: SSAValue) -> SSAValue:
        return self.compare("ne", a, a)

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return `a` if the i1 `condition` is 1, else `b`."""
        return self.add_operation(arith.SelectOp(condition, a, b))

    def neg(self, a: SSAValue) -> SSAValue:
        if is_float(a):
            return self.add_operation(arith.NegfOp(a))
        return self.sub(self.integer(0, a.type), a)

    def magnitude(self, a: SSAValue) -> SSAValue:
        """Return the absolute value of a float."""
        return self.add_operation(math.AbsFOp(a))

    def sqrt(self, a: SSAValue) -> SSAValue:
        return self.add_operation(math.SqrtOp(a))

    def floor(self, a: SSAValue) -> SSAValue:
        return self.add_operation(math.FloorOp(a))

    def ceil(self, a: SSAValue) -> SSAValue:
        return self.add_operation(math.CeilOp(a))

    def trunc(self, a: SSAValue) -> SSAValue:
        return self.add_operation(math.TruncOp(a))

    def rint(self, a: SSAValue) -> SSAValue:
        """Round a float to the nearest integer, ties to even."""
        return self.add_operation(math.RoundEvenOp(a))

    def leading_zeros(self, a: SSAValue) -> SSAValue:
        return self.add_operation(math.CountLeadingZerosOp(a))

    def resized(self, a: SSAValue, type: IntegerType, *, signed: bool = True) -> SSAValue:
        """
        Return an integer in the width of `type`: the low bits, or an extension by the sign
        (`signed`) or by zeros.
        """
        width = type.width.data
        if width == width_of(a):
            return a
        if width < width_of(a):
            return self.add_operation(arith.TruncIOp(a, type))
        extend = arith.ExtSIOp if signed else arith.ExtUIOp
        return self.add_operation(extend(a, type))

    def to_real(self, a: SSAValue, *, signed: bool = True) -> SSAValue:
        """
        Return an integer as f32, rounded to nearest, ties to even. `signed` specifies how the
        integer is read.
        """
        convert = arith.SIToFPOp if signed else arith.UIToFPOp
        return self.add_operation(convert(a, f32))

    def to_integer(self, a: SSAValue, type: IntegerType, *, signed: bool = True) -> SSAValue:
        """
        Return a float without the fraction as an integer of `type`, which must be able to hold it
        as a signed or unsigned (`signed`) integer.
        """
        convert = arith.FPToSIOp if signed else arith.FPToUIOp
        return self.add_operation(convert(a, type))

    def bits(self, a: SSAValue) -> SSAValue:
        """Return the bits of an f32 as i32."""
        return self.add_operation(arith.BitcastOp(a, i32))

    def of_bits(self, a: SSAValue) -> SSAValue:
        """Return the f32 with the bits of an i32."""
        return self.add_operation(arith.BitcastOp(a, f32))

    def index(self, dimension: int) -> SSAValue:
        """
        Return the index along `dimension` of the current iteration of the enclosing
        `linalg.generic`.
        """
        return self.add_operation(IndexOp(dimension))

    def as_index(self, a: SSAValue) -> SSAValue:
        """Return a signed integer as a value of type index."""
        return self.add_operation(arith.IndexCastOp(a, INDEX))

    def of_index(self, a: SSAValue, type: IntegerType) -> SSAValue:
        """Return a value of type index as an integer of `type`."""
        return self.add_operation(arith.IndexCastOp(a, type))

    def element(self, array: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
        """Return the element of the tensor `array` at `indices`, which are of type index."""
        return self.add_operation(tensor.ExtractOp(array, indices, element_of(array)))

    def loop(
        self,
        start: SSAValue,
        stop: SSAValue,
        step: int,
        initial: Carried,
        body: Callable[[Scalars, SSAValue, Carried], Carried],
    ) -> Carried:
        """
        Add a loop over the indices from `start` to `stop`, exclusive, in steps of `step`, and
        return the last carried values. `body` gets the index and the carried values, and returns
        the next; `initial` are the first.
        """
        block = Block(arg_types=(INDEX, *(value.type for value in initial)))
        inner = Scalars(block, self.location)
        carried = body(inner, block.args[0], block.args[1:])
        inner.end(scf.YieldOp(*carried))
        op = scf.ForOp(start, stop, self.integer(step, INDEX), list(initial), Region(block))
        op.location = self.location
        self.builder.insert(op)
        return op.results
