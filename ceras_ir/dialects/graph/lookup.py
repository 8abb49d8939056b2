"""Any function of one argument on stored integers, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float32Type,
    IntegerType,
    Signedness,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import (
    InputOperation,
    element_of,
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
from ceras_ir.dialects.graph.traits import Elementwise, MayOverwrite

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BYTE = IntegerType(8, Signedness.UNSIGNED)


@irdl_op_definition
class LookupOp(InputOperation):
    """
    `result = table[clamp(input, -n/2, n/2 - 1) + n/2]`, element by element, on stored int8 or
    int16: any function of one argument. `table` has n entries of the result's storage, int8,
    int16 or float32: 256 where int8 is looked up, and up to 65536, a power of two, where int16 is.
    Plain ui8, such as pixels, are looked up in 256 entries as they are: `result = table[input]`.

    With `rows = array<i64: r0, r1, ...>` the table has several rows of n entries, and channel `c`
    (index of the last dimension) looks up in row `rows[c]`.
    """

    name = "graph.lookup"

    ADMITS_INTEGERS: ClassVar = True
    LARGEST: ClassVar = 1 << 16

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
        """The tables, one a row."""
        return table_arrays(self.table)

    @property
    def depends_on_channel(self) -> bool:
        return self.rows is not None or super().depends_on_channel

    @property
    def channel_rows(self) -> tuple[int, ...] | None:
        """Which table each channel uses, if they differ."""
        return rows_of_channels(self.rows)

    @property
    def reads_pixels(self) -> bool:
        """Whether plain ui8 are looked up."""
        return element_of(self.input) == BYTE

    def verify_semantics(self) -> None:
        source, target = quantized_element(self.input), quantized_element(self.result)
        for value, element in ((self.result, target), (self.input, source)):
            bits = 0 if element is None else element.storage.width.data
            if value is self.result and isinstance(element_of(value), Float32Type):
                continue
            if value is self.input and self.reads_pixels:
                continue
            if element is None or bits not in (8, 16) or not element.is_signed:
                raise VerifyException(f"int8 or int16 elements expected, got {value.type}")
        storage = element_of(self.result) if target is None else target.storage
        expect_tables(self.table, self.rows, storage, (1, *shape_of(self.input))[-1])
        entries = table_shape(self.table)[1]
        if (source is None or source.storage.width.data == 8) and entries != BYTE_ENTRIES:
            read = "ui8" if source is None else "int8"
            raise VerifyException(f"a table for {read} has 256 entries, got {self.table.type}")
        if entries.bit_count() != 1 or not BYTE_ENTRIES <= entries <= self.LARGEST:
            raise VerifyException(
                f"a table for int16 has a power of two from 256 to {self.LARGEST} entries, "
                f"got {self.table.type}"
            )
