"""Lookup tables on stored integers, and conversion between float and quantized elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float32Type,
    FloatAttr,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_prop_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import Elementwise, MayOverwrite, integers
from ceras_ir.dialects.graph.constant import numpy_dtype
from ceras_ir.dialects.graph.operation import (
    InputOperation,
    element_of,
    expect_storable,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.quant import RequantAttr, Rounding, RoundingAttr, UniformType

FUNCTION = "graph.function"
"""
Attribute of an operation with a table: the function that the table approximates, on real values.
"""

BYTE_ENTRIES = 256
"""The entries of a table for 8-bit integers."""


def table_shape(table: DenseIntOrFPElementsAttr) -> tuple[int, int]:
    """
    Return the number of tables, and the number of entries of each table: `tensor<2x256xi8>` -> (2,
    256), `tensor<256xi8>` -> (1, 256).
    """
    type = table.type
    assert isinstance(type, TensorType)
    rows, entries = (1, *type.get_shape())[-2:]
    return rows, entries


def table_arrays(
    table: DenseIntOrFPElementsAttr,
) -> NDArray[np.int8 | np.int16 | np.float32]:
    """Return the lookup tables of an attribute as an array [tables, entries]."""
    shape, element = table_shape(table), table.get_element_type()
    stored = np.frombuffer(table.data.data, numpy_dtype(element).name)
    # A splat table stores a single entry.
    return np.broadcast_to(stored, prod(shape)).reshape(shape)


def rows_of_channels(rows: DenseArrayBase[IntegerType] | None) -> tuple[int, ...] | None:
    """
    Return the index of the lookup table (a row of the table attribute) of each channel, or `None`
    if all channels share a table.
    """
    return None if rows is None else tuple(int(v) for v in rows.get_values())


def expect_tables(
    table: DenseIntOrFPElementsAttr,
    rows: DenseArrayBase[IntegerType] | None,
    storage: Attribute,
    channels: int,
) -> None:
    """
    Raise a `VerifyException` if the entries of lookup tables do not have the type `storage`, or if
    `rows` does not have the index of a table for each of `channels` channels.
    """
    type = table.type
    shape: list[int] = list(type.get_shape()) if isinstance(type, TensorType) else []
    if len(shape) != (1 if rows is None else 2):
        raise VerifyException(f"expected a single table, or 'rows' and several tables: {type}")
    if type.get_element_type() != storage:
        raise VerifyException(f"a table must have entries of {storage}, got {type}")
    listed = rows_of_channels(rows)
    if listed is not None and (
        len(listed) != channels or any(not 0 <= r < shape[0] for r in listed)
    ):
        raise VerifyException(
            f"expected a row below {shape[0]} for each of {channels} channels, got {list(listed)}"
        )


BYTE = IntegerType(8, Signedness.UNSIGNED)


@irdl_op_definition
class LookupOp(InputOperation):
    """
    `result = table[clamp(input, -n/2, n/2 - 1) + n/2]`, element by element, on stored int8 or
    int16. `table` has n entries in the storage of the result: int8, int16 or float32. n is 256 for
    int8, and a power of two up to 65536 for int16. For plain ui8, such as pixels, `result =
    table[input]` with 256 entries.

    With `rows = array<i64: r0, r1, ...>` the table has rows of n entries, and channel `c` uses row
    `rows[c]`.

        %y = graph.lookup %x, dense<3> : tensor<256xi8>
            : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
    """

    name = "graph.lookup"

    ADMITS_INTEGERS: ClassVar = True
    MAX_ENTRIES: ClassVar = 1 << 16

    table = prop_def(DenseIntOrFPElementsAttr)
    rows = opt_prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(Elementwise(), MayOverwrite())
    assembly_format = "$input `,` $table attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        input: SSAValue,
        table: DenseIntOrFPElementsAttr,
        result_element: Attribute,
        rows: Sequence[int] | None = None,
    ):
        properties = {"table": table, "rows": None if rows is None else integers(rows)}
        super().__init__(input, properties, element=result_element)

    @property
    def tables(self) -> NDArray[np.int8 | np.int16 | np.float32]:
        """The lookup tables, as an array [tables, entries]."""
        return table_arrays(self.table)

    @property
    def depends_on_channel(self) -> bool:
        return self.rows is not None or super().depends_on_channel

    @property
    def channel_rows(self) -> tuple[int, ...] | None:
        """
        The index of the lookup table (a row of `tables`) of each channel, or `None` if all channels
        share a table.
        """
        return rows_of_channels(self.rows)

    @property
    def has_pixel_input(self) -> bool:
        """Whether the input is ui8 without a scale, such as the pixels of an image."""
        return element_of(self.input) == BYTE

    def verify_semantics(self) -> None:
        source, target = quantized_element(self.input), quantized_element(self.result)
        for value, element in ((self.result, target), (self.input, source)):
            bits = 0 if element is None else element.storage.width.data
            if value is self.result and isinstance(element_of(value), Float32Type):
                continue
            if value is self.input and self.has_pixel_input:
                continue
            if element is None or bits not in (8, 16) or not element.is_signed:
                raise VerifyException(f"int8 or int16 elements expected, got {value.type}")
        storage = element_of(self.result) if target is None else target.storage
        expect_tables(self.table, self.rows, storage, (1, *shape_of(self.input))[-1])
        entries = table_shape(self.table)[1]
        if (source is None or source.storage.width.data == 8) and entries != BYTE_ENTRIES:
            kind = "ui8" if source is None else "int8"
            raise VerifyException(f"a table for {kind} has 256 entries, got {self.table.type}")
        if entries.bit_count() != 1 or not BYTE_ENTRIES <= entries <= self.MAX_ENTRIES:
            raise VerifyException(
                f"a table for int16 has a power of two from 256 to {self.MAX_ENTRIES} entries, "
                f"got {self.table.type}"
            )


@irdl_op_definition
class QuantizeOp(InputOperation):
    """
    Return `clamp(round(x / scale) + zero_point, low, high)` of the result's element type. NaN
    becomes the zero point. After ONNX `QuantizeLinear`, which rounds ties to even. With `rounding =
    #graph<rounding half_away>`, ties are away from zero, as in the kernels of TensorFlow Lite. A
    result of i1 is `x >= 0 ? 1 : -1`, after `BipolarQuant` of QONNX.

        %q = graph.quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    """

    name = "graph.quantize"

    rounding = opt_prop_def(RoundingAttr)

    traits = traits_def(Elementwise())

    def __init__(
        self, input: SSAValue, element: UniformType, rounding: Rounding = Rounding.HALF_EVEN
    ):
        is_even = rounding is Rounding.HALF_EVEN
        attribute = None if is_even else RoundingAttr(rounding)
        super().__init__(input, {"rounding": attribute}, element=element)

    @property
    def mode(self) -> Rounding:
        """The treatment of ties."""
        return Rounding.HALF_EVEN if self.rounding is None else self.rounding.data

    @property
    def has_kernel_form(self) -> bool:
        return self.mode is not Rounding.HALF_EVEN

    def verify_semantics(self) -> None:
        _expect_quantization(self)
        if self.rounding is not None and self.mode is not Rounding.HALF_AWAY:
            raise VerifyException(f"'rounding' must be half_away or absent, got {self.mode}")


@irdl_op_definition
class ScaledQuantizeOp(InputOperation):
    """
    Return `quantize(input * factor)`; see `graph.quantize`. The result has a single scale, and
    `factor` is finite.

        %q = graph.scaled_quantize %x {factor = 2.0 : f32}
            : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    """

    name = "graph.scaled_quantize"

    factor = prop_def(FloatAttr[Float32Type])

    traits = traits_def(Elementwise())

    def __init__(self, input: SSAValue, factor: float, element: UniformType):
        super().__init__(input, {"factor": FloatAttr(factor, f32)}, element=element)

    def verify_semantics(self) -> None:
        _expect_quantization(self)
        if not isfinite(self.factor.value.data):
            raise VerifyException(f"'factor' must be finite, got {self.factor.value.data}")
        element = quantized_element(self.result)
        if element is not None and element.is_per_axis:
            raise VerifyException(f"expected a single scale, got {element}")


def _expect_quantization(op: QuantizeOp | ScaledQuantizeOp) -> None:
    if quantized_element(op.input) is not None or quantized_element(op.result) is None:
        raise VerifyException(
            f"float to quantized expected, got {op.input.type} -> {op.result.type}"
        )


@irdl_op_definition
class DequantizeOp(InputOperation):
    """
    Return `(q - zero_point) * scale`. After ONNX `DequantizeLinear`.

        %x = graph.dequantize %q : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
    """

    name = "graph.dequantize"

    traits = traits_def(Elementwise())

    def __init__(self, input: SSAValue):
        super().__init__(input, element=f32)

    def verify_semantics(self) -> None:
        if quantized_element(self.input) is None or quantized_element(self.result) is not None:
            raise VerifyException(
                f"quantized to float expected, got {self.input.type} -> {self.result.type}"
            )


@irdl_op_definition
class RequantizeOp(InputOperation):
    """
    Return `requant(q - zero_point)`: the same real value at another scale, rounded.

        %y = graph.requantize %x
            {requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>}
            : (tensor<4x!quant.uniform<i16:f32, 0.0625>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    """

    name = "graph.requantize"

    requant = prop_def(RequantAttr)

    traits = traits_def(Elementwise(), MayOverwrite())

    def __init__(self, input: SSAValue, element: UniformType, requant: RequantAttr):
        super().__init__(input, {"requant": requant}, element=element)

    def verify_semantics(self) -> None:
        if quantized_element(self.input) is None:
            raise VerifyException(f"quantized input expected, got {self.input.type}")
        if self.requant.is_per_channel:
            raise VerifyException("'requant' must have a single multiplier")
        expect_storable(self.result, self.requant)
