"""
Parse the functions of an MLIR module: operations with operands, attributes, types and locations.

An operation has the generic form, or a form of `tosa` and `func` in MLIR 19 to 24. Operations
with regions and of other dialects are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ceras_ir.frontends.tosa.text.attributes import (
    Array,
    Attribute,
    AttributeReader,
    Elements,
    TensorText,
    Type,
    array_of,
)
from ceras_ir.frontends.tosa.text.scanner import ALIAS, END, NAME, VALUE, Scanner
from ceras_ir.support.diagnostics import Finding, UnsupportedError

RESOURCES_START, RESOURCES_END = "{-#", "#-}"
"""The brackets of the section of resources at the end of a file."""

RESOURCE = re.compile(r'(?:"([^"\\\n]*)"|([\w.$-]+))\s*:\s*"(0[xX][0-9a-fA-F]*)"')

CLAUSE = re.compile(r"[A-Za-z_]\w*+(?=[(<])")
"""An attribute in the form of MLIR from October 2026 on."""

LOCATION_PART = re.compile(r'"((?:[^"\\\n]|\\.)*)"\s*(:?)|(#\w+)')

MAX_ALIASES = 16
"""The aliases of a location that are followed."""

MAX_RESULTS = 1024

REGIONS = "operations with regions are not imported; unroll it, or export without it"
"""The reason for which control flow is refused."""

WITH_REGIONS = ("tosa.cond_if", "tosa.while_loop", "scf.if", "scf.for", "scf.while")


@dataclass(frozen=True)
class TextOperation:
    """
    An operation of the text. Values have the names of the text, such as `%3#1`; lines and columns
    count from 1.
    """

    name: str
    line: int
    column: int
    operands: tuple[str, ...]
    results: tuple[str, ...]
    operand_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    attributes: Mapping[str, Attribute]
    location: str = ""
    """The text of the location, or the name of an alias."""


@dataclass(frozen=True)
class Argument:
    """An argument or a result of a function."""

    name: str
    type: Type
    attributes: Mapping[str, Attribute]
    location: str = ""


@dataclass
class TextFunction:
    name: str
    line: int
    column: int
    is_private: bool
    arguments: list[Argument]
    results: list[Argument]
    operations: list[TextOperation] | None = None
    """The operations, the last is the return; `None` for a declaration."""


@dataclass
class TextModule:
    functions: dict[str, TextFunction]
    variables: dict[str, TextOperation]
    """The `tosa.variable` operations by the names of the variables."""
    resources: Mapping[str, str]
    locations: Mapping[str, str] = field(default_factory=dict[str, str])

    def array(self, elements: Elements) -> Array:
        """Return the elements of a constant as an array."""
        return array_of(elements, self.resources)

    def location_name(self, location: str) -> str:
        """
        Return the first name in a location, after aliases are followed; "" if it has only lines of
        files.
        """
        for _ in range(MAX_ALIASES):
            follow = None
            for found in LOCATION_PART.finditer(location):
                if found[1] is not None and not found[2]:
                    return found[1]
                if found[3] is not None and follow is None:
                    follow = found[3]
            if follow is None:
                return ""
            location = self.locations.get(follow, "")
        return ""


def read_module(text: str, file: str) -> TextModule:
    """Parse the text of a module. Raise a `SourceError` if it is malformed."""
    resources: dict[str, str] = {}
    start = text.find(RESOURCES_START)
    if start >= 0 and text.rstrip().endswith(RESOURCES_END):
        resources = {m[1] or m[2]: m[3] for m in RESOURCE.finditer(text, start)}
        text = text[:start]
    return _Reader(Scanner(text, file), resources).module()


class _Reader:
    """Parses a module at the current position of a scanner."""

    def __init__(self, scanner: Scanner, resources: Mapping[str, str]):
        self.scanner = scanner
        self.reader = AttributeReader(scanner)
        self.found = TextModule({}, {}, resources, {})
        self.locations: dict[str, str] = {}
        self.found.locations = self.locations

    def module(self) -> TextModule:
        scanner, depth = self.scanner, 0
        while not scanner.is_at_end:
            if scanner.sees("#") or scanner.sees("!"):
                self._alias()
            elif scanner.accept_word("module") or scanner.accept_word("builtin.module"):
                depth += 1
                if depth > 1:
                    scanner.fail("a module inside of a module is not imported")
                if scanner.sees("@"):
                    scanner.symbol()
                if scanner.accept_word("attributes"):
                    scanner.require("{")
                    self.reader.dictionary()
                scanner.require("{")
            elif scanner.sees('"builtin.module"'):
                scanner.fail(
                    "the generic form of a module; print it without --mlir-print-op-generic"
                )
            elif depth and scanner.accept("}"):
                depth -= 1
                self._location()
            else:
                self._top_level()
        if depth:
            scanner.fail(f"{END}: expected '}}' at the end of the module")
        return self.found

    def _alias(self) -> None:
        scanner, at = self.scanner, self.scanner.at
        name = scanner.expect(ALIAS, "an alias")
        scanner.require("=")
        if location := self._location():
            self.locations[name] = location
            return
        if name in self.reader.aliases:
            scanner.fail(f"the alias {name} is defined twice", at)
        if name.startswith("!"):
            self.reader.aliases[name] = self.reader.type()
        else:
            self.reader.aliases[name] = self.reader.attribute()

    def _top_level(self) -> None:
        scanner, at = self.scanner, self.scanner.at
        if scanner.accept_word("func.func"):
            function = self._function(at)
            if function.name in self.found.functions:
                scanner.fail(f"the function @{function.name} is defined twice", at)
            self.found.functions[function.name] = function
            return
        op = self._operation()
        name = op.attributes.get("sym_name")
        if op.name != "tosa.variable" or not isinstance(name, str):
            raise self._refused(op.name, at, "outside of a function; remove it")
        self.found.variables[name.removeprefix("@")] = op

    def _refused(self, name: str, at: int, message: str) -> UnsupportedError:
        line, column = self.scanner.place(at)
        place = f"{name.rpartition('.')[2]} at {line}:{column}"
        return UnsupportedError(
            [Finding(place, name, f"unsupported {name}: {message}")], self.scanner.file
        )

    def _location(self) -> str:
        """Return the text of the location at the current position; "" if there is no location."""
        scanner, at = self.scanner, self.scanner.at
        if not scanner.accept_word("loc"):
            return ""
        if not scanner.sees("("):
            scanner.fail("expected '(' after loc", at)
        return scanner.balanced()

    def _function(self, at: int) -> TextFunction:
        scanner = self.scanner
        private = scanner.accept_word("private")
        if not private:
            scanner.accept_word("public")
        name = scanner.symbol()
        scanner.require("(")
        arguments = scanner.listed(")", self._argument)
        results: list[Argument] = []
        if scanner.accept("->"):
            if scanner.accept("("):
                results = scanner.listed(")", self._result)
            else:
                # A brace after a single type is the body.
                results = [Argument("", self.reader.type(), {})]
        if scanner.accept_word("attributes"):
            scanner.require("{")
            self.reader.dictionary()
        line, column = scanner.place(at)
        function = TextFunction(name, line, column, private, arguments, results)
        if scanner.accept("{"):
            function.operations = self._body()
        self._location()
        return function

    def _argument(self) -> Argument:
        scanner = self.scanner
        name = scanner.take(VALUE) or ""
        if name:
            scanner.require(":")
        kind = self.reader.type()
        attributes = self.reader.dictionary() if scanner.accept("{") else {}
        return Argument(name, kind, attributes, self._location())

    def _result(self) -> Argument:
        kind = self.reader.type()
        attributes = self.reader.dictionary() if self.scanner.accept("{") else {}
        return Argument("", kind, attributes)

    def _body(self) -> list[TextOperation]:
        scanner = self.scanner
        found: list[TextOperation] = []
        while not scanner.accept("}"):
            if scanner.sees("^"):
                scanner.fail("a block with a label: a network has a single block")
            if scanner.is_at_end:
                scanner.fail(f"{END}: expected '}}' at the end of the function")
            found.append(self._operation())
        if not found or found[-1].name != "func.return":
            scanner.fail("the function does not end with func.return")
        return found

    def _operation(self) -> TextOperation:
        scanner, at = self.scanner, self.scanner.at
        results: list[str] = []
        if scanner.sees("%"):
            while True:
                results += self._result_names()
                if not scanner.accept(","):
                    break
            scanner.require("=")
        start = scanner.at
        name = scanner.string()
        if name is not None:
            op = self._generic(name, start)
        else:
            name = scanner.expect(NAME, "an operation")
            name = {"return": "func.return", "call": "func.call"}.get(name, name)
            op = self._custom(name, start)
        operands, types, result_types, attributes = op
        if len(operands) != len(types):
            scanner.fail(f"{len(operands)} operands with {len(types)} types", at)
        if len(results) not in (len(result_types), 0):
            scanner.fail(f"{len(results)} names for {len(result_types)} types of results", at)
        line, column = scanner.place(start)
        return TextOperation(
            name,
            line,
            column,
            tuple(operands),
            tuple(results),
            tuple(types),
            tuple(result_types),
            attributes,
            self._location(),
        )

    def _result_names(self) -> list[str]:
        scanner = self.scanner
        name = scanner.expect(VALUE, "the name of a result")
        if not scanner.accept(":"):
            return [name]
        count = scanner.expect(re.compile(r"\d{1,6}"), "the number of results")
        if not 1 <= int(count) <= MAX_RESULTS:
            scanner.fail(f"{count} results")
        return [name] if count == "1" else [f"{name}#{i}" for i in range(int(count))]

    def _operand(self) -> str:
        return self.scanner.expect(VALUE, "an operand")

    def _operands(self) -> list[str]:
        """Parse operands that are separated by commas, without parentheses."""
        found: list[str] = []
        while self.scanner.sees("%"):
            found.append(self._operand())
            if not self.scanner.accept(","):
                break
        return found

    def _generic(self, name: str, at: int) -> _Parts:
        scanner = self.scanner
        scanner.require("(")
        operands = scanner.listed(")", self._operand)
        attributes: dict[str, Attribute] = {}
        if scanner.accept("<"):
            scanner.require("{")
            attributes |= self.reader.dictionary()
            scanner.require(">")
        if scanner.sees("("):
            raise self._refused(name, at, REGIONS)
        if scanner.accept("{"):
            attributes |= self.reader.dictionary()
        scanner.require(":")
        return (operands, *self._signature(), attributes)

    def _signature(self) -> tuple[list[Type], list[Type]]:
        scanner = self.scanner
        scanner.require("(")
        types = scanner.listed(")", self.reader.type)
        scanner.require("->")
        return types, self.reader.types()

    def _custom(self, name: str, at: int) -> _Parts:
        scanner = self.scanner
        if name in WITH_REGIONS:
            raise self._refused(name, at, REGIONS)
        if name == "tosa.variable":
            return self._variable()
        if name in ("tosa.variable_read", "tosa.variable.read"):
            return self._read()
        if name == "arith.constant":
            return self._constant()
        if not name.startswith(("tosa.", "func.")):
            raise self._refused(
                name, at, "only operations of tosa and func are imported; lower to tosa"
            )
        attributes: dict[str, Attribute] = {}
        if scanner.sees("@"):
            attributes["callee"] = f"@{scanner.symbol()}"
        if scanner.accept("("):
            operands = scanner.listed(")", self._operand)
        else:
            scanner.accept(",")
            operands = self._operands()
        attributes |= self._attributes()
        if name == "func.return" and not operands:
            return [], [], [], attributes
        scanner.require(":")
        if name == "func.return" or not scanner.sees("("):
            types = [self.reader.type()]
            while scanner.accept(","):
                types.append(self.reader.type())
            return operands, types, [], attributes
        return (operands, *self._signature(), attributes)

    def _attributes(self) -> dict[str, Attribute]:
        """
        Parse the attributes of an operation: clauses such as `axis(1)` and `mode<NEAREST>`, then a
        dictionary, if any.
        """
        scanner = self.scanner
        found: dict[str, Attribute] = {}
        while (name := CLAUSE.match(scanner.text, scanner.at)) is not None and name[0] != "loc":
            if name[0] in found:
                scanner.fail(f"attribute '{name[0]}' is given twice")
            scanner.accept(name[0])
            if scanner.sees("<"):
                found[name[0]] = scanner.balanced().strip()
                continue
            scanner.require("(")
            found[name[0]] = self.reader.attribute()
            scanner.require(")")
        return found | (self.reader.dictionary() if scanner.accept("{") else {})

    def _constant(self) -> _Parts:
        attributes = self.reader.dictionary() if self.scanner.accept("{") else {}
        value = self.reader.attribute()
        kind = value.type if isinstance(value, Elements) else TensorText((), "index")
        return [], [], [kind], attributes | {"value": value}

    def _variable(self) -> _Parts:
        scanner = self.scanner
        attributes: dict[str, Attribute] = {"sym_name": scanner.symbol()}
        if scanner.accept("="):
            attributes["initial_value"] = value = self.reader.attribute()
            kind = value.type if isinstance(value, Elements) else TensorText(None, "")
        else:
            scanner.require(":")
            kind = self.reader.type()
        attributes["type"] = kind if isinstance(kind, TensorText) else str(kind)
        return [], [], [], attributes

    def _read(self) -> _Parts:
        attributes: dict[str, Attribute] = {"callee": f"@{self.scanner.symbol()}"}
        self.scanner.require(":")
        return [], [], [self.reader.type()], attributes


_Parts = tuple[list[str], list[Type], list[Type], dict[str, Attribute]]
