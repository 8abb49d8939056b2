"""
What the printer of one operation works with, and which function prints which operation.

`@prints(MyOp)` stands above a function of a `Layer` and the operation. The printer adds lines to
the function of its layer: it asks the layer for pointers to operands and results (`read`, `write`),
for constants and scratch memory, and its kernels for shared functions. It raises `Refused` if it
has no C for the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.c.constants import Array, ConstantPool
from ceras_ir.backends.c.kernels import Kernels
from ceras_ir.backends.c.options import COptions
from ceras_ir.backends.c.program import WORKSPACE_ALIGNMENT
from ceras_ir.backends.c.values import value_type
from ceras_ir.dialects.graph import ConstantOp, GraphOperation, shape_of
from ceras_ir.dialects.mem import block_of
from ceras_ir.transforms.memory.slices import element_bytes, may_overwrite


@dataclass(frozen=True)
class CalledFunction:
    """
    The C function of a step of a loop, or of a branch: what it is called, and the memory that it
    works in.
    """

    name: str
    arena_bytes: int


@dataclass
class Layer:
    """The C function of one operation, while it is printed."""

    index: int
    op: Operation
    options: COptions
    kernels: Kernels
    pool: ConstantPool
    in_place: frozenset[SSAValue] = frozenset()
    """Operands whose bytes are in the result already."""
    bodies: Mapping[str, CalledFunction] = field(default_factory=dict[str, CalledFunction])
    """By the names of their functions in the module."""
    lines: list[str] = field(default_factory=list[str])
    parameters: list[tuple[str, SSAValue | None]] = field(
        default_factory=list[tuple[str, SSAValue | None]]
    )
    """Declarations, and the values to pass; None is the workspace."""
    scratch_bytes: int = 0
    kernel: str = ""
    """Which of several ways to compute it was chosen, if any; for reports."""
    modelled: dict[str, object] = field(default_factory=dict[str, object])
    """What else reports say of it."""
    _names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])

    @cached_property
    def _alone(self) -> str:
        """`restrict`, unless the result lies where an operand lies."""
        result = block_of(self.op.results[0])
        places = (block_of(v) for v in self.op.operands if may_overwrite(self.op, v))
        in_place = any(
            b is not None and result is not None and b.offset == result.offset for b in places
        )
        return "" if in_place else "restrict "

    def read(self, value: SSAValue, name: str) -> str:
        """A pointer to the elements of an operand: a parameter, or a constant as it is."""
        if isinstance(value.owner, ConstantOp):
            constant = value.owner
            size, item = prod(shape_of(value)), element_bytes(value)
            return self.constant(name, value_type(value), size, item, constant.array)
        if value not in self._names:
            self._names[value] = name
            self.parameters.append((f"const {value_type(value)} *{self._alone}{name}", value))
        return self._names[value]

    def write(self, value: SSAValue, name: str = "y") -> str:
        """A pointer to where a result goes."""
        self.parameters.append((f"{value_type(value)} *{self._alone}{name}", value))
        return name

    def scratch(self, ctype: str, name: str, size: int, itemsize: int) -> str:
        """A local pointer to scratch memory of `size` elements."""
        if all(value is not None for _, value in self.parameters):
            self.parameters.append(("unsigned char *restrict workspace", None))
        self.line(f"{ctype} *{name} = ({ctype} *)(void *)(workspace + {self.scratch_bytes});")
        self.scratch_bytes += -(-size * itemsize // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        return name

    def constant(
        self,
        name: str,
        ctype: str,
        size: int,
        itemsize: int,
        data: Callable[[], Array],
        condition: str = "",
    ) -> str:
        """A packed constant of this layer."""
        full = f"layer_{self.index}_{name}"
        return self.pool.add(full, ctype, size, itemsize, data, condition)

    def array(self, name: str, data: NDArray[np.generic], ctype: str) -> str:
        """A small computed constant."""
        return self.constant(name, ctype, data.size, data.itemsize, lambda: data)

    def line(self, text: str, depth: int = 0) -> None:
        self.lines.append("  " * (depth + 1) + text)

    @contextmanager
    def variants(self, condition: str) -> Generator[Callable[[], None]]:
        """
        Two bodies of which one is compiled: the first under `condition`; what is yielded begins the
        portable one. They share the workspace.
        """
        start = self.scratch_bytes
        sizes: list[int] = []
        begins = [len(self.lines) + 1]

        def end() -> None:
            sizes.append(self.scratch_bytes)
            self.scratch_bytes = start

        def otherwise() -> None:
            end()
            self.lines.append("#else")
            begins.append(len(self.lines))

        self.lines.append(f"#if {condition}")
        yield otherwise
        end()
        self.lines.append("#endif")
        self.scratch_bytes = max(sizes)
        for at, size in zip(reversed(begins), reversed(sizes), strict=True):
            if size == start < self.scratch_bytes:
                self.lines.insert(at, "  (void)workspace;")

    def block(self, lines: Sequence[str], depth: int = 0) -> None:
        for text in lines:
            self.line(text, depth)

    @contextmanager
    def nested(self, name: str, extents: Sequence[int], depth: int = 0) -> Generator[int]:
        """Loops around what is printed inside, at the depth that is yielded: `name` 0, 1, ..."""
        for d, extent in enumerate(extents):
            index = f"{name}{d}"
            self.line(f"for (int32_t {index} = 0; {index} < {extent}; ++{index}) {{", depth + d)
        yield depth + len(extents)
        for d in reversed(range(len(extents))):
            self.line("}", depth + d)

    def loop(self, index: str, count: int | str, body: Sequence[str], depth: int = 0) -> None:
        """`body` for each `index` in [0, count)."""
        self.line(f"for (int32_t {index} = 0; {index} < {count}; ++{index}) {{", depth)
        self.block(body, depth + 1)
        self.line("}", depth)


OpT = TypeVar("OpT", bound=Operation)
Printer: TypeAlias = "Callable[[Layer, Operation], None]"
"""Prints the body of one operation's function."""

FAMILIES = (
    "elementwise",
    "linear",
    "movement",
    "quantize",
    "recurrence",
    "reduction",
    "selection",
)
"""
Modules beside this one with printers, imported when the first operation is printed. A dialect from
elsewhere has its printers where it is defined.
"""

_PRINTERS: dict[type[Operation], Printer] = {}


def prints(
    *kinds: type[OpT],
) -> Callable[[Callable[[Layer, OpT], None]], Callable[[Layer, OpT], None]]:
    """Register the printer of operations of exactly these classes."""

    def register(function: Callable[[Layer, OpT], None]) -> Callable[[Layer, OpT], None]:
        def checked(layer: Layer, op: Operation) -> None:
            assert isinstance(op, kinds)
            function(layer, op)

        _PRINTERS.update(dict.fromkeys(kinds, checked))
        return function

    return register


def printer_of(op: Operation) -> Printer | None:
    """What prints an operation; None where C has nothing for it."""
    for family in FAMILIES:
        import_module(f"{__package__}.{family}")
    return _PRINTERS.get(type(op))


def row_major(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours of each dimension."""
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def broadcast_strides(shape: Sequence[int], result: Sequence[int]) -> list[int]:
    """Strides of an operand of `shape` seen as `result`; 0 where it repeats."""
    padded = (1,) * (len(result) - len(shape)) + tuple(shape)
    strides = row_major(padded)
    return [0 if extent == 1 else s for extent, s in zip(padded, strides, strict=True)]


def merge(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """The fewest dimensions that walk the same elements of every operand in the same order."""
    extents: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for i, extent in enumerate(shape):
        if extent == 1:
            continue
        if extents and all(m[-1] == s[i] * extent for m, s in zip(merged, strides, strict=True)):
            extents[-1] *= extent
            for m, s in zip(merged, strides, strict=True):
                m[-1] = s[i]
            continue
        extents.append(extent)
        for m, s in zip(merged, strides, strict=True):
            m.append(s[i])
    return (extents, merged) if extents else ([1], [[0] for _ in strides])


def nest(
    layer: Layer,
    shape: Sequence[int],
    strides: Sequence[Sequence[int]],
    body: Callable[[list[str]], list[str]],
) -> None:
    """Loops over `shape`; `body` gets one index expression per operand."""
    extents, merged = merge(shape, strides)
    indices = [
        " + ".join(
            f"i{d}" if stride == 1 else f"i{d} * {stride}"
            for d, stride in enumerate(operand)
            if stride
        )
        or "0"
        for operand in merged
    ]
    with layer.nested("i", extents) as depth:
        layer.block(body(indices), depth)


def broadcast_nest(
    layer: Layer, op: GraphOperation, body: Callable[[list[str]], list[str]]
) -> None:
    """Loops over the result of `op`; `body` gets its index, and one for each operand."""
    shape = shape_of(op.output)
    operands = (broadcast_strides(shape_of(v), shape) for v in op.operands)
    nest(layer, shape, [row_major(shape), *operands], body)
