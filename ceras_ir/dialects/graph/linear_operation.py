"""The base of operations that multiply and accumulate; `linear` says what the epilogue means."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.attributes import FunctionAttr, integers
from ceras_ir.dialects.graph.constant import ConstantOp
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    expect_rescaling,
    expect_shape,
    only_clips,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.graph.tables import (
    BYTE_ENTRIES,
    expect_tables,
    rows_of_channels,
    table_arrays,
    table_shape,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.dialects.sparse import Encoded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
MAX_RESIDUAL_SHIFT = 23
"""A residual of 8 bits shifted further would not fit the 32-bit accumulator."""

MAX_TAPS, MAX_COMPUTED_TAPS = 1 << 22, 1 << 16
"""Products per accumulator that a quantized form with constant or computed weights may have."""


class LinearOperation(GraphOperation, ABC):
    """A multiply-accumulate operation with the common epilogue."""

    input = operand_def(TensorType)
    weights = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    activation = opt_prop_def(FunctionAttr)
    requant = opt_prop_def(RequantAttr)
    residual_shift = opt_prop_def(IntegerAttr[IntegerType] | DenseArrayBase[IntegerType])
    ordered = opt_prop_def(UnitAttr)
    table = opt_prop_def(DenseIntOrFPElementsAttr)
    rows = opt_prop_def(DenseArrayBase.constr(i64))

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$input `,` $weights (`bias` $bias^ `:` type($bias))? "
        "(`residual` $residual^ `:` type($residual))? "
        "attr-dict `:` `(` type($input) `,` type($weights) `)` `->` type($result)"
    )

    @property
    def is_quantized(self) -> bool:
        # A table may make floats of the integers.
        return self.table is not None or super().is_quantized

    @property
    def tables(self) -> NDArray[np.int8 | np.int16 | np.float32] | None:
        """The tables of the epilogue, one a row."""
        return None if self.table is None else table_arrays(self.table)

    @property
    def channel_rows(self) -> tuple[int, ...] | None:
        """Which table each output channel uses, if they differ."""
        return rows_of_channels(self.rows)

    @property
    def residual_shifts(self) -> tuple[int, ...]:
        """
        By how many bits a quantized residual is moved left: one number for all output channels, or
        one for each; 0 without a residual.
        """
        match self.residual_shift:
            case None:
                return (0,)
            case IntegerAttr(value=value):
                return (value.data,)
            case shifts:
                return tuple(shifts.get_values())

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        weights = () if isinstance(self.weights.owner, ConstantOp) else (self.weights,)
        residual = () if self.residual is None else (self.residual,)
        return (self.input, *weights, *residual)

    @property
    def rescales(self) -> bool:
        # A computed bias would have to come at the scale of the accumulator.
        computed = self.bias is not None and not isinstance(self.bias.owner, ConstantOp)
        if computed or not only_clips(self.activation):
            return False
        # With more products no scale of the weights would keep the accumulator in 32 bits.
        constant = isinstance(self.weights.owner, ConstantOp)
        taps = prod(shape_of(self.weights)[1:])
        return taps < (MAX_TAPS if constant else MAX_COMPUTED_TAPS)

    @property
    def macs(self) -> int:
        """Multiplications of one inference, taps in the padding included."""
        return prod(shape_of(self.result)) * prod(shape_of(self.weights)[1:])

    @property
    def shares_nothing(self) -> bool:
        """Whether every channel is computed of one other, as in depthwise convolutions."""
        return False

    @property
    def encoded_weights(self) -> Encoded | None:
        """The encoding of constant weights; None where every weight is there."""
        constant = self.weights.owner
        return constant.encoded if isinstance(constant, ConstantOp) else None

    @property
    def weight_scale(self) -> float | None:
        """S of int8 weights beside floats; see the module."""
        element = quantized_element(self.weights)
        return None if element is None or self.is_quantized else element.scale

    @property
    def spelling(self) -> str:
        encoded = self.encoded_weights
        words = [super().spelling, *([] if encoded is None else [encoded.spelling])]
        if self.table is not None:
            tabulated = self.attributes.get("graph.function")
            known = isinstance(tabulated, FunctionAttr)
            words += [tabulated.kind.value if known else "table"]
        return " ".join([*words, *([] if self.weight_scale is None else ["int8"])])

    def _verify_mixed(self, element: UniformType) -> None:
        """Floats with weights that are stored as integers."""
        others = (self.input, self.bias, self.residual, self.result)
        if any(v is not None and quantized_element(v) is not None for v in others):
            raise VerifyException("operands and result must be all float or all quantized")
        if self.ordered is None:
            raise VerifyException(
                "operands and result must be all float or all quantized, but for the weights of "
                "'ordered' sums"
            )
        if not _is_plain_int8(element):
            raise VerifyException(
                "weights beside floats must be f32, or i8 with one scale and no zero point, "
                f"got {element}"
            )
        if self.requant is not None:
            raise VerifyException("a float operation cannot have 'requant'")

    def verify_epilogue(self, channels: int) -> None:
        if self.bias is not None:
            expect_shape("bias", self.bias, (channels,))
            element = quantized_element(self.bias)
            if element is not None and element.storage.width.data != 32:
                raise VerifyException(f"bias must be stored in 32 bits, got {element.storage}")
        if self.residual is not None:
            expect_shape("residual", self.residual, shape_of(self.result))
        if self.residual_shift is not None:
            if self.residual is None or not self.is_quantized:
                raise VerifyException("'residual_shift' needs a quantized residual")
            shifts = self.residual_shifts
            if isinstance(self.residual_shift, DenseArrayBase) and len(shifts) != channels:
                raise VerifyException(
                    f"'residual_shift' has {len(shifts)} shifts, expected {channels}"
                )
            for shift in shifts:
                if not 0 <= shift <= MAX_RESIDUAL_SHIFT:
                    raise VerifyException(
                        f"residual_shift must be in [0, {MAX_RESIDUAL_SHIFT}], got {shift}"
                    )
        if (element := quantized_element(self.weights)) is not None and not self.is_quantized:
            self._verify_mixed(element)
            return
        if self.ordered is not None and self.is_quantized:
            raise VerifyException("'ordered' is of floats; integer sums are exact in any order")
        if self.activation is not None and self.is_quantized:
            raise VerifyException(
                "a quantized operation clamps in 'requant'; other functions are 'graph.lookup'"
            )
        if self.table is not None:
            self._verify_table(channels)
            return
        if self.rows is not None:
            raise VerifyException("'rows' needs a 'table'")
        expect_rescaling(self, self.requant, channels)

    def _verify_table(self, channels: int) -> None:
        """A table of bytes behind a requantization to int8."""
        assert self.table is not None
        target = quantized_element(self.result)
        storage = element_of(self.result) if target is None else target.storage
        if target is not None and not (target.is_signed and target.storage.width.data == 8):
            raise VerifyException(f"a table makes int8 or f32, got {self.result.type}")
        expect_tables(self.table, self.rows, storage, channels)
        if (entries := table_shape(self.table)[1]) != BYTE_ENTRIES:
            raise VerifyException(f"a table for int8 has {BYTE_ENTRIES} entries, got {entries}")
        if any(quantized_element(v) is None for v in self.operands) or self.requant is None:
            raise VerifyException("a 'table' needs quantized operands and 'requant'")
        if self.requant.is_per_channel and len(self.requant.channels) != channels:
            raise VerifyException(
                f"'requant' has {len(self.requant.channels)} multipliers, expected {channels}"
            )
        if not -128 <= self.requant.low.data <= self.requant.high.data <= 127:
            raise VerifyException("the clamp range in front of a table must be that of int8")


def _is_plain_int8(element: UniformType) -> bool:
    is_byte = element.is_signed and element.storage.width.data == 8
    return is_byte and not element.is_per_axis and element.zero_point == 0


def shifts_of_channels(shifts: Sequence[int]) -> IntegerAttr | DenseArrayBase[IntegerType]:
    """`residual_shift` of shifts of one channel after the other: one number where all are equal."""
    return IntegerAttr(shifts[0], i64) if len(set(shifts)) == 1 else integers(shifts)


def epilogue_properties(
    activation: FunctionAttr | None,
    requant: RequantAttr | None,
    residual_shift: int | Sequence[int] | None,
) -> dict[str, Attribute | None]:
    shifts = (residual_shift,) if isinstance(residual_shift, int) else residual_shift
    return {
        "activation": activation,
        "requant": requant,
        "residual_shift": None if shifts is None else shifts_of_channels(shifts),
    }
