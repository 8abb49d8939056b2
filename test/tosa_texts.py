"""Write TOSA text in the form of MLIR 22, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]

ELEMENTS = {
    "int8": "i8", "uint8": "ui8", "int16": "i16", "int32": "i32", "int64": "i48", "bool": "i1",
    "float32": "f32",
}  # fmt: skip


@dataclass(frozen=True)
class Ref:
    """A value of the text."""

    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        return tensor(self.shape, self.element)


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def numbers(array: Array) -> str:
    """Return the elements of a dense constant."""
    if array.ndim:
        return f"[{', '.join(numbers(row) for row in array)}]"
    value = array.item()
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).replace("e", ".0e" if "." not in repr(value) else "e")


class Writer:
    """Writes a function with inputs, constants and operations."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.inputs: dict[str, Array] = {}
        """The arrays of the inputs, by name."""
        self._inputs: list[Ref] = []

    def input(self, array: Array, element: str | None = None) -> Ref:
        """Add an input, for which the reference receives `array`."""
        name = f"arg{len(self._inputs)}"
        ref = Ref(f"%{name}", array.shape, element or ELEMENTS[array.dtype.name])
        self.inputs[name] = array
        self._inputs.append(ref)
        return ref

    def _new(self, shape: Sequence[int], element: str) -> Ref:
        return Ref(f"%{len(self.lines)}", tuple(shape), element)

    def const(self, array: Array, element: str | None = None) -> Ref:
        ref = self._new(array.shape, element or ELEMENTS[array.dtype.name])
        text = f'"tosa.const"() <{{values = dense<{numbers(array)}> : {ref.type}}}>'
        self.lines.append(f"{ref.name} = {text} : () -> {ref.type}")
        return ref

    def zero(self, element: str = "i8") -> Ref:
        return self.const(np.zeros(1, np.float32 if element == "f32" else np.int64), element)

    def point(self, value: int, element: str = "i8") -> Ref:
        """Add the constant of a zero point."""
        return self.const(np.array([value], np.int64), element)

    def extents(self, *values: int) -> Ref:
        ref = Ref(f"%{len(self.lines)}", (), f"!tosa.shape<{len(values)}>")
        listed = ", ".join(map(str, values))
        dense = f"dense<[{listed}]> : tensor<{len(values)}xindex>"
        self.lines.append(
            f"{ref.name} = tosa.const_shape {{values = {dense}}} : () -> {ref.element}"
        )
        return ref

    def op(self, name: str, *operands: Ref, to: Sequence[int], element: str, **options: str) -> Ref:
        """Add an operation; options are attributes in the syntax of MLIR."""
        ref = self._new(to, element)
        listed = ", ".join(f"{key} = {value}" for key, value in options.items())
        attributes = f" {{{listed}}}" if listed else ""
        used = ", ".join(operand.name for operand in operands)
        types = ", ".join(_type(operand) for operand in operands)
        self.lines.append(f"{ref.name} = tosa.{name} {used}{attributes} : ({types}) -> {ref.type}")
        return ref

    def rescale(
        self,
        x: Ref,
        multipliers: Sequence[int],
        shifts: Sequence[int],
        *,
        element: str,
        points: tuple[int, int] = (0, 0),
        twice: bool = False,
        scale32: bool = True,
        unsigned: tuple[bool, bool] = (False, False),
    ) -> Ref:
        """Add a rescaling; several multipliers are per channel."""
        kind = "i32" if scale32 else "i16"
        return self.op(
            "rescale",
            x,
            self.const(np.array(multipliers, np.int64), kind),
            self.const(np.array(shifts, np.int64), "i8"),
            self.point(points[0], x.element),
            self.point(points[1], element),
            to=x.shape,
            element=element,
            input_unsigned=str(unsigned[0]).lower(),
            output_unsigned=str(unsigned[1]).lower(),
            per_channel=str(len(multipliers) > 1).lower(),
            rounding_mode="DOUBLE_ROUND" if twice else "SINGLE_ROUND",
            scale32=str(scale32).lower(),
        )

    def text(self, *results: Ref) -> str:
        arguments = ", ".join(f"{ref.name}: {ref.type}" for ref in self._inputs)
        types = ", ".join(ref.type for ref in results)
        body = "\n".join(f"    {line}" for line in self.lines)
        returned = ", ".join(ref.name for ref in results)
        return (
            f"module {{\n  func.func @main({arguments}) -> ({types}) {{\n{body}\n"
            f"    return {returned} : {types}\n  }}\n}}\n"
        )


def _type(ref: Ref) -> str:
    return ref.element if ref.element.startswith("!") else ref.type
