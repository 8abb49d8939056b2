"""Any function of one argument on stored integers, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import (
    InputOperation,
    quantized_element,
    shape_of,
    stored_element,
)
from ceras_ir.dialects.graph.traits import Elementwise, MayOverwrite

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@irdl_op_definition
class LookupOp(InputOperation):
    """
    `result = table[clamp(input, -n/2, n/2 - 1) + n/2]`, element by element, on stored int8 or
    int16: any function of one argument. `table` has n entries of the result's storage, int8 or
    int16: 256 where int8 is looked up, and up to 65536, a power of two, where int16 is.

    With `rows = array<i64: r0, r1, ...>` the table has several rows of n entries, and channel `c`
    (index of the last dimension) looks up in row `rows[c]`.
    """

    name = "graph.lookup"

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
    def tables(self) -> NDArray[np.int8 | np.int16]:
        """The tables, one a row."""
        import numpy as np

        type = self.table.type
        assert isinstance(type, TensorType)
        shape = (1, *type.get_shape())[-2:]
        bits = stored_element(self.result).storage.width.data
        stored = np.frombuffer(self.table.data.data, f"int{bits}")
        # One number stands for all of them.
        return np.broadcast_to(stored, prod(shape)).reshape(shape)

    @property
    def depends_on_channel(self) -> bool:
        return self.rows is not None or super().depends_on_channel

    @property
    def channel_rows(self) -> tuple[int, ...] | None:
        """Which table each channel uses, if they differ."""
        return None if self.rows is None else tuple(int(v) for v in self.rows.get_values())

    def verify_semantics(self) -> None:
        source, target = quantized_element(self.input), quantized_element(self.result)
        for value, element in ((self.result, target), (self.input, source)):
            bits = 0 if element is None else element.storage.width.data
            if element is None or bits not in (8, 16) or not element.is_signed:
                raise VerifyException(f"int8 or int16 elements expected, got {value.type}")
        assert source is not None and target is not None
        table = self.table.type
        shape: list[int] = list(table.get_shape()) if isinstance(table, TensorType) else []
        if len(shape) != (1 if self.rows is None else 2):
            raise VerifyException(f"one table, or 'rows' and a list of tables expected: {table}")
        if isinstance(table, TensorType) and table.element_type != target.storage:
            raise VerifyException(f"a table has entries of {target.storage}, got {table}")
        if source.storage.width.data == 8 and shape[-1] != 256:
            raise VerifyException(f"a table for int8 has 256 entries, got {table}")
        if shape[-1].bit_count() != 1 or not 256 <= shape[-1] <= self.LARGEST:
            raise VerifyException(
                f"a table for int16 has a power of two from 256 to {self.LARGEST} entries, "
                f"got {table}"
            )
        if (rows := self.channel_rows) is not None:
            channels = (1, *shape_of(self.input))[-1]
            if len(rows) != channels or any(not 0 <= r < shape[0] for r in rows):
                raise VerifyException(
                    f"a row below {shape[0]} for each of {channels} channels expected, "
                    f"got {list(rows)}"
                )
