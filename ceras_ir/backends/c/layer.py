"""
Define the context of the printer of an operation, and the registry of printers.

`@prints(MyOp)` decorates a function of a `Layer` and the operation. The printer adds lines to the
function of the layer. The layer provides pointers to operands and results (`read`, `write`),
constants and scratch memory, and `kernels` provides shared functions. The printer raises `Refused`
if it has no C for the operation.
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
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.program import WORKSPACE_ALIGNMENT
from ceras_ir.backends.c.values import Kernels, steps_left, value_type
from ceras_ir.dialects.graph import ConstantOp, GraphOperation, shape_of
from ceras_ir.dialects.mem import block_of
from ceras_ir.transforms.memory.slices import element_bytes, may_overwrite

MIN_SHARED_ELEMENTS = 1 << 14
"""Elements of an operation without products from which several threads are worthwhile."""

SHARED_PARTS = 32
"""Parts of an operation that threads share, so that a part more or less matters little."""


def part_step(rows: int, unit: int) -> int:
    """Return the rows of the parts that threads share, a multiple of `unit`."""
    return -(-rows // (SHARED_PARTS * unit)) * unit


def from_row(pointer: str, first: str, stride: int) -> str:
    """Return the C expression of the address of row `first`; "" is row 0."""
    return f"{pointer} + {first} * {stride}" if first else pointer


@dataclass(frozen=True)
class CalledFunction:
    """
    The C function of a loop body or branch: the name, and the size of the memory for its values in
    bytes.
    """

    name: str
    arena_bytes: int


@dataclass
class Layer:
    """
    The C function of an operation. A printer, the function that converts the operation to C, adds
    lines, parameters and constants.
    """

    index: int
    op: Operation
    options: COptions
    kernels: Kernels
    pool: ConstantPool
    in_place: frozenset[SSAValue] = frozenset()
    """The operands that are stored inside the result, so that they need no copy."""
    bodies: Mapping[str, CalledFunction] = field(default_factory=dict[str, CalledFunction])
    """The called functions, by name in the module."""
    rings: frozenset[SSAValue] = frozenset()
    """The states that are stored as a ring of rows, see `Program.rings`."""
    lines: list[str] = field(default_factory=list[str])
    parameters: list[tuple[str, SSAValue | None]] = field(
        default_factory=list[tuple[str, SSAValue | None]]
    )
    """
    The parameters of the function: the C declaration, and the value that the caller passes. The
    workspace has no value.
    """
    scratch_bytes: int = 0
    own_bytes: int = 0
    """The bytes of the workspace of which each thread has its own."""
    kernel: str = ""
    """The name of the chosen kernel for reports, if there are several."""
    vector_cycles: float | None = None
    """The modelled cycles of vector instructions, if they do not follow from the products."""
    amx_cycles: float | None = None
    """The modelled cycles in tiles of AMX, which processors that have it use instead."""
    packed_bits: int = 0
    """The bits of each weight in flash if the kernel reads packed weights, otherwise 0."""
    modelled: dict[str, object] = field(default_factory=dict[str, object])
    """The modelled costs that the printer adds to the entry of the layer in reports."""
    _names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])

    @cached_property
    def _restrict(self) -> str:
        """The C keyword `restrict`, or "" if the result may overwrite an operand in place."""
        result = block_of(self.op.results[0])
        places = (block_of(v) for v in self.op.operands if may_overwrite(self.op, v))
        in_place = any(
            b is not None and result is not None and b.offset == result.offset for b in places
        )
        return "" if in_place else "restrict "

    def read(self, value: SSAValue, name: str) -> str:
        """
        Return the C name of a pointer to the elements of an operand. A constant is added to the
        constants of the layer in row-major order. Other values become a parameter called `name`, or
        keep the name of the existing parameter.
        """
        if isinstance(value.owner, ConstantOp):
            constant = value.owner
            size, item = prod(shape_of(value)), element_bytes(value)
            return self.constant(name, value_type(value), size, item, constant.array)
        if value not in self._names:
            self._names[value] = name
            self.parameters.append((f"const {value_type(value)} *{self._restrict}{name}", value))
        return self._names[value]

    def read_if(self, value: SSAValue | None, name: str) -> str | None:
        return None if value is None else self.read(value, name)

    def write(self, value: SSAValue, name: str = "y") -> str:
        """Add a parameter called `name` that points to the result, and return the name."""
        self.parameters.append((f"{value_type(value)} *{self._restrict}{name}", value))
        return name

    def scratch(self, ctype: str, name: str, size: int, itemsize: int) -> str:
        """
        Reserve `size` elements of `itemsize` bytes in the workspace, the temporary memory of the
        layer. Print the declaration of a pointer `name` to elements of `ctype`, and return the
        name.
        """
        offset = self._reserve(size, itemsize)
        at = f"&workspace[{offset}]" if offset else "workspace"
        self.line(f"{ctype} *{name} = ({ctype} *)(void *){at};")
        return name

    def own_scratch(self, ctype: str, name: str, size: int, itemsize: int) -> list[str]:
        """
        Reserve like `scratch`, for each thread of a team. Return the statements that declare the
        pointer: to the workspace in the first thread, to static memory of the thread in others.
        """
        offset = self._reserve(size, itemsize)
        self.own_bytes = max(self.own_bytes, self.scratch_bytes)
        at = f"&MODEL_OWN(workspace)[{offset}]" if offset else "MODEL_OWN(workspace)"
        return [f"{ctype} *{name} = ({ctype} *)(void *){at};"]

    def _reserve(self, size: int, itemsize: int) -> int:
        """
        Reserve `size` elements of `itemsize` bytes in the workspace. Return the offset in bytes.
        """
        if all(value is not None for _, value in self.parameters):
            self.parameters.append(("unsigned char *restrict workspace", None))
        offset = self.scratch_bytes
        self.scratch_bytes += -(-size * itemsize // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        return offset

    def constant(
        self,
        name: str,
        ctype: str,
        size: int,
        itemsize: int,
        data: Callable[[], Array],
        condition: str = "",
    ) -> str:
        """
        Add a constant of `size` elements with `itemsize` bytes to this layer, and return its C
        name. `data` is called for the elements when the file is written. With `condition`, the
        constant exists only if this preprocessor condition holds.
        """
        full = f"layer_{self.index}_{name}"
        return self.pool.add(full, ctype, size, itemsize, data, condition)

    def array(self, name: str, data: NDArray[np.generic], ctype: str) -> str:
        """
        Add `data` to the constants of this layer as elements of `ctype`, and return the C name.
        """
        return self.constant(name, ctype, data.size, data.itemsize, lambda: data)

    def integers(self, name: str, values: NDArray[np.integer], condition: str = "") -> str:
        """
        Add integers to the constants of this layer, and return the C name. The elements have the
        fewest bits of 8, 16, 32 and 64 that hold all values; at least 32 for kernels with vectors,
        which load words. `condition` is that of `constant`.
        """
        most = max(int(values.max()), -int(values.min()) - 1)
        bits = 32 if self.options.vectors else 8
        while most >> (bits - 1):
            bits *= 2
        data: Array = values.astype(f"int{bits}")
        return self.constant(name, f"int{bits}_t", data.size, bits // 8, lambda: data, condition)

    def line(self, text: str, depth: int = 0) -> None:
        self.lines.append("  " * (depth + 1) + text)

    @contextmanager
    def variants(self, condition: str) -> Generator[Callable[[], None]]:
        """
        Print two alternatives for the C preprocessor: lines before the call of the yielded function
        are for `condition`, lines after it for `#else`. Both use the same bytes of the workspace.
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
    def nested(
        self, name: str, extents: Sequence[int], depth: int = 0, innermost: str = ""
    ) -> Generator[int]:
        """
        Print the heads of nested loops, one for each of `extents`; yield the depth of indentation
        for the lines inside; then close the loops. The loop variables are `name` with the number of
        the loop: `i0`, `i1`, ... The pragmas `innermost`, if any, precede the last head.
        """
        for d, extent in enumerate(extents):
            index = f"{name}{d}"
            if innermost and d == len(extents) - 1:
                self.line(innermost, depth + d)
            self.line(f"for (int32_t {index} = 0; {index} < {extent}; ++{index}) {{", depth + d)
        yield depth + len(extents)
        for d in reversed(range(len(extents))):
            self.line("}", depth + d)

    def shares(self, elements: int) -> bool:
        """Return whether several threads are worthwhile for an operation on `elements` elements."""
        return self.options.vectors and elements >= MIN_SHARED_ELEMENTS

    def each(self, size: int, body: Sequence[str]) -> None:
        """
        Print a C loop over the index `i` of all elements. Iterations are independent, so that
        threads can share them.
        """
        if self.shares(size):
            self.line("MODEL_EACH")
        self.loop("i", size, body)

    def rows(
        self, rows: int, elements: int, call: Callable[[str, str], str], unit: int = 1
    ) -> None:
        """
        Print the statement `call` for all rows of an operation on `elements` elements, or for parts
        of the rows if threads are worthwhile. The arguments of `call` are the first row ("" is 0)
        and the number of rows. Parts have a multiple of `unit` rows.
        """
        step = part_step(rows, unit)
        if not self.shares(elements) or step >= rows:
            self.line(call("", str(rows)))
            return
        self.line("MODEL_THREADS(1)")
        self.line(f"for (int32_t part = 0; part < {rows}; part += {step}) {{")
        self.line(f"const int32_t count = {steps_left(rows, 'part', step)};", 1)
        self.line(call("part", "count"), 1)
        self.line("}")

    def loop(self, index: str, count: int | str, body: Sequence[str], depth: int = 0) -> None:
        """
        Print a C loop with the variable `index` from 0 to `count - 1` around the lines `body`.
        """
        self.line(f"for (int32_t {index} = 0; {index} < {count}; ++{index}) {{", depth)
        self.block(body, depth + 1)
        self.line("}", depth)


OpT = TypeVar("OpT", bound=Operation)
Printer: TypeAlias = "Callable[[Layer, Operation], None]"

PRINTER_MODULES = (
    *("blocks", "camera", "conversion", "elementwise", "linear", "lookup", "movement"),
    *("recurrence", "reduction", "selection", "states", "thresholds"),
)
"""Modules with printers, imported when the first operation is printed."""

_PRINTERS: dict[type[Operation], Printer] = {}


def prints(
    *kinds: type[OpT],
) -> Callable[[Callable[[Layer, OpT], None]], Callable[[Layer, OpT], None]]:
    """
    Return a decorator that registers a function as the printer of operations of exactly these
    classes. A printer writes the C of an operation to a `Layer`.
    """

    def register(function: Callable[[Layer, OpT], None]) -> Callable[[Layer, OpT], None]:
        def checked(layer: Layer, op: Operation) -> None:
            assert isinstance(op, kinds)
            function(layer, op)

        _PRINTERS.update(dict.fromkeys(kinds, checked))
        return function

    return register


def printer_of(op: Operation) -> Printer | None:
    """
    Return the function that prints an operation, or `None` if the C backend does not support it.
    """
    for family in PRINTER_MODULES:
        import_module(f"{__package__}.{family}")
    return _PRINTERS.get(type(op))


def row_major(shape: Sequence[int]) -> list[int]:
    """Return the strides of a row-major tensor in elements: (2, 3, 4) -> [12, 4, 1]."""
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def broadcast_strides(shape: Sequence[int], result: Sequence[int]) -> list[int]:
    """
    Return the strides in elements of an operand of `shape` that is broadcast to the shape `result`.
    Repeated axes have stride 0: (3,) to (2, 3) -> [0, 1].
    """
    padded = (1,) * (len(result) - len(shape)) + tuple(shape)
    strides = row_major(padded)
    return [0 if extent == 1 else s for extent, s in zip(padded, strides, strict=True)]


def merge(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """
    Merge adjacent axes of `shape` that all operands traverse with a constant stride, so that C
    needs fewer loops. `strides` has the strides of each operand in elements. Return the merged
    shape and strides: (2, 3) with (3, 1) -> (6) with (1). Axes of size 1 are removed.
    """
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


MIN_ROLLED, MAX_ROLLED = 8, 64
"""The lengths of loops that gcc would unroll, although vector instructions are faster."""


def nest(
    layer: Layer,
    shape: Sequence[int],
    strides: Sequence[Sequence[int]],
    body: Callable[[list[str]], list[str]],
    *,
    may_alias: bool = False,
) -> None:
    """
    Print C loops over `shape`. `strides` has the strides in elements of each operand, for each
    axis. `body` returns the lines of the innermost loop; it receives the C expression of the index
    of each operand. With `may_alias`, the result may share the memory of an operand of this shape,
    which otherwise makes compilers choose scalar instructions.
    """
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
    is_shared = layer.shares(prod(shape))
    alike = "MODEL_ALIKE" if may_alias and layer.options.vectors else ""
    if is_shared and len(extents) > 1:
        layer.line("MODEL_THREADS(1)")
    elif is_shared:
        alike = f"MODEL_EACH{alike.removeprefix('MODEL')}"
    if alike and len(extents) > 1 and MIN_ROLLED <= extents[-1] <= MAX_ROLLED:
        alike += " MODEL_CHANNELS"
    with layer.nested("i", extents, innermost=alike) as depth:
        layer.block(body(indices), depth)


def broadcast_nest(
    layer: Layer, op: GraphOperation, body: Callable[[list[str]], list[str]]
) -> None:
    """
    Print C loops over the elements of the result of `op`. `body` returns the lines of the innermost
    loop; it receives the C expressions of the index of the result and of each operand, which may be
    broadcast.
    """
    shape = shape_of(op.output)
    operands = (broadcast_strides(shape_of(v), shape) for v in op.operands)
    nest(layer, shape, [row_major(shape), *operands], body, may_alias=True)
