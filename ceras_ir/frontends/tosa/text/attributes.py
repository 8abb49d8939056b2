"""
Parse types, attributes and constants of MLIR text.

Integers, floats, booleans, strings and lists are Python values; a keyword such as `PROPAGATE` is a
string. The elements of constants remain text until they are used. Their number is checked against
the type before memory is reserved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.model.model_file import MAX_TENSOR_ELEMENTS
from ceras_ir.frontends.tosa.text.scanner import (
    ALIAS,
    MAX_NESTING,
    NAME,
    NUMBER,
    SYMBOL,
    Scanner,
)

Array: TypeAlias = NDArray[np.generic]

OPEN = -1
"""The extent of an open dimension."""

SHAPED = re.compile(r"((?:(?:\d{1,12}|\?)\s*x\s*)*)(.+)", re.DOTALL)
STORAGE = re.compile(r"!quant\.uniform<\s*([iu])(\d+)\b.*")
SHAPE_TYPE = re.compile(r"\s*(\d{1,3})\s*")

FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}

MAX_DIGITS = 400

INTEGER_WIDTHS = (1, 4, 8, 16, 32, 48, 64)


@dataclass(frozen=True)
class TensorText:
    """The type of a tensor in the text; `shape` is `None` if the rank is open."""

    shape: tuple[int, ...] | None
    element: str
    """
    The element type, such as `i8`, `ui8`, `i48`, `f32` or `index`; for a quantized type it is the
    storage.
    """

    def __str__(self) -> str:
        if self.shape is None:
            return f"tensor<*x{self.element}>"
        extents = "".join("?x" if n == OPEN else f"{n}x" for n in self.shape)
        return f"tensor<{extents}{self.element}>"


@dataclass(frozen=True)
class OtherType:
    """A type in the text that is no tensor type. A `!tosa.shape` has `rank` extents."""

    text: str
    rank: int | None = None

    def __str__(self) -> str:
        return self.text


Type: TypeAlias = TensorText | OtherType


@dataclass(frozen=True)
class Elements:
    """A dense constant as text, or the name of a resource that has the elements."""

    type: TensorText
    text: str
    at: int
    """The position in the text, for messages."""
    scanner: Scanner = field(repr=False, compare=False)
    is_resource: bool = False


Attribute: TypeAlias = Union[
    int,
    float,
    bool,
    str,
    Elements,
    TensorText,
    OtherType,
    "list[Attribute]",
    "dict[str, Attribute]",
]


class AttributeReader:
    """Parses attributes and types at the current position of a scanner."""

    def __init__(self, scanner: Scanner):
        self.scanner = scanner
        self.aliases: dict[str, Attribute] = {}
        """Aliases of attributes and types, with `#` or `!`."""
        self._depth = 0

    def type(self) -> Type:
        scanner, start = self.scanner, self.scanner.at
        if scanner.accept_word("tensor"):
            return self._tensor(start)
        if alias := scanner.take(ALIAS):
            if isinstance(known := self.aliases.get(alias), TensorText | OtherType):
                return known
            inside = scanner.balanced() if scanner.sees("<") else ""
            shape = SHAPE_TYPE.fullmatch(inside) if alias == "!tosa.shape" else None
            rank = None if shape is None else int(shape[1])
            return OtherType(f"{alias}<{inside}>" if inside else alias, rank)
        name = scanner.expect(NAME, "a type")
        inside = f"<{scanner.balanced()}>" if scanner.sees("<") else ""
        return OtherType(name + inside)

    def _tensor(self, start: int) -> TensorText:
        scanner = self.scanner
        if not scanner.sees("<"):
            scanner.fail("expected '<' after tensor")
        inside = scanner.balanced().strip()
        if inside.startswith("*"):
            return TensorText(None, inside[1:].lstrip().removeprefix("x"))
        # An encoding after a comma has no effect on the elements.
        found = SHAPED.fullmatch(inside)
        if found is None:
            scanner.fail(f"malformed type tensor<{inside[:60]}>", start)
        extents = [n.strip() for n in found[1].split("x")[:-1]]
        shape = tuple(OPEN if n == "?" else int(n) for n in extents)
        return TensorText(shape, self._element(found[2].strip(), start))

    def _element(self, text: str, start: int) -> str:
        if text in self.aliases:
            text = str(self.aliases[text])
        if found := STORAGE.fullmatch(text):
            return f"{'u' if found[1] == 'u' else ''}i{found[2]}"
        element = text.partition(",")[0].strip()
        if not re.fullmatch(r"[a-zA-Z]\w{0,20}|!?[\w.]{1,40}(?:<.{0,200}>)?", element):
            self.scanner.fail(f"malformed element type {element[:60]!r}", start)
        return element

    def types(self) -> list[Type]:
        """Parse a type, or several types in parentheses, and return a list."""
        if self.scanner.accept("("):
            return self.scanner.listed(")", self.type)
        return [self.type()]

    def dictionary(self) -> dict[str, Attribute]:
        """Parse the entries of a dictionary up to and including `}`; the `{` was read before."""
        entries: dict[str, Attribute] = {}

        def entry() -> None:
            at = self.scanner.at
            key = self.scanner.string()
            if key is None:
                key = self.scanner.expect(NAME, "the name of an attribute")
            if key in entries:
                self.scanner.fail(f"attribute '{key}' is given twice", at)
            entries[key] = self.attribute() if self.scanner.accept("=") else True

        self.scanner.listed("}", entry)
        return entries

    def attribute(self) -> Attribute:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.scanner.fail(f"attributes are nested more than {MAX_NESTING} deep")
        try:
            return self._attribute()
        finally:
            self._depth -= 1

    def _attribute(self) -> Attribute:
        scanner = self.scanner
        if (text := scanner.string()) is not None:
            return self._with_type(text)
        if scanner.accept("["):
            return scanner.listed("]", self.attribute)
        if scanner.accept("{"):
            return self.dictionary()
        if scanner.sees("@"):
            return "@" + scanner.expect(SYMBOL, "a symbol")[1:]
        if number := scanner.take(NUMBER):
            return self._number(number)
        for word in ("dense", "dense_resource"):
            if scanner.accept_word(word):
                return self._elements(is_resource=word != "dense")
        if scanner.accept_word("array"):
            return self._array()
        if alias := self._alias():
            return alias
        word = NAME.match(scanner.text, scanner.at)
        if word is not None and word[0] in ("true", "false", "unit"):
            scanner.accept(word[0])
            return word[0] != "false"
        found = self.type()
        return found.text if isinstance(found, OtherType) else found

    def _alias(self) -> Attribute | None:
        scanner = self.scanner
        if not scanner.sees("#"):
            return None
        alias = scanner.expect(ALIAS, "an attribute")
        if not scanner.sees("<"):
            return self.aliases.get(alias, alias)
        inside = scanner.balanced().strip()
        if not alias.startswith("#tosa.") or "=" not in inside:
            return inside
        entries = AttributeReader(Scanner(f"{inside}}}", scanner.file))
        entries.aliases = self.aliases
        return entries.dictionary()

    def _with_type(self, value: Attribute) -> Attribute:
        """Skip the type after a number or string, if there is one, and return `value`."""
        if self.scanner.accept(":"):
            self.type()
        return value

    def _number(self, text: str) -> int | float:
        """
        Convert `text` and the type after it to a number. A hexadecimal number with a float type is
        the bit pattern of a float.
        """
        if len(text) > MAX_DIGITS:
            self.scanner.fail(f"a number of more than {MAX_DIGITS} characters")
        kind = str(self.type()) if self.scanner.accept(":") else ""
        if "x" not in text.lower():
            return float(text) if "." in text or kind in FLOATS else int(text)
        bits = int(text, 16)
        if kind not in FLOATS:
            return bits
        stored = np.dtype(FLOATS[kind])
        if bits < 0 or bits >> 8 * stored.itemsize:
            self.scanner.fail(f"{text} does not fit {kind}")
        return float(np.array([bits], f"u{stored.itemsize}").view(stored)[0])

    def _array(self) -> list[Attribute]:
        """Parse the rest of `array<i64: 1, 2>`, after the word `array`."""
        scanner = self.scanner
        scanner.require("<")
        self.type()
        if scanner.accept(">"):
            return []
        scanner.require(":")
        return scanner.listed(">", self.attribute)

    def _elements(self, *, is_resource: bool) -> Elements:
        scanner, start = self.scanner, self.scanner.at
        if not scanner.sees("<"):
            scanner.fail("expected '<' after dense")
        inside = scanner.balanced().strip()
        scanner.require(":")
        kind = self.type()
        if not isinstance(kind, TensorText) or kind.shape is None or OPEN in kind.shape:
            scanner.fail(f"a constant needs a tensor type with a fixed shape, got {kind}", start)
        return Elements(kind, inside, start, scanner, is_resource)


def dtype_of(element: str) -> np.dtype[np.generic] | None:
    """
    Return the numpy type for elements such as `i8`, of the same or the next larger width; `None` if
    these elements are not supported.
    """
    if element in FLOATS:
        return np.dtype(FLOATS[element])
    if element == "index":
        return np.dtype(np.int64)
    found = re.fullmatch(r"([us]?)i(\d{1,4})", element)
    if found is None or int(found[2]) not in INTEGER_WIDTHS:
        return None
    width = int(found[2])
    if width == 1:
        return np.dtype(np.bool_)
    stored = next(n for n in (8, 16, 32, 64) if n >= width)
    return np.dtype(f"{'u' if found[1] == 'u' else ''}int{stored}")


NUMBERS = re.compile(r"[\[\],\s]+")


def array_of(elements: Elements, resources: Mapping[str, str]) -> Array:
    """
    Return the elements of a constant as an array. `resources` has the text of each resource by
    name: hexadecimal digits of four bytes with the alignment, then of the elements in little-endian
    order.
    """
    fail, at = elements.scanner.fail, elements.at
    kind = elements.type
    dtype, shape = dtype_of(kind.element), kind.shape
    assert shape is not None
    if dtype is None:
        fail(f"elements of type {kind.element} are not imported; convert them to f32 or i32", at)
    count = prod(shape)
    if count > MAX_TENSOR_ELEMENTS:
        fail(f"a constant of {count} elements, expected at most {MAX_TENSOR_ELEMENTS}", at)
    text = elements.text
    if elements.is_resource:
        if (blob := resources.get(text.strip('"'))) is None:
            fail(f"there is no resource '{text[:60]}' at the end of the file", at)
        data = _bytes(elements, blob)[4:]
        return _of_bytes(elements, data, dtype, shape)
    if text.startswith('"'):
        return _of_bytes(elements, _bytes(elements, text[1:-1]), dtype, shape)
    numbers = [n for n in NUMBERS.split(text) if n]
    if len(numbers) not in ((count,) if text.startswith("[") else (1,)) and (numbers or count):
        fail(f"{len(numbers)} numbers for the type {kind}", at)
    if not numbers:
        return np.zeros(shape, dtype)
    try:
        array = _of_numbers(numbers, dtype)
    except (ValueError, OverflowError):
        fail(f"a number does not fit {kind.element}", at)
    return np.broadcast_to(array, shape) if array.size == 1 else array.reshape(shape)


def _bytes(elements: Elements, text: str) -> bytes:
    try:
        if not text.startswith("0x"):
            raise ValueError
        return bytes.fromhex(text[2:])
    except ValueError:
        elements.scanner.fail("expected bytes as pairs of hexadecimal digits", elements.at)


def _of_bytes(
    elements: Elements, data: bytes, dtype: np.dtype[np.generic], shape: tuple[int, ...]
) -> Array:
    """
    Return the elements that are stored in `data` as an array. Booleans are stored as bytes, or as
    bits, the lowest first.
    """
    count, fail = prod(shape), elements.scanner.fail
    if dtype == np.bool_:
        bits = np.frombuffer(data, np.uint8)
        if len(data) == count:
            return (bits != 0).reshape(shape)
        if len(data) == (count + 7) // 8:
            return np.unpackbits(bits, bitorder="little")[:count].astype(np.bool_).reshape(shape)
        data = data[:1] * count if len(data) == 1 else data
    stored = dtype.newbyteorder("<")
    if len(data) == stored.itemsize and not elements.is_resource:
        return np.broadcast_to(np.frombuffer(data, stored).astype(dtype), shape)
    if len(data) != count * stored.itemsize:
        fail(
            f"{len(data)} bytes for {elements.type}, expected {count * stored.itemsize}",
            elements.at,
        )
    return np.frombuffer(data, stored).astype(dtype).reshape(shape)


def _of_numbers(numbers: list[str], dtype: np.dtype[np.generic]) -> Array:
    if dtype == np.bool_:
        known = {"true": True, "false": False, "1": True, "0": False, "-1": True}
        if unknown := [n for n in numbers if n not in known]:
            raise ValueError(unknown[0])
        return np.array([known[n] for n in numbers])
    if dtype.kind == "f":
        return _floats(numbers, dtype)
    values = [int(n, 0) for n in numbers]
    info = np.iinfo(dtype.name)
    # Unsigned elements are written without a sign, signless elements with or without.
    wrap = 1 << info.bits
    if any(not -(wrap >> 1) <= v < wrap for v in values):
        raise OverflowError
    return np.array([v - wrap if v > info.max else v for v in values], dtype)


def _floats(numbers: list[str], dtype: np.dtype[np.generic]) -> Array:
    """
    Return `numbers` as an array of floats. A hexadecimal number is the bit pattern of a float.
    """
    with np.errstate(over="ignore"):
        if not any(n.startswith("0x") for n in numbers):
            return np.array(list(map(float, numbers)), np.float64).astype(dtype)
        bits = [int(n, 16) if n.startswith("0x") else -1 for n in numbers]
        plain = [0.0 if b >= 0 else float(n) for n, b in zip(numbers, bits, strict=True)]
        found = np.array(plain, np.float64).astype(dtype)
        unsigned = np.dtype(f"u{dtype.itemsize}")
        for i, pattern in enumerate(bits):
            if pattern >= 0:
                found[i : i + 1] = np.array([pattern], unsigned).view(dtype)
        return found
