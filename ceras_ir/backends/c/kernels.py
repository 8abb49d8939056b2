"""
The C functions of `runtime/`: templates whose `@NAME@` holes are filled with types, each with an
`#include` of those that it calls; those of floats are the interpreters' (`float_text`).

A model gets the functions that its layers ask for, each once, after those that it needs.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ceras_ir.interpreters.float_text import Text, float_text


@cache
def _template(name: str) -> Text:
    text = float_text(name) or Text.read(files("ceras_ir.backends.c") / "runtime", name)
    assert text is not None, name
    return text


def filled(text: str, holes: Mapping[str, object]) -> str:
    """`text` with a value in place of every `@NAME@`."""
    for hole, value in holes.items():
        text = text.replace(f"@{hole}@", str(value))
    return text


class Kernels:
    """The functions of one model, in the order they were asked for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def use(self, name: str, **holes: str) -> str:
        """Ask for a function; returns what it is called."""
        template = _template(name)
        for needed in template.needs:
            self.use(needed)
        text = filled(template.body, holes)
        assert "@" not in text, text
        suffix = holes.get("NAME")
        return self._keep(f"{name}_{suffix}" if suffix else name, text)

    def add(self, function: str, text: str, condition: str) -> str:
        """Add a function made for this model under a condition; returns what it is called."""
        return self._keep(function, f"#if {condition}\n{text}#endif\n")

    def _keep(self, function: str, text: str) -> str:
        """Store the text of a function unless it is present; return the name."""
        known = self._texts.setdefault(function, text)
        assert known == text, function
        return function

    @property
    def text(self) -> str:
        whole = "\n".join(self._texts.values())
        return re.sub(r"^static (?!const )", "MODEL_STATIC ", whole, flags=re.MULTILINE)
