"""
The interface of the importers of operations: an operation of the text with values.

Parameters are attributes in older MLIR, and operands of constants in newer MLIR; both are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i1, i8, i16, i32, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import element_of, quantized_element
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.values import Constant
from ceras_ir.frontends.onnx.emission.values import Value as EmittedValue
from ceras_ir.frontends.tosa.text.attributes import (
    OPEN,
    Attribute,
    Elements,
    OtherType,
    TensorText,
    Type,
    dtype_of,
)
from ceras_ir.frontends.tosa.text.reader import TextModule, TextOperation
from ceras_ir.frontends.tosa.values import (
    STORAGE,
    Pending,
    Value,
    as_plain,
    as_stored,
    shape_of,
    stored_type,
)
from ceras_ir.support.diagnostics import InputError, UnsupportedError

FLOAT_ELEMENTS = ("f16", "f32", "f64")

PLAIN = {
    "i1": i1, "i4": i8, "i8": i8, "ui8": BYTE, "i16": i16, "i32": i32, "i48": i64, "i64": i64,
    "index": i64, **dict.fromkeys(FLOAT_ELEMENTS, f32),
}  # fmt: skip
"""The element type in `graph` of each element of the text, without a zero point."""


def unsupported_elements(element: str) -> str:
    """Return the reason and the remedy for a tensor of `element`, which is not imported."""
    return f"elements of {element}; convert it to {', '.join(PLAIN)}"


MAX_LIST = 64
"""The entries of a list of axes, extents or similar."""


@dataclass
class Operation:
    """
    The operation of the text that is being imported, with the attributes and the values of the
    operands.
    """

    op: TextOperation
    module: TextModule
    emitter: Emitter
    values: Mapping[str, Value]
    uses: Mapping[str, int]
    """The number of uses of each value of the text, by name."""
    bound: Mapping[SSAValue, int]
    """The number of names in the text that represent the same IR value."""
    zero_points: Mapping[str, int]
    """The zero point that the consumers of a value subtract, by the name of the value."""
    states: MutableMapping[str, SSAValue]
    """The current value of each variable, by name."""

    @property
    def name(self) -> str:
        return self.op.name.removeprefix("tosa.")

    def wrong(self, message: str) -> InputError:
        return self.emitter.node.wrong(message)

    def unsupported(self, message: str) -> UnsupportedError:
        return self.emitter.node.unsupported(message)

    @property
    def count(self) -> int:
        """The number of operands."""
        return len(self.op.operands)

    def has(self, index: int) -> bool:
        return index < self.count

    def value(self, index: int) -> Value:
        if not self.has(index):
            raise self.wrong(f"operand {index} is missing")
        return self.values[self.op.operands[index]]

    def is_only_use(self, index: int) -> bool:
        """
        Return whether no other operation uses operand `index`, an IR value, so that the operation
        that computes it may change.
        """
        value, name = self.value(index), self.op.operands[index]
        if not isinstance(value, SSAValue) or list(value.uses):
            return False
        return self.uses[name] == 1 and self.bound[value] == 1

    def shape(self, index: int) -> tuple[int, ...]:
        return shape_of(self.value(index))

    def _element(self, kind: Type) -> str:
        if not isinstance(kind, TensorText):
            raise self.wrong(f"a tensor expected, got {kind}")
        if kind.element not in PLAIN:
            raise self.unsupported(unsupported_elements(kind.element))
        return kind.element

    def element(self, index: int) -> str:
        """Return the element type of operand `index` as the text writes it, such as `i8`."""
        if not self.has(index):
            raise self.wrong(f"operand {index} is missing")
        return self._element(self.op.operand_types[index])

    @property
    def result(self) -> TensorText:
        """The tensor type of the first result."""
        if not self.op.result_types or not isinstance(self.op.result_types[0], TensorText):
            raise self.wrong("a result that is a tensor expected")
        return self.op.result_types[0]

    @property
    def result_element(self) -> str:
        return self._element(self.result)

    @property
    def result_zero_point(self) -> int:
        """The zero point that the consumers of the result subtract, or 0."""
        return self.zero_points.get(self.op.results[0], 0) if self.op.results else 0

    @property
    def is_float(self) -> bool:
        """Whether the first operand is float."""
        return self.element(0) in FLOAT_ELEMENTS

    def is_shape(self, index: int) -> bool:
        return self.has(index) and isinstance(self.op.operand_types[index], OtherType)

    def real(self, index: int) -> EmittedValue:
        """Return operand `index`, which must be float."""
        if self.element(index) not in FLOAT_ELEMENTS:
            raise self.unsupported(f"operand {index} of {self.element(index)}, expected f32")
        return self.plain(index)

    def plain(self, index: int) -> EmittedValue:
        """Return operand `index` as floats, or as plain integers, without a zero point."""
        value = as_plain(self.emitter, self.value(index))
        return value.in_float32() if isinstance(value, Constant) else value

    def tensor(self, index: int) -> SSAValue:
        return self.emitter.materialize(self.plain(index))

    def stored(self, index: int, zero_point: int) -> SSAValue:
        """
        Return operand `index` as stored integers of 8 or 16 bits, with the zero point that the
        operation subtracts.
        """
        element = self.element(index)
        if element not in STORAGE:
            raise self.unsupported(f"operand {index} of {element}, expected i8 or i16")
        kind = stored_type(STORAGE[element], 0)
        if not kind.low <= zero_point <= kind.high:
            raise self.wrong(f"zero point {zero_point} of {element}")
        return as_stored(self.emitter, self.value(index), stored_type(STORAGE[element], zero_point))

    def moved(self, index: int) -> EmittedValue:
        """Return operand `index` for data movement. A zero point of the value remains."""
        value = self.value(index)
        return value.plain(self.emitter) if isinstance(value, Pending) else value

    def array(self, index: int) -> NDArray[np.generic]:
        """Return operand `index`, which must be a constant, as an array."""
        value = self.value(index)
        if not isinstance(value, Constant):
            raise self.unsupported(
                f"operand {index} is computed, but it must be a constant; export the network with "
                "fixed shapes and parameters"
            )
        return value.load()

    def attribute(self, name: str) -> Attribute | None:
        return self.op.attributes.get(name)

    def missing(self, name: str) -> InputError:
        """Return the error of the missing attribute `name`."""
        known = ", ".join(sorted(self.op.attributes)) or "none"
        return self.wrong(f"attribute '{name}' is missing; given: {known}")

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.attribute(name)
        if value is None:
            if default is None:
                raise self.missing(name)
            return default
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 31:
            raise self.wrong(f"attribute '{name}' must be an integer, got {value!s:.60}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.attribute(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(f"attribute '{name}' must be true or false, got {value!s:.60}")
        return value

    def number(self, name: str) -> float | None:
        value = self.attribute(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(f"attribute '{name}' must be a number, got {value!s:.60}")
        return value

    def word(self, name: str, default: str) -> str:
        """
        Return the attribute `name`, a keyword or a string such as `PROPAGATE`; `default` if it is
        missing.
        """
        value = self.attribute(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(f"attribute '{name}' must be a word, got {value!s:.60}")
        return value

    def entries(self, name: str) -> tuple[int, ...] | None:
        """Return the attribute `name`, a list of integers, or `None` if it is missing."""
        value = self.attribute(name)
        if isinstance(value, Elements):
            return self._short(self.module.array(value), f"attribute '{name}'")
        if value is None:
            return None
        listed = value if isinstance(value, list) else [value]
        integers = [v for v in listed if isinstance(v, int) and not isinstance(v, bool)]
        if len(integers) != len(listed) or any(abs(v) >= 1 << 31 for v in integers):
            raise self.wrong(f"attribute '{name}' must be a list of integers")
        return tuple(integers)

    def integers(self, name: str, index: int) -> tuple[int, ...]:
        """
        Return a list of integers: the attribute `name` (older MLIR), or operand `index`, which must
        be a constant.
        """
        found = self.entries(name)
        if found is not None:
            return found
        return self._short(self.array(index), f"operand {index}")

    def _short(self, array: NDArray[np.generic], what: str) -> tuple[int, ...]:
        if array.dtype.kind not in "iu" or array.ndim > 1 or array.size > MAX_LIST:
            raise self.wrong(f"{what} must be a short list of integers")
        return tuple(int(i) for i in array.reshape(-1))

    def window(self, name: str, count: int, low: int = 1) -> tuple[int, ...]:
        """Return the attribute `name`, a list of `count` integers that are not below `low`."""
        found = self.entries(name)
        if found is None:
            raise self.missing(name)
        if len(found) != count or min(found) < low:
            raise self.wrong(f"attribute '{name}' must be {count} integers >= {low}, got {found}")
        return found

    def zero_point(self, index: int, *names: str) -> int:
        """
        Return a zero point of the operation: operand `index` if it is given. Otherwise it is the
        first of the attributes `names`, or an entry of the attribute `quantization_info` (older
        MLIR), or 0.
        """
        if self.has(index) and not self.is_shape(index):
            array = self.array(index)
            if array.size != 1:
                raise self.unsupported(f"{array.size} zero points; use a single one")
            value = array.reshape(-1)[0]
            if self.element(index) in FLOAT_ELEMENTS:
                return 0
            return int(value)
        known = self.attribute("quantization_info")
        entries = known if isinstance(known, dict) else {}
        for name in names:
            value = self.op.attributes.get(name, entries.get(name))
            if isinstance(value, int):
                return int(value)
        return 0

    def axis(self, rank: int) -> int:
        axis = self.integer("axis")
        if not 0 <= axis < rank:
            raise self.wrong(f"axis {axis} of {rank} dimensions")
        return axis

    def keeps_nan(self) -> None:
        """
        Raise an error for a float operation that ignores NaN, because the operations of `graph`
        propagate it.
        """
        if self.is_float and self.word("nan_mode", "PROPAGATE") == "IGNORE":
            raise self.unsupported("with nan_mode = IGNORE; export it with PROPAGATE")

    def plain_result(self, value: EmittedValue) -> EmittedValue:
        """
        Convert plain integers to the element type of the result. If that is narrower, the upper
        bits are dropped.
        """
        kind = PLAIN[self.result_element]
        if isinstance(value, Constant):
            dtype = dtype_of(self.result_element)
            if kind == f32 or value.dtype == dtype:
                return value
        return self.emitter.cast(value, kind)

    def expect_result(self, value: Value) -> None:
        """
        Raise an error if the shape or the element type of `value` differs from the type of the
        result in the text.
        """
        declared = self.op.result_types[0] if self.op.result_types else None
        if not isinstance(declared, TensorText):
            return
        shape = shape_of(value)
        if declared.shape is not None and (
            len(shape) != len(declared.shape)
            or any(n not in (OPEN, m) for n, m in zip(declared.shape, shape, strict=True))
        ):
            raise self.wrong(f"the result has shape {list(shape)}, but its type is {declared}")
        expected = PLAIN[self._element(declared)]
        if isinstance(value, SSAValue):
            known = quantized_element(value)
            actual = element_of(value) if known is None else known.storage
            if actual != expected:
                raise self.wrong(f"the result has elements {actual}, but its type is {declared}")


OperationImporter: TypeAlias = Callable[[Operation], "Value | Sequence[Value]"]

OPERATIONS: dict[str, OperationImporter] = {}
"""The importers, by the names of operations without `tosa.`."""

REFUSED: dict[str, str] = {}
"""The reasons and remedies of operations that are not imported."""


def operation(*names: str) -> Callable[[OperationImporter], OperationImporter]:
    """
    Register the decorated function as the importer of the TOSA operations `names`. It returns the
    result, or a list of all results.
    """

    def register(function: OperationImporter) -> OperationImporter:
        for name in names:
            assert name not in OPERATIONS, name
            OPERATIONS[name] = function
        return function

    return register


def refused(reason: str, *names: str) -> None:
    """Register the reason why the operations `names` are not imported, for the error."""
    for name in names:
        REFUSED[name] = reason
