"""Names and text of the user's model, made safe for C."""

import re
from collections.abc import Sequence

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
