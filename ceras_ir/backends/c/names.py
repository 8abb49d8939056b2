"""
Choose names in the generated C: identifiers of tensors, and the prefix of global names (`--name`).

Templates and printers write `model_run`, `MODEL_OK` and `model.h`. Only `Prefix` renames them, so
that two models link into one program. Comments quote the network of the user unchanged, except for
names of the interface. The target imports this module for its help text, so the import must be
fast.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.options import option, options

_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while alignas alignof and asm bool catch class compl constexpr
    delete explicit export false friend main mutable namespace new noexcept not nullptr operator
    or private protected public reinterpret_cast static_assert template this throw true try
    typeid typename using virtual xor byte word boolean string stdin stdout stderr errno assert
    unix linux
"""

KEYWORDS = frozenset(_WORDS.split())
"""Words that C, C++ or Arduino sketches reserve."""

_LOCAL = """
    arena base workspace scratch memcpy memset argc argv stream path file weights fail layer region
"""

LOCAL = frozenset(_LOCAL.split())
"""Words that generated functions and programs use."""

RESERVED = re.compile(r"^(layer_|model_|region_|[0-9])|_t$|_f32$")
"""Names of generated functions and of types, and characters that cannot start a name."""

SAFE = re.compile(rb"[A-Za-z0-9_ .:,;+\-=()\[\]{}<>@#&!~|^$'/]")


def identifier(name: str, prefix: str = "model") -> str:
    """
    Return a C identifier for the tensor `name`: `conv1/Relu:0` gives `conv1_relu_0`. An empty
    result, a keyword, and a name that generated code uses (such as names that start with `prefix`
    and `_`) get the prefix `t_`.
    """
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    is_taken = text in KEYWORDS | LOCAL or text.startswith(f"{prefix}_") or RESERVED.search(text)
    return f"t_{text}" if not text or is_taken else text


def identifiers(names: Sequence[str], prefix: str = "model") -> list[str]:
    result: list[str] = []
    for name in names:
        base = candidate = identifier(name, prefix)
        number = 2
        while candidate in result:
            candidate, number = f"{base}_{number}", number + 1
        result.append(candidate)
    return result


def comment(text: str) -> str:
    """
    Return `text` in a form that cannot end a C comment or string: each unsafe byte of UTF-8 becomes
    `%` and two hex digits.
    """
    return "".join(chr(b) if SAFE.fullmatch(bytes([b])) else f"%{b:02X}" for b in text.encode())


def string_literal(text: str) -> str:
    r"""
    Return a C string literal, with quotes, of the UTF-8 bytes of `text`. Unsafe bytes become octal
    escapes of three digits, such as `\012`.
    """
    parts = (chr(b) if SAFE.fullmatch(bytes([b])) else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(parts)}"'


DEFAULT_PREFIX = "model"
MAX_LETTERS = 40

_LEGAL = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_LETTERS - 1}}}")
_COMMENT = re.compile(r"(/\*.*?\*/|//[^\n]*)", re.DOTALL)
_FILE_NAME = r"\bmodel(?=\.(?:h|c|o|weights)\b)"
_CODE = re.compile(
    rf"(?:\b|(?<=-D))(?:model(?=_\w)|MODEL(?=_\w)|(?:layer|LAYER)(?=_\d))|{_FILE_NAME}"
)
_INTERFACE = re.compile(
    r"(?:\b|(?<=-D))(?:model"
    r"(?=_(?:run|run_in|reset|reset_in|self_test|launch|load_weights|trace|weights|kernels|bench)\b)"
    rf"|MODEL(?=_[A-Z.]))|{_FILE_NAME}"
)


@dataclass(frozen=True)
class Prefix:
    """
    The name that replaces `model` in names of C functions, macros and files (`--name`). An illegal
    or reserved name raises `UsageError`.
    """

    name: str = DEFAULT_PREFIX

    def __post_init__(self) -> None:
        if not _LEGAL.fullmatch(self.name):
            raise UsageError(
                f"--name '{self.name}' is not an identifier of C: use a letter, then up to "
                f"{MAX_LETTERS - 1} letters, digits and underscores"
            )
        if self.name.lower() in KEYWORDS | LOCAL:
            raise UsageError(
                f"--name '{self.name}' is reserved by C or by the generated code: add a suffix"
            )

    @classmethod
    def of_manifest(cls, content: Mapping[str, object]) -> "Prefix":
        """
        Return the prefix that is stored in `content`, the manifest of a compiled folder. The
        default is `model`; a prefix that is no legal identifier raises `InputError`.
        """
        name = content.get("prefix", DEFAULT_PREFIX)
        try:
            if isinstance(name, str):
                return cls(name)
        except UsageError:
            pass
        raise InputError(f"names no prefix of C files, but {name!r}; compile again")

    def entry(self) -> dict[str, object]:
        return {} if self.name == DEFAULT_PREFIX else {"prefix": self.name}

    def renamed(self, text: str) -> str:
        """
        Return `text` (C, C++ or a build file) with this prefix instead of `model`: `model_run`
        becomes `NAME_run`. In comments, only names of the interface are replaced.
        """
        if self.name == DEFAULT_PREFIX:
            return text
        parts = _COMMENT.split(text)
        parts[::2] = [_CODE.sub(self._spelled, part) for part in parts[::2]]
        parts[1::2] = [_INTERFACE.sub(self._spelled, part) for part in parts[1::2]]
        return "".join(parts)

    def _spelled(self, found: re.Match[str]) -> str:
        match found[0]:
            case "model":
                return self.name
            case "MODEL":
                return self.name.upper()
            case "layer":
                return f"{self.name}_layer"
            case word:
                return f"{self.name.upper()}_{word}"


MODEL = Prefix()
"""The prefix that templates use."""


WeightStorage: TypeAlias = Literal["source", "file", "incbin"]
"""Constants in string literals, in a file that is loaded, or in a file that is assembled."""

Package: TypeAlias = Literal["zephyr", "esp-idf", "cmsis-pack", "platformio"]
"""Frameworks of microcontrollers that accept a folder as a package."""

EncodingChoice: TypeAlias = Literal["auto", "dense", "csr", "csr-int8", "code"]
"""The encoding of weights of float matrix products in flash; see the pass `encode-weights`."""

Goal: TypeAlias = Literal["size", "balanced", "speed"]
"""The goal for which kernels and the optimization level of the C compiler are chosen."""


@options
class OptimizeOptions:
    """The option `--optimize` of targets that write C for microcontrollers."""

    optimize: Goal = option("balanced", usual=True)
    """
    Choose kernels and the optimization level for the smallest flash (size), the shortest time
    (speed), or at most 1.3 times that flash and 1.1 times that time (balanced; if impossible, the
    smallest product of both). On computers, balanced is speed.
    """


@options
class PrefixOptions:
    """The option `--name` of targets that write a C interface."""

    prefix: str = option("model", metavar="PREFIX", tools=("ceras-compile",), flag="--name")
    """
    Start the names of functions, macros, constants and files with this, so that several models link
    into a program.
    """


@options
class EncodingOptions:
    """
    The option `--encoding` of targets that can store the weights of float matrix products in
    several encodings.
    """

    encoding: EncodingChoice | None = option(
        None, unused="the network has no matrix product with float weights"
    )
    """
    Store the weights of float matrix products in this encoding; auto compresses only as far as a
    microcontroller board's flash requires.
    """
