"""
Names in the generated C: those of the user's model, and the prefix of everything that a model
names outside of functions (`--name`).

Templates and printers write `model_run`, `MODEL_OK` and `model.h`. Only `Prefix` renames them, so
that two models link into one program. Text that a comment quotes of the user's network does not
change, except for names of the interface. The target imports this module for its help, so the
module must be fast to import.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ceras_ir.support.diagnostics import InputError, UsageError

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
"""Words that C, C++ or an Arduino sketch keeps for itself."""

_LOCAL = """
    arena base workspace scratch memcpy memset argc argv stream path file weights fail layer region
"""

LOCAL = frozenset(_LOCAL.split())
"""Words that our own functions and programs use."""

RESERVED = re.compile(r"^(layer_|model_|region_|[0-9])|_t$|_f32$")
"""Names of our own functions, of types, and what does not start a name."""

SAFE = re.compile(rb"[A-Za-z0-9_ .:,;+\-=()\[\]{}<>@#&!~|^$'/]")


def identifier(name: str, prefix: str = "model") -> str:
    """
    A name in lower case, so that it is no macro: `conv1/Relu:0` gives `conv1_relu_0`. None is like
    a function's, which begin with `prefix`.
    """
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    is_taken = text in KEYWORDS | LOCAL or text.startswith(f"{prefix}_") or RESERVED.search(text)
    return f"t_{text}" if not text or is_taken else text


def identifiers(names: Sequence[str], prefix: str = "model") -> list[str]:
    """One identifier per name, all different."""
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
    `text` inside a comment or a string of C: whatever could end or change it, and all that is
    not printable ASCII, as `%` and two hexadecimal digits.
    """
    return "".join(chr(b) if SAFE.fullmatch(bytes([b])) else f"%{b:02X}" for b in text.encode())


def string_literal(text: str) -> str:
    """A string of C with the bytes of `text`; escapes are octal, which three digits end."""
    parts = (chr(b) if SAFE.fullmatch(bytes([b])) else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(parts)}"'


DEFAULT_PREFIX = "model"
MAX_LETTERS = 40

_LEGAL = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_LETTERS - 1}}}")
_COMMENT = re.compile(r"(/\*.*?\*/|//[^\n]*)", re.DOTALL)
_FILE = r"\bmodel(?=\.(?:h|c|o|weights)\b)"
_CODE = re.compile(rf"(?:\b|(?<=-D))(?:model(?=_\w)|MODEL(?=_\w)|(?:layer|LAYER)(?=_\d))|{_FILE}")
_INTERFACE = re.compile(
    r"(?:\b|(?<=-D))(?:model"
    r"(?=_(?:run|run_in|reset|reset_in|self_test|launch|load_weights|trace|weights|kernels|bench)\b)"
    rf"|MODEL(?=_[A-Z.]))|{_FILE}"
)


@dataclass(frozen=True)
class Prefix:
    """A name that replaces `model`."""

    name: str = DEFAULT_PREFIX

    def __post_init__(self) -> None:
        if not _LEGAL.fullmatch(self.name):
            raise UsageError(
                f"--name '{self.name}' does not begin names of C: take a letter, then up to "
                f"{MAX_LETTERS - 1} letters, digits and underscores"
            )
        if self.name.lower() in KEYWORDS | LOCAL:
            raise UsageError(f"--name '{self.name}' is a word of C or of its code: add to it")

    @classmethod
    def of_manifest(cls, content: Mapping[str, object]) -> "Prefix":
        """The prefix of a compiled folder; files of that name are opened, so it is checked."""
        name = content.get("prefix", DEFAULT_PREFIX)
        try:
            if isinstance(name, str):
                return cls(name)
        except UsageError:
            pass
        raise InputError(f"names no prefix of C files, but {name!r}; compile again")

    def entry(self) -> dict[str, object]:
        """What a manifest says of it."""
        return {} if self.name == DEFAULT_PREFIX else {"prefix": self.name}

    def renamed(self, text: str) -> str:
        """C, C++ or text of build files with this prefix."""
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
"""What templates are written with."""


Weights: TypeAlias = Literal["source", "file", "incbin"]
"""Where constants are: string literals, a file that is loaded, or one that is assembled in."""

Package: TypeAlias = Literal["zephyr", "esp-idf", "cmsis-pack"]
"""What frameworks of microcontrollers take a folder as."""

EncodingChoice: TypeAlias = Literal["auto", "dense", "csr", "csr-int8", "code"]
"""How weights of float matrix products lie in flash; see the pass `encode-weights`."""

NAME_HELP = (
    "begin every function, macro, constant and file with this instead of model, so that several "
    "models link into one program"
)

ENCODING_HELP = (
    "store the weights of float matrix products in this encoding; auto compresses only as far as "
    "a microcontroller board's flash requires"
)
