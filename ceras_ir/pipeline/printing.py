"""
Modules as text, quickly: large constants are written in hex straight from their bytes.

A constant of more than `MAX_LISTED` elements is `dense<"0x...">` (both xDSL and mlir-opt read
it) or, elided, `dense_resource<__elided__>`, mlir-opt's own spelling, which keeps the text
parseable. A constant of equal elements stays `dense<x>`, whatever its size.
"""

from typing import IO

from xdsl.dialects.builtin import (
    AnyFloat,
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer
from xdsl.utils.hints import isa

from ceras_ir.dialects.sparse import Encoded
from ceras_ir.support.diagnostics import node_names

MAX_LISTED = 16
"""Constants of up to this many elements are printed element by element."""

CONSTANT = "graph.constant"
"""Whose locations are no layers'; its dialect is not imported for that."""

ELIDED = "__elided__"
"""The resource that stands for a constant left out, as in mlir-opt."""


class ModulePrinter(Printer):
    """
    xDSL's printer with large constants in hex, or left out.

    It overrides only the public methods for an operation and an attribute.
    """

    def __init__(
        self, stream: IO[str], *, generic: bool, debuginfo: bool, elide: bool, names: bool
    ) -> None:
        super().__init__(stream, print_generic_format=generic, print_debuginfo=debuginfo)
        self.elide = elide
        self.names = names

    def print_op(self, op: Operation) -> None:
        super().print_op(op)
        named = self.names and not self.print_debuginfo and op.name != CONSTANT
        if named and op.results and node_names(op):
            self.print_string(" ")
            self.print_attribute(op.location)

    def print_attribute(self, attribute: Attribute) -> None:
        if isa(attribute, DenseIntOrFPElementsAttr) and _is_large(attribute):
            self._print_large(attribute)
        elif self.elide and isinstance(attribute, Encoded):
            self.print_string(f"dense_resource<{ELIDED}> : ")
            self.print_attribute(attribute.type)
        else:
            super().print_attribute(attribute)

    def _print_large(self, constant: DenseIntOrFPElementsAttr) -> None:
        data = constant.data.data
        element = constant.get_element_type()
        size = element.compile_time_size
        if data[size:] == data[:-size]:
            splat = DenseIntOrFPElementsAttr(TensorType(element, [1]), BytesAttr(data[:size]))
            splat.print_without_type(self)
        elif self.elide:
            self.print_string(f"dense_resource<{ELIDED}>")
        else:
            self.print_string(f'dense<"0x{data.hex().upper()}">')
        self.print_string(" : ")
        self.print_attribute(constant.type)


def _is_large(constant: DenseIntOrFPElementsAttr) -> bool:
    """Whether `constant` has many elements of whole bytes; mlir-opt packs others differently."""
    element = constant.get_element_type()
    return (
        isinstance(element, IntegerType | AnyFloat)
        and element.bitwidth in (8, 16, 32, 64)
        and len(constant) > MAX_LISTED
    )


def print_module(
    module: ModuleOp,
    stream: IO[str],
    *,
    elide: bool = False,
    names: bool = False,
    debuginfo: bool = False,
    generic: bool = False,
) -> None:
    """
    Write `module` to `stream`, with a newline at the end; with `names` those of layers, with
    `debuginfo` all locations.
    """
    printer = ModulePrinter(stream, generic=generic, debuginfo=debuginfo, elide=elide, names=names)
    printer.print_op(module)
    printer.print_metadata([Builtin])
    stream.write("\n")
