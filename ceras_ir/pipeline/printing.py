"""
Print modules quickly: large constants are written in hex from their bytes.

A constant of more than `MAX_LISTED` elements is `dense<"0x...">` (both xDSL and mlir-opt accept
it). If elided, it is `dense_resource<__elided__>`, as in mlir-opt, so the text can be parsed. A
constant of equal elements is `dense<x>` for any size.
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

from ceras_ir.support.diagnostics import node_names

MAX_LISTED = 16
"""The largest number of elements that are printed one by one."""

CONSTANT = "graph.constant"
"""The operation whose location names no layer. The dialect is not imported for this check."""

ELIDED = "__elided__"
"""The resource in place of an elided constant, as in mlir-opt."""


class ModulePrinter(Printer):
    """
    The printer of xDSL with large constants in hex, or elided.

    Only the public methods for an operation and an attribute are overridden.
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
            return
        if self.elide:
            # The dialect imports numpy, which slows the start of commands.
            from ceras_ir.dialects.sparse import Encoded

            if isinstance(attribute, Encoded):
                self.print_string(f"dense_resource<{ELIDED}> : ")
                self.print_attribute(attribute.type)
                return
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
    """Return whether `constant` has many elements of full bytes; mlir-opt packs other elements."""
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
    Write `module` to `stream`, with a newline at the end. Print names of layers with `names`, and
    all locations with `debuginfo`.
    """
    printer = ModulePrinter(stream, generic=generic, debuginfo=debuginfo, elide=elide, names=names)
    printer.print_op(module)
    printer.print_metadata([Builtin])
    stream.write("\n")
