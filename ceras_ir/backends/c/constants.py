"""
Pack the constants of a model and write them as C source.

In the source, a constant is a union of bytes, given as string literals, and of the real type.
Compilers parse a string a hundred times faster than a list of numbers. Constants are packed one
after the other while they are written. Bytes are little-endian, which the weights header checks.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]

CONSTANT_ALIGNMENT_BYTES = 64
"""The alignment of large constants in bytes, for vector loads."""

WORD_ALIGNMENT_BYTES = 4
"""
The minimum alignment of a constant, for kernels that load bytes as words: the alignment on
processors without vectors, except for elements of 64 bits.
"""

LINE = 1 << 10
"""The number of bytes in a line of a string literal."""

MAX_LITERAL_CHARACTERS = 64 * LINE


QUADS = "MODEL_QUADS"
"""
Preprocessor condition: register tiles of bytes without a dot-product instruction (`quads.py`). The
constants of these processors are not counted in flash.
"""


@dataclass(frozen=True)
class ReadOnlyArray:
    """A constant array of the generated C."""

    name: str
    ctype: str
    size: int
    nbytes: int
    alignment: int
    """The alignment in bytes."""
    data: Callable[[], Array]
    """Return the packed elements, `nbytes` bytes."""
    condition: str = ""
    """The preprocessor condition that selects this variant of the name."""

    def chunks(self) -> Iterator[NDArray[np.uint8]]:
        """
        Yield the bytes of the array in pieces of at most `MAX_LITERAL_CHARACTERS`, to limit memory.
        """
        flat = np.ascontiguousarray(self.data()).reshape(-1).view(np.uint8)
        assert flat.nbytes == self.nbytes, (self.name, flat.nbytes, self.nbytes)
        for start in range(0, flat.size, MAX_LITERAL_CHARACTERS):
            yield flat[start : start + MAX_LITERAL_CHARACTERS]

    def conditional(self, line: str) -> list[str]:
        return [f"#if {self.condition}", line, "#endif"] if self.condition else [line]

    def digest(self) -> bytes:
        found = sha256()
        for chunk in self.chunks():
            found.update(chunk.data)
        return found.digest()


class ConstantPool:
    """
    The constants of a model, in the order in which layers add them. Large constants are aligned for
    vectors if the processor `has_vectors`.
    """

    def __init__(self, *, has_vectors: bool) -> None:
        self.has_vectors = has_vectors
        self.constants: list[ReadOnlyArray] = []
        self.copies: list[tuple[ReadOnlyArray, ReadOnlyArray]] = []
        """Pairs of a constant that is not stored and the stored constant with equal bytes."""

    def add(
        self,
        name: str,
        ctype: str,
        size: int,
        itemsize: int,
        data: Callable[[], Array],
        condition: str = "",
    ) -> str:
        """
        Add a constant of `size` elements with `itemsize` bytes, and return the C expression of a
        pointer to the first element. `data` is called for the elements when they are written;
        `condition` is the preprocessor condition under which the constant exists, or "".
        """
        nbytes = size * itemsize
        alignment = max(itemsize, 8 if self.has_vectors else WORD_ALIGNMENT_BYTES)
        if self.has_vectors and nbytes >= CONSTANT_ALIGNMENT_BYTES:
            alignment = CONSTANT_ALIGNMENT_BYTES
        constant = ReadOnlyArray(name, ctype, size, nbytes, alignment, data, condition)
        self.constants.append(constant)
        return name.upper()

    def merge_duplicates(self) -> None:
        """
        Keep only the first of constants with equal type and bytes, such as the weights of the steps
        of an unrolled loop. The duplicates move to `copies`.
        """
        alike: defaultdict[tuple[str, int, str], list[ReadOnlyArray]] = defaultdict(list)
        for constant in self.constants:
            alike[constant.ctype, constant.size, constant.condition].append(constant)
        for group in alike.values():
            first: dict[bytes, ReadOnlyArray] = {}
            for constant in group if len(group) > 1 else []:
                known = first.setdefault(constant.digest(), constant)
                if known is not constant:
                    self.copies.append((constant, known))
        duplicates = {id(copy) for copy, _ in self.copies}
        self.constants = [c for c in self.constants if id(c) not in duplicates]

    def merge_beginnings(self) -> None:
        """
        Move constants that are the start of a larger constant to `copies`, such as the positions of
        a shorter sentence. Alignment remains, because both start at the same address.
        """
        alike: defaultdict[tuple[str, str], list[ReadOnlyArray]] = defaultdict(list)
        for constant in sorted(self.constants, key=lambda each: -each.nbytes):
            alike[constant.ctype, constant.condition].append(constant)
        found: dict[int, ReadOnlyArray] = {}
        for group in alike.values():
            kept: list[tuple[ReadOnlyArray, bytes]] = []
            for constant in group:
                if constant.nbytes < CONSTANT_ALIGNMENT_BYTES:
                    continue
                data = b"".join(chunk.tobytes() for chunk in constant.chunks())
                larger = next((c for c, whole in kept if whole.startswith(data)), None)
                if larger is None:
                    kept.append((constant, data))
                else:
                    found[id(constant)] = larger
        self.copies = [(copy, found.get(id(c), c)) for copy, c in self.copies]
        self.copies += [(c, found[id(c)]) for c in self.constants if id(c) in found]
        self.constants = [c for c in self.constants if id(c) not in found]

    @property
    def nbytes(self) -> int:
        """The bytes in flash, of the constants that a compiler selects."""
        return sum(c.nbytes for c in selected(self.constants))


def selected(constants: Sequence[ReadOnlyArray]) -> list[ReadOnlyArray]:
    """
    Return the constants that count in flash: one of those with equal names, which have the same
    size and different preprocessor conditions, and none with the condition `QUADS`.
    """
    return list({c.name: c for c in constants if c.condition != QUADS}.values())


@cache
def _escapes() -> NDArray[np.uint32]:
    """
    Return a table with the characters of a string literal for each byte, packed into a 32-bit word
    and padded with NUL. The index is the byte, plus 256 times the next byte.

    `?` is escaped because of trigraphs. An octal escape is short unless the next character is a
    digit.
    """
    spelt = np.zeros((2, 256), np.uint32)
    for byte in range(256):
        char = chr(byte)
        if char in '"\\?':
            short = full = f"\\{char}"
        elif " " <= char <= "~":
            short = full = char
        else:
            short, full = f"\\{byte:o}", f"\\{byte:03o}"
        spelt[:, byte] = [int.from_bytes(text.encode(), "little") for text in (short, full)]
    table = np.tile(spelt[0], (256, 1))
    table[ord("0") : ord("8")] = spelt[1]
    return table.reshape(-1)


def literal(data: NDArray[np.uint8]) -> bytes:
    """
    Return the characters between the quotes of a C string literal for `data`, which must be short
    enough for a single line.
    """
    pairs = data.astype(np.uint16)
    pairs[:-1] |= data[1:].astype(np.uint16) << 8
    return _escapes()[pairs].tobytes().translate(None, b"\0")


def write_source(
    constants: list[ReadOnlyArray], header: str, renamed: Callable[[str], str], stream: BinaryIO
) -> None:
    """
    Write `model_weights.c` to `stream`: `header`, then each constant as string literals. Text that
    is not data is written as `renamed(text)`, which inserts the prefix of `--name`.
    """
    stream.write(renamed(header).encode())
    for constant in constants:
        name = constant.name
        head = f"\n#if {constant.condition}" if constant.condition else ""
        head += f"\nMODEL_ALIGN({constant.alignment}) const union {name} {name} = {{"
        stream.write(renamed(head).encode())
        for chunk in constant.chunks():
            lines = [
                b'\n"' + literal(chunk[i : i + LINE]) + b'"' for i in range(0, chunk.size, LINE)
            ]
            stream.write(b"".join(lines))
        stream.write(b"};\n#endif\n" if constant.condition else b"};\n")


def declarations(pool: ConstantPool) -> str:
    """
    Return the C declarations of all constants for `model_weights.h`. A constant is a union of its
    bytes and its elements; a macro names the elements.
    """
    lines: list[str] = []
    for c in pool.constants:
        lines += c.conditional(
            f"extern const union {c.name} {{ MODEL_LITERAL({c.nbytes}); "
            f"{c.ctype} values[{c.size}]; }} {c.name};\n"
            f"#define {c.name.upper()} ({c.name}.values)"
        )
    for copy, c in pool.copies:
        lines += copy.conditional(f"#define {copy.name.upper()} ({c.name}.values)")
    return "\n".join(lines) + "\n"


def block_diagonal(weights: NDArray[np.generic], groups: int, together: int) -> NDArray[np.generic]:
    """
    Return the weights of a grouped layer with `together` groups merged into one: [O, ..., C/groups]
    -> [O, ..., together * C/groups]. The weights between different groups are 0.
    """
    if together == 1:
        return weights
    outputs, *taps, channels = weights.shape
    wide = np.zeros((outputs, *taps, together, channels), weights.dtype)
    per_group = outputs // groups
    for o in range(outputs):
        wide[o, ..., o // per_group % together, :] = weights[o]
    return wide.reshape(outputs, *taps, together * channels)
